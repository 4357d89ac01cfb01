"""Partitions with several copies on real brokers: made, looked at, and compared byte by byte."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, Final

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.peer import batch
from tests.support.roles import until

BROKER: Final = 4
SET, DELETE = 0, 1

FAST: Final = {"offsets.topic.replication.factor": "3", "replica.lag.time.max.ms": "10000"}
"""Settings of brokers whose tests are about their copies."""


def create(cluster: Cluster, name: str, replicas: Sequence[Sequence[int]], **settings: str) -> None:
    """A topic with these replicas a partition, and wait until every broker that runs knows it."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(each))
        for number, each in enumerate(replicas)
    )
    configs = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
    topic = CreatableTopic(
        name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
    )
    broker = cluster.brokers[0]
    answer = ask(broker.place.host, broker.port, CreateTopicsRequest(topics=(topic,), timeout_ms=20_000), 7)
    assert [(each.error_code, each.error_message) for each in answer.topics] == [(0, None)]
    for each in running(cluster):
        until(lambda at=each: partitions(at, name))  # type: ignore[misc]


def write_lines(cluster: Cluster, lines: Sequence[str], *arguments: str) -> None:
    """By librdkafka with acks=all, idempotent, to topic `t`; `arguments` are kcat's."""
    command = ["kcat", "-b", cluster.bootstrap_servers, "-P", "-t", "t", "-X", "enable.idempotence=true"]
    command += ["-X", "log_level=0", *arguments]
    subprocess.run(command, input="\n".join(lines), text=True, check=True, timeout=120)


def read_lines(cluster: Cluster) -> list[str]:
    """All that librdkafka reads of topic `t`, sorted."""
    command = ["kcat", "-b", cluster.bootstrap_servers, "-C", "-t", "t", "-e", "-q", "-X", "log_level=0"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    return sorted(found.splitlines())


def running(cluster: Cluster) -> list[Member]:
    """The brokers that run."""
    return [each for each in cluster.brokers if each.is_running]


def partitions(broker: Member, topic: str) -> list[Any]:
    """The partitions of a topic as a broker tells of them: leader, replicas and ISR; none when it does not know it."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    answer = ask(broker.place.host, broker.port, request, 12)
    return sorted(answer.topics[0].partitions, key=lambda each: each.partition_index)


def leader(cluster: Cluster, topic: str, partition: int = 0, *, other_than: int = -1) -> Member:
    """Wait for the partition's leader."""

    def found() -> Member | None:
        for broker in running(cluster):
            known = partitions(broker, topic)
            if known and known[partition].leader_id not in (-1, other_than):
                return cluster[known[partition].leader_id]
        return None

    return until(found)


def in_sync(cluster: Cluster, topic: str) -> None:
    """Wait until every replica of the topic is in sync."""

    def all_are() -> bool:
        known = partitions(running(cluster)[0], topic)
        return bool(known) and all(set(each.isr_nodes) == set(each.replica_nodes) for each in known)

    until(all_are)


def log_bytes(broker: Member, topic: str, partition: int) -> bytes:
    """What lies in the segments of a copy."""
    return b"".join(each.read_bytes() for each in sorted((broker.data / f"{topic}-{partition}").glob("*.log")))


def same_bytes(cluster: Cluster, topic: str) -> list[bytes]:
    """Wait until all copies of each partition are the same bytes; those bytes."""

    def compared() -> list[bytes] | None:
        found = []
        for each in partitions(running(cluster)[0], topic):
            copies = [log_bytes(cluster[one], topic, each.partition_index) for one in each.replica_nodes]
            if any(copy != copies[0] for copy in copies):
                return None
            found.append(copies[0])
        return found

    return until(compared)


def fill(leader: Member, topic: str, *, batches: int) -> None:
    """So many batches of 50 kB."""
    for _ in range(batches):
        data = PartitionProduceData(index=0, records=bytes(batch(b"x" * 50_000)))
        request = ProduceRequest(
            acks=1, timeout_ms=10_000, topic_data=(TopicProduceData(name=topic, partition_data=(data,)),)
        )
        answer = ask(leader.place.host, leader.port, request, 9, timeout_s=15)
        assert answer.responses[0].partition_responses[0].error_code == 0


def alter(broker: Member, kind: int, name: str, operation: int, **settings: str) -> None:
    """Set, or delete, settings of a topic or a broker."""
    configs = tuple(
        AlterableConfig(name=key.replace("_", "."), config_operation=operation, value=value or None)
        for key, value in settings.items()
    )
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = ask(broker.place.host, broker.port, IncrementalAlterConfigsRequest(resources=(resource,)), 1)
    assert [(each.error_code, each.error_message) for each in answer.responses] == [(0, None)]
