"""Leaders without loss, and what an election with loss leaves behind.  C10 C11"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import RequestArrived
from headrace.metadata.image import (
    LEADER_RECOVERED,
    LEADER_RECOVERING,
    NO_LEADER,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
)
from headrace.metadata.replay import merge
from headrace.sim.checkers.controller_steps import Decided, Judge
from headrace.sim.checkers.eligible_replicas import has_elr
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.observation import ClusterView

_KEY: Final = "unclean.leader.election.enable"
_UNCLEAN: Final = 1
"""The election type of a request that asks for an unclean one."""


class ElectedLeaders(Judge):
    """Clean leaders where there can be one; unclean ones where they may be, counted, and marked until recovered (C10, C11)."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._unclean: dict[int, tuple[Life, int]] = {}
        """Node -> how many unclean elections its process decided."""
        self._proofs: dict[Uuid, int] = {}
        """Incarnation -> the broker epoch of the clean stop before it, as it says."""
        self._coming: set[int] = set()
        """Brokers that asked to be registered and are not yet."""
        self._forced: set[int] = set()
        """Brokers that were to be decommissioned whatever is lost."""

    def decided(self, decided: Decided) -> None:
        """New leaders, marks that go, and brokers that registered anew."""
        event = decided.event
        if isinstance(event, RequestArrived) and isinstance(event.request, BrokerRegistrationRequest):
            self._proofs[event.request.incarnation_id] = event.request.previous_broker_epoch
            self._coming.add(event.request.broker_id)
        if isinstance(event, RequestArrived) and isinstance(event.request, UnregisterBrokerRequest):
            self._forced |= {event.request.broker_id} if event.request.force else set()
        for topic_id, number, before, after in _changes(decided):
            if after.leader not in (NO_LEADER, before.leader, *before.isr):
                self._elected_elr(decided, topic_id, number, before, after)
            if before.leader_recovery_state == LEADER_RECOVERING and after.leader_recovery_state == LEADER_RECOVERED:
                self._recovered(decided, topic_id, number, before)
            if _is_from_outside(decided, topic_id, number, before, after):
                self._elected_unclean(decided, topic_id, number, before, after)
        for record in decided.records:
            if isinstance(record, RegisterBrokerRecord):
                self._coming.discard(record.broker_id)
                self._registered(decided, record)

    def now_and_then(self, cluster: ClusterView) -> None:
        """The controllers' own count (C11)."""
        for node_id, (life, count) in self._unclean.items():
            node = cluster.nodes[node_id]
            if not node.is_up or node.run != life.run or node.controller is None:
                continue
            counted = node.controller.statistics.unclean_elections
            if counted != count:
                raise self.group.broken(
                    "C11", f"controller {node_id} held {count} unclean elections and counted {counted}", life
                )

    def _elected_elr(
        self, decided: Decided, topic_id: Uuid, number: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        """Who is eligible leads only where nobody is in sync, as if it had been (KIP-966); or by an unclean election, where who is in sync is away."""
        if after.leader not in before.eligible_leader_replicas:
            return
        name, is_marked = decided.before.topics.by_id[topic_id].name, after.leader_recovery_state
        if before.isr and is_marked == LEADER_RECOVERING and self._may_lose(decided, name, number):
            self.group.hit("eligible leader replica elected by an unclean election")
        elif is_marked != before.leader_recovery_state or after.last_known_elr:
            raise self.group.broken(
                "C11", f"{name}-{number} is led by {after.leader} of its elr, and is marked", decided.life
            )
        else:
            self.group.hit("eligible leader replica elected")

    @staticmethod
    def _may_lose(decided: Decided, name: str, number: int) -> bool:
        """An unclean election was asked for, or is allowed."""
        return _is_asked_for(decided, name, number) or _is_allowed(
            decided.before, name, controller_id=decided.life.node_id
        )

    def _elected_unclean(
        self, decided: Decided, topic_id: Uuid, number: int, before: PartitionRegistration, after: PartitionRegistration
    ) -> None:
        name = decided.before.topics.by_id[topic_id].name
        is_last_known = _is_last_known(decided, before, after.leader, self._coming)
        if is_last_known:
            self.group.hit("last known leader elected")
        elif self._forced & set(before.replicas) - set(after.replicas):
            self.group.hit("partition lost records with a broker that left by force")
        elif not self._may_lose(decided, name, number):
            raise self.group.broken(
                "C11", f"{name}-{number} got the leader {after.leader} from outside of {before.isr}", decided.life
            )
        if after.leader_recovery_state == LEADER_RECOVERED:
            raise self.group.broken("C11", f"{name}-{number} lost records and is not marked", decided.life)
        self.group.hit("unclean leader election")
        life, count = self._unclean.get(decided.life.node_id, (decided.life, 0))
        self._unclean[decided.life.node_id] = (decided.life, count + 1 if life is decided.life else 1)

    def _recovered(self, decided: Decided, topic_id: Uuid, number: int, before: PartitionRegistration) -> None:
        """Only the leader knows that it has recovered."""
        event = decided.event
        request = event.request if isinstance(event, RequestArrived) else None
        is_told = (
            isinstance(request, AlterPartitionRequest)
            and request.broker_id == before.leader
            and any(
                asked.partition_index == number and asked.leader_recovery_state == LEADER_RECOVERED
                for topic in request.topics
                if topic.topic_id == topic_id
                for asked in topic.partitions
            )
        )
        if not is_told:
            raise self.group.broken(
                "C11", f"partition {number} of {topic_id} lost its mark, and its leader did not say so", decided.life
            )
        self.group.hit("partition recovered after an unclean election")

    def _registered(self, decided: Decided, record: RegisterBrokerRecord) -> None:
        old = decided.before.cluster.brokers.get(record.broker_id)
        is_on = has_elr(decided.after)
        if (old is None and not is_on) or (old is not None and old.incarnation_id == record.incarnation_id):
            return
        proof = self._proofs.get(record.incarnation_id, -1)
        is_clean = old is not None and proof == old.broker_epoch
        for topic in decided.after.topics.by_id.values():
            for number, partition in topic.partitions.items():
                others = is_on or len(partition.isr) > 1 or partition.leader != NO_LEADER
                if record.broker_id in partition.isr and others:
                    raise self.group.broken(
                        "C10",
                        f"broker {record.broker_id} registered anew and is in the isr of {topic.name}-{number}",
                        decided.life,
                    )
                if record.broker_id in partition.eligible_leader_replicas and not is_clean:
                    raise self.group.broken(
                        "C10",
                        f"broker {record.broker_id} registered anew and may lead {topic.name}-{number}",
                        decided.life,
                    )


def _changes(decided: Decided) -> Iterator[tuple[Uuid, int, PartitionRegistration, PartitionRegistration]]:
    """(topic id, partition, before, after) of each record: when several brokers are fenced at once a partition may change again and again."""
    known: dict[tuple[Uuid, int], PartitionRegistration] = {}
    for record in decided.records:
        if isinstance(record, PartitionChangeRecord):
            place = (record.topic_id, record.partition_id)
            before = known.get(place) or decided.before.topics.partition_by_id(*place)
            if before is not None:
                after = known[place] = merge(before, record)
                yield (*place, before, after)


def _is_from_outside(
    decided: Decided, topic_id: Uuid, number: int, before: PartitionRegistration, after: PartitionRegistration
) -> bool:
    """The partition has a new leader that was not in sync and was not let in by its leader with the same change (S2-08)."""
    leader = after.leader
    if leader in (NO_LEADER, before.leader) or leader in before.isr or leader in before.eligible_leader_replicas:
        return False
    event = decided.event
    if not isinstance(event, RequestArrived) or not isinstance(event.request, AlterPartitionRequest):
        return True
    return not any(
        leader in asked.new_isr or any(each.broker_id == leader for each in asked.new_isr_with_epochs)
        for topic in event.request.topics
        if topic.topic_id == topic_id
        for asked in topic.partitions
        if asked.partition_index == number
    )


def _is_last_known(decided: Decided, before: PartitionRegistration, leader: int, coming: set[int]) -> bool:
    """Nobody is left that has all for sure, but those that come back without proof, and who led last is there (KIP-966)."""
    is_nobody_left = not before.isr and set(before.eligible_leader_replicas) <= coming
    return has_elr(decided.before) and is_nobody_left and before.last_known_elr == (leader,)


def _is_allowed(image: MetadataImage, topic: str, *, controller_id: int) -> bool:
    """The topic's setting, else the controller's own, else that for all brokers; no run's file allows it."""
    places = ((RESOURCE_TOPIC, topic), (RESOURCE_BROKER, str(controller_id)), (RESOURCE_BROKER, ""))
    values = [image.configs.of(*place).get(_KEY) for place in places]
    return next((value for value in values if value is not None), "false") == "true"


def _is_asked_for(decided: Decided, topic: str, number: int) -> bool:
    """Somebody asks for this very loss (KIP-460)."""
    event = decided.event
    request = event.request if isinstance(event, RequestArrived) else None
    if not isinstance(request, ElectLeadersRequest) or request.election_type != _UNCLEAN:
        return False
    asked = request.topic_partitions
    return asked is None or any(each.topic == topic and number in each.partitions for each in asked)
