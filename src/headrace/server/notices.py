"""What an operator is warned of: each thing once a minute at most, and a quorum that has no leader once that lasts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from headrace.storage.log_store import LogStore

_LOG = logging.getLogger("headrace.server")
WARN_AGAIN_S: Final = 60.0
LEADERLESS_S: Final = 5.0
"""An election takes less."""
NOTES_SHOWN: Final = 3


class Warnings:
    """Lines for the log that would otherwise fill it."""

    def __init__(self) -> None:
        self._again_at: dict[str, float] = {}

    def say(self, text: str) -> None:
        """Tell the operator; the same again only after a minute."""
        now = asyncio.get_running_loop().time()
        if now >= self._again_at.get(text, 0.0):
            self._again_at = {said: at for said, at in self._again_at.items() if now < at}
            self._again_at[text] = now + WARN_AGAIN_S
            _LOG.warning("%s", text)


class QuorumWatch:
    """Tells of a quorum without a leader, once that lasts (S4-24), and goes on every minute."""

    def __init__(self, *, is_served: Callable[[], bool], trouble: Callable[[], str]) -> None:
        self._is_served = is_served
        self._trouble = trouble
        self._since_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def look(self) -> None:
        """Something happened: is there a leader?"""
        if self._is_served():
            self._since_s = None
        elif self._since_s is None:
            loop = asyncio.get_running_loop()
            self._since_s = loop.time()
            if self._timer is None:
                self._timer = loop.call_later(LEADERLESS_S, self._tell)

    def end(self) -> None:
        """The node stops."""
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self) -> None:
        loop, self._timer = asyncio.get_running_loop(), None
        self.look()
        if self._since_s is None:
            return
        wait_s = self._since_s + LEADERLESS_S - loop.time()
        if wait_s <= 0:
            _LOG.warning("%s", self._trouble())
            wait_s = WARN_AGAIN_S
        self._timer = loop.call_later(wait_s, self._tell)


def recovery_lines(logs: LogStore) -> list[str]:
    """What the start of the logs did: one line, and one for what was amiss, however many partitions it was."""
    how = "after a clean stop" if logs.previous_broker_epoch >= 0 else "checked from their recovery points"
    lines = [f"{len(logs.logs())} logs in {len(logs.directories())} log directories are loaded, {how}"]
    notes = logs.notes
    if notes:
        more = f" (and {len(notes) - NOTES_SHOWN} more, at the level DEBUG)" if len(notes) > NOTES_SHOWN else ""
        lines.append(f"found amiss, and mended where it can be: {'; '.join(notes[:NOTES_SHOWN])}{more}")
    return lines
