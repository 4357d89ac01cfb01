"""Passes over all logs of a store, some logs at a time: retention, producers that were silent too long, indexes that nobody reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.storage.stored_log import StoredLog

RETENTION_CHECK_INTERVAL_MS: Final = 300_000
FIRST_RETENTION_CHECK_MS: Final = 30_000
PRODUCER_EXPIRATION_CHECK_INTERVAL_MS: Final = 600_000
IDLE_CHECK_INTERVAL_MS: Final = 60_000
LOGS_A_TURN: Final = 100
"""Of a pass: the first look at a log's retention reads the end of an index of each segment, some tens of microseconds each."""


class Sweeper:
    """Says when a pass is due, and does it in turns. Times are those of the wall clock that the first call tells."""

    def __init__(self, *, retention_ms: int, expiration_ms: int) -> None:
        self._intervals_ms = {
            "retention": retention_ms,
            "producers": expiration_ms,
            "idle": IDLE_CHECK_INTERVAL_MS,
        }
        self._due_ms: dict[str, int] = {}
        self._left: list[tuple[tuple[str, ...], list[StoredLog]]] = []

    @property
    def next_ms(self) -> int:
        """When `turn` has something to do: at once while a pass is under way, or before the first call."""
        return 0 if self._left or not self._due_ms else min(self._due_ms.values())

    def turn(self, logs: Iterable[StoredLog], now_ms: int) -> list[StoredLog]:
        """Begin what is due and do a part of it; the logs that it came by."""
        if not self._due_ms:
            first_ms = min(FIRST_RETENTION_CHECK_MS, self._intervals_ms["retention"])
            self._due_ms = {
                "retention": now_ms + first_ms,
                "producers": now_ms + self._intervals_ms["producers"],
                "idle": now_ms,
            }
        due = tuple(name for name, at_ms in self._due_ms.items() if now_ms >= at_ms)
        if due:
            self._due_ms |= {name: now_ms + self._intervals_ms[name] for name in due}
            self._left.append((due, list(logs)))
        if not self._left:
            return []
        names, waiting = self._left[0]
        now, later = waiting[:LOGS_A_TURN], waiting[LOGS_A_TURN:]
        self._left[:1] = [(names, later)] if later else []
        for log in now:
            if not log.is_closed and not log.owner.is_being_cut:
                _look_after(log, names, now_ms)
        return now


def _look_after(log: StoredLog, names: tuple[str, ...], now_ms: int) -> None:
    if "retention" in names:
        log.delete_old_segments(now_ms)
    if "producers" in names:
        log.expire_producers(now_ms)
    if "idle" in names:
        log.forget_idle_indexes()
