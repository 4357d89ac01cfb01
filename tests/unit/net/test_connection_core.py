"""What does a connection do with the bytes that come, however they are cut?"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

from headrace.core.holds import Hold
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.closed_log import ClosedConnectionLog
from headrace.net.limits import ConnectionLimits
from headrace.net.ports import FrameHandler
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import (
    FEW_FRAMES,
    LEAST_BYTES,
    LEAST_FRAMES,
    MOST_BYTES,
    MOST_FRAMES,
    MUCH_BYTES,
    TURN_S,
    TurnShares,
)


class Wire(asyncio.Transport):
    """The event loop's side of a connection: remembers what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_shut = False
        self._is_read = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep it."""
        self.written += data

    def is_reading(self) -> bool:
        """Whether bytes are wanted."""
        return self._is_read

    def pause_reading(self) -> None:
        """Remember."""
        self._is_read = False

    def resume_reading(self) -> None:
        """Remember."""
        self._is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Everything fits."""

    def is_closing(self) -> bool:
        """After `close`."""
        return self.is_shut

    def close(self) -> None:
        """Remember."""
        self.is_shut = True


class Hub:
    """A listener without sockets, whose time a test moves. `turns` are the callbacks of the next turn of the loop, `spent` the seconds of its work so far."""

    def __init__(self, handler: FrameHandler) -> None:
        self.name = "L"
        self.limits = ConnectionLimits()
        self.pool = BufferPool()
        self.spent = 0.0
        self.shares = TurnShares(lambda: self.spent)
        self.memory = RequestMemory()
        self.closed_log = ClosedConnectionLog()
        self.turn_time = 0.0
        self.turns: list[Callable[[], None]] = []
        self.lets_in = True
        self._handler = handler

    def now(self) -> float:
        """The test's time."""
        return self.turn_time

    def soon(self, callback: Callable[[], None]) -> None:
        """In the next turn."""
        self.turns.append(callback)

    def served(self) -> None:
        """Nobody counts."""

    def may_begin(self, connection: ServerConnection, let_in: Callable[[], None]) -> bool:
        """What the test says."""
        return self.lets_in

    def waits_for_room(self, connection: ServerConnection) -> bool:
        """There is room."""
        return False

    def admit(self, connection: ServerConnection) -> str | None:
        """Everybody."""
        return None

    def gone(self, connection: ServerConnection) -> None:
        """Nothing is counted."""

    def report_bug(self, connection: ServerConnection, fault: Exception) -> None:
        """There is none."""
        raise fault

    def handler_for(self, connection: ServerConnection) -> FrameHandler:
        """The test's."""
        return self._handler


class Frames:
    """Keeps the frames; `is_costly` ends the turn after each."""

    def __init__(self, *, is_costly: bool = False) -> None:
        self.seen: list[bytes] = []
        self.begun: list[tuple[bytes, int]] = []
        self._is_costly = is_costly

    def frame(self, view: memoryview) -> bool:
        """Keep it."""
        self.seen.append(bytes(view))
        return self._is_costly

    def begins(self, head: memoryview, size: int) -> None:
        """Keep it."""
        self.begun.append((bytes(head), size))

    def closed(self) -> None:
        """Nothing to do."""


def connect(handler: Frames) -> tuple[ServerConnection, Hub, Wire]:
    """A connection that was just made."""
    hub, wire = Hub(handler), Wire()
    connection = ServerConnection(hub)
    connection.connection_made(wire)
    return connection, hub, wire


def receive(connection: ServerConnection, data: bytes) -> None:
    """Bytes arrive."""
    while data:
        view = connection.get_buffer(-1)
        part = data[: len(view)]
        view[: len(part)] = part
        connection.buffer_updated(len(part))
        data = data[len(part) :]


def frame(size: int, fill: bytes = b"x") -> bytes:
    """A frame of `size` bytes."""
    return struct.pack(">i", size) + fill * size


