"""Descriptors of this process that are kept for files: what is opened for a moment opens when sockets have taken all others."""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from weakref import ref

T = TypeVar("T")


class Resting(Protocol):
    """A segment that is no longer written."""

    is_resting: bool

    def let_go_of_file(self) -> None:
        """Close the log's file as soon as nobody reads it any more."""


SPARES: Final = 32
"""Descriptors kept: four threads write checkpoints, snapshots and indexes, each with a file and its directory open, and the event loop rolls segments."""
MOST_OPEN_AT_REST: Final = 512
"""So many segments that are only read keep their files open; who reads the thousands of a log from its beginning takes no more."""
_opened: deque[ref[Resting]] = deque()
_NONE_LEFT: Final = (errno.EMFILE, errno.ENFILE)
_spares: list[int] = []
_wanted = 0


def opened_again(segment: Resting) -> None:
    """The file of a segment at rest was opened for a reader: the one that was opened first of many is closed."""
    _opened.append(ref(segment))
    while len(_opened) > MOST_OPEN_AT_REST:
        first = _opened.popleft()()
        if first is not None and first.is_resting:
            first.let_go_of_file()


def keep_spare_descriptors(count: int = SPARES) -> None:
    """Take descriptors now, for later. Once a process, when it starts; 0 gives them back."""
    global _wanted
    _wanted = count
    while _spares and len(_spares) > count:
        os.close(_spares.pop())
    _refill()


def with_spares(use: Callable[[], T]) -> T:
    """What `use` gives, which needs a descriptor: one that was kept, when there is no other. Raises OSError as `use` does."""
    if len(_spares) < _wanted:
        _refill()
    while True:
        try:
            return use()
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
            try:
                spare = _spares.pop()
            except IndexError:
                raise error from None
            os.close(spare)


def open_descriptor(path: str, flags: int) -> int:
    """As `os.open`, with a spare one when there is no other; a start opens some for each log, so what is usual comes first. Raises OSError."""
    if len(_spares) >= _wanted:
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
    return with_spares(lambda: os.open(path, flags, 0o644))


def _refill() -> None:
    """Take back what was given away, as far as there are any; the last free one is left for who asks now."""
    try:
        while len(_spares) < _wanted:
            _spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        if _spares:
            os.close(_spares.pop())
