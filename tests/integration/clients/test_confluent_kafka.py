"""Does librdkafka, through confluent-kafka, find what it expects? Producer, consumer, groups and admin."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import ConsumerGroupTopicPartitions as GroupOffsets
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

Name = Callable[[str], str]


def quiet(bootstrap: str, **settings: Any) -> dict[str, Any]:
    """Settings with dots for underscores; librdkafka's own log is kept off the terminal."""
    return {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        **{key.replace("_", "."): value for key, value in settings.items()},
    }


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> AdminClient:
    """One admin client for the file."""
    return AdminClient(quiet(bootstrap))


def create(admin: AdminClient, topic: str, partitions: int = 1, **config: str) -> str:
    """A topic with the given settings; returns its name."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    for future in admin.create_topics([NewTopic(topic, partitions, 1, config=settings)]).values():
        future.result(30)
    return topic


def produce(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> list[tuple[int, int]]:
    """Send the values to partition 0; returns (partition, offset) of each, in the order of delivery."""
    delivered: list[tuple[int, int]] = []
    failed: list[KafkaError] = []
    producer = Producer(quiet(bootstrap, **settings))

    def done(error: KafkaError | None, message: Any) -> None:
        if error is None:
            delivered.append((message.partition(), message.offset()))
        else:
            failed.append(error)

    for value in values:
        while True:
            try:
                producer.produce(topic, value, partition=0, on_delivery=done)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(30) == 0
    if failed:
        raise KafkaException(failed[0])
    return delivered


def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Any]:
    """The next ``count`` messages of partition 0."""
    consumer = Consumer(quiet(bootstrap, group_id="reader", enable_auto_commit=False, **settings))
    try:
        consumer.assign([TopicPartition(topic, 0, offset)])
        return consume(consumer, count)
    finally:
        consumer.close()


def consume(consumer: Consumer, count: int, timeout_s: float = 30) -> list[Any]:
    """Poll until ``count`` messages came."""
    found: list[Any] = []
    deadline = time.monotonic() + timeout_s
    while len(found) < count and time.monotonic() < deadline:
        for message in consumer.consume(count - len(found), 0.5):
            assert message.error() is None, message.error()
            found.append(message)
    assert len(found) == count
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_what_is_produced_is_read_again(
    bootstrap: str, admin: AdminClient, new_name: Name, codec: str, acks: str
) -> None:
    """B-W06: every compression, either acknowledgement, in order and whole."""
    topic = create(admin, new_name("codec"))
    values = [b"%d-" % index + b"x" * 100 for index in range(500)]
    delivered = produce(bootstrap, topic, values, compression_type=codec, acks=acks, linger_ms=5)
    assert delivered == [(0, index) for index in range(500)]
    assert [message.value() for message in read(bootstrap, topic, 500)] == values


def test_keys_headers_timestamps_and_nulls_survive(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-W06: everything that a record can hold."""
    topic = create(admin, new_name("whole"))
    producer = Producer(quiet(bootstrap))
    producer.produce(
        topic, b"value", b"key", headers=[("a", b"1"), ("a", None), ("empty", b"")], timestamp=1_700_000_000_000
    )
    producer.produce(topic, None, b"tombstone")
    producer.produce(topic, b"", None)
    assert producer.flush(30) == 0
    first, second, third = read(bootstrap, topic, 3)
    assert (first.key(), first.value(), first.timestamp()) == (b"key", b"value", (1, 1_700_000_000_000))
    assert first.headers() == [("a", b"1"), ("a", None), ("empty", b"")]
    assert (second.key(), second.value()) == (b"tombstone", None)
    assert (third.key(), third.value()) == (None, b"")


