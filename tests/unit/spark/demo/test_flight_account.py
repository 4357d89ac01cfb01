"""Is every flight of the demo accounted for by a rule of its own?"""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from headrace.spark.demo.account import (
    CANCELLED,
    DELIVERED,
    END_MARK,
    LATE,
    BatchBounds,
    Check,
    Found,
    batch_bounds,
    check,
    classify,
    expected_delays,
)
from headrace.spark.demo.flights import PARTITIONS, load_tables, prepare_replay

HOUR_MS = 3_600_000


def reports(*rows: tuple[int, str, float | None, int, int]) -> pd.DataFrame:
    """(seq, time of day on one day, delay, partition, offset) each."""
    frame = pd.DataFrame(list(rows), columns=["seq", "scheduled", "dep_delay", "partition", "offset"])
    frame["scheduled"] = pd.to_datetime("1970-01-02T" + frame["scheduled"] + "Z", utc=True)
    return frame.assign(carrier="XX", dep_delay=frame["dep_delay"].astype("float64"))


def bounds(batch_id: int, end: int, *, watermark_hour: int) -> BatchBounds:
    """A batch of one partition; the watermark is on the second day of 1970."""
    return BatchBounds(batch_id=batch_id, ends={0: end}, watermark_ms=(24 + watermark_hour) * HOUR_MS)


def test_a_report_is_late_when_its_hour_was_closed_in_its_batch() -> None:
    """Spark's rule: a window whose end is not after the watermark takes no more rows."""
    frame = reports(
        (0, "07:10", 1.0, 0, 0),
        (1, "06:59", 1.0, 0, 1),
        (2, "05:00", None, 0, 2),
        (3, "07:59", 1.0, 0, 3),
        (-1, "01:00", 0.0, 0, 4),
    )
    batches = [bounds(0, 1, watermark_hour=-24), bounds(1, 3, watermark_hour=7), bounds(2, 5, watermark_hour=8)]
    assert classify(frame, batches).tolist() == [DELIVERED, LATE, CANCELLED, LATE, END_MARK]


def test_batches_come_from_sparks_progress_once_each() -> None:
    """A batch that is reported again while idle counts once; batches without rows are left out; offsets may be text."""

    def report(batch_id: int, rows: int, end: Any, watermark: str) -> dict[str, Any]:
        return {
            "batchId": batch_id,
            "numInputRows": rows,
            "sources": [{"endOffset": end}],
            "eventTime": {"watermark": watermark},
        }

    progress = [
        report(0, 2, {"t": {"0": 2}, "headrace:start": {"t": {"0": 0}}}, "1970-01-01T00:00:00.000Z"),
        report(1, 1, json.dumps({"t": {"0": 3}}), "1970-01-02T05:00:00.000Z"),
        report(2, 0, {"t": {"0": 3}}, "1970-01-02T06:00:00.000Z"),
    ]
    assert batch_bounds(progress, "t") == [
        BatchBounds(batch_id=0, ends={0: 2}, watermark_ms=0),
        BatchBounds(batch_id=1, ends={0: 3}, watermark_ms=29 * HOUR_MS),
    ]


def test_a_single_missing_flight_is_found() -> None:
    """The account fails when the table lacks one flight, and holds when it does not."""
    frame = reports((0, "07:10", 5.0, 0, 0), (1, "07:20", 7.0, 0, 1), (2, "08:20", None, 0, 2))
    fate = classify(frame, [bounds(0, 3, watermark_hour=-24)])
    right = expected_delays(frame, fate)
    dropped = {CANCELLED: 1}
    assert all(
        each.is_right
        for each in check(frame, fate, 3, Found(delays=right, dropped=dropped, records_in=3, records_out=1))
    )
    wrong = right.assign(flights=right["flights"] - 1)
    failed = [
        each.what
        for each in check(frame, fate, 3, Found(delays=wrong, dropped=dropped, records_in=3, records_out=1))
        if not each.is_right
    ]
    assert failed == [
        "flights in the table",
        "rows that differ from the source data",
        "flights in = delivered + late + dropped",
    ]
    assert not Check(what="x", expected=1, found=2).is_right


def test_the_replay_sends_every_flight_once_in_order_of_departure() -> None:
    """Offsets are what the topic will give; a mark ends each partition; the same data gives the same replay."""
    flights = load_tables()[0].head(5000)
    replay = prepare_replay(flights)
    sent = replay.reports
    assert sorted(sent["seq"]) == sorted([*range(5000), *(-each for each in range(1, PARTITIONS + 1))])
    assert (replay.flights, len(replay.values)) == (5000, 5000 + PARTITIONS)
    for number in range(PARTITIONS):
        part = sent[sent["partition"] == number]
        assert part["offset"].tolist() == list(range(len(part)))
        assert part["seq"].iloc[-1] < 0
    assert prepare_replay(flights).values.equals(replay.values)
    first = json.loads(replay.values[0].as_py())
    assert (first["carrier"], first["scheduled"], first["dep_delay"]) == ("UA", "2013-01-01T10:15:00Z", 2.0)
