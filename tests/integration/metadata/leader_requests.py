"""Which requests about leaders, replicas and registrations are sent to Kafka and to Headrace alike?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.schema import Message


class LeaderQuestion(NamedTuple):
    """A request in one version, and what it asks in words."""

    title: str
    request: Message
    version: int


def leader_questions(topic: str) -> Iterator[LeaderQuestion]:
    """All of them; `topic` has three partitions on the one broker 1."""
    yield from _elections(topic)
    yield from _reassignments(topic)
    for broker_id in (9, -1):
        yield LeaderQuestion("unregister", UnregisterBrokerRequest(broker_id=broker_id), 0)


def _elections(topic: str) -> Iterator[LeaderQuestion]:
    asked: dict[str, tuple[TopicPartitions, ...]] = {
        "led": (TopicPartitions(topic=topic, partitions=(0, 2)),),
        "unknown partition": (TopicPartitions(topic=topic, partitions=(7, -1)),),
        "unknown topic": (TopicPartitions(topic="nope", partitions=(0,)),),
        "none": (),
        "both": (TopicPartitions(topic=topic, partitions=(1, 9)), TopicPartitions(topic="no", partitions=(0, 1))),
    }
    yield LeaderQuestion("elect v0", ElectLeadersRequest(topic_partitions=asked["led"]), 0)
    for version in (1, 2):
        for kind in (0, 1, 2, -1):
            for title, places in asked.items():
                request = ElectLeadersRequest(election_type=kind, topic_partitions=places)
                yield LeaderQuestion(f"elect {kind} {title}", request, version)


def _reassignments(topic: str) -> Iterator[LeaderQuestion]:
    targets: dict[str, tuple[int, tuple[int, ...] | None]] = {
        "to itself": (0, (1,)),
        "cancel nothing": (0, None),
        "nowhere": (0, ()),
        "twice the same": (0, (1, 1)),
        "unknown broker": (0, (9,)),
        "known and unknown": (0, (1, 9)),
        "unknown partition": (7, (1,)),
        "cancel unknown partition": (7, None),
    }
    for version in (0, 1):
        for may_change in (True, False) if version else (True,):
            for title, (number, replicas) in targets.items():
                partition = ReassignablePartition(partition_index=number, replicas=replicas)
                request = AlterPartitionReassignmentsRequest(
                    allow_replication_factor_change=may_change,
                    topics=(ReassignableTopic(name=topic, partitions=(partition,)),),
                )
                yield LeaderQuestion(f"reassign {title}, factor {may_change}", request, version)
        unknown = ReassignableTopic(name="nope", partitions=(ReassignablePartition(replicas=(1,)),))
        yield LeaderQuestion("reassign nope", AlterPartitionReassignmentsRequest(topics=(unknown,)), version)
        yield LeaderQuestion("reassign none", AlterPartitionReassignmentsRequest(), version)
    named = ListPartitionReassignmentsTopics(name=topic, partition_indexes=(0, 1, 9))
    other = ListPartitionReassignmentsTopics(name="nope", partition_indexes=(0,))
    for topics in (None, (), (named,), (named, other)):
        yield LeaderQuestion("list reassignments", ListPartitionReassignmentsRequest(topics=topics), 0)
