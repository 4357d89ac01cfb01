"""The text of a compiled codec."""

from __future__ import annotations

from typing import Any, Final

from headrace.core.ids import Uuid
from headrace.wire.schema import FIXED_SIZES, FieldSpec, Message, Struct, fields_of

FORMATS: Final = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
    "uuid": "16s",
}  # fmt: skip
"""The `struct` code of every type of one size."""

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka refuses longer strings, in either form."""

_PLAIN = (int, float, bool, str, type(None))


class Source:
    """Lines of a function under construction, and the values that its text names."""

    def __init__(self, **scope: Any) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._count = 0
        self.scope: dict[str, Any] = dict(scope)

    def line(self, text: str) -> None:
        """Append a line at the present depth."""
        self._lines.append("    " * self._depth + text)

    def block(self, text: str) -> Block:
        """Append a line that opens a block; what is added inside `with` belongs to the block."""
        self.line(text)
        return Block(self)

    def shift(self, levels: int) -> None:
        """Go in or out by so many levels."""
        self._depth += levels

    def fresh(self, prefix: str) -> str:
        """A name that was not used before."""
        self._count += 1
        return f"{prefix}{self._count}"

    def named(self, prefix: str, value: Any) -> str:
        """A name in the text for a value: itself where it is plain, or a name in the scope."""
        if type(value) in _PLAIN:
            return repr(value)
        if value == () and type(value) is tuple:
            return "()"
        for name, known in self.scope.items():
            if known is value:
                return name
        name = self.fresh(prefix)
        self.scope[name] = value
        return name

    def compiled(self, name: str, title: str) -> Any:
        """The function `name` of the text. `title` stands for the file in tracebacks."""
        text = "\n".join(self._lines) + "\n"
        exec(compile(text, f"<{title}>", "exec"), self.scope)
        return self.scope[name]


class Block:
    """The lines inside a `with` are one level deeper."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source.shift(1)

    def __exit__(self, *_: object) -> None:
        self._source.shift(-1)


class Layout:
    """What one version of a message looks like. A compiler of readers or writers asks it about every field."""

    def __init__(self, message: type[Message], version: int) -> None:
        self.message = message
        self.version = version
        self.is_flexible = version in message.SCHEMA.flexible

    def is_compact(self, spec: FieldSpec) -> bool:
        """Whether lengths of this field are unsigned varints of length + 1."""
        return self.is_flexible and not spec.is_inflexible

    def is_nullable(self, spec: FieldSpec) -> bool:
        """Whether the field may be null in this version."""
        return self.version in spec.nullable

    def is_present(self, spec: FieldSpec) -> bool:
        """Whether the field is on the wire, tagged or not, in this version."""
        return self.version in spec.versions

    def is_tagged(self, spec: FieldSpec) -> bool:
        """Whether the field is among the tagged ones in this version."""
        return spec.tag is not None and self.version in spec.versions and self.version in spec.tagged

    def plain_fields(self, cls: type[Struct]) -> list[FieldSpec]:
        """The fields written one after the other."""
        return [spec for spec in fields_of(cls) if self.is_present(spec) and not self.is_tagged(spec)]

    def tagged_fields(self, cls: type[Struct]) -> list[FieldSpec]:
        """The tagged fields by their tags."""
        found = [spec for spec in fields_of(cls) if self.is_tagged(spec)]
        return sorted(found, key=lambda spec: -1 if spec.tag is None else spec.tag)

    def absent_fields(self, cls: type[Struct]) -> list[FieldSpec]:
        """The fields that this version does not have."""
        return [spec for spec in fields_of(cls) if not self.is_present(spec)]

    def smallest(self, cls: type[Struct]) -> int:
        """The fewest bytes that a struct can take."""
        total = 1 if self.is_flexible else 0
        for spec in self.plain_fields(cls):
            total += 1 if spec.struct and self.is_nullable(spec) and not spec.is_array else self._smallest_field(spec)
        return total

    def smallest_element(self, spec: FieldSpec) -> int:
        """The fewest bytes that one element of an array field can take. At least 1: no count is free. Source: B20."""
        if spec.struct is not None:
            return max(1, self.smallest(spec.struct))
        return FIXED_SIZES.get(spec.kind) or self._smallest_length(spec)

    def _smallest_field(self, spec: FieldSpec) -> int:
        if spec.is_array:
            return 1 if self.is_compact(spec) else 4
        if spec.struct is not None:
            return self.smallest(spec.struct)
        return FIXED_SIZES.get(spec.kind) or self._smallest_length(spec)

    def _smallest_length(self, spec: FieldSpec) -> int:
        if self.is_compact(spec):
            return 1
        return 2 if spec.kind == "string" else 4

    def has_records(self) -> bool:
        """Whether the message carries record batches, which are never copied."""
        return carries_records(self.message)


def carries_records(cls: type[Struct]) -> bool:
    """Whether a message or a part of one has fields of type `records`, which are views onto what it was decoded from."""
    known = _with_records.get(cls)
    if known is None:
        known = _with_records[cls] = _has_records(cls)
    return known


_with_records: dict[type[Struct], bool] = {}


def _has_records(cls: type[Struct]) -> bool:
    return any(
        spec.kind == "records" or (spec.struct is not None and carries_records(spec.struct)) for spec in fields_of(cls)
    )


def new_uuid(value: bytes) -> Uuid:
    """A uuid of 16 bytes whose number is already known."""
    return bytes.__new__(Uuid, value)
