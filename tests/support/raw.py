"""A connection on which a test sends exactly the bytes it wants, and typed requests where those are enough."""

from __future__ import annotations

import socket
import struct
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from headrace.broker.served_apis import BROKER_APIS
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import ApiRow
from headrace.wire.codec import decode, encode
from headrace.wire.schema import Message

ROWS: dict[str, ApiRow] = {row.name: row for row in (*CONTROLLER_APIS, *BROKER_APIS)}
TIMEOUT_S = 10.0


def messages_of(row: ApiRow) -> tuple[type[Any], type[Any]]:
    """The request and response classes of an API."""
    module = import_module(f"headrace.wire.messages.{row.name}")
    name = "".join(part.capitalize() for part in row.name.split("_"))
    return getattr(module, f"{name}Request"), getattr(module, f"{name}Response")


def header(row: ApiRow, version: int, correlation_id: int = 1, client_id: str | None = "raw") -> bytes:
    """A request header."""
    text = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(text)
    flexible = b"\0" if version >= row.flexible_from else b""
    return struct.pack(">hhih", row.key, version, correlation_id, length) + text + flexible


def frame(data: bytes) -> bytes:
    """With its length in front."""
    return struct.pack(">i", len(data)) + data


def request_frame(request: Message, version: int, correlation_id: int = 1) -> bytes:
    """A whole request."""
    row = row_of(request)
    return frame(header(row, version, correlation_id) + encode(request, version))


def row_of(message: Message) -> ApiRow:
    """The API whose request this is."""
    return ROWS[type(message).__module__.rpartition(".")[2]]


class RawConnection:
    """One socket to a node."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", from_host: str | None = None) -> None:
        self.socket = socket.create_connection((host, port), TIMEOUT_S, from_host and (from_host, 0))

    def __enter__(self) -> Self:
        """Open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Exactly these bytes."""
        self.socket.sendall(data)

    def receive_frame(self) -> bytes:
        """One answer, without its length. Raises EOFError when the node closed the connection."""
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def ask(self, request: Message, version: int, correlation_id: int = 1) -> Any:
        """Send a request, decode its answer."""
        self.send(request_frame(request, version, correlation_id))
        return self.answer(row_of(request), version, correlation_id)

    def answer(self, row: ApiRow, version: int, correlation_id: int = 1) -> Any:
        """The next answer, which must be to `correlation_id`."""
        data = self.receive_frame()
        assert struct.unpack_from(">i", data)[0] == correlation_id
        start = 5 if version >= row.flexible_from and row.name != "api_versions" else 4
        return decode(messages_of(row)[1], data[start:], version)

    def is_closed_by_node(self) -> bool:
        """Whether the node closes the connection without sending anything more."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise EOFError("the node closed the connection")
            data += part
        return bytes(data)
