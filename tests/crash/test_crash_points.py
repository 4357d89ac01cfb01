"""Whatever the moment of a power cut: is every durable record there, once, and nothing that was never written?

Two recoveries are judged a crash: of the crashed disk, and of a crash inside that recovery. HEADRACE_CRASH_RECOVERIES says how many,
HEADRACE_CRASH_SEED the first seed.
A failure names seed, number of disk calls and the chance's seed; `judge(ran(seed), count, chance_seed)` replays it.
"""

from __future__ import annotations

import random
import struct

import pytest

from tests.crash.defects import PLANTED
from tests.crash.judge import judge
from tests.crash.workload import Workload
from tests.support.volumes import seed as seed_of
from tests.support.volumes import volume

CRASHES_PER_SEED = 20
RECOVERIES_PER_CRASH = 2
SEEDS = volume("HEADRACE_CRASH_RECOVERIES", quick=600, ci=2_400) // (CRASHES_PER_SEED * RECOVERIES_PER_CRASH)
FIRST_SEED = seed_of("HEADRACE_CRASH_SEED", otherwise=0)
STEPS = 100


def ran(seed: int) -> Workload:
    """The workload of a seed, at its end."""
    workload = Workload(seed)
    workload.run(STEPS)
    return workload


def crash_points(seed: int, calls: int) -> list[tuple[int, int]]:
    """(number of disk calls, seed of the losses) of the crashes to judge."""
    chance = random.Random(seed)
    return [(chance.randrange(calls + 1), seed * 1000 + index) for index in range(CRASHES_PER_SEED)]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_no_crash_point_loses_or_invents_anything(seed: int) -> None:
    """inv:D1 inv:D2 inv:D4 inv:D5 inv:D7 inv:D8 inv:D11 inv:E1 inv:E2 inv:E4 inv:P11 inv:P16 inv:P18 inv:P19 PR9."""
    workload = ran(seed)
    assert workload.refusals == []
    for count, chance_seed in crash_points(seed, len(workload.files.ops)):
        assert judge(workload, count, chance_seed) == [], f"seed {seed}, {count} calls, chance {chance_seed}"


def test_every_crash_point_of_one_workload_is_judged() -> None:
    """inv:D5: each prefix of the calls of a shorter workload, one after the other."""
    workload = Workload(7)
    workload.run(45)
    for count in range(len(workload.files.ops) + 1):
        assert judge(workload, count, count) == [], f"{count} calls"


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_defect_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """defect:K29 defect:K30 defect:K32 defect:K33 defect:K34 defect:K35: the checks are checked."""
    PLANTED[name](monkeypatch)
    for seed in range(50):
        if is_found(seed):
            return
    pytest.fail(f"{name} was not found within 50 seeds")


def is_found(seed: int) -> bool:
    """True if any check breaks, also one of the product's own."""
    try:
        workload = ran(seed)
        return bool(workload.refusals) or any(
            judge(workload, *point) for point in crash_points(seed, len(workload.files.ops))
        )
    except (AssertionError, ValueError, LookupError, struct.error):
        return True
