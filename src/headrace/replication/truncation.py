"""Where a follower's log must be cut so that it holds nothing that its leader's does not: arithmetic only (KIP-101, KIP-279, KIP-595)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.log.ports import PartitionLogPort


def first_offset_to_fetch(log: PartitionLogPort) -> int:
    """Where following begins: the log's end; without epochs, nothing above the high watermark is known to be the leader's (P12)."""
    return log.log_end_offset if log.latest_epoch is not None else log.high_watermark


def common_end(log: PartitionLogPort, diverging: OffsetAndEpoch) -> int:
    """The offset to cut at when the leader says that the largest epoch it knows, up to our last one, is `diverging` and ended there (P12).

    Where the leader names an epoch that this log does not know, the log's own end of the epoch before that is nearer to where the two
    histories part; the next fetch then says whether that was far enough.
    """
    end = log.log_end_offset
    if diverging.offset < 0:
        return end
    if diverging.epoch < 0:
        return min(diverging.offset, end)
    own = log.end_offset_for_epoch(diverging.epoch)
    if own is None:
        return min(diverging.offset, end)
    if own.epoch != diverging.epoch:
        return min(own.offset, end)
    return min(own.offset, diverging.offset, end)


def start_after_out_of_range(log: PartitionLogPort, *, leader_start: int, leader_end: int) -> tuple[int, bool]:
    """What to do when the leader does not have the offset that was asked for: (offset, whether to drop everything and begin there).

    The leader's log is shorter: ours is cut to its end. Ours ends before the leader's begins: there is nothing in common. Otherwise ours only goes on
    where it ends, or where the leader begins.
    """
    end = log.log_end_offset
    if leader_end < end:
        return leader_end, False
    return (leader_start, True) if leader_start > end else (end, False)
