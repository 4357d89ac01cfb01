"""At which seed is a planted defect found, and by what?"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from headrace.sim.checkers import all_checkers
from headrace.sim.cluster import SimCluster
from headrace.sim.observation import InvariantBroken
from headrace.sim.plan import Plan, draw_plan
from tools.mutants import (
    controller_defects,
    directory_defects,
    disk_defects,
    eligible_defects,
    metadata_defects,
    partition_defects,
    raft_defects,
    record_defects,
    replica_defects,
    replication_defects,
)
from tools.mutants.planting import Defect, planted

DEFECTS: tuple[Defect, ...] = (
    *raft_defects.DEFECTS,
    *controller_defects.DEFECTS,
    *disk_defects.DEFECTS,
    *partition_defects.DEFECTS,
    *metadata_defects.DEFECTS,
    *record_defects.DEFECTS,
    *replica_defects.DEFECTS,
    *directory_defects.DEFECTS,
    *eligible_defects.DEFECTS,
    *replication_defects.DEFECTS,
)
"""Those that the simulation is to find. K29 and the rest of K30 to K35 are found by the crash points of `tests/crash`."""


_SLICE_MS = 50


class Found(NamedTuple):
    """The seed and the step at which a defect was found, and the line of the contract (or the node's own check) that broke."""

    seed: int
    step: int
    by: str
    message: str


def plan_of(seed: int, level: str, copies: int = 0) -> Plan:
    """The very run that `headrace sim --level LEVEL --seed SEED` makes, or, of one copy, with `--copies 1`."""
    return draw_plan(level, seed, {"copies": 1} if copies == 1 else {})


def run(
    seed: int,
    level: str,
    defect: Defect | None,
    *,
    copies: int = 0,
    max_steps: int | None = None,
    heals: bool = False,
) -> Found | None:
    """One run until its faults stop or `max_steps` are over; what broke, None when nothing did.

    A defect is to break a rule, not to be slow: so the healing, and the checks of liveness, are left out but where it `heals`.
    """
    plan = plan_of(seed, level, copies)
    with planted(defect):
        cluster = SimCluster(plan, checkers=all_checkers())
        try:
            cluster.start()
            for at_ms in range(_SLICE_MS, plan.faults_until_ms + _SLICE_MS, _SLICE_MS):
                cluster.run_until(min(at_ms, plan.faults_until_ms))
                if max_steps is not None and cluster.world.steps >= max_steps:
                    break
            cluster.judge_safety()
            if heals:
                cluster.finish()
        except InvariantBroken as broken:
            return Found(seed, cluster.world.steps, broken.invariant, broken.message)
        except Exception as error:  # noqa: BLE001  # whatever a broken node does to itself is found too
            where = traceback.extract_tb(error.__traceback__)[-1]
            return Found(seed, cluster.world.steps, type(error).__name__, f"{where.name}: {error}")
    return None


@cache
def is_clean(seed: int, level: str, copies: int, max_steps: int | None, *, heals: bool = False) -> bool:
    """Nothing is found at this seed without a defect."""
    return run(seed, level, None, copies=copies, max_steps=max_steps, heals=heals) is None


def hunt(defect: Defect, seeds: Iterable[int], *, max_steps: int | None = None) -> Found | None:
    """The first of the seeds at which the defect is found, and at which nothing is found without it."""
    for seed in seeds:
        if not defect.may_show(plan_of(seed, defect.level, defect.copies)):
            continue
        found = run(seed, defect.level, defect, copies=defect.copies, max_steps=max_steps, heals=defect.heals)
        if found is not None and is_clean(seed, defect.level, defect.copies, max_steps, heals=defect.heals):
            return found
    return None
