"""Decisions about brokers and partitions that may be taken.  C7 C8 C9 C19"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller.events import RequestArrived
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import NO_LEADER
from headrace.sim.checkers.controller_steps import Decided, Judge
from headrace.sim.checkers.eligible_replicas import has_elr
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.topic_record import TopicRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.group import Group


def touched(decided: Decided) -> Iterator[tuple[Uuid, int, PartitionRegistration | None, PartitionRegistration | None]]:
    """(topic id, partition, before, after) of each partition that the records change."""
    seen: set[tuple[Uuid, int]] = set()
    for record in decided.records:
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            place = (record.topic_id, record.partition_id)
            if place not in seen:
                seen.add(place)
                yield (
                    *place,
                    decided.before.topics.partition_by_id(*place),
                    decided.after.topics.partition_by_id(*place),
                )


class FencedIsOut(Judge):
    """A fenced or stopping broker leads nothing and is in no ISR, but without ELR as the last member without leading (C7)."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._leaderless: dict[tuple[Uuid, int], PartitionRegistration] = {}
        """The partitions without a leader when the cluster began to keep ELRs, which may be while a broker is being fenced in steps."""

    def decided(self, decided: Decided) -> None:
        """The partitions that were touched, and all of them when a broker went."""
        if not decided.records:
            return
        image = decided.after
        if has_elr(image) and not has_elr(decided.before):
            self._leaderless = {
                (topic_id, number): partition
                for topic_id, topic in image.topics.by_id.items()
                for number, partition in topic.partitions.items()
                if partition.leader == NO_LEADER
            }
        for topic_id, number, before, after in touched(decided):
            if after is not None:
                is_new = before is None or before.isr != after.isr
                self._check(decided, image, f"{topic_id}-{number}", after, may_stay=not (is_new and has_elr(image)))
        for broker_id, old in decided.before.cluster.brokers.items():
            broker = image.cluster.brokers.get(broker_id)
            if old is not broker and old.is_active and (broker is None or not broker.is_active):
                self._check_all(decided, image)
                return

    def _check_all(self, decided: Decided, image: MetadataImage) -> None:
        for topic_id, topic in image.topics.by_id.items():
            for number, partition in topic.partitions.items():
                if len(partition.isr) > 1 or self._leaderless.get((topic_id, number)) != partition:
                    self._check(decided, image, f"{topic.name}-{number}", partition, may_stay=True)

    def _check(
        self, decided: Decided, image: MetadataImage, name: str, partition: PartitionRegistration, *, may_stay: bool
    ) -> None:
        """`may_stay`: the last member, without leading; with ELR it is one that was so before the feature was on."""
        brokers = image.cluster.brokers
        if partition.leader != NO_LEADER:
            leader = brokers.get(partition.leader)
            if leader is None or not leader.is_active:
                raise self.group.broken("C7", f"{name} is led by the inactive broker {partition.leader}", decided.life)
        out = [each for each in partition.isr if each not in brokers or not brokers[each].is_active]
        known = decided.before.cluster.brokers
        if has_elr(image) and any(each in known and known[each].is_active for each in out):
            may_stay = False
        if out and (not may_stay or len(partition.isr) > 1 or partition.leader != NO_LEADER):
            raise self.group.broken("C7", f"{name} has the inactive {out} in its isr {partition.isr}", decided.life)


class OldEpochs(Judge):
    """A request with an older broker epoch changes nothing; one live incarnation an id (C8)."""

    def decided(self, decided: Decided) -> None:
        """Requests that name a broker epoch."""
        event = decided.event
        if not isinstance(event, RequestArrived):
            return
        request = event.request
        if not isinstance(request, BrokerHeartbeatRequest | AlterPartitionRequest | AllocateProducerIdsRequest):
            return
        broker = decided.before.cluster.brokers.get(request.broker_id)
        if broker is not None and broker.broker_epoch == request.broker_epoch:
            return
        self.group.hit("request refused: older broker epoch")
        if decided.records:
            raise self.group.broken(
                "C8",
                f"a {type(request).__name__} of broker {request.broker_id} with epoch {request.broker_epoch} was taken",
                decided.life,
            )


