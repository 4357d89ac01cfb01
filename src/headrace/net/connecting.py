"""Connects that are taken, refused, or not answered."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from ipaddress import ip_address

from headrace.config.listener_settings import MAX_PORT
from headrace.core.peers import SendFailure

_REFUSALS = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})
_NO_ADDRESS = (OSError, ValueError)
"""What comes of a name off the wire that cannot be one: with an empty or a long label, or a NUL byte."""


async def connect(
    host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, timeout_s: float
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
            addresses = await _addresses(host, port)
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


async def _addresses(host: str, port: int) -> list[str]:
    """The host's addresses, each once. Raises OSError, ValueError: no such name."""
    try:
        return [str(ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


async def probe(host: str, port: int, *, timeout_s: float) -> SendFailure | None:
    """A connect that sends no byte, closed at once: None when it was taken, else how it failed."""
    return await connect(host, port, _Closing, timeout_s=timeout_s)


class _Closing(asyncio.Protocol):
    """Closes its connection as soon as it is made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It was taken: that is all we wanted to know."""
        transport.close()
