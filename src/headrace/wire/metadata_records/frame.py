"""How does a metadata record lie in the value of a log record?

Frame version 1, record type, record version (unsigned varints), then the record's flexible body. Source: KIP-631, B-C00.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

from headrace.core.errors import DecodeError
from headrace.wire.codec import decode_from, encode_into
from headrace.wire.metadata_records.registry import RECORD_TYPES
from headrace.wire.schema import Message
from headrace.wire.varint import Buffer, append_uvarint, read_uvarint

FRAME_VERSION: Final = 1

_classes: dict[int, type[Message]] = {}


def record_class(record_type: int) -> type[Message]:
    """The class of a record type. Raises DecodeError for an unknown one (B-C20)."""
    found = _classes.get(record_type)
    if found is None:
        place = RECORD_TYPES.get(record_type)
        if place is None:
            raise DecodeError(f"there is no metadata record of type {record_type}")
        found = _classes[record_type] = getattr(import_module(place[0]), place[1])
    return found


def encode_record(record: Message, version: int) -> bytes:
    """The framed bytes of a record. Raises EncodeError when this version cannot say what the record says."""
    out = bytearray((FRAME_VERSION,))
    append_uvarint(out, record.SCHEMA.api_key)
    append_uvarint(out, version)
    encode_into(record, version, out)
    return bytes(out)


def decode_record_with_version(data: Buffer) -> tuple[Message, int]:
    """The record in framed bytes, and its version. Raises DecodeError: unknown frame, type or version, or bad bytes (B-C20)."""
    try:
        frame, pos = read_uvarint(data, 0)
        if frame != FRAME_VERSION:
            raise DecodeError(f"metadata record in frame version {frame}; known is {FRAME_VERSION}")
        record_type, pos = read_uvarint(data, pos)
        version, pos = read_uvarint(data, pos)
    except IndexError:
        raise DecodeError(f"a metadata record cannot have {len(data)} bytes") from None
    cls = record_class(record_type)
    record, end = decode_from(cls, data, pos, version)
    if end != len(data):
        raise DecodeError(f"{cls.__name__} v{version}: {len(data) - end} bytes are left over")
    return record, version


def decode_record(data: Buffer) -> Message:
    """The record in framed bytes. Raises DecodeError: unknown frame, type or version, or bad bytes (B-C20)."""
    return decode_record_with_version(data)[0]
