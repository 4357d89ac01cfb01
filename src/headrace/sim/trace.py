"""The trace of a run: a digest over all steps, equal in every process that runs the same seed.

The cheap digest takes of each step its time, node, kind, the type of its event, and the numbers of the node's state afterwards; the full
one takes the whole event and all effects as well. Neither uses `hash` of text, nor anything that depends on memory addresses.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from operator import attrgetter
from struct import Struct
from types import NoneType
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from headrace.metadata.image import MetadataImage

if TYPE_CHECKING:
    from headrace.sim.observation import Step


_ways: Final[dict[type, Callable[[Any], str]]] = {}
"""By class, found once: a run has millions of values."""


def told(value: Any) -> str:
    """A whole value as text that is the same in every process: bytes by their checksum, an image by how far it goes, sets in order."""
    kind = type(value)
    return (_ways.get(kind) or _new_way(kind))(value)


def _new_way(kind: type[Any]) -> Callable[[Any], str]:
    """The same for a class that was not told of before."""
    way = _ways[kind] = _way_to_tell(kind)
    return way


def _way_to_tell(kind: type[Any]) -> Callable[[Any], str]:
    """What makes the text of a value of this class."""
    if issubclass(kind, bytes | bytearray | memoryview):
        return lambda value: f"b{len(value)}:{crc32(value)}"
    if issubclass(kind, str | int | float | NoneType):
        return repr
    if issubclass(kind, MetadataImage):
        return lambda value: told(value.provenance)
    if issubclass(kind, frozenset | set):
        return lambda value: f"{{{','.join(sorted(told(each) for each in value))}}}"
    if issubclass(kind, tuple | list | deque):
        return lambda value: f"{kind.__name__}({_listed(value)})"
    if issubclass(kind, Enum):
        return lambda value: str(value.name)
    if is_dataclass(kind):
        parts_of = _parts_of(kind)
        return lambda value: f"{kind.__name__}({_listed(parts_of(value))})"
    return lambda _: kind.__name__


def _listed(values: Iterable[Any]) -> str:
    return ",".join([(_ways.get(type(each)) or _new_way(type(each)))(each) for each in values])


def _parts_of(kind: type[Any]) -> Callable[[Any], tuple[object, ...]]:
    """What gives the values of all fields."""
    names = [each.name for each in fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


_ROW = Struct("<QQiIIqqqI").pack


class Trace:
    """The digest so far. With `is_full`, events and effects go into it whole."""

    __slots__ = ("_digest", "_kinds", "is_full")

    def __init__(self, *, is_full: bool = False) -> None:
        self._digest = hashlib.blake2b(digest_size=16)
        self._kinds: dict[type, int] = {}
        self.is_full = is_full

    def take(self, step: Step) -> None:
        """One more step."""
        node, event = step.node, step.event
        kind = type(event)
        code = self._kinds.get(kind)
        if code is None:
            code = self._kinds[kind] = crc32(kind.__qualname__.encode())
        raft, log = node.raft, node.log
        self._digest.update(
            _ROW(
                step.number,
                step.at_us,
                node.node_id,
                step.kind,
                code,
                -1 if raft is None else raft.epoch,
                -1 if log is None else log.log_end_offset,
                -1 if log is None else log.high_watermark,
                len(step.changes),
            )
        )
        if self.is_full:
            self._digest.update(told(event).encode())
            for change in step.changes:
                self._digest.update(told(change).encode())
            for machine in step.machines:
                self._digest.update(told(machine).encode())

    def digest(self) -> str:
        """32 hexadecimal digits."""
        return self._digest.hexdigest()