class IsrChanges(Judge):
    """Who may change an ISR, in which epochs, and to whom (C9)."""

    def decided(self, decided: Decided) -> None:
        """Each partition of an AlterPartition, against what it led to and what it was told."""
        event = decided.event
        if not isinstance(event, RequestArrived) or not isinstance(event.request, AlterPartitionRequest):
            return
        response = next((each.response for each in decided.answers if each.token == event.token), None)
        for topic in event.request.topics:
            for asked in topic.partitions:
                before = decided.before.topics.partition_by_id(topic.topic_id, asked.partition_index)
                after = decided.after.topics.partition_by_id(topic.topic_id, asked.partition_index)
                if before is not None and before != after:
                    self._check(decided, event.request, asked, before)
                elif before is not None and isinstance(response, AlterPartitionResponse):
                    self._ahead(decided, asked, before, _error(response, topic.topic_id, asked.partition_index))

    def _check(
        self, decided: Decided, request: AlterPartitionRequest, asked: Any, before: PartitionRegistration
    ) -> None:
        wrong = ""
        if request.broker_id != before.leader:
            wrong = f"from {request.broker_id}, the leader is {before.leader}"
        elif asked.leader_epoch != before.leader_epoch:
            wrong = f"of leader epoch {asked.leader_epoch}, it is {before.leader_epoch}"
        elif asked.partition_epoch != before.partition_epoch:
            wrong = f"of partition epoch {asked.partition_epoch}, it is {before.partition_epoch}"
        else:
            wrong = _unfit_member(decided.before, asked, before)
        if wrong:
            raise self.group.broken("C9", f"an AlterPartition was accepted {wrong}", decided.life)

    def _ahead(self, decided: Decided, asked: Any, before: PartitionRegistration, error: int | None) -> None:
        is_ahead = asked.leader_epoch > before.leader_epoch or asked.partition_epoch > before.partition_epoch
        if is_ahead and error not in (None, ErrorCode.NOT_CONTROLLER):
            raise self.group.broken(
                "C9", f"an AlterPartition ahead of the controller was answered with {error}", decided.life
            )


def _error(response: AlterPartitionResponse, topic_id: Uuid, partition: int) -> int | None:
    """What a partition was told; None when the whole request was refused."""
    if response.error_code != ErrorCode.NONE:
        return None
    for topic in response.topics:
        if topic.topic_id == topic_id:
            return next((each.error_code for each in topic.partitions if each.partition_index == partition), None)
    return None


def _unfit_member(image: MetadataImage, asked: Any, before: PartitionRegistration) -> str:
    wanted = [(each.broker_id, each.broker_epoch) for each in asked.new_isr_with_epochs] or [
        (each, -1) for each in asked.new_isr
    ]
    for broker_id, epoch in wanted:
        broker = image.cluster.brokers.get(broker_id)
        if broker is None or (broker_id not in before.isr and not broker.is_active):
            return f"with {broker_id}, which is fenced, stopping or unknown"
        if epoch not in (-1, broker.broker_epoch):
            return f"with {broker_id} of broker epoch {epoch}, it is {broker.broker_epoch}"
        if broker_id not in before.replicas:
            return f"with {broker_id}, which is no replica"
    return ""


class Placement(Judge):
    """Copies of a new partition lie on different brokers, and racks where there are enough (C19)."""

    def decided(self, decided: Decided) -> None:
        """New partitions; those whose places the client named may lie as it likes."""
        new = [each for each in decided.records if isinstance(each, PartitionRecord)]
        if not new:
            return
        by_hand = _placed_by_hand(decided)
        names = {record.topic_id: record.name for record in decided.records if isinstance(record, TopicRecord)}
        for record in new:
            replicas = record.replicas
            if len(set(replicas)) != len(replicas):
                raise self.group.broken("C19", f"two copies of a partition on one broker: {replicas}", decided.life)
            if names.get(record.topic_id) not in by_hand:
                self._check_racks(decided, replicas)

    def _check_racks(self, decided: Decided, replicas: tuple[int, ...]) -> None:
        brokers = decided.before.cluster.brokers
        going = decided.reign.going | _decommissioned(decided)
        if any(each.rack is None or not each.is_active or each.broker_id in going for each in brokers.values()):
            return
        racks = {broker.rack for broker in brokers.values()}
        used = {brokers[each].rack for each in replicas if each in brokers}
        if len(used) < min(len(racks), len(replicas)):
            raise self.group.broken("C19", f"the copies {replicas} share racks, there are {len(racks)}", decided.life)


def _decommissioned(decided: Decided) -> set[int]:
    """Brokers that are asked to leave for good, and were not answered for yet: nothing new comes to them (S1-66)."""
    asked = [each.event.request for each in decided.reign.waiting.values()]
    return {
        each.broker_id for each in asked if isinstance(each, UnregisterBrokerRequest) and each.remove_from_assignments
    }


def _placed_by_hand(decided: Decided) -> set[str | None]:
    """The new topics whose places the client named; None stands for every topic that is not new."""
    event = decided.event
    if not isinstance(event, RequestArrived) or not isinstance(event.request, CreateTopicsRequest):
        return {None}
    return {None, *(topic.name for topic in event.request.topics if topic.assignments)}
