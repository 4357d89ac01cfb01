"""The topics that a consumer asks for, and the partitions that it was given.

The bytes are the clients' business (ConsumerProtocolSubscription and -Assignment); the coordinator reads them only to know whether a topic
still has readers, and the tools to show them.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.errors import DecodeError
from headrace.core.ids import TopicPartition
from headrace.wire.codec import decode
from headrace.wire.protocols.consumer_protocol_assignment import ConsumerProtocolAssignment

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2
_HIGHEST_VERSION = 3
_COUNT_BYTES = 4
_LENGTH_BYTES = 2
_MOST_NAMES = 20_000
"""Of topics in the subscriptions of one group, the same ones in the same order counted once: to read them takes ten milliseconds."""
_MOST_COMPARED_BYTES = 32 << 20


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The assignment of a member, empty when it has none yet; raises DecodeError."""
    if not data:
        return ConsumerProtocolAssignment()
    version, body = read_version(data)
    return decode(ConsumerProtocolAssignment, body, version, allow_trailing=True)


def assigned_partitions(data: bytes) -> list[TopicPartition]:
    """The partitions in an assignment, in the order of its bytes; raises DecodeError."""
    return [
        TopicPartition(topic.topic, partition)
        for topic in read_assignment(data).assigned_partitions
        for partition in topic.partitions
    ]


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the members' metadata name, or None when one of them cannot be read, or they name too much to be read in one turn (M6).

    Consumers of one group nearly always name the same topics in the same bytes; these are read once.
    """
    topics: set[str] = set()
    known = b""
    names_left, bytes_left = _MOST_NAMES, _MOST_COMPARED_BYTES
    try:
        for data in metadata:
            bytes_left -= len(known)
            if bytes_left < 0:
                return None
            if known and data.startswith(known, _VERSION_BYTES):
                continue
            names_left -= _number(data, _VERSION_BYTES)
            if names_left < 0:
                return None
            names, end = _topics_of(data)
            topics.update(names)
            known = data[_VERSION_BYTES:end]
    except DecodeError:
        return None
    return frozenset(topics)


def _topics_of(data: bytes) -> tuple[list[str], int]:
    """The topics of a subscription, and where they end; raises DecodeError. All versions begin as version 0 does. Nothing else is copied: user data may have megabytes."""
    read_version(data[:_VERSION_BYTES])
    count, at = _number(data, _VERSION_BYTES), _VERSION_BYTES + _COUNT_BYTES
    names = []
    try:
        for _ in range(count):
            begin = at + _LENGTH_BYTES
            at = begin + int.from_bytes(data[at:begin], "big", signed=True)
            if not begin <= at <= len(data):
                raise DecodeError("a name does not fit")
            names.append(data[begin:at].decode())
    except UnicodeDecodeError as error:
        raise DecodeError(str(error)) from None
    if count < 0 or not -1 <= _number(data, at) <= len(data) - at - _COUNT_BYTES:
        raise DecodeError("the topics or the user data do not fit")
    return names, at


def _number(data: bytes, at: int) -> int:
    if len(data) < at + _COUNT_BYTES:
        raise DecodeError("a subscription ends too soon")
    return int.from_bytes(data[at : at + _COUNT_BYTES], "big", signed=True)


def read_version(data: bytes) -> tuple[int, bytes]:
    """The version to read an embedded message by, and the bytes behind its version; raises DecodeError.

    Higher versions than we know are read as the highest: new fields are only ever added at the end.
    """
    if len(data) < _VERSION_BYTES:
        raise DecodeError("a consumer protocol message has a version in its first two bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError(f"consumer protocol version {version} is negative")
    return min(version, _HIGHEST_VERSION), data[_VERSION_BYTES:]
