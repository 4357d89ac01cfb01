"""Buffers, limits and hints of the listener, each by itself."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any, cast

import pytest

from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.closed_log import printable
from headrace.net.creation_rate import PeerGone, peer_of
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.protocol_hints import hint_for
from headrace.net.turn_shares import TurnShares


def test_a_taken_buffer_keeps_its_bytes_and_another_takes_its_place() -> None:
    pool = BufferPool(size=16)
    pool.shared[:4] = b"abcd"
    taken = pool.take()
    assert taken[:4] == b"abcd"
    assert pool.shared is not taken


def test_the_next_bytes_go_where_the_last_were() -> None:
    """What was given back is still in the processor's cache: one buffer serves a stream of requests."""
    pool = BufferPool(size=16)
    taken = pool.take()
    other = pool.shared
    pool.give_back(taken)
    assert pool.shared is taken
    assert pool.take() is taken
    assert pool.shared is other


def test_a_buffer_that_somebody_keeps_is_the_pools_no_more() -> None:
    """A response's records lie in it for as long as they are used."""
    pool = BufferPool(size=16)
    kept = pool.shared
    pool.leave(kept)
    assert pool.shared is not kept
    lent = pool.take()
    pool.leave(lent)
    pool.give_back(lent)
    assert pool.take() is not lent


def test_few_spare_buffers_are_kept() -> None:
    """M1: what a thousand connections gave back does not stay."""
    pool = BufferPool(size=16)
    buffers = [pool.take() for _ in range(100)]
    for buffer in buffers:
        pool.give_back(buffer)
    again = [pool.take() for _ in range(100)]
    assert sum(any(one is other for other in buffers) for one in again) <= 5


def test_a_buffer_of_another_size_is_not_kept() -> None:
    pool = BufferPool(size=16)
    grown = bytearray(64)
    pool.give_back(grown)
    pool.take()
    assert len(pool.shared) == 16


def test_readers_wait_for_memory_in_their_order() -> None:
    """M1: above `queued.max.request.bytes` nobody reads; then the first that was stopped goes on first."""
    memory = RequestMemory(limit=100)
    told: list[str] = []
    memory.on_exhausted.append(lambda: told.append("stop"))
    memory.changed(100)
    assert told == ["stop"]
    assert not memory.may_read("idle", lambda: told.append("idle"), has_begun=False)
    assert memory.may_read("a", lambda: told.append("a"), has_begun=True)
    assert not memory.may_read("b", lambda: told.append("b"), has_begun=True)
    memory.changed(5)
    assert told == ["stop"]
    memory.changed(-10)
    assert told == ["stop", "idle", "b"]
    assert memory.held == 95
    assert memory.may_read("idle", lambda: None, has_begun=False)


def test_one_begun_frame_at_a_time_is_finished_when_memory_is_short() -> None:
    """M1: the pass goes to the next when a frame is whole, or its connection is gone; none starves."""
    memory = RequestMemory(limit=100)
    told: list[str] = []
    memory.changed(150)

    def ask(name: str) -> bool:
        return memory.may_read(name, lambda: told.append(name), has_begun=True)

    assert [ask("a"), ask("b"), ask("c")] == [True, False, False]
    memory.release("b")
    assert told == []
    memory.release("a")
    assert told == ["b", "c"]
    assert [ask("b"), ask("c")] == [True, False]
    memory.forget("b")
    assert told == ["b", "c", "c"]
    assert ask("c")


def test_without_a_limit_memory_is_never_exhausted() -> None:
    memory = RequestMemory()
    memory.changed(1 << 40)
    assert not memory.is_exhausted


def test_connections_are_counted_in_all_and_by_address() -> None:
    """S95: `max.connections` and `max.connections.per.ip`, with an override."""
    limits = ConnectionLimits(max_connections=3, max_connections_per_ip=1, per_ip_overrides={"10.0.0.2": 2})
    counter = ConnectionCounter()
    opened = partial(counter.opened, of_listener=0)
    assert opened("10.0.0.1", limits) is None
    assert "max.connections.per.ip=1" in (opened("10.0.0.1", limits) or "")
    assert opened("10.0.0.2", limits) is None
    assert opened("10.0.0.2", limits) is None
    assert "max.connections=3" in (opened("10.0.0.3", limits) or "")
    counter.closed("10.0.0.1")
    assert opened("10.0.0.3", limits) is None
    assert counter.total == 3


