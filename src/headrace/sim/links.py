"""Connections of the simulated network: who is at their ends, and what is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.core.peers import SendFailure
    from headrace.wire.schema import Message


class Caller(Protocol):
    """Who sends requests: a node or a client. Its answers wait while it is paused."""

    @property
    def node_id(self) -> int:
        """A node's id; a client's is below zero."""

    @property
    def run(self) -> int:
        """Answers to an earlier run of a node go nowhere."""

    @property
    def is_up(self) -> bool:
        """The process runs."""

    def heard(self, correlation: int, outcome: Message | SendFailure, source: Server | None) -> None:
        """The outcome of a request."""


class Server(Protocol):
    """Who takes requests: a node."""

    @property
    def node_id(self) -> int:
        """Its id."""

    @property
    def run(self) -> int:
        """Counts its starts."""

    @property
    def is_up(self) -> bool:
        """The process runs."""

    @property
    def is_dark(self) -> bool:
        """Its host has no power: it does not even refuse."""

    def is_listening(self, port: int) -> bool:
        """Somebody takes connections on this port."""

    def asked(self, request: Question) -> None:
        """A request arrived."""

    def link_closed(self, port: int, number: int, run: int) -> None:
        """A connection to this port of that run is gone, and the server noticed."""


class Link:
    """One connection from a caller to a server's port."""

    __slots__ = (
        "caller",
        "caller_run",
        "down_us",
        "is_connected",
        "is_open",
        "is_stuck",
        "number",
        "pending",
        "port",
        "serving",
        "target",
        "target_run",
        "up_us",
        "waiting",
    )

    def __init__(self, caller: Caller, target: Server, port: int, number: int) -> None:
        self.caller = caller
        self.number = number
        self.caller_run = caller.run
        self.target = target
        self.target_run = target.run
        self.port = port
        self.is_open = True
        self.is_connected = False
        self.is_stuck = False
        self.up_us = 0
        self.down_us = 0
        self.pending: dict[int, Question] = {}
        self.waiting: list[Question] = []
        self.serving: Question | None = None


class Question:
    """A request on its way, being served, or answered. `link` is None for a repeated one, whose answer nobody waits for.

    `frame` is what travels of a client's request that is sent as bytes, without its length.
    """

    __slots__ = (
        "api_version",
        "correlation",
        "frame",
        "is_dead",
        "link",
        "message",
        "number",
        "port",
        "source",
        "source_run",
        "target",
        "through_codec",
    )

    def __init__(self, link: Link, correlation: int, message: Message) -> None:
        self.link: Link | None = link
        self.correlation = correlation
        self.message = message
        self.frame: bytes | None = None
        self.api_version = -1
        self.port = link.port
        self.number = link.number
        self.source = link.caller.node_id
        self.source_run = link.caller_run
        self.target = link.target
        self.through_codec = False
        self.is_dead = False
