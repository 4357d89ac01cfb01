"""The trace of a run: a digest over all steps, equal in every process that runs the same seed.

The cheap digest takes of each step its time, node, kind, the type of its event, and the numbers of the node's state afterwards; the full
one takes the whole event and all effects as well. Neither uses `hash` of text, nor anything that depends on memory addresses.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

from headrace.metadata.image import MetadataImage

if TYPE_CHECKING:
    from headrace.sim.observation import Step


def told(value: object) -> str:
    """A whole value as text that is the same in every process: bytes by their checksum, an image by how far it goes, sets in order."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"b{len(value)}:{crc32(value)}"
    if isinstance(value, str | int | float | None):
        return repr(value)
    if isinstance(value, MetadataImage):
        return told(value.provenance)
    if isinstance(value, frozenset | set):
        return f"{{{','.join(sorted(told(each) for each in value))}}}"
    if isinstance(value, tuple | list | deque):
        return f"{type(value).__name__}({','.join([told(each) for each in value])})"
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        parts = [told(getattr(value, name)) for name in _names(type(value))]
        return f"{type(value).__name__}({','.join(parts)})"
    return type(value).__name__


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind))


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
