"""What does each option of reader and writer mean, and what is refused?"""

from __future__ import annotations

import pytest

from headrace.arrow.batch_settings import BatchSettings
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.spark.option_names import COLUMNS
from headrace.spark.options import (
    EARLIEST,
    LATEST,
    Assign,
    AtEdge,
    AtOffsets,
    AtTime,
    ReadOptions,
    Subscribe,
    SubscribePattern,
    chosen_columns,
    parse_read_options,
)
from headrace.spark.write_options import check_columns, parse_write_options

SERVERS = {"kafka.bootstrap.servers": "h:9092"}


def read(is_stream: bool = False, **options: str) -> ReadOptions:
    """The options of a reader of topic t."""
    return parse_read_options({**SERVERS, "subscribe": "t", **options}, is_stream=is_stream)


def test_defaults_are_those_of_sparks_kafka_source() -> None:
    """A batch reads from the earliest to the latest, a stream from the latest on; loss is fatal; no headers."""
    assert read() == ReadOptions(
        properties={"bootstrap.servers": "h:9092"},
        selection=Subscribe(topics=("t",)),
        starting=AtEdge(edge=EARLIEST),
        ending=AtEdge(edge=LATEST),
    )
    assert read(is_stream=True).starting == AtEdge(edge=LATEST)


def test_names_are_compared_without_regard_to_case() -> None:
    """Spark hands options over in lower case, users write them as they like."""
    options = {"KAFKA.Bootstrap.Servers": "h:1", "SUBSCRIBEpattern": "a.*", "INCLUDEheaders": "TRUE"}
    found = parse_read_options(options, is_stream=False)
    assert (found.selection, found.columns) == (SubscribePattern(pattern="a.*"), (*COLUMNS, "headers"))
    assert found.properties == {"bootstrap.servers": "h:1"}


def test_columns_are_chosen_by_name() -> None:
    """In the order that was said; what contradicts itself is refused, and so is what no record has."""
    assert chosen_columns({"columns": "Value, TIMESTAMPTYPE,headers"}) == ("value", "timestampType", "headers")
    for options, said in (
        ({"columns": "value,wert"}, "columns: there is no column wert: choose from key, value, topic"),
        ({"columns": ""}, r"there is no column \(empty\)"),
        ({"columns": "key,value,Key"}, "name each column once"),
        ({"columns": "key", "includeHeaders": "true"}, "includeHeaders=true, and columns does not name headers"),
        ({"columns": "key", "valueFormat": "json"}, "valueFormat has no meaning where columns does not name value"),
    ):
        with pytest.raises(OperatorError, match=said):
            chosen_columns(options)


def test_selection_by_topics_and_partitions() -> None:
    """subscribe takes topics separated by commas, assign JSON."""
    assert read(subscribe=" a, b ,a").selection == Subscribe(topics=("a", "b"))
    assigned = parse_read_options({**SERVERS, "assign": '{"a":[1,0]}'}, is_stream=False).selection
    assert assigned == Assign(partitions=(TopicPartition("a", 0), TopicPartition("a", 1)))


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "latest"}, AtEdge(edge=LATEST)),
        ({"startingOffsets": ' {"a":{"0":23,"1":-2}} '}, AtOffsets(offsets={TopicPartition("a", 0): 23, TopicPartition("a", 1): -2})),
        ({"startingTimestamp": "1000"}, AtTime(timestamp_ms=1000)),
        ({"startingOffsetsByTimestamp": '{"a":{"0":7}}'}, AtTime(timestamps_ms={TopicPartition("a", 0): 7})),
        ({"startingTimestamp": "1", "startingOffsetsByTimestamp": '{"a":{"0":7}}', "startingOffsets": "latest"}, AtTime(timestamp_ms=1)),
        (
            {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "LATEST"},
            AtTime(timestamp_ms=1, is_latest_if_none=True),
        ),
    ],
)  # fmt: skip
def test_starting_positions(options: dict[str, str], wanted: object) -> None:
    """One time for all goes before times a partition, and those before offsets."""
    assert read(is_stream=True, **options).starting == wanted


def test_numbers_and_times() -> None:
    """Counts and durations of admission control and of splitting."""
    found = read(
        is_stream=True, maxOffsetsPerTrigger="10", minOffsetsPerTrigger="5", maxTriggerDelay="2m", minPartitions="3",
        maxRecordsPerPartition="4", failOnDataLoss="false", groupIdPrefix="x", groupId=" g ",
    )  # fmt: skip
    assert found.group_id == "g"
    assert (found.max_offsets_per_trigger, found.min_offsets_per_trigger, found.max_trigger_delay_ms) == (
        10,
        5,
        120_000,
    )
    assert (found.min_partitions, found.max_records_per_partition, found.is_loss_fatal) == (3, 4, False)


