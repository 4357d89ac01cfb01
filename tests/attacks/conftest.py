"""The node that is attacked: one for all attacks of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.attacks import Target


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    """A watched node with the settings of a default installation."""
    with Target() as running:
        yield running
