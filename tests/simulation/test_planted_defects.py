"""Planted defects: mistakes that systems of this kind have really had are found by the checks, most of them within a few short runs.

`python -m tools.mutants` hunts all of them in whole runs, from the first seed on.
"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller import partition_change
from headrace.controller.heartbeats import Heartbeats
from headrace.controller.machine import ControllerMachine
from headrace.sim.observation import InvariantBroken
from headrace.sim.outcome import RunKey
from headrace.sim.run import run
from headrace.sim.scenario import Simulation
from tools.mutants.hunt import DEFECTS, hunt
from tools.mutants.planting import ABSENT, Defect, Planting, planted

QUICK = [
    *(f"K{number}" for number in (1, 2, 3, 6, 7, 8, 9, 10, 12, 16, 20, 26, 27, 34, 43)),
    *(f"X{number}" for number in (1, 5, 6, 7, 8, 12, 13, 14, 19, 20, 22)),
    *(f"Y{number}" for number in (1, 2, 5, 11)),
    *(f"Z{number}" for number in (1, 2, 3, 4, 5, 6, 8, 9)),
    *(f"W{number}" for number in (2, 6, 11)),
]
"""Those that show within seconds; the others are left to the hunt."""
SEEDS = range(1, 81)
STEPS = 3_000
LATE = {"Z6": 6_000}
"""Those that show later in a run."""
SHOWN = {
    **{"K7": 2, "K16": 22, "K20": 2, "K27": 2, "K43": 3, "X8": 10, "X12": 2, "X13": 3, "X14": 8, "X20": 2, "X22": 24},
    **{"Z1": 15, "Z2": 20, "Z3": 7, "Z6": 7, "Z8": 2, "Z9": 6, "W11": 62},
}
"""The seed that showed a defect when it was last hunted from the first one on: it is tried before all others."""

BY_ID = {defect.id: defect for defect in DEFECTS}


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_defect_is_found(name: str) -> None:
    """defect:K1 defect:K2 defect:K3 defect:K6 defect:K7 defect:K8 defect:K9 defect:K10 defect:K12 defect:K16 defect:K20 defect:K26 defect:K27 defect:K43; inv:RL2 (X1) inv:CL3 (X5 X6 X7 X22) inv:C11 (X8) inv:C2 (X12 X13) inv:C7 (X14) inv:C27 (X19 X20)
    defect:Y1 defect:Y2 defect:Y5 defect:Y11; inv:PR1 (Z1 Z3) inv:PR4 (Z2 Z5) inv:P17 (Z4) inv:P4 (Z6) inv:P3 (Z8) inv:P20 (Z9)
    defect:W2 defect:W6 defect:W11; inv:E2 defect:K34."""
    seeds = sorted(SEEDS, key=lambda seed: seed != SHOWN.get(name))
    assert hunt(BY_ID[name], seeds, max_steps=LATE.get(name, STEPS)) is not None


def test_every_defect_that_applies_has_its_plant() -> None:
    """Section 8: K29, K33, K35 and, for logs and snapshots, K30 to K32 are found by the crash points of tests/crash; K40 and K41 by unit tests of logs."""
    ids = [*range(1, 29), 30, 31, 32, 34, 42, 43]
    assert {each for each in BY_ID if each.startswith("K")} == {f"K{number}" for number in ids}
    assert {each for each in BY_ID if each.startswith("X")} == {f"X{number}" for number in range(1, 24)}
    assert {each for each in BY_ID if each.startswith("Y")} == {f"Y{number}" for number in range(1, 19)}
    assert {each for each in BY_ID if each.startswith("W")} == {f"W{number}" for number in range(1, 12)}
    assert {each for each in BY_ID if each.startswith("Z")} == {f"Z{number}" for number in range(1, 11)}


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: str(defect.id))
def test_what_was_planted_is_taken_out_again(defect: Defect) -> None:
    """A run after a hunt is one of the honest product."""
    planting = Planting()
    defect.plant(planting)
    honest = list(planting.replaced)
    planting.undo()
    assert honest
    with planted(defect):
        assert all(vars(owner)[name] is not value for owner, name, value in honest[:1])
    assert all(vars(owner).get(name, ABSENT) is value for owner, name, value in honest)


def lets_brokers_go_too_soon(planting: Planting) -> None:
    """Whoever leads nothing any more may stop, whether the others know who leads now or not."""
    planting.replace(Heartbeats, "others_have_caught_up", lambda self, broker_id: True)


def test_a_broker_that_is_let_go_too_soon_is_found() -> None:
    """inv:C15, S2-20, fault:S10: the others have not read yet who leads in its place; without the defect it waits for them."""
    defect = Defect(id="", what="a broker is let go too soon", plant=lets_brokers_go_too_soon)
    for is_planted in (False, True):
        with planted(defect if is_planted else None):
            cluster = Simulation(controllers=3, brokers=3, seed=5)
            cluster.start()
            cluster.create_topic("t", partitions=3, replication_factor=3)
            cluster.let_happen("restart", 101)
            if is_planted:
                with pytest.raises(InvariantBroken, match="C15"):
                    cluster.run_for(20)
            else:
                cluster.run_for(20)
        assert cluster.cluster.markers.counts["broker let go"] == 1
        assert 101 not in cluster.leaders("t").values()


def never_active_again(planting: Planting) -> None:
    """Every controller but the first of a cluster stops on its way to being active."""
    honest = ControllerMachine.__dict__["_activate"]

    def activate(self: Any, event: Any) -> list[Any]:
        effects: list[Any] = honest(self, event)
        self._active.started = self._active.started and event.image.features.metadata_version is None
        return effects

    planting.replace(ControllerMachine, "_activate", activate)


def test_a_controller_that_takes_no_requests_after_a_failover_is_found_at_the_end() -> None:
    """inv:RL2: nothing wrong is ever written or told, so only what must become true shows it."""
    key = RunKey(level="quorum", seed=1, options={"controllers": 3, "faults": "kill", "every_ms": 1_000, "seconds": 5})
    defect = Defect(id="", what="a controller never becomes active after a failover", plant=never_active_again)
    assert run(key).failure is None
    with planted(defect):
        failure = run(key).failure
    assert failure is not None
    assert failure.invariant == "RL2", failure.message


def test_moves_that_never_end_are_found_at_the_end() -> None:
    """inv:CL3: every step of them is right; after the faults brokers lead on, and the replicas that came in sync change nothing."""

    def never_complete(planting: Planting) -> None:
        planting.replace(partition_change, "completed", lambda assignment, isr: None)

    key = RunKey(level="partitions", seed=7, options={"faults": "none", "seconds": 2})
    defect = Defect(id="", what="a move is never complete", plant=never_complete)
    result = run(key)
    assert result.failure is None
    assert result.markers["reassignment completed"] > 0
    with planted(defect):
        failure = run(key).failure
    assert failure is not None
    assert failure.invariant == "CL3", failure.message
