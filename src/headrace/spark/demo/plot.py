"""The picture of the flights of 2013: when they are late, whose are, and which reports came too late to count."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from headrace.spark.demo.account import CANCELLED, DELIVERED, LATE

NEW_YORK: Final = "America/New_York"
FIRST_HOUR: Final = 5
"""Flights are scheduled from 5 to 23 o'clock, but for a single one at 1, which is counted with those of 5."""

_INK: Final = "#22303c"
_QUIET: Final = "#8896a5"
_GRID: Final = "#e4e9ee"
_FATE_COLOURS: Final = {DELIVERED: "#4f81bd", LATE: "#e0772b", CANCELLED: "#a9b4c0"}
_HOURS: Final = tuple(range(FIRST_HOUR, 24))
_SMALLEST_CELL: Final = 20
_MONTHS: Final = "JFMAMJJASOND"


def local_hour(times: pd.Series) -> pd.Series:
    """The hour of day in New York of UTC times."""
    hours: pd.Series = times.dt.tz_convert(NEW_YORK).dt.hour.clip(lower=FIRST_HOUR).astype("int64")
    return hours


def draw(delays: pd.DataFrame, reports: pd.DataFrame, fate: pd.Series, path: Path) -> None:
    """Save the picture. `delays` is the pipeline's table; `reports` and `fate` say what became of each flight."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    style = {
        "font.size": 10, "axes.edgecolor": _QUIET, "axes.labelcolor": _INK, "text.color": _INK, "xtick.color": _INK,
        "ytick.color": _INK, "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left",
        "axes.titleweight": "bold", "axes.titlesize": 11, "font.family": "DejaVu Sans",
    }  # fmt: skip
    table = delays.assign(hour_of_day=local_hour(delays["hour"]))
    flights = reports[reports["seq"] >= 0]
    flights = flights.assign(hour_of_day=local_hour(flights["scheduled"]), fate=fate[flights.index])
    with plt.rc_context(style):
        figure = plt.figure(figsize=(15, 11), dpi=110)
        shape = {"width_ratios": (2.5, 1), "wspace": 0.05, "left": 0.135, "right": 0.945}
        upper = figure.add_gridspec(2, 2, height_ratios=(1, 2.3), hspace=0.32, top=0.872, bottom=0.36, **shape)
        lower = figure.add_gridspec(1, 2, top=0.215, bottom=0.062, **shape)
        order = _carriers_by_flights(table)
        _draw_hours(figure.add_subplot(upper[0, 0]), table)
        _draw_months(figure.add_subplot(upper[0, 1]), table)
        _draw_cells(figure.add_subplot(upper[1, 0]), figure.add_axes((0.3, 0.302, 0.25, 0.011)), table, order)
        _draw_carriers(figure.add_subplot(upper[1, 1]), table, order)
        _draw_fate(figure.add_subplot(lower[0, 0]), flights)
        _draw_lateness(figure.add_subplot(lower[0, 1]), flights)
        _draw_heading(figure, table, flights)
        figure.savefig(path)
        plt.close(figure)


def _carriers_by_flights(table: pd.DataFrame) -> list[str]:
    return table.groupby("airline")["flights"].sum().sort_values(ascending=False).index.tolist()


def _mean(table: pd.DataFrame, keys: str | list[str]) -> pd.DataFrame:
    """Flights and mean delay (minutes) by `keys`."""
    sums = table.groupby(keys)[["flights", "dep_delay_minutes"]].sum()
    return sums.assign(mean=sums["dep_delay_minutes"] / sums["flights"])


def _draw_hours(axes: Any, table: pd.DataFrame) -> None:
    """Flights as bars, mean delay as a line over them."""
    by_hour = _mean(table, "hour_of_day").reindex(_HOURS)
    axes.bar(_HOURS, by_hour["flights"] / 1000, color="#d5dfea", width=0.86)
    axes.set_ylabel("flights (thousands)", color=_QUIET)
    axes.tick_params(axis="y", colors=_QUIET)
    axes.set_xlim(FIRST_HOUR - 0.5, 23.5)
    axes.set_xticks(_HOURS)
    line = axes.twinx()
    line.plot(_HOURS, by_hour["mean"], color="#b3312c", marker="o", markersize=4.5, linewidth=2, zorder=3)
    line.set_ylim(0, float(by_hour["mean"].max()) * 1.3)
    line.set_yticks([])
    for hour, mean in zip(_HOURS, by_hour["mean"], strict=True):
        line.annotate(
            f"{mean:.0f}",
            (hour, mean),
            textcoords="offset points",
            xytext=(0, 7),
            ha="center",
            color="#b3312c",
            fontsize=9,
        )
    line.annotate(
        "mean departure delay (min)", (17, by_hour["mean"][17]), textcoords="offset points", xytext=(-34, 12),
        ha="right", color="#b3312c",
    )  # fmt: skip
    axes.set_title("Delays build up over the day: flights and mean departure delay by scheduled hour", pad=10)


def _draw_cells(axes: Any, scale: Any, table: pd.DataFrame, order: list[str]) -> None:
    """Mean delay for each carrier and hour; cells with few flights are left empty."""
    cells = _mean(table, ["airline", "hour_of_day"])
    enough = cells["mean"].where(cells["flights"] >= _SMALLEST_CELL)
    grid = enough.unstack("hour_of_day").reindex(index=order, columns=_HOURS).to_numpy(dtype=float)
    edges = np.arange(FIRST_HOUR - 0.5, 24.0)
    image = axes.pcolormesh(
        edges, np.arange(len(order) + 1) - 0.5, grid, cmap="YlOrRd", vmin=0, vmax=40, edgecolors="white", linewidth=1.2
    )
    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            axes.text(
                _HOURS[column], row, f"{round(value)}", ha="center", va="center", fontsize=8,
                color="white" if value > 26 else _INK,
            )  # fmt: skip
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_xlim(FIRST_HOUR - 0.5, 23.5)
    axes.set_yticks(range(len(order)), order)
    axes.set_xticks(_HOURS)
    axes.tick_params(length=0)
    axes.set_xlabel("scheduled hour of departure, New York time")
    axes.set_title("Mean departure delay (min) by carrier and hour", pad=10)
    bar = axes.figure.colorbar(image, cax=scale, orientation="horizontal", extend="both")
    bar.set_label(f"minutes; cells with fewer than {_SMALLEST_CELL} flights are empty", fontsize=9)
    bar.outline.set_visible(False)


def _draw_carriers(axes: Any, table: pd.DataFrame, order: list[str]) -> None:
    """Mean delay of each carrier, dry and wet hours apart, with the number of flights beside it."""
    sums = table.groupby("airline")[
        ["flights", "dep_delay_minutes", "flights_with_weather", "wet_flights", "wet_delay_minutes"]
    ].sum()
    sums = sums.reindex(order)
    mean = sums["dep_delay_minutes"] / sums["flights"]
    wet = sums["wet_delay_minutes"] / sums["wet_flights"].where(sums["wet_flights"] >= _SMALLEST_CELL)
    rows = np.arange(len(order))
    axes.barh(rows, mean, color="#b3312c", height=0.62, label="all flights")
    axes.plot(wet, rows, linestyle="none", marker="D", markersize=5, color="#2b6ca3", label="hours with rain or snow")
    right = float(np.nanmax([mean.max(), wet.max()]))
    axes.set_xlim(min(0.0, float(mean.min())) - 1, right * 1.3)
    for row, flights in zip(rows, sums["flights"], strict=True):
        axes.text(right * 1.29, row, f"{int(flights):,}", va="center", ha="right", fontsize=8.5, color=_QUIET)
    axes.text(right * 1.29, -0.85, "flights", ha="right", va="center", fontsize=8.5, color=_QUIET)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x", color=_GRID)
    axes.set_axisbelow(True)
    axes.set_xlabel("mean departure delay (min)")
    axes.legend(frameon=False, fontsize=8.5, loc="lower right", bbox_to_anchor=(0.84, 0.0))
    axes.set_title("By carrier: mean departure delay", pad=10)


def _draw_months(axes: Any, table: pd.DataFrame) -> None:
    """Mean delay of each month."""
    months = table.assign(month=table["hour"].dt.tz_convert(NEW_YORK).dt.month)
    mean = _mean(months, "month").reindex(range(1, 13))["mean"]
    axes.bar(mean.index, mean, color="#d98880", width=0.8)
    axes.set_xticks(range(1, 13), list(_MONTHS))
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.spines["left"].set_visible(False)
    axes.spines["right"].set_visible(True)
    axes.set_ylabel("mean delay (min)")
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.set_title("By month of 2013: mean departure delay", pad=10)


def _draw_fate(axes: Any, flights: pd.DataFrame) -> None:
    """What did not make it into the table, by hour: late reports and cancelled flights, in per cent of all flights of the hour."""
    counts = flights.groupby(["hour_of_day", "fate"]).size().unstack(fill_value=0)
    counts = counts.reindex(index=_HOURS, columns=[DELIVERED, LATE, CANCELLED], fill_value=0)
    share = counts.div(counts.sum(axis=1), axis=0) * 100
    axes.bar(_HOURS, share[LATE], color=_FATE_COLOURS[LATE], width=0.86, label="report came too late")
    axes.bar(
        _HOURS,
        share[CANCELLED],
        bottom=share[LATE],
        color=_FATE_COLOURS[CANCELLED],
        width=0.86,
        label="flight cancelled",
    )
    for hour, late in zip(_HOURS, counts[LATE], strict=True):
        axes.text(
            hour,
            share.loc[hour].drop(DELIVERED).sum() + 0.1,
            f"{late:,}",
            ha="center",
            fontsize=8,
            color=_FATE_COLOURS[LATE],
        )
    axes.set_xlim(FIRST_HOUR - 0.5, 23.5)
    axes.set_xticks(_HOURS)
    axes.set_xlabel("scheduled hour of departure, New York time")
    axes.set_ylabel("of the hour's flights (%)")
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=8.5, loc="upper left", ncols=2)
    axes.set_ylim(0, float(share.drop(columns=DELIVERED).sum(axis=1).max()) * 1.3)
    axes.set_title("Not in the table above: late reports (their number on top) and cancelled flights", pad=10)


def _draw_lateness(axes: Any, flights: pd.DataFrame) -> None:
    """Late reports by month of the flight."""
    late = flights[flights["fate"] == LATE]
    months = late["scheduled"].dt.tz_convert(NEW_YORK).dt.month.value_counts().reindex(range(1, 13), fill_value=0)
    axes.bar(months.index, months, color=_FATE_COLOURS[LATE], width=0.8)
    axes.set_xticks(range(1, 13), list(_MONTHS))
    axes.yaxis.tick_right()
    axes.yaxis.set_label_position("right")
    axes.spines["left"].set_visible(False)
    axes.spines["right"].set_visible(True)
    axes.set_ylabel("late reports")
    axes.set_xlabel("month of the flight, 2013")
    axes.grid(axis="y", color=_GRID)
    axes.set_axisbelow(True)
    axes.set_title("Late reports by month", pad=10)


def _draw_heading(figure: Any, table: pd.DataFrame, flights: pd.DataFrame) -> None:
    counts = flights["fate"].value_counts()
    total, mean = len(flights), table["dep_delay_minutes"].sum() / table["flights"].sum()
    figure.text(0.02, 0.955, "Flights out of New York in 2013, streamed", fontsize=19, weight="bold")
    figure.text(
        0.02, 0.922,
        f"{total:,} flights from EWR, JFK and LGA replayed through a topic: {counts.get(DELIVERED, 0):,} delivered "
        f"(mean departure delay {mean:.1f} min), {counts.get(LATE, 0):,} reports late and left out by the watermark, "
        f"{counts.get(CANCELLED, 0):,} cancelled",
        fontsize=11, color="#56656f",
    )  # fmt: skip
