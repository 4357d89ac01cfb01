"""Are lines taken apart and records shown as Kafka's console tools do it, and groups and topics as their tools?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.cli.cluster import padded
from headrace.cli.formatter import FormatSettings, RecordFormatter
from headrace.cli.group_view import columns_of, plain_lines
from headrace.cli.line_reader import LineReader, LineSettings
from headrace.cli.main import fail
from headrace.cli.output import show_table, visible
from headrace.cli.perf_stats import Latencies
from headrace.cli.topic_view import PartitionFilter, TopicSheet
from headrace.client.admin_topics import PartitionDescription, Reassignment, TopicDescription
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition, Uuid
from headrace.records.batch import read_header
from headrace.records.record import NewRecord, Placement, Record, build_batch

T0 = TopicPartition("t", 3)


def reader(**properties: str) -> LineReader:
    return LineReader(LineSettings.of({key.replace("_", "."): value for key, value in properties.items()}))


def test_a_line_is_a_value_unless_more_is_asked_for() -> None:
    """LineMessageReader's default."""
    assert reader().parse(b"a\tb") == (None, b"a\tb", ())


def test_headers_key_and_value_stand_in_this_order() -> None:
    """`headers<TAB>key<TAB>value`."""
    both = reader(parse_key="true", parse_headers="true")
    assert both.parse(b"h:1,i:2\tk\tv\tw") == (b"k", b"v\tw", (("h", b"1"), ("i", b"2")))
    assert reader(parse_key="true", key_separator=":").parse(b"k:v") == (b"k", b"v", ())
    assert reader(parse_headers="true", headers_delimiter="!").parse(b"h:1!v") == (None, b"v", (("h", b"1"),))


def test_the_null_marker_stands_for_null() -> None:
    """`null.marker` for key, value and a header's value."""
    made = reader(parse_key="true", parse_headers="true", null_marker="NIL")
    assert made.parse(b"h:NIL\tNIL\tNIL") == (None, None, (("h", None),))
    assert made.parse(b"NIL\tk\tv") == (b"k", b"v", ())
    with pytest.raises(OperatorError, match="Header keys"):
        made.parse(b"NIL:1\tk\tv")


def test_a_line_without_its_separator_is_an_error_with_its_number() -> None:
    """`ignore.error` makes it a value."""
    made = reader(parse_key="true")
    made.parse(b"k\tv")
    with pytest.raises(OperatorError, match="No key separator found on line number 2: 'kv'"):
        made.parse(b"kv")
    assert reader(parse_key="true", ignore_error="true").parse(b"kv") == (None, b"kv", ())


@pytest.mark.parametrize(
    "properties",
    [
        {"headers_delimiter": ","},
        {"headers_separator": ":"},
        {"null_marker": "\t"},
        {"null_marker": ","},
        {"headers_key_separator": ""},
    ],
)
def test_separators_that_cannot_be_told_apart_are_refused(properties: dict[str, str]) -> None:
    """As LineMessageReader refuses them."""
    with pytest.raises(OperatorError, match="may not be"):
        reader(**properties)


def shown(record: Record, kind: str = "DefaultMessageFormatter", **properties: str) -> bytes:
    settings = FormatSettings.of({key.replace("_", "."): value for key, value in properties.items()})
    header = read_header(build_batch([NewRecord(None, b"")], placement=Placement(leader_epoch=6)))
    return RecordFormatter(settings, kind=kind).format(T0, header, record)


FULL = Record(9, 77, b"k", b"v", (("h", b"1"), ("i", None)))


