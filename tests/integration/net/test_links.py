"""Is each way in which another node can fail to answer told apart on real sockets?"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from headrace.core.peers import SendFailure
from headrace.net.connecting import Prober
from headrace.net.links import OutboundLinks, Target, link_settings
from headrace.server.run import new_event_loop
from headrace.wire.codec import decode
from headrace.wire.headers import framed_response, parse_request_header
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest
from headrace.wire.schema import Message

SETTINGS = link_settings(client_id="n", connect_timeout_ms=2_000, max_frame_bytes=1 << 20)
HEARTBEAT = BrokerHeartbeatRequest(broker_id=1, broker_epoch=3)
VERSIONS = ApiVersionsResponse(
    api_keys=(
        ApiVersion(api_key=1, min_version=4, max_version=12),
        ApiVersion(api_key=18, min_version=0, max_version=4),
        ApiVersion(api_key=52, min_version=0, max_version=1),
        ApiVersion(api_key=63, min_version=0, max_version=1),
    )
)


class Peer:
    """A node of a few lines: tells its versions, and does with other requests what `serve` says."""

    def __init__(self, serve: Callable[[Peer, int, asyncio.StreamWriter], Awaitable[None]] | None = None) -> None:
        self.seen: list[tuple[int, int]] = []
        self.connections = 0
        self._serve = serve
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Peer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening, and abort every connection."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header = parse_request_header(frame)
                if header.api_key == 18:
                    request = decode(ApiVersionsRequest, frame[header.body :], header.api_version)
                    assert request.client_software_name == "headrace"
                    writer.write(framed_response(VERSIONS, header.api_version, correlation_id=header.correlation_id))
                    continue
                self.seen.append((header.api_key, header.api_version))
                if self._serve is not None:
                    await self._serve(self, header.correlation_id, writer)
        except (EOFError, OSError):
            writer.close()


async def heartbeat_answered(peer: Peer, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """The answer."""
    answer = BrokerHeartbeatResponse(is_caught_up=True)
    writer.write(framed_response(answer, peer.seen[-1][1], correlation_id=correlation_id))


async def silent(peer: Peer, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """Nothing."""


async def closing(peer: Peer, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """The connection goes."""
    writer.close()


async def nonsense(peer: Peer, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """Bytes that are no answer."""
    writer.write(b"\0\0\0\4\xff\xff\xff\xff")


LONG = FetchResponse(
    session_id=7,
    responses=(
        FetchableTopicResponse(topic="t", partitions=tuple(PartitionData(partition_index=n) for n in range(20_000))),
    ),
)


async def long_answered(peer: Peer, correlation_id: int, writer: asyncio.StreamWriter) -> None:
    """A Fetch response that speaks of very many partitions, and behind it, in the same write, that of the next request."""
    if len(peer.seen) == 2:
        frames = [framed_response(LONG, 12, correlation_id=correlation_id - 1)]
        frames.append(framed_response(FetchResponse(session_id=8), 12, correlation_id=correlation_id))
        writer.write(b"".join(frames))


class Links:
    """The links of one node, asked with `await`."""

    def __init__(self) -> None:
        self.links = OutboundLinks(SETTINGS)

    async def ask(
        self, port: int, request: Message = HEARTBEAT, *, purpose: str = "p", timeout_ms: int = 5_000
    ) -> Message | SendFailure:
        """The outcome."""
        future: asyncio.Future[Message | SendFailure] = asyncio.get_running_loop().create_future()
        target: Target = ("127.0.0.1", port, purpose)
        self.links.send(target, request, timeout_ms=timeout_ms, done=future.set_result)
        return await future


def run(test: Callable[[Links], Awaitable[None]]) -> None:
    """Run with fresh links, closed at the end."""

    async def main() -> None:
        links = Links()
        try:
            await test(links)
        finally:
            links.links.close()
            await asyncio.sleep(0.01)

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def test_the_highest_version_that_both_know_is_used() -> None:
    """B-R28, KIP-511: ApiVersions comes first on each connection; the peer here knows BrokerHeartbeat up to 1."""

    async def test(links: Links) -> None:
        async with Peer(heartbeat_answered) as peer:
            answer: Any = await links.ask(peer.port)
            assert answer.is_caught_up
            assert await links.ask(peer.port) == answer
            assert peer.seen == [(63, 1), (63, 1)]
            assert peer.connections == 1

    run(test)


def test_an_api_that_the_peer_does_not_serve_is_not_sent() -> None:
    """UNSUPPORTED_VERSION: nothing leaves, and the connection stays."""

    async def test(links: Links) -> None:
        async with Peer(heartbeat_answered) as peer:
            assert await links.ask(peer.port, FetchSnapshotRequest()) is SendFailure.UNSUPPORTED_VERSION
            assert not isinstance(await links.ask(peer.port), SendFailure)
            assert peer.seen == [(63, 1)]
            assert peer.connections == 1

    run(test)


def test_a_port_that_nobody_listens_on_refuses() -> None:
    """REFUSED is news of this moment: a listener that appears is reached by the next request."""

    async def test(links: Links) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            assert await links.ask(port) is SendFailure.REFUSED
            assert await links.ask(port) is SendFailure.REFUSED
            assert await Prober().probe("127.0.0.1", port, timeout_s=5) is SendFailure.REFUSED
        async with Peer(heartbeat_answered) as peer:
            assert await Prober().probe("127.0.0.1", peer.port, timeout_s=5) is None
            assert not isinstance(await links.ask(peer.port), SendFailure)

    run(test)


def test_silence_drops_the_connection() -> None:
    """S1-20, S4-06, B-R28: TIMED_OUT for the one that waited too long, DISCONNECTED for those behind it; the next request dials anew."""

    async def test(links: Links) -> None:
        async with Peer(silent) as peer:
            first = asyncio.create_task(links.ask(peer.port, timeout_ms=200))
            second = asyncio.create_task(links.ask(peer.port, timeout_ms=60_000))
            assert await first is SendFailure.TIMED_OUT
            assert await second is SendFailure.DISCONNECTED
            assert await links.ask(peer.port, timeout_ms=100) is SendFailure.TIMED_OUT
            assert peer.connections == 2

    run(test)


@pytest.mark.parametrize("serve", [closing, nonsense])
def test_a_connection_that_goes_or_speaks_nonsense_is_disconnected(serve: Any) -> None:
    """B29: bytes that are no answer end the connection; whether the request took effect is unknown."""

    async def test(links: Links) -> None:
        async with Peer(serve) as peer:
            assert await links.ask(peer.port) is SendFailure.DISCONNECTED

    run(test)


def test_a_peer_that_is_killed_is_told_from_one_that_is_silent() -> None:
    """The running question is DISCONNECTED, the next one REFUSED."""

    async def test(links: Links) -> None:
        async with Peer(silent) as peer:
            port = peer.port
            waiting = asyncio.create_task(links.ask(port))
            while not peer.seen:
                await asyncio.sleep(0.01)
            await peer.close()
            assert await waiting is SendFailure.DISCONNECTED
            assert await links.ask(port) is SendFailure.REFUSED

    run(test)


def test_each_purpose_has_its_own_connection() -> None:
    """B-R28, S2-21: a vote never waits behind a fetch that waits for news."""

    async def test(links: Links) -> None:
        async with Peer(silent) as slow:
            waiting = asyncio.create_task(links.ask(slow.port, purpose="fetching"))
            while not slow.seen:
                await asyncio.sleep(0.01)
            slow._serve = heartbeat_answered
            assert not isinstance(await links.ask(slow.port, purpose="voting"), SendFailure)
            assert not waiting.done()
            assert slow.connections == 2
            links.links.close()
            assert await waiting is SendFailure.DISCONNECTED

    run(test)


def test_closed_links_end_every_question() -> None:
    """A node that stops leaves nobody waiting."""

    async def test(links: Links) -> None:
        async with Peer(silent) as peer:
            waiting = asyncio.create_task(links.ask(peer.port))
            while not peer.seen:
                await asyncio.sleep(0.01)
            links.links.close()
            assert await waiting is SendFailure.DISCONNECTED
            assert await links.ask(peer.port) is SendFailure.DISCONNECTED

    run(test)


def test_a_name_that_nobody_has_is_disconnected() -> None:
    """Not REFUSED: nothing is known about the host."""

    async def main() -> None:
        assert await Prober().probe("no-such-host.invalid", 1, timeout_s=10) is SendFailure.DISCONNECTED

    asyncio.run(main())


def test_a_request_that_the_common_version_cannot_say_is_not_sent() -> None:
    """KIP-996: a pre-vote is never sent as a vote, to a peer that knows Vote up to version 1 only."""

    async def test(links: Links) -> None:
        async with Peer(heartbeat_answered) as peer:
            votes = (RequestTopicData(topic_name="t", partitions=(RequestPartitionData(pre_vote=True),)),)
            assert await links.ask(peer.port, VoteRequest(topics=votes)) is SendFailure.UNSUPPORTED_VERSION
            assert peer.seen == []
            assert not isinstance(await links.ask(peer.port), SendFailure)

    run(test)


class TwoHomes(asyncio.SelectorEventLoop):
    """A loop that knows one name, of a host with two addresses."""

    async def getaddrinfo(self, host: Any, port: Any, **_: Any) -> Any:
        """127.0.0.2, then 127.0.0.1."""
        assert host == "two-homes"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in ("127.0.0.2", "127.0.0.1")]


def test_a_silent_address_leaves_time_for_the_others() -> None:
    """B-R28: a host of which one address is cut off is reached by the other one."""

    async def main() -> None:
        async with Peer(heartbeat_answered) as peer:
            with socket.socket() as silent_one, socket.socket() as first, socket.socket() as second:
                silent_one.bind(("127.0.0.2", peer.port))
                silent_one.listen(0)
                for one in (first, second):  # they fill the row of those that wait to be accepted
                    one.setblocking(False)
                    one.connect_ex(("127.0.0.2", peer.port))
                assert await Prober().probe("two-homes", peer.port, timeout_s=1) is None
                assert await Prober().probe("127.0.0.2", peer.port, timeout_s=0.2) is SendFailure.TIMED_OUT

    with asyncio.Runner(loop_factory=TwoHomes) as runner:
        runner.run(main())


@pytest.mark.parametrize("loop", [new_event_loop, asyncio.new_event_loop])
@pytest.mark.parametrize("host", ["a..b", "a" * 70, "a\0b", "\u00e4" * 70, ".x"])
def test_a_text_that_is_no_host_name_is_disconnected(host: str, loop: Any) -> None:
    """input:B29, input:B23: addresses come from registrations; a link to one that cannot be is asked again and again like any other."""

    async def main() -> None:
        assert await Prober().probe(host, 1, timeout_s=10) is SendFailure.DISCONNECTED
        assert await Prober().probe("127.0.0.1", 70_000, timeout_s=10) is SendFailure.DISCONNECTED
        links = OutboundLinks(SETTINGS)
        for _ in range(2):
            future: asyncio.Future[Message | SendFailure] = asyncio.get_running_loop().create_future()
            links.send((host, 1, "p"), HEARTBEAT, timeout_ms=10_000, done=future.set_result)
            assert await future is SendFailure.DISCONNECTED
        links.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


def test_a_long_response_is_read_in_turns_and_those_behind_it_wait() -> None:
    """PR8, B-R28: a peer may speak of a million partitions; who has something to do meanwhile has its turns."""

    async def test(links: Links) -> None:
        turns = 0
        async with Peer(long_answered) as peer:
            loop = asyncio.get_running_loop()
            outcomes: list[tuple[int, Message | SendFailure]] = []
            is_done = loop.create_future()

            def done(outcome: Message | SendFailure) -> None:
                outcomes.append((turns, outcome))
                if len(outcomes) == 2:
                    is_done.set_result(None)

            for _ in range(2):
                links.links.send(("127.0.0.1", peer.port, "p"), FetchRequest(), timeout_ms=30_000, done=done)
            while len(peer.seen) < 2:
                await asyncio.sleep(0)
            while not is_done.done():
                turns += 1
                await asyncio.sleep(0)
        assert [found.session_id for _, found in outcomes if isinstance(found, FetchResponse)] == [7, 8]
        assert outcomes[0][1] == LONG
        assert outcomes[0][0] > 10

    run(test)


def test_a_peer_whose_list_of_versions_is_long_is_left() -> None:
    """PR8: it is read in one go, and no node has a hundred thousand APIs."""

    async def long_versions(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(EOFError, OSError):
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            many = ApiVersionsResponse(api_keys=VERSIONS.api_keys * 30_000)
            correlation_id = parse_request_header(frame).correlation_id
            writer.write(framed_response(many, 3, correlation_id=correlation_id))
            await reader.read()
        writer.close()

    async def test(links: Links) -> None:
        server = await asyncio.start_server(long_versions, "127.0.0.1", 0)
        async with server:
            assert await links.ask(server.sockets[0].getsockname()[1]) is SendFailure.DISCONNECTED

    run(test)
