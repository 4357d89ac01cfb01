"""The account of where every report went, worked out from the source data and Spark's batch boundaries, then held against what the sinks hold.

The rule, apart from the pipeline: a flight without a departure was cancelled and is dropped; another is late if, when its batch ran, the hour
of its schedule had already been closed by the watermark; all others are delivered in the row of their hour and carrier.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

DELIVERED: Final = "delivered"
LATE: Final = "late"
CANCELLED: Final = "cancelled"
END_MARK: Final = "end of the replay"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBounds:
    """The reports of one micro-batch: the offset after the last in each partition, and the watermark while it ran (ms since 1970)."""

    batch_id: int
    ends: Mapping[int, int]
    watermark_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must be so: what was expected, and what there is."""

    what: str
    expected: int
    found: int

    @property
    def is_right(self) -> bool:
        """Whether the two are equal."""
        return self.expected == self.found


def batch_bounds(progress: Iterable[Mapping[str, Any]], topic: str) -> list[BatchBounds]:
    """The batches of a query that read something, from Spark's progress reports, in order and each once."""
    found: dict[int, BatchBounds] = {}
    for report in progress:
        end = report["sources"][0]["endOffset"]
        ends = end if isinstance(end, dict) else json.loads(end)
        if not report["numInputRows"]:
            continue
        watermark = pd.Timestamp(report["eventTime"]["watermark"])
        found[report["batchId"]] = BatchBounds(
            batch_id=report["batchId"],
            ends={int(partition): offset for partition, offset in ends[topic].items()},
            watermark_ms=int(watermark.timestamp() * 1000),
        )
    return [found[batch_id] for batch_id in sorted(found)]


def classify(reports: pd.DataFrame, batches: list[BatchBounds]) -> pd.Series:
    """For each report `delivered`, `late`, `cancelled` or `end of the replay`. Needs columns seq, scheduled, dep_delay, partition, offset."""
    batch_index = np.full(len(reports), -1)
    partitions, offsets = reports["partition"].to_numpy(), reports["offset"].to_numpy()
    for partition in sorted(batches[0].ends):
        rows = np.flatnonzero(partitions == partition)
        ends = np.array([batch.ends[partition] for batch in batches])
        batch_index[rows] = np.searchsorted(ends, offsets[rows], side="right")
    watermarks = pd.to_datetime([batch.watermark_ms for batch in batches], unit="ms", utc=True)
    closed_before = pd.Series(watermarks[batch_index], index=reports.index)
    hour_ends = reports["scheduled"].dt.floor("h") + pd.Timedelta(hours=1)
    fate = np.where(hour_ends <= closed_before, LATE, DELIVERED)
    fate = np.where(reports["dep_delay"].isna(), CANCELLED, fate)
    fate = np.where(reports["seq"] < 0, END_MARK, fate)
    return pd.Series(fate, index=reports.index)


def expected_delays(reports: pd.DataFrame, fate: pd.Series) -> pd.DataFrame:
    """Flights and minutes of delay by hour and carrier, straight from the source data, of the reports that were delivered."""
    delivered = reports[fate == DELIVERED]
    hours = delivered["scheduled"].dt.floor("h").rename("hour")
    grouped = delivered.groupby([hours, "carrier"])["dep_delay"].agg(["size", "sum"])
    return grouped.rename(columns={"size": "flights", "sum": "dep_delay_minutes"}).reset_index()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the sinks hold: rows of hours and carriers, dropped rows by reason, records in the output topic, records in the input topic."""

    delays: pd.DataFrame
    dropped: Mapping[str, int]
    records_in: int
    records_out: int


def check(reports: pd.DataFrame, fate: pd.Series, flights: int, found: Found) -> list[Check]:
    """Every count that must agree."""
    expected = expected_delays(reports, fate)
    counts = fate.value_counts()
    held = {name: int(counts.get(name, 0)) for name in (DELIVERED, LATE, CANCELLED, END_MARK)}
    merged = expected.merge(found.delays, on=["hour", "carrier"], how="outer", suffixes=("", "_found")).fillna(-1)
    differing = (merged["flights"] != merged["flights_found"]) | (
        (merged["dep_delay_minutes"] - merged["dep_delay_minutes_found"]).abs() > 1e-6
    )
    delivered = int(found.delays["flights"].sum())
    return [
        Check(what="records in the topic: flights and end marks", expected=len(reports), found=found.records_in),
        Check(what="flights in the table", expected=held[DELIVERED], found=delivered),
        Check(what="rows of hour and carrier", expected=len(expected), found=len(found.delays)),
        Check(what="rows that differ from the source data", expected=0, found=int(differing.sum())),
        Check(what="records in the output topic", expected=len(found.delays), found=found.records_out),
        Check(what="flights dropped as cancelled", expected=held[CANCELLED], found=found.dropped.get(CANCELLED, 0)),
        Check(what="end marks dropped", expected=held[END_MARK], found=found.dropped.get(END_MARK, 0)),
        Check(
            what="flights in = delivered + late + dropped",
            expected=flights,
            found=delivered + held[LATE] + found.dropped.get(CANCELLED, 0),
        ),
    ]
