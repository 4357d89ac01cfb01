"""Which messages are there, and what does one with arbitrary content look like?"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Iterator
from functools import cache
from typing import Any

from headrace import wire
from headrace.core.ids import Uuid
from headrace.wire.schema import FieldSpec, Message, Struct, fields_of
from headrace.wire.source import Layout

FOLDERS = (
    "messages", "metadata_records", "raft_records", "group_records", "transaction_records", "share_records", "protocols",
)  # fmt: skip
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TEXTS = ("", "a", "topic-1", "ünï", "\U0001f30a wave", "x" * 130)


@cache
def all_messages() -> tuple[type[Message], ...]:
    """Every message class of the wire package, by name."""
    found: dict[str, type[Message]] = {}
    for folder in FOLDERS:
        package = importlib.import_module(f"{wire.__name__}.{folder}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for value in vars(module).values():
                if isinstance(value, type) and issubclass(value, Message) and value.__module__ == module.__name__:
                    found[value.__name__] = value
    return tuple(found[name] for name in sorted(found))


def all_versions() -> Iterator[tuple[type[Message], int]]:
    """Every message in every version that it has."""
    for cls in all_messages():
        for version in range(cls.SCHEMA.versions.first, cls.SCHEMA.versions.last + 1):
            yield cls, version


FIRST_PROJECT_TAG = 10_000
"""Tagged fields from here on are the project's own."""


def sample(cls: type[Message], version: int, rng: random.Random, *, depth_limit: int = 3, tame: bool = False) -> Any:
    """A message whose fields have arbitrary values that this version can carry; the others are at their defaults.

    With `tame` all numbers are from 0 to 100, so that they are known error codes and sane times, too, and the project's own tagged fields are at
    their defaults: other libraries know nothing of them.
    """
    return _struct(Layout(cls, version), cls, _Tame(rng.random()) if tame else rng, depth_limit)


def error_codes(value: object) -> Iterator[int]:
    """Every error code in a message, at any depth."""
    if isinstance(value, Struct):
        for spec in fields_of(type(value)):
            part = getattr(value, spec.name)
            if spec.name == "error_code":
                yield part
            else:
                yield from error_codes(part)
    elif isinstance(value, tuple):
        for part in value:
            yield from error_codes(part)


class _Tame(random.Random):
    """Draws small numbers only."""

    def choice(self, seq: Any) -> Any:
        return self.randint(0, 100) if all(type(value) is int for value in seq) else super().choice(seq)


def _struct(layout: Layout, cls: type[Struct], rng: random.Random, room: int) -> Struct:
    values = {}
    for spec in fields_of(cls):
        if isinstance(rng, _Tame) and (spec.tag or 0) >= FIRST_PROJECT_TAG:
            continue
        if layout.is_present(spec) and not (layout.is_tagged(spec) and rng.random() < 0.3):
            values[spec.name] = _field(layout, spec, rng, room)
    return cls(**values)


def _field(layout: Layout, spec: FieldSpec, rng: random.Random, room: int) -> object:
    if layout.is_nullable(spec) and rng.random() < 0.2:
        return None
    if spec.is_array:
        count = rng.randint(0, room) if room > 0 else 0
        return tuple(_single(layout, spec, rng, room - 1) for _ in range(count))
    return _single(layout, spec, rng, room)


def _single(layout: Layout, spec: FieldSpec, rng: random.Random, room: int) -> object:
    kind = spec.kind
    if spec.struct is not None:
        return _struct(layout, spec.struct, rng, room)
    if kind in _BITS:
        return _integer(rng, -(1 << _BITS[kind]), (1 << _BITS[kind]) - 1)
    if kind in ("uint16", "uint32"):
        return _integer(rng, 0, (1 << int(kind[4:])) - 1)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "float64":
        return rng.choice((0.0, -1.5, 1e300, 0.1))
    if kind == "uuid":
        return Uuid(rng.randbytes(16))
    if kind == "string":
        return rng.choice(_TEXTS)
    return rng.randbytes(rng.choice((0, 1, 20, 200)))


def _integer(rng: random.Random, low: int, high: int) -> int:
    """Edges of the type as often as anything between. Source: B23."""
    return rng.choice((low, high, max(low, -1), 0, 1, rng.randint(low, high)))
