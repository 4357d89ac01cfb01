"""Is an index checked whole, as if entry by entry?"""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from headrace.sim.disk import LossyFiles
from headrace.storage.index_file import EntryFile, OffsetIndex, TimeIndex

NEAR = st.integers(-2, 6)


def plain_offsets(entries: list[tuple[int, int]], log_size: int) -> bool:
    """One after the other: both rise, and all point into the log."""
    last = (-1, -1)
    for relative, position in entries:
        if relative <= last[0] or position <= last[1] or position >= log_size:
            return False
        last = (relative, position)
    return True


def plain_times(entries: list[tuple[int, int]]) -> bool:
    """Times rise, offsets do not fall."""
    last = (-1, 0)
    for timestamp, relative in entries:
        if timestamp <= last[0] or relative < last[1]:
            return False
        last = (timestamp, relative)
    return True


@given(st.lists(st.tuples(NEAR, NEAR), max_size=4), st.sampled_from([0, 1022, 1024, 2050]), st.integers(0, 3000))
def test_it_is_sane_when_every_entry_follows_the_one_before(
    odd: list[tuple[int, int]], before: int, log_size: int
) -> None:
    """Also where one part of what is read at once ends and the next begins."""
    steps = [(1, 1)] * before + odd
    offsets, times, at = [], [], (-1, 0)
    for one, other in steps:
        at = (at[0] + one, at[1] + other)
        offsets.append((at[0], max(at[1], 0)))
        times.append(at)
    data = b"".join(struct.pack(">iI", *entry) for entry in offsets)
    assert OffsetIndex(EntryFile(LossyFiles(), "/x.index", data), 0).is_sane(log_size) == plain_offsets(
        offsets, log_size
    )
    data = b"".join(struct.pack(">qi", *entry) for entry in times)
    assert TimeIndex(EntryFile(LossyFiles(), "/x.timeindex", data), 0).is_sane() == plain_times(times)
