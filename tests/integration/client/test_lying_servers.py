"""What does our client do with a server that lies? It drops the connection, tries again, and says so in the end."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from headrace.client.aio import AsyncClient
from headrace.client.blocking import BlockingClient
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.producer import identify
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition, Uuid
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.wire import codec
from headrace.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from headrace.wire.messages.init_producer_id import InitProducerIdResponse
from headrace.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

QUICK = {"default.api.timeout.ms": "400", "request.timeout.ms": "150", "retry.backoff.ms": "20"}
Liar = Callable[[bytes], bytes]
SPOILT = bytes(build_batch([NewRecord(None, b"some text", 1)]))[:-1] + b"!"


def frame(request: bytes, body: bytes, *, tags: bytes = b"") -> bytes:
    """An honest frame: length, the request's correlation id, and a body."""
    answer = request[4:8] + tags + body
    return struct.pack(">i", len(answer)) + answer


def versions(request: bytes) -> bytes:
    """The answer to ApiVersions v4: Fetch 12, Metadata 0-12 and InitProducerId 4."""
    keys = (
        ApiVersion(api_key=1, min_version=12, max_version=12),
        ApiVersion(api_key=22, min_version=4, max_version=4),
        ApiVersion(api_key=3, max_version=12),
        ApiVersion(api_key=18, max_version=4),
    )
    return frame(request, codec.encode(ApiVersionsResponse(api_keys=keys), 4))


LIES: dict[str, Liar] = {
    "length 2^31-1": lambda request: struct.pack(">i", 2**31 - 1),
    "negative length": lambda request: struct.pack(">i", -5) + bytes(64),
    "length 0": lambda request: struct.pack(">i", 0),
    "another protocol": lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "wrong correlation id": lambda request: frame(struct.pack(">ii", 0, 77), bytes(40)),
    "cut frame": lambda request: struct.pack(">i", 500) + request[4:8] + bytes(20),
    "array count past the frame": lambda request: frame(request, b"\0\0\0\0\0\xff\xff\xff\xff\x07", tags=b"\0"),
    "nothing but zeros": lambda request: frame(request, bytes(300), tags=b"\0"),
    "nothing but ones": lambda request: frame(request, b"\xff" * 300, tags=b"\xff" * 9),
    "hang up": lambda request: b"",
}


@contextmanager
def server(answer_metadata: Liar, *, answer_versions: Liar = versions) -> Iterator[tuple[str, list[int]]]:
    """A server that answers each request as told; an empty answer closes the connection. Gives its address, and the keys asked."""
    listener = socket.create_server(("127.0.0.1", 0))
    asked: list[int] = []

    def serve(connection: socket.socket) -> None:
        with connection:
            while head := connection.recv(4, socket.MSG_WAITALL):
                request = connection.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                (key,) = struct.unpack_from(">h", request)
                asked.append(key)
                answer = (answer_versions if key == 18 else answer_metadata)(request)
                if not answer:
                    return
                connection.sendall(answer)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(serve, connection), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", asked
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def _quietly(serve: Callable[[socket.socket], None], connection: socket.socket) -> None:
    try:
        serve(connection)
    except OSError:
        connection.close()


@pytest.mark.parametrize("lie", LIES)
def test_b29_a_lying_answer_drops_the_connection_and_is_asked_again(lie: str) -> None:
    """B29: oversized and negative lengths, cut frames, wrong ids and counts, rubbish: retried, then one clear error."""
    with server(LIES[lie]) as (address, asked), BlockingClient(address, properties=QUICK) as client:
        with pytest.raises((OperatorError, PeerError)) as caught:
            client.topics()
        assert "\n" not in str(caught.value)
        assert asked.count(18) > 1, "each try opens a new connection"


@pytest.mark.parametrize("lie", LIES)
def test_b29_lies_before_the_first_request_are_survived_too(lie: str) -> None:
    """B29: the answer to ApiVersions, which is read before anything is known of the peer."""
    with (
        server(versions, answer_versions=LIES[lie]) as (address, _),
        BlockingClient(address, properties=QUICK) as client,
        pytest.raises((OperatorError, PeerError)),
    ):
        client.topics()


@pytest.mark.parametrize("lie", LIES)
def test_b29_the_asyncio_face_distrusts_its_peer_as_well(lie: str) -> None:
    """B29: the same machine behind the other face."""

    async def ask(address: str) -> None:
        async with AsyncClient(address, properties=QUICK) as client:
            await client.topics()

    with server(LIES[lie]) as (address, _), pytest.raises((OperatorError, PeerError)):
        asyncio.run(ask(address))


def test_b29_another_node_is_asked_when_one_lies() -> None:
    """B29: retried elsewhere."""

    def honest(request: bytes) -> bytes:
        (version,) = struct.unpack_from(">h", request, 2)
        broker = MetadataResponseBroker(node_id=1, host="127.0.0.1", port=1)
        return frame(request, codec.encode(MetadataResponse(brokers=(broker,), cluster_id="c"), version), tags=b"\0")

    lie = LIES["nothing but ones"]
    with (
        server(lie) as (liar, _),
        server(honest) as (other, _),
        BlockingClient(f"{liar},{other}", properties=QUICK) as client,
    ):
        assert client.topics() == {}
        assert client.session.cluster.cluster_id == "c"


