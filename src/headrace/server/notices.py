"""What an operator is warned of: each thing once a minute at most, and a quorum that has no leader once that lasts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from headrace.core.notice import Notice
from headrace.net.closed_log import printable
from headrace.storage.log_store import LogStore

_LOG = logging.getLogger("headrace.server")
WARN_AGAIN_S: Final = 60.0
LEADERLESS_S: Final = 5.0
"""An election takes less."""
NOTES_SHOWN: Final = 3
SUBJECTS_KEPT: Final = 1_000


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


class Story:
    """What happens to the cluster and its groups, one line each, few enough that no client can fill the log with them.

    Of each subject, a group say, six lines at once and one every ten seconds; of all subjects of a kind sixty, and one a second. What was left out is counted in
    the next line of its kind.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[str, _Allowance] = {}
        self._subjects: dict[tuple[str, str], _Allowance] = {}
        self._left_out: dict[str, int] = {}

    def tell(self, notice: Notice) -> None:
        """Write the line, or count it."""
        now, about = self._clock(), notice.about
        if not (self._of_subject(notice, now).take(now) and self._of_kind(about, now).take(now)):
            self._left_out[about] = self._left_out.get(about, 0) + 1
            return
        left_out = self._left_out.pop(about, 0)
        more = f" ({left_out} lines like this were left out)" if left_out else ""
        _LOG.log(logging.WARNING if notice.is_warning else logging.INFO, "%s%s", printable(notice.text), more)

    def _of_kind(self, about: str, now: float) -> _Allowance:
        return self._kinds.setdefault(about, _Allowance(60.0, 1.0, now))

    def _of_subject(self, notice: Notice, now: float) -> _Allowance:
        key = (notice.about, notice.subject)
        known = self._subjects.get(key)
        if known is None:
            if len(self._subjects) >= SUBJECTS_KEPT:
                del self._subjects[next(iter(self._subjects))]
            known = self._subjects[key] = _Allowance(6.0, 0.1, now)
        return known


class _Allowance:
    """Lines that may be written: `most` at once, and so many a second."""

    __slots__ = ("_at", "_left", "_most", "_per_s")

    def __init__(self, most: float, per_s: float, now: float) -> None:
        self._most = self._left = most
        self._per_s = per_s
        self._at = now

    def take(self, now: float) -> bool:
        """Whether one more may be written."""
        self._left = min(self._most, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


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
