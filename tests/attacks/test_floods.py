"""Very many of what a node must remember or send: producers, members, readers that do not read, connections that say nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import pytest

from headrace.core.error_code import ErrorCode
from headrace.records.batch import HEADER_SIZE, set_crc
from headrace.records.record import NO_PRODUCER, NewRecord, ProducerStamp, build_batch
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.attacks import MIB, POLITE_TOPIC, Target, wait_until
from tests.support.peer import batch, produce_request
from tests.support.raw import RawConnection, request_frame, row_of

PRODUCERS = 100_000
PARTITIONS = 20
_PRODUCER_ID = slice(43, 51)
_EPOCH_AND_SEQUENCE = slice(51, 57)


def of_producer(producer_id: int) -> bytes:
    """A batch of one record, the first of this producer."""
    made = bytearray(batch(b"a"))
    assert len(made) > HEADER_SIZE
    made[_PRODUCER_ID] = producer_id.to_bytes(8, "big")
    made[_EPOCH_AND_SEQUENCE] = bytes(6)
    set_crc(made, 0, len(made))
    return bytes(made)


@pytest.fixture
def metrics_target() -> Iterator[tuple[Target, tuple[str, int]]]:
    """A node that answers for its metrics, and where."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Target(properties={"headrace.metrics.listener": f"127.0.0.1:{port}"}) as running:
        yield running, ("127.0.0.1", port)


