"""Ports of a connection: what its socket side asks of the side that understands requests, and the other way round."""

from __future__ import annotations

from typing import Protocol

from headrace.core.holds import Hold


class ReadableFile(Protocol):
    """An open file."""

    def pread(self, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes from `offset`."""


class FileBytes(Protocol):
    """Bytes in a file, to be sent as they are."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    @property
    def position(self) -> int:
        """Where they begin in the file."""

    @property
    def file(self) -> ReadableFile | None:
        """The file; None when there is nothing to read."""


class FrameHandler(Protocol):
    """Understands requests. `frame` gets one request without its length; the view is valid during the call only."""

    def frame(self, view: memoryview) -> bool:
        """A whole request has arrived. A refusal is said through `ConnectionOut.close`. True when others should have a turn before the next one."""

    def begins(self, head: memoryview, size: int) -> None:
        """Of a long request of `size` bytes the API and its version have come (`head`, 4 bytes), and more is to come: the time to refuse it before it is read."""

    def closed(self) -> None:
        """The connection is gone."""


class SendWatcher(Protocol):
    """Hears when an answer leaves."""

    def sending(self) -> None:
        """It is given to the socket."""

    def sent(self) -> bool:
        """The socket took everything that was given to it; False if this answer was not among it."""


class ConnectionOut(Protocol):
    """The socket side of one connection.

    While there is a reason in `holds` no further frame is delivered. Pieces appended to `pieces` leave in order after the
    running `frame` call; outside of one, `flush` sends them.
    """

    holds: set[Hold]
    pieces: list[bytes | bytearray | memoryview | FileBytes]

    def hold(self, reason: Hold) -> None:
        """Deliver no further frame while this reason lasts."""

    def release(self, reason: Hold) -> None:
        """This reason is gone: deliver frames that were held back, unless another one lasts."""

    def flush(self) -> None:
        """Send what is in `pieces`."""

    def flush_soon(self) -> None:
        """The same at the end of this turn, together with what comes until then."""

    def keep_frame(self) -> None:
        """Called from `frame`: its view stays valid, because its buffer is not used again."""

    def close(self, reason: str) -> None:
        """Close the connection; `reason` is logged."""
