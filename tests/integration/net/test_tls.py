"""Is TLS a stage before the frames of accepted and of made connections, with everything else as it is without?"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.core.holds import Hold
from headrace.core.peers import SendFailure
from headrace.net.buffers import BufferPool, RequestMemory
from headrace.net.busy_poll import BusyPoller
from headrace.net.limits import ConnectionCounter, ConnectionLimits
from headrace.net.links import OutboundLinks, link_settings
from headrace.net.listener import Listener, SharedByListeners
from headrace.net.server_connection import ServerConnection
from headrace.net.turn_shares import MOST_FRAMES, TurnShares
from headrace.server.run import new_event_loop
from headrace.storage.os_files import OsFile, OsFiles
from headrace.wire.headers import framed_response, parse_request_header
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from headrace.wire.schema import Message
from tests.unit.net.test_connection_core import CostlyFrames, Hub, Wire, frame, run_turns

VERSIONS = ApiVersionsResponse(
    api_keys=(
        ApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersion(api_key=1, min_version=4, max_version=12),
    )
)


@dataclass(frozen=True)
class Certificate:
    """A key and a certificate of its own authority, for localhost."""

    certificate: str
    key: str

    def server(self, *, newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> ssl.SSLContext:
        """What a listener is given."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        context.maximum_version = newest
        return context

    def client(self) -> ssl.SSLContext:
        """What who trusts it is given."""
        return ssl.create_default_context(cafile=self.certificate)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Made once."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    directory: Path = tmp_path_factory.mktemp("tls")
    made = Certificate(str(directory / "certificate.pem"), str(directory / "key.pem"))
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", made.key, "-out", made.certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return made


@dataclass
class Slice:
    """A part of a file, as logs give it."""

    file: OsFile | None
    position: int
    size: int


class Echo:
    """Sends each frame back, or its beginning; one that says so brings a file, and one stops the connection."""

    def __init__(self, connection: ServerConnection, file: OsFile | None) -> None:
        self.connection = connection
        self.is_closed = False
        self._file = file

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """A request."""
        body, out = bytes(view), self.connection.pieces
        if body.startswith(b"the file"):
            assert self._file is not None
            size = self._file.size()
            out += [struct.pack(">i", size + 6), b"abc", Slice(self._file, 0, size), b"xyz"]
        elif body.startswith(b"stop here"):
            self.connection.hold(Hold.REPLY)
        else:
            answer = body[:12] if body.startswith(b"shortly") else body
            out += [struct.pack(">i", len(answer)), answer]
        return False

    def closed(self) -> None:
        """Remember."""
        self.is_closed = True


class Broker:
    """Tells its versions, and answers a fetch with records whose bytes are the correlation id's."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection

    def begins(self, head: memoryview, size: int) -> None:
        """Any length."""

    def frame(self, view: memoryview) -> bool:
        """A request."""
        header = parse_request_header(view)
        answer: Message = VERSIONS
        if header.api_key == 1:
            records = bytes([header.correlation_id]) * 300_000
            part = PartitionData(partition_index=0, high_watermark=5, records=memoryview(records))
            answer = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(part,)),))
        self.connection.pieces.append(framed_response(answer, header.api_version, correlation_id=header.correlation_id))
        return False

    def closed(self) -> None:
        """Nothing to do."""


@dataclass
class Serving:
    """An open listener, and the handlers of its connections."""

    listener: Listener
    memory: RequestMemory
    handlers: list[Any]


@asynccontextmanager
async def serving(
    tls: ssl.SSLContext | None, make: Callable[[ServerConnection], Any], *, frame_timeout_ms: int = 30_000
) -> AsyncIterator[Serving]:
    """A listener on a free port."""
    handlers: list[Any] = []

    def made(connection: ServerConnection, _: int) -> Any:
        handlers.append(make(connection))
        return handlers[-1]

    memory = RequestMemory()
    listener = Listener(
        "SSL",
        made,
        limits=ConnectionLimits(max_frame_bytes=100 << 20, frame_timeout_ms=frame_timeout_ms),
        shared=SharedByListeners(pool=BufferPool(), shares=TurnShares(), memory=memory, poller=BusyPoller("off")),
        counter=ConnectionCounter(),
    )
    await listener.bind("127.0.0.1", 0, tls=tls)
    await listener.start()
    try:
        yield Serving(listener, memory, handlers)
    finally:
        await listener.close()


def run(main: Callable[[], Any]) -> Any:
    """On the loop that a node runs on."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main())


class Client:
    """A blocking client of the standard library."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        plain = socket.create_connection(("127.0.0.1", port), 20)
        self.socket = plain if context is None else context.wrap_socket(plain, server_hostname="localhost")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, body: bytes) -> None:
        """One frame."""
        self.socket.sendall(struct.pack(">i", len(body)) + body)

    def receive(self) -> bytes:
        """One frame."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def ask(self, body: bytes) -> bytes:
        """One frame for another."""
        self.send(body)
        return self.receive()

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self.socket.recv(min(size - len(data), 1 << 20))
            assert part, "the listener closed the connection"
            data += part
        return bytes(data)