def test_a_hundred_thousand_producers_of_one_partition_are_remembered_cheaply(target: Target) -> None:
    """KIP-98: each is known until `producer.id.expiration.ms`; snapshots of all of them are written meanwhile, as segments roll."""
    target.create_topic("producers", segment_bytes=str(MIB))
    with target.attacked(memory=128 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(60)
        row = row_of(produce_request("producers", None))
        for first in range(0, PRODUCERS, 500):
            frames = [
                request_frame(produce_request("producers", of_producer(each), acks=1), 9, each)
                for each in range(first, first + 500)
            ]
            peer.send(b"".join(frames))
            for each in range(first, first + 500):
                (one,) = peer.answer(row, 9, each).responses[0].partition_responses
                assert one.error_code == ErrorCode.NONE


def test_what_many_partitions_forgot_of_a_producer_is_looked_for_at_once(target: Target) -> None:
    """inv:E2 PR8: after a clean stop each partition knows a producer's last batch only, and looks for those before it; one request for twenty held the loop for half a second."""
    target.create_topic("forgotten", PARTITIONS)

    def of_all(*values: bytes, producer: ProducerStamp = NO_PRODUCER) -> bytes:
        records = bytes(batch(*values, producer=producer))
        parts = tuple(PartitionProduceData(index=each, records=records) for each in range(PARTITIONS))
        topic = TopicProduceData(name="forgotten", partition_data=parts)
        return request_frame(ProduceRequest(acks=1, timeout_ms=5_000, topic_data=(topic,)), 9)

    def errors(peer: RawConnection, data: bytes) -> set[int]:
        peer.send(data)
        answer = peer.answer(row_of(ProduceRequest()), 9)
        return {one.error_code for one in answer.responses[0].partition_responses}

    with RawConnection(target.node.port) as peer:
        peer.socket.settimeout(60)
        first = of_all(b"a", producer=ProducerStamp(5, 0, 0))
        wait_until(lambda: errors(peer, first) == {ErrorCode.NONE}, "all partitions are led")
        fifty = of_all(b"x") * 50
        for _ in range(100):
            peer.send(fifty)
            for _ in range(50):
                assert peer.receive_frame()
        assert errors(peer, of_all(b"a", producer=ProducerStamp(5, 0, 1))) == {ErrorCode.NONE}
    target.node.stop()
    target.node.start()
    with target.attacked(memory=32 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(60)
        found = errors(peer, of_all(b"b", b"c", producer=ProducerStamp(5, 0, 0)))
    assert found == {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


def test_metadata_of_members_is_kept_once(target: Target) -> None:
    """M1: 300 members of one group with a megabyte each, until their sessions are over. What they sent is remembered, as by Kafka, not a second time with their requests, and once more while the leader of a generation is told."""
    with RawConnection(target.node.port) as peer:
        find = FindCoordinatorRequest(key="great", key_type=0)
        wait_until(lambda: peer.ask(find, 3).error_code == ErrorCode.NONE, "there is a coordinator")
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(MIB))
    request = JoinGroupRequest(
        group_id="great",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=6_000,
        protocol_type="consumer",
        protocols=(protocol,),
    )
    data = request_frame(request, 2)
    with target.attacked(memory=640 * MIB), ExitStack() as opened:
        for _ in range(300):
            peer = opened.enter_context(RawConnection(target.node.port))
            with suppress(ConnectionError):
                peer.send(data)
        opened.close()
        with RawConnection(target.node.port) as asking:  # that they go is part of it, and takes memory, too
            wait_until(lambda: _members_are_gone(asking, "great"), "their sessions are over")


def _members_are_gone(peer: RawConnection, group: str) -> bool:
    listed = peer.ask(ListGroupsRequest(), 4).groups
    return all(each.group_state in ("Empty", "Dead") for each in listed if each.group_id == group)


def test_long_settings_are_refused_or_kept_within_bounds(target: Target) -> None:
    """KIP-339: 300 changes of a topic's setting to lists of 30 KB, one after the other."""
    value = ",".join(f"{number}:{number}" for number in range(2_500))
    change = AlterableConfig(name="follower.replication.throttled.replicas", config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=POLITE_TOPIC, configs=(change,))
    with target.attacked(memory=64 * MIB), RawConnection(target.node.port) as peer:
        for number in range(300):
            peer.ask(IncrementalAlterConfigsRequest(resources=(resource,)), 1, number)


def test_extreme_names_are_refused(target: Target) -> None:
    """Kafka's rule for names: 32,767 bytes, control characters, dots, other scripts; asked for and created."""
    names = ["x" * 32_767, "\x00\x01\n", ".", "..", "ж" * 9_000, "a/../../b", "", "%s" * 1_000, " "]
    with target.attacked(memory=32 * MIB), RawConnection(target.node.port) as peer:
        for name in names:
            topics = (CreatableTopic(name=name, num_partitions=1, replication_factor=1),)
            made = peer.ask(CreateTopicsRequest(topics=topics, timeout_ms=5_000), 5)
            assert made.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
            asked = MetadataRequest(topics=(MetadataRequestTopic(name=name),), allow_auto_topic_creation=True)
            assert peer.ask(asked, 9).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_readers_of_much_who_never_read_hold_no_memory(target: Target) -> None:
    """inv:M5: 50 connections that fetch 50 MB each again and again, and read nothing: stored bytes stay in their files."""
    target.create_topic("much", max_message_bytes=str(2 * MIB))
    with RawConnection(target.node.port) as peer:
        for number in range(60):
            request = produce_request("much", batch(b"a" * MIB), acks=1)
            (one,) = peer.ask(request, 9, number).responses[0].partition_responses
            assert one.error_code == ErrorCode.NONE
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 * MIB)
    fetching = FetchRequest(
        max_bytes=50 * MIB, session_epoch=-1, topics=(FetchTopic(topic="much", partitions=(part,)),)
    )
    data = b"".join(request_frame(fetching, 12, each) for each in range(20))
    with target.attacked(memory=64 * MIB), ExitStack() as opened:
        for _ in range(50):
            opened.enter_context(RawConnection(target.node.port)).send(data)
        time.sleep(1.0)


def test_connections_that_say_nothing_are_cheap(target: Target) -> None:
    """1,000 of them, half with the beginning of a request."""
    with target.attacked(memory=32 * MIB), ExitStack() as opened:
        for number in range(1_000):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", target.node.port), 10))
            if number % 2:
                one.send(b"\0\0")
        time.sleep(1.0)


def test_the_metrics_listener_survives_whatever_is_not_http(metrics_target: tuple[Target, tuple[str, int]]) -> None:
    """B79: garbage, headers without end, requests byte by byte, pipelines that nobody reads, and many who only connect."""
    target, where = metrics_target
    with target.attacked(memory=48 * MIB), ExitStack() as opened:
        hostile = [
            b"\x16\x03\x01" + bytes(range(256)) * 40,
            b"GET /metrics HTTP/1.1\r\n" + b"X-Long: " + b"a" * 100_000,
            b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 20_000,
            b"GET " + b"/" * 60_000 + b" HTTP/1.1\r\n\r\n",
            b"\r\n" * 5_000,
            b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 3_000,
            b"GET /metrics HTTP/1.1\r\nHost: x\r\nA:" + b" " * 8_000 + b"\x00\r\n\r\n",
        ]
        for data in hostile * 5:
            one = opened.enter_context(socket.create_connection(where, 10))
            one.settimeout(1)
            with suppress(OSError):
                one.sendall(data)
        for _ in range(200):
            one = opened.enter_context(socket.create_connection(where, 10))
            with suppress(OSError):
                one.send(b"G")
        time.sleep(1.0)
    with socket.create_connection(where, 10) as sound:
        sound.settimeout(30)
        sound.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert sound.recv(64).startswith(b"HTTP/1.1 200")


def test_a_flood_that_wants_no_answers(target: Target) -> None:
    """M1: 80,000 produces with acks=0 from 20 connections, which nothing slows down but the node's reading: the more of them, the less each may have in a turn."""
    target.create_topic("acks-0")
    now_ms = int(time.time() * 1000)
    data = (
        request_frame(produce_request("acks-0", build_batch([NewRecord(None, b"x" * 1_000, now_ms)]), acks=0), 9) * 200
    )
    with target.attacked(memory=32 * MIB), ExitStack() as opened, ThreadPoolExecutor(20) as threads:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(20)]
        for peer in peers:
            peer.socket.settimeout(120)
        for each in [threads.submit(peer.send, data * 20) for peer in peers]:
            each.result()
        for peer in peers:  # answered when all before it is done
            assert peer.ask(MetadataRequest(topics=()), 9).brokers


