"""Do all readers open what brokers take, and say what to change where a batch opens to more?"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from headrace.arrow.read import read_topic
from headrace.cli.main import run
from headrace.client import admin_topics
from headrace.client.admin_topics import NewTopic
from headrace.client.blocking import BlockingClient
from headrace.core.errors import PeerError
from headrace.records.batch import set_crc
from headrace.records.compression import Codec
from headrace.records.record import NewRecord, build_batch
from headrace.spark.offset_ranges import InputRange
from headrace.spark.options import parse_read_options
from headrace.spark.row_reader import read_range
from headrace.testing import Node

TOPIC = "packed"
COUNT, SIZE = 40, 1 << 20
LIMIT = "headrace.max.decompressed.bytes"
TOO_LARGE = f"compressed records open to more than {LIMIT}=1048576"

Properties = dict[str, str]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A topic with one batch of a few kilobytes that opens to 40 MB."""
    with Node(in_process=True) as running:
        with BlockingClient(running.bootstrap_servers) as client:
            client.run(admin_topics.create_topics, [NewTopic(name=TOPIC, partitions=1)])
            client.produce_raw(TOPIC, 0, build_batch([NewRecord(None, bytes(SIZE), 1)] * COUNT, codec=Codec.ZSTD))
        yield running


def by_arrow(servers: str, properties: Properties) -> int:
    return int(read_topic({"bootstrap.servers": servers, **properties}, TOPIC, columns=["offset"]).read_all().num_rows)


def by_spark(servers: str, properties: Properties) -> int:
    given = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
    options = parse_read_options(given | {f"kafka.{key}": value for key, value in properties.items()}, is_stream=False)
    part = InputRange(topic=TOPIC, partition=0, start=0, end=COUNT)
    return sum(rows.num_rows for rows in read_range(options, part))


@pytest.mark.parametrize("read", [by_arrow, by_spark])
def test_columns_are_read_of_what_brokers_take(read: Callable[[str, Properties], int], node: Node) -> None:
    """B51: and a smaller bound of the reader's properties is named where it is passed."""
    assert read(node.bootstrap_servers, {}) == COUNT
    with pytest.raises(PeerError, match=TOO_LARGE):
        read(node.bootstrap_servers, {LIMIT: str(1 << 20)})


def test_the_console_consumer_reads_what_brokers_take(node: Node, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """B51: it stopped at 32 MiB, and its error named nothing that could be changed."""
    arguments = ["console-consumer", "--bootstrap-server", node.bootstrap_servers, "--topic", TOPIC, "--from-beginning"]
    arguments += ["--max-messages", str(COUNT), "--timeout-ms", "30000"]
    assert run(arguments) == 0
    assert capfdbinary.readouterr().out.count(b"\n") == COUNT
    assert run([*arguments, "--command-property", f"{LIMIT}={1 << 20}"]) == 1
    assert TOO_LARGE in capfdbinary.readouterr().err.decode()


def test_the_console_consumer_skips_a_batch_that_cannot_be_read_and_no_other(
    node: Node, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`--skip-message-on-error` left out all that had come behind it in the same answer, up to a megabyte, without a word."""
    with BlockingClient(node.bootstrap_servers) as client:
        client.run(admin_topics.create_topics, [NewTopic(name="spoilt", partitions=1)])
        for value in (b"before", b"spoilt", b"behind"):
            batch = build_batch([NewRecord(None, value, 1)])
            if value == b"spoilt":
                batch[61] = 0x7E
                set_crc(batch, 0, len(batch))
            client.produce_raw("spoilt", 0, batch)
    arguments = [
        "console-consumer",
        "--bootstrap-server",
        node.bootstrap_servers,
        "--topic",
        "spoilt",
        "--timeout-ms",
        "5000",
    ]
    assert run([*arguments, "--from-beginning", "--max-messages", "2", "--skip-message-on-error"]) == 0
    out, err = capfdbinary.readouterr()
    assert out == b"before\nbehind\n"
    assert err.count(b"skipping this message") == 1


class _Output(io.BytesIO):
    """Standard output that notes how much comes at once."""

    most = 0

    def writelines(self, lines: Iterable[Any], /) -> None:
        """Note the lines."""
        self.most = max(self.most, sum(map(len, lines)))


def test_the_console_consumer_keeps_few_lines_of_what_it_opens(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """All lines of an answer were kept until its end, of which a batch of a few kilobytes may open to gigabytes."""
    out = _Output()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(out))
    arguments = ["console-consumer", "--bootstrap-server", node.bootstrap_servers, "--topic", TOPIC, "--from-beginning"]
    assert run([*arguments, "--max-messages", str(COUNT), "--timeout-ms", "30000"]) == 0
    assert SIZE <= out.most <= 2 * SIZE


def test_the_performance_test_reads_what_brokers_take(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    """B51."""
    arguments = ["consumer-perf-test", "--bootstrap-server", node.bootstrap_servers, "--topic", TOPIC]
    assert run([*arguments, "--num-records", str(COUNT), "--timeout", "30000"]) == 0
    assert f", {COUNT}, " in capfd.readouterr().out


def test_a_value_that_came_packed_and_does_not_fit_is_a_dead_letter(node: Node) -> None:
    """One such record of a few hundred bytes ended a query each time that it was started: unpacked, no topic took it."""
    servers, dead = node.bootstrap_servers, "packed-bad"
    with BlockingClient(servers) as client:
        client.run(admin_topics.create_topics, [NewTopic(name=dead, partitions=1)])
    given = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "valueFormat": "json", "valueSchema": "id int"}
    options = parse_read_options({**given, "deadLetterTopic": dead}, is_stream=True)
    part = InputRange(topic=TOPIC, partition=0, start=0, end=2)
    assert sum(rows.num_rows for rows in read_range(options, part)) == 0
    letters = read_topic(servers, dead, columns=["value"]).read_all()["value"].to_pylist()
    assert letters == [bytes(SIZE)] * 2
