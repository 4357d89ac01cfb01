"""Are two runs the same, step by step? A digest over all steps, equal in every process that runs the same seed.

The cheap digest takes of each step its time, node, kind, the type of its event, and the numbers of the node's state afterwards; the full
one takes the whole event and all effects as well. Neither uses `hash` of text, nor anything that depends on memory addresses.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from headrace.sim.observation import Step

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
            self._digest.update(repr(event).encode())
            for change in step.changes:
                self._digest.update(repr(change).encode())

    def digest(self) -> str:
        """32 hexadecimal digits."""
        return self._digest.hexdigest()
