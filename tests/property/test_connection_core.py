"""Does the connection core cut the same frames as the plain reader, however the stream comes and whatever stops it?"""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.holds import Hold
from headrace.net.server_connection import ServerConnection
from headrace.wire.framing import FrameReader
from tests.unit.net.test_connection_core import Hub, Wire

SIZES = st.one_of(
    st.integers(8, 200), st.sampled_from((4_096, 32_764, 32_768, 131_068, 131_072, 300_000, 2_097_148, 2_200_000))
)
STEPS = st.lists(
    st.tuples(st.integers(1, 400_000), st.sampled_from(("", "", "", "hold", "release", "turn"))), max_size=60
)


class Handler:
    """Keeps sizes and first bytes; every third frame is kept where it is, and every fifth lets others have a turn."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.kept: list[tuple[memoryview, bytes]] = []
        self.connection: ServerConnection | None = None

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """Look at all of it."""
        assert self.connection is not None
        assert not self.connection.holds - {Hold.MEMORY}
        body = bytes(view)
        self.seen.append(body)
        if len(self.seen) % 3 == 0:
            self.connection.keep_frame()
            self.kept.append((view, body))
        return len(self.seen) % 5 == 0

    def closed(self) -> None:
        """Nothing to do."""


def run_turns(hub: Hub) -> None:
    """Until the loop has nothing to do."""
    while hub.turns:
        turns, hub.turns = hub.turns, []
        for turn in turns:
            turn()


@settings(max_examples=60, deadline=None)
@given(st.lists(SIZES, min_size=1, max_size=12), STEPS)
def test_frames_are_those_of_the_plain_reader(sizes: list[int], steps: list[tuple[int, str]]) -> None:
    """input:B3: any slicing, holds that come and go, turns for others, frames that are kept: the same bodies in the same order, and no memory left over."""
    stream = b"".join(
        struct.pack(">i", size) + struct.pack(">q", number) + bytes([number + 1]) * (size - 8)
        for number, size in enumerate(sizes)
    )
    handler = Handler()
    hub = Hub(handler)
    connection = handler.connection = ServerConnection(hub)
    wire = Wire()
    connection.connection_made(wire)
    at = 0
    for count, then in [*steps, (0, "release")]:
        if wire.is_reading() and count:
            view = connection.get_buffer(-1)
            part = stream[at : at + min(count, len(view))]
            if part:
                view[: len(part)] = part
                connection.buffer_updated(len(part))
                at += len(part)
        if then == "hold":
            connection.hold(Hold.REPLY)
        elif then:
            connection.release(Hold.REPLY) if then == "release" else None
            run_turns(hub)
    while at < len(stream):
        run_turns(hub)
        view = connection.get_buffer(-1)
        part = stream[at : at + len(view)]
        view[: len(part)] = part
        connection.buffer_updated(len(part))
        at += len(part)
    run_turns(hub)
    assert handler.seen == [bytes(each) for each in FrameReader(largest=100 << 20).feed(stream)]
    assert all(bytes(view) == body for view, body in handler.kept)
    assert hub.memory.held == 0