def test_each_request_of_a_steady_stream_has_its_own_time() -> None:
    """input:B3: on a slow line a request's end and the next one's beginning often come together, and all are of one size."""
    handler = Frames()
    connection, hub, _ = connect(handler)
    stream = b"".join(frame(1_000) for _ in range(50))
    began: list[Any] = []
    for at in range(0, len(stream), 700):
        hub.turn_time += 1.0
        receive(connection, stream[at : at + 700])
        if connection.frame_since is not None:
            began.append(hub.turn_time - connection.frame_since)
    assert len(handler.seen) == 50
    assert max(began) <= 2.0


def test_others_have_a_turn_after_each_costly_request() -> None:
    """inv:M6, fault:S99: a hundred at once are served one a turn; the order stays."""
    handler = Frames(is_costly=True)
    connection, hub, wire = connect(handler)
    receive(connection, b"".join(frame(10, bytes([number])) for number in range(100)))
    assert len(handler.seen) == 1
    assert not wire.is_reading()
    for number in range(2, 101):
        turns, hub.turns = hub.turns, []
        for turn in turns:
            turn()
        assert len(handler.seen) == number
    assert [each[0] for each in handler.seen] == list(range(100))
    assert wire.is_reading()
    assert hub.turns == []


def test_a_connection_that_waits_its_turn_is_not_read() -> None:
    """inv:M4, fault:S95, KIP-612: although the loop begins to read only after it told of the connection, whatever was said then."""
    hub, wire = Hub(Frames()), Wire()
    hub.lets_in = False
    connection = ServerConnection(hub)
    connection.connection_made(wire)
    wire.resume_reading()
    assert len(connection.get_buffer(-1)) <= 64
    for turn in hub.turns:
        turn()
    assert not wire.is_reading()
    connection.release(Hold.ADMISSION)
    assert wire.is_reading()


def test_a_new_connection_waits_for_memory_too() -> None:
    """inv:M1: it has not asked, and the loop reads at once; so it gets next to nothing to read into."""
    handler = Frames()
    hub, wire = Hub(handler), Wire()
    hub.memory.limit = 100
    hub.memory.changed(100)
    first, connection = ServerConnection(hub), ServerConnection(hub)
    first.connection_made(Wire())
    receive(first, b"\0")
    connection.connection_made(wire)
    wire.resume_reading()
    data = frame(200)
    connection.get_buffer(-1)[:64] = data[:64]
    connection.buffer_updated(64)
    assert hub.memory.held <= 100 + 2 * 64
    assert not wire.is_reading()
    hub.memory.changed(-100)
    first.connection_lost(None)
    assert wire.is_reading()
    receive(connection, data[64:])
    assert handler.seen == [data[4:]]


def test_nobody_starves_behind_requests_that_are_held_back() -> None:
    """inv:M1: one connection's requests wait behind a long poll and take all the memory there is; another one's are served."""
    handler = Frames()
    hub = Hub(handler)
    hub.memory.limit = 100
    connections = [ServerConnection(hub) for _ in range(3)]
    hub.memory.on_exhausted += [each.read_again for each in connections]
    wires = [Wire() for _ in connections]
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)
    waiting, other, third = connections
    waiting.hold(Hold.REPLY)
    receive(waiting, frame(200) * 2)
    assert hub.memory.is_exhausted
    assert [wire.is_reading() for wire in wires] == [False, True, True]
    data = frame(300, b"y")
    for each in (other, third):
        receive(each, data[:64])
    assert [wire.is_reading() for wire in wires] == [False, True, False]
    receive(other, data[64:])
    assert [wire.is_reading() for wire in wires] == [False, True, True]
    receive(third, data[64:])
    assert handler.seen == [data[4:]] * 2


def test_many_begun_requests_hold_about_what_came_of_them() -> None:
    """inv:M2, fault:S96: large buffers go to a few connections; a thousand others get what they need, and all requests arrive."""
    handler = Frames()
    hub = Hub(handler)
    connections = [ServerConnection(hub) for _ in range(1_000)]
    data = frame(900_000)
    for connection in connections:
        connection.connection_made(Wire())
        receive(connection, data[:40_000])
    assert hub.memory.held <= 32 * hub.pool.size + 968 * 4 * 40_000
    run_turns(hub)
    for connection in connections[-5:]:
        receive(connection, data[40_000:])
        run_turns(hub)
    assert handler.seen == [data[4:]] * 5
    for connection in connections:
        connection.connection_lost(None)
    assert hub.memory.held == 0
    assert hub.pool.has_room


