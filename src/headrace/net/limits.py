"""Limits of connections: how many there may be, and how long each may keep us waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import field

from headrace.core.values import value_class
from headrace.net.creation_rate import UNLIMITED, CreationRate
from headrace.wire.headers import SMALLEST_REQUEST


@value_class
class ConnectionLimits:
    """Bounds of the connections of one listener, or of a node's links. Sizes are bytes, times milliseconds.

    A frame that has begun must be complete after `frame_timeout_ms` plus its size at `min_frame_bytes_per_s`; output that the peer
    does not read is cut after `slow_reader_timeout_ms`. With an empty `loopback_congestion_control` the machine's own choice is left.
    `max_of_listener` and `creation_rate_of_listener` are this listener's alone; where it `is_protected`, as brokers' own is, what other listeners
    take of the whole node's (`max_connections`, `max_creation_rate`) keeps nobody out of it (KIP-402, KIP-612).
    """

    min_frame_bytes: int = SMALLEST_REQUEST
    max_frame_bytes: int = 104_857_600
    max_connections: int = UNLIMITED
    max_of_listener: int = UNLIMITED
    max_connections_per_ip: int = UNLIMITED
    per_ip_overrides: dict[str, int] = field(default_factory=dict)
    idle_timeout_ms: int = 600_000
    max_creation_rate: int = UNLIMITED
    creation_rate_of_listener: int = UNLIMITED
    is_protected: bool = False
    frame_timeout_ms: int = 30_000
    min_frame_bytes_per_s: int = 16_384
    slow_reader_timeout_ms: int = 60_000
    max_unsent_bytes: int = 4 << 20
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    loopback_congestion_control: str = ""

    def most_of(self, host: str) -> int:
        """How many connections a host may have."""
        return self.per_ip_overrides.get(host, self.max_connections_per_ip)


class ConnectionCounter:
    """Counts connections of the whole node (`max.connections`, `max.connections.per.ip`)."""

    def __init__(self) -> None:
        self.total = 0
        self.rate = CreationRate()
        self.on_closed: list[Callable[[], None]] = []
        """Called when there is room for one more."""
        self._by_host: Counter[str] = Counter()

    def lack(self, limits: ConnectionLimits, *, of_listener: int) -> str | None:
        """Which limit leaves no room for one more, where its listener has so many; None: there is room."""
        if self.total >= limits.max_connections and not limits.is_protected:
            return f"max.connections={limits.max_connections} is reached"
        if of_listener >= limits.max_of_listener:
            return f"the listener's own max.connections={limits.max_of_listener} is reached"
        return None

    def of_host(self, host: str) -> int:
        """How many a host has."""
        return self._by_host.get(host, 0)

    def opened(self, host: str, limits: ConnectionLimits, *, of_listener: int) -> str | None:
        """Count one more from `host`, where its listener has so many; or say which limit refuses it, counting nothing."""
        lack = self.lack(limits, of_listener=of_listener)
        if lack is not None:
            return lack
        per_host = limits.most_of(host)
        if self.of_host(host) >= per_host:
            return f"max.connections.per.ip={per_host} is reached for {host}"
        self.total += 1
        self._by_host[host] += 1
        return None

    def closed(self, host: str) -> None:
        """One from `host` is gone."""
        self.total -= 1
        self._by_host[host] -= 1
        if self._by_host[host] <= 0:
            del self._by_host[host]
        for each in self.on_closed:
            each()
