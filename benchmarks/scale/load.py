"""What does the cluster look like on which the controller is measured?

Brokers without data, topics of one size, replication factor 3; every third partition is led by broker 1, so its loss moves a third of all
leaderships.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.ids import Uuid
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest

CAUGHT_UP = 1 << 40
"""A metadata offset that is past everything: a simulated broker has always read all."""
PER_REQUEST = 1_000
"""Partitions that are created by one request, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many partitions in topics of which size on how many brokers."""

    partitions: int
    per_topic: int
    brokers: int

    def replicas(self, number: int) -> tuple[int, int, int]:
        """Where the replicas of partition `number` of the whole cluster are, the leader first."""
        others = self.brokers - 1
        first, second = number % others, (number + 1 + number // others % (others - 1)) % others
        third = (second + 1) % others
        if third == first:
            third = (third + 1) % others
        if number % 3 == 0:
            return 1, first + 2, second + 2
        return first + 2, second + 2, third + 2

    def creations(self) -> Iterator[CreateTopicsRequest]:
        """The requests that create all of them, in order."""
        topics = max(1, PER_REQUEST // self.per_topic)
        names = range(self.partitions // self.per_topic)
        for start in range(0, len(names), topics):
            yield CreateTopicsRequest(
                topics=tuple(self._topic(name) for name in names[start : start + topics]), timeout_ms=600_000
            )

    def _topic(self, number: int) -> CreatableTopic:
        first = number * self.per_topic
        return CreatableTopic(
            name=f"topic-{number}",
            num_partitions=-1,
            replication_factor=-1,
            assignments=tuple(
                CreatableReplicaAssignment(partition_index=index, broker_ids=self.replicas(first + index))
                for index in range(self.per_topic)
            ),
        )


def registration(broker_id: int, cluster_id: str) -> BrokerRegistrationRequest:
    """A simulated broker registers."""
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=Uuid((1 << 64 | broker_id).to_bytes(16, "big")),
        listeners=(Listener(name="PLAINTEXT", host="127.0.0.1", port=10_000 + broker_id, security_protocol=0),),
        features=tuple(
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in sorted(SUPPORTED_FEATURES.items())
            if name != "kraft.version"
        ),
        rack=None,
        log_dirs=(Uuid((1 << 65 | broker_id).to_bytes(16, "big")),),
        previous_broker_epoch=-1,
    )


def heartbeat(broker_id: int, broker_epoch: int, *, want_fence: bool = False) -> BrokerHeartbeatRequest:
    """A simulated broker says that it lives, or asks to be fenced."""
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=CAUGHT_UP,
        want_fence=want_fence,
    )


def one_more(number: int, *, validate_only: bool = False) -> CreateTopicsRequest:
    """One small change: a topic with one partition."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(2, 3, 4))
    topic = CreatableTopic(
        name=f"one-more-{number}", num_partitions=-1, replication_factor=-1, assignments=(assignment,)
    )
    return CreateTopicsRequest(topics=(topic,), timeout_ms=60_000, validate_only=validate_only)
