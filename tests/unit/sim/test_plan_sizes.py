"""Sizes of a run that an option of `headrace sim` may say."""

from __future__ import annotations

from dataclasses import fields

from headrace.cli.sim import command
from headrace.sim.plan import SIZES, Plan


def test_each_size_of_a_plan_has_an_option() -> None:
    """One list for the plan and the command; a size that only one of them knew could not be asked for."""
    assert set(SIZES) <= {field.name for field in fields(Plan)}
    assert set(SIZES) <= {option.name for option in command.params}