def test_a_loop_that_asks_for_room_is_not_told_to_stop() -> None:
    """inv:M1: the bound is reached by a buffer that grows; it counts when its bytes have come, because uvloop reads in any case."""
    connection, hub, wire = connect(Frames())
    hub.memory.limit = 5_000
    hub.memory.on_exhausted.append(connection.read_again)
    other = ServerConnection(hub)
    other.connection_made(Wire())
    receive(other, frame(100)[:90])
    data = frame(900_000)
    for at in range(0, 200_000, 1_000):
        rest = data[at : at + 1_000]
        while rest:
            held, is_reading = hub.memory.held, wire.is_reading()
            view = connection.get_buffer(-1)
            assert (hub.memory.held, wire.is_reading()) == (held, is_reading)
            part = rest[: len(view)]
            view[: len(part)] = part
            connection.buffer_updated(len(part))
            rest = rest[len(part) :]
    assert hub.memory.held > 200_000


def test_nothing_is_sent_behind_what_closed_the_connection() -> None:
    """B-W07: an answer that comes later would stand in the place of one that never came."""
    connection, _, wire = connect(Frames())
    connection.pieces.append(b"first")
    connection.close("refused")
    connection.pieces.append(b"second")
    connection.flush()
    assert bytes(wire.written) == b"first"
    assert wire.is_shut


def test_a_length_that_was_told_takes_no_memory() -> None:
    """inv:M2, fault:S96: what is kept for a begun request follows the bytes that came."""
    connection, hub, _ = connect(Frames())
    receive(connection, struct.pack(">i", 100_000_000) + b"x")
    assert 0 < hub.memory.held <= 4_096


def test_memory_is_counted_as_it_is_taken() -> None:
    """inv:M1: a buffer that a connection keeps counts whole, until it is given back."""
    connection, hub, _ = connect(Frames())
    data = frame(900_000)
    receive(connection, data[:40_000])
    assert hub.memory.held == hub.pool.size
    receive(connection, data[40_000:])
    assert hub.memory.held == 0


def run_turns(hub: Hub) -> None:
    """The next turn of the loop."""
    turns, hub.turns = hub.turns, []
    for turn in turns:
        turn()


def test_a_long_request_is_shown_by_its_beginning() -> None:
    """promise:PR8: what may not be so long is closed before it is received, and keeps no memory; a short one is not asked about."""
    handler = Frames()
    connection, hub, _ = connect(handler)
    receive(connection, frame(40_000)[:20_000])
    receive(connection, frame(40_000)[20_000:])
    assert (handler.begun, len(handler.seen)) == ([], 1)
    receive(connection, frame(2 << 20)[:7])
    assert handler.begun == []
    receive(connection, frame(2 << 20)[7:100])
    assert handler.begun == [(b"xxxx", 2 << 20)]
    handler.begins = lambda head, size: connection.close(f"{head!r} has {size} bytes")  # type: ignore[method-assign]
    receive(connection, frame(2 << 20)[100:200])
    assert connection.is_closed
    assert hub.memory.held == 0


def test_a_crowd_shares_out_a_turn() -> None:
    """promise:PR8, inv:M6: of twenty that send as fast as they are read the later ones get less, and all of them in the next turn, until fewer do."""
    handler = Frames()
    hub = Hub(handler)
    flood = frame(30_000) * 50
    wires, sizes = [], []
    for _ in range(20):
        wires.append(Wire())
        connection = ServerConnection(hub)
        connection.connection_made(wires[-1])
        view = connection.get_buffer(-1)
        sizes.append(len(view))
        view[:] = flood[: len(view)]
        connection.buffer_updated(len(view))
    assert sizes[:4] == [MOST_BYTES] * 4
    assert sum(sizes) <= 11 * MOST_BYTES
    assert [each.is_reading() for each in wires] == [True] * 4 + [False] * 16
    run_turns(hub)
    assert all(each.is_reading() for each in wires)
    assert hub.shares.frames == MOST_FRAMES // 5
    newcomer = ServerConnection(hub)
    newcomer.connection_made(Wire())
    assert len(newcomer.get_buffer(-1)) == MOST_BYTES // 5
    before = len(handler.seen)
    receive(newcomer, frame(10) * 30)
    assert len(handler.seen) == before + MOST_FRAMES // 5
    run_turns(hub)
    assert len(handler.seen) == before + 30
    receive(newcomer, flood[:MUCH_BYTES])
    run_turns(hub)
    assert (hub.shares.frames, hub.shares.read_bytes) == (MOST_FRAMES, MOST_BYTES)


