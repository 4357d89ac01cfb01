"""Values that partitions share, so that a million of them fit in memory.

Most of them have one of few replica lists, and an ISR equal to it, so equal tuples are kept once.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

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
