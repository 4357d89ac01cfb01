"""Offsets and times as a user types them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

from headrace.core.errors import OperatorError

_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


class Moment(NamedTuple):
    """A place in a log: an offset, or a time in ms since 1970; the other one is None."""

    offset: int | None
    time_ms: int | None

    def is_after(self, offset: int, time_ms: int) -> bool:
        """Whether the moment is later than a record at this offset, of this time."""
        return offset < self.offset if self.offset is not None else time_ms < (self.time_ms or 0)

    def is_before(self, offset: int, time_ms: int) -> bool:
        """Whether the moment is earlier than the record."""
        return offset > self.offset if self.offset is not None else time_ms > (self.time_ms or 0)

    def __str__(self) -> str:
        return f"offset {self.offset}" if self.offset is not None else iso(self.time_ms or 0)


def parse_moment(text: str, now_ms: int, option: str) -> Moment:
    """An offset, a time (UTC where it names no other zone), or how long ago. Raises OperatorError."""
    if text.isascii() and text.isdigit() and len(text) < 20:
        return Moment(int(text), None)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return Moment(None, now_ms - int(ago[1]) * _UNITS_MS[ago[2]])
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        message = (
            f"{option} {text}: give an offset (4711), a time (2026-11-24T12:03:11), or how long ago (90s, 15m, 2h, 3d)"
        )
        raise OperatorError(message) from None
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return Moment(None, round(when.timestamp() * 1_000))


def iso(time_ms: int) -> str:
    """A time in UTC, in milliseconds; a dash where there is none."""
    if time_ms < 0:
        return "-"
    return datetime.fromtimestamp(time_ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ms % 1_000:03d}"
