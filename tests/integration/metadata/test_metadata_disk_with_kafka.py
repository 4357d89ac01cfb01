"""Kafka's tools and Kafka itself on our directory, and we on Kafka's."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from headrace.config.node_settings import parse_node_config
from headrace.server.run import NodeThread
from headrace.testing import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.peers import kafka
from tests.support.raw import RawConnection
from tests.support.roles import until

pytestmark = pytest.mark.java
SMALL_SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": "3000"}


def make_topics(port: int) -> None:
    """`kept` with two partitions and a setting, `gone` made and deleted, and a row of others."""
    with RawConnection(port) as connection:
        setting = CreatableTopicConfig(name="retention.ms", value="123456789")
        topics = [CreatableTopic(name="kept", num_partitions=2, replication_factor=1, configs=(setting,))]
        topics += [CreatableTopic(name=f"t{n}", num_partitions=1, replication_factor=1) for n in range(20)]
        topics.append(CreatableTopic(name="gone", num_partitions=100, replication_factor=1))
        answer = connection.ask(CreateTopicsRequest(topics=tuple(topics)), 7)
        assert {each.error_code for each in answer.topics} == {0}
        deletion = DeleteTopicsRequest(topics=(DeleteTopicState(name="gone"),), timeout_ms=30_000)
        assert connection.ask(deletion, 6).responses[0].error_code == 0


def seen(port: int) -> tuple[dict[str, list[tuple[int, int]]], str | None]:
    """(partition, leader) of each topic, and the setting of `kept`, as a client sees them once the broker has caught up."""
    resource = DescribeConfigsResource(resource_type=2, resource_name="kept", configuration_keys=("retention.ms",))
    with RawConnection(port) as connection:
        deadline = time.monotonic() + 30
        while True:
            answer = connection.ask(MetadataRequest(topics=None), 12)
            topics = {
                topic.name: sorted((each.partition_index, each.leader_id) for each in topic.partitions)
                for topic in answer.topics
            }
            if topics == EXPECTED[0] or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        configs = connection.ask(DescribeConfigsRequest(resources=(resource,)), 4)
    return topics, configs.results[0].configs[0].value


EXPECTED = ({"kept": [(0, 1), (1, 1)], **{f"t{n}": [(0, 1)] for n in range(20)}}, "123456789")


def cluster_metadata(data: Path) -> Path:
    """The metadata partition's directory."""
    return data / "__cluster_metadata-0"


def test_kafka_reads_our_metadata_and_serves_it(tmp_path: Path) -> None:
    """B-R01, B-S02, B-S03, S1-36: dump-log, metadata-shell, storage info; then a Kafka node on a copy of our directory."""
    with Node(directory=tmp_path / "ours", properties=SMALL_SNAPSHOTS) as node:
        make_topics(node.port)
        assert seen(node.port) == EXPECTED
        data = node.data
        until(lambda: list(cluster_metadata(data).glob("*.checkpoint")))
    log = cluster_metadata(data) / "00000000000000000000.log"
    dumped = kafka.run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log), check=True).stdout
    assert dumped.count('"type":"REMOVE_TOPIC_RECORD"') == 1
    assert "isvalid: false" not in dumped
    assert "LeaderChange:" in dumped
    snapshots = sorted(cluster_metadata(data).glob("*.checkpoint"))
    assert snapshots
    decoded = kafka.run_tool(
        "kafka-dump-log", "--cluster-metadata-decoder", "--files", str(snapshots[-1]), check=True
    ).stdout
    assert (
        decoded.index("SnapshotHeader") < decoded.index('"name":"metadata.version"') < decoded.index("SnapshotFooter")
    )
    shown = ""
    for _ in range(5):  # on a busy machine Kafka's shell may answer before it has loaded the snapshot
        find = ("find", "/image/topics/byName")
        shown = kafka.run_tool("kafka-metadata-shell", "--snapshot", str(snapshots[-1]), *find).stdout
        if len(shown.splitlines()) > 1:
            break
    assert "/image/topics/byName/kept/1" in shown

    theirs = kafka.Kafka(tmp_path / "kafka")
    shutil.copytree(data, theirs.data)
    info = kafka.run_tool("kafka-storage", "info", "-c", str(theirs.config), check=True).stdout
    assert "Found metadata: {cluster.id=" in info
    with theirs:
        assert seen(theirs.port) == EXPECTED


