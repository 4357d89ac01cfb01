"""Consumers that read from the replica of their rack (KIP-392): beside Apache Kafka's brokers, and with other makers' clients."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from headrace.client.blocking import BlockingClient, now_ms
from headrace.core.ids import TopicPartition
from headrace.records.record import read_all_records
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.fetch import FetchPartition
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers import kafka
from tests.peers.quorum import MixedCluster
from tests.support.copies import FAST, create, in_sync
from tests.support.peer import batch, fetch_request
from tests.support.roles import until

OURS, KAFKAS = 101, 102
RACKS = {101: "a", 102: "b", 103: "c"}
SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def in_racks(cluster: Cluster) -> Cluster:
    """Each broker in a rack of its own."""
    for broker in cluster.brokers:
        broker.properties["broker.rack"] = RACKS[broker.node_id]
    return cluster


def produce(broker: Member, topic: str, *values: bytes) -> None:
    """One batch to the leader, which every replica has then."""
    data = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=bytes(batch(*values))),))
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=(data,))
    answer = ask(broker.place.host, broker.port, request, 9, timeout_s=15)
    assert answer.responses[0].partition_responses[0].error_code == 0


def fetched(broker: Member, topic: str, offset: int, *, version: int = 12, epoch: int = -1, rack: str = "") -> Any:
    """What a consumer is told of partition 0."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20)
    answer = ask(broker.place.host, broker.port, fetch_request(topic, [wanted], rack_id=rack), version)
    assert answer.error_code == 0
    return answer.responses[0].partitions[0]


def told_by_a_follower(broker: Member, topic: str) -> list[object]:
    """Its answers to what consumers ask."""
    told: list[object] = []
    for version, offset, epoch, rack in (
        (4, 0, -1, ""), (10, 0, -1, ""), (11, 0, -1, ""), (12, 0, 0, "a"), (12, 0, 1, ""), (12, 0, 0, "elsewhere"),
        (12, 3, 0, ""), (12, 4, 0, ""), (12, -5, -1, ""), (12, 1, 0, ""),
    ):  # fmt: skip
        one = fetched(broker, topic, offset, version=version, epoch=epoch, rack=rack)
        size = len(one.records or b"")
        offsets = (one.high_watermark, one.last_stable_offset, one.log_start_offset)
        told.append((version, offset, one.error_code, offsets, size, one.preferred_read_replica))
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    listed = ListOffsetsRequest(topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),))
    told.append(ask(broker.place.host, broker.port, listed, 7).topics[0].partitions[0].error_code)
    ends = OffsetForLeaderTopic(topic=topic, partitions=(OffsetForLeaderPartition(partition=0, leader_epoch=0),))
    epochs = OffsetForLeaderEpochRequest(replica_id=-1, topics=(ends,))
    told.append(ask(broker.place.host, broker.port, epochs, 4).topics[0].partitions[0].error_code)
    return told


@pytest.mark.java
def test_a_follower_and_a_leader_of_either_kind_answer_consumers_alike() -> None:
    """inv:P14 inv:P17 S3-104 KIP-392: a Kafka broker that follows one of ours, and the other way round; each tells who is nearer."""
    cluster = in_racks(MixedCluster(kafkas=(KAFKAS,), controllers=1, brokers=2, properties=SELECTOR))
    with cluster:
        create(cluster, "ours", [(KAFKAS, OURS)])
        create(cluster, "kafkas", [(OURS, KAFKAS)])
        for leader, follower, topic in ((KAFKAS, OURS, "ours"), (OURS, KAFKAS, "kafkas")):
            produce(cluster[leader], topic, b"a", b"b", b"c")
            until(lambda at=follower, of=topic: fetched(cluster[at], of, 0).high_watermark == 3 or None)  # type: ignore[misc]
        assert told_by_a_follower(cluster[OURS], "ours") == told_by_a_follower(cluster[KAFKAS], "kafkas")
        for leader, follower, topic in ((KAFKAS, OURS, "ours"), (OURS, KAFKAS, "kafkas")):
            sent = [
                fetched(cluster[leader], topic, offset, version=version, rack=rack)
                for version in (11, 12)
                for offset in (0, 3)
                for rack in (RACKS[follower], RACKS[leader], "", "elsewhere")
            ]
            sizes = [len(each.records or b"") for each in sent]
            size = max(sizes)
            assert [each.preferred_read_replica for each in sent] == [follower, -1, -1, -1] * 4
            assert sizes == [0, size, size, size, 0, 0, 0, 0] * 2
            assert {(each.high_watermark, each.last_stable_offset, each.log_start_offset) for each in sent} == {
                (3, 3, 0)
            }


