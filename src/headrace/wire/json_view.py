"""Messages as JSON, as Kafka's own converters and tools write it.

Keys are the field's names in camel case; uuids are their base64 text; bytes are base64; tagged fields at their default
are left out; record batches are empty, or their size where `records_as_size` is asked for (KIP-673). Reading takes the
same form back and refuses a missing field, an unknown one, and a field that the version does not have.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import Any, Final, TypeVar, cast

from headrace.core.errors import DecodeError, EncodeError
from headrace.core.ids import Uuid
from headrace.wire.schema import FieldSpec, Message, Struct, fields_of
from headrace.wire.source import Layout

M = TypeVar("M", bound=Message)

JsonObject = dict[str, Any]

_RANGES: Final = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


def to_json(message: Message, version: int, *, records_as_size: bool = False) -> JsonObject:
    """A message as Kafka's JSON converters show it. Raises EncodeError as the encoder does."""
    cls = type(message)
    if version not in cls.SCHEMA.versions:
        raise EncodeError(f"{cls.__name__} has no version {version}")
    return _Shower(Layout(cls, version), records_as_size=records_as_size).struct(message)


def record_type_name(class_name: str) -> str:
    """The name of a record's type as Kafka's tools print it: `NoOpRecord` is NO_OP_RECORD."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).upper()


def from_json(cls: type[M], data: object, version: int) -> M:
    """The message of a JSON object. Raises DecodeError when the object is no such message in this version."""
    if version not in cls.SCHEMA.versions:
        raise DecodeError(f"{cls.__name__} has no version {version}")
    return cast(M, _Parser(Layout(cls, version)).struct(cls, data))


class _Shower:
    """Makes JSON of the structs of one message and version."""

    def __init__(self, layout: Layout, *, records_as_size: bool) -> None:
        self._layout = layout
        self._records_as_size = records_as_size

    def struct(self, value: Struct) -> JsonObject:
        shown: JsonObject = {}
        layout = self._layout
        for spec in fields_of(type(value)):
            part = getattr(value, spec.name)
            if not layout.is_present(spec):
                if not spec.is_ignorable and part != spec.default:
                    raise EncodeError(f"{spec.name} is set, but version {layout.version} does not have it")
            elif layout.is_tagged(spec) and part == spec.default:
                continue
            elif spec.kind == "records" and part is not None and self._records_as_size:
                shown[spec.json_name + "SizeInBytes"] = len(part)
            else:
                shown[spec.json_name] = self._field(spec, part)
        return shown

    def _field(self, spec: FieldSpec, value: Any) -> object:
        if value is None:
            if not self._layout.is_nullable(spec):
                raise EncodeError(f"{spec.name} is null")
            return None
        if spec.is_array:
            return [self._single(spec, element) for element in value]
        return self._single(spec, value)

    def _single(self, spec: FieldSpec, value: Any) -> object:
        if spec.struct is not None:
            return self.struct(value)
        if spec.kind == "uuid":
            return str(value)
        if spec.kind == "bytes":
            return b64encode(value).decode("ascii")
        return "" if spec.kind == "records" else value


class _Parser:
    """Makes the structs of one message and version of JSON."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def struct(self, cls: type[Struct], data: object) -> Struct:
        if not isinstance(data, Mapping):
            raise DecodeError(f"{cls.__name__}: an object is expected, not {data!r}")
        layout, values, left = self._layout, {}, dict(data)
        for spec in fields_of(cls):
            if spec.json_name in left:
                if not layout.is_present(spec):
                    raise DecodeError(f"{cls.__name__}: version {layout.version} has no {spec.json_name}")
                values[spec.name] = self._field(spec, left.pop(spec.json_name))
            elif layout.is_present(spec) and not layout.is_tagged(spec):
                raise DecodeError(f"{cls.__name__}: {spec.json_name} is missing")
        if left:
            raise DecodeError(f"{cls.__name__}: there is no field {next(iter(left))!r}")
        return cls(**values)

    def _field(self, spec: FieldSpec, data: object) -> object:
        if data is None:
            if not self._layout.is_nullable(spec):
                raise DecodeError(f"{spec.json_name} is null")
            return None
        if not spec.is_array:
            return self._single(spec, data)
        if not isinstance(data, list):
            raise DecodeError(f"{spec.json_name}: a list is expected, not {data!r}")
        return tuple(self._single(spec, element) for element in data)

    def _single(self, spec: FieldSpec, data: object) -> object:
        if spec.struct is not None:
            return self.struct(spec.struct, data)
        if spec.kind in _RANGES:
            return _integer(spec, data)
        if spec.kind == "bool" and isinstance(data, bool):
            return data
        if spec.kind == "float64" and isinstance(data, (int, float)) and not isinstance(data, bool):
            return float(data)
        if isinstance(data, str):
            return _text(spec, data)
        raise DecodeError(f"{spec.json_name}: {data!r} is no {spec.kind}")


def _integer(spec: FieldSpec, data: object) -> int:
    low, high = _RANGES[spec.kind]
    if isinstance(data, bool) or not isinstance(data, int) or not low <= data <= high:
        raise DecodeError(f"{spec.json_name}: {data!r} is no {spec.kind}")
    return data


def _text(spec: FieldSpec, data: str) -> object:
    if spec.kind == "string":
        return data
    try:
        if spec.kind == "uuid":
            return Uuid.parse(data)
        if spec.kind in ("bytes", "records"):
            return b64decode(data, validate=True)
    except (ValueError, Base64Error) as error:
        raise DecodeError(f"{spec.json_name}: {error}") from None
    raise DecodeError(f"{spec.json_name}: {data!r} is no {spec.kind}")
