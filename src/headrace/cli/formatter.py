"""The form in which a record is shown."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import field

from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class
from headrace.records.batch import BatchHeader
from headrace.records.record import Record

Shower = Callable[[bytes], bytes]


def _fixed(name: str, form: str) -> Shower:
    size = struct.calcsize(form)

    def show(data: bytes) -> bytes:
        if len(data) != size:
            raise ValueError(f"Size of data received by {name}Deserializer is not {size}")
        return str(struct.unpack(form, data)[0]).encode()

    return show


def _string(data: bytes) -> bytes:
    return data.decode(errors="replace").encode()


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ValueError("Size of data received by BooleanDeserializer is not 1, or it is neither 0 nor 1")
    return b"true" if data == b"\1" else b"false"


_PACKAGE = "org.apache.kafka.common.serialization."
DESERIALIZERS: dict[str, Shower | None] = {
    "StringDeserializer": _string,
    "ByteArrayDeserializer": None,
    "BytesDeserializer": None,
    "LongDeserializer": _fixed("Long", ">q"),
    "IntegerDeserializer": _fixed("Integer", ">i"),
    "ShortDeserializer": _fixed("Short", ">h"),
    "DoubleDeserializer": _fixed("Double", ">d"),
    "FloatDeserializer": _fixed("Float", ">f"),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _string,
}
"""Kafka's deserializers by class name; None shows the bytes as they are."""


def deserializer(name: str | None) -> Shower | None:
    """How to show bytes for a deserializer's class name. Raises OperatorError for one that is not Kafka's."""
    if name is None:
        return None
    short = name.removeprefix(_PACKAGE)
    if short not in DESERIALIZERS:
        raise OperatorError(f"deserializer {name}: must be one of {', '.join(DESERIALIZERS)}")
    return DESERIALIZERS[short]


@value_class
class FormatSettings:
    """What is printed of a record, named as Kafka's `DefaultMessageFormatter` names it."""

    timestamp: bool = False
    partition: bool = False
    offset: bool = False
    delivery: bool = False
    epoch: bool = False
    headers: bool = False
    key: bool = False
    value: bool = True
    key_separator: bytes = b"\t"
    line_separator: bytes = b"\n"
    headers_separator: bytes = b","
    null_literal: bytes = b"null"
    show_key: Shower | None = field(default=None)
    show_value: Shower | None = field(default=None)
    show_header: Shower | None = field(default=None)

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> FormatSettings:
        """Settings from formatter properties; others are ignored. Raises OperatorError."""

        def is_true(name: str, *, default: bool = False) -> bool:
            return properties.get(f"print.{name}", str(default)).strip().lower() == "true"

        return cls(
            timestamp=is_true("timestamp"),
            partition=is_true("partition"),
            offset=is_true("offset"),
            delivery=is_true("delivery"),
            epoch=is_true("epoch"),
            headers=is_true("headers"),
            key=is_true("key"),
            value=is_true("value", default=True),
            key_separator=properties.get("key.separator", "\t").encode(),
            line_separator=properties.get("line.separator", "\n").encode(),
            headers_separator=properties.get("headers.separator", ",").encode(),
            null_literal=properties.get("null.literal", "null").encode(),
            show_key=deserializer(properties.get("key.deserializer")),
            show_value=deserializer(properties.get("value.deserializer")),
            show_header=deserializer(properties.get("headers.deserializer")),
        )

    @property
    def is_bare(self) -> bool:
        """True if a record's value is all there is to show."""
        others = (self.timestamp, self.partition, self.offset, self.delivery, self.epoch, self.headers, self.key)
        return self.value and not any(others) and self.show_value is None


class RecordFormatter:
    """Turns records into bytes to print: as Kafka's default formatter, its logging formatter, as JSON, or as nothing."""

    def __init__(self, settings: FormatSettings, *, kind: str) -> None:
        self._settings = settings
        short = kind.rpartition(".")[2]
        kinds: dict[str, Callable[[TopicPartition, BatchHeader, Record], bytes]] = {
            "DefaultMessageFormatter": self._bare if settings.is_bare else self._default,
            "LoggingMessageFormatter": self._bare if settings.is_bare else self._default,
            "NoOpMessageFormatter": self._nothing,
            "json": self._json,
        }
        if short not in kinds:
            raise OperatorError(f"--formatter {kind}: must be one of {', '.join(list(kinds)[:3])}")
        self.format = kinds[short]

    def _nothing(self, where: TopicPartition, header: BatchHeader, record: Record) -> bytes:
        return b""

    def _bare(self, where: TopicPartition, header: BatchHeader, record: Record) -> bytes:
        value = record.value
        return (self._settings.null_literal if value is None else value) + self._settings.line_separator

    def _default(self, where: TopicPartition, header: BatchHeader, record: Record) -> bytes:
        settings = self._settings
        columns: list[bytes] = []
        if settings.timestamp:
            columns.append(_timestamp(header, record))
        if settings.partition:
            columns.append(b"Partition:%d" % where.partition)
        if settings.offset:
            columns.append(b"Offset:%d" % record.offset)
        if settings.delivery:
            columns.append(b"Delivery:NOT_PRESENT")
        if settings.epoch:
            columns.append(b"Epoch:%d" % header.leader_epoch if header.leader_epoch >= 0 else b"Epoch:NOT_PRESENT")
        if settings.headers:
            columns.append(self._headers(record))
        if settings.key:
            columns.append(self._shown(record.key, settings.show_key))
        if settings.value:
            columns.append(self._shown(record.value, settings.show_value))
        return settings.key_separator.join(columns) + settings.line_separator if columns else b""

    def _shown(self, data: bytes | None, show: Shower | None) -> bytes:
        if data is None:
            return self._settings.null_literal
        return data if show is None else show(data)

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        shown = (
            name.encode() + b":" + self._shown(value, self._settings.show_header) for name, value in record.headers
        )
        return self._settings.headers_separator.join(shown)

    def _json(self, where: TopicPartition, header: BatchHeader, record: Record) -> bytes:
        found = {
            "topic": where.topic,
            "partition": where.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
            "headers": [[name, _json_text(value)] for name, value in record.headers],
            "key": _json_text(record.key),
            "value": _json_text(record.value),
        }
        return json.dumps(found).encode() + b"\n"


def _timestamp(header: BatchHeader, record: Record) -> bytes:
    if record.timestamp < 0:
        return b"NO_TIMESTAMP"
    kind = b"LogAppendTime" if header.is_log_append_time else b"CreateTime"
    return b"%s:%d" % (kind, record.timestamp)


def _json_text(data: bytes | None) -> object:
    """Text where the bytes are UTF-8, else an object with their base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
