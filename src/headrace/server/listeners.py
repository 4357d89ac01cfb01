"""The sockets that a node listens on, and what is served there."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from errno import EADDRINUSE
from heapq import nsmallest
from ipaddress import ip_address
from operator import attrgetter
from typing import Any, NamedTuple

from headrace.config.listener_settings import parse_shared_listeners
from headrace.config.node_config import NodeConfig
from headrace.config.node_rules import parse_ip_overrides
from headrace.core.errors import OperatorError
from headrace.core.listener import Listener as ListenerConfig
from headrace.core.listener import SecurityProtocol
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.closed_log import ClosedConnectionLog
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.ports import FrameHandler
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import TurnShares
from headrace.rpc.apis import ApiRow
from headrace.rpc.connection import Connection
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_work import LongWork
from headrace.rpc.metering import RequestMeter
from headrace.server.descriptors import descriptors_for

_LOG = logging.getLogger("headrace.server")
LEAST_OF_QUORUM = 100
"""Connections that a controller's listener takes in any case, in all, of one host and in a second: each node has some ten."""


class SocketFacts(NamedTuple):
    """The sockets of a node in numbers; `memory_limit` is -1 where there is none."""

    memory_limit: int = -1
    memory_used: int = 0
    expired_connections: int = 0


class NodeListeners:
    """The listeners of one node; buffers and limits are shared among them.

    Controller listeners count their connections and the memory of requests apart: clients cannot use up the quorum's (S95, M6).
    """

    def __init__(self, config: NodeConfig, now_ms: Callable[[], int]) -> None:
        self._config = config
        self._now_ms = now_ms
        pool, shares, poller = BufferPool(), TurnShares(), BusyPoller(config.headrace_network_busy_poll)
        closed_log = ClosedConnectionLog()
        self._shared = {
            is_quorums: SharedByListeners(
                pool=pool,
                shares=shares,
                memory=RequestMemory(config.queued_max_request_bytes),
                poller=poller,
                closed_log=closed_log,
                descriptors=descriptors_for(is_quorums=is_quorums),
            )
            for is_quorums in (True, False)
        }
        self._counters = {True: ConnectionCounter(), False: ConnectionCounter()}
        self._services: dict[str, ListenerService] = {}
        self._listeners: dict[str, Listener] = {}
        self._limits = connection_limits(config)
        self._overrides_text = ""
        self._looking_up: asyncio.Task[None] | None = None
        self.meter: RequestMeter | None = None
        """Counts requests, where somebody wants metrics; set before `serve`."""
        self.is_shut: Callable[[], bool] = lambda: False
        """Whether clients are turned away at present; the controllers' listeners never are."""

    async def bind(self, configured: ListenerConfig) -> ListenerConfig:
        """Take the address; returns it with the port that is really bound. Raises OperatorError."""
        if configured.security_protocol is not SecurityProtocol.PLAINTEXT:
            raise OperatorError(
                f"listener {configured}: {configured.security_protocol.name} is not supported yet; use PLAINTEXT"
            )
        await self._look_up_at_start()
        is_quorums = configured.name in self._config.controller_listener_names
        listener = Listener(
            configured.name,
            lambda connection, number: self._connection(configured.name, connection, number),
            limits=self._limits_of(configured.name),
            shared=self._shared[is_quorums],
            counter=self._counters[is_quorums],
        )
        if not is_quorums:
            listener.on_sweep = self._close_excess
        at = configured
        try:
            await listener.bind(configured.host or None, configured.port)
            for each in self._also_at(configured.name):
                at = each
                await listener.bind_shared(each.host or None, each.port)
        except OSError as error:
            advice = "stop what listens there, or give listeners another port" if error.errno == EADDRINUSE else ""
            reason = f"{error.strerror or error}: {advice}" if advice else error.strerror or error
            raise OperatorError(f"listener {at} cannot be opened: {reason}") from error
        except ValueError as error:
            raise OperatorError(f"listener {at} cannot be opened: {at.host} is no host name") from error
        self._listeners[configured.name] = listener
        return configured._replace(port=listener.port)

    def _also_at(self, name: str) -> list[ListenerConfig]:
        """Where connections to a listener are taken together with other processes."""
        text = self._config.headrace_shared_listeners
        shared = parse_shared_listeners(text, self._config.broker_listeners) if text else ()
        return [each for each in shared if each.name == name]

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
        is_quorums = name in self._config.controller_listener_names
        memory = self._shared[is_quorums].memory
        self._services[name] = ListenerService(
            listener=name,
            rows={row.key: row for row in rows},
            target=target,
            now_ms=self._now_ms,
            is_controller_listener=is_quorums,
            refuses={row.key: row for row in refuses},
            max_in_flight=self._config.headrace_max_requests_in_flight,
            on_closed=on_closed,
            meter=self.meter,
            long_work=LongWork(
                soon=asyncio.get_running_loop().call_soon,
                clock=time.perf_counter,
                held=None
                if is_quorums
                else memory.changed,  # a quorum's requests may wait for others of the same listener
            ),
            is_shut=(lambda: self.is_shut()) if self._may_be_shut(name) else None,
        )
        await self._listeners[name].start()

    async def close(self, names: tuple[str, ...]) -> None:
        """Close some listeners and their connections."""
        if self._looking_up is not None:
            self._looking_up.cancel()
        for name in names:
            listener = self._listeners.pop(name, None)
            if listener is not None:
                await listener.close()

    def follow(self, config: NodeConfig) -> None:
        """Settings were changed while the node runs: new limits hold from the next connection and frame on, those of hosts once they are found.

        Where `max.connections` is less than there are, some are closed (KIP-402).
        """
        self._config = config
        text = config.max_connections_per_ip_overrides
        known = self._limits.per_ip_overrides if text == self._overrides_text else {}
        self._use(replace(connection_limits(config), per_ip_overrides=known))
        if text != self._overrides_text:
            self._overrides_text = text
            if self._looking_up is not None:
                self._looking_up.cancel()
            self._looking_up = asyncio.get_running_loop().create_task(self._look_up(text))

    def _use(self, limits: ConnectionLimits) -> None:
        self._limits = limits
        for name, listener in self._listeners.items():
            listener.limits = self._limits_of(name)

    def _limits_of(self, name: str) -> ConnectionLimits:
        """A listener's limits: the node's, and its own, which are as many where nothing else is set. Brokers' own listener is protected where clients have another (KIP-402)."""
        config = self._config
        limits = replace(
            self._limits,
            max_of_listener=config.max_connections_of_listeners.get(name, config.max_connections),
            creation_rate_of_listener=config.creation_rates_of_listeners.get(name, config.max_connection_creation_rate),
            is_protected=name == config.inter_broker_listener_name and len(config.broker_listeners) > 1,
        )
        return limits_of_quorum(limits) if name in config.controller_listener_names else limits

    def _close_excess(self) -> None:
        """Close clients' connections that were silent longest, where there are more than `max.connections` (KIP-402).

        There are when it is lowered, and when brokers take connections for themselves beyond it.
        """
        most = self._limits.max_connections
        if self._counters[False].total <= most:
            return
        quorums = self._config.controller_listener_names
        is_open = [
            (each, listener.limits.is_protected)
            for name, listener in self._listeners.items()
            if name not in quorums
            for each in listener.connections
            if not each.is_closed
        ]
        may_go = (each for each, is_protected in is_open if not is_protected)
        for each in nsmallest(len(is_open) - most, may_go, key=attrgetter("active_at")):
            each.close(f"max.connections={most} is reached, and it was silent for longer than others")

    async def _look_up_at_start(self) -> None:
        """The hosts of `max.connections.per.ip.overrides`. Raises OperatorError: nobody knows one, as in Kafka."""
        text = self._config.max_connections_per_ip_overrides
        if text != self._overrides_text:
            found, unknown = await by_address(parse_ip_overrides(text))
            if unknown:
                raise OperatorError(f"max.connections.per.ip.overrides: nobody knows the host {unknown[0]}")
            self._overrides_text = text
            self._use(replace(self._limits, per_ip_overrides=found))

    async def _look_up(self, text: str) -> None:
        """The same while the node runs: the change is made already, so a host that nobody knows has no limit of its own."""
        found, unknown = await by_address(parse_ip_overrides(text))
        self._use(replace(self._limits, per_ip_overrides=found))
        if unknown:
            _LOG.warning(
                "max.connections.per.ip.overrides: nobody knows %s: no limits of their own", ", ".join(unknown)
            )

    def connections(self) -> list[tuple[str, int, int]]:
        """Of each listener its name, how many connections it has now, and how many it took since the start."""
        return [(name, len(each.connections), each.accepted) for name, each in self._listeners.items()]

    def facts(self) -> SocketFacts:
        """Memory that requests take and may take, on the broker's listeners; connections that were closed because they were idle."""
        memory = self._shared[False].memory
        held = sum(each.memory.held for each in self._shared.values())
        return SocketFacts(memory.limit, held, sum(each.expired for each in self._listeners.values()))

    def names(self) -> tuple[str, ...]:
        """Those that are bound."""
        return tuple(self._listeners)

    def _may_be_shut(self, name: str) -> bool:
        """Only clients are turned away, and only where that was asked for; the quorum is served always."""
        return self._config.headrace_self_fencing == "always" and name not in self._config.controller_listener_names

    def _connection(self, name: str, connection: ServerConnection, number: int) -> FrameHandler:
        return Connection(self._services[name], connection, client_host=connection.host, connection_id=number)


