"""What a pipeline's file says.

TOML, in this shape; `${name}` anywhere in a text stands for a parameter that is given when the pipeline runs::

    name = "flights"

    [[topic]]                                 # a stream; the columns are Spark's, or with `schema` those of the value's JSON
    name = "reports"                          # the view that steps select from
    options = { "kafka.bootstrap.servers" = "${servers}", "subscribe" = "flights", "startingOffsets" = "earliest" }
    schema = "flight INT, carrier STRING"

    [[table]]                                 # a table that stands still, read once at the start
    name = "airlines"
    format = "csv"
    path = "${tables}/airlines.csv"
    options = { "header" = "true" }

    [[step]]                                  # a view over views before it
    name = "departures"
    sql = "SELECT ... FROM reports JOIN airlines USING (carrier)"
    watermark = { column = "scheduled", delay = "2 hours" }

    [[sink]]                                  # sinks with the same `from` are one query
    from = "departures"
    kind = "parquet"
    path = "${output}/departures"

    [[sink]]
    from = "departures"
    kind = "topic"
    options = { "kafka.bootstrap.servers" = "${servers}", "topic" = "departures" }
    key = "carrier"                           # optional: an SQL expression; `value` by default is the whole row as JSON
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from headrace.core.errors import OperatorError
from headrace.core.nearest import did_you_mean

_PARAMETER: Final = re.compile(r"\$\{(\w+)\}")
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "": ("name", "topic", "table", "step", "sink"),
    "topic": ("name", "options", "schema"),
    "table": ("name", "format", "path", "options"),
    "step": ("name", "sql", "watermark"),
    "watermark": ("column", "delay"),
    "sink": ("from", "kind", "path", "options", "key", "value"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    """A stream of one or more topics. With `schema` (DDL) the value is JSON, and the view has its fields beside topic, partition, offset."""

    name: str
    options: Mapping[str, str]
    schema: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """A table that stands still: any format that Spark reads."""

    name: str
    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How long rows may come after younger ones: beyond `delay` (`2 hours`) behind the latest `column` they are late."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A named view over views before it."""

    name: str
    sql: str
    watermark: Watermark | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetSink:
    """Files of rows: a directory a micro-batch, so that a batch that runs again replaces what it wrote."""

    source: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """Rows as records, at least once. `key` and `value` are SQL expressions; without `value` the row as JSON."""

    source: str
    options: Mapping[str, str]
    key: str | None = None
    value: str | None = None


Sink: TypeAlias = ParquetSink | TopicSink


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSpec:
    """A whole pipeline as its file says it."""

    name: str
    topics: tuple[TopicSource, ...]
    tables: tuple[TableSource, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...]


def read_spec(path: Path, parameters: Mapping[str, str]) -> PipelineSpec:
    """The pipeline in the file. Raises OperatorError that names file and key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OperatorError(f"{path}: {error}") from error
    return parse_spec(text, parameters, where=str(path))


def parse_spec(text: str, parameters: Mapping[str, str], *, where: str = "pipeline") -> PipelineSpec:
    """The pipeline in a TOML text; `where` is its name in errors. Raises OperatorError."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise OperatorError(f"{where}: {error}") from error
    filled = _filled(raw, parameters, where)
    reader = _Reader(where)
    reader.check_keys("", filled)
    return PipelineSpec(
        name=reader.text("", filled, "name"),
        topics=tuple(reader.topic(each) for each in reader.tables(filled, "topic")),
        tables=tuple(reader.table(each) for each in reader.tables(filled, "table")),
        steps=tuple(reader.step(each) for each in reader.tables(filled, "step")),
        sinks=tuple(reader.sink(each) for each in reader.tables(filled, "sink")),
    )


def _filled(value: Any, parameters: Mapping[str, str], where: str) -> Any:
    """The same with every `${name}` in every text replaced."""
    if isinstance(value, dict):
        return {key: _filled(each, parameters, where) for key, each in value.items()}
    if isinstance(value, list):
        return [_filled(each, parameters, where) for each in value]
    if not isinstance(value, str):
        return value
    missing = [name for name in _PARAMETER.findall(value) if name not in parameters]
    if missing:
        raise OperatorError(f"{where}: there is no parameter {missing[0]}; given are {', '.join(sorted(parameters))}")
    return _PARAMETER.sub(lambda found: parameters[found[1]], value)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes the tables of one file apart; `where` is the file's name in errors."""

    where: str

    def check_keys(self, kind: str, table: Mapping[str, Any]) -> None:
        for key in table:
            if key not in _KEYS[kind]:
                hint = did_you_mean(key, _KEYS[kind]) or f"; there are {', '.join(_KEYS[kind])}"
                raise OperatorError(f"{self.where}: unknown key {key} {_in(kind)}{hint}")

    def tables(self, raw: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
        value = raw.get(kind, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise OperatorError(f"{self.where}: write [[{kind}]] for each {kind}")
        for each in value:
            self.check_keys(kind, each)
        return value

    def text(self, kind: str, table: Mapping[str, Any], key: str) -> str:
        value = table.get(key)
        if not isinstance(value, str) or not value.strip():
            raise OperatorError(f"{self.where}: {key} {_in(kind)} is missing or is no text")
        return value

    def maybe(self, kind: str, table: Mapping[str, Any], key: str) -> str | None:
        return self.text(kind, table, key) if key in table else None

    def options(self, kind: str, table: Mapping[str, Any]) -> dict[str, str]:
        value = table.get("options", {})
        if not isinstance(value, dict):
            raise OperatorError(f"{self.where}: options {_in(kind)} is no table of texts")
        return {key: str(each).lower() if isinstance(each, bool) else str(each) for key, each in value.items()}

    def topic(self, table: Mapping[str, Any]) -> TopicSource:
        name, schema = self.text("topic", table, "name"), self.maybe("topic", table, "schema")
        return TopicSource(name=name, options=self.options("topic", table), schema=schema)

    def table(self, table: Mapping[str, Any]) -> TableSource:
        texts = {key: self.text("table", table, key) for key in ("name", "format", "path")}
        return TableSource(**texts, options=self.options("table", table))

    def step(self, table: Mapping[str, Any]) -> Step:
        watermark = table.get("watermark")
        if watermark is not None:
            if not isinstance(watermark, dict):
                raise OperatorError(f"{self.where}: watermark in [[step]] is no table with column and delay")
            self.check_keys("watermark", watermark)
            watermark = Watermark(**{key: self.text("watermark", watermark, key) for key in ("column", "delay")})
        return Step(name=self.text("step", table, "name"), sql=self.text("step", table, "sql"), watermark=watermark)

    def sink(self, table: Mapping[str, Any]) -> Sink:
        source, kind = self.text("sink", table, "from"), self.text("sink", table, "kind")
        if kind == "parquet":
            return ParquetSink(source=source, path=self.text("sink", table, "path"))
        if kind == "topic":
            key, value = self.maybe("sink", table, "key"), self.maybe("sink", table, "value")
            return TopicSink(source=source, options=self.options("sink", table), key=key, value=value)
        raise OperatorError(f"{self.where}: kind={kind} {_in('sink')}: must be parquet or topic")


def _in(kind: str) -> str:
    return f"in [[{kind}]]" if kind else "at the top"
