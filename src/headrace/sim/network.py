"""Messages that arrive, when, and what the sender hears when they don't.

Connections are made for a pair of nodes, an address and a purpose. Within one connection messages keep their order; between connections
nothing does. A cut is one-way: what was sent into it waits, as TCP sends again and again, until the cut heals or somebody gives the
connection up. A connection that dies takes with it whatever did not arrive, cut at any byte: half a frame is no message.

A host that is up answers a connect to a dead process with a refusal; a host without power is silent.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.errors import EncodeError
from headrace.core.peers import Destination, SendFailure
from headrace.core.values import value_class
from headrace.sim.codec_path import read_response, request_frame, request_over_wire, response_over_wire
from headrace.sim.links import Caller, Link, Question, Server

if TYPE_CHECKING:
    from headrace.sim.clock import Schedule
    from headrace.wire.schema import Message

_AGAIN_US = 50_000


@value_class
class NetworkQuality:
    """How good the network is. Times in microseconds, chances from 0 to 1 a message."""

    delay_min_us: int = 200
    delay_max_us: int = 2_000
    slow_chance: float = 0.0
    slow_max_us: int = 100_000
    drop_chance: float = 0.0
    repeat_chance: float = 0.0
    repeat_max_us: int = 5_000_000
    codec_chance: float = 0.05


class BytesCall(NamedTuple):
    """A request that travels as bytes of this version."""

    correlation: int
    message: Message
    version: int


class Network:
    """All connections of a run."""

    def __init__(self, schedule: Schedule, chance: random.Random, quality: NetworkQuality) -> None:
        self._schedule = schedule
        self._chance = chance
        self.quality = quality
        self._servers: dict[tuple[str, int], Server] = {}
        self._links: dict[tuple[int, str, int, object], Link] = {}
        self.versions: dict[int, dict[int, int]] = {}
        """Node -> api -> the highest version it speaks, where that is not the newest: a node of an older release."""
        self.newest: dict[int, int] = {}
        """Api -> the newest version that a controller listener serves."""
        self.cuts: dict[tuple[int, int], int] = {}
        """(from, to) -> how many faults cut this direction."""
        self.kept: dict[tuple[int, int], list[tuple[Question, Message]]] = {}
        """(from, to) -> the answers that are kept, while they are to come late."""
        self._links_made = 0

    # --- names and cuts ---

    def add_server(self, host: str, port: int, server: Server) -> None:
        """`server` is who one finds at this address."""
        self._servers[host, port] = server

    def remove_server(self, host: str, port: int) -> None:
        """Nobody is found at this address any more."""
        del self._servers[host, port]

    def cut(self, source: int, target: int) -> None:
        """Nothing passes from `source` to `target` until as many `heal`."""
        self.cuts[source, target] = self.cuts.get((source, target), 0) + 1

    def heal(self, source: int, target: int) -> None:
        """One cut less."""
        left = self.cuts.get((source, target), 0) - 1
        if left > 0:
            self.cuts[source, target] = left
        else:
            self.cuts.pop((source, target), None)

    def keep_answers(self, source: int, target: int) -> None:
        """What `source` answers to `target` comes when it is let go, in its order, on connections that live so long. Requests pass."""
        self.kept.setdefault((source, target), [])

    def let_go(self, source: int, target: int) -> None:
        """What was kept comes now, and from now on all comes in time."""
        for question, response in self.kept.pop((source, target), ()):
            self._schedule.after(0, self._come_back, question, response)

    def _number(self) -> int:
        self._links_made += 1
        return self._links_made

    # --- sending ---

    def send(
        self, caller: Caller, to: Destination, purpose: object, correlation: int, message: Message, *, timeout_us: int
    ) -> None:
        """A request leaves; the caller hears one outcome, at the latest after `timeout_us`."""
        question = self._question(caller, to, purpose, correlation, message)
        if question is None:
            return
        self._schedule.after(timeout_us, self._timed_out, question)
        if self._encode(question):
            self._send_up(question)
        else:
            assert question.link is not None, "it is on its way"
            question.link.pending.pop(correlation)
            who = (caller, caller.run, correlation)
            self._schedule.after(self._delay_us(), self._hear_failure, who, SendFailure.UNSUPPORTED_VERSION)

    def send_bytes(
        self,
        caller: Caller,
        to: Destination,
        call: BytesCall,
        *,
        timeout_us: int,
        purpose: object = "bytes",
    ) -> None:
        """The same on a connection of its own where requests and responses travel as bytes, at a version that the caller chose."""
        correlation, message, version = call
        question = self._question(caller, to, purpose, correlation, message)
        if question is not None:
            self._schedule.after(timeout_us, self._timed_out, question)
            question.api_version = version
            question.frame = request_frame(message, version, correlation_id=correlation)
            self._send_up(question)

    def _question(
        self, caller: Caller, to: Destination, purpose: object, correlation: int, message: Message
    ) -> Question | None:
        """A request on the connection that it takes; None where nobody has the address, which the caller will hear."""
        server = self._servers.get((to.host, to.port))
        if server is None:
            self._schedule.after(
                self._delay_us(), self._hear_failure, (caller, caller.run, correlation), SendFailure.DISCONNECTED
            )
            return None
        key = (caller.node_id, to.host, to.port, purpose)
        link = self._links.get(key)
        if link is None or not link.is_open or link.caller_run != caller.run:
            link = self._links[key] = Link(caller, server, to.port, self._number())
            wait = self._delay_us()
            link.up_us = self._schedule.now_us + wait + self._delay_us()
            self._schedule.after(wait, self._connect, link)
        question = Question(link, correlation, message)
        link.pending[correlation] = question
        return question

    def _encode(self, question: Question) -> bool:
        """Choose the version; some requests then really become bytes. False when the version cannot say it."""
        key = question.message.SCHEMA.api_key
        newest = self.newest.get(key, -1)
        version = newest
        for node_id in (question.source, question.target.node_id):
            spoken = self.versions.get(node_id)
            if spoken is not None:
                version = min(version, spoken.get(key, version))
        question.api_version = version
        chance = self.quality.codec_chance
        if newest < 0 or not (version < newest or (chance and self._chance.random() < chance)):
            return True
        question.through_codec = True
        try:
            question.message = request_over_wire(
                question.message, version, correlation_id=question.correlation, chance=self._chance
            )
        except EncodeError:
            return False
        return True

    def _delay_us(self) -> int:
        quality = self.quality
        if quality.slow_chance and self._chance.random() < quality.slow_chance:
            return self._chance.randrange(quality.delay_max_us, quality.slow_max_us)
        return self._chance.randrange(quality.delay_min_us, quality.delay_max_us)

    def _connect(self, link: Link, _: object) -> None:
        """The first packet arrives, or does not."""
        if not link.is_open:
            return
        caller, target = link.caller, link.target
        if self._is_silent(caller, target):
            self._schedule.after(_AGAIN_US, self._connect, link)
            return
        if not target.is_up or not target.is_listening(link.port):
            self._schedule.after(self._delay_us(), self._refused, link)
            return
        link.target_run = target.run
        link.is_connected = True

    def _refused(self, link: Link, _: object) -> None:
        self.drop(link, SendFailure.REFUSED)

    def _send_up(self, question: Question) -> None:
        link = question.link
        assert link is not None
        if self.quality.drop_chance and self._chance.random() < self.quality.drop_chance:
            link.is_stuck = True
        at_us = max(self._schedule.now_us + self._delay_us(), link.up_us + 1)
        link.up_us = at_us
        self._schedule.at(at_us, self._arrive, question)

    def _arrive(self, question: Question, _: object) -> None:
        """A request comes to its server."""
        link = question.link
        if link is None or not link.is_open or question.is_dead:
            return
        caller, target = link.caller, link.target
        if link.is_stuck:
            return
        if not link.is_connected or (caller.node_id, target.node_id) in self.cuts or target.is_dark:
            self._schedule.after(_AGAIN_US, self._arrive, question)
            return
        if not target.is_up or target.run != link.target_run:
            self.drop(link, SendFailure.DISCONNECTED)  # the new process knows no such connection
            return
        if question.frame is not None:
            target.asked(question)
            return
        if self.quality.repeat_chance and self._chance.random() < self.quality.repeat_chance:
            self._schedule.after(self._chance.randrange(0, self.quality.repeat_max_us), self._arrive_again, question)
        if link.serving is not None:
            link.waiting.append(question)
            return
        link.serving = question
        target.asked(question)

    def _arrive_again(self, question: Question, _: object) -> None:
        """The same request once more, from a connection that is long gone (S30)."""
        target = question.target
        if not target.is_up or target.is_dark or (question.source, target.node_id) in self.cuts:
            return
        again = Question(
            Link(_Nobody(question.source, question.source_run), target, question.port, 0),
            question.correlation,
            question.message,
        )
        again.link = None
        target.asked(again)

    # --- answering ---

    def answer(self, question: Question, response: Message | None) -> None:
        """The server gives its answer; None closes the connection."""
        link = question.link
        if link is None or not link.is_open:
            return
        if response is None:
            self._schedule.after(self._delay_us(), self._closed_by_server, link)
            return
        if question.through_codec:
            response = response_over_wire(
                response, question.api_version, correlation_id=question.correlation, chance=self._chance
            )
        if self.quality.drop_chance and self._chance.random() < self.quality.drop_chance:
            link.is_stuck = True
        at_us = max(self._schedule.now_us + self._delay_us(), link.down_us + 1)
        link.down_us = at_us
        self._schedule.at(at_us, self._come_back, question, response)
        link.serving = None
        if link.waiting:
            self._schedule.after(0, self._next_waiting, link)

    def answer_bytes(self, question: Question, frame: memoryview) -> None:
        """The same for a response that is bytes: a frame without its length."""
        self.answer(question, read_response(frame, type(question.message), question.api_version))

    def _next_waiting(self, link: Link, _: object) -> None:
        target = link.target
        if link.is_open and link.waiting and link.serving is None and target.is_up and target.run == link.target_run:
            link.serving = link.waiting.pop(0)
            target.asked(link.serving)

    def _closed_by_server(self, link: Link, _: object) -> None:
        self.drop(link, SendFailure.DISCONNECTED)

    def _come_back(self, question: Question, response: Message) -> None:
        link = question.link
        if link is None or not link.is_open or link.is_stuck or question.is_dead:
            return
        caller = link.caller
        way = (link.target.node_id, caller.node_id)
        if way in self.cuts:
            self._schedule.after(_AGAIN_US, self._come_back, question, response)
            return
        if way in self.kept:
            self.kept[way].append((question, response))
            return
        if not caller.is_up or caller.run != link.caller_run:
            link.is_open = False
            return
        if link.pending.pop(question.correlation, None) is not None:
            question.is_dead = True
            caller.heard(question.correlation, response, link.target)

    # --- ends ---

    def _timed_out(self, question: Question, _: object) -> None:
        link = question.link
        if link is None or link.pending.pop(question.correlation, None) is None:
            return
        question.is_dead = True
        caller = link.caller
        self.drop(link, SendFailure.DISCONNECTED)
        if caller.is_up and caller.run == link.caller_run:
            caller.heard(question.correlation, SendFailure.TIMED_OUT, None)

    def _hear_failure(self, who: tuple[Caller, int, int], failure: SendFailure) -> None:
        caller, run, correlation = who
        if caller.is_up and caller.run == run:
            caller.heard(correlation, failure, None)

    def drop(self, link: Link, failure: SendFailure) -> None:
        """A connection ends for its caller: every request on it fails."""
        if not link.is_open:
            return
        link.is_open = False
        self._schedule.after(self._delay_us(), self._server_notices, link)
        pending, link.pending = link.pending, {}
        caller = link.caller
        for correlation in pending:
            pending[correlation].is_dead = True
            if caller.is_up and caller.run == link.caller_run:
                caller.heard(correlation, failure, None)

    def process_died(self, server: Server, *, is_silent: bool) -> None:
        """A process ended. Unless its host is dark, its connections are reset, as far as the resets get through."""
        for key in list(self._links):
            link = self._links[key]
            if link.caller.node_id == server.node_id:
                link.is_open = False
                del self._links[key]
                if not is_silent:
                    self._schedule.after(self._delay_us(), self._server_notices, link)
            elif link.target is server and link.is_open and not is_silent:
                self._schedule.after(self._delay_us(), self._reset, link)

    def _server_notices(self, link: Link, _: object) -> None:
        """The end of a connection reaches its server, unless the way there is cut."""
        target = link.target
        if target.is_up and not target.is_dark and (link.caller.node_id, target.node_id) not in self.cuts:
            target.link_closed(link.port, link.number, link.target_run)

    # --- probes ---

    def probe(
        self, caller: Caller, to: tuple[str, int], *, timeout_us: int, done: Callable[[SendFailure | None], None]
    ) -> None:
        """A connect without a byte; `done` is told None when it was taken, while the caller's process lives."""
        server = self._servers.get(to)
        self._schedule.after(2 * self._delay_us(), self._probed, (caller, caller.run, server, to[1], timeout_us), done)

    def _probed(self, what: tuple[Caller, int, Server | None, int, int], done: Callable[[Any], None]) -> None:
        caller, run, server, port, timeout_us = what
        failure: SendFailure | None = None
        wait_us = 0
        if server is None:
            failure = SendFailure.DISCONNECTED
        elif self._is_silent(caller, server):
            failure, wait_us = SendFailure.TIMED_OUT, timeout_us
        elif not server.is_up or not server.is_listening(port):
            failure = SendFailure.REFUSED

        def tell(_one: object, _two: object) -> None:
            if caller.is_up and caller.run == run:
                done(failure)

        self._schedule.after(wait_us, tell)

    def _is_silent(self, caller: Caller, target: Server) -> bool:
        """No packet comes back."""
        there, back = (caller.node_id, target.node_id), (target.node_id, caller.node_id)
        return there in self.cuts or back in self.cuts or target.is_dark

    def _reset(self, link: Link, _: object) -> None:
        if (link.target.node_id, link.caller.node_id) not in self.cuts:
            self.drop(link, SendFailure.DISCONNECTED)

    def reset_some(self, share: float) -> int:
        """Connections die at whatever byte they are (S31); the number that did."""
        dying = [link for link in self._links.values() if link.is_open and self._chance.random() < share]
        for link in dying:
            self.drop(link, SendFailure.DISCONNECTED)
        return len(dying)


class _Nobody:
    """The sender of a repeated request: its answer goes nowhere."""

    is_up = False

    def __init__(self, node_id: int, run: int) -> None:
        self.node_id = node_id
        self.run = run

    def heard(self, correlation: int, outcome: object, source: object) -> None:
        """Nobody is there."""
