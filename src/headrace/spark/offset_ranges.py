"""The offsets that a batch reads, and the pieces in which it does. Arithmetic only, no Spark and no network.

Offsets of a stream travel as JSON in the form of Spark's `kafka` source: `{"topic": {"0": 23}}`, the next offset to read of each partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, floor

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition

MOST_PIECES = 100_000
"""So many tasks of a batch are what a driver holds; partitions themselves may be more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRange:
    """The offsets of one partition that one task reads: from `start` up to `end` (exclusive)."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets; compaction and control batches can make it fewer records."""
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The ranges between two positions, and in words what was lost between them."""

    ranges: tuple[InputRange, ...]
    losses: tuple[str, ...]


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as the nested object that Spark stores, sorted."""
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def from_json(nested: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The reverse of `to_json`; JSON makes text of partition numbers."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in nested.items()
        for partition, offset in partitions.items()
    }


def limit_offsets(
    start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], *, limit: int
) -> dict[TopicPartition, int]:
    """An end at most about `limit` records after `start`, shared out in proportion to what waits; no partition with data gets nothing.

    `start` holds every partition of `end`. Rounding is Spark's: shares below 1 up, others down.
    """
    waiting = {each: end[each] - start[each] for each in end if end[each] > start[each]}
    total = sum(waiting.values())
    if total <= limit:
        return dict(end)
    limited = dict(end)
    for each, size in waiting.items():
        share = limit * size / total
        limited[each] = min(end[each], start[each] + (ceil(share) if share < 1 else floor(share)))
    return limited


def limit_bytes(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    densities: Mapping[TopicPartition, float],
    *,
    limit: int,
) -> dict[TopicPartition, int]:
    """An end about `limit` bytes after `start`, the same part of what waits in each partition; no partition with data gets nothing.

    `densities` are bytes an offset; a partition without one counts as if it had no bytes.
    """
    total = sum(max(end[each] - start[each], 0) * densities.get(each, 0.0) for each in end)
    if total <= limit:
        return dict(end)
    return {
        each: offset if offset <= start[each] else start[each] + max(floor((offset - start[each]) * limit / total), 1)
        for each, offset in end.items()
    }


def count_waiting(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> int:
    """How many offsets lie between; partitions that `start` does not know count from 0."""
    return sum(max(offset - start.get(each, 0), 0) for each, offset in end.items())


def resolve_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest_of_new: Mapping[TopicPartition, int],
) -> Resolved:
    """What to read between two positions of a stream, and what is missing there.

    `earliest_of_new` has the first offset of each partition that is in `end` and not in `start`. Lost are: partitions that are gone, the
    beginning of a new partition that no longer starts at 0, and everything of a partition whose end lies before its start.
    """
    losses = []
    gone = sorted(each for each in start if each not in end)
    if gone:
        losses.append(f"{_names(gone)} are gone; records in them may have been missed")
    ranges = []
    for each in sorted(end):
        first = start[each] if each in start else earliest_of_new.get(each)
        if first is None:
            losses.append(f"{_names([each])} was added and is gone again; records in it may have been missed")
            continue
        if each not in start and first:
            losses.append(f"{_names([each])} was added and starts at {first}, not at 0")
        if end[each] < first:
            losses.append(f"the end of {_names([each])} went back from {first} to {end[each]}")
        if end[each] > first:
            ranges.append(InputRange(topic=each.topic, partition=each.partition, start=first, end=end[each]))
    return Resolved(ranges=tuple(ranges), losses=tuple(losses))


def split_ranges(
    ranges: Sequence[InputRange], *, min_partitions: int | None, max_records: int | None
) -> list[InputRange]:
    """Pieces of at most `max_records` offsets, and then about `min_partitions` of them in all, large ranges being split first.

    Without the two a range is one piece. Pieces follow each other in order and cover exactly the ranges; empty ranges are left out. Raises OperatorError for
    more than `MOST_PIECES` of `max_records`.
    """
    pieces = [each for each in ranges if each.size > 0]
    if max_records is not None:
        _check_number(pieces, max_records)
        pieces = [part for each in pieces for part in _parts(each, -(-each.size // max_records))]
    if min_partitions is None or not pieces or len(pieces) >= min_partitions:
        return pieces
    total = sum(each.size for each in pieces)
    whole = [each for each in pieces if _part_count(each.size, total, min_partitions) == 1]
    left = total - sum(each.size for each in whole)
    wanted = max(min_partitions - len(whole), 1)
    split = []
    for each in pieces:
        split += [each] if each in whole else _parts(each, _part_count(each.size, left, wanted))
    return split


def _check_number(pieces: Sequence[InputRange], max_records: int) -> None:
    """Raises OperatorError for more tasks than Spark's driver can hold: how many offsets there are is what a broker says, and producers decide."""
    wanted = sum(-(-each.size // max_records) for each in pieces)
    if wanted > max(MOST_PIECES, len(pieces)):
        largest = max(pieces, key=lambda each: each.size)
        raise OperatorError(
            f"maxRecordsPerPartition={max_records} makes {wanted} tasks of this batch, and {MOST_PIECES} are the most; {largest.topic}-{largest.partition} has "
            f"{largest.size} offsets in it: say a larger number, or a limit of the batch"
        )


def _part_count(size: int, total: int, wanted: int) -> int:
    return max(floor(size * wanted / total + 0.5), 1)


def _parts(piece: InputRange, count: int) -> list[InputRange]:
    """`count` neighbouring parts of nearly one size, none empty; larger ones come last, as Spark's `kafka` source has them."""
    count = min(count, piece.size)
    bounds = [piece.start]
    for left in range(count, 0, -1):
        bounds.append(bounds[-1] + (piece.end - bounds[-1]) // left)
    return [
        InputRange(topic=piece.topic, partition=piece.partition, start=first, end=end)
        for first, end in pairwise(bounds)
    ]


def _names(partitions: Sequence[TopicPartition]) -> str:
    return ", ".join(f"{each.topic}-{each.partition}" for each in partitions)
