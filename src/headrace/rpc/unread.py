"""Long responses in memory that their clients have not read yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

MOST_ANSWER_BYTES: Final = 128 << 20
"""Of one answer: that to Metadata about two million partitions of three replicas has 100 MB. A request of a few bytes may ask for much more, naming the same
thing again and again."""
MOST_UNREAD_BYTES: Final = 2 * MOST_ANSWER_BYTES
"""Of all long answers that were made and not read yet: beyond it the connections that have had theirs for longest are closed."""


class LongAnswer:
    """How much there is of one long answer; its pieces count as long as anything refers to one of them."""

    __slots__ = ("_unread", "size")

    def __init__(self, unread: UnreadAnswers, close: Callable[[], None]) -> None:
        self._unread = unread
        self.size = 0
        unread.begin(id(self), close)

    def __del__(self) -> None:
        self._unread.gone(id(self))

    def piece(self, written: bytearray) -> memoryview:
        """The next piece of it: what was written, which is empty then. No piece grows to more than it is, so that none is moved in memory."""
        taken = _Piece(written)
        taken.answer = self
        written.clear()
        self.size += len(taken)
        self._unread.grown(id(self), self.size)
        return memoryview(taken)


class _Piece(bytearray):
    """Bytes of a long answer."""

    __slots__ = ("answer",)
    answer: LongAnswer


class UnreadAnswers:
    """The long answers of one listener, in the order in which they were begun."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._close: dict[int, Callable[[], None]] = {}
        self.bytes = 0

    def begin(self, number: int, close: Callable[[], None]) -> None:
        """An answer of which nothing counts yet; `close` closes its connection."""
        self._sizes[number] = 0
        self._close[number] = close

    def grown(self, number: int, size: int) -> None:
        """It has so many bytes now; others may have to go for it."""
        self.bytes += size - self._sizes[number]
        self._sizes[number] = size
        if self.bytes > MOST_UNREAD_BYTES:
            for oldest in list(self._close):
                if (
                    oldest != number
                    and self.bytes > MOST_UNREAD_BYTES
                    and (close := self._close.pop(oldest, None)) is not None
                ):
                    close()

    def gone(self, number: int) -> None:
        """It was read, or given up."""
        self.bytes -= self._sizes.pop(number, 0)
        self._close.pop(number, None)