@pytest.fixture
def lines() -> list[str]:
    """What is written."""
    return [f"line {number}" for number in range(400)]


@pytest.fixture
def cluster(lines: list[str]) -> Any:
    """Three of ours in three racks, and topic `t` led in the first."""
    properties = {**FAST, "replica.selector.class": "rack-aware"}
    with in_racks(Cluster(controllers=1, brokers=3, properties=properties)) as running:
        create(running, "t", [(101, 102, 103)])
        for at in range(0, len(lines), 40):
            produce(running[101], "t", *(line.encode() for line in lines[at : at + 40]))
        in_sync(running, "t")
        yield running


@pytest.mark.kcat
def test_kcat_reads_from_the_replica_of_its_rack(cluster: Cluster, lines: list[str]) -> None:
    """KIP-392: librdkafka is told once by the leader, and then fetches from the follower alone; without a rack it stays with the leader."""
    for rack, reads_from in (("b", 102), ("c", 103), ("", 101)):
        command = ["kcat", "-b", cluster.bootstrap_servers, "-C", "-t", "t", "-p", "0", "-e", "-q", "-d", "fetch"]
        small = ["-X", "fetch.message.max.bytes=1000", "-X", f"client.rack={rack}"]
        done = subprocess.run([*command, *small], capture_output=True, text=True, check=True, timeout=60)
        assert done.stdout.splitlines() == lines
        counts = {
            broker.node_id: done.stderr.count(f":{broker.port}/{broker.node_id}: Fetch topic t [0] at offset")
            for broker in cluster.brokers
        }
        others = [count for node_id, count in counts.items() if node_id not in (101, reads_from)]
        assert others == [0] * len(others), counts
        assert counts[reads_from] > 3, counts
        assert reads_from == 101 or counts[101] < counts[reads_from], counts


def test_our_client_reads_from_the_replica_of_its_rack(cluster: Cluster, lines: list[str]) -> None:
    """KIP-392: a range is read from the near copy, and from the leader when that dies."""
    where = TopicPartition("t", 0)
    with BlockingClient(cluster.bootstrap_servers, properties={"client.rack": "c"}) as client:

        def read() -> tuple[list[str], list[int]]:
            found, nodes = [], []
            for part in client.fetch_range("t", 0, start=0, end=len(lines), max_bytes=1000):
                found += [
                    bytes(each.value or b"").decode()
                    for _, records in read_all_records(part.records)
                    for each in records
                ]
                nodes.append(client.session.cluster.reads_from(where, now_ms()))
            return found, nodes

        assert read() == (lines, [103] * 10)
        cluster[103].kill()
        found, nodes = read()
        assert (found, nodes[-1]) == (lines, 101)


@pytest.mark.java
def test_kafkas_console_consumer_reads_from_the_replica_of_its_rack(cluster: Cluster, lines: list[str]) -> None:
    """KIP-392: the Java client says which replica it was told of, and gets every record from there."""
    where = (
        "--bootstrap-server",
        cluster.bootstrap_servers,
        "--topic",
        "t",
        "--partition",
        "0",
        "--offset",
        "earliest",
    )
    ends = ("--max-messages", str(len(lines)), "--timeout-ms", "30000", "--command-property", "client.rack=c")
    command = kafka.java_command(kafka.TOOLS["kafka-console-consumer"], *where, *ends)
    environment = {**os.environ, "KAFKA_LOG_LEVEL": "debug"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
    assert done.stdout.splitlines() == lines
    fetches = [line for line in done.stderr.splitlines() if "read_uncommitted" in line and "toSend=(t-0)" in line]
    nodes = [broker.node_id for line in fetches for broker in cluster.brokers if f"(id: {broker.node_id} " in line]
    assert "Updating preferred read replica for partition t-0 to 103" in done.stderr
    assert (nodes[0], set(nodes[1:])) == (101, {103})
