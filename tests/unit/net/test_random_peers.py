"""Does each of some connections get all its frames, once and in order, whatever their sizes are, however they arrive, and whatever holds them back?"""

from __future__ import annotations

import random
import struct

import pytest

from headrace.core.holds import Hold
from headrace.net.buffers import RequestMemory
from headrace.net.server_connection import ServerConnection
from tests.unit.net.test_connection_core import Hub, Wire, run_turns

EDGES = (16, 60, 4_092, 32 << 10, 128 << 10, 256 << 10, 1 << 20, 2 << 20, 3 << 20)
"""Around these sizes buffers are chosen in another way."""
SEEDS = 40
QUIET_TURNS = 12
"""So many turns in which nothing comes and nothing is served mean that nothing ever will be."""


def body_of(number: int, size: int) -> bytes:
    """The content of a connection's frame: no two are alike, and no part of one is like another part."""
    word = struct.pack(">II", number, size)
    return (word * (size // 8 + 1))[:size]


class Peer:
    """One connection, what it sends, and the side that understands it. What `is_sealed` comes through TLS: some of it also to who is not read."""

    def __init__(self, room: Room, chance: random.Random) -> None:
        self._room = room
        self._chance = chance
        self.sizes = self._sizes()
        self._stream = b"".join(
            struct.pack(">i", size) + body_of(number, size) for number, size in enumerate(self.sizes)
        )
        self._at = 0
        self.seen = 0
        self.begun: list[int] = []
        self.is_sealed = chance.random() < 0.3
        self.wire = Wire()
        self.connection = ServerConnection(room)
        room.peers.append(self)
        self.connection.connection_made(self.wire)

    def _sizes(self) -> list[int]:
        chance = self._chance
        kind = chance.choice(("small", "large", "mixed"))
        if kind == "small":
            return [chance.randrange(16, 300) for _ in range(chance.randrange(200))]
        edges = EDGES if kind == "mixed" else (chance.choice(EDGES),)
        return [max(16, chance.choice(edges) + chance.randrange(-9, 9)) for _ in range(chance.randrange(1, 9))]

    # --- the side that understands requests ---

    def begins(self, head: memoryview, size: int) -> None:
        """The head must be that of the frame that is not whole yet."""
        assert bytes(head) == body_of(self.seen, size)[:4]
        assert size == self.sizes[self.seen]

    def frame(self, view: memoryview) -> bool:
        """It is the next one; some are kept, some take memory, some hold back what is behind them, some take long."""
        chance, room = self._chance, self._room
        assert not self.connection.holds - {Hold.MEMORY}
        size = self.sizes[self.seen]
        assert view == body_of(self.seen, size)
        room.spent += chance.choice((0.0, 0.0001, 0.002))
        what = chance.randrange(12)
        if what == 0:
            self.connection.keep_frame()
            room.kept.append((view, self.seen))
        elif what == 1:
            room.memory.changed(size)
            room.taken.append(size)
        if what < 3:
            self.connection.hold(chance.choice((Hold.REPLY, Hold.QUOTA)))
        self.seen += 1
        return what == 4

    def closed(self) -> None:
        """Nothing to do."""

    # --- the loop ---

    def arrives(self, most: int) -> None:
        """What a loop reads in one turn when so much is there: it reads on while buffers are full and it may."""
        for _ in range(32):
            is_opened = self.is_sealed and not self.wire.is_reading() and most <= 20_000
            if not most or self._at == len(self._stream) or not (self.wire.is_reading() or is_opened):
                break
            view = self.connection.get_buffer(-1)
            assert len(view)
            part = self._stream[self._at : self._at + min(most, len(view))]
            view[: len(part)] = part
            self._at += len(part)
            most -= len(part)
            self.connection.buffer_updated(len(part))
            if len(part) < len(view):
                break

    def release(self) -> None:
        """Nothing holds it back but others."""
        for reason in (Hold.REPLY, Hold.QUOTA):
            if reason in self.connection.holds:
                self.connection.release(reason)

    @property
    def is_done(self) -> bool:
        """It was served whole, or it is gone."""
        return self.connection.is_closed or self.seen == len(self.sizes)

    @property
    def progress(self) -> int:
        """Grows with what comes and is served."""
        return self._at + self.seen


class Room(Hub):
    """A listener with some peers, and perhaps a limit of memory."""

    def __init__(self, chance: random.Random) -> None:
        self.peers: list[Peer] = []
        self.kept: list[tuple[memoryview, int]] = []
        self.taken: list[int] = []
        super().__init__(self)  # type: ignore[arg-type] # each connection has its own
        self.memory = RequestMemory(chance.choice((-1, 1_000, 100_000, 3 << 20)))
        self.memory.on_exhausted.append(self._read_again)
        for _ in range(chance.randrange(1, 14)):
            Peer(self, chance)

    def _read_again(self) -> None:
        for each in self.peers:
            each.connection.read_again()

    def handler_for(self, connection: ServerConnection) -> Peer:  # each its own
        """The peer that was just made."""
        return self.peers[-1]

    def progress(self) -> int:
        """Grows with what comes and is served."""
        return sum(each.progress for each in self.peers)


def play(room: Room, chance: random.Random) -> None:
    """Some hundred random things."""
    for _ in range(chance.randrange(300)):
        peer = chance.choice(room.peers)
        what = chance.random()
        if what < 0.5:
            peer.arrives(chance.choice((1, 3, 60, 1_000, 5_000, 33_000, 130_000, 300_000, 4 << 20)))
        elif what < 0.6:
            peer.release()
        elif what < 0.65 and room.taken:
            room.memory.changed(-room.taken.pop())
        elif what < 0.66:
            peer.connection.close("it is no request")
        elif what < 0.67 and not peer.connection.is_closed:
            peer.wire.close()
            peer.connection.connection_lost(None)
        elif what < 0.72:
            room.spent += 0.02
        else:
            run_turns(room)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_frame_arrives_once_and_in_order(seed: int) -> None:
    """inv:M1, inv:M6: and everybody is read again at the end, no memory is held, and frames that were kept are what they were."""
    chance = random.Random(seed)
    room = Room(chance)
    play(room, chance)
    quiet = 0
    while not all(each.is_done for each in room.peers):
        before = room.progress()
        for each in room.peers:
            each.release()
        run_turns(room)  # at the limit of memory, too, each has its turn to be read
        for each in room.peers:
            each.arrives(chance.choice((10_000, 4 << 20)))
        quiet = quiet + 1 if before == room.progress() else 0
        assert quiet < QUIET_TURNS, [(each.connection.holds, each.seen, len(each.sizes)) for each in room.peers]
    for each in room.peers:
        each.release()
    room.memory.changed(-sum(room.taken))
    while room.turns:
        run_turns(room)
    assert all(each.connection.is_closed or each.wire.is_reading() for each in room.peers)
    for view, number in room.kept:
        assert view == body_of(number, len(view))
    for each in room.peers:
        each.connection.connection_lost(None)
    assert room.memory.held == 0
    assert not room.pool._lent
