"""Lines about connections that the node closed, or lets wait, few enough that no peer can fill the log with them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

_LOG = logging.getLogger("headrace.net")
_BURST = 10
_AGAIN_S = 60.0
_MOST_KINDS = 1_000
_MAX_TEXT = 300
_NUMBERS = re.compile(r"\d+")


def printable(text: str) -> str:
    """Text from a peer, safe for one line of a log: control characters escaped, length bounded."""
    shown = text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + "..."


class ClosedConnectionLog:
    """The first of its kind at once, then one line a minute with the count of the others; never more than ten lines a second.

    A kind is a host, a reason without its numbers, and a hint.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._written = 0
        self._left_out = 0
        self._kinds: dict[tuple[str, str, str | None], list[float]] = {}
        """By kind: when a line may be written again, and how many were left out since the last one."""

    def closed(self, *, listener: str, peer: str, reason: str, hint: str | None = None) -> None:
        """Say that the node closed a connection, and why."""
        now = self._clock()
        left_out = self._turn(now, (peer.rpartition(":")[0], _NUMBERS.sub("#", reason[:_MAX_TEXT]), hint))
        if left_out is None or not self._has_burst(int(now)):
            return
        text = printable(reason)
        if hint:
            text = f"{text} ({hint})"
        if left_out:
            text = f"{text}; so were {left_out} more of this host"
        _LOG.warning("closed connection from %s on %s: %s", peer, listener, text)

    def waits(self, *, listener: str, peer: str, reason: str) -> None:
        """Say that a new connection waits until there is room, and why."""
        now = self._clock()
        left_out = self._turn(now, (peer.rpartition(":")[0], reason, "waits"))
        if left_out is not None and self._has_burst(int(now)):
            _LOG.warning("a connection from %s on %s waits: %s", peer, listener, reason)

    def _turn(self, now: float, kind: tuple[str, str, str | None]) -> int | None:
        """How many of this kind were left out before this one, which has its turn; None if it is left out too."""
        known = self._kinds.get(kind)
        if known is not None and now < known[0]:
            known[1] += 1
            return None
        if known is None and len(self._kinds) >= _MOST_KINDS:
            self._kinds = {each: turn for each, turn in self._kinds.items() if now < turn[0]}
            if len(self._kinds) >= _MOST_KINDS:
                return 0  # the bound on lines a second holds for it
        self._kinds[kind] = [now + _AGAIN_S, 0]
        return 0 if known is None else int(known[1])

    def _has_burst(self, second: int) -> bool:
        if second != self._second:
            if self._left_out:
                _LOG.warning("%d more connections were closed for bad input", self._left_out)
            self._second, self._written, self._left_out = second, 0, 0
        if self._written >= _BURST:
            self._left_out += 1
            return False
        self._written += 1
        return True