def test_the_default_formatter_prints_kafkas_columns() -> None:
    """DefaultMessageFormatter: its order, separators and words."""
    every = dict.fromkeys(("timestamp", "partition", "offset", "epoch", "headers", "key"), "true")
    properties = {f"print_{name}": value for name, value in every.items()}
    wanted = b"CreateTime:77\tPartition:3\tOffset:9\tEpoch:6\th:1,i:null\tk\tv\n"
    assert shown(FULL, **properties) == wanted
    assert shown(FULL) == b"v\n"
    assert shown(Record(0, -1, None, None), print_timestamp="true", print_headers="true", print_key="true") == (
        b"NO_TIMESTAMP\tNO_HEADERS\tnull\tnull\n"
    )
    assert shown(FULL, print_value="false", print_key="true", line_separator="|", null_literal="-") == b"k|"
    assert shown(FULL, print_key="true", key_separator=" = ", headers_separator=";") == b"k = v\n"
    assert shown(FULL, print_value="false") == b""


def test_deserializers_show_numbers_and_refuse_wrong_sizes() -> None:
    """Kafka's own deserializers by class name."""
    name = "org.apache.kafka.common.serialization.LongDeserializer"
    assert shown(Record(0, 0, None, (258).to_bytes(8, "big")), value_deserializer=name) == b"258\n"
    with pytest.raises(ValueError, match="not 8"):
        shown(Record(0, 0, None, b"abc"), value_deserializer=name)
    with pytest.raises(OperatorError, match="deserializer"):
        shown(FULL, value_deserializer="com.example.Mine")


def test_other_formatters_are_json_and_nothing() -> None:
    """`--json`; bytes that are no text are base64."""
    assert shown(Record(1, 2, b"\xff", b"v"), "json") == (
        b'{"topic": "t", "partition": 3, "offset": 1, "timestamp": 2, "timestampType": "CreateTime", "headers": [], '
        b'"key": {"base64": "/w=="}, "value": "v"}\n'
    )
    assert shown(FULL, "org.apache.kafka.tools.consumer.NoOpMessageFormatter") == b""
    with pytest.raises(OperatorError, match="--formatter"):
        shown(FULL, "com.example.Formatter")


def sheet(*parts: PartitionDescription, moves: dict[int, Reassignment] | None = None) -> TopicSheet:
    topic = TopicDescription(name="t", topic_id=Uuid(bytes(16)), is_internal=False, partitions=parts)
    return TopicSheet(topic=topic, configs=(), min_isr=2, moves=moves or {}, alive=frozenset({1, 2, 3}))


def part(number: int, leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionDescription:
    return PartitionDescription(partition=number, leader=leader, leader_epoch=0, replicas=replicas, isr=isr)


def test_b_t11_filters_show_the_partitions_in_trouble() -> None:
    """B-T11: under-replicated, unavailable, under and at min-isr."""
    whole = part(0, 1, (1, 2, 3), (1, 2, 3))
    short = part(1, 1, (1, 2, 3), (1, 2))
    alone = part(2, 1, (1, 2, 3), (1,))
    headless = part(3, -1, (1, 2, 3), (3,))
    made = sheet(whole, short, alone, headless)

    def through(only: PartitionFilter) -> list[int]:
        return [each.partition for each in made.topic.partitions if made.shows(each, only)]

    assert through(PartitionFilter.UNDER_REPLICATED) == [1, 2, 3]
    assert through(PartitionFilter.UNAVAILABLE) == [3]
    assert through(PartitionFilter.UNDER_MIN_ISR) == [2, 3]
    assert through(PartitionFilter.AT_MIN_ISR) == [1]


def test_b_t11_replicas_that_are_still_being_added_do_not_count() -> None:
    """B-T11: a partition on the move is not under-replicated for the replicas it is getting."""
    moving = part(0, 1, (1, 2, 3), (1, 2))
    made = sheet(moving, moves={0: Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(2,))})
    assert made.replication_factor == 2
    assert not made.shows(moving, PartitionFilter.UNDER_REPLICATED)


