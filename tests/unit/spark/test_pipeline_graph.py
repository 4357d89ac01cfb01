"""What is known of a declarative pipeline: its graph out of SQL, the lag out of progress reports, and the picture."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from headrace.core.errors import OperatorError
from headrace.spark.declarative.graph import SINK, TABLE, TEMPORARY, TOPIC, VIEW, Dataset, Flow, Graph
from headrace.spark.declarative.notes import EventTail, RunNotes, lag_of, load, save
from headrace.spark.declarative.picture import draw_svg
from headrace.spark.declarative.session import NOTES

SQL = """
-- FROM nobody; a comment
CREATE STREAMING TABLE IF NOT EXISTS priced AS
SELECT *, 'FROM here; JOIN there' AS text FROM STREAM orders JOIN `items` USING (item);
CREATE TEMPORARY VIEW large AS SELECT * FROM priced WHERE price > 5;
CREATE MATERIALIZED VIEW totals PARTITIONED BY (day) AS SELECT day, sum(price) FROM spark_catalog.default.large GROUP BY day;
CREATE STREAMING TABLE copies;
CREATE FLOW fill AS INSERT INTO copies BY NAME SELECT * FROM STREAM(priced);
"""


def small_graph() -> Graph:
    """A topic, what the statements above say, and a sink."""
    graph = Graph()
    graph.add("topic:orders", TOPIC)
    graph.add("orders", TABLE)
    graph.add_flow("orders", "orders", iter(["topic:orders"]))
    graph.add_sql(SQL)
    graph.add("alerts", SINK)
    graph.add_flow("warn", "alerts", iter(["large"]))
    return graph


def test_statements_say_what_flows_read() -> None:
    """Names behind FROM and JOIN, not those of comments and texts."""
    graph = Graph()
    graph.add_sql(SQL)
    assert list(graph.datasets.values()) == [
        Dataset("priced", TABLE), Dataset("large", TEMPORARY), Dataset("totals", VIEW), Dataset("copies", TABLE),
    ]  # fmt: skip
    assert list(graph.flows.values()) == [
        Flow("priced", "priced", ("orders", "items")), Flow("large", "large", ("priced",)),
        Flow("totals", "totals", ("large",)), Flow("fill", "copies", ("priced",)),
    ]  # fmt: skip


def test_what_reads_stands_behind_what_it_reads() -> None:
    """Layers by the longest path; a circle, which Spark refuses, ends too."""
    names = [[each.name for each in layer] for layer in small_graph().layers()]
    assert names == [["topic:orders"], ["orders"], ["priced"], ["large", "copies"], ["totals", "alerts"]]
    circle = Graph()
    circle.add_sql("CREATE MATERIALIZED VIEW a AS SELECT 1 FROM b; CREATE MATERIALIZED VIEW b AS SELECT 1 FROM a")
    assert sorted(each.name for layer in circle.layers() for each in layer) == ["a", "b"]


def test_lag_is_what_lies_between_the_batch_and_the_end() -> None:
    """Partition by partition; sources without such offsets have none."""
    source = {
        "endOffset": '{"t": {"0": 3}, "headrace:start": {"t": {"0": 0}}}',
        "latestOffset": '{"t": {"0": 5, "1": 4}}',
    }
    assert lag_of(source) == 6
    assert lag_of({"endOffset": '{"logOffset": 0}', "latestOffset": None}) is None
    assert lag_of({"endOffset": "0", "latestOffset": "5"}) is None


def test_progress_is_read_line_by_line(tmp_path: Path) -> None:
    """A line that is half written is read when it is whole."""
    report = {"name": "spark_catalog.default.orders", "sources": [{"numInputRows": 7, "endOffset": None}]}
    line = json.dumps({"Event": "a.StreamingQueryListener$QueryProgressEvent", "progress": report}) + "\n"
    log = tmp_path / "app.inprogress"
    log.write_text('{"Event":"Other"}\n' + line + line[:50])
    notes, tail = RunNotes(pipeline="shop", graph=small_graph()), EventTail(tmp_path)
    for text in ("", line[50:]):
        with log.open("a") as file:
            file.write(text)
        for each in tail.take():
            notes.take_progress(each)
    assert notes.flows["orders"].rows == 14
    assert list(tail.take()) == []


def test_notes_are_kept_and_drawn(tmp_path: Path) -> None:
    """What was saved is what is loaded; the picture has a box for each dataset and an arrow for each thing read; a damaged file is told."""
    notes = RunNotes(pipeline="shop <1>", graph=small_graph(), rows={"orders": 1200})
    notes.flow("spark_catalog.default.orders").state = "COMPLETED"
    notes.flow("orders").rows, notes.flow("orders").lag = 1200, 0
    notes.flow("warn").state = "FAILED"
    (tmp_path / NOTES).mkdir()
    save(notes, tmp_path)
    assert load(tmp_path) == notes
    texts = [each.text for each in ET.fromstring(draw_svg(notes)).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "shop <1>"
    assert {"streaming table · 1,200 rows", "completed, 1,200 in, lag 0", "failed", "alerts", "totals"} <= set(texts)
    assert draw_svg(notes).count("marker-end") == 6
    for damaged in ("{", "[" * 100_000, '{"datasets": [], "edges": [], "flows": []}'):
        (tmp_path / NOTES / "last-run.json").write_text(damaged)
        with pytest.raises(OperatorError, match="damaged"):
            load(tmp_path)
