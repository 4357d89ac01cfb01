"""Is nobody kept from being read by what others do, at the limit of a turn's time and of the memory of requests?"""

from __future__ import annotations

from headrace.core.holds import Hold
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import LEAST_BYTES
from tests.unit.net.test_connection_core import CostlyFrames, Frames, Hub, Wire, frame, receive, run_turns


def arrives(connection: ServerConnection, wire: Wire, data: bytes) -> bytes:
    """What the loop reads of a socket in which this waits; the rest of it."""
    while data and wire.is_reading():
        view = connection.get_buffer(-1)
        part = data[: len(view)]
        view[: len(part)] = part
        connection.buffer_updated(len(part))
        data = data[len(part) :]
        if len(part) < len(view):
            break
    return data


def crowd_has_come(hub: Hub, *, frames: int) -> None:
    """Sixty connections, each with so many small requests."""
    crowd = [ServerConnection(hub) for _ in range(60)]
    for each in crowd:
        each.connection_made(Wire())
        receive(each, frame(16) * frames)


def test_a_large_request_is_read_while_others_have_every_turn() -> None:
    """inv:M6: who needs room gets it, one a turn, though a crowd before it has requests for more than a turn's time all the time."""
    handler = CostlyFrames()
    hub = handler.hub
    crowd_has_come(hub, frames=400)
    large, wire = ServerConnection(hub), Wire()
    large.connection_made(wire)
    body = b"large" * 40_000
    left = len(body).to_bytes(4) + body
    assert len(large.get_buffer(-1)) == LEAST_BYTES
    for _ in range(60):
        left = arrives(large, wire, left)
        run_turns(hub)
    assert body in handler.seen
    assert len(handler.seen) < 60 * 400


def test_who_has_its_turn_twice_in_one_has_it_once() -> None:
    """inv:M6: what TLS has opened comes in many parts, also to who must wait; of each of them was another turn made, and each went on for good."""
    handler = CostlyFrames()
    hub = handler.hub
    crowd_has_come(hub, frames=255)
    opened = ServerConnection(hub)
    opened.connection_made(Wire())
    for number in range(16):
        receive(opened, frame(16, bytes([number])) * 200)
    for _ in range(3):
        run_turns(hub)
    assert sum(body != b"x" * 16 for body in handler.seen) <= 2 * 32
    assert hub.turns.count(opened._has_its_turn) == 1


class Exhausting(Frames):
    """The first request takes all the memory that there is."""

    hub: Hub

    def frame(self, view: memoryview) -> bool:
        """Take it."""
        if not self.seen:
            self.hub.memory.changed(self.hub.memory.limit)
        return super().frame(view)


def test_who_has_nothing_more_to_say_is_not_the_one_that_is_read() -> None:
    """inv:M1: at the limit of requests' memory one that has begun a request is read; one whose requests were all there kept the others from being read."""
    handler, others = Exhausting(), Frames()
    hub = handler.hub = Hub(handler)
    hub.memory.limit = 50_000
    done, other = ServerConnection(hub), ServerConnection(hub)
    hub.memory.on_exhausted += [done.read_again, other.read_again]
    for each in (done, other):
        each.connection_made(Wire())
    other.frame = others.frame
    data = frame(5_000)
    receive(other, data[:1_000])
    receive(done, frame(100) * 2)
    assert len(handler.seen) == 2
    assert hub.memory.is_exhausted
    assert other.is_reading
    receive(other, data[1_000:])
    assert others.seen == [data[4:]]


def test_who_may_be_read_and_is_held_back_then_lets_others_be_read() -> None:
    """inv:M1: of a client that does not read its answers nothing is read, and of others is."""
    handler = Frames()
    hub = Hub(handler)
    first, second = ServerConnection(hub), ServerConnection(hub)
    hub.memory.on_exhausted += [first.read_again, second.read_again]
    data = frame(20_000)
    for each in (first, second):
        each.connection_made(Wire())
        receive(each, data[:1_000])
    hub.memory.limit = hub.memory.held
    hub.memory.on_exhausted[0]()
    hub.memory.on_exhausted[1]()
    assert [each.is_reading for each in (first, second)] == [True, False]
    first.hold(Hold.OUTPUT)
    first.read_again()
    assert [each.is_reading for each in (first, second)] == [False, True]
    receive(second, data[1_000:])
    assert handler.seen == [data[4:]]
    first.release(Hold.OUTPUT)
    run_turns(hub)
    receive(first, data[1_000:])
    assert handler.seen == [data[4:]] * 2


def test_thousands_that_wait_are_not_all_asked_when_one_has_been_read() -> None:
    """inv:M1: at the limit of requests' memory each request of one connection had thousands of others asked whether they may be read now."""
    handler = Frames()
    hub = Hub(handler)
    hub.memory.limit = 100
    hub.memory.changed(100)
    asked: list[int] = []
    for number in range(1_000):
        assert not hub.memory.may_read(number, lambda: asked.append(1), has_begun=False)
    busy, begun = ServerConnection(hub), ServerConnection(hub)
    wire = Wire()
    busy.connection_made(Wire())
    begun.connection_made(wire)
    run_turns(hub)
    data = frame(200)
    receive(busy, data[:100])
    receive(begun, data[:20])
    reads = [wire.is_reading()]
    receive(busy, data[100:])
    assert [*reads, wire.is_reading()] == [False, True]
    assert asked == []
    hub.memory.changed(-hub.memory.held)
    assert len(asked) == 1_000
