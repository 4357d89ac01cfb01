"""The topics that a consumer asks for, and the partitions that it was given.

The bytes are the clients' business (ConsumerProtocolSubscription and -Assignment); the coordinator reads them only to know whether a topic
still has readers, and the tools to show them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from headrace.core.errors import DecodeError
from headrace.core.ids import TopicPartition
from headrace.wire.codec import decode
from headrace.wire.protocols.consumer_protocol_assignment import ConsumerProtocolAssignment
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2
_HIGHEST_VERSION = 3
_COUNT_BYTES = 4
_LENGTH_BYTES = 2
_MOST_NAMES = 20_000
"""Of topics in the subscriptions of one group, the same ones in the same order counted once: to read them takes ten milliseconds."""
_MOST_COMPARED_BYTES = 32 << 20

Read = TypeVar("Read", ConsumerProtocolAssignment, ConsumerProtocolSubscription)


def read_subscription(data: bytes, *, highest_version: int = _HIGHEST_VERSION) -> ConsumerProtocolSubscription:
    """The subscription behind a member's metadata; raises DecodeError.

    Versions above `highest_version` are read as that one: new fields are only ever added at the end.
    """
    return _read(ConsumerProtocolSubscription, data, highest_version)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The assignment of a member, empty when it has none yet; raises DecodeError."""
    if not data:
        return ConsumerProtocolAssignment()
    return _read(ConsumerProtocolAssignment, data, _HIGHEST_VERSION)


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
            names_left -= int.from_bytes(data[_VERSION_BYTES : _VERSION_BYTES + _COUNT_BYTES], "big", signed=True)
            if names_left < 0:
                return None
            names = read_subscription(data, highest_version=0).topics
            topics.update(names)
            size = _COUNT_BYTES + sum(_LENGTH_BYTES + len(name.encode()) for name in names)
            known = data[_VERSION_BYTES : _VERSION_BYTES + size]
    except DecodeError:
        return None
    return frozenset(topics)


def read_version(data: bytes, *, highest_version: int = _HIGHEST_VERSION) -> tuple[int, bytes]:
    """The version to read an embedded message by, and the bytes behind its version; raises DecodeError."""
    if len(data) < _VERSION_BYTES:
        raise DecodeError("a consumer protocol message has a version in its first two bytes")
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise DecodeError(f"consumer protocol version {version} is negative")
    return min(version, highest_version), data[_VERSION_BYTES:]


def _read(kind: type[Read], data: bytes, highest_version: int) -> Read:
    version, body = read_version(data, highest_version=highest_version)
    return decode(kind, body, version, allow_trailing=True)
