"""The graph of a pipeline: topics, tables, views and sinks, and the flows between them.

Spark keeps the graph in its server and tells nobody; so it is noted here while the definitions pass by on their way there: what a flow of Python reads is in its
plan, what one of SQL reads is in its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

TOPIC: Final = "topic"
TABLE: Final = "streaming table"
VIEW: Final = "materialized view"
TEMPORARY: Final = "temporary view"
SINK: Final = "sink"

_KINDS: Final = {"StreamingTable": TABLE, "MaterializedView": VIEW, "TemporaryView": TEMPORARY, "Sink": SINK}
_COMMENTS: Final = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'", re.DOTALL)
_NAME: Final = r"((?:`[^`]+`|\w+)(?:\.(?:`[^`]+`|\w+))*)"
_DATASET: Final = re.compile(
    rf"CREATE\s+(?:OR\s+REFRESH\s+)?(STREAMING\s+TABLE|MATERIALIZED\s+VIEW|TEMPORARY\s+VIEW|VIEW)\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}",
    re.IGNORECASE,
)
_FLOW: Final = re.compile(
    rf"CREATE\s+FLOW\s+{_NAME}.*?INSERT\s+(?:INTO|OVERWRITE)\s+{_NAME}", re.IGNORECASE | re.DOTALL
)
_READ: Final = re.compile(rf"(?:\b(?:FROM|JOIN)\s+|,\s*(?=STREAM\b))(?:STREAM\s*\(?\s*)?{_NAME}", re.IGNORECASE)
_OPTIONS_OF_TOPICS: Final = ("subscribe", "subscribepattern", "assign")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A node of the graph."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Flow:
    """What writes into `target`, and what it reads."""

    name: str
    target: str
    reads: tuple[str, ...]


@dataclass(slots=True)
class Graph:
    """Datasets and flows by name, in the order of their definitions."""

    datasets: dict[str, Dataset] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def add(self, name: str, kind: str) -> None:
        """A dataset; a second definition is for Spark to refuse."""
        self.datasets.setdefault(name, Dataset(name, kind))

    def add_flow(self, name: str, target: str, reads: Iterator[str]) -> None:
        """A flow; names of what it reads once each."""
        self.flows[name] = Flow(name, target, tuple(dict.fromkeys(reads)))

    def add_sql(self, text: str) -> None:
        """What the statements of a SQL file define."""
        for statement in _COMMENTS.sub(" ", text).split(";"):
            flow, dataset = _FLOW.search(statement), _DATASET.search(statement)
            if flow is not None:
                self.add_flow(plain_name(flow[1]), plain_name(flow[2]), reads_of_sql(statement[flow.end() :]))
            elif dataset is not None:
                kind = " ".join(dataset[1].lower().split())
                self.add(plain_name(dataset[2]), TEMPORARY if kind == "view" else kind)
                if re.search(r"\bSELECT\b|\bFROM\b", statement, re.IGNORECASE):
                    self.add_flow(
                        plain_name(dataset[2]), plain_name(dataset[2]), reads_of_sql(statement[dataset.end() :])
                    )

    def layers(self) -> list[list[Dataset]]:
        """Datasets by how many flows lie before them at most: what reads stands behind what it reads."""
        depth = dict.fromkeys(self.datasets, 0)
        for _ in self.datasets:  # no path is longer; a circle, which Spark refuses, ends here too
            for flow in self.flows.values():
                before = [depth[each] for each in flow.reads if each in depth]
                if flow.target in depth and before:
                    depth[flow.target] = min(max(depth[flow.target], max(before) + 1), len(self.datasets))
        found: dict[int, list[Dataset]] = {}
        for name, dataset in self.datasets.items():
            found.setdefault(depth[name], []).append(dataset)
        return [found[each] for each in sorted(found)]


def reads_of_sql(text: str) -> Iterator[str]:
    """Names behind FROM and JOIN."""
    for found in _READ.finditer(_COMMENTS.sub(" ", text)):
        if found[1].upper() != "STREAM":
            yield plain_name(found[1])


def reads_of_plan(relation: Any, graph: Graph) -> Iterator[str]:
    """What a plan of Spark Connect reads: tables by name, topics with `topic:` before theirs."""
    for read in _messages(relation):
        kind = read.DESCRIPTOR.name
        if kind == "NamedTable":
            yield plain_name(read.unparsed_identifier)
        elif kind == "SQL":
            yield from reads_of_sql(read.query)
        elif kind == "DataSource" and read.format == "headrace":
            options = {key.lower(): value for key, value in read.options.items()}
            name = next((options[each] for each in _OPTIONS_OF_TOPICS if each in options), "?")
            graph.add(f"topic:{name}", TOPIC)
            yield f"topic:{name}"


def _messages(message: Any) -> Iterator[Any]:
    """A message and all in it."""
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
            continue
        for each in [value] if hasattr(value, "DESCRIPTOR") else value:
            yield from _messages(each)


def plain_name(name: str) -> str:
    """A name without quotes and without Spark's own catalog and database."""
    return name.replace("`", "").removeprefix("spark_catalog.").removeprefix("default.")


def noting_registry(graph: Graph) -> Any:
    """A class of Spark's registry that notes in `graph` what passes."""
    from dataclasses import replace

    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry

    class NotingRegistry(SparkConnectGraphElementRegistry):  # type: ignore[misc]
        """Registers in the server, and notes."""

        def register_output(self, output: Any) -> None:
            super().register_output(output)
            graph.add(plain_name(output.name), _KINDS.get(type(output).__name__, TABLE))

        def register_flow(self, flow: Any) -> None:
            frames: list[Any] = []

            def func() -> Any:
                frames.append(flow.func())
                return frames[-1]

            super().register_flow(replace(flow, func=func))
            for frame in frames:
                relation = frame._plan.plan(self._client)  # noqa: SLF001 - as the class above takes it
                graph.add_flow(plain_name(flow.name), plain_name(flow.target), reads_of_plan(relation, graph))

        def register_auto_cdc_flow(self, flow: Any) -> None:
            super().register_auto_cdc_flow(flow)
            graph.add_flow(plain_name(flow.name), plain_name(flow.target), iter((plain_name(flow.source),)))

        def register_sql(self, sql_text: str, file_path: Any) -> None:
            super().register_sql(sql_text, file_path)
            graph.add_sql(sql_text)

    return NotingRegistry
