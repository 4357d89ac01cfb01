"""Is every connection of a crowd read to its end, whatever holds it back and whoever is closed, and is all memory given back?"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.holds import Hold
from headrace.net.buffers import RequestMemory
from headrace.net.server_connection import ServerConnection
from tests.unit.net.test_connection_core import Hub, Wire

REASONS = (Hold.REPLY, Hold.QUOTA)
COUNTS = st.sampled_from((1, 20, 100))
SIZES = st.sampled_from((12, 3_000, 40_000, 140_000))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("feed", "feed", "feed", "hold", "release", "turn", "turn", "close", "cut")),
        st.integers(0, 9),
        st.sampled_from((1, 1_000, 30_000, 40_000, 300_000)),
    ),
    min_size=20,
    max_size=80,
)
QUIET_TURNS = 6
"""So many turns in which nothing comes and nothing is served mean that nothing ever will be."""


@dataclass
class Client:
    """One connection: what it sends, and what was served of it. Every seventh frame holds the next one back."""

    stream: bytes
    count: int
    connection: ServerConnection
    wire: Wire
    at: int = 0
    served: list[bytes] = field(default_factory=list)

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """Serve it."""
        assert not self.connection.holds - {Hold.MEMORY}
        self.served.append(bytes(view))
        if len(self.served) % 7 == 0:
            self.connection.hold(Hold.REPLY)
        return len(self.served) % 11 == 0

    def feed(self, most: int) -> None:
        """So many bytes come, if they are wanted; a loop reads on while its buffer is full."""
        while most and self.at < len(self.stream) and not self.connection.is_closed and self.wire.is_reading():
            view = self.connection.get_buffer(-1)
            part = self.stream[self.at : self.at + min(most, len(view))]
            view[: len(part)] = part
            self.at += len(part)
            most = most - len(part) if len(part) == len(view) else 0
            self.connection.buffer_updated(len(part))

    def release(self) -> None:
        """Nothing holds it back but others."""
        for reason in REASONS:
            if reason in self.connection.holds:
                self.connection.release(reason)

    def is_done(self) -> bool:
        """Everything was served, or it is closed."""
        return self.connection.is_closed or len(self.served) == self.count


class Crowd(Hub):
    """A listener with some connections, and a limit of memory."""

    def __init__(self, limit: int, sent: list[tuple[int, int]]) -> None:
        self.clients: list[Client] = []
        super().__init__(self)  # each connection's own is set below
        self.memory = RequestMemory(limit)
        self.memory.on_exhausted.append(self._read_again)
        for number, (count, size) in enumerate(sent):
            body = struct.pack(">q", number) + bytes(size - 8)
            connection, wire = ServerConnection(self), Wire()
            self.clients.append(Client(struct.pack(">i", size) + body, count, connection, wire))
            self.clients[-1].stream *= count
            connection.connection_made(wire)
            connection.frame = self.clients[-1].frame

    def _read_again(self) -> None:
        for each in self.clients:
            each.connection.read_again()

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """Nobody's."""
        raise AssertionError(bytes(view[:10]))

    def closed(self) -> None:
        """Nothing to do."""

    def turn(self) -> None:
        """The next turn of the loop."""
        turns, self.turns = self.turns, []
        for each in turns:
            each()

    def progress(self) -> int:
        """Grows with everything that comes or is served."""
        return sum(each.at + len(each.served) for each in self.clients)


def do(crowd: Crowd, what: str, client: Client, size: int) -> None:
    """One step."""
    match what:
        case "feed":
            client.feed(size)
        case "hold":
            client.connection.hold(REASONS[size % 2])
        case "release":
            client.release()
        case "close":
            client.connection.close("it is no request")  # its last answers stay with the peer
        case "cut" if not client.connection.is_closed:
            client.wire.close()
            client.connection.connection_lost(None)
        case _:
            crowd.turn()


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from((-1, 4_096, 70_000, 300_000)),
    st.lists(st.tuples(COUNTS, SIZES), min_size=2, max_size=10),
    STEPS,
)
def test_nobody_of_a_crowd_is_left_unread(
    limit: int, sent: list[tuple[int, int]], steps: list[tuple[str, int, int]]
) -> None:
    """inv:M1, inv:M6: shares of turns, exhausted memory, held replies and quotas, and connections that end in the middle."""
    crowd = Crowd(limit, sent)
    for what, number, size in steps:
        do(crowd, what, crowd.clients[number % len(crowd.clients)], size)
    quiet = 0
    while not all(each.is_done() for each in crowd.clients):
        before = crowd.progress()
        for each in crowd.clients:
            each.release()
        crowd.turn()
        for each in crowd.clients:
            each.feed(1 << 20)
        quiet = quiet + 1 if crowd.progress() == before else 0
        assert quiet < QUIET_TURNS, [(each.connection.holds, each.at, len(each.served)) for each in crowd.clients]
    for number, each in enumerate(crowd.clients):
        assert all(one[:8] == struct.pack(">q", number) for one in each.served)
    for each in crowd.clients:
        each.connection.connection_lost(None)
    assert crowd.memory.held == 0
    assert len(crowd.pool._lent) == 0
