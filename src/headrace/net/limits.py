"""Limits of connections: how many there may be, and how long each may keep us waiting."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from headrace.core.values import value_class
from headrace.wire.headers import SMALLEST_REQUEST

_UNLIMITED = 2_147_483_647


@value_class
class ConnectionLimits:
    """Bounds of the connections of one listener, or of a node's links. Sizes are bytes, times milliseconds.

    A frame that has begun must be complete after `frame_timeout_ms` plus its size at `min_frame_bytes_per_s`; output that the peer
    does not read is cut after `slow_reader_timeout_ms`. With an empty `loopback_congestion_control` the machine's own choice is left.
    """

    min_frame_bytes: int = SMALLEST_REQUEST
    max_frame_bytes: int = 104_857_600
    max_connections: int = 2_147_483_647
    max_connections_per_ip: int = 2_147_483_647
    per_ip_overrides: dict[str, int] = field(default_factory=dict)
    idle_timeout_ms: int = 600_000
    max_creation_rate: int = 2_147_483_647
    frame_timeout_ms: int = 30_000
    min_frame_bytes_per_s: int = 16_384
    slow_reader_timeout_ms: int = 60_000
    max_unsent_bytes: int = 4 << 20
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    loopback_congestion_control: str = ""


class ConnectionCounter:
    """Counts connections of the whole node (`max.connections`, `max.connections.per.ip`)."""

    def __init__(self) -> None:
        self.total = 0
        self._by_host: Counter[str] = Counter()
        self._next_s = 0.0

    def opened(self, host: str, limits: ConnectionLimits) -> str | None:
        """Count one more from `host`; or say which limit refuses it, counting nothing."""
        if self.total >= limits.max_connections:
            return f"max.connections={limits.max_connections} is reached"
        per_host = limits.per_ip_overrides.get(host, limits.max_connections_per_ip)
        if self._by_host[host] >= per_host:
            if not self._by_host[host]:
                del self._by_host[host]
            return f"max.connections.per.ip={per_host} is reached for {host}"
        self.total += 1
        self._by_host[host] += 1
        return None

    def wait_s(self, now_s: float, max_creation_rate: int) -> float:
        """How long a new connection must wait before it is read, so that no more than `max_creation_rate` begin in a second (KIP-612).

        A second's worth may come at once; a rate of 0 counts as 1. Call it once a connection.
        """
        if max_creation_rate >= _UNLIMITED:
            return 0.0
        self._next_s = max(self._next_s, now_s) + 1 / max(max_creation_rate, 1)
        return max(0.0, self._next_s - now_s - 1.0)

    def closed(self, host: str) -> None:
        """One from `host` is gone."""
        self.total -= 1
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]
