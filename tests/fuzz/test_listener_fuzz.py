"""Does a node on a hostile network stay alive, in bounded memory, and serve everybody else meanwhile?"""

from __future__ import annotations

import asyncio
import lzma
import os
import random
import resource
import struct
from base64 import b64decode
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.core.errors import PeerError
from headrace.testing import Node
from headrace.wire.codec import decode
from headrace.wire.headers import framed_request, request_header
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.versions import ApiKey, request_class
from tests.support.listener_fuzz import MAY_WAIT, REPLY_LIMIT_S, Attackers, SteadyClient, advertised, ask, connected
from tests.support.messages import error_codes, sample
from tests.support.volumes import volume

GOLDEN = Path(__file__).parents[1] / "golden" / "wire" / "frames.tsv.xz"
FRAMES = volume("HEADRACE_FUZZ_LISTENER_FRAMES", quick=8_000, ci=48_000)
CONTROLLER_FRAMES = FRAMES // 4
MORE_ADDRESS_SPACE = 2 << 30
MORE_RESIDENT = 300 << 20
LARGEST_FRAME = 1 << 20
UNKNOWN_SERVER_ERROR = -1


def requests() -> list[bytes]:
    """The recorded requests."""
    rows = (line.split("\t") for line in lzma.decompress(GOLDEN.read_bytes()).decode().splitlines())
    return [b64decode(row[3]) for row in rows if row[0] == "request"]


@contextmanager
def capped_node() -> Iterator[Node]:
    """A node whose address space is capped, with small limits, so that waiting and creating cost little."""
    properties = {
        "socket.request.max.bytes": str(LARGEST_FRAME),
        "auto.create.topics.enable": "false",
        "group.max.session.timeout.ms": "60000",
    }
    with Node(properties=properties) as running:
        limit = psutil.Process(running.pid).memory_info().vms + MORE_ADDRESS_SPACE
        resource.prlimit(running.pid, resource.RLIMIT_AS, (limit, limit))
        yield running


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One node for all tests on the clients' listener."""
    with capped_node() as running:
        yield running


def log_of(node: Node) -> str:
    """What the node printed."""
    return (node.directory / "node.log").read_text()


async def is_served(port: int) -> bool:
    """Whether a new client gets its answer."""
    return bool(await advertised(port))