def test_b29_a_server_that_says_nothing_is_left_at_the_time_limit() -> None:
    """A peer that accepts and stays silent costs `request.timeout.ms`, not for ever."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with (
            BlockingClient(address, properties=QUICK) as client,
            pytest.raises(OperatorError, match="no answer came in time"),
        ):
            client.topics()


@pytest.mark.parametrize(
    ("host", "port"),
    [("a\0b", 1), ("x" * 300, 1), ("", 1), ("127.0.0.1", 0), ("127.0.0.1", -5), ("127.0.0.1", 70_000)],
    ids=["NUL", "long", "empty", "no port", "negative", "too large"],
)
def test_b29_a_leader_whose_address_cannot_be_one_is_a_leader_that_is_gone(host: str, port: int) -> None:
    """B29: whoever may register a broker chooses what metadata tell of it: tried again by either face, then one clear error."""

    def metadata(request: bytes) -> bytes:
        (version,) = struct.unpack_from(">h", request, 2)
        broker = MetadataResponseBroker(node_id=7, host=host, port=port)
        partition = MetadataResponsePartition(leader_id=7, replica_nodes=(7,), isr_nodes=(7,))
        topic = MetadataResponseTopic(name="t", topic_id=Uuid(b"t" * 16), partitions=(partition,))
        answer = MetadataResponse(brokers=(broker,), cluster_id="c", topics=(topic,))
        return frame(request, codec.encode(answer, version), tags=b"\0")

    async def fetch(address: str) -> None:
        async with AsyncClient(address, properties=QUICK) as client:
            await client.fetch_raw("t", 0, 0)

    with server(metadata) as (address, _):
        with pytest.raises((OperatorError, PeerError)):
            asyncio.run(fetch(address))
        with BlockingClient(address, properties=QUICK) as client, pytest.raises((OperatorError, PeerError)):
            client.fetch_raw("t", 0, 0)


def serving(part: Callable[[], PartitionData | None], address: Callable[[], str]) -> Liar:
    """The node 7 at an address, which leads topic `t`, and what it answers to a fetch (None: nothing of the partition)."""

    def answered(request: bytes) -> bytes:
        key, version = struct.unpack_from(">hh", request)
        if key == 22:
            return frame(request, codec.encode(InitProducerIdResponse(producer_id=-1), version), tags=b"\0")
        if key == 1:
            parts = () if (told := part()) is None else (told,)
            answer = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=parts),))
            return frame(request, codec.encode(answer, version), tags=b"\0")
        broker = MetadataResponseBroker(node_id=7, host="127.0.0.1", port=int(address().rpartition(":")[2]))
        partition = MetadataResponsePartition(leader_id=7, replica_nodes=(7,), isr_nodes=(7,))
        topic = MetadataResponseTopic(name="t", partitions=(partition,))
        metadata = MetadataResponse(brokers=(broker,), cluster_id="c", topics=(topic,))
        return frame(request, codec.encode(metadata, version), tags=b"\0")

    return answered


def test_b29_a_leader_that_repeats_old_batches_is_left_at_the_time_limit() -> None:
    """B29: a read of a range has an end, though each answer has whole and sound batches."""
    old = bytes(build_batch([NewRecord(None, b"old", 1)], placement=Placement(base_offset=0)))
    part = PartitionData(partition_index=0, high_watermark=9, records=memoryview(old))
    with (
        server(serving(lambda: part, lambda: address)) as (address, _),
        BlockingClient(address, properties=QUICK) as client,
    ):
        parts = client.fetch_range("t", 0, start=0, end=9)
        assert next(parts).next_offset == 1
        with pytest.raises(OperatorError, match="ends at offset 0, and 1 was asked for"):
            next(parts)


@pytest.mark.parametrize(
    "part",
    [
        PartitionData(partition_index=0, preferred_read_replica=7),
        PartitionData(partition_index=0, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER),
        PartitionData(partition_index=0, records=memoryview(bytes(70))),
        PartitionData(partition_index=0, records=memoryview(SPOILT)),
        None,
    ],
    ids=["to itself", "away", "no batch", "a wrong checksum", "nothing"],
)
def test_b29_a_consumer_that_is_sent_about_rests_between(part: PartitionData | None) -> None:
    """B29: a node that names itself as the nearer copy, or gives damage, was asked thousands of times a second."""
    with (
        server(serving(lambda: part, lambda: address)) as (address, asked),
        BlockingClient(address, properties=QUICK) as client,
    ):
        consumer = BlockingConsumer(client)
        consumer.assign({TopicPartition("t", 0): 0})
        assert consumer.poll(500) == []
        consumer.close()
        assert asked.count(1) < 40, "with rests of 20 ms"


def test_b29_a_producer_id_that_is_none_is_refused() -> None:
    """B29: a producer with the id -1 is not idempotent: what it sends again would be there twice."""
    part = PartitionData(partition_index=0)
    with (
        server(serving(lambda: part, lambda: address)) as (address, _),
        BlockingClient(address, properties=QUICK) as client,
        pytest.raises(PeerError, match="gave producer id -1, which is none"),
    ):
        client.run(identify)
