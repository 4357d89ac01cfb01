"""What connections have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.limits import ConnectionLimits
from headrace.net.turn_shares import TurnShares


class ConnectionShared(Protocol):
    """What a connection shares with others of its listener, or of its node; `turn_time` is the loop's clock in seconds, as coarse as the owner's sweeps."""

    limits: ConnectionLimits
    pool: BufferPool
    shares: TurnShares
    memory: RequestMemory
    turn_time: float

    def now(self) -> float:
        """Seconds on the loop's clock."""

    def soon(self, callback: Callable[[], None]) -> None:
        """Let others have their turn first."""

    def served(self) -> None:
        """Frames of a connection were handled just now."""