def test_short_bursts_of_a_crowd(target: Target) -> None:
    """M4, M6: 150 connections send 280 small produces each at the same moment, five times: of each less than what is read of one at once, 42,000 in all."""
    burst(target, "bursts", rounds=5, size=30_000)


def test_bursts_that_are_just_short_enough(target: Target) -> None:
    """M4, M6: the same of fifteen each, one fewer than makes somebody one of a crowd, 2,250 in all."""
    burst(target, "short", rounds=20, number=15)


def burst(target: Target, topic: str, *, rounds: int, size: int = 0, number: int = 0) -> None:
    """150 connections send `number` of produces, or as many as `size` bytes are, at the same moment, again and again."""
    target.create_topic(topic)
    now_ms = int(time.time() * 1000)
    one = request_frame(produce_request(topic, build_batch([NewRecord(None, b"x", now_ms)]), acks=0), 9)
    data = one * (number or size // len(one))
    with target.attacked(memory=64 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(150)]
        for peer in peers:
            peer.socket.settimeout(120)
        for _ in range(rounds):
            for peer in peers:
                peer.send(data)
            for peer in peers:  # answered when all before it is done
                assert peer.ask(MetadataRequest(topics=()), 9).brokers


def test_a_crowd_with_large_requests(target: Target) -> None:
    """M4, M6: 40 connections send a megabyte at a time as fast as it is read, for three seconds."""
    target.create_topic("large", segment_bytes=str(16 * MIB), retention_bytes=str(64 * MIB))
    batch_of_much = build_batch([NewRecord(None, bytes(1_000_000), int(time.time() * 1000))])
    data = request_frame(produce_request("large", batch_of_much, acks=0), 9)

    def send(peer: RawConnection) -> None:
        peer.socket.settimeout(120)
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            peer.send(data)
        assert peer.ask(MetadataRequest(topics=()), 9).brokers

    with target.attacked(memory=128 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(40)]
        with ThreadPoolExecutor(len(peers)) as threads:
            list(threads.map(send, peers))
