"""How far is a query behind, by what Spark reports of it?"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.ids import TopicPartition
from headrace.spark import query_watch
from headrace.spark.query_watch import Lag, QueryWatch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time, which stands still."""
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(query_watch, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def report(*sources: tuple[Any, Any], name: str | None = "q", batch: int = 0) -> Any:
    """Spark's event: offsets as JSON texts."""
    made = [SimpleNamespace(endOffset=json.dumps(end), latestOffset=json.dumps(latest)) for end, latest in sources]
    return SimpleNamespace(progress=SimpleNamespace(id="1-2", name=name, batchId=batch, sources=made))


def test_offsets_behind_by_partition(clock: SimpleNamespace) -> None:
    """The end of the last batch against the end of the topic; a partition that no batch reached counts from 0."""
    watch = QueryWatch()
    assert watch.lag("q") is None
    watch.onQueryProgress(report(({"t": {"0": 3}, "headrace:topics": {"t": "i"}}, {"t": {"0": 9, "1": 2}}), batch=4))
    lag = watch.lag("q")
    assert lag == Lag(query="q", batch_id=4, offsets={T0: 6, T1: 2}, seconds=0.0)
    assert (lag.least, lag.average, lag.most, lag.total) == (2, 4.0, 6, 8)
    assert (watch.queries(), watch.lag("1-2")) == (
        ["q"],
        Lag(query="1-2", batch_id=4, offsets={T0: 6, T1: 2}, seconds=0.0),
    )


def test_seconds_since_the_oldest_end_that_was_not_reached(clock: SimpleNamespace) -> None:
    """It grows while nothing is read, shrinks with what is read, and is none when all is read."""
    watch = QueryWatch()
    for now, end, latest, seconds in (
        (100, 0, 5, 0),
        (110, 0, 8, 10),
        (120, 5, 8, 10),
        (130, 6, 9, 20),
        (140, 9, 9, 0),
    ):
        clock.now = float(now)
        watch.onQueryProgress(report(({"t": {"0": end}}, {"t": {"0": latest}})))
        lag = watch.lag("q")
        assert lag is not None
        assert lag.seconds == seconds
    clock.now = 150.0
    assert watch.lag("q") == Lag(query="q", batch_id=0, offsets={T0: 0}, seconds=0.0)


def test_memory_is_bounded(clock: SimpleNamespace) -> None:
    """A query that stands still for long keeps a bounded number of moments, the oldest among them."""
    watch = QueryWatch()
    for number in range(5_000):
        clock.now = 100.0 + number
        watch.onQueryProgress(report(({"t": {"0": 0}}, {"t": {"0": 1 + number}})))
    lag = watch.lag("q")
    assert lag is not None
    assert (lag.seconds, lag.total) == (4_999.0, 5_000)
    assert len(watch._queries["1-2"].moments[T0]) <= 1_001


def test_other_sources_are_left_out(clock: SimpleNamespace) -> None:
    """Files, rates, Delta tables; a query of none but those is not watched."""
    watch = QueryWatch()
    others = [({"logOffset": 3}, None), (7, 7), ({"sourceVersion": 1, "reservoirId": "x"}, None), (None, None)]
    watch.onQueryProgress(report(*others))
    assert watch.queries() == []
    watch.onQueryProgress(report(*others, ({"t": {"0": 3}}, None), name=None))
    assert watch.lag("1-2") == Lag(query="1-2", batch_id=0, offsets={T0: 0}, seconds=0.0)
