"""The socket side of a connection, as its request side sees it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from headrace.core.holds import Hold


class SendWatcher(Protocol):
    """Hears when an answer leaves."""

    def sending(self) -> None:
        """It is given to the socket."""

    def sent(self) -> bool:
        """The socket took everything that was given to it; False if this answer was not among it."""


class Output(Protocol):
    """The socket side of the connection; see `headrace.net.ports.ConnectionOut`."""

    holds: set[Hold]
    pieces: list[Any]
    stopwatch: Callable[[], float] | None
    """Seconds, where requests are timed: `turn_began` is kept then."""
    turn_began: float
    """When the frames of the present turn began to be delivered."""

    def flush(self) -> None:
        """Send what is in `pieces`."""

    def flush_soon(self) -> None:
        """The same at the end of this turn, together with what comes until then."""

    def keep_frame(self) -> None:
        """Called from `frame`: its view stays valid, because its buffer is not used again."""

    def when_sent(self, watcher: SendWatcher) -> None:
        """Tell it when what is in `pieces` leaves."""

    def hold(self, reason: Hold) -> None:
        """Deliver no further frame while this reason lasts."""

    def release(self, reason: Hold) -> None:
        """This reason is gone: deliver frames that were held back, unless another one lasts."""

    def close(self, reason: str) -> None:
        """Close the connection; `reason` is logged."""

    def abort(self, reason: str) -> None:
        """The same without sending what waits."""
