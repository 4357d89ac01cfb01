"""Values that are made quickly, and changed copies of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from headrace.core.values import changed, quick_value


@quick_value
class Quick:
    """As any other frozen dataclass, to whoever reads it."""

    one: int
    two: str = "two"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """One that is frozen at run time too."""

    one: int
    two: str = "two"


@pytest.mark.parametrize("kind", [Quick, Frozen])
def test_a_changed_copy_is_what_replace_makes(kind: type[Quick]) -> None:
    """inv:C2: the value itself stays, and equal values are one key of a map."""
    value = kind(one=1)
    for changes in ({}, {"one": 2}, {"two": "x"}, {"two": "y", "one": 3}, {"one": 4, "two": "z"}):
        assert changed(value, **changes) == replace(value, **changes)
    assert value == kind(one=1, two="two")
    assert {value: "found"}[kind(one=1)] == "found"


def test_an_unknown_field_is_no_change() -> None:
    """A name that the class does not have is refused, as by `replace`."""
    with pytest.raises(TypeError, match="three"):
        changed(Quick(one=1), three=3)  # type: ignore[call-arg]
