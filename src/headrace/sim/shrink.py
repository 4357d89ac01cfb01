"""The faults of a failing run that the failure needs.

Delta debugging: leave out half of the faults, then quarters, and so on, as long as the same line of the contract breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.sim.faults import Fault


def shrink(faults: Sequence[Fault], still_fails: Callable[[Sequence[Fault]], bool], *, tries: int = 60) -> list[Fault]:
    """A list from which hardly anything can be left out; `still_fails` makes a run. At most `tries` runs."""
    kept = list(faults)
    if not kept:
        return kept
    tries -= 1
    if still_fails([]):
        return []
    parts = 2
    while len(kept) >= 2 and tries > 0:
        size = max(1, len(kept) // parts)
        for start in range(0, len(kept), size):
            fewer = kept[:start] + kept[start + size :]
            tries -= 1
            if fewer and still_fails(fewer):
                kept, parts = fewer, max(parts - 1, 2)
                break
            if tries <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(kept))
    return kept
