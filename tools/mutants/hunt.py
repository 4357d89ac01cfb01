"""At which seed is a planted defect found, and by what?"""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from headrace.sim.checkers import all_checkers
from headrace.sim.cluster import SimCluster
from headrace.sim.observation import InvariantBroken
from headrace.sim.plan import Plan, draw_cluster_plan, draw_quorum_plan
from tools.mutants import controller_defects, disk_defects, raft_defects
from tools.mutants.planting import Defect, planted

DEFECTS: tuple[Defect, ...] = (*raft_defects.DEFECTS, *controller_defects.DEFECTS, *disk_defects.DEFECTS)
"""Those that the simulation is to find. K29 and the rest of K30 to K35 are found by the crash points of `tests/crash`."""


class Found(NamedTuple):
    """The seed and the step at which a defect was found, and the line of the contract (or the node's own check) that broke."""

    seed: int
    step: int
    by: str
    message: str


def plan_of(seed: int, level: str) -> Plan:
    """The very run that `headrace sim --level LEVEL --seed SEED` makes."""
    return draw_quorum_plan(seed) if level == "quorum" else draw_cluster_plan(seed)


def run(seed: int, level: str, defect: Defect | None) -> Found | None:
    """One run until its faults stop, without the healing after them: a defect is to break a rule, not to be slow. What broke, or None."""
    plan = plan_of(seed, level)
    with planted(defect):
        cluster = SimCluster(plan, checkers=all_checkers())
        try:
            cluster.start()
            cluster.run_until(plan.faults_until_ms)
            cluster.judge_safety()
        except InvariantBroken as broken:
            return Found(seed, cluster.world.steps, broken.invariant, broken.message)
        except Exception as error:  # noqa: BLE001  # whatever a broken node does to itself is found too
            where = traceback.extract_tb(error.__traceback__)[-1]
            return Found(seed, cluster.world.steps, type(error).__name__, f"{where.name}: {error}")
    return None


@cache
def is_clean(seed: int, level: str) -> bool:
    """Nothing is found at this seed without a defect."""
    return run(seed, level, None) is None


def hunt(defect: Defect, seeds: Iterable[int]) -> Found | None:
    """The first of the seeds at which the defect is found, and at which nothing is found without it."""
    for seed in seeds:
        if not defect.may_show(plan_of(seed, defect.level)):
            continue
        found = run(seed, defect.level, defect)
        if found is not None and is_clean(seed, defect.level):
            return found
    return None