def test_we_go_on_with_kafkas_directory(tmp_path: Path) -> None:
    """B-S10, B-C20, B-R03: a directory that Kafka formatted and used; the epoch rises, nothing is lost; and Kafka takes it back."""
    theirs = kafka.Kafka(
        tmp_path / "kafka",
        format_arguments=kafka.plain_features(),
        properties={"metadata.log.max.record.bytes.between.snapshots": "3000"},
    )
    with theirs:
        make_topics(theirs.port)
        assert seen(theirs.port) == EXPECTED
    directory = tmp_path / "ours"
    directory.mkdir()
    shutil.copytree(theirs.data, directory / "data")
    with Node(directory=directory) as node:
        assert seen(node.port) == EXPECTED
    shutil.rmtree(theirs.data)
    shutil.copytree(directory / "data", theirs.data)
    with theirs:
        assert seen(theirs.port) == EXPECTED


def test_a_standalone_directory_of_kafka_is_ours_too(tmp_path: Path) -> None:
    """B-S10, KIP-853: kraft.version 1 with its voter in the 0-0 snapshot, which goes into the log at the first start."""
    port, controller_port = kafka.free_ports(2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(tmp_path / "data"),
    }
    config = tmp_path / "server.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    kafka.run_tool(
        "kafka-storage",
        *("format", "-t", kafka.CLUSTER_ID, "-c", str(config), "--standalone", *kafka.plain_features()),
        check=True,
    )
    for _ in range(2):
        thread = NodeThread(parse_node_config(settings))
        thread.start()
        with RawConnection(port) as connection:
            assert connection.ask(MetadataRequest(topics=None), 12).controller_id == 1
        thread.stop()
    log = cluster_metadata(tmp_path / "data") / "00000000000000000000.log"
    dumped = kafka.run_tool("kafka-dump-log", "--cluster-metadata-decoder", "--files", str(log), check=True).stdout
    assert dumped.count("KRaftVoters") == 1
    assert dumped.count("LeaderChange:") == 2


def test_a_kafka_broker_follows_our_controller(tmp_path: Path) -> None:
    """S1-30, S1-42, B-S05, B-S06, B-C29: it fetches our snapshot and our log, registers, is unfenced, and gets replicas."""
    port = kafka.free_ports(1)[0]
    with Node(directory=tmp_path / "ours", properties=SMALL_SNAPSHOTS) as node:
        make_topics(node.port)
        until(lambda: list(cluster_metadata(node.data).glob("*.checkpoint")))
        theirs = kafka.Kafka(
            tmp_path / "kafka",
            port=port,
            format_arguments=kafka.plain_features(),
            properties={
                "process.roles": "broker",
                "node.id": "2",
                "controller.quorum.voters": f"1@127.0.0.1:{node.controller_port}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            },
        )
        cluster_id = (node.data / "meta.properties").read_text().partition("cluster.id=")[2].split()[0]
        kafka.run_tool(
            "kafka-storage",
            *("format", "-t", cluster_id, "-c", str(theirs.config), *kafka.plain_features()),
            check=True,
        )
        with theirs:
            assert seen(theirs.port) == EXPECTED
            with RawConnection(node.port) as ours:
                topic = CreatableTopic(name="both", num_partitions=4, replication_factor=2)
                assert ours.ask(CreateTopicsRequest(topics=(topic,)), 7).topics[0].error_code == 0
                asked = (RequestTopicData(topic_name="__cluster_metadata", partitions=(RequestPartitionData(),)),)
                [described] = ours.ask(DescribeQuorumRequest(topics=asked), 2).topics[0].partitions
                assert [each.replica_id for each in described.observers] == [2]
            view = {}
            for number in (node.port, theirs.port):
                with RawConnection(number) as connection:
                    deadline = time.monotonic() + 20
                    request = MetadataRequest(topics=(MetadataRequestTopic(name="both"),))
                    while time.monotonic() < deadline:
                        answer = connection.ask(request, 12)
                        view[number] = sorted(
                            (each.partition_index, each.leader_id, sorted(each.isr_nodes))
                            for topic_ in answer.topics
                            for each in topic_.partitions
                        )
                        if len(view[number]) == 4:
                            break
                        time.sleep(0.1)
            assert view[node.port] == view[theirs.port]
            assert {leader for _, leader, _ in view[node.port]} == {1, 2}
            assert all(isr == [1, 2] for _, _, isr in view[node.port])
