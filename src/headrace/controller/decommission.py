"""A broker that leaves for good together with its replicas (UnregisterBroker with RemoveFromAssignments).

    look    at every partition: where the broker has a replica, and where it is needed, since nobody else is in sync
    drop    it there: from replicas, ISR, ELR, adding, removing and directories; other leaders are elected
    last    its registration goes

Needed and not forced: refused, and nothing is written; while it is looked at the broker leads as before, however often that is asked. Forced: a partition that loses its only replica goes on, empty, on another broker, and
one that loses its only replica in sync goes on with what another one has; both are counted as unclean elections and told in the answer.
In one batch where partitions are few, else slice by slice like all moves (`moving`); meanwhile nobody can give the broker new
replicas. S1-66, S1-70, S1-71; C7, C11.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision, Moves
from headrace.controller.elr import is_elr_on
from headrace.controller.partition_change import (
    Assignment,
    Wish,
    assignment_of,
    change_partition,
    default_directory,
)
from headrace.controller.partitions import min_isr_for
from headrace.controller.topics import usable_brokers
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import LEADER_RECOVERING
from headrace.metadata.snapshot import VersionedRecord
from headrace.wire.messages.unregister_broker import EmptiedTopic, UnregisterBrokerResponse
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.controller.decision import Situation
    from headrace.controller.eligibility import Eligible
    from headrace.controller.heartbeats import Heartbeats
    from headrace.controller.isr_index import IsrIndex
    from headrace.metadata.image import BrokerRegistration, PartitionRegistration, TopicsImage

NAMED_PARTITIONS: Final = 10
"""How many partitions a refusal names (S1-70)."""


def decide_decommission(
    situation: Situation, broker: BrokerRegistration, heartbeats: Heartbeats, *, is_forced: bool
) -> Decision:
    """Take a registered broker out of every assignment and out of the register."""
    leaver = _Leaver(broker, heartbeats, is_forced=is_forced)
    look = Moves(
        places=_all_places(situation.image.topics),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        change=leaver.look,
        last=leaver.judge,
        is_for_good=True,
        is_a_look=True,
    )
    drop = Moves(
        places=leaver.places_to_drop(),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        change=leaver.drop,
        last=leaver.unregister,
        on_end=leaver.ended,
        is_for_good=True,
    )
    stay = Moves(places=leaver.leaderless(situation.index))
    return Decision(response=UnregisterBrokerResponse(error_message=""), moves=(look, drop, stay))


def _all_places(topics: TopicsImage) -> Iterator[TopicIdPartition]:
    for topic_id in sorted(topics.by_id):
        for number in sorted(topics.by_id[topic_id].partitions):
            yield TopicIdPartition(topic_id, number)


class _Leaver:
    """One broker that leaves, and what has been found out about its partitions so far."""

    def __init__(self, broker: BrokerRegistration, heartbeats: Heartbeats, *, is_forced: bool) -> None:
        self._broker = broker
        self._heartbeats = heartbeats
        self._is_forced = is_forced
        self._places: list[TopicIdPartition] = []
        self._needed: list[str] = []
        """Names of the first partitions that it is needed for."""
        self._needed_count = 0
        self._is_refused = False
        self._emptied: dict[str, list[int]] = {}
        self._turn = 0

    def look(self, situation: Situation, places: Iterable[TopicIdPartition]) -> Iterator[VersionedRecord]:
        """Note the partitions that hold the broker, and those that need it. No records."""
        broker_id, by_id = self._broker.broker_id, situation.image.topics.by_id
        can_replace = self._is_forced and bool(self._successors(situation))
        for place in places:
            topic = by_id.get(place.topic_id)
            before = None if topic is None else topic.partitions.get(place.partition)
            if topic is None or before is None or broker_id not in before.replicas:
                continue
            self._places.append(place)
            if _is_needed(before, broker_id) and not (self._is_forced and (can_replace or len(before.replicas) > 1)):
                self._note_needed(topic.name, place.partition)
        return iter(())

    def judge(self, _later: Situation) -> tuple[list[VersionedRecord], UnregisterBrokerResponse | None]:
        """The refusal, if it is one (S1-70)."""
        self._is_refused = self._needed_count > 0
        return [], self._refusal() if self._is_refused else None

    def places_to_drop(self) -> Iterator[TopicIdPartition]:
        """Where it has a replica; looked at when the first partition was judged by the last."""
        if not self._is_refused:
            yield from self._places

    def drop(self, situation: Situation, places: Iterable[TopicIdPartition]) -> Iterator[VersionedRecord]:
        """The records that take it out of these partitions."""
        eligible = situation.eligible(without=self._broker.broker_id)
        successors = self._successors(situation) if self._is_forced else []
        for place in places:
            topic = situation.image.topics.by_id.get(place.topic_id)
            before = None if topic is None else topic.partitions.get(place.partition)
            if topic is None or before is None or self._broker.broker_id not in before.replicas:
                continue
            wish = self._wish(situation, topic.name, place.partition, before, (eligible, successors))
            if wish is None:  # needed only since the look
                self._note_needed(topic.name, place.partition)
                continue
            record = change_partition(
                place,
                before,
                wish,
                eligible,
                metadata_version=situation.metadata_version,
                min_isr=min_isr_for(situation, topic.name),
            )
            assert record is not None, "the replicas differ"
            heirs = (
                self._heirs(situation, topic.name, before) if wish.leader_recovery_state == LEADER_RECOVERING else None
            )
            yield _without_elr(record, before, wish, self._broker.broker_id, heirs=heirs)

    def unregister(self, _later: Situation) -> tuple[list[VersionedRecord], UnregisterBrokerResponse | None]:
        """The end: the registration goes, unless a partition came to need it meanwhile."""
        if self._is_refused:
            return [], None
        if self._needed_count:
            self._is_refused = True
            return [], self._refusal()
        record = UnregisterBrokerRecord(broker_id=self._broker.broker_id, broker_epoch=self._broker.broker_epoch)
        emptied = tuple(
            EmptiedTopic(name=name, partitions=tuple(numbers)) for name, numbers in sorted(self._emptied.items())
        )
        return [VersionedRecord(record, 0)], UnregisterBrokerResponse(error_message="", emptied_topics=emptied)

    def leaderless(self, index: IsrIndex) -> Iterator[TopicIdPartition]:
        """Refused after all, it may lead again what lost its leader meanwhile, if it is active."""
        if self._is_refused:
            yield from index.without_leader()

    def ended(self, _offset: int) -> None:
        """Its session ends with its registration."""
        if not self._is_refused:
            self._heartbeats.remove(self._broker.broker_id)

    def _wish(
        self,
        situation: Situation,
        name: str,
        number: int,
        before: PartitionRegistration,
        who: tuple[Eligible, list[int]],
    ) -> Wish | None:
        """What a partition becomes; None when it cannot do without the broker."""
        broker_id = self._broker.broker_id
        eligible, successors = who
        assignment = _rest_of_assignment(before, broker_id)
        isr = tuple([each for each in before.isr if each != broker_id and each in assignment.replicas])
        if isr:
            return Wish(isr=isr, assignment=assignment)
        rest = _without(before.replicas, broker_id)
        heirs = [each for each in before.eligible_leader_replicas if each in rest]
        if heirs and (not before.isr or is_elr_on(situation.image.features)):
            return Wish(isr=(), assignment=assignment)  # one of them is elected now or when it is back
        live = [each for each in (heirs or rest) if eligible.may_lead(before, each)]
        if heirs:
            return Wish(isr=((live or heirs)[0],), assignment=assignment)
        if not self._is_forced or not (rest or successors):
            return None
        self._emptied.setdefault(name, []).append(number)
        if rest:
            one = (live or rest)[0]
            isr = () if not live and is_elr_on(situation.image.features) else (one,)
            return Wish(isr=isr, assignment=assignment, leader_recovery_state=LEADER_RECOVERING)
        successor = successors[self._turn % len(successors)]
        self._turn += 1
        return Wish(
            isr=(successor,),
            assignment=Assignment((successor,)),
            leader_recovery_state=LEADER_RECOVERING,
            directories={successor: default_directory(situation.image.cluster, successor)},
        )

    def _heirs(self, situation: Situation, name: str, before: PartitionRegistration) -> tuple[int, ...]:
        """Who may lead when it is back, where records are lost and nobody is live (KIP-966): the first of them that is, or the one that is enough in sync."""
        min_isr = min_isr_for(situation, name)
        if min_isr is None:
            return ()
        rest = _without(before.replicas, self._broker.broker_id)
        known = [each for each in rest if each in situation.image.cluster.brokers]
        return rest if min(min_isr, len(rest)) > 1 else tuple((known or rest)[:1])

    def _successors(self, situation: Situation) -> list[int]:
        """Who may hold a partition that loses its only replica."""
        return [
            each.broker_id
            for each in usable_brokers(situation)
            if not each.is_fenced and each.broker_id != self._broker.broker_id
        ]

    def _note_needed(self, name: str, number: int) -> None:
        self._needed_count += 1
        if len(self._needed) < NAMED_PARTITIONS:
            self._needed.append(f"{name}-{number}")

    def _refusal(self) -> UnregisterBrokerResponse:
        more = self._needed_count - len(self._needed)
        others = f" and {more} more" if more else ""
        why = (
            "and no other broker is active to take them over" if self._is_forced else "and nobody else is in sync there"
        )
        return UnregisterBrokerResponse(
            error_code=ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS,
            error_message=f"Broker {self._broker.broker_id} is required for {self._needed_count} partition(s), {why}: "
            f"{', '.join(self._needed)}{others}",
        )


def _is_needed(partition: PartitionRegistration, broker_id: int) -> bool:
    """Nobody else has all that was acknowledged."""
    return not any(each != broker_id for each in (*partition.isr, *partition.eligible_leader_replicas))


def _without(replicas: tuple[int, ...], broker_id: int) -> tuple[int, ...]:
    return tuple([each for each in replicas if each != broker_id])


def _rest_of_assignment(partition: PartitionRegistration, broker_id: int) -> Assignment:
    """The assignment without the broker; a reassignment that was to add it, or has no target without it, is taken back.

    So that a partition does not end with fewer replicas than it would have kept.
    """
    if not partition.adding_replicas and not partition.removing_replicas:
        return Assignment(_without(partition.replicas, broker_id))
    before = assignment_of(partition)
    if broker_id in before.adding and any(each in before.original for each in partition.isr):
        return Assignment(before.original)
    rest = Assignment(
        _without(before.replicas, broker_id), _without(before.adding, broker_id), _without(before.removing, broker_id)
    )
    if (
        not rest.original
    ):  # it was all that there was before: what is left is where the partition goes, and there is no way back
        return Assignment(rest.target)
    return rest if rest.target else Assignment(rest.replicas)


def _without_elr(
    each: VersionedRecord,
    before: PartitionRegistration,
    wish: Wish,
    broker_id: int,
    *,
    heirs: tuple[int, ...] | None,
) -> VersionedRecord:
    """The record with what is left of the eligible leader replicas and the last known ones (KIP-966); `heirs` where records are lost."""
    change = each.record
    assert isinstance(change, PartitionChangeRecord)
    gone = {broker_id, *wish.isr}
    left = tuple(one for one in before.eligible_leader_replicas if one not in gone)
    if heirs is not None:
        left = () if wish.isr else heirs
    if left != before.eligible_leader_replicas and change.eligible_leader_replicas is None:
        change = replace(change, eligible_leader_replicas=left)
    known = _without(before.last_known_elr, broker_id)
    if known != before.last_known_elr and change.last_known_elr is None:
        change = replace(change, last_known_elr=known)
    return each if change is each.record else VersionedRecord(change, each.version)
