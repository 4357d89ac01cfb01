"""What do a topic's records become as Arrow tables and as files, without Spark?"""

from __future__ import annotations

import base64
import csv
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.arrow.read import read_table, read_topic
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.records.record import NewRecord, build_batch
from headrace.testing import Node
from tests.support.commands import Done, headrace, refusal

TOPIC = "orders"
NOON_MS = 1_767_268_800_000
"""2026-01-01 12:00 UTC; record n of a partition is n minutes later."""
KEPT = ("--config", "retention.ms=-1")
"""Records of so long ago would be deleted half a minute after the node's start."""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(in_process=True) as running:
        assert run(running, "topics", "--create", "--topic", TOPIC, "--partitions", "2", *KEPT).code == 0
        with BlockingClient(running.bootstrap_servers) as client:
            for partition, codec in ((0, 0), (1, 4)):
                client.produce_raw(TOPIC, partition, build_batch(made(partition), codec=codec))
        yield running


def run(node: Node, tool: str, *arguments: str) -> Done:
    return headrace(tool, "--bootstrap-server", node.bootstrap_servers, *arguments)


def made(partition: int) -> list[NewRecord]:
    """Ten records; the first has no key, and a header with and one without a value."""
    return [
        NewRecord(
            key=f"k{number}".encode() if number else None,
            value=f'{partition}:{number} \u00fc, "x"'.encode(),
            timestamp=NOON_MS + number * 60_000,
            headers=() if number else (("h", b"1"), ("h", None)),
        )
        for number in range(10)
    ]


def export(node: Node, form: str, *arguments: str) -> bytes:
    """What the command writes to standard output."""
    command = [sys.executable, "-m", "headrace", "export", "--bootstrap-server", node.bootstrap_servers]
    done = subprocess.run(
        [*command, "--topic", TOPIC, "--format", form, *arguments], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_a_topic_is_a_table(node: Node) -> None:
    """All partitions by their number, with the columns of the Spark source; those that are named, in their order."""
    table = read_table(node.bootstrap_servers, TOPIC)
    assert table.column_names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert table.column("partition").to_pylist() == [0] * 10 + [1] * 10
    assert table.column("offset").to_pylist() == [*range(10), *range(10)]
    assert table.column("value").to_pylist() == [each.value for each in (*made(0), *made(1))]
    chosen = read_table(node.bootstrap_servers, TOPIC, partitions=[1], columns=["headers", "offset"], end=1)
    assert chosen.to_pylist() == [{"headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}], "offset": 0}]


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        (3, 5, [3, 4]),
        (datetime(2026, 1, 1, 12, 3, tzinfo=UTC), datetime.fromisoformat("2026-01-01T12:05"), [3, 4]),
        (datetime.fromisoformat("2026-01-01T12:08:01"), None, [9]),
        (datetime(2027, 1, 1, tzinfo=UTC), None, []),
        (None, 99, [*range(10)]),
        (7, 3, []),
    ],
)
def test_a_range_is_named_by_offsets_or_times(node: Node, start: Any, end: Any, offsets: list[int]) -> None:
    """The start belongs to it, the end does not; a time means the first record that is not older."""
    reader = read_topic(node.bootstrap_servers, TOPIC, partitions=[0], start=start, end=end, columns=["offset"])
    assert reader.read_all().column("offset").to_pylist() == offsets


def test_what_arrives_later_does_not_belong_to_a_reader(node: Node) -> None:
    """The ends are settled when the reader is made."""
    assert run(node, "topics", "--create", "--topic", "grows", *KEPT).code == 0
    with BlockingClient(node.bootstrap_servers) as client:
        client.produce_raw("grows", 0, build_batch(made(0)))
        reader = read_topic(node.bootstrap_servers, "grows")
        client.produce_raw("grows", 0, build_batch(made(0)))
        assert reader.read_all().num_rows == 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "nothing"}, "there is no topic nothing"),
        ({"partitions": [0, 2]}, "there is no partition orders-2"),
        ({"columns": ["offset", "size"]}, "there is no column size: choose from key, value, "),
        ({"columns": ["offset", "offset"]}, "name each column once"),
        ({"start": -1}, "offsets begin at 0"),
    ],
)
def test_what_does_not_exist_is_refused(node: Node, options: dict[str, Any], said: str) -> None:
    """One line that names what was wrong."""
    with pytest.raises(OperatorError, match=said):
        read_topic(node.bootstrap_servers, **{"topic": TOPIC, **options})


def test_a_cluster_is_named_by_client_settings_too(node: Node) -> None:
    """Those of Kafka's clients; a word that none of them knows is refused."""
    settings = {"bootstrap.servers": node.bootstrap_servers, "isolation.level": "read_committed"}
    assert read_table(settings, TOPIC).num_rows == 20
    with pytest.raises(OperatorError, match=r"isolation.level=some: must be read_uncommitted or read_committed"):
        read_table({**settings, "isolation.level": "some"}, TOPIC)


