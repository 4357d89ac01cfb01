"""Mistakes of replication and of groups: who counts as in sync, what is committed, what a new leader or coordinator knows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker import fetch_reading
from headrace.broker.coordinators.hosted import HostedCoordinator
from headrace.broker.produce_call import ProduceCall
from headrace.broker.publishers.partitions import PartitionPublisher
from headrace.coordinator.groups import committing
from headrace.coordinator.groups.group import ClassicGroup
from headrace.coordinator.runtime.shard import Shard, Status
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from headrace.log.producers import ProducerStates
from headrace.replication import leader
from headrace.replication.fetch_plan import FetchPlan
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.leader import PartitionLeader
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.replication.follower_events import FollowedPartition


def same_leader_not_cut(planting: Planting) -> None:
    """K15: where the same leader leads again in a later epoch, the follower lets it say nothing of diverging histories."""
    known: dict[tuple[int, Any], Any] = {}
    honest = vars(ReplicaFetcher)["_fetch_from_end"]

    def fetch_from_end(self: Any, partition: FollowedPartition, effects: Any) -> None:
        honest(self, partition, effects)
        before = known.setdefault((id(self), partition.key), partition)
        if partition.position is not None and before.leader_epoch < partition.leader_epoch:
            partition.position = partition.position._replace(last_fetched_epoch=-1)
            self._plan.want(partition.key, partition.position)

    planting.replace(ReplicaFetcher, "_fetch_from_end", fetch_from_end)


def joins_before_epoch_start(planting: Planting) -> None:
    """K18: a follower joins the ISR at the high watermark, wherever the leader's epoch begins."""

    def may_join(progress: Any, *, high_watermark: int, leader_epoch_start: int | None, log_end_offset: int) -> bool:
        return bool(high_watermark <= progress.log_end_offset)

    planting.replace(leader, "may_join", may_join)


def joins_as_another_incarnation(planting: Planting) -> None:
    """K19: what an incarnation of a follower fetched counts for the next one too, which is proposed with no broker epoch."""
    honest = vars(PartitionLeader)["_propose"]
    honest_fetched = vars(PartitionLeader)["follower_fetched"]

    def follower_fetched(self: Any, broker_id: int, *, broker_epoch: int, fetch_offset: int, **rest: Any) -> Any:
        known = self.followers.get(broker_id)
        if known is not None and known.broker_epoch != broker_epoch:
            fetch_offset = max(fetch_offset, known.log_end_offset)
        return honest_fetched(self, broker_id, broker_epoch=broker_epoch, fetch_offset=fetch_offset, **rest)

    def propose_join(self: Any, broker_id: int, *, is_eligible: Any) -> Any:
        return honest_join(self, broker_id, is_eligible=lambda _broker_id, _epoch: True)

    def propose(self: Any, members: Sequence[int]) -> Any:
        made = honest(self, members)
        self.proposal = replace(made, isr=tuple((member, -1) for member, _ in made.isr))
        return self.proposal

    honest_join = planting.replace(PartitionLeader, "propose_join", propose_join)
    planting.replace(PartitionLeader, "_propose", propose)
    planting.replace(PartitionLeader, "follower_fetched", follower_fetched)


def proposal_never_void(planting: Planting) -> None:
    """K21: newer terms leave the proposal of before in flight."""
    honest = vars(PartitionLeader)["update"]

    def update(self: Any, terms: Any, *, now_ms: int) -> Any:
        proposal = self.proposal
        moved = honest(self, terms, now_ms=now_ms)
        self.proposal = proposal
        return moved

    planting.replace(PartitionLeader, "update", update)


def not_looked_at_after_a_shrink(planting: Planting) -> None:
    """K22: when a smaller ISR is confirmed, the high watermark stays where it was."""
    honest = vars(PartitionLeader)["update"]

    def update(self: Any, terms: Any, *, now_ms: int) -> Any:
        self.advance = lambda: False
        try:
            honest(self, terms, now_ms=now_ms)
        finally:
            del self.advance
        return False

    planting.replace(PartitionLeader, "update", update)


def one_batch_remembered(planting: Planting) -> None:
    """K34: of a producer only its last batch is known again."""
    honest = vars(ProducerStates)["appended"]

    def appended(self: Any, header: Any, base_offset: int) -> None:
        honest(self, header, base_offset)
        entry = self.get(header.producer_id)
        while entry is not None and len(entry.batches) > 1:
            del entry.batches[0]

    planting.replace(ProducerStates, "appended", appended)


def answered_while_loading(planting: Planting) -> None:
    """K42: a coordinator answers before it has read its log."""

    def error(self: Any) -> ErrorCode:
        return ErrorCode.NONE if self.status in (Status.ACTIVE, Status.LOADING) else ErrorCode.NOT_COORDINATOR

    planting.replace(HostedCoordinator, "error", property(error))


def committed_below_the_minimum(planting: Planting) -> None:
    """W1: the high watermark goes on with fewer in sync than min.insync.replicas."""
    planting.replace(PartitionLeader, "effective_min_isr", property(lambda self: 1))


def acknowledged_when_appended(planting: Planting) -> None:
    """W2: acks=all is acknowledged when the leader has it."""
    planting.replace(PartitionLeader, "committed", lambda self, required_offset: ErrorCode.NONE)


