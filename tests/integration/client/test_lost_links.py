"""Does a blocking client go on when a connection went behind the back of what flies on it?"""

from __future__ import annotations

from pathlib import Path

from headrace.client import admin_topics
from headrace.client.accumulator import BatchOptions
from headrace.client.blocking import BlockingClient
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.blocking_records import RecordProducer
from headrace.client.offsets import LATEST
from headrace.core.ids import TopicPartition
from headrace.records.record import NewRecord, build_batch
from headrace.testing import Node
from tests.support.peer import Peer, batch


def test_a_consumer_goes_on_when_its_leader_is_its_coordinator_and_was_restarted(tmp_path: Path) -> None:
    """inv:GL1: the commit finds the connection lost, on which a fetch waits; the next poll takes that for lost, too."""
    with Node(in_process=True, directory=tmp_path) as node, BlockingClient(node.bootstrap_servers) as client:
        peer = Peer("headrace", node.port)
        peer.create("t")
        assert peer.produce("t", batch(b"a", b"b")).error_code == 0
        consumer = BlockingConsumer(client, group_id="g", topics=["t"], reset="earliest")
        while not consumer.poll(1_000):
            pass
        node.stop()
        node.start()
        consumer.commit(dict(consumer.positions))
        assert peer.produce("t", batch(b"c")).error_code == 0
        seen: list[bytes | None] = []
        while not seen:
            seen = [record.value for chunk in consumer.poll(1_000) for _, record in consumer.records(chunk)]
        assert seen == [b"c"]
        consumer.close()


def test_answers_that_were_read_along_with_another_one_are_taken() -> None:
    """`poll` takes what is there, also when it lies in the link's own buffer and not in the socket."""
    with Node(in_process=True) as node, BlockingClient(node.bootstrap_servers) as client:
        Peer("headrace", node.port).create("t")
        out = client.producer(is_idempotent=False)
        out.send("t", 0, build_batch([NewRecord(None, b"first", 5)]))
        out.flush()
        sent = [out.send("t", 0, build_batch([NewRecord(None, b"more", 5)])) for _ in range(3)]
        client.topics()
        out.poll()
        assert [each.base_offset for each in sent] == [1, 2, 3]


def test_partitions_that_were_added_get_records_too() -> None:
    """KIP-794: a producer looks at its topic again after `metadata.max.age.ms`, as Kafka's does."""
    with (
        Node(in_process=True) as node,
        BlockingClient(node.bootstrap_servers, properties={"metadata.max.age.ms": "1"}) as client,
    ):
        Peer("headrace", node.port).create("growing")
        out = RecordProducer(client, "growing", options=BatchOptions(batch_bytes=100))
        out.send(None, b"x" * 200, timestamp_ms=5)
        out.flush()
        assert client.run(admin_topics.create_partitions, {"growing": 2}) == {"growing": None}
        while client.list_offsets({TopicPartition("growing", 1): LATEST})[TopicPartition("growing", 1)].offset == 0:
            out.send(None, b"x" * 200, timestamp_ms=5)
            out.flush()