def test_a_start_that_is_gone_is_refused(node: Node) -> None:
    """Nothing is left out silently; the earliest record is the start when none is named."""
    assert run(node, "topics", "--create", "--topic", "cut", *KEPT).code == 0
    with BlockingClient(node.bootstrap_servers) as client:
        client.produce_raw("cut", 0, build_batch(made(0)))
    order = json.dumps({"version": 1, "partitions": [{"topic": "cut", "partition": 0, "offset": 4}]})
    path = node.directory / "cut.json"
    path.write_text(order)
    assert run(node, "delete-records", "--offset-json-file", str(path)).code == 0
    with pytest.raises(OperatorError, match="cut-0 begins at offset 4, so 2 is gone; say a later start"):
        read_table(node.bootstrap_servers, "cut", start=2)
    assert read_table(node.bootstrap_servers, "cut").column("offset").to_pylist() == [*range(4, 10)]


def test_binary_forms_keep_types_and_values(node: Node, tmp_path: Path) -> None:
    """Parquet in a file, Arrow's stream through a pipe: the very table that the library reads."""
    columns = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
    whole = read_table(node.bootstrap_servers, TOPIC, columns=columns)
    path = tmp_path / "orders.parquet"
    named = ("--columns", ",".join(columns))
    done = run(node, "export", "--topic", TOPIC, "--format", "parquet", "--output", str(path), *named)
    assert done == Done(0, "", f"20 records of orders are in {path}\n")
    assert pq.ParquetFile(path).read().equals(whole)
    assert pa.ipc.open_stream(export(node, "arrow", *named)).read_all().equals(whole)
    assert [each.name for each in tmp_path.iterdir()] == ["orders.parquet"]


def test_text_forms_show_every_field(node: Node) -> None:
    """An object a line; CSV with its header; headers as lists, in CSV as JSON; nulls stay nulls."""
    named = ("--partitions", "1", "--to", "2", "--columns", "offset,key,value,timestamp,headers")
    first, second = [json.loads(line) for line in export(node, "json", *named).splitlines()]
    assert first == {
        "offset": 0, "key": None, "value": '1:0 \u00fc, "x"', "timestamp": "2026-01-01 12:00:00.000000Z",
        "headers": [{"key": "h", "value": "1"}, {"key": "h", "value": None}],
    }  # fmt: skip
    assert (second["key"], second["headers"]) == ("k1", None)
    assert export(node, "json", *named, "--output", "-") == export(node, "json", *named)
    rows = list(csv.DictReader(io.StringIO(export(node, "csv", *named).decode())))
    assert [each["value"] for each in rows] == ['1:0 \u00fc, "x"', '1:1 \u00fc, "x"']
    assert json.loads(rows[0]["headers"]) == first["headers"]
    coded = export(node, "json", "--from", "9", "--columns", "value", "--bytes", "base64").splitlines()
    assert [base64.b64decode(json.loads(line)["value"]) for line in coded] == [made(0)[9].value, made(1)[9].value]


def test_a_range_without_records_is_an_empty_file_of_its_form(node: Node) -> None:
    """A header in CSV, the schema in Arrow and Parquet, nothing in JSON."""
    none = ("--from", "10")
    assert export(node, "json", *none) == b""
    assert export(node, "csv", *none, "--columns", "offset,value") == b'"offset","value"\n'
    assert pa.ipc.open_stream(export(node, "arrow", *none)).read_all().num_rows == 0
    assert pq.read_table(io.BytesIO(export(node, "parquet", *none))).num_rows == 0


def test_an_export_that_fails_leaves_the_file_as_it_was(node: Node, tmp_path: Path) -> None:
    """Bytes that are no text fail in the middle; the old file stays, and nothing beside it."""
    assert run(node, "topics", "--create", "--topic", "bytes", *KEPT).code == 0
    with BlockingClient(node.bootstrap_servers) as client:
        client.produce_raw("bytes", 0, build_batch([NewRecord(key=None, value=b"\xff", timestamp=1)]))
    path = tmp_path / "old.json"
    path.write_text("old\n")
    where = ("export", "--bootstrap-server", node.bootstrap_servers, "--format", "json", "--output", str(path))
    said = refusal(*where, "--topic", "bytes")
    assert said.endswith("bytes of the column value are no UTF-8 text: say --bytes base64")
    assert (path.read_text(), [each.name for each in tmp_path.iterdir()]) == ("old\n", ["old.json"])
    assert "there is no topic nothing" in refusal(*where, "--topic", "nothing")
    assert "--partitions 1,x: give numbers" in refusal(*where, "--topic", TOPIC, "--partitions", "1,x")
    assert "--from never: give an offset" in refusal(*where, "--topic", TOPIC, "--from", "never")
    gone = str(tmp_path / "gone" / "file")
    assert f"--output {gone}: there is no directory" in refusal(*where[:-1], gone, "--topic", TOPIC)