FRAME_S = 0.0005


class CostlyFrames(Frames):
    """Each takes half a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.hub = Hub(self)

    def frame(self, view: memoryview) -> bool:
        """Work."""
        self.hub.spent += FRAME_S
        return super().frame(view)


def test_a_crowd_of_short_bursts_shares_out_a_turn_too() -> None:
    """promise:PR8, inv:M6: 200 times 255 requests in some kilobytes are no more in one turn than its time allows, and all are served, each turn some of everybody's."""
    handler = CostlyFrames()
    hub = handler.hub
    wires = [Wire() for _ in range(200)]
    connections = [ServerConnection(hub) for _ in wires]
    before_the_clock_counts_s = 2 * MOST_FRAMES * FRAME_S
    longest_s = TURN_S + 200 * (FEW_FRAMES - 1) * FRAME_S  # who has less than a share left does not count
    for number, (connection, wire) in enumerate(zip(connections, wires, strict=True)):
        connection.connection_made(wire)
        receive(connection, frame(16, bytes([number])) * 255)
    assert hub.spent <= before_the_clock_counts_s + longest_s
    assert {each[0] for each in handler.seen} == set(range(200))
    turns = 0
    while hub.turns:
        spent = hub.spent
        run_turns(hub)
        assert hub.spent - spent <= longest_s
        turns += 1
    assert len(handler.seen) == 200 * 255
    assert turns <= 255 / LEAST_FRAMES
    assert all(each.is_reading() for each in wires)
    receive(connections[0], frame(16) * 255)
    run_turns(hub)
    assert hub.shares.frames == MOST_FRAMES


def test_who_could_be_read_on_at_once_is_one_of_a_crowd() -> None:
    """inv:M6: a loop reads a socket again, many times in a turn, while it fills what it was given, however little that is: connections that are read so leave the turn, too."""
    handler = CostlyFrames()
    hub = handler.hub
    wires = [Wire() for _ in range(2)]
    connections = [ServerConnection(hub) for _ in wires]
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)
        receive(connection, frame(1_000)[:100])
    hub.spent += TURN_S
    data = (frame(1_000) * 50)[100:]
    reads = 0
    while wires[0].is_reading():
        view = connections[0].get_buffer(-1)
        assert len(view) < MUCH_BYTES
        view[:] = data[: len(view)]
        data = data[len(view) :]
        connections[0].buffer_updated(len(view))
        reads += 1
    assert 1 <= reads <= TURN_S / FRAME_S
    assert len(connections[1].get_buffer(-1)) >= LEAST_BYTES - 100
    run_turns(hub)
    assert wires[0].is_reading()


def test_who_is_closed_keeps_no_memory_and_no_turn_of_others() -> None:
    """inv:M1: its last answers may stay with the peer for a minute; only who has the pass is read while memory is exhausted."""
    hub = Hub(Frames())
    hub.memory = RequestMemory(4_096)
    wires = [Wire(), Wire()]
    connections = [ServerConnection(hub) for _ in wires]
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)
        receive(connection, frame(100_000)[:6_000])
        connection.read_again()
    assert [each.is_reading() for each in wires] == [True, False]
    connections[0].close("what it sent is no request")
    run_turns(hub)
    assert [each.is_reading() for each in wires] == [True, True]
    connections[1].close("nor this")
    assert hub.memory.held == 0


def test_a_connection_is_read_when_the_last_reason_against_it_is_gone() -> None:
    """A reply that is waited for and a quota end in any order; one of them alone keeps the next request back."""
    handler = Frames()
    connection, hub, wire = connect(handler)
    connection.hold(Hold.REPLY)
    connection.hold(Hold.QUOTA)
    receive(connection, frame(10))
    for reason, seen in ((Hold.REPLY, 0), (Hold.QUOTA, 1)):
        connection.release(reason)
        run_turns(hub)
        assert (len(handler.seen), wire.is_reading()) == (seen, bool(seen))


