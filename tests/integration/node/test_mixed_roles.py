"""Do Apache Kafka's brokers live with our controllers, and our brokers with Apache Kafka's controllers?"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.testing.asking import ask, ask_quorum
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.metadata import MetadataRequest
from tests.peers.quorum import MixedCluster

pytestmark = pytest.mark.java
TOPIC = 2


def until(reached: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
    """Wait for it."""
    end = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def create(broker: Member, name: str, *, replicas: int = 1) -> ErrorCode:
    """Create a topic through a broker."""
    topics = (CreatableTopic(name=name, num_partitions=3, replication_factor=replicas),)
    request = CreateTopicsRequest(topics=topics, timeout_ms=30_000)
    [result] = ask(broker.place.host, broker.port, request, 7, timeout_s=40).topics
    return ErrorCode(result.error_code)


def metadata(broker: Member) -> Any:
    """What a broker tells clients."""
    return ask(broker.place.host, broker.port, MetadataRequest(topics=None), 12)


def led_topics(broker: Member) -> dict[str, set[int]]:
    """Topic -> the leaders of its partitions, as a broker tells."""
    return {topic.name: {each.leader_id for each in topic.partitions} for topic in metadata(broker).topics}


def set_retention(broker: Member, topic: str, value: str) -> ErrorCode:
    """IncrementalAlterConfigs through a broker."""
    change = AlterableConfig(name="retention.ms", config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name=topic, configs=(change,))
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    return ErrorCode(ask(broker.place.host, broker.port, request, 1, timeout_s=40).responses[0].error_code)


def test_our_brokers_follow_apache_kafkas_controller() -> None:
    """B-C28, B-C29, S4-14: registered, unfenced, forwarded to in Envelopes; topics are led by our broker; what Kafka refuses is told."""
    with MixedCluster(kafkas={1}, controllers=1, brokers=2) as cluster:
        first, second = cluster.brokers
        until(lambda: {each.node_id for each in metadata(first).brokers} == {101, 102})
        assert create(first, "through-us") is ErrorCode.NONE
        assert create(first, "through-us") is ErrorCode.TOPIC_ALREADY_EXISTS
        assert create(first, "too-many", replicas=3) is ErrorCode.INVALID_REPLICATION_FACTOR
        until(lambda: led_topics(second).get("through-us", {-1}) <= {101, 102})
        assert set_retention(first, "through-us", "60000") is ErrorCode.NONE
        assert set_retention(first, "through-us", "-5") is ErrorCode.INVALID_CONFIG
        quorum = ask_quorum(first.place.host, first.port).topics[0].partitions[0]
        assert quorum.leader_id == 1
        assert {each.replica_id for each in quorum.observers} == {101, 102}
        assert second.stop() == 0
        until(lambda: {each.node_id for each in metadata(first).brokers} == {101})
        cluster.start(102)
        until(lambda: {each.node_id for each in metadata(first).brokers} == {101, 102})


def test_apache_kafkas_brokers_follow_our_controllers() -> None:
    """B-C28, B-C19: registration, heartbeats, Envelopes and the metadata log, as Kafka's broker speaks them; beside one of ours."""
    with MixedCluster(kafkas={101}, controllers=3, brokers=2) as cluster:
        theirs, ours = cluster[101], cluster[102]
        until(lambda: {each.node_id for each in metadata(ours).brokers} == {101, 102})
        assert create(theirs, "through-kafka", replicas=1) is ErrorCode.NONE
        assert create(theirs, "through-kafka") is ErrorCode.TOPIC_ALREADY_EXISTS
        assert set_retention(theirs, "through-kafka", "60000") is ErrorCode.NONE
        until(lambda: led_topics(ours).get("through-kafka", {-1}) <= {101, 102})
        until(lambda: "through-kafka" in led_topics(theirs))
        leader = cluster.leader()
        leader.kill()
        assert create(theirs, "after-failover") is ErrorCode.NONE
        until(lambda: "after-failover" in led_topics(ours))
        described = ask(theirs.place.host, theirs.port, DescribeClusterRequest(), 1)
        assert {each.broker_id for each in described.brokers} == {101, 102}
        theirs.kill()
        until(lambda: {each.node_id for each in metadata(ours).brokers} == {102})
