"""The check is checked: mistakes that coordinators have really had, made on purpose, are found by the property test of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from headrace.coordinator.groups import committing, membership, rebalance
from headrace.coordinator.groups.positions import StoredPositions
from headrace.core.error_code import ErrorCode
from tests.property.test_group_machine import GroupsUnderFaults

Defect = Callable[[pytest.MonkeyPatch], None]


def commits_of_any_generation(patch: pytest.MonkeyPatch) -> None:
    """G3: nobody looks at the generation of a commit."""
    patch.setattr(committing, "commit_error", lambda *_: ErrorCode.NONE)


def syncs_of_any_generation(patch: pytest.MonkeyPatch) -> None:
    """G3, G2: a leader of the past may assign."""
    check = membership._sync_error

    def lenient(group: Any, request: Any) -> ErrorCode:
        error = check(group, request)
        return ErrorCode.NONE if error is ErrorCode.ILLEGAL_GENERATION else error

    patch.setattr(membership, "_sync_error", lenient)


def uncommitted_positions_are_shown(patch: pytest.MonkeyPatch) -> None:
    """G4, H14: readers see what a failover takes back."""

    def dirty(shard: Any, group_id: str) -> Any:
        return StoredPositions(group_id, shard.state.positions_of(group_id), frozenset())

    patch.setattr(committing, "committed_positions", dirty)


def nobody_is_left_behind(patch: pytest.MonkeyPatch) -> None:
    """GL1: a rebalance waits for the dead."""
    patch.setattr(rebalance, "on_joins_overdue", lambda *_, **__: None)


@pytest.mark.parametrize(
    "defect",
    [commits_of_any_generation, syncs_of_any_generation, uncommitted_positions_are_shown, nobody_is_left_behind],
)
def test_a_planted_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2, G3, G4, GL1, H14: within 400 runs."""
    defect(monkeypatch)
    quick = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
    )
    with pytest.raises((AssertionError, KeyError, ExceptionGroup)):
        run_state_machine_as_test(GroupsUnderFaults, settings=quick)
