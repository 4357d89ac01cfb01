"""Planted defects: mistakes that systems of this kind have really had are found by the checks, most of them within a few short runs.

`python -m tools.mutants` hunts all of them in whole runs, from the first seed on.
"""

from __future__ import annotations

import pytest

from tools.mutants.hunt import DEFECTS, hunt
from tools.mutants.planting import Defect, Planting, planted

QUICK = ("K1", "K2", "K3", "K6", "K7", "K8", "K9", "K10", "K20", "K26", "K27")
"""Those that show within seconds; the others are left to the hunt."""
SEEDS = range(1, 41)
STEPS = 3_000

BY_ID = {defect.id: defect for defect in DEFECTS}


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_defect_is_found(name: str) -> None:
    """defect:K1 defect:K2 defect:K3 defect:K6 defect:K7 defect:K8 defect:K9 defect:K10 defect:K20 defect:K26 defect:K27."""
    assert hunt(BY_ID[name], SEEDS, max_steps=STEPS) is not None


def test_every_defect_that_applies_has_its_plant() -> None:
    """Section 8: K29 and, for logs and snapshots, K30 to K32 are found by the crash points of tests/crash."""
    ids = [*range(1, 15), 20, *range(23, 29), 30, 31, 32]
    assert list(BY_ID) == [f"K{number}" for number in ids]


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
    assert all(vars(owner)[name] is value for owner, name, value in honest)
