"""Connects that are taken, refused, or not answered."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_address
from typing import Final

from headrace.config.listener_settings import MAX_PORT
from headrace.core.peers import SendFailure

_SLOW_S: Final = 1.0
"""As long as a probe waits."""
_RESTS_TIMES_AS_LONG: Final = 10
_RESTS_AT_MOST_S: Final = 300.0
"""What is remembered is bounded by it, too: one name is looked up at a time."""
_REFUSALS = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})
_NO_ADDRESS = (OSError, ValueError)
"""What comes of a name off the wire that cannot be one: with an empty or a long label, or a NUL byte."""


LookUp = Callable[[str, int], Awaitable[list[str]]]
"""The addresses of a host, each once. Raises OSError, ValueError: no such name."""


async def addresses_of(host: str, port: int) -> list[str]:
    """As the system finds them; see `LookUp`."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def connect(
    host: str,
    port: int,
    protocol: Callable[[], asyncio.BaseProtocol],
    *,
    timeout_s: float,
    look_up: LookUp = addresses_of,
) -> SendFailure | None:
    """Connect to the first of the host's addresses that takes it; None when `protocol` has its connection.

    A silent address leaves the others their share of the time. REFUSED: every address answered, and refused. TIMED_OUT: one was silent.
    DISCONNECTED: there is no way, no such name, or no such port.
    """
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + timeout_s
    try:
        if not 0 < port <= MAX_PORT:
            return SendFailure.DISCONNECTED  # uvloop would take the lower sixteen bits
        async with asyncio.timeout_at(ends_at):
            addresses = await look_up(host, port)
    except TimeoutError:
        return SendFailure.TIMED_OUT
    except _NO_ADDRESS:
        return SendFailure.DISCONNECTED
    failures: list[SendFailure] = []
    for number, address in enumerate(addresses):
        share_s = (ends_at - loop.time()) / (len(addresses) - number)
        failure = await _connect_to(address, port, protocol, timeout_s=share_s)
        if failure is None:
            return None
        failures.append(failure)
    for worst in (SendFailure.TIMED_OUT, SendFailure.DISCONNECTED):
        if worst in failures:
            return worst
    return SendFailure.REFUSED


async def _connect_to(
    address: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, timeout_s: float
) -> SendFailure | None:
    try:
        async with asyncio.timeout(timeout_s):
            await asyncio.get_running_loop().create_connection(protocol, address, port)
    except TimeoutError:  # ours or the system's
        return SendFailure.TIMED_OUT
    except _NO_ADDRESS as error:
        is_refusal = isinstance(error, OSError) and error.errno in _REFUSALS
        return SendFailure.REFUSED if is_refusal else SendFailure.DISCONNECTED
    return None


class Prober:
    """Probes of one node: connects that send no byte, closed at once. Of their hosts' names one is looked up at a time.

    A look-up cannot be given up: its thread waits for the system's own time limits, and there are as few as two. Whoever registers a broker with
    names that nobody answers for would take them from the node's own connections for minutes. Such a name counts as silent for ten times as long as
    its look-up took: else it would keep all other names from being looked up.
    """

    def __init__(self, look_up: LookUp = addresses_of, now: Callable[[], float] = time.monotonic) -> None:
        """`now` gives seconds."""
        self._look_up = look_up
        self._now = now
        self._one = asyncio.Lock()
        self._rests_until: dict[str, float] = {}

    async def probe(self, host: str, port: int, *, timeout_s: float) -> SendFailure | None:
        """None when the connect was taken, else how it failed."""
        return await connect(host, port, _Closing, timeout_s=timeout_s, look_up=self._in_turn)

    async def _in_turn(self, host: str, port: int) -> list[str]:
        try:
            return [str(ip_address(host))]
        except ValueError:
            pass
        if self._now() < self._rests_until.get(host, 0.0):
            raise TimeoutError
        await self._one.acquire()
        found = asyncio.ensure_future(self._look_up(host, port))
        found.add_done_callback(partial(self._is_over, host, self._now()))
        return await asyncio.shield(found)  # it goes on when nobody waits for it any more, and the next one after it

    def _is_over(self, host: str, began_s: float, found: asyncio.Future[list[str]]) -> None:
        self._one.release()
        now_s = self._now()
        if now_s - began_s > _SLOW_S:
            self._rests_until = {name: until_s for name, until_s in self._rests_until.items() if until_s > now_s}
            self._rests_until[host] = now_s + min(_RESTS_TIMES_AS_LONG * (now_s - began_s), _RESTS_AT_MOST_S)
        if not found.cancelled():
            found.exception()  # nobody may have waited for it


class _Closing(asyncio.Protocol):
    """Closes its connection as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It was taken: that is all we wanted to know."""
        transport.close()
