"""The earliest of several moments."""

from __future__ import annotations

import pytest

from headrace.core.deadlines import earliest, sooner


@pytest.mark.parametrize(
    ("moments", "first"),
    [((), None), ((None, None), None), ((5,), 5), ((None, 7, 3, None, 9), 3), ((0, None), 0), ((4, 0), 0)],
)
def test_none_is_never_and_zero_is_at_once(moments: tuple[int | None, ...], first: int | None) -> None:
    """A part that waits for nothing holds nobody up; one that is due already comes before all others."""
    assert earliest(moments) == first
    found: int | None = None
    for each in moments:
        found = sooner(found, each)
    assert found == first
