"""Voters, added to the quorum of a running cluster or taken out (KIP-853)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.testing.asking import ask
from headrace.testing.member import Member
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.schema import Message

_TRANSIENT: Final = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_CONTROLLER)
_TIMEOUT_MS = 10_000
_PAUSE_S = 0.1


class Quorum(Protocol):
    """What is asked of a cluster here."""

    cluster_id: str

    def leader(self) -> Member:
        """Wait for the leader."""

    def __getitem__(self, node_id: int) -> Member:
        """The node of an id."""


def add_voter(cluster: Quorum, node_id: int, *, timeout_s: float = 60.0) -> None:
    """Make a running controller a voter. Raises OperatorError: the leader refuses, or no leader did it in time."""
    member = cluster[node_id]
    end_point = Listener(name="CONTROLLER", host=member.place.host, port=member.controller_port)

    def request() -> AddRaftVoterRequest:
        return AddRaftVoterRequest(
            cluster_id=cluster.cluster_id,
            timeout_ms=_TIMEOUT_MS,
            voter_id=node_id,
            voter_directory_id=Uuid.parse(member.directory_id),
            listeners=(end_point,),
        )

    _change(cluster, request, version=1, done=ErrorCode.DUPLICATE_VOTER, timeout_s=timeout_s)


def remove_voter(cluster: Quorum, node_id: int, *, timeout_s: float = 60.0) -> None:
    """Make a voter an observer. Raises OperatorError: the leader refuses, or no leader did it in time."""
    directory_id = Uuid.parse(cluster[node_id].directory_id)

    def request() -> RemoveRaftVoterRequest:
        return RemoveRaftVoterRequest(cluster_id=cluster.cluster_id, voter_id=node_id, voter_directory_id=directory_id)

    _change(cluster, request, version=0, done=ErrorCode.VOTER_NOT_FOUND, timeout_s=timeout_s)


def _change(
    cluster: Quorum, request: Callable[[], Message], *, version: int, done: ErrorCode, timeout_s: float
) -> None:
    """Ask the leader until it is done; `done` is the refusal that says a try before has done it."""
    deadline = time.monotonic() + timeout_s
    tries = 0
    while True:
        leader = cluster.leader()
        tries += 1
        try:
            host, port = leader.place.host, leader.controller_port
            answer = ask(host, port, request(), version, timeout_s=2 * _TIMEOUT_MS / 1000)
            code, text = ErrorCode(answer.error_code), answer.error_message
        except OSError as error:
            code, text = ErrorCode.REQUEST_TIMED_OUT, str(error)
        if code == ErrorCode.NONE or (code == done and tries > 1):
            return
        if code not in _TRANSIENT or time.monotonic() > deadline:
            raise OperatorError(f"node {leader.node_id} refuses to change the voters: {code.name}: {text}")
        time.sleep(_PAUSE_S)