def test_spoilt_frames_over_the_network(node: Node) -> None:
    """B1, B3-B10, B12, B20-B30, M1, M2: the node lives, its memory is bounded, its log has no traceback, a client that behaves is served.

    A failure names the seed: HEADRACE_FUZZ_SEED=... runs it again.
    """
    seed = int(os.environ.get("HEADRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1 << 30))))
    process = psutil.Process(node.pid)

    async def attack() -> tuple[Attackers, SteadyClient]:
        steady = SteadyClient(node.port)
        await steady.prepare()
        served = await advertised(node.port)
        attackers = Attackers(node.port, seed=seed, requests=requests(), served=served, spares_the_node=True)
        await attackers.run(500)
        before = process.memory_info().rss
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(steady.run())
            await attackers.run(FRAMES - 500)
            steady.stop()
        assert process.memory_info().rss - before < MORE_RESIDENT
        return attackers, steady

    try:
        attackers, steady = asyncio.run(attack())
    except BaseException as error:
        error.add_note(f"HEADRACE_FUZZ_SEED={seed}; the node's log ends:\n{log_of(node)[-6000:]}")
        raise
    assert attackers.outcomes["frames"] == FRAMES
    assert attackers.outcomes["closed by the node"] > 0
    assert steady.acknowledged > 10
    assert process.is_running()
    assert asyncio.run(is_served(node.port))
    assert "Traceback" not in log_of(node), f"HEADRACE_FUZZ_SEED={seed}\n{log_of(node)[-8000:]}"


def test_spoilt_frames_on_the_controllers_listener() -> None:
    """B1, B3-B10, B12, B20-B30: requests of brokers and controllers, spoilt; the node lives, and its log has no traceback."""
    seed = int(os.environ.get("HEADRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1 << 30))))
    with capped_node() as node:
        process = psutil.Process(node.pid)
        before = process.memory_info().rss

        async def attack() -> Attackers:
            served = await advertised(node.controller_port)
            attackers = Attackers(node.controller_port, seed=seed, requests=requests(), served=served)
            await attackers.run(CONTROLLER_FRAMES)
            return attackers

        assert asyncio.run(attack()).outcomes["frames"] == CONTROLLER_FRAMES
        assert process.is_running()
        assert asyncio.run(is_served(node.controller_port))
        assert process.memory_info().rss - before < MORE_RESIDENT
        assert "Traceback" not in log_of(node), f"HEADRACE_FUZZ_SEED={seed}\n{log_of(node)[-8000:]}"


def test_well_formed_requests_are_answered_in_their_form() -> None:
    """B23, B26-B28: every field at its edges, in every advertised version: an answer of that version, never an unhandled error.

    On a node of its own: a well-formed request may be one that rightly takes the broker out of its cluster.
    """
    seed = int(os.environ.get("HEADRACE_FUZZ_SEED", str(random.SystemRandom().randrange(1 << 30))))
    rng = random.Random(seed)
    with capped_node() as node:
        assert asyncio.run(_answers_out_of_form(node.port, rng)) == [], (
            f"HEADRACE_FUZZ_SEED={seed}\n{log_of(node)[-4000:]}"
        )


async def _answers_out_of_form(port: int, rng: random.Random) -> list[str]:
    """Ask every advertised version of every api eight times at once; the answers that are not what they should be."""

    async def one(key: int, version: int) -> str | None:
        request: Any = sample(request_class(key), version, rng, depth_limit=2, tame=rng.random() < 0.6)
        if key == ApiKey.PRODUCE and request.acks == 0:
            return None
        async with connected(port) as (reader, writer):
            try:
                answer = await asyncio.wait_for(ask(reader, writer, request, version), REPLY_LIMIT_S)
            except (OSError, EOFError, PeerError) as error:
                return f"v{version} {request}: {error!r}"
        return f"v{version} {request}: {answer}" if UNKNOWN_SERVER_ERROR in set(error_codes(answer)) else None

    wrong: list[str] = []
    for key, version in await advertised(port):
        if key not in MAY_WAIT:
            wrong += [found for found in await asyncio.gather(*(one(key, version) for _ in range(8))) if found]
    return wrong


async def _sent_and_closed(port: int, data: bytes) -> bytes:
    """Send, then read what comes until the node closes the connection."""
    async with connected(port) as (reader, writer):
        writer.write(data)
        try:
            return await asyncio.wait_for(reader.read(), REPLY_LIMIT_S)
        except ConnectionError:
            return b""


BAD_STARTS = {
    "B1 negative": struct.pack(">i", -1) + bytes(20),
    "B1 zero": bytes(4),
    "B1 seven": struct.pack(">i", 7) + bytes(7),
    "B1 above the limit": struct.pack(">i", LARGEST_FRAME + 1) + bytes(20),
    "B1 2^31-1": struct.pack(">i", 2**31 - 1) + bytes(20),
    "B4 left over": struct.pack(">i", 25) + request_header(18, 0, correlation_id=1, client_id="abc") + bytes(12),
    "B4 too short": struct.pack(">i", 11) + request_header(3, 1, correlation_id=1, client_id="a"),
    "B5 unknown api": struct.pack(">i", 11) + request_header(999, 0, correlation_id=1, client_id="a"),
    "B5 negative api": struct.pack(">i", 11) + request_header(-5, 0, correlation_id=1, client_id="a"),
    "B6 below": struct.pack(">i", 11) + request_header(3, -1, correlation_id=1, client_id="a"),
    "B6 above": struct.pack(">i", 12) + request_header(3, 99, correlation_id=1, client_id="a"),
    "B7 not UTF-8": struct.pack(">ihhih", 12, 3, 1, 1, 2) + b"\xff\xfe",
    "B10 HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + bytes(100),
    "B10 TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    "B10 SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "B20 count": struct.pack(">ihhihi", 14, 3, 1, 1, -1, 2**31 - 1),
}


@pytest.mark.parametrize("name", sorted(BAD_STARTS))
def test_a_bad_start_closes_the_connection(node: Node, name: str) -> None:
    """B1, B4, B5, B6, B7, B10, B20: no answer, the connection is closed, and a new client is served."""
    assert asyncio.run(_sent_and_closed(node.port, BAD_STARTS[name])) == b""
    assert asyncio.run(is_served(node.port))


@pytest.mark.parametrize("version", [5, 100, -1])
def test_an_unknown_version_of_api_versions_gets_the_list(node: Node, version: int) -> None:
    """B6, B-W02: error 35 in the form of version 0, with what is served; the connection stays."""

    async def talk() -> None:
        async with connected(node.port) as (reader, writer):
            head = request_header(18, version, correlation_id=-7, client_id="new")
            writer.write(struct.pack(">i", len(head) + 5) + head + b"\x02a\x02b\x00")
            size = struct.unpack(">i", await reader.readexactly(4))[0]
            frame = await reader.readexactly(size)
            answer = decode(ApiVersionsResponse, frame[4:], 0)
            assert struct.unpack(">i", frame[:4])[0] == -7
            assert answer.error_code == 35
            assert any(api.api_key == 18 for api in answer.api_keys)
            assert isinstance(await ask(reader, writer, ApiVersionsRequest(), 0), ApiVersionsResponse)

    asyncio.run(asyncio.wait_for(talk(), REPLY_LIMIT_S))


def test_ten_thousand_requests_before_the_first_answer(node: Node) -> None:
    """B11, B12, B-W07: answered in order, whatever their correlation ids, while another client is served."""
    before = psutil.Process(node.pid).memory_info().rss

    async def talk() -> None:
        ids = [number % 7 - 3 for number in range(10_000)]
        async with connected(node.port) as (reader, writer):
            for number in ids:
                writer.write(framed_request(ApiVersionsRequest(), 0, correlation_id=number, client_id=None))
            assert await is_served(node.port)
            for number in ids:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                assert struct.unpack(">i", (await reader.readexactly(size))[:4])[0] == number

    asyncio.run(asyncio.wait_for(talk(), 2 * REPLY_LIMIT_S))
    assert psutil.Process(node.pid).memory_info().rss - before < MORE_RESIDENT


def test_bytes_that_come_one_by_one(node: Node) -> None:
    """B3: a request whose bytes come apart is answered; ones that never come to their end keep nobody waiting."""

    async def talk() -> None:
        async with AsyncExitStack() as stack:
            reader, writer = await stack.enter_async_context(connected(node.port))
            data = framed_request(ApiVersionsRequest(), 0, correlation_id=1, client_id="slow")
            for at in range(len(data)):
                writer.write(data[at : at + 1])
                await writer.drain()
                await asyncio.sleep(0.001)
            assert await reader.readexactly(4)
            for _ in range(50):
                _, stuck = await stack.enter_async_context(connected(node.port))
                stuck.write(struct.pack(">i", LARGEST_FRAME) + b"x" * 100)
            assert await is_served(node.port)

    asyncio.run(asyncio.wait_for(talk(), REPLY_LIMIT_S))
