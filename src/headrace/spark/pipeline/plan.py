"""The plan of a pipeline: whether its parts fit together, and the queries that it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from headrace.core.errors import OperatorError
from headrace.core.nearest import did_you_mean
from headrace.spark.options import parse_read_options
from headrace.spark.pipeline.spec import PipelineSpec, Sink, TopicSink
from headrace.spark.write_options import parse_write_options


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One streaming query: the rows of the view `source` go to all its sinks, batch by batch. `name` is also its checkpoint's."""

    name: str
    source: str
    sinks: tuple[Sink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A checked pipeline."""

    spec: PipelineSpec
    queries: tuple[Query, ...]


def make_plan(spec: PipelineSpec) -> Plan:
    """Check the pipeline without Spark and group its sinks into queries. Raises OperatorError that names what does not fit."""
    if not spec.topics:
        raise OperatorError(f"pipeline {spec.name} has no [[topic]] to read")
    if not spec.sinks:
        raise OperatorError(f"pipeline {spec.name} has no [[sink]] to write to")
    views: dict[str, None] = {}
    names = (
        [each.name for each in spec.topics] + [each.name for each in spec.tables] + [each.name for each in spec.steps]
    )
    for name in names:
        if name in views:
            raise OperatorError(f"pipeline {spec.name} has two views named {name}")
        if not name.isidentifier():
            raise OperatorError(f"pipeline {spec.name}: {name} is no name for a view; use letters, digits and _")
        views[name] = None
    for topic in spec.topics:
        _named(f"topic {topic.name}", partial(parse_read_options, topic.options, is_stream=True))
    grouped: dict[str, list[Sink]] = {}
    for sink in spec.sinks:
        if sink.source not in views:
            hint = did_you_mean(sink.source, views)
            raise OperatorError(f"pipeline {spec.name}: a sink takes from {sink.source}, which is no view{hint}")
        if isinstance(sink, TopicSink):
            _named(f"sink of {sink.source}", partial(_check_topic_sink, sink.options))
        grouped.setdefault(sink.source, []).append(sink)
    queries = tuple(
        Query(name=f"{spec.name}-{source}", source=source, sinks=tuple(sinks)) for source, sinks in grouped.items()
    )
    return Plan(spec=spec, queries=queries)


def _check_topic_sink(options: Mapping[str, str]) -> None:
    if parse_write_options(options).topic is None:
        raise OperatorError("option topic is missing: it names where the rows go")


def _named(what: str, check: Callable[[], object]) -> None:
    """Run a check and put what was checked before its error."""
    try:
        check()
    except OperatorError as error:
        raise OperatorError(f"{what}: {error}") from error
