"""The earliest of several moments for which the parts of a node wait."""

from __future__ import annotations

from collections.abc import Iterable


def sooner(one_ms: int | None, other_ms: int | None) -> int | None:
    """The earlier of two moments; None is never."""
    if one_ms is None or (other_ms is not None and other_ms < one_ms):
        return other_ms
    return one_ms


def earliest(moments_ms: Iterable[int | None]) -> int | None:
    """The earliest of any number of moments; None is never. A busy node asks all its parts many times a second."""
    found: int | None = None
    for at_ms in moments_ms:
        if at_ms is not None and (found is None or at_ms < found):
            found = at_ms
    return found