def test_memory_that_is_short_does_not_hold_back_what_has_come() -> None:
    """inv:M1: a request that is there makes room when it is handled, however little there is."""
    handler = Frames()
    connection, hub, _ = connect(handler)
    hub.memory.limit = 100
    connection.hold(Hold.REPLY)
    receive(connection, frame(200) + frame(200)[:50])
    connection.holds.add(Hold.MEMORY)
    connection.release(Hold.REPLY)
    run_turns(hub)
    assert len(handler.seen) == 1


def test_large_frames_are_read_whole_and_none_is_begun() -> None:
    """Nothing of the next request must be moved out of its way: a stream of them is received into one buffer, from its start."""
    handler = Frames()
    connection, hub, _ = connect(handler)
    data = frame(900_000)
    two = 2 * data
    buffer = hub.pool.shared
    for first in (200_000, 300_000, 1_000_000):
        view = connection.get_buffer(-1)
        assert view.obj is buffer
        first = min(first, len(view))
        view[:first] = two[:first]
        connection.buffer_updated(first)
        rest = connection.get_buffer(-1)
        assert rest.obj is buffer
        assert len(rest) == len(two) - first
        rest[:] = two[first:]
        connection.buffer_updated(len(rest))
        assert hub.memory.held == 0
        assert len(connection.get_buffer(-1)) == len(two)
    assert handler.seen == [data[4:]] * 6


def test_a_small_request_after_a_large_one_is_served() -> None:
    """What was expected was the size of the last one; anything may come."""
    handler = Frames()
    connection, _, _ = connect(handler)
    receive(connection, frame(900_000))
    receive(connection, frame(20) * 3 + frame(400_000)[:100])
    receive(connection, frame(400_000)[100:])
    assert [len(each) for each in handler.seen] == [900_000, 20, 20, 20, 400_000]


class Keeping:
    """Keeps views of the frames."""

    def __init__(self) -> None:
        self.connection: ServerConnection | None = None
        self.kept: list[memoryview] = []

    def frame(self, view: memoryview) -> bool:
        """Keep it as it is."""
        assert self.connection is not None
        self.connection.keep_frame()
        self.kept.append(view)
        return False

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def closed(self) -> None:
        """Nothing to do."""


def test_a_frame_that_is_kept_is_not_written_over() -> None:
    """Records of a response are used where they came: its buffer is not received into again, whether it was the shared one or the connection's own."""
    handler = Keeping()
    hub = Hub(handler)
    connection = handler.connection = ServerConnection(hub)
    connection.connection_made(Wire())
    receive(connection, frame(20, b"a") + frame(20, b"b")[:10])
    receive(connection, frame(20, b"b")[10:])
    receive(connection, frame(90_000, b"c")[:50_000])
    receive(connection, frame(90_000, b"c")[50_000:] + frame(20, b"d"))
    receive(connection, frame(20, b"e"))
    assert [bytes(view) for view in handler.kept] == [
        b"a" * 20, b"b" * 20, b"c" * 90_000, b"d" * 20, b"e" * 20,
    ]  # fmt: skip
    assert hub.memory.held == 0


def test_what_is_flushed_soon_leaves_once_at_the_end_of_the_turn() -> None:
    """In its order, with what came until then; nothing is sent twice, and nothing once the connection has closed."""
    connection, hub, wire = connect(Frames())
    connection.pieces.append(b"one")
    connection.flush_soon()
    connection.pieces.append(b"two")
    connection.flush_soon()
    assert (bytes(wire.written), len(hub.turns)) == (b"", 1)
    hub.turns.pop()()
    assert bytes(wire.written) == b"onetwo"
    connection.pieces.append(b"three")
    connection.flush_soon()
    connection.flush()
    assert bytes(wire.written) == b"onetwothree"
    connection.connection_lost(None)
    hub.turns.pop()()
    assert bytes(wire.written) == b"onetwothree"
