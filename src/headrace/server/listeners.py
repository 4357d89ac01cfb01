"""Which sockets does a node listen on, and what is served there?"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

from headrace.broker.api_table import ApiRow
from headrace.broker.connection import Connection, Surface
from headrace.core.errors import OperatorError
from headrace.core.listener import Listener as ListenerConfig
from headrace.core.listener import SecurityProtocol
from headrace.core.node_config import NodeConfig
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.ports import FrameHandler
from headrace.net.protocol import ServerConnection
from headrace.net.spinning import Spinner


class NodeListeners:
    """The listeners of one node; buffers and limits are shared among them.

    Controller listeners count their connections apart: clients cannot use up the quorum's (S95).
    """

    def __init__(self, config: NodeConfig, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._now_ms = now_ms
        self._shared = SharedByListeners(
            pool=BufferPool(), memory=RequestMemory(config.queued_max_request_bytes), spinner=Spinner()
        )
        self._counters = {True: ConnectionCounter(), False: ConnectionCounter()}
        self._surfaces: dict[str, Surface] = {}
        self._listeners: dict[str, Listener] = {}
        self.is_shut: Callable[[], bool] = lambda: False
        """Whether clients are turned away at present; the controllers' listeners never are."""

    async def bind(self, configured: ListenerConfig) -> ListenerConfig:
        """Take the address; returns it with the port that is really bound. Raises OperatorError."""
        if configured.security_protocol is not SecurityProtocol.PLAINTEXT:
            raise OperatorError(
                f"listener {configured}: {configured.security_protocol.name} is not supported yet; use PLAINTEXT"
            )
        listener = Listener(
            configured.name,
            lambda connection, number: self._connection(configured.name, connection, number),
            limits=connection_limits(self._config),
            shared=self._shared,
            counter=self._counters[configured.name in self._config.controller_listener_names],
        )
        try:
            await listener.bind(configured.host or None, configured.port)
        except OSError as error:
            raise OperatorError(f"listener {configured} cannot be opened: {error.strerror or error}") from error
        self._listeners[configured.name] = listener
        return configured._replace(port=listener.port)

    async def serve(
        self,
        name: str,
        rows: tuple[ApiRow, ...],
        target: Any,
        *,
        refuses: tuple[ApiRow, ...] = (),
        on_closed: Callable[[int], None] | None = None,
    ) -> None:
        """Accept connections on a bound listener and answer `rows` with `target`; `on_closed` is told the number of each that is gone."""
        self._surfaces[name] = Surface(
            listener=name,
            rows={row.key: row for row in rows},
            target=target,
            now_ms=self._now_ms,
            is_controller_listener=name in self._config.controller_listener_names,
            refuses={row.key: row for row in refuses},
            max_in_flight=self._config.headrace_max_requests_in_flight,
            on_closed=on_closed,
            is_shut=_never if name in self._config.controller_listener_names else lambda: self.is_shut(),
        )
        await self._listeners[name].start()

    async def close(self, names: tuple[str, ...]) -> None:
        """Close some listeners and their connections."""
        for name in names:
            listener = self._listeners.pop(name, None)
            if listener is not None:
                await listener.close()

    def follow(self, config: NodeConfig) -> None:
        """Settings were changed while the node runs: new limits hold from the next connection and frame on."""
        limits = connection_limits(config)
        for listener in self._listeners.values():
            listener.limits = limits

    def names(self) -> tuple[str, ...]:
        """Those that are bound."""
        return tuple(self._listeners)

    def _connection(self, name: str, connection: ServerConnection, number: int) -> FrameHandler:
        return Connection(self._surfaces[name], connection, client_host=connection.host, connection_id=number)


def _never() -> bool:
    """The quorum is served always."""
    return False


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    """The limits that the settings say. Socket buffers are the system's own unless the file sets them."""
    given = config.originals
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        per_ip_overrides=_overrides(config.max_connections_per_ip_overrides),
        max_creation_rate=config.max_connection_creation_rate,
        idle_timeout_ms=config.connections_max_idle_ms,
        frame_timeout_ms=config.headrace_frame_timeout_ms,
        slow_reader_timeout_ms=2 * config.headrace_frame_timeout_ms,
        max_unsent_bytes=min(config.headrace_max_unsent_bytes, 4 << 20),
        send_buffer_bytes=config.socket_send_buffer_bytes if "socket.send.buffer.bytes" in given else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in given else -1,
        backlog=config.socket_listen_backlog_size,
    )


def _overrides(text: str) -> dict[str, int]:
    """`host:count` pairs of `max.connections.per.ip.overrides`; host names become addresses."""
    found = {}
    for part in text.split(","):
        host, colon, count = part.strip().rpartition(":")
        if colon:
            try:
                found[socket.gethostbyname(host)] = int(count)
            except (OSError, ValueError) as error:
                raise OperatorError(f"max.connections.per.ip.overrides: {part.strip()}: {error}") from error
    return found
