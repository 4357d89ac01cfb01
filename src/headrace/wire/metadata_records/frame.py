"""The frame around a metadata record in the value of a log record.

Three unsigned varints, frame version 1, record type and record version, then the flexible body. Source: KIP-631, B-C00.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from headrace.core.errors import DecodeError, EncodeError
from headrace.wire.codec import decode_from, encode_into
from headrace.wire.metadata_records.registry import RECORD_TYPES
from headrace.wire.schema import Message
from headrace.wire.varint import Buffer, append_uvarint, read_uvarint

FRAME_VERSION: Final = 1

_classes: dict[int, type[Message]] = {}


def record_class(record_type: int) -> type[Message]:
    """The class of a record type; its module is imported when first asked for. Raises DecodeError for an unknown type."""
    found = _classes.get(record_type)
    if found is None:
        try:
            module, name = RECORD_TYPES[record_type]
        except KeyError:
            raise DecodeError(f"there is no metadata record of type {record_type}") from None
        found = _classes[record_type] = cast(type[Message], getattr(import_module(module), name))
    return found


def encode_record(record: Message, version: int) -> bytes:
    """A metadata record in its frame. Raises EncodeError when this version cannot say what the record says."""
    out = bytearray(_head(type(record), version))
    encode_into(record, version, out)
    return bytes(out)


@cache
def _head(cls: type[Message], version: int) -> bytes:
    """What stands before the body."""
    facts = cls.SCHEMA
    if facts.kind != "metadata":
        raise EncodeError(f"{cls.__name__} is no metadata record")
    out = bytearray((FRAME_VERSION, facts.api_key))
    append_uvarint(out, version)
    return bytes(out)


def decode_record(data: Buffer) -> Message:
    """The record in a frame. Raises DecodeError for an unknown frame version, type or record version, and for bytes left over."""
    return decode_record_with_version(data)[0]


def decode_record_with_version(data: Buffer) -> tuple[Message, int]:
    """The record in a frame, and the version in which it was written. Raises DecodeError as `decode_record`."""
    try:
        frame_version, record_type, version, pos = data[0], data[1], data[2], 3
        if (frame_version | record_type | version) > 0x7F:  # a varint of more than one byte
            frame_version, pos = read_uvarint(data, 0)
            record_type, pos = read_uvarint(data, pos)
            version, pos = read_uvarint(data, pos)
    except IndexError:
        raise DecodeError("the frame of a metadata record is cut off") from None
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record has frame version {frame_version}, and only {FRAME_VERSION} is known")
    cls = record_class(record_type)
    record, end = decode_from(cls, data, pos, version)
    if end != len(data):
        raise DecodeError(f"{cls.__name__}: {len(data) - end} bytes are left over")
    return record, version
