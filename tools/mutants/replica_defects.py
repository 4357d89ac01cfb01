"""Mistakes of leaders and followers of a partition: what is committed, who is in sync, and where a follower's log is cut."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker import replica_fetchers
from headrace.broker.broker import Broker
from headrace.replication import follower, leader
from headrace.replication.fetch_plan import FetchPlan
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.follower_events import Fetched
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


def join_before_epoch_start(planting: Planting) -> None:
    """K18: a follower at the high watermark may join, wherever the leader's epoch began."""

    def may_join(progress: Any, *, high_watermark: int, leader_epoch_start: int, log_end_offset: int) -> bool:
        return bool(high_watermark <= progress.log_end_offset <= log_end_offset)

    planting.replace(leader, "may_join", may_join)


def any_broker_epoch(planting: Planting) -> None:
    """K19: a fetch counts whatever incarnation of the follower sent it, and its place in the ISR is that of the present one."""
    honest = vars(PartitionLeader)["_propose"]

    def may_be_in_isr(self: Any, broker_id: int, broker_epoch: int) -> bool:
        registered = self.image.cluster.brokers.get(broker_id)
        return registered is not None and registered.is_active

    def propose(self: Any, members: tuple[int, ...]) -> Any:
        proposal = honest(self, members)
        self.proposal = replace(proposal, isr=tuple((member, -1) for member, _ in proposal.isr))
        return self.proposal

    planting.replace(Broker, "_may_be_in_isr", may_be_in_isr)
    planting.replace(PartitionLeader, "_propose", propose)


def diverged_answer_taken(planting: Planting) -> None:
    """Z6: of a response that says that the histories part, the high watermark is taken before the log is cut."""
    honest = vars(ReplicaFetcher)["_fetched"]

    def fetched(self: Any, event: Fetched, effects: Any) -> None:
        told = list(event.told)
        for each in told:
            partition = self.partitions.get(each.key)
            if partition is not None and each.diverging is not None:
                partition.log.advance_high_watermark(each.high_watermark)
        honest(self, replace(event, told=told), effects)

    planting.replace(ReplicaFetcher, "_fetched", fetched)


def divergence_ignored(planting: Planting) -> None:
    """Z7: where the leader says that the histories part, the follower goes on as if nothing had been said."""

    def common_end(log: Any, diverging: Any) -> Any:
        return log.log_end_offset

    def last_epoch_unsaid(self: Any, partition: FollowedPartition) -> None:
        honest(self, partition)
        assert partition.position is not None, "it was set"
        partition.position = partition.position._replace(last_fetched_epoch=-1)
        self._plan.want(partition.key, partition.position)

    honest = vars(ReplicaFetcher)["_fetch_from_end"]
    planting.replace(follower, "common_end", common_end)
    planting.replace(ReplicaFetcher, "_fetch_from_end", last_epoch_unsaid)


def producers_not_followed(planting: Planting) -> None:
    """Z8: a follower takes records and learns nothing of their producers: when it leads, it takes again what was sent again."""
    honest = vars(ReplicaFetcher)["_append"]

    def append(self: Any, partition: Any, records: Any, wall_ms: int) -> Any:
        done = honest(self, partition, records, wall_ms)
        partition.log.producers.clear(end_offset=partition.log.log_end_offset)
        return done

    planting.replace(ReplicaFetcher, "_append", append)


def acknowledged_before_taken(planting: Planting) -> None:
    """Z9: a follower asks for the next offset before it has the records below it."""
    honest = vars(replica_fetchers)["_topics"]

    def topics(plan: Any, max_bytes: int) -> Any:
        asks = [
            (key, position._replace(fetch_offset=position.fetch_offset + (position.fetch_offset > 0)))
            for key, position in plan.asks
        ]
        return honest(plan._replace(asks=asks), max_bytes)

    planting.replace(replica_fetchers, "_topics", topics)


def any_answer_taken(planting: Planting) -> None:
    """Z10: a response is taken for the present position, though the log was cut or the leader changed since it was asked for."""
    planting.replace(FetchPlan, "is_answered", lambda self, key: key in self._wanted)


DEFECTS = (
    Defect(id="K16", what="cut to the high watermark", plant=cut_to_high_watermark, level="records", copies=2),
    Defect(id="K17", what="committed by the ISR alone", plant=commit_by_isr, level="records", copies=2),
    Defect(id="K18", what="joins before the epoch's start", plant=join_before_epoch_start, level="records", copies=2),
    Defect(id="K19", what="joins with any broker epoch", plant=any_broker_epoch, level="records", copies=2),
    Defect(
        id="Z6",
        what="a diverged answer's high watermark is taken",
        plant=diverged_answer_taken,
        level="records",
        copies=2,
    ),
    Defect(id="Z7", what="diverging histories are ignored", plant=divergence_ignored, level="records", copies=2),
    Defect(
        id="Z8", what="followers learn nothing of producers", plant=producers_not_followed, level="records", copies=2
    ),
    Defect(id="Z9", what="acknowledged before it is taken", plant=acknowledged_before_taken, level="records", copies=2),
    Defect(id="Z10", what="any answer is taken", plant=any_answer_taken, level="records", copies=2),
)
