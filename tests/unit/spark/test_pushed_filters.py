"""Which partitions, offsets and times do the filters of a query leave?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)

from headrace.core.ids import TopicPartition
from headrace.spark.offset_ranges import InputRange
from headrace.spark.pushed_filters import wanted_by

PLACES = [TopicPartition("ab", 0), TopicPartition("ab", 1), TopicPartition("cd", 7)]
TOPIC, PARTITION, OFFSET, TIME = ("topic",), ("partition",), ("offset",), ("timestamp",)


@pytest.mark.parametrize(
    ("one", "left"),
    [
        (EqualTo(TOPIC, "ab"), [0, 1]),
        (EqualTo(TOPIC, None), []),
        (EqualNullSafe(PARTITION, 7), [2]),
        (Not(EqualTo(PARTITION, 7)), [0, 1]),
        (Not(EqualTo(PARTITION, None)), [0, 1, 2]),
        (Not(In(PARTITION, (7,))), [0, 1, 2]),
        (In(TOPIC, ("cd", None)), [2]),
        (StringStartsWith(TOPIC, "a"), [0, 1]),
        (StringEndsWith(TOPIC, "d"), [2]),
        (StringContains(TOPIC, "b"), [0, 1]),
        (GreaterThan(PARTITION, 0), [1, 2]),
        (GreaterThanOrEqual(PARTITION, 7), [2]),
        (LessThan(PARTITION, 1), [0]),
        (LessThanOrEqual(PARTITION, 1), [0, 1]),
        (LessThan(TOPIC, "b"), [0, 1, 2]),
        (IsNotNull(TOPIC), [0, 1, 2]),
        (EqualTo(("value", "topic"), "x"), [0, 1, 2]),
    ],
)
def test_topics_and_partitions(one: Filter, left: list[int]) -> None:
    """A partition is read unless the filter surely refuses all of its rows."""
    wanted = wanted_by([one])
    assert [index for index, each in enumerate(PLACES) if wanted.has(each)] == left


@pytest.mark.parametrize(
    ("filters", "left"),
    [
        ([EqualTo(OFFSET, 15)], (15, 16)),
        ([In(OFFSET, (12, 18))], (12, 19)),
        ([In(OFFSET, (12, None))], (10, 20)),
        ([GreaterThan(OFFSET, 11), LessThanOrEqual(OFFSET, 18), LessThan(OFFSET, 30)], (12, 19)),
        ([GreaterThanOrEqual(OFFSET, 3), LessThan(OFFSET, 12)], (10, 12)),
        ([LessThan(OFFSET, 3)], (10, 10)),
        ([GreaterThan(OFFSET, 30)], (20, 20)),
        ([Not(EqualTo(OFFSET, 15)), EqualTo(OFFSET, None)], (10, 20)),
    ],
)
def test_offsets(filters: list[Filter], left: tuple[int, int]) -> None:
    """A range keeps the offsets that all filters let through, and never grows."""
    cut = wanted_by(filters).cut(InputRange(topic="t", partition=0, start=10, end=20))
    assert (cut.start, cut.end) == left


def test_times() -> None:
    """The first time is a bound, the first millisecond that passes; a last one is none, for times need not rise with offsets."""
    early, late = (datetime.fromtimestamp(each, tz=UTC) for each in (1.0005, 2))
    assert wanted_by([GreaterThan(TIME, early)]).from_time_ms == 1001
    assert wanted_by([GreaterThan(TIME, late)]).from_time_ms == 2001
    assert wanted_by([GreaterThanOrEqual(TIME, early), EqualTo(TIME, late)]).from_time_ms == 2000
    assert wanted_by([In(TIME, (late, early))]).from_time_ms == 1001
    assert wanted_by([LessThan(TIME, late), Not(EqualTo(TIME, early)), In(TIME, (late, None))]).from_time_ms is None
    assert wanted_by([GreaterThan(TIME, datetime.fromtimestamp(-1, tz=UTC))]).from_time_ms is None
    assert wanted_by([GreaterThan(TIME, datetime(2026, 1, 1))]).from_time_ms is None  # noqa: DTZ001 - no zone is no moment
