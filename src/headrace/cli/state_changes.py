"""The command `headrace state-changes`: the life of changes of replicas, from the files of several nodes, in one order."""

from __future__ import annotations

import heapq
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from headrace.cli.moments import iso
from headrace.cli.shell import json_option, offered
from headrace.core.errors import OperatorError

_PHASES: Final = ("requested", "received", "completed", "failed")
_ACTIONS: Final = ("start-replica", "close-replica", "become-leader", "become-follower")
_NUMBERS: Final = ("ts", "node", "partition", "target", "source", "leaderEpoch", "partitionEpoch", "metadataOffset")
MOST_OPEN: Final = 1_000_000
"""Changes that are under way at once, with --backlog."""
Line = dict[str, Any]


@click.command(help="Follow changes of replicas through the files that nodes write with headrace.state.change.file.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--topic", metavar="TOPIC", help="Only of this topic.")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Only of this partition.")
@click.option("--broker", type=click.IntRange(0), metavar="ID", help="Only of replicas on this broker.")
@click.option("--epoch", type=click.IntRange(0), metavar="N", help="Only of this leader epoch.")
@click.option("--phase", type=click.Choice(_PHASES), shell_complete=offered(*_PHASES), help="Only this phase.")
@click.option("--action", type=click.Choice(_ACTIONS), shell_complete=offered(*_ACTIONS), help="Only this action.")
@click.option("--backlog", is_flag=True, help="Only what was requested or received and is not completed.")
@json_option
def command(files: tuple[str, ...], *, backlog: bool, as_json: bool, **wanted: Any) -> int:
    """All files are read once, in the order of their times (B-T13, S3-08, S3-10)."""
    former = {f"{file}.1" for file in files}  # read with the file that took its place, as a pattern may name both
    merged = heapq.merge(
        *(_lines(file) for file in dict.fromkeys(files) if file not in former), key=lambda each: each["ts"]
    )
    chosen = (each for each in merged if _is_wanted(each, wanted, with_phase=not backlog))
    if backlog:
        chosen = (each for each in _not_done(chosen) if wanted["phase"] in (None, each["phase"]))
    show: Callable[[Line], str] = _json if as_json else _text
    count = 0
    for count, each in enumerate(chosen, 1):  # noqa: B007 - how many there were
        print(show(each))
    if not count and any(value is not None for value in wanted.values()):
        print("no change in these files fits the options", file=sys.stderr)
    return 0


def _lines(file: str) -> Iterator[Line]:
    """The lines of a file and, before them, of the one that it replaced. Raises OperatorError."""
    paths = [each for each in (Path(file + ".1"), Path(file)) if each == Path(file) or each.exists()]
    for path in paths:
        try:
            with path.open(encoding="utf-8") as lines:
                for number, text in enumerate(lines, 1):
                    line = _parsed(text, f"{path}, line {number}", is_last=not text.endswith("\n"))
                    if line is not None:
                        yield line
        except (OSError, UnicodeDecodeError) as error:
            raise OperatorError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


def _parsed(text: str, where: str, *, is_last: bool) -> Line | None:
    """A line, or None for one that is being written or that tells of others that were left out. Raises OperatorError."""
    line: Any = None
    with suppress(ValueError):
        line = json.loads(text)
    if isinstance(line, dict) and "left_out" in line:
        print(f"{where}: {line['left_out']} lines were left out: the disk was too slow for them", file=sys.stderr)
        return None
    is_whole = isinstance(line, dict) and line.get("phase") in _PHASES and line.get("action") in _ACTIONS
    if not is_whole or not all(type(line.get(name)) is int for name in _NUMBERS):
        if is_last:
            return None
        raise OperatorError(f"{where}: this is no line of a file of state changes")
    found: Line = line
    return found


def _is_wanted(line: Line, wanted: dict[str, Any], *, with_phase: bool) -> bool:
    asked = {
        "topic": wanted["topic"],
        "partition": wanted["partition"],
        "target": wanted["broker"],
        "leaderEpoch": wanted["epoch"],
        "action": wanted["action"],
        "phase": wanted["phase"] if with_phase else None,
    }
    return all(value is None or line.get(name) == value for name, value in asked.items())


def _not_done(lines: Iterator[Line]) -> list[Line]:
    """The last phase of each change that is not over. A broker's later change of the same replica ends an earlier one."""
    under_way: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        key = (line.get("topicId"), line["partition"], line["target"])
        known = under_way.get(key)
        if known is not None and known["partitionEpoch"] > line["partitionEpoch"]:
            continue
        if line["phase"] == "completed":
            under_way.pop(key, None)
        else:
            under_way[key] = line
            if len(under_way) > MOST_OPEN:
                raise OperatorError(f"more than {MOST_OPEN} changes are under way: choose with --topic or --broker")
    return sorted(under_way.values(), key=lambda each: each["ts"])


def _json(line: Line) -> str:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


def _text(line: Line) -> str:
    action = {
        "start-replica": f"broker {line['target']} starts a replica of",
        "close-replica": f"broker {line['target']} closes its replica of",
        "become-leader": f"broker {line['target']} leads",
        "become-follower": f"broker {line['target']} follows broker {line['source']} in",
    }[line["action"]]
    what = f"{action} {line.get('topic')}-{line['partition']}"
    why = f": {line['cause']}" if line.get("cause") else ""
    epochs = f"leader epoch {line['leaderEpoch']}, partition epoch {line['partitionEpoch']}"
    told = f"requested by node {line['node']}" if line["phase"] == "requested" else line["phase"]
    return f"{iso(line['ts'])} {what}: {told} ({epochs}, metadata offset {line['metadataOffset']}){why}"
