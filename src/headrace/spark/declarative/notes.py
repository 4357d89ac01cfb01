"""What is known of a pipeline's last run: its graph, and of each flow the state, rows and lag. It is kept in the project, for `headrace pipeline status`.

Rows and lag come from the event log that Spark writes for a server of ours, line by line while the flows run; at somebody else's Connect server they are
unknown.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import OperatorError
from headrace.spark.declarative.graph import TABLE, VIEW, Dataset, Flow, Graph, plain_name
from headrace.spark.declarative.session import NOTES

_FILE: Final = "last-run.json"
_PROGRESS: Final = "QueryProgressEvent"


@dataclass(slots=True, kw_only=True)
class FlowNotes:
    """One flow's part of a run. `rows` were read by it and `out` written; `late` were dropped behind a watermark (as rows of an aggregate, if it had begun to
    group them); `lag` is how many records of its topics it had not read when last heard of. None is unknown."""

    state: str = ""
    rows: int | None = None
    out: int | None = None
    late: int | None = None
    lag: int | None = None
    error: str = ""


@dataclass(slots=True, kw_only=True)
class RunNotes:
    """A run as it stands."""

    pipeline: str
    graph: Graph = field(default_factory=Graph)
    flows: dict[str, FlowNotes] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    """Rows of tables, by name, when the run had ended."""

    def flow(self, name: str) -> FlowNotes:
        """The notes of a flow, by its short or full name."""
        last = name.replace("`", "").rpartition(".")[2]
        known = name if name in self.graph.flows else last if last in self.graph.flows else plain_name(name)
        return self.flows.setdefault(known, FlowNotes())

    def finished_tables(self) -> list[str]:
        """Tables and views that a flow of this run has completed."""
        targets = {each.target for name, each in self.graph.flows.items() if self.flow(name).state == "COMPLETED"}
        return [
            each.name for each in self.graph.datasets.values() if each.kind in (TABLE, VIEW) and each.name in targets
        ]

    def take_progress(self, progress: Mapping[str, Any]) -> None:
        """What one micro-batch of a streaming flow did."""
        notes = self.flow(str(progress.get("name")))
        notes.rows = (notes.rows or 0) + sum(int(each.get("numInputRows") or 0) for each in progress["sources"])
        written = int(progress.get("sink", {}).get("numOutputRows") or 0)
        if written >= 0:
            notes.out = (notes.out or 0) + written
        operators = progress.get("stateOperators") or []
        if operators:
            notes.late = (notes.late or 0) + sum(int(each.get("numRowsDroppedByWatermark") or 0) for each in operators)
        lags = [lag_of(each) for each in progress["sources"]]
        known = [each for each in lags if each is not None]
        notes.lag = sum(known) if known else notes.lag

    def take_rows(self, counted: Mapping[str, int], forgotten: Collection[str] | None) -> None:
        """How many rows tables hold now. What a flow wrote, where its sink does not tell: what the table has more than before the run; those `forgotten` were emptied, all if None."""
        for name, flow in self.graph.flows.items():
            only_one = sum(each.target == flow.target for each in self.graph.flows.values()) == 1
            notes = self.flow(name)
            if flow.target in counted and only_one and notes.state == "COMPLETED":
                is_new = forgotten is None or flow.target in forgotten or self.graph.datasets[flow.target].kind == VIEW
                notes.out = counted[flow.target] - (0 if is_new else self.rows.get(flow.target, 0))
        self.rows |= counted

    def quarantined(self, name: str) -> int | None:
        """How many rows of what a flow reads went into a table whose name has `quarantine` in it; None where there is none beside the flow's own."""
        reads, found = set(self.graph.flows[name].reads), None
        for other, flow in self.graph.flows.items():
            out = self.flow(other).out
            if other != name and "quarantine" in flow.target and reads & set(flow.reads) and out is not None:
                found = (found or 0) + out
        return found


def lag_of(source: Mapping[str, Any]) -> int | None:
    """How many records lie between what a batch read and the end of its topics; None if the source says no offsets by topic and partition."""
    end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _offsets(value: Any) -> dict[tuple[str, str], int] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        return None
    numbers = [(topic, *pair) for topic, each in value.items() for pair in each.items()]
    return {(topic, number): offset for topic, number, offset in numbers if isinstance(offset, int)}


def previous_rows(project: Path) -> dict[str, int]:
    """Rows of tables as the last run noted them: a run of few flows leaves the others as they are."""
    try:
        return load(project).rows
    except OperatorError:
        return {}


class EventTail:
    """Reads progress reports out of Spark's event log in a directory as they come."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._positions: dict[str, int] = {}

    def take(self) -> Iterator[dict[str, Any]]:
        """The reports since the last call; a line that is half written waits."""
        for path in sorted(self._directory.glob("*")):
            name = path.name.removesuffix(".inprogress")
            with path.open("rb") as file:
                file.seek(self._positions.get(name, 0))
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._positions[name] = self._positions.get(name, 0) + len(line)
                    if _PROGRESS.encode() in line[:200]:
                        yield json.loads(line)["progress"]


def count_rows(spark: Any, tables: Sequence[str], database: str | None) -> dict[str, int]:
    """How many rows the tables hold, in one query."""
    if not tables:
        return {}
    names = {each: each if "." in each or database is None else f"{database}.{each}" for each in tables}
    counts = " UNION ALL ".join(f"SELECT '{each}' AS name, count(*) AS rows FROM {names[each]}" for each in tables)
    return {row["name"]: int(row["rows"]) for row in spark.sql(counts).collect()}


def event_log(directory: Path) -> dict[str, str]:
    """Settings of a server that writes its events into one plain file there."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": directory.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def save(notes: RunNotes, project: Path) -> None:
    """Keep the notes in the project; a reader sees the old or the new ones."""
    text = json.dumps(
        {
            "pipeline": notes.pipeline,
            "datasets": [asdict(each) for each in notes.graph.datasets.values()],
            "edges": [asdict(each) for each in notes.graph.flows.values()],
            "flows": {name: asdict(each) for name, each in notes.flows.items()},
            "rows": notes.rows,
        },
        indent=1,
    )
    file = project / NOTES / _FILE
    temporary = file.with_suffix(".tmp")
    temporary.write_text(text + "\n", encoding="utf-8")
    temporary.replace(file)


def load(project: Path) -> RunNotes:
    """The notes of the last run. Raises OperatorError if there are none."""
    file = project / NOTES / _FILE
    try:
        raw = json.loads(file.read_text(encoding="utf-8"))
        graph = Graph(
            datasets={each["name"]: Dataset(**each) for each in raw["datasets"]},
            flows={each["name"]: Flow(each["name"], each["target"], tuple(each["reads"])) for each in raw["edges"]},
        )
        flows = {name: FlowNotes(**each) for name, each in raw["flows"].items()}
        return RunNotes(pipeline=raw["pipeline"], graph=graph, flows=flows, rows=raw["rows"])
    except FileNotFoundError:
        raise OperatorError(f"{project} has not run yet: say `headrace pipeline run`") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise OperatorError(f"{file} is damaged ({error}): the next run writes it anew") from error
