"""The largest request of an API: as many parts as fit, in each of the places where it can have many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
        yield ".".join(path), _maker(layout, cls, path, parts, topic)(0)


def _arrays(layout: Layout, cls: type[Struct], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for spec in fields_of(cls):
        if not layout.is_present(spec):
            continue
        path = (*above, spec.name)
        if spec.is_array:
            yield path
        if spec.struct is not None:
            yield from _arrays(layout, spec.struct, path)


def _maker(layout: Layout, cls: type[Any], path: tuple[str, ...], parts: int, topic: str) -> Callable[[int], Any]:
    """What makes the struct of a number. Most of it is the same for each number, and made once."""
    same: dict[str, Any] = {}
    numbered: dict[str, Callable[[int], Any]] = {}
    for spec in fields_of(cls):
        if not layout.is_present(spec):
            continue
        is_on_path = bool(path) and path[0] == spec.name
        rest = path[1:] if is_on_path else ()
        if spec.is_array:
            count = parts if is_on_path and len(path) == 1 else 1
            same[spec.name] = tuple(map(_element_maker(layout, spec, rest, parts, topic), range(count)))
        elif spec.struct is not None and not layout.is_nullable(spec):
            numbered[spec.name] = _maker(layout, spec.struct, rest, parts, topic)
        elif spec.kind == "string" and not spec.is_key and spec.name in KNOWN_NAMES and len(path) > 0:
            same[spec.name] = topic
        elif spec.kind == "string":
            numbered[spec.name] = _name
        elif spec.kind == "uuid":
            numbered[spec.name] = _uuid
        elif spec.name in ("partition", "partition_index", "partition_id"):
            numbered[spec.name] = int
    return lambda number: cls(**same, **{name: make(number) for name, make in numbered.items()})


def _element_maker(
    layout: Layout, spec: FieldSpec, path: tuple[str, ...], parts: int, topic: str
) -> Callable[[int], Any]:
    if spec.struct is not None:
        return _maker(layout, spec.struct, path, parts, topic)
    if spec.kind == "string":
        return _name
    if spec.kind == "bytes":
        return lambda _: b""
    if spec.kind == "uuid":
        return _uuid
    return (lambda number: number % 100) if spec.kind in ("int8", "bool") else int


def _name(number: int) -> str:
    return f"n{number}"


def _uuid(number: int) -> Uuid:
    return Uuid((number + 1).to_bytes(16, "big"))
