"""The end of an epoch in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.offsets import OffsetAndEpoch

if TYPE_CHECKING:
    from headrace.log.ports import PartitionLogPort


def end_of_epoch(log: PartitionLogPort, epoch: int, *, leader_epoch: int) -> OffsetAndEpoch | None:
    """The largest known epoch at or below `epoch` and where it ended; the epoch that runs ends at the log end.

    None for an epoch that is newer than all that are known here, `leader_epoch` among them if this replica leads in it (else -1); one that is older
    than all of them ended where the first of them began (KIP-279).
    """
    if epoch < 0:
        return None
    if epoch == leader_epoch:
        return OffsetAndEpoch(log.log_end_offset, epoch)
    latest = log.latest_epoch
    if latest is None or epoch > max(latest, leader_epoch):
        return None
    return log.end_offset_for_epoch(epoch)
