"""How does a node come up, go down, and come up again on the same data?"""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.core.errors import OperatorError
from headrace.core.ids import METADATA_TOPIC_ID, Uuid
from headrace.testing.node import Node, free_ports
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.raw import RawConnection


def write(node: Node, topic: str, *values: str, partition: int = 0) -> None:
    """Values, acknowledged by all replicas."""
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "acks": "all"})
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for value in values:
        producer.produce(topic, value=value, partition=partition, on_delivery=delivered)
    assert producer.flush(10) == 0
    assert not failed


def read(node: Node, topic: str, count: int, partition: int = 0) -> list[str]:
    """The first `count` values."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "group.id": "reader"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = [message for message in consumer.consume(count, 10) if message.error() is None]
    consumer.close()
    return [(message.value() or b"").decode() for message in found]


def create(node: Node, topic: str, partitions: int = 1) -> None:
    """A topic that is there when this returns."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for done in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        done.result(10)


def delete(node: Node, topic: str) -> None:
    """A topic that is gone when this returns."""
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    for done in admin.delete_topics([topic]).values():
        done.result(10)


def topic_id(node: Node, topic: str) -> Uuid:
    """What `partition.metadata` says (S1-35)."""
    text = (node.data / f"{topic}-0" / "partition.metadata").read_text()
    found = re.search(r"topic_id: (\S+)", text)
    assert found is not None
    return Uuid.parse(found[1])


