"""What does a pipeline's file say, and what in it is refused?"""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.core.errors import OperatorError
from headrace.spark.declarative.project import load_spec
from headrace.spark.pipeline.plan import Query, make_plan
from headrace.spark.pipeline.spec import (
    ParquetSink,
    PipelineSpec,
    Step,
    TableSource,
    TopicSink,
    TopicSource,
    Watermark,
    parse_spec,
    read_spec,
)

FILE = """
name = "p"
[[topic]]
name = "reports"
schema = "a INT"
options = { "kafka.bootstrap.servers" = "${servers}", subscribe = "t", failOnDataLoss = false, maxOffsetsPerTrigger = 5 }
[[table]]
name = "names"
format = "csv"
path = "${tables}/names.csv"
[[step]]
name = "joined"
sql = "SELECT * FROM reports JOIN names USING (a)"
watermark = { column = "at", delay = "2 hours" }
[[sink]]
from = "joined"
kind = "parquet"
path = "out"
[[sink]]
from = "joined"
kind = "topic"
key = "a"
options = { "kafka.bootstrap.servers" = "${servers}", topic = "o" }
[[sink]]
from = "reports"
kind = "parquet"
path = "raw"
"""
PARAMETERS = {"servers": "h:1", "tables": "/x"}


def parse(text: str = FILE) -> PipelineSpec:
    """The pipeline of a text with the usual parameters."""
    return parse_spec(text, PARAMETERS, where="p.toml")


def test_a_file_becomes_values_with_its_parameters_filled_in() -> None:
    """Every part of the format once; numbers and truths of options become text."""
    joined = TopicSink(source="joined", options={"kafka.bootstrap.servers": "h:1", "topic": "o"}, key="a")
    assert parse() == PipelineSpec(
        name="p",
        topics=(
            TopicSource(
                name="reports",
                schema="a INT",
                options={
                    "kafka.bootstrap.servers": "h:1",
                    "subscribe": "t",
                    "failOnDataLoss": "false",
                    "maxOffsetsPerTrigger": "5",
                },
            ),
        ),
        tables=(TableSource(name="names", format="csv", path="/x/names.csv"),),
        steps=(
            Step(
                name="joined",
                sql="SELECT * FROM reports JOIN names USING (a)",
                watermark=Watermark(column="at", delay="2 hours"),
            ),
        ),
        sinks=(ParquetSink(source="joined", path="out"), joined, ParquetSink(source="reports", path="raw")),
    )


def test_sinks_of_one_view_are_one_query() -> None:
    """The rows are computed once for all sinks that take from the same view."""
    spec = parse()
    assert make_plan(spec).queries == (
        Query(name="p-joined", source="joined", sinks=spec.sinks[:2]),
        Query(name="p-reports", source="reports", sinks=spec.sinks[2:]),
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "p"\n', "", "name at the top is missing"),
        ("schema =", "shema =", r"unknown key shema in \[\[topic\]\]; did you mean schema"),
        ("${servers}", "${server}", "there is no parameter server; given are servers, tables"),
        ("[[table]]", "[table]", r"write \[\[table\]\] for each table"),
        ('kind = "topic"', 'kind = "kafka"', "kind=kafka .* must be parquet or topic"),
        ('delay = "2 hours"', "delay = 2", "delay in .*watermark.* is missing or is no text"),
        ("[[topic]]", "[[topic", "p.toml: "),
        ('watermark = { column = "at", delay = "2 hours" }', "watermark = 2", "watermark in .*step.* is no table"),
        ('name = "p"', "name = " + "9" * 5_000, "p.toml: Exceeds the limit"),
        ('name = "p"', "name = " + "[" * 100_000, "p.toml: maximum recursion depth"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(old: str, new: str, message: str) -> None:
    """One error that names file, part and key."""
    with pytest.raises(OperatorError, match=message):
        parse(FILE.replace(old, new, 1))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('from = "joined"', 'from = "jioned"', "takes from jioned, which is no view; did you mean joined"),
        ('name = "names"', 'name = "reports"', "two views named reports"),
        ('name = "joined"', 'name = "a-b"', "a-b is no name for a view"),
        ("subscribe =", "subscirbe =", "topic reports: unknown option subscirbe; did you mean subscribe"),
        ('topic = "o"', 'topics = "o"', "sink of joined: unknown option topics; did you mean topic"),
        (', topic = "o"', "", "sink of joined: option topic is missing"),
    ],
)
def test_what_does_not_fit_together_is_refused_before_spark_starts(old: str, new: str, message: str) -> None:
    """Names, options of topics and sinks are checked while planning."""
    with pytest.raises(OperatorError, match=message):
        make_plan(parse(FILE.replace(old, new, 1)))


def test_a_pipeline_has_topics_and_sinks() -> None:
    """Without either there is nothing to run."""
    with pytest.raises(OperatorError, match=r"no .*topic.* to read"):
        make_plan(parse('name = "p"'))


def test_a_file_that_is_not_there_is_named() -> None:
    """The path is in the error."""
    with pytest.raises(OperatorError, match=r"nowhere.toml: No such file"):
        read_spec(Path("nowhere.toml"), {})


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    """TOML is UTF-8."""
    file = tmp_path / "p.toml"
    file.write_bytes(b"name = '\xff'")
    with pytest.raises(OperatorError, match=r"p.toml: 'utf-8' codec"):
        read_spec(file, {})


@pytest.mark.parametrize("text", [b"\xff", b"[" * 100_000, b"name: " + b"9" * 5_000, b"- a", b"3", b""])
def test_a_projects_file_that_is_no_spec_is_named(text: bytes, tmp_path: Path) -> None:
    """One line, as for every mistake in it; those that YAML's reader itself stumbles over ended with a traceback."""
    file = tmp_path / "spark-pipeline.yml"
    file.write_bytes(text)
    with pytest.raises(OperatorError, match=r"spark-pipeline.yml: "):
        load_spec(file)
