"""Mistakes with eligible leader replicas: who is in an ELR, who of it leads, and what is committed without it (KIP-966)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.controller import configs, partition_change
from headrace.controller.eligibility import NOBODY
from headrace.controller.elr import elr_after, last_known_leader
from headrace.metadata.image import NO_LEADER
from headrace.replication.leader import PartitionLeader
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.metadata.image import PartitionRegistration


def keeps_the_unclean(planting: Planting) -> None:
    """K43: a broker that comes back without the proof of a clean stop stays in the ELR."""

    def kept(before: Any, replicas: Any, isr: Any, *, min_isr: int | None, unclean: int) -> tuple[int, ...]:
        return elr_after(before, replicas, isr, min_isr=min_isr, unclean=NOBODY)

    planting.replace(partition_change, "elr_after", kept)


def elects_the_fenced(planting: Planting) -> None:
    """X14: of the ELR the first one leads, whether it lives or not."""
    honest = partition_change.elect

    def elect(partition: PartitionRegistration, replicas: Any, candidates: Any, eligible: Any, *, election: Any) -> Any:
        if not candidates.isr and candidates.elr:
            return candidates.elr[0], False
        return honest(partition, replicas, candidates, eligible, election=election)

    planting.replace(partition_change, "elect", elect)


def commits_below_min_isr(planting: Planting) -> None:
    """X15: what all in sync hold is committed, however few they are."""

    def advance(self: Any) -> bool:
        held = [self.followers[member].log_end_offset for member in self._maximal_isr() if member != self.broker_id]
        lowest = min([self.log.acknowledged_end_offset, *held])
        if lowest <= self.log.high_watermark:
            return False
        self.log.advance_high_watermark(lowest)
        return True

    planting.replace(PartitionLeader, "advance", advance)


def keeps_the_elr(planting: Planting) -> None:
    """X16: enough are in sync again, and the ELR stays."""

    def kept(before: PartitionRegistration, replicas: Any, isr: Any, *, min_isr: int | None, unclean: int) -> Any:
        found = elr_after(before, replicas, isr, min_isr=min_isr, unclean=unclean)
        return found or tuple(each for each in before.eligible_leader_replicas if each not in (*isr, unclean))

    planting.replace(partition_change, "elr_after", kept)


def keeps_it_under_other_settings(planting: Planting) -> None:
    """X17: another min.insync.replicas leaves the ELRs that were made under the one before."""
    planting.replace(configs, "_cleared", lambda situation, records: [])


def prefers_who_led_last(planting: Planting) -> None:
    """X18: who led last leads, though somebody is eligible."""
    honest = partition_change.elect

    def elect(partition: PartitionRegistration, replicas: Any, candidates: Any, eligible: Any, *, election: Any) -> Any:
        last = last_known_leader(partition, replicas)
        if not candidates.isr and last != NO_LEADER and last in replicas and eligible.may_lead(partition, last):
            return last, True
        return honest(partition, replicas, candidates, eligible, election=election)

    planting.replace(partition_change, "elect", elect)


DEFECTS = (
    Defect(id="K43", what="an unclean broker stays in the ELR", plant=keeps_the_unclean, level="partitions"),
    Defect(id="X14", what="a fenced member of the ELR is elected", plant=elects_the_fenced, level="partitions"),
    Defect(id="X15", what="committed with too few in sync", plant=commits_below_min_isr, level="records", copies=2),
    Defect(id="X16", what="the ELR outlives enough in sync", plant=keeps_the_elr, level="partitions"),
    Defect(
        id="X17",
        what="the ELR outlives its min.insync.replicas",
        plant=keeps_it_under_other_settings,
        level="partitions",
    ),
    Defect(id="X18", what="the last known leader before the eligible", plant=prefers_who_led_last, level="partitions"),
)
"""C5, C7, C10, C11, P3 and P6 must find them."""