def test_group_columns_grow_with_their_values_and_end_as_kafkas() -> None:
    """B-T12: widths of kafka-consumer-groups."""
    row: dict[str, Any] = {
        "group": "a-group-with-a-long-name",
        "coordinator": "h:1  (1)",
        "assignmentStrategy": None,
        "state": "Empty",
        "members": 0,
        "groupEpoch": None,
        "targetAssignmentEpoch": None,
    }
    head, line = plain_lines(columns_of("state", [row], is_verbose=False), [row])
    assert (
        head == "GROUP                    COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS"
    )
    assert line == "a-group-with-a-long-name h:1  (1)                  -                    Empty                0"
    assert [title for title, _, _ in columns_of("state", [row], is_verbose=True)][4:6] == [
        "GROUP-EPOCH",
        "TARGET-ASSIGNMENT-EPOCH",
    ]


def test_static_members_show_their_instance() -> None:
    """B-T12: GROUP-INSTANCE-ID appears when a member has one."""
    rows: list[dict[str, Any]] = [{"groupInstanceId": "one"}]
    assert "GROUP-INSTANCE-ID" in [title for title, _, _ in columns_of("members", rows, is_verbose=False)]
    assert "GROUP-INSTANCE-ID" not in [
        title for title, _, _ in columns_of("members", [{"groupInstanceId": None}], is_verbose=True)
    ]


def test_end_points_stand_in_kafkas_columns() -> None:
    """KIP-1073: kafka-cluster list-endpoints."""
    lines = padded(
        ["ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE"],
        [["1", "127.0.0.1", "9092", "null", "unfenced", "broker"]],
    )
    assert lines == [
        "ID         HOST      PORT       RACK       STATE      ENDPOINT_TYPE  ",
        "1          127.0.0.1 9092       null       unfenced   broker         ",
    ]


def test_latencies_are_counted_as_kafkas_perf_test_counts_them() -> None:
    """B-T12: percentiles are the value at that rank of the sorted latencies."""
    made = Latencies()
    made.begin()
    made.add(range(1, 101), 100 * 1024.0)
    sorted_twin = sorted(range(1, 101))
    assert [made.percentile_ms(each) for each in (0.5, 0.95, 0.99)] == [
        sorted_twin[int(each * 100)] for each in (0.5, 0.95, 0.99)
    ]
    assert (made.count, made.average_ms(), made.percentile_ms(1.0)) == (100, 50.5, 100)
    assert made.total_line().startswith("100 records sent, ")
    assert made.total_line().endswith(
        "50.50 ms avg latency, 100.00 ms max latency, 51 ms 50th, 96 ms 95th, 100 ms 99th, 100 ms 99.9th."
    )


def test_a_table_in_a_pipe_has_a_line_for_each_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """B78: where nobody has a width, no word is broken; COLUMNS says one."""
    monkeypatch.delenv("COLUMNS", raising=False)
    columns, rows = ("flow", "into", "rows"), [("orders_" + "x" * 60, "orders_by_partition", 12)]
    show_table("flows", columns, rows, right=(2,))
    assert [each.split() for each in capsys.readouterr().out.splitlines()] == [
        ["flows"], ["flow", "into", "rows"], [*rows[0][:2], "12"],
    ]  # fmt: skip
    monkeypatch.setenv("COLUMNS", "40")
    show_table("", columns, rows)
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_names_that_others_chose_give_a_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    """Any client may call its group, itself or its topics so that a terminal would recolour, move or forge lines; a node's words in an error, too."""
    show_table(
        "of \x1b[3mus [red]",
        ("group", "members"),
        [("a\x1b[2K\rb", "é"), ("\u202eevil\x9b31m", "é"), ("x\ny    9", "")],
    )
    assert fail("refused by \x1b]0;x\x07") == 1
    out, err = capsys.readouterr()
    assert r"a\x1b[2K\rb" in out
    assert r"\u202eevil\x9b31m" in out
    assert "é" in out
    assert r"of \x1b[3mus [red]" in out
    assert r"x\ny    9" in out, "no row of its own"
    assert err == "refused by \\x1b]0;x\\x07\n"
    assert visible("a\nb") == r"a\nb"
