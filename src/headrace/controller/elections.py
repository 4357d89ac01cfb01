"""Elections of partition leaders, because somebody asks or because it is time.

Preferred and unclean elections on request (ElectLeaders, KIP-183, KIP-460), leaders brought back to the preferred replica
(`auto.leader.rebalance.enable`), and leaders for partitions whose topic allows unclean ones (B-C26). S2-07, S2-11, S2-24; C11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.controller.decision import Decision, Moves, check_size
from headrace.controller.isr_index import NOT_PREFERRED
from headrace.controller.partition_change import Election, Wish, change_partition
from headrace.controller.partitions import min_isr_for
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicIdPartition
from headrace.metadata.image import NO_LEADER
from headrace.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.controller.decision import Situation
    from headrace.controller.eligibility import Eligible
    from headrace.metadata.image import PartitionRegistration, TopicImage
    from headrace.metadata.snapshot import VersionedRecord

PREFERRED_ELECTION: Final = 0
UNCLEAN_ELECTION: Final = 1
_NOT_AVAILABLE: Final = {
    Election.PREFERRED: (ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."),
    Election.UNCLEAN: (
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        "Eligible topic partition leaders are not available.",
    ),
}


def decide_elections(situation: Situation, request: ElectLeadersRequest) -> Decision:
    """Elect leaders of the named partitions, or of all. Raises PeerError(INVALID_REQUEST): no such kind of election."""
    if request.topic_partitions is not None and not request.topic_partitions:
        return Decision(response=ElectLeadersResponse())
    if request.election_type not in (PREFERRED_ELECTION, UNCLEAN_ELECTION):
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    election = Election.UNCLEAN if request.election_type == UNCLEAN_ELECTION else Election.PREFERRED
    records: list[VersionedRecord] = []
    results: list[ReplicaElectionResult] = []
    eligible = situation.eligible()
    names_all = request.topic_partitions is None
    for name, numbers in _asked(situation, request, election):
        topic = situation.image.topics.by_name.get(name)
        answers = []
        for number in numbers:
            error, message = _elect_one(situation, topic, name, number, records, (eligible, election))
            if error is not ErrorCode.ELECTION_NOT_NEEDED or not names_all:
                answers.append(PartitionResult(partition_id=number, error_code=error, error_message=message))
        results.append(ReplicaElectionResult(topic=name, partition_result=tuple(answers)))
    check_size(len(records))
    return Decision(records=tuple(records), response=ElectLeadersResponse(replica_election_results=tuple(results)))


def _asked(
    situation: Situation, request: ElectLeadersRequest, election: Election
) -> Iterator[tuple[str, Iterable[int]]]:
    """Topic name -> partitions. Nobody names them: those that may need an election, and every topic by its name."""
    if request.topic_partitions is not None:
        for topic in request.topic_partitions:
            yield topic.topic, dict.fromkeys(topic.partitions)
        return
    marks = (NO_LEADER,) if election is Election.UNCLEAN else (NOT_PREFERRED, NO_LEADER)
    needed: dict[str, list[int]] = {}
    for mark in marks:
        for place in situation.index.partitions_with(mark):
            topic_image = situation.image.topics.by_id[place.topic_id]
            needed.setdefault(topic_image.name, []).append(place.partition)
    for name in sorted(situation.image.topics.by_name):
        yield name, sorted(needed.get(name, ()))


def _elect_one(
    situation: Situation,
    topic: TopicImage | None,
    name: str,
    number: int,
    records: list[VersionedRecord],
    how: tuple[Eligible, Election],
) -> tuple[ErrorCode, str | None]:
    """The outcome for one partition; its record, if any, is added to `records`."""
    eligible, election = how
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    partition = topic.partitions.get(number)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}"
    if not _needs_election(partition, election):
        return ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    record = change_partition(
        TopicIdPartition(topic.id, number),
        partition,
        Wish(isr=partition.isr, election=election),
        eligible,
        metadata_version=situation.metadata_version,
        min_isr=min_isr_for(situation, name),
    )
    # NONE says that the preferred replica leads, or any where nobody led; Kafka says so wherever it elected another replica, too.
    is_other = election is Election.PREFERRED and partition.leader != NO_LEADER
    if record is None or (is_other and not _elects(record, partition.replicas[0])):
        return _NOT_AVAILABLE[election]
    records.append(record)
    return ErrorCode.NONE, None


def _elects(record: VersionedRecord, broker_id: int) -> bool:
    change = record.record
    return isinstance(change, PartitionChangeRecord) and change.leader == broker_id


def _needs_election(partition: PartitionRegistration, election: Election) -> bool:
    if election is Election.UNCLEAN:
        return partition.leader == NO_LEADER
    return partition.leader != partition.replicas[0]


def balancing_moves(situation: Situation) -> Moves:
    """Leaders go back to the preferred replica where it is in sync and may lead; never to a stopping or fenced broker (S2-24)."""
    return Moves(places=situation.index.partitions_with(NOT_PREFERRED), change=_preferred)


def _preferred(situation: Situation, places: Iterable[TopicIdPartition]) -> Iterator[VersionedRecord]:
    eligible = situation.eligible()
    for place in places:
        topic = situation.image.topics.by_id.get(place.topic_id)
        if topic is None:
            continue
        partition = topic.partitions.get(place.partition)
        if partition is None or not _needs_election(partition, Election.PREFERRED):
            continue
        record = change_partition(
            place,
            partition,
            Wish(isr=partition.isr, election=Election.PREFERRED),
            eligible,
            metadata_version=situation.metadata_version,
            min_isr=min_isr_for(situation, topic.name),
        )
        if record is not None:
            yield record


def unclean_moves(situation: Situation) -> Moves:
    """Partitions without a leader get one: an in-sync replica that a failover kept from being elected, or one that is not in
    sync where the topic allows it (C11, CL2) (B-C26).
    """
    return Moves(places=situation.index.without_leader())
