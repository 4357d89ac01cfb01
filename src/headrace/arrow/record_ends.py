"""The end of each record of some batches.

A record says its length, so the way leads from one to the next. Three ways to go: one Python step a record; where neighbours are as long as
each other, one step a run of them; and where a batch has as many records and bytes as a regular one before it, no step at all: its records
are supposed to end where those of the other did. Suppositions are for the caller to check, who reads all lengths at once anyway.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.frames import Frames
from headrace.arrow.varints import Ints

_FIRST_PATIENCE: Final = 3
_MAX_PATIENCE: Final = 256
_FIRST_WINDOW: Final = 64
_WORTHWHILE_RUN: Final = 24
_MAX_RUN_STEP: Final = 8194
_MANY: Final = 4
"""Batches of so many times the rows that are wanted at once are taken apart."""
_FEW_PARTS: Final = 24
"""A batch that falls into so few runs and single steps is regular: others of its size are likely to be alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The position after each record, batch by batch; where not `is_certain`, some batches were only supposed to be like others."""

    positions: Ints
    is_certain: bool


def record_ends(frames: Frames, *, may_suppose: bool) -> Ends:
    """Go through all batches; raises CorruptRecords where records do not fill their batch exactly (B49)."""
    walker = _Walker(frames.payload)
    shapes: dict[tuple[int, int], Ints] = {}
    parts: list[Ints] = []
    alike: list[int] = []
    shape: Ints | None = None
    is_certain = True
    places = (frames.starts, frames.ends, frames.counts)
    for start, end, count in zip(*(each.tolist() for each in places), strict=True):
        known = shapes.get((count, end - start)) if may_suppose else None
        if alike and known is not shape:
            parts.append(_all_alike(alike, shape))
            alike = []
        shape = known
        if known is not None:
            alike.append(start)
            is_certain = False
            continue
        ends, is_regular = walker.walk(start, end, count)
        parts.append(ends)
        if is_regular:
            shapes[count, end - start] = ends - start
    if alike:
        parts.append(_all_alike(alike, shape))
    return Ends(positions=np.concatenate(parts) if len(parts) > 1 else parts[0], is_certain=is_certain)


def _all_alike(starts: list[int], shape: Ints | None) -> Ints:
    assert shape is not None
    ends: Ints = (np.array(starts, dtype=np.int64)[:, None] + shape).reshape(-1)
    return ends


def in_parts(frames: Frames, most_rows: int) -> Iterator[Frames]:
    """The same batches, and those of very many records in parts of `most_rows`, each as if it were a batch: a record of nothing takes 7 bytes,
    which may be packed to nearly none, and a hundred in columns.

    Raises CorruptRecords where records do not fill their batch. That offsets rise from part to part is for the caller to check.
    """
    if frames.counts.sum() <= _MANY * most_rows:
        yield frames
        return
    walker = _Walker(frames.payload)
    places = (frames.starts, frames.ends, frames.counts)
    for index, (at, end, left) in enumerate(zip(*(each.tolist() for each in places), strict=True)):
        while left:
            count = min(left, most_rows)
            left -= count
            stop = walker.skip(at, end, count) if left else end
            yield frames.one(index, start=at, end=stop, count=count)
            at = stop


class _Walker:
    """Goes over the batches of one buffer. Runs of equal steps are kept as (step, how often), all else as single steps."""

    def __init__(self, payload: memoryview) -> None:
        self._bytes = payload
        self._parts: list[Ints] = []
        self._singles: list[int] = []
        self._patience = _FIRST_PATIENCE

    def walk(self, start: int, end: int, count: int) -> tuple[Ints, bool]:
        """The ends of `count` records from `start`, which must lead to `end`; and whether all of them were found in runs."""
        try:
            position = self._walk(start, end, count)
        except IndexError:
            position = -1
        if position != end:
            raise CorruptRecords(f"{count} records do not fill the {end - start} bytes of their batch")
        is_regular = len(self._singles) + len(self._parts) <= _FEW_PARTS
        self._flush()
        ends = np.concatenate(self._parts) if len(self._parts) != 1 else self._parts[0]
        self._parts.clear()
        return ends, is_regular

    def skip(self, start: int, end: int, count: int) -> int:
        """The position after `count` records from `start`, which do not reach `end`."""
        try:
            position = self._walk(start, end, count)
        except IndexError:
            position = -1
        self._parts.clear()
        self._singles.clear()
        if not start < position < end:
            raise CorruptRecords(f"{count} records and more do not fit the {end - start} bytes of their batch")
        return position

    def _walk(self, start: int, end: int, count: int) -> int:
        data, singles, patience = self._bytes, self._singles, self._patience
        position, left = start, count
        equal, previous = 0, 0
        while left:
            low = data[position]
            if low < 0x80:
                step = (low >> 1) + 1
            else:
                high = data[position + 1]
                step = ((low & 0x7F | high << 7) >> 1) + 2 if high < 0x80 else self._long_step(position)
            if low & 1:
                return -1
            if step != previous:
                equal, previous = 0, step
            else:
                equal += 1
                if equal >= patience and step < _MAX_RUN_STEP:
                    run = self._run(position, end, step, left)
                    patience = _FIRST_PATIENCE if run >= _WORTHWHILE_RUN else min(patience * 2, _MAX_PATIENCE)
                    position += run * step
                    left -= run
                    equal, previous = 0, 0
                    continue
            position += step
            singles.append(position)
            left -= 1
        self._patience = patience
        return position

    def _run(self, position: int, end: int, step: int, left: int) -> int:
        """How many of the next `left` records are `step` bytes long, at least the first; their ends are noted."""
        run, window = 0, _FIRST_WINDOW
        width = 1 if step <= 64 else 2
        while run < left:
            at = position + run * step
            asked = min(window, left - run)
            stop = min(at + asked * step, end)
            found = min(_leading_equal(bytes(self._bytes[at + index : stop : step])) for index in range(width))
            if run and found and self._bytes[at : at + width] != self._bytes[position : position + width]:
                break
            run += found
            if found < asked:
                break
            window *= 4
        self._flush()
        self._parts.append(position + step * np.arange(1, run + 1, dtype=np.int64))
        return run

    def _long_step(self, position: int) -> int:
        """The step over a record whose length takes three bytes or more."""
        value, shift = 0, 0
        for index in range(5):
            byte = self._bytes[position + index]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (value >> 1) + index + 1
            shift += 7
        raise CorruptRecords("a record's length is a varint longer than 5 bytes")

    def _flush(self) -> None:
        if self._singles:
            self._parts.append(np.array(self._singles, dtype=np.int64))
            self._singles.clear()


def _leading_equal(data: bytes) -> int:
    """How many bytes at the beginning are the same as the first."""
    return len(data) - len(data.lstrip(data[:1]))
