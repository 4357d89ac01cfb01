"""The largest request of an API: as many parts as fit, in each of the places where it can have many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.ids import Uuid
from headrace.wire.schema import FieldSpec, Message, Struct, fields_of
from headrace.wire.source import Layout

KNOWN_NAMES = ("name", "topic", "topic_name")
"""Where a topic is named: one that exists, so that a node has the more to do."""


def largest(cls: type[Message], version: int, *, parts: int, topic: str) -> Iterator[tuple[str, Message]]:
    """For each array of the message: a request in which it has so many elements, and all others one."""
    layout = Layout(cls, version)
    for path in _arrays(layout, cls, ()):
        yield ".".join(path), _made(layout, cls, path, parts, topic, 0)


def _arrays(layout: Layout, cls: type[Struct], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for spec in fields_of(cls):
        if not layout.is_present(spec):
            continue
        path = (*above, spec.name)
        if spec.is_array:
            yield path
        if spec.struct is not None:
            yield from _arrays(layout, spec.struct, path)


def _made(layout: Layout, cls: type[Any], path: tuple[str, ...], parts: int, topic: str, number: int) -> Any:
    values: dict[str, Any] = {}
    for spec in fields_of(cls):
        if not layout.is_present(spec):
            continue
        is_on_path = bool(path) and path[0] == spec.name
        if spec.is_array:
            count = parts if is_on_path and len(path) == 1 else 1
            rest = path[1:] if is_on_path else ()
            values[spec.name] = tuple(_one(layout, spec, rest, parts, topic, each) for each in range(count))
        elif spec.struct is not None and not layout.is_nullable(spec):
            values[spec.name] = _made(layout, spec.struct, path[1:] if is_on_path else (), parts, topic, number)
        elif spec.kind == "string" and not spec.is_key:
            values[spec.name] = topic if spec.name in KNOWN_NAMES and len(path) > 0 else f"n{number}"
        elif spec.kind == "string":
            values[spec.name] = f"n{number}"
        elif spec.kind == "uuid":
            values[spec.name] = Uuid((number + 1).to_bytes(16, "big"))
        elif spec.name in ("partition", "partition_index", "partition_id"):
            values[spec.name] = number
    return cls(**values)


def _one(layout: Layout, spec: FieldSpec, path: tuple[str, ...], parts: int, topic: str, number: int) -> Any:
    if spec.struct is not None:
        return _made(layout, spec.struct, path, parts, topic, number)
    if spec.kind == "string":
        return f"n{number}"
    if spec.kind == "bytes":
        return b""
    if spec.kind == "uuid":
        return Uuid((number + 1).to_bytes(16, "big"))
    return number % 100 if spec.kind in ("int8", "bool") else number
