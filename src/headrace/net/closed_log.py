"""Why was a connection closed, without a peer being able to flood the log?"""

from __future__ import annotations

import logging
import time

_LOG = logging.getLogger("headrace.net")
_BURST = 10
_MAX_TEXT = 300


def printable(text: str) -> str:
    """Text from a peer, safe for one line of a log: control characters escaped, length bounded."""
    shown = text.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _MAX_TEXT else shown[:_MAX_TEXT] + "..."


class ClosedConnectionLog:
    """One line a closed connection; above ten a second only a count of those left out."""

    def __init__(self) -> None:
        self._second = 0
        self._written = 0
        self._left_out = 0

    def closed(self, *, listener: str, peer: str, reason: str, hint: str | None = None) -> None:
        """Say that the node closed a connection, and why."""
        second = int(time.monotonic())
        if second != self._second:
            if self._left_out:
                _LOG.warning("%d more connections were closed for bad input", self._left_out)
            self._second, self._written, self._left_out = second, 0, 0
        if self._written >= _BURST:
            self._left_out += 1
            return
        self._written += 1
        text = printable(reason)
        if hint:
            text = f"{text} ({hint})"
        _LOG.warning("closed connection from %s on %s: %s", peer, listener, text)