def joins_at_once(planting: Planting) -> None:
    """W3: whoever fetches is proposed for the ISR."""
    planting.replace(leader, "may_join", lambda progress, **asked: progress.log_end_offset >= 0)


def shrink_counts_when_proposed(planting: Planting) -> None:
    """W4: who is to leave the ISR counts no more as soon as the leader has proposed it."""

    def maximal_isr(self: Any) -> tuple[int, ...]:
        return self.isr if self.proposal is None else tuple(member for member, _ in self.proposal.isr)

    planting.replace(PartitionLeader, "_maximal_isr", maximal_isr)


def generation_not_raised(planting: Planting) -> None:
    """W5: a group that rebalances stays in its generation."""
    honest = vars(ClassicGroup)["begin_generation"]

    def begin_generation(self: Any, *, wall_ms: int) -> None:
        before = self.generation_id
        honest(self, wall_ms=wall_ms)
        self.generation_id = before or self.generation_id

    planting.replace(ClassicGroup, "begin_generation", begin_generation)


def read_to_the_end(planting: Planting) -> None:
    """W6: consumers are shown all that the log holds."""
    honest = vars(fetch_reading)["_read_log"]

    def read_log(read: Any, log: Any, terms: Any, *, limit: int, upper: int, min_one_batch: bool) -> None:
        honest(read, log, terms, limit=limit, upper=log.log_end_offset, min_one_batch=min_one_batch)

    planting.replace(fetch_reading, "_read_log", read_log)


def answered_before_stored(planting: Planting) -> None:
    """W7: a position is acknowledged when the coordinator knows it, before its copies do."""
    honest = vars(Shard)["append"]

    def append(self: Any, records: Any, *, now_ms: int, waiter: Any = None, **more: Any) -> None:
        honest(self, records, now_ms=now_ms, waiter=None, **more)
        if waiter is not None:
            self.answer(waiter.event.token, waiter.response)

    planting.replace(Shard, "append", append)


def generation_not_looked_at(planting: Planting) -> None:
    """W8: whoever commits may, in whatever generation."""
    planting.replace(committing, "commit_error", lambda group, request, api_version: ErrorCode.NONE)


def former_leader_acknowledges(planting: Planting) -> None:
    """W9: who waits for copies at a leader that lost its place is told that they have it."""

    def settle(self: Any, write: Any) -> bool:
        hosted = write.hosted
        leader = None if hosted is None else hosted.leader
        if hosted is not None and (leader is None or leader.leader_epoch != write.leader_epoch):
            write.hosted = None
            return True
        return bool(honest(self, write))

    honest = planting.replace(ProduceCall, "_settle", settle)


def session_forgets_changes(planting: Planting) -> None:
    """W10: in a fetch session a follower does not say where it is by now."""
    honest = vars(FetchPlan)["want"]

    def want(self: Any, key: Any, position: Any) -> None:
        was_known = key in self._sent and self._epoch != 0
        honest(self, key, position)
        if was_known:
            self._changed.pop(key, None)
            self._sent[key] = position

    planting.replace(FetchPlan, "want", want)


def log_of_the_former_topic(planting: Planting) -> None:
    """W11: a topic that has the name of a deleted one goes on with that one's log."""

    def make_log(self: Any, hosted: Any, change: Any, take_role: Any) -> None:
        found = self._broker.logs.get(TopicPartition(change.topic, change.partition))
        if found is None:
            honest(self, hosted, change, take_role)
        else:
            hosted.log = found

    honest = planting.replace(PartitionPublisher, "_make_log", make_log)
    planting.replace(PartitionPublisher, "_delete_log", lambda _self, _name: None)


def _defect(name: str, what: str, plant: Any, **needs: Any) -> Defect:
    return Defect(id=name, what=what, plant=plant, level="records", **{"copies": 2, **needs})


DEFECTS = (
    _defect("K15", "nothing is cut where the same leader leads again", same_leader_not_cut),
    _defect("K18", "joins before the leader's epoch begins", joins_before_epoch_start),
    _defect("K19", "joins as another incarnation", joins_as_another_incarnation),
    _defect("K21", "a proposal is never void", proposal_never_void, heals=True),
    _defect("K22", "not looked at after a shrink", not_looked_at_after_a_shrink),
    _defect("K34", "one batch is remembered", one_batch_remembered, copies=0),
    _defect("K42", "answered while loading", answered_while_loading, copies=0, members=1),
    _defect("W1", "committed below the minimum", committed_below_the_minimum),
    _defect("W2", "acknowledged when appended", acknowledged_when_appended),
    _defect("W3", "joins at once", joins_at_once),
    _defect("W4", "a shrink counts when it is proposed", shrink_counts_when_proposed),
    _defect("W5", "a rebalance raises no generation", generation_not_raised, copies=0, members=2),
    _defect("W6", "consumers are shown all that is there", read_to_the_end),
    _defect("W7", "a position is answered before it is stored", answered_before_stored, copies=0, members=1),
    _defect("W8", "no commit's generation is looked at", generation_not_looked_at, copies=0, members=1),
    _defect("W9", "a former leader acknowledges", former_leader_acknowledges),
    _defect("W10", "a fetch session forgets what changed", session_forgets_changes, heals=True),
    _defect("W11", "a former topic's log is gone on with", log_of_the_former_topic, ends_topics=True),
)