def connection_limits(config: NodeConfig) -> ConnectionLimits:
    """The limits that the settings say, but for those of single hosts. Socket buffers are the system's own unless the file sets them."""
    given = config.originals
    return ConnectionLimits(
        max_frame_bytes=config.socket_request_max_bytes,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_creation_rate=config.max_connection_creation_rate,
        idle_timeout_ms=config.connections_max_idle_ms,
        frame_timeout_ms=config.headrace_frame_timeout_ms,
        slow_reader_timeout_ms=2 * config.headrace_frame_timeout_ms,
        send_buffer_bytes=config.socket_send_buffer_bytes if "socket.send.buffer.bytes" in given else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if "socket.receive.buffer.bytes" in given else -1,
        backlog=config.socket_listen_backlog_size,
        loopback_congestion_control=config.headrace_loopback_congestion_control,
    )


def limits_of_quorum(limits: ConnectionLimits) -> ConnectionLimits:
    """The same for a controller's listener: whatever is set for connections, those of the quorum come through, and of who sets it right."""
    return replace(
        limits,
        max_connections=max(limits.max_connections, LEAST_OF_QUORUM),
        max_connections_per_ip=max(limits.max_connections_per_ip, LEAST_OF_QUORUM),
        per_ip_overrides={host: max(count, LEAST_OF_QUORUM) for host, count in limits.per_ip_overrides.items()},
        max_creation_rate=max(limits.max_creation_rate, LEAST_OF_QUORUM),
        max_of_listener=max(limits.max_of_listener, LEAST_OF_QUORUM),
        creation_rate_of_listener=max(limits.creation_rate_of_listener, LEAST_OF_QUORUM),
    )


async def by_address(counts: Mapping[str, int]) -> tuple[dict[str, int], list[str]]:
    """Counts by the addresses of the hosts they are given for, and the hosts that nobody knows."""
    found: dict[str, int] = {}
    unknown: list[str] = []
    for host, count in counts.items():
        try:
            found[str(ip_address(host))] = count
            continue
        except ValueError:
            pass
        try:
            addresses = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            unknown.append(host)
        else:
            found |= {str(address[0]): count for *_, address in addresses}
    return found, unknown
