"""Which mistakes can be made with the replicas and leaders of partitions, and with what is shown of them?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from headrace.broker.broker import Broker
from headrace.controller import (
    alter_partition,
    brokers,
    decommission,
    directories,
    elections,
    partition_change,
    partitions,
    reassignment,
    term,
)
from headrace.controller.decision import Moves
from headrace.controller.partition_change import Assignment, Wish, change_partition, default_directory
from headrace.metadata.image import EMPTY_IMAGE, LEADER_RECOVERED, LEADER_RECOVERING
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.metadata.image import MetadataImage, PartitionRegistration


def keeps_what_was_to_go(planting: Planting) -> None:
    """X5."""
    honest = partition_change.completed

    def completed(assignment: Assignment, isr: tuple[int, ...]) -> tuple[Assignment, tuple[int, ...]] | None:
        return None if honest(assignment, isr) is None else (Assignment(assignment.replicas), isr)

    planting.replace(partition_change, "completed", completed)


def keeps_what_was_added(planting: Planting) -> None:
    """X6."""
    honest = reassignment.cancellation

    def cancellation(situation: Any, topic: Any, number: int, partition: PartitionRegistration) -> Wish:
        return replace(honest(situation, topic, number, partition), assignment=Assignment(partition.replicas))

    planting.replace(reassignment, "cancellation", cancellation)


def forgets_where_it_came_from(planting: Planting) -> None:
    """X7: a changed target is measured from the replicas of the moment."""

    def new_target(situation: Any, partition: PartitionRegistration, target: tuple[int, ...]) -> Wish:
        removing = tuple(sorted(set(partition.replicas) - set(target)))
        adding = tuple(sorted(set(target) - set(partition.replicas)))
        return Wish(
            isr=partition.isr,
            assignment=Assignment((*target, *removing), adding, removing),
            directories={each: default_directory(situation.image.cluster, each) for each in adding},
        )

    planting.replace(reassignment, "_new_target", new_target)


def elects_unclean_anywhere(planting: Planting) -> None:
    """X8."""
    planting.replace(partitions, "is_unclean_allowed", lambda situation, topic: True)


def forgets_the_mark(planting: Planting) -> None:
    """X9: any later change of a partition takes the mark away."""

    def change(place: Any, before: PartitionRegistration, wish: Wish, *rest: Any, **more: Any) -> Any:
        is_left_alone = wish.leader_recovery_state is None
        wished = replace(wish, leader_recovery_state=LEADER_RECOVERED) if is_left_alone else wish
        return change_partition(place, before, wished, *rest, **more)

    planting.replace_everywhere(
        change_partition, change, alter_partition, directories, elections, partitions, reassignment
    )


def counts_marks(planting: Planting) -> None:
    """X10: an unclean election is counted where it sets the mark, and not where it was set."""

    def is_unclean(each: Any, before: MetadataImage, after: MetadataImage) -> bool:
        record = each.record
        return isinstance(record, PartitionChangeRecord) and record.leader_recovery_state == LEADER_RECOVERING

    planting.replace(term, "_is_unclean", is_unclean)


class _Late:
    """An attribute that shows what it was set to before."""

    def __set__(self, owner: Any, image: MetadataImage) -> None:
        shown = vars(owner).setdefault("_shown", [EMPTY_IMAGE, EMPTY_IMAGE])
        shown[:] = [shown[1], image]

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else vars(owner)["_shown"][0]


def shows_old_metadata(planting: Planting) -> None:
    """X11: a broker answers from the metadata that it had before the last change."""
    planting.add(Broker, "image", _Late())


def leads_though_fenced(planting: Planting) -> None:
    """X21: a broker whose decommissioning is refused leads what has no leader, whether it is active or not."""
    asked: dict[str, Any] = {}

    def moves(**fields: Any) -> Moves:
        if "remove" in fields:
            asked.update(add=fields["remove"], broker_epoch=fields["broker_epoch"])
            return Moves(**fields)
        return Moves(**asked, **fields)

    planting.replace(decommission, "Moves", moves)


def decommissions_by_force(planting: Planting) -> None:
    """X22: the last replica in sync leaves whether that was forced or not."""
    honest = decommission.decide_decommission

    def decide(situation: Any, broker: Any, heartbeats: Any, *, is_forced: bool) -> Any:
        return honest(situation, broker, heartbeats, is_forced=True)

    planting.replace(brokers, "decide_decommission", decide)


def moves_on_without(planting: Planting) -> None:
    """X23: a move to a broker that is decommissioned goes on without it, with fewer replicas than there were."""

    def rest_of_assignment(partition: PartitionRegistration, broker_id: int) -> Assignment:
        return Assignment(
            *(
                tuple(each for each in part if each != broker_id)
                for part in (partition.replicas, partition.adding_replicas, partition.removing_replicas)
            )
        )

    planting.replace(decommission, "_rest_of_assignment", rest_of_assignment)


DEFECTS = (
    Defect(id="X5", what="replicas that were to go stay", plant=keeps_what_was_to_go, level="partitions"),
    Defect(id="X6", what="a cancelled move leaves replicas behind", plant=keeps_what_was_added, level="partitions"),
    Defect(
        id="X7",
        what="a move's new target forgets the first replicas",
        plant=forgets_where_it_came_from,
        level="partitions",
    ),
    Defect(
        id="X8", what="an unclean election where it is not allowed", plant=elects_unclean_anywhere, level="partitions"
    ),
    Defect(id="X9", what="the mark of an unclean election goes by itself", plant=forgets_the_mark, level="partitions"),
    Defect(id="X10", what="an unclean election is not counted", plant=counts_marks, level="partitions"),
    Defect(id="X11", what="a broker shows older metadata than it has", plant=shows_old_metadata, level="partitions"),
    Defect(
        id="X21", what="a fenced broker leads after a refusal", plant=leads_though_fenced,
        level="records", copies=2, decommissions=True,
    ),
    Defect(
        id="X22", what="a broker leaves that is needed", plant=decommissions_by_force,
        level="partitions", decommissions=True,
    ),
    Defect(
        id="X23", what="a move goes on without its target", plant=moves_on_without,
        level="partitions", decommissions=True,
    ),
)  # fmt: skip
"""X: others than those of section 8 of the fault catalogue; CL3, C11 and H13 must find them."""
