"""The encoder of one message and version, and how it is made.

The encoder is a function `write(message, out)` that appends to a bytearray. As Kafka's own: a field that the version does
not have must be ignorable or at its default; tagged fields at their default are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final

from headrace.core.errors import EncodeError
from headrace.wire.schema import FIXED_SIZES, NO_VERSIONS, FieldSpec, Message, Struct
from headrace.wire.source import FORMATS, MAX_STRING_BYTES, Layout, Source
from headrace.wire.varint import append_uvarint

Writer = Callable[[Any, bytearray], None]
SteppingWriter = Callable[[Any, bytearray], Generator[None, None, None]]

STEP_BYTES: Final = 8192
"""A stepping writer rests after so many bytes: some hundred parts, a fraction of a millisecond."""
_COPIED_BYTES: Final = 256 << 10
"""Of one long value so much is copied between two rests: a member of a group may say 30 MB of itself, which take as many milliseconds and more."""


def _absent(name: str, version: int) -> EncodeError:
    return EncodeError(f"{name} is set, but version {version} does not have it")


def _null(name: str) -> EncodeError:
    return EncodeError(f"{name} is null")


def _too_long(name: str, length: int) -> EncodeError:
    return EncodeError(f"{name}: a string of {length} bytes is too long")


def _in_parts(value: bytes | memoryview, out: bytearray) -> Generator[None, None, None]:
    """Append a long value."""
    view = memoryview(value)
    for at in range(0, len(view), _COPIED_BYTES):
        out += view[at : at + _COPIED_BYTES]
        yield


def compile_writer(message: type[Message], version: int) -> Writer:
    """The encoder of one version of a message."""
    writer: Writer = _WriterCompiler(Layout(message, version), in_steps=False).compile()
    return writer


def compile_stepping_writer(message: type[Message], version: int) -> SteppingWriter:
    """The same as a generator that rests after every few parts."""
    writer: SteppingWriter = _WriterCompiler(Layout(message, version), in_steps=True).compile()
    return writer


_FEW: Final = 6
"""So many numbers and fewer, the replicas of a partition for example, are packed without a look for their format."""


class _WriterCompiler:
    """Writes the text of one encoder."""

    def __init__(self, layout: Layout, *, in_steps: bool) -> None:
        self._layout = layout
        self._in_steps = in_steps
        self._run: list[tuple[str, str]] = []
        self._out = "out"
        self._source = Source(
            uvarint=append_uvarint, absent=_absent, null=_null, too_long=_too_long, pack=struct.pack, in_parts=_in_parts
        )

    def compile(self) -> Any:
        layout = self._layout
        with self._source.block("def write(m, out):"):
            if self._in_steps:
                self._source.line(f"mark = len(out) + {STEP_BYTES}")
                with self._source.block("if False:"):
                    self._source.line("yield")
            self._struct(layout.message, "m")
        title = f"writer of {layout.message.__name__} v{layout.version}"
        return self._source.compiled("write", title)

    def _struct(self, cls: type[Struct], var: str) -> None:
        source, layout = self._source, self._layout
        for spec in layout.absent_fields(cls):
            if not spec.is_ignorable:
                with source.block(f"if {self._differs(spec, f'{var}.{spec.name}')}:"):
                    source.line(f"raise absent({spec.name!r}, {layout.version})")
        for spec in layout.plain_fields(cls):
            if spec.kind in FORMATS and not spec.is_array:
                self._run.append((spec.kind, f"{var}.{spec.name}"))
            else:
                self._flush()
                self._field(spec, f"{var}.{spec.name}")
        self._flush()
        if layout.is_flexible:
            self._tags(cls, var)
        source.line("pass")

    def _differs(self, spec: FieldSpec, value: str) -> str:
        """The condition that a field is not at its default."""
        default = self._source.named("d", spec.default)
        if spec.default is None:
            return f"{value} is not None"
        if isinstance(spec.default, Struct):
            return f"{value} is not {default} and {value} != {default}"
        return f"{value} != {default}"

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run:
            packed = struct.Struct(">" + "".join(FORMATS[kind] for kind, _ in run))
            values = ", ".join(value for _, value in run)
            self._source.line(f"{self._out} += {self._source.named('s', packed.pack)}({values})")

    def _field(self, spec: FieldSpec, value: str) -> None:
        source = self._source
        var = source.fresh("v")
        source.line(f"{var} = {value}")
        with source.block(f"if {var} is None:"):
            source.line(self._null_of(spec))
        with source.block("else:"):
            self._present(spec, var)

    def _null_of(self, spec: FieldSpec) -> str:
        if not self._layout.is_nullable(spec):
            return f"raise null({spec.name!r})"
        if spec.struct is not None and not spec.is_array:
            return f"{self._out}.append(255)"
        if self._layout.is_compact(spec):
            return f"{self._out}.append(0)"
        return f"{self._out} += {self._source.named('b', self._null_length(spec))}"

    def _null_length(self, spec: FieldSpec) -> bytes:
        return b"\xff" * (2 if spec.kind == "string" and not spec.is_array else 4)

    def _present(self, spec: FieldSpec, var: str) -> None:
        source = self._source
        if spec.is_array:
            self._array(spec, var)
        elif spec.struct is not None:
            if self._layout.is_nullable(spec):
                source.line(f"{self._out}.append(1)")
            self._struct(spec.struct, var)
        elif spec.kind == "string":
            self._string(spec, var)
        else:
            self._length(spec, f"len({var})")
            self._bytes(var)

    def _bytes(self, var: str) -> None:
        source = self._source
        if not self._in_steps or self._out != "out":
            source.line(f"{self._out} += {var}")
            return
        with source.block(f"if len({var}) <= {_COPIED_BYTES}:"):
            source.line(f"out += {var}")
        with source.block("else:"):
            source.line(f"yield from in_parts({var}, out)")
            source.line(f"mark = len(out) + {STEP_BYTES}")

    def _string(self, spec: FieldSpec, var: str) -> None:
        source = self._source
        source.line(f"{var} = {var}.encode()")
        with source.block(f"if len({var}) > {MAX_STRING_BYTES}:"):
            source.line(f"raise too_long({spec.name!r}, len({var}))")
        self._length(spec, f"len({var})")
        source.line(f"{self._out} += {var}")

    def _length(self, spec: FieldSpec, length: str) -> None:
        source = self._source
        if self._layout.is_compact(spec):
            number = source.fresh("n")
            source.line(f"{number} = {length} + 1")
            with source.block(f"if {number} < 128:"):
                source.line(f"{self._out}.append({number})")
            with source.block("else:"):
                source.line(f"uvarint({self._out}, {number})")
        else:
            narrow = spec.kind == "string" and not spec.is_array
            packer = struct.Struct(">h" if narrow else ">i").pack
            source.line(f"{self._out} += {source.named('s', packer)}({length})")

    def _array(self, spec: FieldSpec, var: str) -> None:
        source = self._source
        self._length(spec, f"len({var})")
        if spec.kind in FIXED_SIZES and spec.kind != "uuid":
            code = FORMATS[spec.kind]
            few = source.named("f", tuple(struct.Struct(f">{number}{code}").pack for number in range(_FEW)))
            with source.block(f"if len({var}) < {_FEW}:"):
                source.line(f"{self._out} += {few}[len({var})](*{var})")
            with source.block("else:"):
                source.line(f'{self._out} += pack(">%d{code}" % len({var}), *{var})')
            return
        if spec.kind == "uuid":
            source.line(f'{self._out} += b"".join({var})')
            return
        element = source.fresh("e")
        with source.block(f"for {element} in {var}:"):
            if spec.struct is not None:
                self._struct(spec.struct, element)
            else:
                self._present(replace(spec, is_array=False, nullable=NO_VERSIONS), element)
            if self._in_steps and self._out == "out":
                with source.block("if len(out) > mark:"):
                    source.line("yield")
                    source.line(f"mark = len(out) + {STEP_BYTES}")

    def _tags(self, cls: type[Struct], var: str) -> None:
        source, tagged = self._source, self._layout.tagged_fields(cls)
        if not tagged:
            source.line(f"{self._out}.append(0)")
            return
        count = source.fresh("k")
        source.line(f"{count} = 0")
        for spec in tagged:
            with source.block(f"if {self._differs(spec, f'{var}.{spec.name}')}:"):
                source.line(f"{count} += 1")
        source.line(f"{self._out}.append({count})")
        with source.block(f"if {count}:"):
            for spec in tagged:
                with source.block(f"if {self._differs(spec, f'{var}.{spec.name}')}:"):
                    self._tagged_field(spec, f"{var}.{spec.name}")

    def _tagged_field(self, spec: FieldSpec, value: str) -> None:
        source, outer = self._source, self._out
        assert spec.tag is not None
        source.line(f"uvarint({outer}, {spec.tag})")
        self._out = source.fresh("o")
        source.line(f"{self._out} = bytearray()")
        if spec.kind in FORMATS and not spec.is_array:
            self._run.append((spec.kind, value))
            self._flush()
        else:
            self._field(spec, value)
        source.line(f"uvarint({outer}, len({self._out}))")
        source.line(f"{outer} += {self._out}")
        self._out = outer
