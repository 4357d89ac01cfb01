"""Frames of a stream, however the stream is sliced.

A frame is a length of four bytes, signed, and as many bytes. Lengths are checked before any of the frame is kept, and no
more is ever kept than has come. Source: B1, B-W01. Sockets of a node cut frames in place (`headrace.net.connection_core`), by the same `frame_length`.
"""

from __future__ import annotations

import struct
from typing import Final

from headrace.core.errors import DecodeError
from headrace.wire.headers import SMALLEST_REQUEST

_LENGTH = struct.Struct(">i")

LENGTH_BYTES: Final = 4
"""Bytes of a frame's length, which it does not count."""

SMALLEST_RESPONSE: Final = 4
"""Bytes: a correlation id."""


def check_frame_length(length: int, *, smallest: int, largest: int) -> None:
    """Raises DecodeError for a length that no frame on this connection may have (bytes). Source: B1."""
    if length < smallest:
        raise DecodeError(f"a frame of {length} bytes is too short")
    if length > largest:
        raise DecodeError(f"a frame of {length} bytes is above the limit of {largest}")


def frame_length(buffer: bytes | bytearray | memoryview, position: int = 0, *, smallest: int, largest: int) -> int:
    """The length that stands at `position`, in bytes, checked. Raises DecodeError."""
    length: int = _LENGTH.unpack_from(buffer, position)[0]
    check_frame_length(length, smallest=smallest, largest=largest)
    return length


def framed(body: bytes | bytearray | memoryview) -> bytes:
    """A body with its length before it."""
    return _LENGTH.pack(len(body)) + body


class FrameReader:
    """Cuts a stream into frames. Its owner feeds it whatever arrives, and gets the bodies that are complete."""

    def __init__(self, *, largest: int, smallest: int = SMALLEST_REQUEST) -> None:
        self._largest = largest
        self._smallest = smallest
        self._kept = bytearray()

    @property
    def held(self) -> int:
        """How many bytes of an unfinished frame are kept."""
        return len(self._kept)

    def feed(self, data: bytes) -> list[memoryview]:
        """The frames that `data` completes, without their lengths, in order.

        A frame that lies within `data` is a view onto it; only a frame that came in pieces is copied. Raises DecodeError
        for a forbidden length, and the stream is of no use then.
        """
        found: list[memoryview] = []
        rest = memoryview(data)
        while self._kept and rest:
            size = self._wanted()
            rest = rest[self._keep(rest[: size - len(self._kept)]) :]
            if len(self._kept) == size > _LENGTH.size:
                found.append(memoryview(self._kept)[_LENGTH.size :])
                self._kept = bytearray()
        while len(rest) >= _LENGTH.size:
            end = _LENGTH.size + frame_length(rest, smallest=self._smallest, largest=self._largest)
            if end > len(rest):
                break
            found.append(rest[_LENGTH.size : end])
            rest = rest[end:]
        self._keep(rest)
        if self._kept:
            self._wanted()  # a forbidden length is refused as soon as it is there
        return found

    def _wanted(self) -> int:
        """How many bytes to collect next: the length, or the frame with its length."""
        if len(self._kept) < _LENGTH.size:
            return _LENGTH.size
        return _LENGTH.size + frame_length(self._kept, smallest=self._smallest, largest=self._largest)

    def _keep(self, part: memoryview) -> int:
        self._kept += part
        return len(part)
