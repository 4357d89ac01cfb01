"""Settings that are valid and extreme, of topics and of brokers, changed while the node runs: nobody else has harm of them."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from headrace.config.broker_keys import KAFKA_KEYS
from headrace.config.key import ConfigKey, Type, Update
from headrace.config.project_keys import BROKER_QUOTA_KEYS, PROJECT_KEYS
from headrace.config.topic_keys import TOPIC_KEYS
from headrace.records.record import NewRecord, build_batch
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.attacks import MIB, Target
from tests.support.broker_settings import DELETE, SET, alter
from tests.support.peer import produce_request
from tests.support.raw import RawConnection

RANGES: Final = {Type.INT: 2**31, Type.SHORT: 2**15, Type.LONG: 2**63}
WORDS: Final = {
    Type.BOOLEAN: ["true", "false"],
    Type.DOUBLE: ["0", "1", "4.9E-324", "1.7E308"],
    Type.LIST: ["", "*"],
    Type.STRING: ["", "zstd", "LogAppendTime"],
}


def extremes(key: ConfigKey) -> list[str]:
    """Values at the ends of what the key's type takes, and around nothing; some are refused."""
    if key.name == "cleanup.policy":
        return ["compact", "compact,delete", ""]
    limit = RANGES.get(key.type)
    return WORDS.get(key.type, []) if limit is None else [str(each) for each in (-limit, -1, 0, 1, limit - 1)]


def test_extreme_settings_of_topics_harm_nobody(target: Target) -> None:
    """PR8: a topic with each of them is written, read and searched."""
    with target.attacked(memory=128 * MIB), RawConnection(target.node.port) as peer:
        peer.socket.settimeout(60)
        for number, (key, value) in enumerate((one, text) for one in TOPIC_KEYS for text in extremes(one)):
            config = CreatableTopicConfig(name=key.name, value=value)
            topic = CreatableTopic(name=f"x{number}", num_partitions=1, replication_factor=1, configs=(config,))
            made = peer.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 5)
            if not made.topics[0].error_code:
                _use(peer, topic.name)


def _use(peer: RawConnection, name: str) -> None:
    """Write small batches and large ones, read them, and look for offsets."""
    for size in (10, 10, 900_000, 10):
        value, now_ms = bytes(range(256)) * (size // 256 + 1), int(time.time() * 1000)
        peer.ask(produce_request(name, build_batch([NewRecord(b"k", value, now_ms)]), acks=1), 9)
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = (FetchTopic(topic=name, partitions=(part,)),)
    peer.ask(FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=-1, topics=topics), 12)
    for timestamp in (-1, -2, -3, 5):
        asked = ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),))
        peer.ask(ListOffsetsRequest(topics=(asked,)), 7)


def test_extreme_settings_of_brokers_harm_nobody(target: Target) -> None:
    """PR8: each is set for all brokers, and taken back, while clients go on; `max.connections`, which closes them, is another test's."""
    known = (*KAFKA_KEYS, *PROJECT_KEYS, *BROKER_QUOTA_KEYS)
    keys = [key for key in known if key.update is not Update.READ_ONLY and key.name != "max.connections"]
    changed = 0
    with (
        target.attacked(memory=64 * MIB),
        RawConnection(target.node.controller_port) as peer,
        RawConnection(target.node.port) as client,
    ):
        peer.socket.settimeout(60)
        for key, value in ((one, text) for one in keys for text in extremes(one)):
            if alter(peer, key.name, SET, value) == 0:
                changed += 1
                client.ask(produce_request("polite", build_batch([NewRecord(None, b"x", 5)]), acks=1), 9)
                is_back = not alter(peer, key.name, DELETE) or not alter(peer, key.name, SET, str(key.default))
                assert is_back, f"{key.name}={value}"
    assert changed > len(keys)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max.connections", "0"), ("max.connections.per.ip", "1"), ("max.connection.creation.rate", "0")],
)
def test_limits_of_connections_shut_nobody_out_of_the_quorum(target: Target, name: str, value: str) -> None:
    """PR8: they are kept in the metadata; with one number no node reached another any more, and nobody could set it right."""
    connections: list[Any] = []
    for _ in range(10):
        connections.append(RawConnection(target.node.controller_port))
    assert alter(connections[0], name, SET, value) == 0
    for each in connections[1:]:
        assert alter(each, "log.retention.ms", DELETE) == 0
        each.socket.close()
    with connections[0] as peer:
        assert alter(peer, name, DELETE) == 0
    target.serves()