def bodies() -> list[bytes]:
    """Requests of many sizes, around those of TLS records and of buffers."""
    sizes = (8, 100, 16_383, 16_384, 16_385, 40_000, 131_072, 300_000, 2_500_000, 9)
    return [bytes([number + 1]) * size for number, size in enumerate(sizes)]


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_and_answers_pass_through_tls_whole(certificate: Certificate, newest: ssl.TLSVersion) -> None:
    """One at a time, and all at once: records and frames end at different places."""

    def talk(port: int) -> list[bytes]:
        with Client(port, certificate.client()) as client:
            assert client.socket.version() == ("TLSv1.2" if newest is ssl.TLSVersion.TLSv1_2 else "TLSv1.3")  # type: ignore[attr-defined]
            found = [client.ask(body) for body in bodies()]
            small = [body for body in bodies() if len(body) <= 40_000]
            for body in small:
                client.send(body)
            return found + [client.receive() for _ in small]

    async def main() -> None:
        async with serving(certificate.server(newest=newest), lambda made: Echo(made, None)) as served:
            found = await asyncio.to_thread(talk, served.listener.port)
            assert found == bodies() + [body for body in bodies() if len(body) <= 40_000]
            while not all(handler.is_closed for handler in served.handlers):
                await asyncio.sleep(0)
            assert served.memory.held == 0

    run(main)


@pytest.mark.parametrize("is_tls", [False, True])
def test_slices_of_files_reach_a_slow_reader_whole(certificate: Certificate, tmp_path: Path, is_tls: bool) -> None:
    """Without TLS the kernel sends them from the file; with it they are sealed a part at a time."""
    content = bytes(range(256)) * 40_000
    (tmp_path / "file").write_bytes(content)
    file = OsFiles().open(str(tmp_path / "file"), read_only=True)

    def talk(port: int) -> list[bytes]:
        with Client(port, certificate.client() if is_tls else None) as client:
            for _ in range(3):
                client.send(b"the file")
            client.send(b"and this")
            return [client.receive() for _ in range(4)]

    async def main() -> None:
        async with serving(certificate.server() if is_tls else None, lambda made: Echo(made, file)) as served:
            found = await asyncio.to_thread(talk, served.listener.port)
            assert found == [b"abc" + content + b"xyz"] * 3 + [b"and this"]

    run(main)


def test_a_stopped_connection_is_not_read_through_tls_either(certificate: Certificate) -> None:
    """What was opened before the stop is kept, no more is taken in, and all of it is served afterwards."""
    sent = [b"shortly-%04d" % number + bytes(100_000) for number in range(200)]

    def talk(port: int) -> None:
        with Client(port, certificate.client()) as client:
            client.send(b"stop here")
            for body in sent:
                client.send(body)
            for body in sent:
                assert client.receive() == body[:12]

    async def main() -> None:
        async with serving(certificate.server(), lambda made: Echo(made, None)) as served:
            talking = asyncio.create_task(asyncio.to_thread(talk, served.listener.port))
            while not served.handlers or Hold.REPLY not in served.handlers[0].connection.holds:
                await asyncio.sleep(0)
            connection = served.handlers[0].connection
            while connection.is_reading:
                await asyncio.sleep(0)
            for _ in range(1_000):
                await asyncio.sleep(0)
            assert served.memory.held <= 4 << 20
            connection.release(Hold.REPLY)
            await talking

    run(main)


def test_who_speaks_no_tls_is_closed_and_others_are_served(certificate: Certificate) -> None:
    """Bytes of the plain protocol are no handshake; nothing of them reaches the handler."""

    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 20) as plain:
            plain.sendall(struct.pack(">i", 20) + bytes(20))
            with suppress(ConnectionResetError):
                while plain.recv(1 << 16):
                    pass  # an alert may come before the end
        with Client(port, certificate.client()) as client:
            return client.ask(b"still here")

    async def main() -> None:
        async with serving(certificate.server(), lambda made: Echo(made, None)) as served:
            assert await asyncio.to_thread(talk, served.listener.port) == b"still here"

    run(main)


def test_a_handshake_that_does_not_end_is_cut(certificate: Certificate) -> None:
    """input:B3: as a request that does not come to its end; a handshake is one whose size nobody knows."""

    def talk(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 20) as silent:
            silent.sendall(b"\x16\x03\x01")
            return silent.recv(1)

    async def main() -> None:
        async with serving(certificate.server(), lambda made: Echo(made, None), frame_timeout_ms=100) as served:
            assert await asyncio.to_thread(talk, served.listener.port) == b""

    run(main)


class Links:
    """The links of one node."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        settings = link_settings(client_id="n", connect_timeout_ms=10_000, max_frame_bytes=10 << 20)
        self.links = OutboundLinks(settings, tls=tls)

    async def fetch(self, port: int) -> Any:
        """The outcome of one request."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.links.send(("localhost", port, "p"), FetchRequest(), timeout_ms=20_000, done=outcome.set_result)
        return await outcome