def test_every_kafka_setting_is_passed_through() -> None:
    """All that begins with kafka. goes to the client; the poll timeout is its patience."""
    options = {"kafka.security.protocol": "SSL", "kafkaConsumer.pollTimeoutMs": "700"}
    wanted = {"bootstrap.servers": "h:9092", "security.protocol": "SSL", "default.api.timeout.ms": "700"}
    assert read(is_stream=False, **options).properties == wanted


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"bootstrap.servers": "h:1"}, "did you mean kafka.bootstrap.servers"),
        ({"kafka.auto.offset.reset": "x"}, "startingOffsets instead"),
        ({"kafka.value.deserializer": "x"}, "not supported"),
        ({"assign": "{}"}, "exactly one of subscribe"),
        ({"subscribe": " , "}, "names no topic"),
        ({"failOnDataLoss": "maybe"}, "failOnDataLoss=maybe: must be true or false"),
        ({"minPartitions": "0"}, "minPartitions=0: must be at least 1"),
        ({"minPartitions": "two"}, "minPartitions=two: must be a whole number"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "a-0 is -3"),
        ({"startingOffsets": "{bad"}, "must be JSON such as"),
        ({"startingOffsets": "latest"}, "a batch query cannot start at the end"),
        ({"startingOffsets": '{"a":{"0":-1}}'}, "-1 .latest. is not possible"),
        ({"endingOffsets": "earliest"}, "a batch query cannot end at the beginning"),
        ({"endingOffsets": '{"a":{"0":-2}}'}, "-2 .earliest. is not possible"),
        ({"startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"a":{"0":3}}'}, "starts at 9, after its end 3"),
        ({"startingOffsets": '{"a":{"0":9}}', "endingOffsets": '{"b":{"0":9}}'}, "different partitions"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "must be error or latest"),
        ({"startingOffsetsByTimestamp": '{"a":{"0":-2}}'}, "a-0 is -2; must be a time in milliseconds since 1970"),
        ({"endingOffsetsByTimestamp": '{"a":{"0":-1}}'}, "a-0 is -1; must be a time in milliseconds since 1970"),
        ({"kafka.isolation.level": "x"}, "must be read_uncommitted or read_committed"),
        ({"valueFormat": "json"}, "needs valueSchema"),
        ({"valueSchema": "a int"}, "valueSchema has no meaning without valueFormat"),
        ({"rescuedColumn": "r"}, "rescuedColumn has no meaning without valueFormat"),
        ({"valueFormat": "csv", "valueSchema": "a int", "rescuedColumn": "Offset"}, "there is a column of this name"),
        ({"maxTriggerDelay": "soon"}, "must be a time such as"),
    ],
)
def test_what_cannot_be_is_refused_by_name(options: dict[str, str], message: str) -> None:
    """One clear error that names the option, for each."""
    with pytest.raises(OperatorError, match=message):
        read(is_stream=False, **options)


def test_servers_and_selection_are_needed() -> None:
    """Nothing is guessed."""
    with pytest.raises(OperatorError, match=r"kafka.bootstrap.servers is missing"):
        parse_read_options({"subscribe": "t"}, is_stream=False)
    with pytest.raises(OperatorError, match="there is none"):
        parse_read_options(SERVERS, is_stream=False)


def test_a_table_in_sql_without_options_is_told_of_with() -> None:
    """Spark hands over nothing that CREATE TABLE said; where there is any option it was no such table."""
    for parse in (lambda: parse_read_options({}, is_stream=False), lambda: parse_write_options({})):
        with pytest.raises(OperatorError, match=r"FROM t WITH \('kafka.bootstrap.servers'"):
            parse()
    with pytest.raises(OperatorError, match=r"say host:port of a node$"):
        parse_read_options({"subscribe": "t"}, is_stream=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "no meaning in a streaming query"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "is more than maxOffsetsPerTrigger=5"),
        ({"maxBytesPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "limit the same thing: say one of them"),
        ({"maxBytesPerTrigger": "0"}, "maxBytesPerTrigger=0: must be at least 1"),
    ],
)
def test_what_a_stream_refuses(options: dict[str, str], message: str) -> None:
    """A stream has no end, and its lower limit lies below the upper."""
    with pytest.raises(OperatorError, match=message):
        read(is_stream=True, **options)


def test_writer_defaults() -> None:
    """Idempotent with acks=all, not compressed, batches of half a mebibyte."""
    found = parse_write_options({**SERVERS, "topic": " t "})
    assert (found.topic, found.acks, found.is_idempotent, found.max_in_flight) == ("t", -1, True, 5)
    assert found.batches == BatchSettings(codec=0, level=None, max_batch_bytes=512 << 10)


def test_writer_settings() -> None:
    """Codec, level, sizes and acks are Kafka's settings of the producer."""
    found = parse_write_options(
        {
            **SERVERS,
            "kafka.acks": "1",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "9",
            "kafka.batch.size": "1000",
        }
    )
    assert (found.topic, found.acks, found.is_idempotent) == (None, 1, False)
    assert found.batches == BatchSettings(codec=4, level=9, max_batch_bytes=1000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "t"}, "unknown option subscribe"),
        ({"topics": "t"}, "did you mean topic"),
        ({"writeOrigin": "yes"}, "must be true or false"),
        ({"kafka.acks": "2"}, "must be all, -1, 1 or 0"),
        ({"kafka.acks": "1", "kafka.enable.idempotence": "true"}, "needs acks=all"),
        ({"kafka.compression.type": "brotli"}, "must be none, gzip"),
        ({"kafka.transactional.id": "x"}, "without transactions"),
        ({"kafka.max.in.flight.requests.per.connection": "6"}, "1 to 5"),
    ],
)
def test_what_the_writer_refuses(options: dict[str, str], message: str) -> None:
    """One clear error that names the option, for each."""
    with pytest.raises(OperatorError, match=message):
        parse_write_options({**SERVERS, **options})


def test_columns_of_a_frame() -> None:
    """value is needed, the topic comes from option or column, other columns are ignored, types are checked."""
    check_columns({"value": "string", "other": "double"}, topic="t")
    check_columns({"value": "binary", "topic": "string", "partition": "int", "key": "string"}, topic=None)
    for columns, topic, message in (
        ({"key": "string"}, "t", "no column value"),
        ({"value": "string"}, None, "say the option topic"),
        ({"value": "int"}, "t", "column value is int; it must be string or binary"),
        ({"value": "string", "partition": "bigint"}, "t", "column partition is bigint"),
        ({"value": "string", "headers": "string"}, "t", "column headers is string"),
    ):
        with pytest.raises(OperatorError, match=message):
            check_columns(columns, topic=topic)
