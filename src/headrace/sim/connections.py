"""Clients' connections to a simulated broker: whole frames, understood and answered by the node's own `rpc.connection`.

So Produce and Fetch run as they do behind a socket: parsed from bytes, answered in bytes and in slices of files, in the order of their requests. The
buffer of a request is overwritten once it was handled, as a socket's is: whoever still reads it reads nonsense.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.served_apis import BROKER_APIS, NOT_CONTROLLER_APIS
from headrace.core.errors import StorageFault
from headrace.core.holds import Hold
from headrace.rpc.connection import Connection
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_work import LongWork
from headrace.sim.codec_path import LARGEST
from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.node.machine import NodeMachine
    from headrace.rpc.output import SendWatcher
    from headrace.sim.links import Question
    from headrace.sim.network import Network

_USED_UP: Final = b"\xee"
_ROWS: Final = {row.key: row for row in BROKER_APIS}
_SLOW_CLOCK_S: Final = 0.001
"""Each look at it takes so long: long work has a few steps a turn, and others come between."""


def broker_service(
    machine: NodeMachine, now_ms: Callable[[], int], soon: Callable[[Callable[[], None]], None]
) -> ListenerService:
    """What the broker of a simulated node serves. `soon` runs something in a later step of the node."""
    looks = iter(range(1 << 62))
    return ListenerService(
        listener="PLAINTEXT",
        rows=dict(_ROWS),
        target=machine.broker,
        now_ms=now_ms,
        refuses={row.key: row for row in NOT_CONTROLLER_APIS},
        long_work=LongWork(soon=soon, clock=lambda: next(looks) * _SLOW_CLOCK_S),
    )


class ClientConnections:
    """The connections of one run of a broker, by their numbers."""

    def __init__(self, service: ListenerService, network: Network, before_response: Callable[[], None]) -> None:
        self._service = service
        self._network = network
        self._before_response = before_response
        self._open: dict[int, SimConnection] = {}

    def take(self, question: Question) -> None:
        """A client's request, as it came over the wire."""
        connection = self._open.get(question.number)
        if connection is None:
            host = f"n{question.source}"
            connection = self._open[question.number] = SimConnection(
                self._service, question.number, host, respond=self._respond, gone=self._gone
            )
        connection.take(question)

    def lose(self, number: int) -> Callable[[], None] | None:
        """A client's side is gone: what then happens here; None where it is not known."""
        connection = self._open.pop(number, None)
        return None if connection is None else connection.lost

    def _respond(self, question: Question, frame: memoryview) -> None:
        self._before_response()
        self._network.answer_bytes(question, frame)

    def _gone(self, question: Question) -> None:
        self._open.pop(question.number, None)
        self._network.answer(question, None)


class SimConnection:
    """One connection to a broker. The socket side of `rpc.connection` (its `Output`).

    `respond` is given each response: the request that it is for, and its frame without the length. `gone` closes the connection.
    """

    def __init__(
        self,
        service: ListenerService,
        number: int,
        host: str,
        *,
        respond: Callable[[Question, memoryview], None],
        gone: Callable[[Question], None],
    ) -> None:
        self.holds: set[Hold] = set()
        self.pieces: list[Any] = []
        self.stopwatch: Callable[[], float] | None = None
        self.turn_began = 0.0
        self._respond = respond
        self._gone = gone
        self._waiting: deque[Question] = deque()
        self._asked: dict[int, Question] = {}
        self._frames = FrameReader(largest=LARGEST, smallest=SMALLEST_RESPONSE)
        self._is_closed = False
        self._is_kept = False
        self._last: Question | None = None
        self._connection = Connection(service, self, client_host=host, connection_id=number)

    def take(self, question: Question) -> None:
        """A request has arrived whole."""
        self._waiting.append(question)
        self._deliver()

    def lost(self) -> None:
        """The client's side is gone."""
        self._is_closed = True
        self._connection.closed()

    def _deliver(self) -> None:
        while self._waiting and not self.holds and not self._is_closed:
            question = self._last = self._waiting.popleft()
            assert question.frame is not None, "requests of clients are bytes"
            frame = bytearray(question.frame)
            self._asked[question.correlation & 0x7FFFFFFF] = question
            self._is_kept = False
            self._connection.frame(memoryview(frame))
            if not self._is_kept:
                frame[:] = _USED_UP * len(frame)
            self.flush()

    # --- `rpc.connection.Output` ---

    def flush(self) -> None:
        """Responses leave, as far as they are whole."""
        pieces, self.pieces[:] = list(self.pieces), []
        try:
            data = b"".join(_bytes(piece) for piece in pieces)
        except StorageFault as fault:
            self.close(str(fault))
            return
        for frame in self._frames.feed(data):
            correlation = int.from_bytes(frame[:4], "big", signed=True)
            self._respond(self._asked.pop(correlation), frame)

    def flush_soon(self) -> None:
        """The same: all that one step gives leaves with it."""
        self.flush()

    def when_sent(self, watcher: SendWatcher) -> None:
        """All leaves at once."""
        watcher.sending()
        watcher.sent()

    def keep_frame(self) -> None:
        """The request's bytes stay as they are."""
        self._is_kept = True

    def hold(self, reason: Hold) -> None:
        """No further request is begun."""
        self.holds.add(reason)

    def release(self, reason: Hold) -> None:
        """The next request is begun, unless there is another reason not to."""
        self.holds.discard(reason)
        self._deliver()

    def abort(self, reason: str) -> None:
        """The broker hangs up at once."""
        self.pieces.clear()
        self.close(reason)

    def close(self, reason: str) -> None:
        """The broker hangs up."""
        if not self._is_closed and self._last is not None:
            self._is_closed = True
            self._connection.closed()
            self._gone(self._last)


def _bytes(piece: Any) -> bytes:
    """What travels: bytes as they are, or what lies in a file now."""
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    data = b"" if piece.file is None else piece.file.pread(piece.size, piece.position)
    if len(data) != piece.size:
        raise StorageFault(f"{len(data)} of {piece.size} bytes can be read", directory="")
    return bytes(data)
