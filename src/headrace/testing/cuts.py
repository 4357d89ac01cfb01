"""Cuts between this process and addresses of other nodes: what was sent waits, in one way or in both, until they are healed.

An event loop whose outgoing connections hold back what a network without a way would not deliver. Every connection between two nodes was made by
one of them, so who makes connections by this loop is cut off from the nodes whose addresses are named; connections of clients are not touched.
As behind a real cut nothing is refused and nothing is closed: a connect waits, a request and a response wait, and so does the news that one closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

IN: Final = "in"
"""What comes from the address does not arrive."""
OUT: Final = "out"
"""What is sent to the address does not arrive there."""
BOTH: Final = "both"
WAYS: Final = {IN: frozenset({IN}), OUT: frozenset({OUT}), BOTH: frozenset({IN, OUT})}
_OPEN: Final[frozenset[str]] = frozenset()
_LINE_BYTES = 1 << 16

MakeProtocol = Callable[[], asyncio.BaseProtocol]
Connect = Callable[..., Any]


class Cuts:
    """Which addresses (`host:port`) are cut off, and the connections to them."""

    def __init__(self) -> None:
        self._ways: dict[str, frozenset[str]] = {}
        self._links: dict[_HeldLink, None] = {}
        self._changed = asyncio.Event()

    def set(self, ways: Mapping[str, str]) -> None:
        """These addresses are cut off from now on, each in its way, and no others."""
        self._ways = {address: WAYS[way] for address, way in ways.items()}
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        for link in list(self._links):
            link.follow(self.ways(link.address))

    def ways(self, address: str) -> frozenset[str]:
        """What does not get through: `IN`, `OUT`, both or nothing."""
        return self._ways.get(address, _OPEN)

    async def until_open(self, address: str) -> None:
        """Return once there is a way there and back: a handshake needs both."""
        while self.ways(address):
            await self._changed.wait()

    async def connect(self, connect: Connect, make: MakeProtocol, host: str, port: int, **rest: Any) -> Any:
        """Connect by `connect` when there is a way, and hold back on that connection what later cuts hold back."""
        address = f"{host}:{port}"
        await self.until_open(address)

        def made() -> asyncio.BaseProtocol:
            inner = make()
            return _HeldLink(inner, address, self) if isinstance(inner, asyncio.BufferedProtocol) else inner

        return await connect(made, host, port, **rest)

    def opened(self, link: _HeldLink) -> None:
        """A connection that cuts are to hold."""
        self._links[link] = None
        link.follow(self.ways(link.address))

    def closed(self, link: _HeldLink) -> None:
        """It is gone."""
        self._links.pop(link, None)


class _HeldLink(asyncio.BufferedProtocol, asyncio.Transport):
    """One outgoing connection: the protocol of the real transport, and the transport of the protocol that it was made for."""

    def __init__(self, inner: asyncio.BufferedProtocol, address: str, cuts: Cuts) -> None:
        asyncio.Transport.__init__(self)
        self.address = address
        self._inner = inner
        self._cuts = cuts
        self._real = cast("asyncio.Transport", None)
        self._ways = _OPEN
        self._held: list[bytes] = []
        self._wants_reading = True
        self._is_reading = True
        self._is_left = False
        """Closed by its owner while nothing gets out: the peer hears of it when something does."""
        self.get_buffer = inner.get_buffer  # type: ignore[method-assign] # no call more for each read
        self.buffer_updated = inner.buffer_updated  # type: ignore[method-assign]

    def follow(self, ways: frozenset[str]) -> None:
        """The cuts have changed: read and send by them."""
        self._ways = ways
        if self._is_left:
            if OUT not in ways:
                self._real.abort()
            return
        if OUT not in ways:
            held, self._held = self._held, []
            for data in held:
                self._real.write(data)
        self._set_reading()

    def _set_reading(self) -> None:
        should = self._wants_reading and IN not in self._ways and not self._is_left
        if should is not self._is_reading and not self._real.is_closing():
            self._is_reading = should
            (self._real.resume_reading if should else self._real.pause_reading)()

    # --- the real transport's calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        self._real = cast("asyncio.Transport", transport)
        self._inner.connection_made(self)
        self._cuts.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Gone, whoever ended it."""
        self._cuts.closed(self)
        if not self._is_left:
            self._inner.connection_lost(exc)

    def eof_received(self) -> bool | None:
        """The peer sends nothing more."""
        return None if self._is_left else self._inner.eof_received()

    def pause_writing(self) -> None:
        """The transport is full."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """The transport has room."""
        self._inner.resume_writing()

    # --- the protocol's calls ---

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As the real one has it, but for the socket: everything is to come through `write`."""
        return default if name == "socket" else self._real.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self._is_left or self._real.is_closing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """When `pause_writing` is called."""
        self._real.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """How much waits, in bytes."""
        return self._real.get_write_buffer_size() + sum(map(len, self._held))

    def write(self, data: Any) -> None:
        """Send, or keep for when there is a way."""
        if OUT in self._ways:
            self._held.append(bytes(data))
        else:
            self._real.write(data)

    def pause_reading(self) -> None:
        """Take nothing more for now."""
        self._wants_reading = False
        self._set_reading()

    def resume_reading(self) -> None:
        """Take more, if there is a way."""
        self._wants_reading = True
        self._set_reading()

    def close(self) -> None:
        """Close; what is held back is lost with it, as what a process leaves unsent when its machine has no way out."""
        self._leave(self._real.close)

    def abort(self) -> None:
        """Close at once."""
        self._leave(self._real.abort)

    def _leave(self, end: Callable[[], None]) -> None:
        if OUT not in self._ways:
            end()
        elif not self._is_left:
            self._is_left = True
            self._held.clear()
            self._set_reading()
            asyncio.get_running_loop().call_soon(self._inner.connection_lost, None)


def cut_loop(control: socket.socket) -> asyncio.AbstractEventLoop:
    """An event loop on which the other end of `control` cuts and heals, a JSON line each time, and hears when it is done.

    When the other end is gone, so is this process: nobody is left who could stop it.
    """
    from headrace.server.run import new_event_loop

    kind: Any = type(new_event_loop())
    cuts = Cuts()

    class CutLoop(kind):  # type: ignore[misc] # uvloop's, or asyncio's own
        """The usual event loop, with cuts."""

        async def create_connection(self, make: MakeProtocol, host: Any = None, port: Any = None, **rest: Any) -> Any:
            return await cuts.connect(super().create_connection, make, host, port, **rest)

    loop: asyncio.AbstractEventLoop = CutLoop()
    rest = bytearray()

    def said() -> None:
        data = control.recv(_LINE_BYTES)
        if not data:
            os.kill(os.getpid(), signal.SIGKILL)
        rest.extend(data)
        while (end := rest.find(b"\n")) >= 0:
            order = json.loads(rest[:end])
            del rest[: end + 1]
            cuts.set(order["cut"])
            control.sendall(b"%d\n" % order["number"])

    loop.add_reader(control.fileno(), said)
    return loop
