"""Places in a log."""

from __future__ import annotations

from typing import NamedTuple


class OffsetAndEpoch(NamedTuple):
    """An offset together with a leader epoch: in a log, the pair names one history (KIP-101)."""

    offset: int
    epoch: int


class OffsetRange(NamedTuple):
    """Offsets from `start` up to but not including `end`."""

    start: int
    end: int
