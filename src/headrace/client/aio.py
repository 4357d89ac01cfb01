"""The client on an event loop.

    async with AsyncClient("127.0.0.1:9092") as client:
        ends = await client.run(offsets.list_offsets, {TopicPartition("flights", 0): LATEST})
        part = await client.fetch_raw("flights", 0, 0)

The conversations are those of the blocking face; several may be held at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from secrets import SystemRandom
from ssl import SSLContext
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from headrace.client import fetcher, routing
from headrace.client.cluster_view import TopicView
from headrace.client.connection import SESSION_USED, Connection
from headrace.client.fetcher import DEFAULT_MAX_BYTES, Fetched, FetchOptions
from headrace.client.producer import Delivery, ProduceMachine, SendProduce, identify
from headrace.client.session import Session
from headrace.client.settings import ClientSettings
from headrace.client.talk import (
    Address,
    Answered,
    Ask,
    AskAll,
    Conversation,
    Effect,
    Elapsed,
    Lost,
    Outcome,
    Unsupported,
    Versions,
)
from headrace.client.tls import tls_context
from headrace.core.errors import DecodeError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader

P = ParamSpec("P")
T = TypeVar("T")
_READ_BYTES = 256 << 10
_CLOSE_S = 1.0
"""The node's part of the end of a TLS connection is waited for so long."""


class _AsyncLink:
    """One connection: a task reads frames and hands each answer to who waits for it."""

    def __init__(self, settings: ClientSettings, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection = Connection(settings)
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(largest=settings.max_frame_bytes, smallest=SMALLEST_RESPONSE)
        self._whole: deque[memoryview] = deque()
        self._waiting: dict[int, asyncio.Future[Answered]] = {}
        self._task: asyncio.Task[None] | None = None
        self._expires_at = float("inf")
        self.is_lost = False

    async def open(self) -> None:
        """Versions and login. Raises OSError, EOFError, DecodeError, or PeerError for a login that is refused."""
        frame = self.connection.opening()
        while not self.connection.is_ready:
            if frame:
                self._writer.write(frame)
            found = self.connection.received(await self._frame())
            assert isinstance(found, bytes)
            frame = found
        if self.connection.session_ms:
            self._expires_at = time.monotonic() + SESSION_USED * self.connection.session_ms / 1000
        self._task = asyncio.create_task(self._read())

    @property
    def is_spent(self) -> bool:
        """Whether a new connection is better: this one is lost, or its login soon expires while nobody waits (KIP-368)."""
        return self.is_lost or (not self._waiting and time.monotonic() >= self._expires_at)

    def send(self, message: Any, version: int, *, is_answered: bool = True) -> asyncio.Future[Answered] | None:
        """Write a request; the future of its answer, None when none will come."""
        correlation_id, frame = self.connection.request(message, version, is_answered=is_answered)
        self._writer.write(frame)
        if not is_answered:
            return None
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        return future

    async def close(self) -> None:
        """Stop reading and close the socket; who still waits is told that the connection is lost."""
        self._fail("the connection was closed")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        with suppress(OSError, TimeoutError):  # ssl.SSLError is an OSError too
            async with asyncio.timeout(_CLOSE_S):
                await self._writer.wait_closed()
        self._writer.transport.abort()

    async def _frame(self) -> memoryview:
        """The next frame. Raises DecodeError, OSError, EOFError."""
        while not self._whole:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            self._whole += self._frames.feed(data)
        return self._whole.popleft()

    async def _read(self) -> None:
        try:
            while True:
                found = self.connection.received(await self._frame())
                assert isinstance(found, tuple)
                future = self._waiting.pop(found[0], None)
                if future is not None and not future.done():
                    future.set_result(found[1])
        except (OSError, EOFError, DecodeError) as error:
            self._fail(str(error) or "the node closed the connection")
            self._writer.close()

    def _fail(self, reason: str) -> None:
        self.is_lost = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionError(reason))


