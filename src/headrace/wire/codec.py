"""The bytes of a message, and the message of bytes.

A reader and a writer are compiled for each (message, version) when first asked for. Any bytes decode to a message or
raise DecodeError, and nothing is allocated that the bytes at hand could not fill. Source: B20-B23, K45.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TypeVar

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, EncodeError
from headrace.wire.reader import Reader, SteppingReader, compile_reader, compile_stepping_reader
from headrace.wire.schema import Message
from headrace.wire.varint import Buffer
from headrace.wire.writer import SteppingWriter, Writer, compile_stepping_writer, compile_writer

M = TypeVar("M", bound=Message)
T = TypeVar("T")

_FEW_STEPS = 16
"""So many steps of reading, a millisecond each at most, are taken in one turn."""

_readers: dict[tuple[type[Message], int], Reader] = {}
_writers: dict[tuple[type[Message], int], Writer] = {}
_stepping_readers: dict[tuple[type[Message], int], SteppingReader] = {}
_stepping_writers: dict[tuple[type[Message], int], SteppingWriter] = {}


def reader_of(cls: type[Message], version: int) -> Reader:
    """The compiled reader, `read(buf, pos) -> (message, pos)`; it may raise IndexError, struct.error and the like.

    Raises DecodeError (UNSUPPORTED_VERSION) for a version that the message does not have.
    """
    found = _readers.get((cls, version))
    if found is None:
        if version not in cls.SCHEMA.versions:
            raise DecodeError(f"{cls.__name__} has no version {version}", ErrorCode.UNSUPPORTED_VERSION)
        found = _readers[cls, version] = compile_reader(cls, version)
    return found


def writer_of(cls: type[Message], version: int) -> Writer:
    """The compiled writer, `write(message, out)`. Raises EncodeError for a version that the message does not have."""
    found = _writers.get((cls, version))
    if found is None:
        if version not in cls.SCHEMA.versions:
            raise EncodeError(f"{cls.__name__} has no version {version}")
        found = _writers[cls, version] = compile_writer(cls, version)
    return found


def decode_from(cls: type[M], data: Buffer, pos: int, version: int) -> tuple[M, int]:
    """The message at `pos` of `data`, and the position behind it. Raises DecodeError.

    Fields of type `records` are views onto `data`; everything else is copied out of it.
    """
    try:
        found: tuple[M, int] = reader_of(cls, version)(data, pos)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from None
    return found


def decode(cls: type[M], data: Buffer, version: int, *, allow_trailing: bool = False) -> M:
    """The message that `data` holds. Raises DecodeError for any other bytes, and for bytes left over (B4).

    Fields of type `records` are views onto `data`; everything else is copied out of it.
    """
    message, end = decode_from(cls, data, 0, version)
    if end != len(data) and not allow_trailing:
        raise DecodeError(f"{cls.__name__} v{version}: {len(data) - end} bytes are left over")
    return message


class LongMessage(DecodeError):
    """Bytes that hold more than is read in one turn; what reads in steps reads them."""


def in_few_steps(steps: Generator[None, None, T]) -> T:
    """What the steps return, if they are few. Raises LongMessage when there are more."""
    try:
        for _ in range(_FEW_STEPS):
            next(steps)
    except StopIteration as end:
        found: T = end.value
        return found
    raise LongMessage("more than is read in one turn")


def encode_into(message: Message, version: int, out: bytearray) -> None:
    """Append the bytes of a message. Raises EncodeError when this version cannot say what the message says."""
    writer = _writers.get((type(message), version)) or writer_of(type(message), version)
    try:
        writer(message, out)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{type(message).__name__} v{version}: {error}") from error


def decode_in_steps(
    cls: type[M], data: Buffer, version: int, *, allow_trailing: bool = False
) -> Generator[None, None, M]:
    """As `decode`, with a yield after every few parts, for bytes that may hold very many. Returns the message.

    Fields of type `records` are views onto `data`.
    """
    known = _stepping_readers.get((cls, version))
    if known is None:
        if version not in cls.SCHEMA.versions:
            raise DecodeError(f"{cls.__name__} has no version {version}", ErrorCode.UNSUPPORTED_VERSION)
        known = _stepping_readers[cls, version] = compile_stepping_reader(cls, version)
    try:
        message, end = yield from known(data, 0)
    except (IndexError, struct.error, UnicodeDecodeError) as error:
        raise DecodeError(f"{cls.__name__} v{version}: {error}") from None
    if end != len(data) and not allow_trailing:
        raise DecodeError(f"{cls.__name__} v{version}: {len(data) - end} bytes are left over")
    found: M = message
    return found


def encode_in_steps(message: Message, version: int, out: bytearray) -> Generator[None, None, None]:
    """As `encode_into`, with a yield after every few parts."""
    cls = type(message)
    known = _stepping_writers.get((cls, version))
    if known is None:
        if version not in cls.SCHEMA.versions:
            raise EncodeError(f"{cls.__name__} has no version {version}")
        known = _stepping_writers[cls, version] = compile_stepping_writer(cls, version)
    try:
        yield from known(message, out)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error


def encode(message: Message, version: int) -> bytes:
    """The bytes of a message. Raises EncodeError when this version cannot say what the message says."""
    out = bytearray()
    encode_into(message, version, out)
    return bytes(out)
