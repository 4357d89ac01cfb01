"""How do a million partitions fit in memory?

Most of them have one of few replica lists, and an ISR equal to it, so equal tuples are kept once. And the class of a partition is made
without the cost of `frozen`: an `__init__` that goes through `object.__setattr__` takes three times as long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, dataclass_transform

T = TypeVar("T")
TupleT = TypeVar("TupleT", bound=tuple[Any, ...])

MAX_SHARED: Final = 131_072
"""Distinct tuples that are remembered; past it the memory begins anew (what was shared stays shared)."""

_shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}


def shared(value: TupleT) -> TupleT:
    """An equal tuple that others hold too. Means nothing to anyone who compares with `==`."""
    found = _shared.get(value)
    if found is not None:
        return found  # type: ignore[return-value]
    if len(_shared) >= MAX_SHARED:
        _shared.clear()
    _shared[value] = value
    return value


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def quick_value(cls: type[T]) -> type[T]:
    """A dataclass with slots that is immutable to the type checker only."""
    return dataclass(slots=True, kw_only=True, unsafe_hash=True)(cls)
