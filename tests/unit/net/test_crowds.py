"""Do connections that send much, in whatever sizes, leave others their time of a turn?"""

from __future__ import annotations

import struct
import tracemalloc
from itertools import count, pairwise

from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import FEW_FRAMES, LEAST_LARGE_BYTES, MOST_BYTES, MOST_LARGE_BYTES, TURN_S, TurnShares
from tests.unit.net.test_connection_core import (
    FRAME_S,
    CostlyFrames,
    Frames,
    Hub,
    Wire,
    connect,
    frame,
    receive,
    run_turns,
)


def test_a_crowd_of_shorter_bursts_has_a_turns_time_too() -> None:
    """promise:PR8, inv:M6: 300 times fifteen requests, one fewer than makes somebody one of a crowd, are no more in one turn than its time allows and one of each."""
    handler = CostlyFrames()
    hub = handler.hub
    connections = [ServerConnection(hub) for _ in range(300)]
    for number, connection in enumerate(connections):
        connection.connection_made(Wire())
        receive(connection, struct.pack(">iqq", 16, number, 0) * 15)
    longest_s = 2 * 15 * FRAME_S + TURN_S + 300 * FRAME_S
    assert hub.spent <= longest_s
    assert len(set(handler.seen)) == 300
    while hub.turns:
        spent = hub.spent
        run_turns(hub)
        assert hub.spent - spent <= longest_s + 300 * (FEW_FRAMES - 1) * FRAME_S
    assert len(handler.seen) == 300 * 15


def test_who_sent_something_large_before_is_one_of_a_crowd() -> None:
    """inv:M6: what is read of large requests does not count, and only that."""
    handler = Frames()
    hub = Hub(handler)
    wires = [Wire() for _ in range(20)]
    connections = [ServerConnection(hub) for _ in wires]
    large = frame(300_000)
    for connection, wire in zip(connections, wires, strict=True):
        connection.connection_made(wire)
        receive(connection, large[:200_000])
        receive(connection, large[200_000:])
        run_turns(hub)
    for connection in connections:
        receive(connection, frame(MOST_BYTES // 8 - 4) * 8)
    assert [each.is_reading() for each in wires] == [True] * 4 + [False] * 16


def test_a_crowd_with_large_requests_shares_out_a_turn() -> None:
    """inv:M6: forty that send megabytes as fast as they are read had two of them each in one turn, a second of work."""
    handler = Frames()
    hub = Hub(handler)
    connections = [ServerConnection(hub) for _ in range(40)]
    data = frame(1_000_000)
    begun = data[:200_000]
    for connection in connections:
        connection.connection_made(Wire())
        receive(connection, begun)
    run_turns(hub)
    sizes = []
    for connection in connections:
        view = connection.get_buffer(-1)
        sizes.append(len(view))
        view[:] = data[len(begun) : len(begun) + len(view)]
        connection.buffer_updated(len(view))
    assert LEAST_LARGE_BYTES <= max(sizes) <= MOST_LARGE_BYTES // 10
    assert not any(connection.is_reading for connection in connections)
    run_turns(hub)
    assert all(connection.is_reading for connection in connections)
    hub.spent += TURN_S
    for connection, size in zip(connections, sizes, strict=True):
        receive(connection, data[len(begun) + size :])
        run_turns(hub)
    assert handler.seen == [data[4:]] * 40


def test_when_a_turn_has_lasted_little_is_read_of_large_requests() -> None:
    """inv:M6: and as much as before in the next one."""
    connection, hub, wire = connect(Frames())
    receive(connection, frame(1_000_000)[:200_000])
    assert len(connection.get_buffer(-1)) > LEAST_LARGE_BYTES
    hub.spent += TURN_S
    receive(connection, bytes(MOST_BYTES))
    assert len(connection.get_buffer(-1)) == LEAST_LARGE_BYTES
    assert not wire.is_reading()
    run_turns(hub)
    assert len(connection.get_buffer(-1)) > LEAST_LARGE_BYTES
    assert wire.is_reading()


def test_room_for_large_requests_is_made_while_a_turn_has_time() -> None:
    """inv:M6: a megabyte of memory takes up to two milliseconds to get; twenty of forty got it in one turn, 40 ms of it."""
    hub = Hub(Frames())
    ticks = count()
    # Each look at the clock is a fifth of a turn's time later.
    hub.shares = TurnShares(lambda: next(ticks) * TURN_S / 5)
    data = frame(1_000_000)
    connections = [ServerConnection(hub) for _ in range(40)]
    for connection in connections:
        connection.connection_made(Wire())
        receive(connection, data[:40_000])
    run_turns(hub)
    without_room = []
    for connection in connections:
        view = connection.get_buffer(-1)
        if len(view) < LEAST_LARGE_BYTES:  # all that its buffer has
            view[:] = data[40_000 : 40_000 + len(view)]
            connection.buffer_updated(len(view))
            without_room.append(connection)
    assert len(without_room) > 30
    reading = [0]
    for _ in range(40):
        run_turns(hub)
        reading.append(sum(connection.is_reading for connection in without_room))
    assert reading[-1] == len(without_room)
    assert 1 <= max(now - before for before, now in pairwise(reading)) <= 6


def test_many_small_requests_take_no_large_buffer() -> None:
    """inv:M1: what is left of a flood of small requests is kept in little more than its bytes; twenty of them touched twenty of the pool's buffers, 40 MiB."""
    connection, hub, _ = connect(CostlyFrames())
    receive(connection, frame(1_000) * 200)
    assert 100_000 < hub.memory.held < hub.pool.size // 4


def test_who_may_not_be_read_gets_no_room() -> None:
    """inv:M1: at the limit of requests' memory a full buffer is not doubled when its turn comes, but when there is memory again."""
    hub = Hub(Frames())
    data = frame(1_000_000)
    connections = [ServerConnection(hub) for _ in range(40)]
    hub.memory.on_exhausted += [each.read_again for each in connections]
    for connection in connections:
        connection.connection_made(Wire())
        receive(connection, data[:40_000])
    run_turns(hub)
    for connection in connections[32:]:  # the pool has lent all its buffers
        view = connection.get_buffer(-1)
        view[:] = data[40_000 : 40_000 + len(view)]
        connection.buffer_updated(len(view))
    hub.memory.limit = hub.memory.held
    hub.memory.on_exhausted[0]()  # the first may be read, so that its request can end
    tracemalloc.start()
    for _ in range(10):
        run_turns(hub)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert taken < 100_000
    hub.memory.limit = -1
    for connection in connections[32:]:
        connection.read_again()
        assert connection.is_reading
