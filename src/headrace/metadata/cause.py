"""The cause of a decision, and how it travels with the records of the decision.

A record carries it as a tagged field that Kafka does not know, and so skips (KIP-482, B-W03): tag 10000, the bytes of a `Cause`. It holds for
that record and for those behind it in the same batch, up to the next that carries one. The meaning of a record is the same with it and
without it (C2). docs/history.md has the schema.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import DecodeError
from headrace.wire.codec import decode, encode
from headrace.wire.metadata_records.frame import decode_record_with_version, encode_record
from headrace.wire.schema import Message, field, fields_of
from headrace.wire.varint import append_uvarint, read_uvarint

if TYPE_CHECKING:
    from headrace.wire.varint import Buffer

CAUSE_TAG: Final = 10_000
"""Kafka's own tags are below ten."""
MAX_TEXT: Final = 64
"""So many characters of what a client says of itself are kept."""
_VERSION: Final = 0
ANONYMOUS: Final = "User:ANONYMOUS"


class CauseKind(IntEnum):
    """What a decision comes from. Numbers are in logs: they stay."""

    REQUEST = 1
    """A client asks: `api_key`, `principal`, `client_id`, `client_host`, `correlation_id`, and `through` which broker."""
    SESSION_EXPIRED = 2
    """No heartbeat of `broker_id` for a session."""
    CONNECTION_REFUSED = 3
    """Nobody listens any more where `broker_id` did."""
    OWN_WISH = 4
    """`broker_id` asks to be fenced."""
    CONTROLLED_SHUTDOWN = 5
    """`broker_id` is about to stop: its leaderships move."""
    SHUT_DOWN = 6
    """`broker_id` leads nothing any more and stops: it is fenced."""
    UNFENCED = 7
    """`broker_id` has caught up, and serves."""
    REGISTERED = 8
    """A process registers as `broker_id`; one that was not fenced before is replaced by it."""
    ISR_CHANGE = 9
    """`broker_id` leads and asks for another ISR."""
    DIRECTORY_FAILED = 10
    """`broker_id` says that directories are offline."""
    DIRECTORIES_ASSIGNED = 11
    """`broker_id` says in which directories its replicas are."""
    DIRECTORIES_CORDONED = 12
    """`broker_id` says which directories take no new replicas."""
    BALANCING = 13
    """It was time to bring leaders back to the preferred replicas."""
    UNCLEAN_TIMER = 14
    """It was time to look for leaders of partitions that have none."""
    ACTIVATION = 15
    """A controller became active."""
    CONTROLLER_REGISTERED = 16
    """Controller `broker_id` registers."""
    PRODUCER_IDS = 17
    """`broker_id` asks for a block of producer ids."""


class Cause(Message, kind="data", api_key=-1, versions="0", flexible="0+"):
    """What led to records. -1 and the like stand for what is not known or does not apply."""

    kind: int = field("int8 0+", default=0)
    api_key: int = field("int16 0+ tag=0@0+", default=-1)
    broker_id: int = field("int32 0+ tag=1@0+", default=-1)
    principal: str = field("string 0+ tag=2@0+", default=ANONYMOUS)
    client_id: str | None = field("string 0+ nullable=0+ tag=3@0+", default=None)
    client_host: str = field("string 0+ tag=4@0+", default="")
    correlation_id: int = field("int32 0+ tag=5@0+", default=-1)
    through: int = field("int32 0+ tag=6@0+", default=-1)
    listener: str = field("string 0+ tag=7@0+", default="")
    election: int = field("int8 0+ tag=8@0+", default=-1)


def short(text: str) -> str:
    """What is kept of a client's text: what it says must not make records long."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"


def encode_cause(cause: Cause) -> bytes:
    """The bytes that records carry: the schema's version, then the fields."""
    return bytes((_VERSION,)) + encode(cause, _VERSION)


def decode_cause(data: Buffer) -> Cause | None:
    """The cause in these bytes; None for a version that is not known here. Raises DecodeError for what is no cause."""
    if not len(data):
        raise DecodeError("an empty cause")
    return decode(Cause, bytes(data[1:]), _VERSION) if data[0] == _VERSION else None


def encode_with_cause(record: Message, version: int, cause: bytes) -> bytes:
    """The record in its frame with a cause behind its own tagged fields. Raises EncodeError as `encode_record`."""
    plain = encode_record(record, version)
    at = _start_of_tags(record, version)
    out = bytearray(plain)
    out[at] += 1  # a record has less than ten tagged fields
    append_uvarint(out, CAUSE_TAG)
    append_uvarint(out, len(cause))
    out += cause
    return bytes(out)


def _start_of_tags(record: Message, version: int) -> int:
    """Where the count of tagged fields stands in the record's bytes: behind everything else, so a record without them ends there."""
    cls = type(record)
    untagged: dict[str, Any] = {
        spec.name: getattr(record, spec.name) for spec in fields_of(cls) if version not in spec.tagged
    }
    return len(encode_record(cls(**untagged), version)) - 1


def decode_caused(data: Buffer) -> tuple[Message, Cause | None]:
    """The record in a frame, and the cause that it carries. Raises DecodeError for a record that is not one.

    Our own bytes are known to be in the one way in which a record is written: what is behind them is the cause.
    """
    record, version = decode_record_with_version(data)
    return record, _cause_behind(memoryview(data)[len(encode_record(record, version)) :])


def _cause_behind(rest: memoryview) -> Cause | None:
    if not len(rest):
        return None
    try:
        tag, pos = read_uvarint(rest, 0)
        size, pos = read_uvarint(rest, pos)
        if tag != CAUSE_TAG or size != len(rest) - pos:
            return None
        return decode_cause(rest[pos:])
    except (DecodeError, IndexError):
        return None
