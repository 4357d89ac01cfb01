"""Does a host take a connection, refuse it, or say nothing?"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from ipaddress import ip_address

from headrace.core.peers import SendFailure

_REFUSALS = frozenset({errno.ECONNREFUSED, errno.ECONNRESET})


async def connect(
    host: str, port: int, protocol: Callable[[], asyncio.BaseProtocol], *, timeout_s: float
) -> SendFailure | None:
    """Connect to the first of the host's addresses that takes it; None when `protocol` has its connection.

    REFUSED: every address answered, and refused. TIMED_OUT: one was silent. DISCONNECTED: there is no way or no such name.
    """
    loop = asyncio.get_running_loop()
    failures: list[SendFailure] = []
    try:
        async with asyncio.timeout(timeout_s):
            for address in await _addresses(host, port):
                try:
                    await loop.create_connection(protocol, address, port)
                except OSError as error:
                    is_refusal = error.errno in _REFUSALS
                    failures.append(SendFailure.REFUSED if is_refusal else _silence_or_not(error))
                else:
                    return None
    except TimeoutError:
        return SendFailure.TIMED_OUT
    except OSError:
        return SendFailure.DISCONNECTED
    for worst in (SendFailure.TIMED_OUT, SendFailure.DISCONNECTED):
        if worst in failures:
            return worst
    return SendFailure.REFUSED


def _silence_or_not(error: OSError) -> SendFailure:
    return SendFailure.TIMED_OUT if error.errno == errno.ETIMEDOUT else SendFailure.DISCONNECTED


async def _addresses(host: str, port: int) -> list[str]:
    """The host's addresses, each once. Raises OSError: no such name."""
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
