"""The clock of this process."""

from __future__ import annotations

import time


class ProcessClock:
    """The clocks of `broker.ports.Clock`.

    `now_ms` starts at the wall clock's value and then runs with the monotonic clock, so leases do not follow jumps (C14, K24).
    """

    def __init__(self) -> None:
        self._offset_s = time.time() - time.monotonic()

    def now_ms(self) -> int:
        """Milliseconds that never go back."""
        return int((time.monotonic() + self._offset_s) * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(time.time() * 1000)