class AsyncClient:
    """A client on asyncio: one connection a node, shared by all conversations that are held at the same time.

    Settings and errors are those of `BlockingClient`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "",
        *,
        client_id: str = "headrace",
        properties: Mapping[str, str] | None = None,
    ) -> None:
        given = {"client.id": client_id, **(properties or {})}
        servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
        if servers:
            given["bootstrap.servers"] = servers
        settings = ClientSettings.of(given)
        self.session = Session(settings=settings, rng=SystemRandom(), now_ms=_now_ms())
        self._tls: SSLContext | None = tls_context(settings.tls) if settings.tls else None
        self._links: dict[Address, asyncio.Task[_AsyncLink]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection; may be called twice."""
        while self._links:
            task = self._links.popitem()[1]
            if task.done() and not task.cancelled() and task.exception() is None:
                await task.result().close()
            else:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def run(
        self, talk: Callable[Concatenate[Session, P], Conversation[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Hold a conversation and return its result."""
        self.session.now_ms = _now_ms()
        conversation = talk(self.session, *args, **kwargs)
        outcome: Any = None
        while True:
            self.session.now_ms = _now_ms()
            try:
                effect = conversation.send(outcome)
            except StopIteration as end:
                result: T = end.value
                return result
            outcome = await self._do(effect)

    async def _do(self, effect: Effect) -> Any:
        if isinstance(effect, Ask):
            return await self._ask(effect)
        if isinstance(effect, AskAll):
            return list(await asyncio.gather(*(self._ask(ask) for ask in effect.asks)))
        if isinstance(effect, Versions):
            link = await self._link(effect.address)
            return link if isinstance(link, Lost) else Answered(response=link.connection.api_versions, version=0)
        await asyncio.sleep(effect.ms / 1000)
        return Elapsed()

    async def _link(self, address: Address) -> _AsyncLink | Lost:
        """The open connection to a node, or why there is none. Raises PeerError when the login is refused."""
        task = self._links.get(address)
        if task is not None and task.done():
            if task.cancelled() or task.exception() is not None:
                task = None
            elif task.result().is_spent:
                await task.result().close()
                task = None if self._links.get(address) is task else self._links.get(address)
        if task is None:
            task = self._links[address] = asyncio.create_task(self._connect(address))
        try:
            return await asyncio.shield(task)
        except (OSError, EOFError, DecodeError, ValueError) as error:  # the last for a name that cannot be one
            text = (
                "connection refused"
                if isinstance(error, ConnectionRefusedError)
                else str(error) or "the node closed the connection"
            )
            return Lost(reason=text, may_have_arrived=False)

    async def _connect(self, address: Address) -> _AsyncLink:
        settings = self.session.settings
        async with asyncio.timeout(settings.connect_timeout_ms / 1000):
            reader, writer = await asyncio.open_connection(address.host, address.port, ssl=self._tls, limit=1 << 20)
            link = _AsyncLink(settings, reader, writer)
            try:
                await link.open()
            except BaseException:
                writer.close()
                raise
        return link

    async def _ask(self, ask: Ask, *, is_answered: bool = True) -> Outcome:
        link = await self._link(ask.address)
        if isinstance(link, Lost):
            return link
        chosen = link.connection.choose(ask.request)
        if isinstance(chosen, Unsupported):
            return chosen
        future = link.send(*chosen, is_answered=is_answered)
        if future is None:
            return Answered(response=None, version=chosen[1])
        try:
            return await asyncio.wait_for(future, ask.timeout_ms / 1000)
        except TimeoutError:
            await link.close()
            return Lost(reason=f"no answer came for {ask.timeout_ms} ms")
        except ConnectionError as error:
            return Lost(reason=str(error))

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, TopicView]:
        """The named topics (all when None); one that does not exist is left out."""
        found = await self.run(routing.refresh, None if names is None else list(names))
        return {name: view for name, view in found.items() if isinstance(view, TopicView)}

    async def fetch_raw(
        self, topic: str, partition: int, offset: int, *, max_bytes: int = DEFAULT_MAX_BYTES, max_wait_ms: int = 500
    ) -> Fetched:
        """Read whole record batches from `offset` on, as `BlockingClient.fetch_raw` does."""
        return await self.run(
            fetcher.fetch_one,
            TopicPartition(topic, partition),
            offset,
            FetchOptions(max_bytes=max_bytes, max_wait_ms=max_wait_ms),
        )

    async def produce_raw(
        self, topic: str, partition: int, batch: bytes | bytearray, *, acks: int = -1, is_idempotent: bool = False
    ) -> Delivery:
        """Append one record batch (v2); its delivery. Raises PeerError when it is refused."""
        machine = ProduceMachine(self.session, acks=acks, is_idempotent=is_idempotent and acks == -1)
        if machine.needs_identity:
            machine.identified(await self.run(identify))
        self.session.now_ms = _now_ms()
        delivery = machine.add(TopicPartition(topic, partition), batch)
        while not delivery.is_done:
            self.session.now_ms = _now_ms()
            if missing := machine.topics_without_leader():
                found = await self.run(routing.refresh, missing, is_auto_created=True)
                for name, view in found.items():
                    if isinstance(view, PeerError):
                        machine.refused(name, view)
            sends = machine.sends(is_free=lambda leader: True)
            for send in sends:
                await self._produce(machine, send, is_answered=acks != 0)
            if not sends and not delivery.is_done:
                await asyncio.sleep(self.session.settings.retry_backoff_ms / 1000)
        if delivery.error is not None:
            raise delivery.error
        return delivery

    async def _produce(self, machine: ProduceMachine, send: SendProduce, *, is_answered: bool) -> None:
        ask = Ask(address=send.address, request=send.request, timeout_ms=self.session.settings.request_timeout_ms)
        outcome = await self._ask(ask, is_answered=is_answered)
        self.session.now_ms = _now_ms()
        if isinstance(outcome, Answered):
            machine.answered(send, outcome.response, outcome.version)
        elif isinstance(outcome, Unsupported):
            raise routing.unsupported(outcome)
        else:
            machine.lost(send, outcome.reason)


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