class Waiting:
    """A connection that waits for room, whose peer is there; counts how often it is asked for."""

    def __init__(self) -> None:
        self.host, self.peer, self.is_closed = "10.0.0.1", "10.0.0.1:1", False
        self.ours, self.theirs = socket.socketpair()
        self.descriptor = self.ours.fileno()
        self.asked = 0
        self.is_dropped = False

    def peer_has_gone(self) -> PeerGone | None:
        """It has where the other end is closed."""
        self.asked += 1
        return peer_of(self.descriptor)

    def drop(self) -> None:
        """Remember."""
        self.is_dropped = True


def test_those_that_wait_and_are_there_cost_nothing_for_each_that_is_refused() -> None:
    """S95, KIP-402: each newcomer beyond the places asked of every one that waits, three microseconds for each of a thousand."""
    limits = ConnectionLimits(max_connections=1, max_of_listener=0, backlog=10)
    pool, memory, poller = BufferPool(64), RequestMemory(), BusyPoller("off")
    shared = SharedByListeners(pool=pool, shares=TurnShares(), memory=memory, poller=poller)
    listener = Listener("L", lambda *_: cast("Any", None), limits=limits, shared=shared, counter=ConnectionCounter())
    waiting = [cast("Any", Waiting()) for _ in range(10)]
    try:
        assert all(listener.waits_for_room(each) for each in waiting)
        late = cast("Any", Waiting())
        waiting.append(late)
        assert not listener.waits_for_room(late)
        assert [each.asked for each in waiting] == [0] * 11
        waiting[3].theirs.close()
        assert listener.waits_for_room(late)
        assert [each.asked for each in waiting] == [0, 0, 0, 1] + [0] * 7
        assert waiting[3].is_dropped
    finally:
        for each in waiting:
            each.ours.close()
            each.theirs.close()


def test_a_listener_has_a_limit_of_its_own_and_brokers_own_listener_is_not_bound_by_the_nodes() -> None:
    """KIP-402: `listener.name.internal.max.connections` holds on the protected listener, `max.connections` does not."""
    clients = ConnectionLimits(max_connections=2, max_of_listener=5)
    brokers = ConnectionLimits(max_connections=2, max_of_listener=2, is_protected=True)
    counter = ConnectionCounter()
    assert [counter.opened("10.0.0.1", clients, of_listener=each) for each in range(2)] == [None, None]
    assert "max.connections=2" in (counter.opened("10.0.0.1", clients, of_listener=2) or "")
    assert [counter.opened("10.0.0.2", brokers, of_listener=each) for each in range(2)] == [None, None]
    assert "own max.connections=2" in (counter.opened("10.0.0.2", brokers, of_listener=2) or "")
    assert counter.total == 4


@pytest.mark.parametrize(
    ("first", "word"),
    [
        (b"GET / HTTP/1.1", "HTTP"),
        (b"POST /x", "HTTP"),
        (b"PRI * HTTP/2", "HTTP"),
        (b"\x16\x03\x01\x00", "TLS"),
        (b"SSH-2.0", "SSH"),
        (b"\0\0\0\x10", None),
        (b"", None),
    ],
)
def test_other_protocols_are_recognised(first: bytes, word: str | None) -> None:
    """B10."""
    hint = hint_for(first)
    assert (hint is None) == (word is None)
    assert word is None or word in (hint or "")


def test_a_peers_text_makes_one_short_line() -> None:
    """B7, K50: line breaks and control characters are escaped, length is bounded."""
    assert printable("a\nb\x1b[31m") == "a\\nb\\x1b[31m"
    assert len(printable("x" * 10_000)) < 400
