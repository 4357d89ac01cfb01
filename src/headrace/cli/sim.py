"""The command `headrace sim`: whole clusters under faults on virtual time, one seed each."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headrace.cli.kept_runs import KeptRuns
from headrace.cli.output import show_json
from headrace.cli.shell import offered
from headrace.core.errors import OperatorError
from headrace.sim.faults import FaultKind
from headrace.sim.outcome import Failure, RunKey, RunResult
from headrace.sim.plan import LEVELS, SIZES, parse_kinds
from headrace.sim.report import failure_text
from headrace.sim.run import replayed, run
from headrace.sim.shrink import shrink
from headrace.sim.suites import SUITES, Suite, Tally

_DRAWN_ELSE = (*SIZES, "seconds", "faults", "every_ms")
"""What is drawn from the seed unless it is given."""
_TELL_EVERY_RUNS = 500
_EPILOG = "\b\nFault kinds: " + ",\n".join(
    ", ".join(kind.value for kind in list(FaultKind)[start : start + 9]) for start in range(0, len(FaultKind), 9)
)


@click.command(
    help="Run whole clusters on virtual time under faults; the same seed gives the same run. Everything left out is drawn from the seed.",
    epilog=_EPILOG,
)
@click.option("--seed", type=int, default=1, show_default=True, metavar="N", help="The first seed.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="How many seeds; one unless it is said.")
@click.option(
    "--level",
    type=click.Choice(LEVELS),
    help="quorum: controllers and scripted clients; cluster: whole brokers too; partitions: replicas that move, elections and reads as well; "
    "records: producers, consumers and groups on whole brokers. "
    "Default: cluster with --brokers, else quorum.",
)
@click.option("--controllers", type=click.IntRange(1, 9), metavar="N", help="Nodes with the controller role.")
@click.option("--voters", type=click.IntRange(1, 9), metavar="N", help="How many of them are voters at first.")
@click.option("--brokers", type=click.IntRange(0, 20), metavar="N", help="Whole brokers.")
@click.option(
    "--scripted-brokers", type=click.IntRange(0, 20), metavar="N", help="Brokers that only talk to controllers."
)
@click.option("--admins", type=click.IntRange(0, 20), metavar="N", help="Clients that change topics and settings.")
@click.option(
    "--hostile-peers", type=click.IntRange(0, 9), metavar="N", help="Clients that send forged packets to all nodes."
)
@click.option("--racks", type=click.IntRange(0, 9), metavar="N", help="Racks that the nodes stand in by turns.")
@click.option(
    "--producers", type=click.IntRange(0, 20), metavar="N", help="Clients that write records (level records)."
)
@click.option("--consumers", type=click.IntRange(0, 20), metavar="N", help="Clients that read records (level records).")
@click.option(
    "--copies", type=click.IntRange(1, 5), metavar="N", help="Replicas of each partition that producers write to."
)
@click.option("--members", type=click.IntRange(0, 20), metavar="N", help="Members of consumer groups (level records).")
@click.option(
    "--seconds", type=click.IntRange(1, 3600), metavar="N", help="Simulated time with faults, before healing."
)
@click.option(
    "--faults",
    metavar="KIND,...",
    help="Which faults happen: all, none, or kinds apart by commas.",
    shell_complete=offered(*(kind.value for kind in FaultKind)),
)
@click.option("--every-ms", type=click.IntRange(min=10), metavar="MS", help="Mean time between two faults of a kind.")
@click.option(
    "--suite",
    type=click.Choice(sorted(SUITES)),
    help="A set of runs in place of one; what it must reach is checked. Levels, sizes and faults are its own.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), metavar="N", help="Processes for several seeds. Default: one a core."
)
@click.option(
    "--save", type=click.Path(), metavar="FILE", help="Write the first failure there, for `headrace debug replay`."
)
@click.option(
    "--keep",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Note each run that goes well there; those that FILE has already are not made again.",
)
@click.option("--no-shrink", is_flag=True, help="Report a failure with all its faults.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(**options: Any) -> int:
    """Run, print, and say with the exit code whether all went well."""
    given = {name: options[name] for name in _DRAWN_ELSE if options[name] is not None}
    if "faults" in given:
        parse_kinds(given["faults"])
    if options["suite"] is not None:
        if given or options["level"] is not None or options["seeds"] is not None:
            raise OperatorError(
                "a suite has its own levels and draws everything from its seeds: leave out --level, --seeds, the sizes and faults"
            )
        return _run_suite(SUITES[options["suite"]], options)
    level = options["level"] or ("cluster" if options["brokers"] else "quorum")
    keys = [
        RunKey(level=level, seed=seed, options=given)
        for seed in range(options["seed"], options["seed"] + (options["seeds"] or 1))
    ]
    return _run_all(keys, len(keys), Suite(parts=(), needs_markers=False), options)


def _run_suite(suite: Suite, options: dict[str, Any]) -> int:
    return _run_all(suite.keys(options["seed"]), sum(part.seeds for part in suite.parts), suite, options)


def _run_all(keys: Iterable[RunKey], count: int, suite: Suite, options: dict[str, Any]) -> int:
    jobs = min(options["jobs"] or os.cpu_count() or 1, count)
    tally = Tally()
    last: RunResult | None = None
    kept = KeptRuns(Path(options["keep"]), commit()) if options["keep"] else None
    if kept is not None:
        taken, keys = kept.take(keys)
        for last in taken:
            tally.add(last)
        _tell_kept(kept)
    started = time.monotonic()
    with _runner(jobs) as run_many:
        for result in run_many(keys):
            tally.add(result)
            last = result
            if kept is not None:
                kept.note(result)
            if count > 1:
                _tell_progress(result, tally, count)
    seconds = time.monotonic() - started
    failure = min(tally.failures, key=lambda each: (each.key.level, each.key.seed), default=None)
    is_shrunk = failure is not None and not options["no_shrink"]
    if failure is not None and is_shrunk:
        failure = shrunk(failure)
    if failure is not None and options["save"]:
        Path(options["save"]).write_text(json.dumps(failure.as_json(), indent=1) + "\n", encoding="utf-8")
    shortfalls = tally.shortfalls(suite)
    digest = last.digest if count == 1 and last is not None else None
    if options["as_json"]:
        _show_json(tally, seconds, digest, shortfalls)
    else:
        _show(tally, seconds, digest, shortfalls)
        if failure is not None:
            click.echo(failure_text(failure, commit=commit(), shrunk=is_shrunk))
    return 1 if tally.failures or shortfalls else 0


def _tell_kept(kept: KeptRuns) -> None:
    for made_by, count in sorted(kept.commits.items()):
        click.echo(f"{count:,} {'run' if count == 1 else 'runs'} kept, made by {made_by}", err=True)


def _tell_progress(result: RunResult, tally: Tally, count: int) -> None:
    """Long suites take an hour: each failure is named at once, and how far it is now and then. Standard error, as it is no result."""
    if result.failure is not None:
        found = result.failure
        click.echo(f"{found.key.level} seed {found.key.seed}: {found.invariant}: {found.message}", err=True)
    if tally.runs % _TELL_EVERY_RUNS == 0:
        click.echo(f"{tally.runs:,} of {count:,} runs, {tally.steps:,} steps, {len(tally.failures)} failed", err=True)


@contextmanager
def _runner(jobs: int) -> Iterator[Any]:
    """A function that makes runs, in this process or in several."""
    if jobs == 1:
        yield lambda keys: map(_run_one, keys)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=gc.freeze) as pool:
        yield lambda keys: pool.imap_unordered(_run_one, keys, chunksize=4)


def _run_one(key: RunKey) -> RunResult:
    """A run, with the collection of garbage left for its end: it is short, and that is a tenth of its time."""
    gc.disable()
    try:
        return run(key)
    finally:
        gc.enable()
        gc.collect()


def shrunk(failure: Failure) -> Failure:
    """The same failure with as few faults as it needs."""
    found = failure

    def still_fails(faults: Any) -> bool:
        nonlocal found
        again = replayed(failure.key, faults).failure
        if again is None or again.invariant != failure.invariant:
            return False
        found = again
        return True

    shrink(failure.faults, still_fails)
    return found


def commit() -> str:
    """The commit of the checkout that the package lies in, or its version."""
    from headrace import __version__

    here = Path(__file__).parent
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=here,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return __version__
    return asked.stdout.strip() or __version__


def _show(tally: Tally, seconds: float, digest: str | None, shortfalls: list[str]) -> None:
    rate = tally.steps / seconds if seconds else 0.0
    click.echo(
        f"{tally.runs} {'run' if tally.runs == 1 else 'runs'}, {tally.steps:,} steps, {tally.simulated_ms / 1000:,.0f} s of simulated time "
        f"in {seconds:.1f} s ({rate:,.0f} steps/s), {len(tally.failures)} failed"
    )
    if digest is not None:
        click.echo(f"trace digest {digest}")
    width = max(map(len, tally.markers.counts), default=0)
    for name, count in sorted(tally.markers.counts.items()):
        click.echo(f"  {name:<{width}} {count:>9,}")
    for text in shortfalls:
        click.echo(f"too little: {text}")
    for failed in sorted(tally.failures, key=lambda each: (each.key.level, each.key.seed)):
        click.echo(f"failed: {failed.invariant} with {failed.key.command()}: {failed.message[:160]}")


def _show_json(tally: Tally, seconds: float, digest: str | None, shortfalls: list[str]) -> None:
    show_json(
        {
            "runs": tally.runs,
            "steps": tally.steps,
            "simulated_ms": tally.simulated_ms,
            "seconds": round(seconds, 3),
            "digest": digest,
            "markers": dict(sorted(tally.markers.counts.items())),
            "shortfalls": shortfalls,
            "failures": [failure.as_json() for failure in tally.failures],
        }
    )
