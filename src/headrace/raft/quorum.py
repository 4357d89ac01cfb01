"""Majorities, and what they all hold. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable


def majority_of(voters: int) -> int:
    """The smallest number that is more than half of `voters`."""
    return voters // 2 + 1


def is_majority(count: int, *, voters: int) -> bool:
    """Whether `count` of `voters` decide."""
    return voters > 0 and count >= majority_of(voters)


def majority_end_offset(end_offsets: Iterable[int]) -> int:
    """The highest offset below which a majority of the voters holds everything. One end offset a voter, its own included."""
    offsets = sorted(end_offsets, reverse=True)
    return offsets[majority_of(len(offsets)) - 1]


def next_high_watermark(*, current: int, end_offsets: Iterable[int], epoch_start_offset: int) -> int:
    """The high watermark after voters moved on; never lower than `current`.

    A leader commits by counting only from its own epoch on: until a majority holds a record of it (beyond
    `epoch_start_offset`), nothing new is committed (KIP-595, Raft 5.4.2).
    """
    held = majority_end_offset(end_offsets)
    if held <= epoch_start_offset:
        return current
    return max(current, held)