def test_idempotent_producer_delivers_once_and_in_order(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-P04: the idempotent producer with five requests in flight."""
    topic = create(admin, new_name("idempotent"))
    values = [b"%d" % index for index in range(5_000)]
    produce(bootstrap, topic, values, enable_idempotence=True, batch_num_messages=50)
    assert [message.value() for message in read(bootstrap, topic, 5_000)] == values


def test_unacknowledged_producer_is_served(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-W06: acks=0 has no answer, and the records are there."""
    topic = create(admin, new_name("acks0"))
    produce(bootstrap, topic, [b"a", b"b"], acks="0")
    assert [message.value() for message in read(bootstrap, topic, 2)] == [b"a", b"b"]


def test_log_append_time_is_the_brokers(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B47: with LogAppendTime the client's timestamp is replaced."""
    topic = create(admin, new_name("append-time"), message_timestamp_type="LogAppendTime")
    producer = Producer(quiet(bootstrap))
    producer.produce(topic, b"x", timestamp=1_000)
    assert producer.flush(30) == 0
    kind, timestamp = read(bootstrap, topic, 1)[0].timestamp()
    assert kind == 2
    assert timestamp > 1_600_000_000_000


def test_a_record_over_the_topics_limit_is_refused(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B49: max.message.bytes."""
    topic = create(admin, new_name("large"), max_message_bytes="1000")
    with pytest.raises(KafkaException) as refused:
        produce(bootstrap, topic, [b"x" * 5_000], compression_type="none")
    assert refused.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    produce(bootstrap, topic, [b"small"])
    assert read(bootstrap, topic, 1)[0].value() == b"small"


def test_a_topic_is_created_by_its_first_use(bootstrap: str, new_name: Name) -> None:
    """S2-28: auto.create.topics.enable is on by default, as in Kafka."""
    topic = new_name("auto")
    produce(bootstrap, topic, [b"first"])
    assert read(bootstrap, topic, 1)[0].value() == b"first"


def test_offsets_are_found_by_time_and_at_the_ends(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-P10: earliest, latest, by timestamp, after the end, and the largest timestamp."""
    topic = create(admin, new_name("times"))
    producer = Producer(quiet(bootstrap))
    for index in range(10):
        producer.produce(topic, b"%d" % index, partition=0, timestamp=1_700_000_000_000 + index * 1_000)
        producer.flush(10)
    where = TopicPartition(topic, 0)

    def asked(spec: OffsetSpec) -> int:
        result = admin.list_offsets({where: spec})[where].result(30)
        return int(result.offset)

    assert asked(OffsetSpec.earliest()) == 0
    assert asked(OffsetSpec.latest()) == 10
    assert asked(OffsetSpec.for_timestamp(1_700_000_003_000)) == 3
    assert asked(OffsetSpec.for_timestamp(1_700_000_003_001)) == 4
    assert asked(OffsetSpec.for_timestamp(1_800_000_000_000)) == -1
    assert asked(OffsetSpec.max_timestamp()) == 9


def test_records_below_an_offset_are_deleted(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-P03: DeleteRecords moves the log start; a reader below it is sent to the start."""
    topic = create(admin, new_name("delete-records"))
    produce(bootstrap, topic, [b"%d" % index for index in range(10)])
    deleted = admin.delete_records([TopicPartition(topic, 0, 6)])
    assert [future.result(30).low_watermark for future in deleted.values()] == [6]
    first = read(bootstrap, topic, 1, offset=0, auto_offset_reset="earliest")[0]
    assert (first.offset(), first.value()) == (6, b"6")


def test_topics_are_created_grown_described_and_deleted(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-W06: the admin client's life of a topic."""
    topic = create(admin, new_name("life"), 3)
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 3
    with pytest.raises(KafkaException) as again:
        create(admin, topic)
    assert again.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    for future in admin.create_partitions([NewPartitions(topic, 5)]).values():
        future.result(30)
    assert len(admin.list_topics(topic, timeout=30).topics[topic].partitions) == 5
    for future in admin.delete_topics([topic]).values():
        future.result(30)
    assert topic not in admin.list_topics(timeout=30).topics


@pytest.mark.parametrize(
    ("partitions", "replicas", "settings", "code"),
    [
        (0, 1, {}, KafkaError.INVALID_PARTITIONS),
        (1, 3, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        (1, 1, {"cleanup.policy": "shred"}, KafkaError.INVALID_CONFIG),
        (1, 1, {"no.such.key": "1"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_bad_topic_is_refused(
    admin: AdminClient, new_name: Name, partitions: int, replicas: int, settings: dict[str, str], code: int
) -> None:
    """B70: the refusal names what was wrong, and nothing is created."""
    topic = new_name("bad")
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(topic, partitions, replicas, config=settings)])[topic].result(30)
    assert refused.value.args[0].code() == code
    assert topic not in admin.list_topics(timeout=30).topics


def test_a_name_that_is_no_topics_name_is_refused(admin: AdminClient) -> None:
    """B26: no path outside the log directory can be made of a name."""
    for name in (".", "..", "a/b", "x" * 250):
        with pytest.raises(KafkaException) as refused:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        assert refused.value.args[0].code() == KafkaError.TOPIC_EXCEPTION


def test_settings_are_changed_one_by_one(admin: AdminClient, new_name: Name) -> None:
    """B-C05: incremental changes are seen by the next describe, and a deletion brings the default back."""
    topic = create(admin, new_name("settings"), retention_ms="3600000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def described() -> dict[str, str]:
        found = admin.describe_configs([resource])[resource].result(30)
        return {name: entry.value for name, entry in found.items()}

    assert described()["retention.ms"] == "3600000"
    changes = [
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("segment.bytes", "1048576", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    ]
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    admin.incremental_alter_configs([change])[change].result(30)
    found = described()
    assert (found["retention.ms"], found["segment.bytes"]) == ("604800000", "1048576")
    assert found["cleanup.policy"] == "delete,compact"


def test_a_group_shares_partitions_and_keeps_its_offsets(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-P06: two members share a topic; what they commit is where the next member goes on."""
    topic, group = create(admin, new_name("shared"), 4), new_name("group")
    producer = Producer(quiet(bootstrap))
    for index in range(400):
        producer.produce(topic, b"%d" % index, partition=index % 4)
    assert producer.flush(30) == 0
    settings = quiet(bootstrap, group_id=group, auto_offset_reset="earliest", enable_auto_commit=False)
    members = [Consumer(settings), Consumer(settings)]
    for member in members:
        member.subscribe([topic])
    seen: list[bytes] = []
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        for member in members:
            seen.extend(message.value() for message in member.consume(100, 0.2) if message.error() is None)
        if len(set(seen)) == 400 and all(len(member.assignment()) == 2 for member in members):
            break
    assert len(set(seen)) == 400
    assert [len(member.assignment()) for member in members] == [2, 2]
    for member in members:
        # One of the two may have consumed nothing since the rebalance, so the offsets are said.
        read_to = [TopicPartition(topic, each.partition, 100) for each in member.assignment()]
        member.commit(offsets=read_to, asynchronous=False)
        member.close()
    where = [TopicPartition(topic, partition) for partition in range(4)]
    stored = admin.list_consumer_group_offsets([GroupOffsets(group, where)])[group].result(30)
    assert [each.offset for each in stored.topic_partitions] == [100] * 4
    state = admin.describe_consumer_groups([group])[group].result(30)
    assert state.state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result(30)
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(30).valid]


def test_offsets_of_a_group_are_altered_from_outside(bootstrap: str, admin: AdminClient, new_name: Name) -> None:
    """B-P06: an admin client moves an empty group; the next member starts there."""
    topic, group = create(admin, new_name("moved")), new_name("group")
    produce(bootstrap, topic, [b"%d" % index for index in range(10)])
    admin.alter_consumer_group_offsets([GroupOffsets(group, [TopicPartition(topic, 0, 7)])])[group].result(30)
    consumer = Consumer(quiet(bootstrap, group_id=group, auto_offset_reset="earliest"))
    consumer.subscribe([topic])
    assert [message.value() for message in consume(consumer, 3)] == [b"7", b"8", b"9"]
    consumer.close()


def test_the_cluster_describes_itself(bootstrap: str, admin: AdminClient) -> None:
    """B-W06: one broker, which is also the controller that clients are told of."""
    cluster = admin.describe_cluster().result(30)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id
    assert len(cluster.cluster_id) == 22
