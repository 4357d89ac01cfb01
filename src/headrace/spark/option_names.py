"""The options that reader and writer know, and what was probably meant by another name.

Names are Spark's for its `kafka` source, compared without regard to case. Everything that begins with `kafka.` goes to the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from headrace.core.errors import OperatorError
from headrace.core.nearest import nearest_name
from headrace.spark.value_options import REGISTRY_PREFIX

KAFKA_PREFIX: Final = "kafka."

SELECTION_OPTIONS: Final = ("subscribe", "subscribePattern", "assign")
COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
HEADERS: Final = "headers"
BATCH_OPTIONS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
STREAM_OPTIONS: Final = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
READ_OPTIONS: Final = (
    *SELECTION_OPTIONS,
    *BATCH_OPTIONS,
    *STREAM_OPTIONS,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "columns",
    "valueFormat",
    "valueSchema",
    "rescuedColumn",
    "deadLetterTopic",
    "valueSubject",
    "valueSubjectVersion",
    "schema.registry.url",
    "minPartitions",
    "maxRecordsPerPartition",
    "groupId",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
WRITE_OPTIONS: Final = ("topic", "includeHeaders", "writeOrigin")

_SPARKS_OWN: Final = (
    "checkpointLocation",
    "queryName",
    "outputMode",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
)
"""Options that Spark's engine takes for itself and also hands to the source or sink."""

NOT_FOR_READING: Final = {
    "kafka.auto.offset.reset": "say startingOffsets instead",
    "kafka.key.deserializer": "keys are bytes; convert them with DataFrame operations",
    "kafka.value.deserializer": "values are bytes; convert them with DataFrame operations",
    "kafka.enable.auto.commit": "Spark keeps the offsets itself",
    "kafka.interceptor.classes": "interceptors could change what is read",
}
NOT_FOR_WRITING: Final = {
    "kafka.key.serializer": "keys are bytes or text",
    "kafka.value.serializer": "values are bytes or text",
    "kafka.transactional.id": "the sink writes at least once, without transactions",
    "kafka.interceptor.classes": "interceptors could change what is written",
    "kafka.partitioner.class": "give a column `partition` instead",
}


def check_names(options: Mapping[str, str], *, is_write: bool) -> None:
    """Refuse an unknown option and name the nearest that exists; refuse `kafka.` settings that have no meaning here. Raises OperatorError."""
    known = WRITE_OPTIONS if is_write else READ_OPTIONS
    refused = NOT_FOR_WRITING if is_write else NOT_FOR_READING
    accepted = {name.lower() for name in (*known, *_SPARKS_OWN)}
    for name in options:
        key = name.lower()
        if key in refused:
            raise OperatorError(f"option {name} is not supported: {refused[key]}")
        if not key.startswith((KAFKA_PREFIX, REGISTRY_PREFIX)) and key not in accepted:
            raise OperatorError(f"unknown option {name}{nearest(name, known)}")


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean X?` for the most similar known name (or `kafka.X`), or the empty text."""
    spelled = {each.lower(): each for each in known} | {"kafka.bootstrap.servers": "kafka.bootstrap.servers"}
    if name.lower() == "bootstrap.servers":
        return "; did you mean kafka.bootstrap.servers?"
    meant = nearest_name(name.lower(), spelled)
    return "" if meant is None else f"; did you mean {spelled[meant]}?"


_OF_A_TABLE = (
    "; of a table in SQL each statement says its options: FROM t WITH ('kafka.bootstrap.servers' = ..., subscribe = ...), "
    "INSERT INTO t WITH ('kafka.bootstrap.servers' = ..., topic = ...)"
)
"""Spark hands over none of those that the table was made with."""


def client_properties(options: Mapping[str, str]) -> dict[str, str]:
    """The `kafka.` settings without their prefix. Raises OperatorError where `kafka.bootstrap.servers` is missing."""
    properties = {
        name.lower().removeprefix(KAFKA_PREFIX): value
        for name, value in options.items()
        if name.lower().startswith(KAFKA_PREFIX)
    }
    if not properties.get("bootstrap.servers", "").strip():
        table = "" if set(options) - {"path"} else _OF_A_TABLE
        raise OperatorError(f"option kafka.bootstrap.servers is missing: say host:port of a node{table}")
    return properties
