"""Does kafka-python find what it expects? Producer, consumer, groups and admin in pure Python."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

Name = Callable[[str], str]


def create(bootstrap: str, topic: str, partitions: int = 1) -> str:
    """A topic, by kafka-python's own admin client."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        admin.close()
    return topic


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_what_is_produced_is_read_again(bootstrap: str, new_name: Name, codec: str | None) -> None:
    """B-W06: offsets, keys, values and headers."""
    topic = create(bootstrap, new_name("kp"))
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, linger_ms=2)
    try:
        sent = [producer.send(topic, b"%d" % index, key=b"k", headers=[("h", b"v")]) for index in range(300)]
        assert [each.get(30).offset for each in sent] == list(range(300))
    finally:
        producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=20_000)
    try:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        found = []
        for message in consumer:
            found.append((message.offset, message.key, message.value))
            if len(found) == 300:
                break
        assert found == [(index, b"k", b"%d" % index) for index in range(300)]
        assert consumer.end_offsets([where]) == {where: 300}
    finally:
        consumer.close()


def test_a_group_goes_on_where_it_committed(bootstrap: str, new_name: Name) -> None:
    """B-P06: commit, leave, come back."""
    topic, group = create(bootstrap, new_name("kp-group"), 2), new_name("group")
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for index in range(20):
        producer.send(topic, b"%d" % index, partition=index % 2)
    producer.flush(30)
    producer.close()
    seen: list[bytes] = []
    for target in (10, 20):
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_records=1,
        )
        try:
            deadline = time.monotonic() + 30
            while len(seen) < target and time.monotonic() < deadline:
                for messages in consumer.poll(500).values():
                    seen.extend(message.value for message in messages)
                consumer.commit()
        finally:
            consumer.close()
    assert sorted(seen, key=int) == [b"%d" % index for index in range(20)]


def test_the_admin_client_sees_topics_and_groups(bootstrap: str, new_name: Name) -> None:
    """B-W06: listing and describing."""
    topic = create(bootstrap, new_name("kp-admin"), 3)
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        assert topic in admin.list_topics()
        (described,) = admin.describe_topics([topic])
        assert len(described["partitions"]) == 3
        admin.delete_topics([topic])
        assert topic not in admin.list_topics()
    finally:
        admin.close()
