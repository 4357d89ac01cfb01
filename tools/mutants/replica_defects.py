"""Mistakes of leaders and followers of a partition: what is committed, who is in sync, and where a follower's log is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.broker import replica_fetchers
from headrace.replication import follower
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.leader import PartitionLeader
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.replication.follower_events import FollowedPartition


def cut_to_high_watermark(planting: Planting) -> None:
    """K16: a follower begins by cutting its log to its high watermark, as before KIP-101."""
    planting.replace(follower, "first_offset_to_fetch", lambda log: log.high_watermark)


def commit_by_isr(planting: Planting) -> None:
    """K17: what the ISR holds is committed, whoever was proposed for it."""
    planting.replace(PartitionLeader, "_maximal_isr", lambda self: self.isr)


def divergence_ignored(planting: Planting) -> None:
    """Z6: where the leader says that the histories part, the follower goes on as if nothing had been said."""

    def common_end(log: Any, diverging: Any) -> Any:
        return log.log_end_offset

    def last_epoch_unsaid(self: Any, partition: FollowedPartition, effects: Any) -> None:
        honest(self, partition, effects)
        if partition.position is None:
            return
        partition.position = partition.position._replace(last_fetched_epoch=-1)
        self._plan.want(partition.key, partition.position)

    honest = vars(ReplicaFetcher)["_fetch_from_end"]
    planting.replace(follower, "common_end", common_end)
    planting.replace(ReplicaFetcher, "_fetch_from_end", last_epoch_unsaid)


def producers_not_followed(planting: Planting) -> None:
    """Z7: a follower takes records and learns nothing of their producers: when it leads, it takes again what was sent again."""
    honest = vars(ReplicaFetcher)["_append"]

    def append(self: Any, partition: Any, records: Any, wall_ms: int) -> Any:
        done = honest(self, partition, records, wall_ms)
        partition.log.producers.clear(end_offset=partition.log.log_end_offset)
        return done

    planting.replace(ReplicaFetcher, "_append", append)


def acknowledged_before_taken(planting: Planting) -> None:
    """Z8: a follower asks for the next offset before it has the records below it."""
    honest = vars(replica_fetchers)["asked_topics"]

    def topics(plan: Any, max_bytes: int) -> Any:
        asks = [
            (key, position._replace(fetch_offset=position.fetch_offset + (position.fetch_offset > 0)))
            for key, position in plan.asks
        ]
        return honest(plan._replace(asks=asks), max_bytes)

    planting.replace(replica_fetchers, "asked_topics", topics)


DEFECTS = (
    Defect(id="K16", what="cut to the high watermark", plant=cut_to_high_watermark, level="records", copies=2),
    Defect(id="K17", what="committed by the ISR alone", plant=commit_by_isr, level="records", copies=2),
    Defect(id="Z6", what="diverging histories are ignored", plant=divergence_ignored, level="records", copies=2),
    Defect(
        id="Z7", what="followers learn nothing of producers", plant=producers_not_followed, level="records", copies=2
    ),
    Defect(id="Z8", what="acknowledged before it is taken", plant=acknowledged_before_taken, level="records", copies=2),
)
