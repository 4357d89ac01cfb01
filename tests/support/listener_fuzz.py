"""What does a hostile network send to a listener, and is everybody else still served meanwhile?"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from headrace.records.batch import HEADER_SIZE, set_crc
from headrace.records.record import NewRecord, build_batch
from headrace.wire.codec import decode, encode
from headrace.wire.framing import SMALLEST_RESPONSE, FrameReader
from headrace.wire.headers import framed_request, parse_request_header, parse_response_header, request_header
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from headrace.wire.schema import Message
from headrace.wire.versions import ApiKey, request_class, response_class
from tests.support.messages import error_codes, sample
from tests.support.mutations import Mutator

REPLY_LIMIT_S = 30.0
LOOK_FOR_ANSWERS_S = 0.05
LOOK_FOR_THE_END_S = 5.0
"""By one connection in fifty: on a busy machine the node may have closed none of the others by the time that they hang up."""
MOST_FRAMES_A_CONNECTION = 8
STEADY_TOPIC = "steady"
MAY_WAIT = {ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP}
"""Requests whose answer may be long in coming: nothing is sent behind them."""
TAKES_THE_NODE_AWAY = {ApiKey.UNREGISTER_BROKER}
"""Requests that are right to end what the client that behaves needs; they are fuzzed where there is no such client."""
TARGETS = ("a", "topic-1")

GREETINGS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
    b"SSH-2.0-OpenSSH_9.6\r\n",
    bytes(64),
    b"\xff" * 64,
)
"""What other protocols start with. Source: B10."""


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that is closed at the end, whatever happens."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def ask(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    message: Message,
    version: int,
    *,
    correlation_id: int = 1,
) -> Message:
    """One request and its answer."""
    writer.write(framed_request(message, version, correlation_id=correlation_id, client_id="steady"))
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    frame = await reader.readexactly(size)
    key = message.SCHEMA.api_key
    found, start = parse_response_header(frame, api_key=key, api_version=version)
    assert found == correlation_id
    return decode(response_class(key), frame[start:], version)


class SteadyClient:
    """A client that behaves: it writes one batch after the other and expects each to be acknowledged."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.acknowledged = 0
        self._stopping = False

    async def prepare(self) -> None:
        """Create its own topic."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        topic = CreatableTopic(name=STEADY_TOPIC, num_partitions=1, replication_factor=1)
        answer = await asyncio.wait_for(
            ask(reader, writer, CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 5), REPLY_LIMIT_S
        )
        writer.close()
        assert set(error_codes(answer)) == {0}, answer

    async def run(self) -> None:
        """Produce until stopped; an answer with an error, or none, fails the test."""
        part = PartitionProduceData(index=0, records=bytes(build_batch([NewRecord(b"k", b"v" * 100, 5)])))
        request = ProduceRequest(
            acks=-1, timeout_ms=5000, topic_data=(TopicProduceData(name=STEADY_TOPIC, partition_data=(part,)),)
        )
        async with connected(self._port) as (reader, writer):
            while not self._stopping:
                answer = await asyncio.wait_for(ask(reader, writer, request, 9), REPLY_LIMIT_S)
                assert isinstance(answer, ProduceResponse)
                result = answer.responses[0].partition_responses[0]
                assert (result.error_code, result.base_offset) == (0, self.acknowledged), (self.acknowledged, answer)
                self.acknowledged += 1
                await asyncio.sleep(0.01)

    def stop(self) -> None:
        """End after the present answer."""
        self._stopping = True


class Attackers:
    """Many connections that send spoilt frames. What came of each is counted in `outcomes`."""

    def __init__(
        self,
        port: int,
        *,
        seed: int,
        requests: Sequence[bytes],
        served: Sequence[tuple[int, int]],
        spares_the_node: bool = False,
    ) -> None:
        """`requests` are good frames to spoil; `served` are (api key, version) that the listener advertises."""
        if spares_the_node:
            served = [(key, version) for key, version in served if key not in TAKES_THE_NODE_AWAY]
        self._port = port
        self._rng = random.Random(seed)
        self._served = served
        self._prompt = [(key, version) for key, version in served if key not in MAY_WAIT]
        self._requests = [frame for frame in requests if parse_request_header(frame)[:2] in set(served)]
        self._mutator = Mutator(self._rng, self._requests)
        records = [NewRecord(b"k", b"v" * 300, 5, (("h", b"1"),))] * 3
        self._batches = [bytes(build_batch(records, codec=codec)) for codec in range(5)]
        self.outcomes: Counter[str] = Counter()

    async def run(self, frames: int, *, at_once: int = 48) -> None:
        """Send so many frames over connections of a few frames each."""
        left = frames

        async def one_after_the_other() -> None:
            nonlocal left
            while left > 0:
                count = min(left, self._rng.randint(1, MOST_FRAMES_A_CONNECTION))
                left -= count
                await self._connection([self._arbitrary_frame() for _ in range(count - 1)] + [self._bad_frame()])
                self.outcomes["frames"] += count

        await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))

    async def _connection(self, frames: list[bytes]) -> None:
        """Send, look for answers for a moment, hang up, sometimes in the middle of a frame."""
        data = b"".join(frames)
        if self._rng.random() < 0.1:
            data = data[: self._rng.randrange(len(data) + 1)]
        if self._rng.random() < 0.05:
            data = self._rng.choice(GREETINGS) + data
        async with connected(self._port) as (reader, writer):
            try:
                await self._exchange(reader, writer, data)
            except TimeoutError:
                self.outcomes["left open"] += 1
            except ConnectionError:
                self.outcomes["reset"] += 1
            if self._rng.random() < 0.3:
                writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: bytes) -> None:
        for piece in self._pieces(data):
            writer.write(piece)
            await writer.drain()
        answers = FrameReader(largest=1 << 24, smallest=SMALLEST_RESPONSE)
        async with asyncio.timeout(LOOK_FOR_THE_END_S if self._rng.random() < 0.02 else LOOK_FOR_ANSWERS_S):
            while received := await reader.read(1 << 16):
                self.outcomes["answers"] += len(answers.feed(received))
        self.outcomes["closed by the node"] += 1

    def _pieces(self, data: bytes) -> list[bytes]:
        """All at once, or cut; now and then byte by byte. Source: B3."""
        way = self._rng.random()
        if way < 0.8:
            return [data]
        size = 1 if way < 0.82 else self._rng.randint(1, 500)
        return [data[at : at + size] for at in range(0, min(len(data), size * 200), size)]

    def _arbitrary_frame(self) -> bytes:
        body = self._arbitrary_request(may_wait=False)
        return struct.pack(">i", len(body)) + body

    def _bad_frame(self) -> bytes:
        way = self._rng.random()
        if way < 0.35:
            body = self._spoilt_body(self._rng.choice(self._requests))
        elif way < 0.45:
            body = self._produce_request()
        elif way < 0.65:
            body = self._spoilt_body(self._arbitrary_request())
        elif way < 0.9:
            body = self._mutator.spoil(self._rng.choice(self._requests))
        else:
            body = self._mutator.noise()
        length = len(body)
        if self._rng.random() < 0.05:
            length = self._rng.choice((-(2**31), -1, 0, 1, 7, length + 1, length - 1, 104_857_601, 2**31 - 1))
        return struct.pack(">i", length) + body

    def _produce_request(self) -> bytes:
        """A good request with a spoilt batch, whose CRC is right more often than not, to a topic that exists. Source: B40-B49."""
        batch = bytearray(self._mutator.spoil(self._rng.choice(self._batches)))
        if len(batch) > HEADER_SIZE and self._rng.random() < 0.7:
            set_crc(batch, 0, len(batch))
        part = PartitionProduceData(index=self._rng.randrange(3), records=bytes(batch))
        topic = TopicProduceData(name=self._rng.choice(TARGETS), partition_data=(part,))
        request = ProduceRequest(acks=self._rng.choice((-1, 0, 1)), timeout_ms=100, topic_data=(topic,))
        version = self._rng.choice((3, 7, 8, 9, 12))
        return request_header(0, version, correlation_id=1, client_id="me") + encode(request, version)

    def _spoilt_body(self, frame: bytes) -> bytes:
        start = parse_request_header(frame).body
        return frame[:start] + self._mutator.spoil(frame[start:])

    def _arbitrary_request(self, *, may_wait: bool = True) -> bytes:
        """A well-formed request of an advertised api with every field at its edges. Source: B23, B26."""
        key, version = self._rng.choice(self._served if may_wait else self._prompt)
        message = sample(request_class(key), version, self._rng, depth_limit=2, tame=self._rng.random() < 0.6)
        correlation_id = self._rng.choice((-(2**31), -1, 0, 7, 2**31 - 1))
        client_id = self._rng.choice((None, "", "me", "me", "x" * 300, "a\r\nb\x00\x1b[31m"))
        return request_header(key, version, correlation_id=correlation_id, client_id=client_id) + encode(
            message, version
        )


async def advertised(port: int) -> list[tuple[int, int]]:
    """Every (api key, version) that the listener says it serves and that has a definition."""
    async with connected(port) as (reader, writer):
        answer = await asyncio.wait_for(ask(reader, writer, ApiVersionsRequest(), 0), REPLY_LIMIT_S)
    assert isinstance(answer, ApiVersionsResponse)
    return [
        (api.api_key, version)
        for api in answer.api_keys
        for version in range(api.min_version, api.max_version + 1)
        if version in request_class(api.api_key).SCHEMA.versions
    ]
