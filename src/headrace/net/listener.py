"""A listener: who is connected to it, and which of them has been silent or slow for too long."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import field

from headrace.core.values import value_class
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.closed_log import ClosedConnectionLog
from headrace.net.creation_rate import UNLIMITED, CreationRate, left_by_peers
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.ports import FrameHandler
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import TurnShares

_LOG = logging.getLogger("headrace.net")
_SWEEP_S = 0.25

HandlerFactory = Callable[[ServerConnection, int], FrameHandler]


@value_class
class SharedByListeners:
    """What the listeners of one node have in common. `descriptors`: a socket with this number or a higher one is refused, the rest is the node's own."""

    pool: BufferPool
    shares: TurnShares
    memory: RequestMemory
    poller: BusyPoller
    closed_log: ClosedConnectionLog = field(default_factory=ClosedConnectionLog)
    descriptors: int = 2**31


class Listener:
    """One listening endpoint. Driven by `server.run`: `open`, then `close`.

    `counter` may be shared with other listeners, too.
    """

    def __init__(
        self,
        name: str,
        make_handler: HandlerFactory,
        *,
        limits: ConnectionLimits,
        shared: SharedByListeners,
        counter: ConnectionCounter,
    ) -> None:
        self.name = name
        self.limits = limits
        self.pool = shared.pool
        self.shares = shared.shares
        self.memory = shared.memory
        self._poller = shared.poller
        self.served = shared.poller.served
        self.counter = counter
        self.closed_log = shared.closed_log
        self._descriptors = shared.descriptors
        self.turn_time = 0.0
        self.connections: dict[ServerConnection, None] = {}
        self._waiting: dict[ServerConnection, None] = {}
        counter.on_closed.append(self._admit_waiting)
        self.memory.on_exhausted.append(self._memory_exhausted)
        self._make_handler = make_handler
        self._server: asyncio.Server | None = None
        self._shared_server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._next_id = 0
        self._rate = CreationRate()
        self.on_sweep: Callable[[], None] = lambda: None
        """Called several times a second."""
        self.expired = 0
        """How many connections were closed because nothing came on them."""

    @property
    def port(self) -> int:
        """The port that is bound; 0 before `open`."""
        if self._server is None or not self._server.sockets:
            return 0
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def accepted(self) -> int:
        """How many connections were taken since the start, those that were refused left out."""
        return self._next_id

    async def bind(self, host: str | None, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Take the address without accepting yet, so that a taken port is known before anything else is done. Raises OSError."""
        self._loop = asyncio.get_running_loop()
        self._poller.attach(self._loop.call_soon)
        self.turn_time = self._loop.time()
        self._server = await self._loop.create_server(
            lambda: self._accepted(tls),
            host or None,
            port,
            backlog=max(self.limits.backlog, 128),
            reuse_address=True,
            start_serving=False,
        )
        self._size_buffers(self._server)

    def _size_buffers(self, server: asyncio.Server) -> None:
        for listening in server.sockets:
            if self.limits.receive_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.limits.receive_buffer_bytes)
            if self.limits.send_buffer_bytes > 0:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self.limits.send_buffer_bytes)

    async def bind_shared(self, host: str | None, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Take one address more, after `bind`, which other processes may take too: the system spreads connections over all that accept. Raises OSError."""
        assert self._loop is not None, "bind comes before"
        self._shared_server = await self._loop.create_server(
            lambda: self._accepted(tls),
            host or None,
            port,
            backlog=max(self.limits.backlog, 128),
            reuse_address=True,
            reuse_port=True,
            start_serving=False,
        )
        self._size_buffers(self._shared_server)

    async def start(self) -> None:
        """Accept connections."""
        assert self._server is not None, "bind comes before start"
        assert self._loop is not None, "bind comes before start"
        await self._server.start_serving()
        if self._shared_server is not None:
            await self._shared_server.start_serving()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    async def close(self) -> None:
        """Accept nothing more, close every connection once its ready output is out."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in (self._shared_server, self._server):
            if server is not None:
                server.close()
        for connection in [*self._waiting, *self.connections]:
            connection.close_after_sending()
        self._waiting.clear()
        if self._loop is not None:
            for _ in range(100):
                if not self.connections:
                    break
                await asyncio.sleep(0.005)
            for connection in list(self.connections):
                connection.abort("the node stops")
            await asyncio.sleep(0)

    def _accepted(self, tls: ssl.SSLContext | None) -> asyncio.BufferedProtocol:
        """What the event loop drives: the new connection, or the TLS stage before it."""
        connection = ServerConnection(self, tls=tls)
        return connection.tls or connection

    # --- its connections' calls ---

    def now(self) -> float:
        """Seconds on the loop's clock."""
        assert self._loop is not None, "only an open listener has connections"
        self.turn_time = self._loop.time()
        return self.turn_time

    def soon(self, callback: Callable[[], None]) -> None:
        """Let others have their turn first."""
        assert self._loop is not None, "only an open listener has connections"
        self._loop.call_soon(callback)

    def later(self, wait_s: float, callback: Callable[[], None]) -> None:
        """Call back after a while."""
        assert self._loop is not None, "only an open listener has connections"
        self._loop.call_later(wait_s, callback)

    def may_begin(self, connection: ServerConnection, let_in: Callable[[], None]) -> bool:
        """Whether a new connection may be read now, by its listener's `max.connection.creation.rate` and the node's; else `let_in` is called when it may."""

        def let_in_by_node() -> None:
            if self._begins_in_node(connection, let_in):
                let_in()

        if not self._rate.enter(connection, self, lambda: self.limits.creation_rate_of_listener, let_in_by_node):
            return False
        return self._begins_in_node(connection, let_in)

    def _begins_in_node(self, connection: ServerConnection, let_in: Callable[[], None]) -> bool:
        if self.limits.is_protected:
            return True
        return self.counter.rate.enter(connection, self, lambda: self.limits.max_creation_rate, let_in)

    def waits_for_room(self, connection: ServerConnection) -> bool:
        """Whether a new connection is admitted later, when others went (KIP-402). So many wait as `socket.listen.backlog.size` says."""
        lack = self.counter.lack(self.limits, of_listener=len(self.connections))
        if (lack is None and not self._waiting) or connection.descriptor >= self._descriptors:
            return False
        if not self._may_wait(connection):
            self._drop_who_has_gone()
            if not self._may_wait(connection):
                return False
        self._waiting[connection] = None
        self.closed_log.waits(listener=self.name, peer=connection.peer, reason=lack or "others wait for room")
        return True

    def _may_wait(self, connection: ServerConnection) -> bool:
        """Whether one more waits. Of a host no more do than it may have: where no room comes they would keep all others from waiting."""
        if len(self._waiting) >= self.limits.backlog:
            return False
        most = self.limits.most_of(connection.host)
        if most >= UNLIMITED:
            return True
        waiting = sum(each.host == connection.host for each in self._waiting)
        return self.counter.of_host(connection.host) + waiting < most

    def _drop_who_has_gone(self) -> None:
        """Of those that wait, who are not read: it is not told when they go."""
        left = left_by_peers(each.descriptor for each in self._waiting if not each.is_closed)
        for connection in [each for each in self._waiting if each.is_closed or each.descriptor in left]:
            gone = connection.peer_has_gone()
            if gone is not None and not gone.has_said_something:
                del self._waiting[connection]
                connection.drop()

    def _admit_waiting(self) -> None:
        """Those that waited longest come first."""
        while self._waiting and self.counter.lack(self.limits, of_listener=len(self.connections)) is None:
            connection = next(iter(self._waiting))
            del self._waiting[connection]
            connection.admitted()

    def admit(self, connection: ServerConnection) -> str | None:
        """Count a new connection; or the reason why it is refused."""
        if connection.descriptor >= self._descriptors:
            return f"the process may have no more files and connections open: from {self._descriptors} on they are kept for its own (ulimit -n)"
        refusal = self.counter.opened(connection.host, self.limits, of_listener=len(self.connections))
        if refusal is None:
            self.connections[connection] = None
        return refusal

    def gone(self, connection: ServerConnection) -> None:
        """A connection ended; it was counted, or waited."""
        if connection in self.connections:
            del self.connections[connection]
            self.counter.closed(connection.host)
        else:
            self._waiting.pop(connection, None)

    def report_bug(self, connection: ServerConnection, fault: Exception) -> None:
        """A handler failed in a way that it should not: say so with its trace, close the connection."""
        _LOG.error("a request of %s failed inside the node", connection.peer, exc_info=fault)
        connection.close("an error inside the node")

    def handler_for(self, connection: ServerConnection) -> FrameHandler:
        """The request side of a new connection."""
        self._next_id += 1
        return self._make_handler(connection, self._next_id)

    def _memory_exhausted(self) -> None:
        """Nobody reads on without asking (M1)."""
        for connection in list(self.connections):
            connection.read_again()

    def _sweep(self) -> None:
        """Close what kept us waiting too long (B3, S96, S97). `turn_time` is as coarse as the sweep."""
        assert self._loop is not None, "only an open listener sweeps"
        now = self.now()
        for connection in list(self.connections):
            self._check_patience(connection, now)
        self.on_sweep()
        self._admit_waiting()
        self._sweeper = self._loop.call_later(_SWEEP_S, self._sweep)

    def _check_patience(self, connection: ServerConnection, now: float) -> None:
        """Close one that kept us waiting too long for a frame's rest, for its reading, or for anything at all."""
        limits = self.limits
        waited_ms = (now - connection.active_at) * 1000
        if connection.is_closed:  # its last answers are still with the transport
            if waited_ms > limits.slow_reader_timeout_ms:
                connection.abort("the peer does not read its answers")
            return
        if connection.frame_since is not None and not connection.is_reading:
            connection.frame_since = now  # it is us who do not read
        elif connection.frame_since is not None:
            allowed_ms = limits.frame_timeout_ms + connection.frame_size * 1000 / limits.min_frame_bytes_per_s
            if (now - connection.frame_since) * 1000 > allowed_ms:
                what = f"a request of {connection.frame_size} bytes"
                if connection.tls is not None and not connection.tls.is_open:
                    what = "the TLS handshake"
                connection.close(f"{what} was not complete after {allowed_ms / 1000:.0f} s")
                return
        if connection.output_since is not None:
            if (now - connection.output_since) * 1000 > limits.slow_reader_timeout_ms:
                connection.abort("the peer does not read its answers")
        elif limits.idle_timeout_ms >= 0 and not connection.holds and waited_ms > limits.idle_timeout_ms:
            self.expired += 1
            connection.close_after_sending()
