"""In which order does a broker start, and who may see it meanwhile?"""

from __future__ import annotations

from headrace.broker.topic_listing import alive_end_points
from headrace.core.listener import QuorumVoter
from headrace.node.lifecycle import BrokerState, RecoverLogs
from headrace.node.machine import MetadataFailed
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchRequest
from tests.support.broker_bench import Client
from tests.support.memory_node import MemoryNode
from tests.support.metrics import shown, watched
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.raft.test_following import batch as metadata_batch
from tests.unit.raft.test_following import fetched

LEADER = 9


def used() -> MemoryNode:
    """A node that had a topic with a record, and was killed."""
    node = MemoryNode()
    node.start()
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
    node.settle()
    Client(node).ask(produce_request("t", batch(b"kept"), acks=1), 9)
    node.disk.unlock()
    return node


def test_a_broker_reads_the_metadata_before_its_logs_and_announces_itself_after_them() -> None:
    """S3-28, S3-30, S3-31, S3-32, S1-40: up to its own registration at least; then its logs are recovered and each replica gets its role; only then is it unfenced."""
    node = MemoryNode(after=used(), holds_recovery=True)
    node.start()
    assert node.states == [BrokerState.STARTING, BrokerState.RECOVERY]
    assert [type(each) for each in node.done].count(RecoverLogs) == 1
    lifecycle = node.machine.lifecycle
    assert lifecycle is not None
    image = node.machine.image
    assert image.provenance.last_contained_offset >= lifecycle.broker_epoch
    assert image.cluster.brokers[1].broker_epoch == lifecycle.broker_epoch
    assert "t" in image.topics.by_name
    assert node.logs.logs() == {}
    node.settle()
    assert image.cluster.brokers[1].fenced
    assert alive_end_points(node.machine.image, "PLAINTEXT") == {}
    node.recover()
    hosted = node.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.log is not None
    assert hosted.log.log_end_offset == 1
    assert alive_end_points(node.machine.image, "PLAINTEXT") == {}
    node.settle()
    assert node.states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]
    assert set(alive_end_points(node.machine.image, "PLAINTEXT")) == {1}
    found = Client(node).ask(fetch_request("t"), 12).responses[0].partitions[0]
    assert (found.error_code, b"kept" in bytes(found.records)) == (0, True)


def test_a_record_that_makes_no_sense_stops_a_broker_and_is_counted() -> None:
    """S3-03, inv:C18, B-M04: it came from the leader, committed; nothing of it is published, the process is to end, and the metric says of which kind the fault is."""
    voters = (QuorumVoter(LEADER, "leader", 9093),)
    node = MemoryNode(process_roles=("broker",), node_id=1, controller_quorum_voters=voters)
    service = watched(node)
    node.start()
    records = b"\x01\x63\x00\x00"
    for _ in range(3):
        asked = [each for each in node.asked if isinstance(each.request, FetchRequest)][-1]
        data = metadata_batch(0, records, epoch=1) if len(node.asked) > 1 else b""
        node.machine.answered(
            asked.correlation, fetched(records=data, high_watermark=1 if data else 0, leader=LEADER, epoch=1)
        )
        node.work()
    failures = [each for each in node.done if isinstance(each, MetadataFailed)]
    assert len(failures) == 1
    counts = shown(service)
    assert (node.machine.metadata_load_errors, node.machine.metadata_apply_errors) == (1, 0)
    assert counts["kafka_server_broker_metadata_metrics_metadata_load_error_count"] == 1
    assert counts["kafka_server_broker_metadata_metrics_metadata_apply_error_count"] == 0
