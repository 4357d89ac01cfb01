"""The decoder of one message and version, and how it is made.

The decoder is a function `read(buf, pos) -> (message, pos)` without calls for parts of the message: nested structs are
loops inside it. It may raise IndexError, struct.error or UnicodeDecodeError on bad bytes, which `codec.decode` turns into
DecodeError. Every count is held against the bytes left before anything is made. Source: B20-B22.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, Final

from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.wire.api_facts import ApiKey
from headrace.wire.schema import FIXED_SIZES, NO_VERSIONS, FieldSpec, Message, Struct
from headrace.wire.source import FORMATS, MAX_STRING_BYTES, Layout, Source
from headrace.wire.varint import MAX_TAGS, Buffer, continue_uvarint, skip_tags

Reader = Callable[[Buffer, int], tuple[Any, int]]
SteppingReader = Callable[[Buffer, int], Generator[None, None, tuple[Any, int]]]

MAX_PARTS: Final = 1 << 22
"""How many structs, strings and numbers the arrays of one message may hold in all: a part takes more memory than the two bytes that
may stand for it on the wire. Source: M2, B25."""
MAX_REQUEST_PARTS: Final = 1 << 20
"""The same of a request, which anybody may send, and of a Fetch response: enough for all partitions of a large cluster, and less than half a gigabyte."""
MAX_PARTITIONS: Final = 1 << 16
"""The same of Produce and Fetch, of which each part is a partition that takes a kilobyte while it is answered: several times what one node hosts."""
STEP_BYTES: Final = 4096
"""A stepping reader rests after so many bytes: some hundred parts, a fraction of a millisecond."""
STEP_PARTS: Final = 1024
"""So many parts go at a time of the list that an array was read into; to free it whole takes as long as to copy it."""


def _most_parts(message: type[Message]) -> int:
    facts = message.SCHEMA
    if facts.kind != "request":
        return MAX_REQUEST_PARTS if facts.api_key == ApiKey.FETCH else MAX_PARTS
    return MAX_PARTITIONS if facts.api_key in (ApiKey.PRODUCE, ApiKey.FETCH) else MAX_REQUEST_PARTS


def _bad_length(name: str, length: int) -> DecodeError:
    return DecodeError(f"{name}: a length or count of {length} does not fit")


def _too_many(name: str, limit: int) -> DecodeError:
    return DecodeError(f"{name}: the message has more than {limit} parts")


def _null(name: str) -> DecodeError:
    return DecodeError(f"{name} is null")


def _bad_tag(name: str, tag: int) -> DecodeError:
    return DecodeError(f"{name}: tagged field {tag} is out of order, or its size is wrong")


def compile_reader(message: type[Message], version: int) -> Reader:
    """The decoder of one version of a message."""
    reader: Reader = _ReaderCompiler(Layout(message, version), in_steps=False).compile()
    return reader


def compile_stepping_reader(message: type[Message], version: int) -> SteppingReader:
    """The same as a generator that rests after every few parts and returns what the decoder does."""
    reader: SteppingReader = _ReaderCompiler(Layout(message, version), in_steps=True).compile()
    return reader


class _ReaderCompiler:
    """Writes the text of one decoder."""

    def __init__(self, layout: Layout, *, in_steps: bool) -> None:
        self._layout = layout
        self._in_steps = in_steps
        self._max_parts = _most_parts(layout.message)
        self._views = layout.has_records()
        self._run: list[tuple[str, str]] = []
        self._source = Source(
            new=object.__new__,
            uvarint=continue_uvarint,
            bad_length=_bad_length,
            null=_null,
            bad_tag=_bad_tag,
            too_many=_too_many,
            skip_tags=skip_tags,
            unpack_from=struct.unpack_from,
            make_uuid=partial(bytes.__new__, Uuid),
        )

    def compile(self) -> Any:
        source, layout = self._source, self._layout
        wanted = "memoryview" if self._views else "bytes"
        with source.block("def read(buf, pos):"):
            with source.block(f"if type(buf) is not {wanted}:"):
                source.line(f"buf = {wanted}(buf)")
            source.line("end = len(buf)")
            source.line(f"room = {self._max_parts}")
            if self._in_steps:
                source.line(f"mark = pos + {STEP_BYTES}")
                source.line("yield")
            self._struct(layout.message, "m")
            source.line("return m, pos")
        return source.compiled("read", f"reader of {layout.message.__name__} v{layout.version}")

    def _struct(self, cls: type[Struct], var: str) -> None:
        source, layout = self._source, self._layout
        source.line(f"{var} = new({source.named('C', cls)})")
        for spec in layout.absent_fields(cls):
            source.line(f"{var}.{spec.name} = {source.named('d', spec.default)}")
        for spec in layout.plain_fields(cls):
            if spec.kind in FORMATS and not spec.is_array:
                self._run.append((spec.kind, f"{var}.{spec.name}"))
            else:
                self._flush()
                self._field(spec, f"{var}.{spec.name}")
        self._flush()
        if layout.is_flexible:
            self._tags(cls, var)

    def _flush(self) -> None:
        """Read the fixed-size fields collected so far at once."""
        run, self._run = self._run, []
        if not run:
            return
        source = self._source
        packed = struct.Struct(">" + "".join(FORMATS[kind] for kind, _ in run))
        uuids = [(source.fresh("u"), target) if kind == "uuid" else ("", target) for kind, target in run]
        targets = ", ".join(name or target for name, target in uuids)
        source.line(f"{targets}, = {source.named('s', packed.unpack_from)}(buf, pos)")
        source.line(f"pos += {packed.size}")
        for name, target in uuids:
            if name:
                source.line(f"{target} = make_uuid({name})")

    def _field(self, spec: FieldSpec, target: str) -> None:
        if spec.is_array:
            self._counted(spec, target, size=self._layout.smallest_element(spec), body=self._array)
        elif spec.struct is not None:
            self._single_struct(spec, target)
        else:
            self._counted(spec, target, size=1, body=self._bytes)

    def _single_struct(self, spec: FieldSpec, target: str) -> None:
        source = self._source
        var = source.fresh("e")
        assert spec.struct is not None
        if not self._layout.is_nullable(spec):
            self._struct(spec.struct, var)
            source.line(f"{target} = {var}")
            return
        flag = source.fresh("n")
        source.line(f"{flag} = buf[pos]")
        source.line("pos += 1")
        with source.block(f"if {flag} == 255:"):
            source.line(f"{target} = None")
        with source.block(f"elif {flag} == 1:"):
            self._struct(spec.struct, var)
            source.line(f"{target} = {var}")
        with source.block("else:"):
            source.line(f"raise bad_length({spec.name!r}, {flag})")

    def _counted(self, spec: FieldSpec, target: str, *, size: int, body: Callable[[FieldSpec, str, str], None]) -> None:
        """Read a length or count, hold it against the bytes left, then what it counts."""
        source, layout = self._source, self._layout
        count = source.fresh("n")
        compact = layout.is_compact(spec)
        wide = spec.is_array or spec.kind != "string"
        if compact:
            source.line(f"{count} = buf[pos] - 1")
            source.line("pos += 1")
            with source.block(f"if {count} > 126:"):
                source.line(f"{count}, pos = uvarint(buf, pos, {count} + 1)")
                source.line(f"{count} -= 1")
        else:
            packed = struct.Struct(">i" if wide else ">h")
            source.line(f"{count}, = {source.named('s', packed.unpack_from)}(buf, pos)")
            source.line(f"pos += {packed.size}")
        with source.block(f"if {count} < 0:"):
            if not compact:
                with source.block(f"if {count} != -1:"):
                    source.line(f"raise bad_length({spec.name!r}, {count})")
            source.line(f"{target} = None" if layout.is_nullable(spec) else f"raise null({spec.name!r})")
        needed = count if size == 1 else f"{count} * {size}"
        limit = f" or {count} > {MAX_STRING_BYTES}" if compact and not wide else ""
        with source.block(f"elif {needed} > end - pos{limit}:"):
            source.line(f"raise bad_length({spec.name!r}, {count})")
        with source.block("else:"):
            body(spec, target, count)

    def _bytes(self, spec: FieldSpec, target: str, count: str) -> None:
        part = f"buf[pos:pos + {count}]"
        if spec.kind == "string":
            part = f'str({part}, "utf-8")' if self._views else f"{part}.decode()"
        elif spec.kind == "bytes" and self._views:
            part = f"bytes({part})"
        self._source.line(f"{target} = {part}")
        self._source.line(f"pos += {count}")

    def _array(self, spec: FieldSpec, target: str, count: str) -> None:
        source = self._source
        size = FIXED_SIZES.get(spec.kind, 0)
        if spec.kind == "uuid" or size:
            self._take_room(spec, count)
        if spec.kind == "uuid":
            cut = "bytes(buf[p:p + 16])" if self._views else "buf[p:p + 16]"
            source.line(f"{target} = tuple([make_uuid({cut}) for p in range(pos, pos + 16 * {count}, 16)])")
            source.line(f"pos += 16 * {count}")
        elif size:
            source.line(f'{target} = unpack_from(">%d{FORMATS[spec.kind]}" % {count}, buf, pos)')
            source.line(f"pos += {size} * {count}")
        else:
            self._loop(spec, target, count)

    def _loop(self, spec: FieldSpec, target: str, count: str) -> None:
        source = self._source
        found, element = source.fresh("l"), source.fresh("e")
        self._take_room(spec, count)
        source.line(f"{found} = []")
        with source.block(f"for _ in range({count}):"):
            if spec.struct is not None:
                self._struct(spec.struct, element)
            else:
                self._counted(_element_of(spec), element, size=1, body=self._bytes)
            source.line(f"{found}.append({element})")
            if self._in_steps:
                with source.block("if pos > mark:"):
                    source.line("yield")
                    source.line(f"mark = pos + {STEP_BYTES}")
        source.line(f"{target} = tuple({found})")
        if self._in_steps:
            with source.block(f"while len({found}) > {STEP_PARTS}:"):
                source.line(f"del {found}[-{STEP_PARTS}:]")
                source.line("yield")

    def _take_room(self, spec: FieldSpec, count: str) -> None:
        """Count the parts of an array against what the message may have."""
        self._source.line(f"room -= {count}")
        with self._source.block("if room < 0:"):
            self._source.line(f"raise too_many({spec.name!r}, {self._max_parts})")

    def _tags(self, cls: type[Struct], var: str) -> None:
        """Tagged fields: in ascending order, each exactly of its size, unknown ones skipped. Source: KIP-482, B8."""
        source, tagged = self._source, self._layout.tagged_fields(cls)
        for spec in tagged:
            source.line(f"{var}.{spec.name} = {source.named('d', spec.default)}")
        with source.block("if buf[pos] == 0:"):
            source.line("pos += 1")
        with source.block("else:"):
            if tagged:
                self._known_tags(cls, var, tagged)
            else:
                source.line("pos = skip_tags(buf, pos)")

    def _known_tags(self, cls: type[Struct], var: str, tagged: list[FieldSpec]) -> None:
        source = self._source
        count, tag, last, size, stop = (source.fresh(prefix) for prefix in ("n", "t", "p", "z", "x"))
        self._uvarint(count)
        with source.block(f"if {count} * 2 > end - pos or {count} > {MAX_TAGS}:"):
            source.line(f'raise bad_length("tagged fields", {count})')
        source.line(f"{last} = -1")
        with source.block(f"for _ in range({count}):"):
            self._uvarint(tag)
            self._uvarint(size)
            source.line(f"{stop} = pos + {size}")
            with source.block(f"if {tag} <= {last} or {stop} > end:"):
                source.line(f"raise bad_tag({cls.__name__!r}, {tag})")
            source.line(f"{last} = {tag}")
            for number, spec in enumerate(tagged):
                with source.block(f"{'el' if number else ''}if {tag} == {spec.tag}:"):
                    self._tagged_field(spec, f"{var}.{spec.name}")
                    with source.block(f"if pos != {stop}:"):
                        source.line(f"raise bad_tag({cls.__name__!r}, {tag})")
            with source.block("else:"):
                source.line(f"pos = {stop}")

    def _tagged_field(self, spec: FieldSpec, target: str) -> None:
        if spec.kind in FORMATS and not spec.is_array:
            self._run.append((spec.kind, target))
            self._flush()
        else:
            self._field(spec, target)

    def _uvarint(self, name: str) -> None:
        self._source.line(f"{name} = buf[pos]")
        self._source.line("pos += 1")
        with self._source.block(f"if {name} > 127:"):
            self._source.line(f"{name}, pos = uvarint(buf, pos, {name})")


def _element_of(spec: FieldSpec) -> FieldSpec:
    """The specification of one element of an array of strings: never null."""

    return replace(spec, is_array=False, nullable=NO_VERSIONS)
