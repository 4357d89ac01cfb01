"""Volumes of the tests that repeat themselves: seeds, frames, kills.

`make test` runs the quick ones, about ten minutes on two cores; `make test VOLUMES=ci` those of the continuous check. Each has a variable of its own besides,
for a long run by hand.
"""

from __future__ import annotations

import os
from typing import Final

import pytest

KNOWN: Final = ("quick", "ci")
CHOSEN: Final = os.environ.get("HEADRACE_VOLUMES", "quick")
if CHOSEN not in KNOWN:
    raise pytest.UsageError(f"HEADRACE_VOLUMES={CHOSEN}: one of {', '.join(KNOWN)}")
IS_CI: Final = CHOSEN == "ci"


def volume(variable: str, *, quick: int, ci: int) -> int:
    """How many: what the environment variable says, else the figure of the chosen volumes."""
    return int(os.environ.get(variable, str(ci if IS_CI else quick)))


def seed(variable: str, *, otherwise: int) -> int:
    """The seed that the environment variable names, to see a failure again."""
    return int(os.environ.get(variable, str(otherwise)))
