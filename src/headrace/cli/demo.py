"""The command `headrace demo flights`: real data through a node and Spark, shown and checked."""

from __future__ import annotations

import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.shell import Group
from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.spark.demo.run import Outcome


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Stream real data through a node and Spark.",
)
def command() -> None:
    """The group of demos."""


@command.command(help="336,776 flights into a topic, through a Spark pipeline, into tables and a picture.")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("flights-demo"),
    show_default=True,
    help="Directory for tables, picture and Spark's log; what an earlier run left in it is replaced.",
)
@click.option(
    "--bootstrap-server", metavar="HOST:PORT", help="A running cluster to use in place of a node of the demo's own."
)
@click.option(
    "--flights",
    "count",
    type=click.IntRange(1),
    metavar="N",
    help="Only the first N flights of the year, for a quick look.",
)
@click.option(
    "--rate", type=click.IntRange(100, 1_000_000), default=30_000, show_default=True, help="Reports sent a second."
)
def flights(output: Path, bootstrap_server: str | None, count: int | None, rate: int) -> int:
    """Run the demo; exit code 1 if a count does not agree with the source data."""
    if bootstrap_server is not None and not bootstrap_server.strip():
        raise OperatorError("--bootstrap-server is empty: give host:port, or leave it out for a node of the demo's own")
    started = time.monotonic()
    try:
        from headrace.spark.demo.plot import draw
        from headrace.spark.demo.run import DemoSettings, load_inputs, stream_flights
    except ImportError as error:
        raise OperatorError(f"the demo needs more packages: pip install 'headrace[demo]' ({error})") from error
    _clear(output)
    with ExitStack() as stack:
        watcher = stack.enter_context(_Display())
        loading = stack.enter_context(ThreadPoolExecutor(1)).submit(load_inputs, count)
        servers = bootstrap_server or stack.enter_context(_own_node(watcher)).bootstrap_servers
        spark = _start_spark(stack, watcher, output)
        settings = DemoSettings(servers=servers, output=output, reports_per_s=rate)
        outcome = stream_flights(spark, settings, loading.result(), watcher)
        watcher.stage("drawing")
        draw(outcome.delays, outcome.reports, outcome.fate, output / "flights.png")
        watcher.stage("stopping Spark and the node")
    _show(outcome, output, time.monotonic() - started)
    return 0 if outcome.is_right else 1


def _clear(output: Path) -> None:
    """Make room for this run: remove what the demo itself writes, and nothing else."""
    output.mkdir(parents=True, exist_ok=True)
    for name in ("delays", "dropped"):
        shutil.rmtree(output / name, ignore_errors=True)
    for name in ("flights.png", "spark.log"):
        (output / name).unlink(missing_ok=True)


def _own_node(watcher: _Display) -> Any:
    from headrace.testing import Node

    watcher.stage("starting a node")
    return Node(directory=None)


def _start_spark(stack: ExitStack, watcher: _Display, output: Path) -> Any:
    from headrace.spark.demo.run import SESSION_SETTINGS
    from headrace.spark.session import local_session, stop_session

    watcher.stage("starting Spark")
    spark = local_session("flights", config=SESSION_SETTINGS, log_path=output / "spark.log")
    stack.callback(stop_session, spark)
    return spark


class _Display:
    """Progress on a terminal as two bars, which move from the start, else as a line now and then. Used as a context manager."""

    _LINE_EVERY_S = 5.0

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        from headrace.cli.output import console

        self._console = console()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description:<28}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._started = time.monotonic()
        self._last_line = 0.0
        # Until the number of reports is known the bars only show that something is going on.
        self._sent = self._progress.add_task("reports sent to the topic", total=None)
        self._worked = self._progress.add_task("worked on by the pipeline", total=None)

    def __enter__(self) -> _Display:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        """A line with the seconds since the start."""
        self._progress.console.print(f"[dim]{time.monotonic() - self._started:5.1f} s[/dim]  {text}")

    def progress(self, *, sent: int, worked: int, total: int) -> None:
        """Move the bars, or say where things are."""
        self._progress.update(self._sent, completed=sent, total=total)
        self._progress.update(self._worked, completed=worked, total=total)
        now = time.monotonic()
        if not self._console.is_terminal and now - self._last_line >= self._LINE_EVERY_S:
            self._last_line = now
            self.stage(f"{sent:,} of {total:,} reports sent, {worked:,} worked on")


def _show(outcome: Outcome, output: Path, took_s: float) -> None:
    """The short table, the account, and where the results are."""
    from headrace.cli.output import show_table

    show_table("Departures out of New York by carrier, 2013", _COLUMNS, _carrier_rows(outcome), right=range(1, 6))
    print()
    show_table(
        "Every flight accounted for",
        ("", "from the source data", "found", ""),
        [
            (each.what, f"{each.expected:,}", f"{each.found:,}", "ok" if each.is_right else "WRONG")
            for each in outcome.checks
        ],
        right=(1, 2),
    )
    print(
        f"\n{len(outcome.reports):,} records in {outcome.batches} micro-batches, {outcome.stream_s:.0f} s of streaming, {took_s:.0f} s in all. "
        f"Node and Spark are stopped.\nPicture: {output / 'flights.png'}\nTables:  {output / 'delays'}, {output / 'dropped'} (Parquet)"
    )
    if not outcome.is_right:
        print("Some counts do not agree with the source data.", file=sys.stderr)


_COLUMNS = ("carrier", "flights", "mean delay, min", "in rain or snow", "late reports", "cancelled")


def _carrier_rows(outcome: Outcome) -> list[tuple[str, ...]]:
    from headrace.spark.demo.account import CANCELLED, LATE

    names = outcome.delays.groupby("airline")["carrier"].first().to_dict()
    sums = outcome.delays.groupby("airline")[["flights", "dep_delay_minutes", "wet_flights", "wet_delay_minutes"]].sum()
    fates = outcome.reports.assign(fate=outcome.fate).groupby(["carrier", "fate"]).size()
    rows: list[tuple[str, ...]] = []
    for airline, row in sums.sort_values("flights", ascending=False).iterrows():
        wet = f"{row['wet_delay_minutes'] / row['wet_flights']:.1f}" if row["wet_flights"] else "-"
        mean = row["dep_delay_minutes"] / row["flights"]
        late, cancelled = (int(fates.get((names[str(airline)], fate), 0)) for fate in (LATE, CANCELLED))
        rows.append((str(airline), f"{int(row['flights']):,}", f"{mean:.1f}", wet, f"{late:,}", f"{cancelled:,}"))
    return rows
