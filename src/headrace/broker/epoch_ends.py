"""The end of an epoch in a leader's log."""

from __future__ import annotations

from headrace.core.offsets import OffsetAndEpoch
from headrace.replication.leader import PartitionLeader


def end_of_epoch(leader: PartitionLeader, epoch: int) -> OffsetAndEpoch | None:
    """The largest known epoch at or below `epoch` and where it ended; the running epoch ends at the log end.

    None for an epoch that is newer than all this leader knows; one that is older than all of them ended where the first of them began (KIP-279).
    """
    if epoch < 0:
        return None
    if epoch == leader.leader_epoch:
        return OffsetAndEpoch(leader.log.log_end_offset, epoch)
    latest = leader.log.latest_epoch
    if latest is None or epoch > max(latest, leader.leader_epoch):
        return None
    return leader.log.end_offset_for_epoch(epoch)