@pytest.mark.parametrize("is_tls", [False, True])
def test_records_of_a_response_stay_what_they_were(certificate: Certificate, is_tls: bool) -> None:
    """They are read in place: who keeps them keeps their buffer, and later responses come into another one."""

    async def main() -> None:
        async with serving(certificate.server() if is_tls else None, Broker) as served:
            links = Links(certificate.client() if is_tls else None)
            found = [await links.fetch(served.listener.port) for _ in range(5)]
            kept = [bytes(each.responses[0].partitions[0].records) for each in found]
            assert kept == [bytes([number + 1]) * 300_000 for number in range(5)]
            links.links.close()

    run(main)


def test_a_link_trusts_nobody_whom_it_does_not_know(certificate: Certificate) -> None:
    """The certificate is checked, and a plain listener is no TLS peer either."""

    async def main() -> None:
        async with serving(certificate.server(), Broker) as served, serving(None, Broker) as plain:
            links = Links(ssl.create_default_context())
            assert await links.fetch(served.listener.port) is SendFailure.DISCONNECTED
            assert await links.fetch(plain.listener.port) is SendFailure.DISCONNECTED
            links.links.close()

    run(main)


class RecordsPeer:
    """The other side of a connection without sockets: what it writes at once is one record. The handshake is over."""

    def __init__(self, hub: Hub, certificate: Certificate) -> None:
        self._outgoing = ssl.MemoryBIO()
        incoming = ssl.MemoryBIO()
        self.tls = certificate.client().wrap_bio(incoming, self._outgoing, server_hostname="localhost")
        self.connection = ServerConnection(hub, tls=certificate.server())
        self.wire = Wire()
        assert self.connection.tls is not None
        self._stage = self.connection.tls
        self._stage.connection_made(self.wire)
        is_done = False
        while not is_done:
            try:
                self.tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass
            self.arrives()
            incoming.write(self.wire.written)
            self.wire.written.clear()

    def write(self, data: bytes) -> None:
        """One record."""
        self.tls.write(data)

    def end(self) -> None:
        """The record that ends a connection."""
        with suppress(ssl.SSLError):
            self.tls.unwrap()

    def arrives(self) -> None:
        """What the loop reads in one turn of what was written."""
        while self._outgoing.pending and self.wire.is_reading():
            view = self._stage.get_buffer(-1)
            part = self._outgoing.read(len(view))
            view[: len(part)] = part
            self._stage.buffer_updated(len(part))

    @property
    def is_read(self) -> bool:
        """Whether everything that was written was read."""
        return not self._outgoing.pending


def test_who_sends_each_request_in_a_record_has_no_more_of_a_turn(certificate: Certificate) -> None:
    """inv:M6: each record's request was handled as it was opened, and nobody counted them: 800 of each connection in one turn."""
    handler = CostlyFrames()
    hub = handler.hub
    peers = [RecordsPeer(hub, certificate) for _ in range(20)]
    for number, peer in enumerate(peers):
        for _ in range(200):
            peer.write(frame(16, bytes([number])))
    turns = 0
    while len(handler.seen) < 20 * 200:
        before = len(handler.seen)
        for peer in peers:
            peer.arrives()
        run_turns(hub)
        assert len(handler.seen) - before <= 4 * MOST_FRAMES + 20 * 4
        turns += 1
        assert turns < 200
    run_turns(hub)
    assert all(peer.is_read and peer.connection.is_reading for peer in peers)


def test_records_with_next_to_nothing_in_them_are_opened_a_few_a_turn(certificate: Certificate) -> None:
    """inv:M6: of a byte each two thousand came at once, thirty times a turn; what was not opened yet is not added to."""
    handler = CostlyFrames()
    hub = handler.hub
    peer = RecordsPeer(hub, certificate)
    data = frame(9_000)
    for byte in data:
        peer.write(bytes([byte]))
    turns = 0
    while not handler.seen:
        peer.arrives()
        run_turns(hub)
        turns += 1
        assert turns < 1_000
    assert handler.seen == [data[4:]]
    assert turns > len(data) / 64 / 2
    run_turns(hub)
    assert peer.connection.is_reading
    assert hub.memory.held == 0


def test_what_came_before_close_notify_is_served(certificate: Certificate) -> None:
    """As on a plain connection: requests that were held back for others' turns were dropped, of a producer that wants no answers its last records."""
    handler = CostlyFrames()
    hub = handler.hub
    peer = RecordsPeer(hub, certificate)
    peer.write(frame(16) * 500)
    peer.end()
    peer.arrives()
    assert not peer.wire.is_closing()
    for _ in range(100):
        run_turns(hub)
    assert len(handler.seen) == 500
    assert peer.wire.is_closing()
    idle = RecordsPeer(hub, certificate)
    idle.end()
    idle.arrives()
    assert idle.wire.is_closing()