def start_by_hand(node: Node) -> subprocess.Popen[bytes]:
    """A stopped node's directory, started again as an operator would, with the states in its log."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{node.controller_port}",
        "log.dirs": str(node.data),
        "offsets.topic.replication.factor": "1",
    }
    config = node.directory / "by-hand.properties"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "headrace", "start", "--log-level", "info", str(config)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_node_goes_through_its_states_and_leaves_a_mark_of_its_clean_stop(tmp_path: Path) -> None:
    """B-K01, B-K02, B-K03, B-K04, B-K12: up in order, down in order and the broker before the quorum node.

    `.kafka_cleanshutdown` holds the broker epoch, and is gone while the node runs.
    """
    with Node(directory=tmp_path) as node:
        write(node, "kept", "a", "b")
        assert not (node.data / ".kafka_cleanshutdown").exists()
        assert node.stop() == 0
        first = json.loads((node.data / ".kafka_cleanshutdown").read_text())
        process = start_by_hand(node)
        assert process.stdout is not None
        assert b"ready" in process.stdout.readline()
        assert not (node.data / ".kafka_cleanshutdown").exists()
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0
        states = ["STARTING", "RECOVERY", "RUNNING", "PENDING_CONTROLLED_SHUTDOWN", "SHUTTING_DOWN"]
        assert re.findall(r"broker state: (\w+)", log.decode()) == states
        assert re.findall(r"the (.+) is closed", log.decode()) == ["broker", "quorum node"]
        mark = json.loads((node.data / ".kafka_cleanshutdown").read_text())
        assert mark["version"] == 0
        assert mark["brokerEpoch"] > first["brokerEpoch"] >= 0
        node.start()
        assert read(node, "kept", 2) == ["a", "b"]


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    """PR4 on one node: a process that dies loses nothing that it had acknowledged."""
    with Node(directory=tmp_path) as node:
        write(node, "kept", *(str(number) for number in range(100)))
        node.kill()
        node.start()
        assert read(node, "kept", 100) == [str(number) for number in range(100)]


def test_a_second_process_on_the_directory_is_refused(tmp_path: Path) -> None:
    """B-K07, fault:S13: the first goes on undisturbed."""
    with Node(directory=tmp_path) as node:
        second = start_by_hand(node)
        _, said = second.communicate(timeout=30)
        assert second.returncode != 0
        assert b"in use by another process" in said
        write(node, "undisturbed", "x")


def test_a_taken_port_is_an_error_of_its_own(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{free_ports(1)[0]}"
        with pytest.raises(OperatorError, match=f"127.0.0.1:{port} cannot be opened"):
            Node(directory=tmp_path, properties={"listeners": where}).start()


def test_sigterm_during_the_start_ends_it(tmp_path: Path) -> None:
    """B-K12: stopping is possible at any time; what is left starts again."""
    with Node(directory=tmp_path) as node:
        node.stop()
        process = start_by_hand(node)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=30)
        assert b" ready in " not in said
        node.start()
        write(node, "fine", "x")


def test_a_deleted_topic_goes_from_disk_and_a_new_one_of_the_name_has_another_id(tmp_path: Path) -> None:
    """S1-35, S1-37: renamed to `-delete` at once; the new topic begins empty."""
    with Node(directory=tmp_path) as node:
        create(node, "again")
        write(node, "again", "old")
        first = topic_id(node, "again")
        delete(node, "again")
        (name,) = [path.name for path in node.data.iterdir() if path.name.startswith("again-0")]
        assert name.endswith("-delete")
        create(node, "again")
        assert topic_id(node, "again") != first
        write(node, "again", "new")
        assert read(node, "again", 1) == ["new"]


def test_a_partition_that_the_metadata_does_not_know_is_set_aside_at_the_start(tmp_path: Path) -> None:
    """S1-38, S1-39, S1-40, S3-05: found by its id before any log is loaded; D-06: renamed to `-stray`. S3-63: what the metadata know is left alone."""
    with Node(directory=tmp_path) as node:
        create(node, "stays")
        write(node, "stays", "kept")
        create(node, "gone")
        write(node, "gone", "old")
        node.stop()
        kept = tmp_path / "copy"
        (node.data / "gone-0").rename(kept)
        node.start()
        delete(node, "gone")
        node.stop()
        kept.rename(node.data / "gone-0")
        node.start()
        assert not (node.data / "gone-0").exists()
        assert [path.name for path in node.data.glob("gone-0.*-stray")]
        assert not list(node.data.glob("stays-0.*"))
        assert read(node, "stays", 1) == ["kept"]


def test_old_data_does_not_show_up_in_a_topic_that_was_made_anew(tmp_path: Path) -> None:
    """S1-41: the stray check is by id, not by name."""
    with Node(directory=tmp_path) as node:
        create(node, "again")
        write(node, "again", "old")
        node.stop()
        kept = tmp_path / "copy"
        (node.data / "again-0").rename(kept)
        node.start()
        delete(node, "again")
        create(node, "again")
        write(node, "again", "new")
        node.stop()
        newer = node.data / "again-0"
        newer.rename(tmp_path / "newer")
        kept.rename(newer)
        node.start()
        write(node, "again", "newest")
        assert read(node, "again", 1) == ["newest"]


def test_a_partition_without_its_metadata_file_is_a_stray(tmp_path: Path) -> None:
    """S1-39: no `partition.metadata`, no topic id."""
    with Node(directory=tmp_path) as node:
        create(node, "bare")
        node.stop()
        (node.data / "bare-0" / "partition.metadata").unlink()
        node.start()
        assert [path.name for path in node.data.glob("bare-0.*-stray")]


def test_the_controller_listener_describes_the_quorum_and_serves_its_log(shared_node: Node) -> None:
    """S1-30: a broker of another process would follow by Fetch with its node id; the quorum then lists it as observer."""
    asked = RequestTopicData(topic_name="__cluster_metadata", partitions=(RequestPartitionData(partition_index=0),))
    with RawConnection(shared_node.controller_port) as client:
        epoch = client.ask(DescribeQuorumRequest(topics=(asked,)), 2).topics[0].partitions[0].leader_epoch
        partition = FetchPartition(
            partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1 << 20, last_fetched_epoch=0
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=77),
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
        )
        answer = client.ask(request, 17).responses[0].partitions[0]
        assert answer.error_code == 0
        assert answer.high_watermark > 0
        assert answer.records
        quorum = client.ask(DescribeQuorumRequest(topics=(asked,)), 2).topics[0].partitions[0]
        assert [voter.replica_id for voter in quorum.current_voters] == [1]
        assert 77 in [observer.replica_id for observer in quorum.observers]


def test_the_two_kinds_of_endpoint_describe_the_cluster(shared_node: Node) -> None:
    """KIP-919: brokers on a broker listener, controllers on a controller listener, an error for the other."""
    with RawConnection(shared_node.port) as client:
        assert [one.broker_id for one in client.ask(DescribeClusterRequest(), 2).brokers] == [1]
        assert client.ask(DescribeClusterRequest(endpoint_type=2), 1).error_code == 114
    with RawConnection(shared_node.controller_port) as client:
        described = client.ask(DescribeClusterRequest(endpoint_type=2), 1)
        assert described.controller_id == 1
        assert [(one.broker_id, one.port) for one in described.brokers] == [(1, shared_node.controller_port)]
        assert client.ask(DescribeClusterRequest(endpoint_type=1), 1).error_code == 114


def test_finalized_features_are_told(shared_node: Node) -> None:
    """B-W02: metadata.version 30 is finalized; what is not built is supported at level 0 only, and version 3 leaves it out."""
    with RawConnection(shared_node.port) as client:
        newest = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 4)
        older = client.ask(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3)
        bad = client.ask(ApiVersionsRequest(client_software_name="r w", client_software_version="1"), 3)
    assert {one.name: one.max_version_level for one in newest.finalized_features}["metadata.version"] == 30
    assert newest.finalized_features_epoch >= 0
    assert {one.name: one.max_version for one in newest.supported_features}["transaction.version"] == 0
    assert {one.name: one.min_version for one in older.supported_features} == {
        one.name: one.min_version for one in newest.supported_features if one.min_version > 0
    }
    assert "metadata.version" in [one.name for one in older.supported_features]
    assert bad.error_code == 42


def test_a_controller_alone_serves_its_listener(tmp_path: Path) -> None:
    """S1-05: `process.roles=controller` hosts no partitions and opens no broker listener."""
    controller_port = free_ports(1)[0]
    settings = {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{controller_port}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }
    with Node(directory=tmp_path, properties=settings), RawConnection(controller_port) as client:
        assert client.ask(DescribeClusterRequest(endpoint_type=2), 1).controller_id == 1
        assert client.ask(BrokerHeartbeatRequest(broker_id=9), 1).error_code == 77


def test_a_broker_that_reaches_no_controller_gives_up_with_a_reason(tmp_path: Path) -> None:
    """S1-13: it asks until initial.broker.registration.timeout.ms."""
    settings = {
        "process.roles": "broker",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "controller.quorum.voters": "3000@127.0.0.1:1",
        "initial.broker.registration.timeout.ms": "300",
    }
    with pytest.raises(OperatorError, match=r"initial\.broker\.registration\.timeout\.ms"):
        Node(directory=tmp_path, properties=settings).start()
