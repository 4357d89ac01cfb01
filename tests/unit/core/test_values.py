"""Values that are made quickly, and changed copies of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from headrace.core.values import changed, value_class


@value_class
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


def test_a_value_behaves_as_a_frozen_dataclass_before_and_after_its_first_comparison() -> None:
    """Methods are compiled when they are first needed: what they say does not depend on which came first."""
    for first in (hash, repr, lambda value: value == Quick(one=1), lambda value: value != 1):

        @value_class
        class Fresh:
            """Nobody has compared it yet."""

            one: int
            two: str = "two"
            noted: int = field(default=0, compare=False)

        value = Fresh(one=1)
        first(value)
        assert value == Fresh(one=1, noted=5)
        assert hash(value) == hash(Fresh(one=1, noted=5)) == hash((1, "two"))
        assert value != Fresh(one=2)
        another: object = Quick(one=1)
        assert value != another
    assert repr(Quick(one=1)) == "Quick(one=1, two='two')"


def test_a_class_keeps_the_methods_of_its_own_and_may_compare_by_identity() -> None:
    """What it defines itself is not replaced."""

    @value_class(kw_only=False)
    class Own:
        one: int

        def __repr__(self) -> str:
            return "own"

    @value_class(eq=False)
    class Single:
        one: int

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(1)
    assert Single(one=1) != Single(one=1)
