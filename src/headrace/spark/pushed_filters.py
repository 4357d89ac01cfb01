"""The filters of a batch query as what must be read of topics: partitions, offsets and times that can hold a row. Arithmetic only.

Pruning only: Spark applies all filters to the rows again, so what is not understood here costs nothing but speed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import InputRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
Columns: TypeAlias = tuple[str, ...]
_PLACE_COLUMNS: Final = ("topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What can hold rows of the query: `place_filters` decide on topic and partition; offsets lie from `first` up to `end` (exclusive; None: no bound).

    Records before the first one of `from_time_ms` or later are not wanted. There is no such bound upwards: times need not rise with offsets.
    """

    place_filters: tuple[Filter, ...] = ()
    first: int = 0
    end: int | None = None
    from_time_ms: int | None = None

    def has(self, where: TopicPartition) -> bool:
        """Whether rows of this partition can be wanted."""
        place = {"topic": where.topic, "partition": where.partition}
        return all(_holds(each, place) for each in self.place_filters)

    def cut(self, piece: InputRange) -> InputRange:
        """The part of a range whose offsets are wanted; perhaps empty."""
        start = min(max(piece.start, self.first), piece.end)
        end = piece.end if self.end is None else max(min(piece.end, self.end), start)
        return replace(piece, start=start, end=end)


def wanted_by(filters: Iterable[Filter]) -> Wanted:
    """What rows that pass all of `filters` can be in."""
    found = Wanted()
    for each in filters:
        column = getattr(each.child if isinstance(each, Not) else each, "attribute", ())
        if column in {(name,) for name in _PLACE_COLUMNS}:
            found = replace(found, place_filters=(*found.place_filters, each))
        elif column == ("offset",):
            low, end = _bounds(each)
            first = found.first if low is None else max(found.first, low)
            found = replace(found, first=first, end=_lower(found.end, end))
        elif column == ("timestamp",):
            moment = _from_time_ms(each)
            if moment is not None:
                found = replace(found, from_time_ms=max(moment, found.from_time_ms or 0))
    return found


def _lower(one: int | None, other: int | None) -> int | None:
    return min((each for each in (one, other) if each is not None), default=None)


def _bounds(filter: Filter) -> tuple[int | None, int | None]:
    """The first number, and the one after the last, that can pass; None where there is no bound."""
    match filter:
        case EqualTo(value=int(value)) | EqualNullSafe(value=int(value)):
            return value, value + 1
        case In(value=values) if values and all(isinstance(each, int) for each in values):
            return min(values), max(values) + 1
        case GreaterThan(value=int(value)):
            return value + 1, None
        case GreaterThanOrEqual(value=int(value)):
            return value, None
        case LessThan(value=int(value)):
            return None, value
        case LessThanOrEqual(value=int(value)):
            return None, value + 1
    return None, None


def _from_time_ms(filter: Filter) -> int | None:
    """A time in ms since 1970 before which no record passes; None where a record without a time, which has -1, may pass."""
    match filter:
        case EqualTo() | EqualNullSafe() | GreaterThan() | GreaterThanOrEqual():
            moments = [filter.value]
        case In():
            moments = list(filter.value)
        case _:
            return None
    if not moments or not all(isinstance(each, datetime) and each.tzinfo is not None for each in moments):
        return None
    since = min(moments) - _EPOCH
    first = since // _MILLISECOND + 1 if isinstance(filter, GreaterThan) else -(-since // _MILLISECOND)
    return first if first >= 0 else None


def _holds(filter: Filter, place: dict[str, Any]) -> bool:
    """Whether a filter on topic or partition lets a row of this place through; True where that cannot be said."""
    value = place[(filter.child if isinstance(filter, Not) else filter).attribute[0]]
    match filter:
        case Not(child=EqualTo(value=other)) if other is not None:
            return bool(value != other)
        case EqualTo(value=other) | EqualNullSafe(value=other):
            return bool(value == other)
        case In(value=others):
            return value in others
        case StringStartsWith(value=text):
            return str(value).startswith(text)
        case StringEndsWith(value=text):
            return str(value).endswith(text)
        case StringContains(value=text):
            return text in str(value)
    if isinstance(filter, GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual) and isinstance(value, int):
        low, end = _bounds(filter)
        return (low is None or value >= low) and (end is None or value < end)
    return True
