"""The command `headrace debug replay FILE`: what a node, or a simulated cluster, did when it went wrong."""

from __future__ import annotations

from pathlib import Path

import click

from headrace.cli.shell import Group
from headrace.core.errors import OperatorError
from headrace.node.journal import read_journal
from headrace.sim.replay import replay as replay_journal
from headrace.sim.report import failure_text
from headrace.sim.run import parse_failure, replayed


@click.group(cls=Group, help="Look into what went wrong.", no_args_is_help=True)
def command() -> None:
    """The group."""


@command.command(
    "replay",
    help="Make it happen again: FILE is a journal of a node (headrace.journal.file), or a failure that `headrace sim --save` wrote.",
)
@click.argument("file", type=click.Path())
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=40,
    show_default=True,
    metavar="N",
    help="How many of the last lines to show.",
)
def replay_command(file: str, steps: int) -> int:
    """Exit code 0: a journal gave the same again, or a failure happened again; 1 otherwise."""
    try:
        with open(file, encoding="utf-8") as lines:
            begun = lines.read(4096)
        return _replay_journal(file, steps) if _is_journal(begun) else _replay_failure(file, steps)
    except OSError as error:
        raise OperatorError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise OperatorError(f"{file} is neither a journal nor a failure file: it is not text") from None


def _is_journal(begun: str) -> bool:
    return begun.startswith('{"format":')


def _replay_journal(file: str, steps: int) -> int:
    with open(file, encoding="utf-8") as lines:
        outcome = replay_journal(read_journal(lines, path=file), path=file)
    for line in outcome.last_events[-steps:] if steps else ():
        click.echo(line)
    click.echo(f"{outcome.events} events replayed; the node is now {outcome.state}")
    if outcome.difference:
        click.echo(f"not as in the journal: {outcome.difference}")
        return 1
    click.echo("every event had the same effects as in the journal")
    return 0


def _replay_failure(file: str, steps: int) -> int:
    key, faults, invariant = parse_failure(Path(file).read_text(encoding="utf-8"), path=file)
    result = replayed(key, faults)
    if result.failure is None:
        click.echo(f"{result.steps} steps without a failure: {invariant} holds now. Trace digest {result.digest}")
        return 1
    click.echo(failure_text(result.failure, commit="of this checkout", shrunk=True, steps_shown=steps))
    return 0 if result.failure.invariant == invariant else 1
