"""A partition's leader after a change, and the record that says so.

Every change of a partition goes through `change_partition`: a reassignment that is complete ends, a leader is elected, and the
record says no more than what differs. Source: KIP-455, KIP-497, KIP-631, KIP-841, KIP-966; C5, C6, C7, C10, C11.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.controller.eligibility import NOBODY, Eligible
from headrace.controller.elr import elr_after, last_known_after, last_known_leader
from headrace.core.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, Uuid
from headrace.core.values import value_class
from headrace.metadata.image import LEADER_RECOVERING, NO_LEADER
from headrace.metadata.replay import NO_LEADER_CHANGE, NO_RECOVERY_STATE_CHANGE
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import bumps_leader_epoch_on_isr_shrink, has_directory_assignment, partition_version
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.ids import TopicIdPartition
    from headrace.metadata.image import ClusterImage, PartitionRegistration


class Election(Enum):
    """How a leader is looked for."""

    ONLINE = "the present leader if it may go on, else an in-sync replica"
    PREFERRED = "the first replica if it is in sync, else as ONLINE"
    UNCLEAN = "as ONLINE, else any live replica"


class Assignment(NamedTuple):
    """The replicas of a partition with those that come and those that go (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        """A reassignment goes on."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """What the replicas will be in the end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def original(self) -> tuple[int, ...]:
        """What they were before."""
        return tuple(each for each in self.replicas if each not in self.adding)


def assignment_of(partition: PartitionRegistration) -> Assignment:
    """The assignment as it stands."""
    return Assignment(partition.replicas, partition.adding_replicas, partition.removing_replicas)


@value_class
class Wish:
    """What a partition should become; None = as it is. `directories` are those of replicas that move or are told.

    `unclean` is a broker that did not stop cleanly: its replica may have lost what was not synced. `emptied` is one whose replica begins anew in
    another directory, because the one that it was in is gone.
    """

    isr: tuple[int, ...]
    unclean: int = NOBODY
    emptied: int = NOBODY
    election: Election = Election.ONLINE
    leader_recovery_state: int | None = None
    assignment: Assignment | None = None
    directories: Mapping[int, Uuid] | None = None


class Candidates(NamedTuple):
    """Who may lead: those in sync, else those of the ELR, all without loss; `last_known` only where neither is left (KIP-966)."""

    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    last_known: int = NO_LEADER


def elect(
    partition: PartitionRegistration,
    replicas: tuple[int, ...],
    candidates: Candidates,
    eligible: Eligible,
    *,
    election: Election,
) -> tuple[int, bool]:
    """(leader, is_unclean) among `replicas`; -1 when nobody may lead (C7, C11)."""
    clean = candidates.isr or candidates.elr
    if election is Election.PREFERRED and replicas[0] in clean and eligible.may_lead(partition, replicas[0]):
        return replicas[0], False
    if partition.leader in clean and eligible.may_lead(partition, partition.leader):
        return partition.leader, False
    for replica in replicas:
        if replica in clean and eligible.may_lead(partition, replica):
            return replica, False
    last_known = candidates.last_known
    if last_known in replicas and eligible.may_lead(partition, last_known):
        return last_known, True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if eligible.may_lead(partition, replica):
                return replica, True
    return NO_LEADER, False


def completed(assignment: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
    """The assignment and ISR when the target is in sync; None while that is not so (S2-08, CL3).

    As in Kafka 4.3.1: every added replica is enough, so that one which lags for reasons of its own does not hold the others up; where
    more replicas go than come, all of the target.
    """
    if not assignment.is_moving:
        return None
    target = assignment.target
    rest = tuple(each for each in isr if each not in assignment.removing)
    needed = target if len(assignment.removing) > len(assignment.adding) else assignment.adding
    if not target or not rest or not set(needed) <= set(rest):
        return None
    return Assignment(target), rest


def change_partition(
    place: TopicIdPartition,
    before: PartitionRegistration,
    wish: Wish,
    eligible: Eligible,
    *,
    metadata_version: int,
    min_isr: int | None,
) -> VersionedRecord | None:
    """The record that makes a partition as wished and, if it needs one, gives it a leader; None when nothing changes.

    `min_isr` is the topic's `min.insync.replicas`, None where the feature ELR is off: then an ISR never becomes empty, and its last
    member stays without leading (C7).
    """
    before_isr, isr = before.isr, wish.isr
    assignment = wish.assignment
    if assignment is None and (before.adding_replicas or before.removing_replicas):
        assignment = assignment_of(before)
    if assignment is not None:
        done = completed(assignment, isr)
        if done is not None:
            assignment, isr = done
    replicas = before.replicas if assignment is None else assignment.replicas
    placed = before if wish.directories is None else _placed(before, wish.directories)
    outcome = _outcome((placed, replicas, isr), wish, eligible, min_isr)
    leader, new_isr, recovery = outcome.leader, outcome.isr, outcome.recovery
    has_new_leader = leader != before.leader or _must_bump(before, replicas, new_isr, metadata_version)
    if assignment is None and wish.directories is None and not has_new_leader and outcome.is_as(before):
        return None
    record = PartitionChangeRecord(
        partition_id=place.partition,
        topic_id=place.topic_id,
        isr=None if new_isr == before_isr else new_isr,
        leader=leader if has_new_leader else NO_LEADER_CHANGE,
        leader_recovery_state=NO_RECOVERY_STATE_CHANGE if recovery == before.leader_recovery_state else recovery,
        eligible_leader_replicas=None if outcome.elr == before.eligible_leader_replicas else outcome.elr,
        last_known_elr=None if outcome.last_known == before.last_known_elr else outcome.last_known,
    )
    if assignment is not None or wish.directories is not None:
        full = _with_assignment(record, before, assignment or assignment_of(before), wish, metadata_version)
        return None if full is None else VersionedRecord(full, partition_version(metadata_version))
    return VersionedRecord(record, partition_version(metadata_version))


@value_class
class _Outcome:
    """Who leads a partition, and who may after it."""

    leader: int
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    last_known: tuple[int, ...]
    recovery: int

    def is_as(self, before: PartitionRegistration) -> bool:
        """Nothing differs but, perhaps, the leader."""
        return (
            self.isr == before.isr
            and self.recovery == before.leader_recovery_state
            and self.elr == before.eligible_leader_replicas
            and self.last_known == before.last_known_elr
        )


def _outcome(
    change: tuple[PartitionRegistration, tuple[int, ...], tuple[int, ...]],
    wish: Wish,
    eligible: Eligible,
    min_isr: int | None,
) -> _Outcome:
    """The election among the new replicas and ISR, and what it leaves in the ISR, the ELR and the mark of an unclean one."""
    before, replicas, isr = change
    elr = elr_after(before, replicas, isr, min_isr=min_isr, unclean=wish.unclean)
    whole = tuple([each for each in replicas if each != wish.emptied]) or replicas
    last_known = NO_LEADER if isr or elr or min_isr is None else last_known_leader(before, whole)
    leader, is_unclean = elect(before, replicas, Candidates(isr, elr, last_known), eligible, election=wish.election)
    recovery = before.leader_recovery_state if wish.leader_recovery_state is None else wish.leader_recovery_state
    if is_unclean:
        isr, elr, recovery = (leader,), (), LEADER_RECOVERING
    elif leader in elr:
        isr, elr = (leader,), tuple([each for each in elr if each != leader])
    if min_isr is None:
        isr = isr or before.isr
        elr = () if isr else elr
    return _Outcome(
        leader=leader,
        isr=isr,
        elr=elr,
        last_known=last_known_after(before, whole, leader, is_on=min_isr is not None),
        recovery=recovery,
    )


def note_directories(
    place: TopicIdPartition, before: PartitionRegistration, directories: Mapping[int, Uuid], *, metadata_version: int
) -> VersionedRecord | None:
    """The record that says in which directories replicas are, and nothing of who leads; None when they are known to be there."""
    empty = PartitionChangeRecord(partition_id=place.partition, topic_id=place.topic_id)
    wish = Wish(isr=before.isr, directories=directories)
    record = _with_assignment(empty, before, assignment_of(before), wish, metadata_version)
    return None if record is None else VersionedRecord(record, partition_version(metadata_version))


def _placed(before: PartitionRegistration, directories: Mapping[int, Uuid]) -> PartitionRegistration:
    """The partition with these directories, for the election: who may lead depends on where its replica is from now on (CL2)."""
    known = dict(zip(before.replicas, before.directories, strict=False)) | dict(directories)
    return replace(before, directories=tuple(known.get(each, MIGRATING_DIRECTORY) for each in before.replicas))


def _must_bump(
    before: PartitionRegistration, replicas: tuple[int, ...], isr: tuple[int, ...], metadata_version: int
) -> bool:
    """The leader epoch rises though the leader stays: replicas went, or (before 3.6-IV0) the ISR shrank."""
    if replicas is not before.replicas and not set(before.replicas) <= set(replicas):
        return True
    return bumps_leader_epoch_on_isr_shrink(metadata_version) and not set(before.isr) <= set(isr)


def _with_assignment(
    record: PartitionChangeRecord,
    before: PartitionRegistration,
    assignment: Assignment,
    wish: Wish,
    metadata_version: int,
) -> PartitionChangeRecord | None:
    """The record with what differs in replicas and directories; None when there is nothing to say."""
    known = dict(zip(before.replicas, before.directories, strict=False)) | dict(wish.directories or {})
    directories = tuple(known.get(each, UNASSIGNED_DIRECTORY) for each in assignment.replicas)
    has_directories = has_directory_assignment(metadata_version) and directories != before.directories
    replicas, adding, removing = assignment
    full = PartitionChangeRecord(
        partition_id=record.partition_id,
        topic_id=record.topic_id,
        isr=record.isr,
        leader=record.leader,
        leader_recovery_state=record.leader_recovery_state,
        eligible_leader_replicas=record.eligible_leader_replicas,
        last_known_elr=record.last_known_elr,
        replicas=None if replicas == before.replicas else replicas,
        adding_replicas=None if adding == before.adding_replicas else adding,
        removing_replicas=None if removing == before.removing_replicas else removing,
        directories=directories if has_directories else None,
    )
    return None if full == _nothing(record) else full


def _nothing(record: PartitionChangeRecord) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=record.partition_id, topic_id=record.topic_id)


def default_directory(cluster: ClusterImage, broker_id: int) -> Uuid:
    """Where a new replica goes: the broker's only usable directory, else it decides itself (KIP-858, KIP-1066)."""
    broker = cluster.brokers.get(broker_id)
    if broker is None or not broker.log_dirs:
        return MIGRATING_DIRECTORY
    usable = [each for each in broker.log_dirs if each not in (broker.cordoned_log_dirs or ())]
    return usable[0] if len(usable) == 1 else UNASSIGNED_DIRECTORY


def is_unclean_leader(leader: int, before: PartitionRegistration, after: PartitionRegistration) -> bool:
    """Whether records may be lost because it leads: it was neither in sync nor an eligible leader replica (KIP-966), and the change marks it (C11)."""
    return after.leader_recovery_state == LEADER_RECOVERING and leader not in (
        before.leader,
        *before.isr,
        *before.eligible_leader_replicas,
    )
