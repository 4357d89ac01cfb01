"""The frame around keys and values that a coordinator writes into its topic.

Two bytes: before a key its record type, before a value its version. A key has one version, 0. Source: KIP-848, and the
formats of `__consumer_offsets` and `__transaction_state`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from importlib import import_module
from typing import cast

from headrace.core.errors import DecodeError, EncodeError
from headrace.wire.codec import decode_from, encode_into
from headrace.wire.schema import Message
from headrace.wire.varint import Buffer

_INT16 = struct.Struct(">h")
KEY_VERSION = 0

Registry = Mapping[int, tuple[str, str]]
"""Record type -> module and name of a class."""


class CoordinatorFrame:
    """Reads and writes the keys and values of one coordinator's topic."""

    def __init__(self, keys: Registry, values: Registry) -> None:
        self._keys = keys
        self._values = values

    def encode_key(self, key: Message) -> bytes:
        """A key with its record type before it."""
        if key.SCHEMA.kind != "coordinator-key":
            raise EncodeError(f"{type(key).__name__} is no key")
        out = bytearray(_INT16.pack(key.SCHEMA.api_key))
        encode_into(key, KEY_VERSION, out)
        return bytes(out)

    def encode_value(self, value: Message, version: int) -> bytes:
        """A value with its version before it. Raises EncodeError when this version cannot say what the value says."""
        if value.SCHEMA.kind != "coordinator-value":
            raise EncodeError(f"{type(value).__name__} is no value")
        out = bytearray(_INT16.pack(version))
        encode_into(value, version, out)
        return bytes(out)

    def decode_key(self, data: Buffer) -> Message:
        """The key in `data`. Raises DecodeError, also for a record type that we do not know."""
        return self._decode(self._keys, _int16(data), data, KEY_VERSION)

    def decode_value(self, key: Message, data: Buffer) -> Message:
        """The value that belongs to a key. Raises DecodeError, also for a version that we do not know."""
        return self._decode(self._values, key.SCHEMA.api_key, data, _int16(data))

    def version_of(self, data: Buffer) -> int:
        """The version in which a value was written. Raises DecodeError."""
        return _int16(data)

    def _decode(self, registry: Registry, record_type: int, data: Buffer, version: int) -> Message:
        if record_type not in registry:
            raise DecodeError(f"there is no coordinator record of type {record_type}")
        module, name = registry[record_type]
        cls = cast(type[Message], getattr(import_module(module), name))
        message, end = decode_from(cls, data, _INT16.size, version)
        if end != len(data):
            raise DecodeError(f"{name}: {len(data) - end} bytes are left over")
        return message


def _int16(data: Buffer) -> int:
    if len(data) < _INT16.size:
        raise DecodeError("a coordinator's record is cut off")
    value: int = _INT16.unpack_from(data, 0)[0]
    return value
