"""A run of a pipeline: its definitions are registered, its flows run, and what Spark tells of them is passed on.

What can go wrong ends in an OperatorError of one line: a mistake in a file of the project with file and line, and what Spark says with its
error class.
"""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from headrace.core.errors import OperatorError
from headrace.spark.declarative.graph import TEMPORARY, TOPIC, Graph, noting_registry, plain_name

_STATE: Final = re.compile(r"Flow '?([\w.`$-]+)'? (?:is|has) ([A-Z]+)\b\.?(.*)", re.DOTALL)
_UNRESOLVED: Final = re.compile(r"Failed to resolve flow: '([^']+)'\.\s*(.*)", re.DOTALL)
_TRACEBACK: Final = re.compile(
    r".*Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n|\n)*(?:\w+\.)*(?:OperatorError: )?", re.DOTALL
)
_NOISE: Final = re.compile(r"\s*SQLSTATE: \w+(; line \d+ pos \d+)?.*|\n\s*(?:at |JVM stacktrace|== SQL).*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refresh:
    """What a run works on: everything there is new; only `only`; and what it forgets first, `full` or all of it. `is_dry`: it checks, and runs nothing."""

    only: tuple[str, ...] = ()
    full: tuple[str, ...] = ()
    is_full: bool = False
    is_dry: bool = False

    def __post_init__(self) -> None:
        if self.is_full and (self.only or self.full):
            raise OperatorError("--full-refresh-all is everything: leave --refresh and --full-refresh out")


@dataclass(slots=True, kw_only=True)
class Outcome:
    """The last state of each flow, by its full name, and why a flow failed."""

    states: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def take(self, message: str) -> tuple[str, str] | None:
        """Note what an event says; flow and state if it speaks of a flow."""
        unresolved = _UNRESOLVED.match(message)
        found = unresolved or _STATE.match(message)
        if found is None:
            return None
        flow, state, more = (found[1], "FAILED", found[2]) if unresolved else found.groups()
        flow = flow.replace("`", "")
        self.states[flow] = state
        if state == "FAILED":
            self.errors[flow] = one_line(more.strip().removeprefix("Error:"))
        else:
            self.errors.pop(flow, None)
        return flow, state


def run_pipeline(
    spark: Any,
    spec_path: Path,
    spec: Any,
    refresh: Refresh,
    *,
    graph: Graph | None = None,
    tell: Callable[[str, str, str], None] = lambda flow, state, error: None,
) -> Outcome:
    """Run, or with `is_dry` check, the pipeline in a Connect session; `tell` hears of each flow's states, and `graph` is filled. Raises OperatorError."""
    from pyspark.pipelines.cli import register_definitions
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    outcome, noted = Outcome(), Graph() if graph is None else graph
    with _in_one_line(spec_path, outcome):
        graph_id = create_dataflow_graph(
            spark, default_catalog=spec.catalog, default_database=spec.database, sql_conf=spec.configuration
        )
        registry = noting_registry(noted)(spark, graph_id)
        with redirect_stdout(sys.stderr if sys.stderr.isatty() else _Nowhere()):
            register_definitions(spec_path, registry, spec, spark, graph_id)
        _check_known(refresh, noted)
        events = start_run(
            spark,
            graph_id,
            full_refresh=refresh.full,
            full_refresh_all=refresh.is_full,
            refresh=refresh.only,
            dry=refresh.is_dry,
            storage=spec.storage,
        )
        for message in _messages(events):
            change = outcome.take(message)
            if change is not None:
                tell(*change, outcome.errors.get(change[0], ""))
    return outcome


def _check_known(refresh: Refresh, graph: Graph) -> None:
    """Raises OperatorError for a table that the pipeline does not have: Spark would run nothing, and say that all is well."""
    known = {
        each.name.rpartition(".")[2]: each.name
        for each in graph.datasets.values()
        if each.kind not in (TOPIC, TEMPORARY)
    }
    for option, names in (("--refresh", refresh.only), ("--full-refresh", refresh.full)):
        for name in names:
            if plain_name(name).rpartition(".")[2] not in known:
                raise OperatorError(
                    f"{option} {name}: the pipeline has no such table; it has {', '.join(known.values())}"
                )


class _Nowhere:
    """A file that forgets: Spark tells there which files it loads."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing to do."""


def _messages(events: Iterator[dict[str, Any]]) -> Iterator[str]:
    for each in events:
        if "pipeline_event_result" in each:
            yield each["pipeline_event_result"].event.message


@contextmanager
def _in_one_line(spec_path: Path, outcome: Outcome) -> Iterator[None]:
    """Make an OperatorError of what a project's files or Spark raise."""
    from pyspark.errors import PySparkException

    try:
        yield
    except OperatorError:
        raise
    except PySparkException as error:
        causes = [f"{flow}: {cause}" for flow, cause in outcome.errors.items()]
        raise OperatorError("; ".join(causes) or one_line(error.getMessage() or str(error))) from error
    except Exception as error:  # whatever a file of the project raises
        raise OperatorError(f"{_place(error, spec_path.parent.resolve())}{type(error).__name__}: {error}") from error


def one_line(text: str) -> str:
    """What Spark says without stack traces, SQL states and line ends; where Python failed, the error alone, without where it came from."""
    return " ".join(_NOISE.sub(r"\1", _TRACEBACK.sub("", text)).split())


def _place(error: Exception, directory: Path) -> str:
    """File and line of the project where an error came from, with a colon; nothing if it came from elsewhere."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}:{error.lineno}: "
    frames = [each for each in traceback.extract_tb(error.__traceback__) if directory in Path(each.filename).parents]
    return f"{Path(frames[-1].filename).relative_to(directory)}:{frames[-1].lineno}: " if frames else ""
