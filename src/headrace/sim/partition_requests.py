"""Requests about partitions, drawn by chance from what somebody's metadata says, and how what became of them is read.

Reassignments that begin, change and are cancelled; leaders that are elected; settings that allow unclean elections; reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.wire.messages import alter_partition_reassignments as moves
from headrace.wire.messages import elect_leaders, incremental_alter_configs
from headrace.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from headrace.metadata.image import MetadataImage, PartitionRegistration
    from headrace.sim.plan import Plan
    from headrace.wire.schema import Message

MIN_ISR_KEY: Final = "min.insync.replicas"
UNCLEAN_KEY: Final = "unclean.leader.election.enable"
_SET, _DELETE = 0, 1
_TOPIC, _BROKER = 2, 4
_NOBODY: Final = 999
"""A broker that was never registered."""

Place = tuple[str, int, "PartitionRegistration"]


class Asks:
    """What the administrators of a run ask of partitions."""

    def __init__(self, plan: Plan, chance: random.Random) -> None:
        self._chance = chance
        self._has_brokers = plan.brokers > 0
        self._kinds: list[Callable[[MetadataImage], Message]] = []
        if plan.moves_replicas:
            self._kinds += [self._move, self._move, self._move, self._list_moves]
        if plan.elects:
            self._kinds += [self._allow_unclean, self._allow_unclean, self._elect]
        if plan.reads:
            self._kinds += [self._describe_configs, self._list_moves]
        if plan.reads and plan.brokers:
            self._kinds += [self._metadata, self._metadata, self._describe_partitions]

    @property
    def has_any(self) -> bool:
        """The plan has any of it."""
        return bool(self._kinds)

    def request(self, image: MetadataImage) -> Message:
        """One of them."""
        return self._chance.choice(self._kinds)(image)

    def is_for_brokers(self, request: Message) -> bool:
        """Only brokers serve it; or they hand it on, where there are any."""
        if isinstance(request, ListPartitionReassignmentsRequest):
            return self._has_brokers
        return isinstance(request, MetadataRequest | DescribeTopicPartitionsRequest)

    @staticmethod
    def is_for_all(request: Message) -> bool:
        """Every node answers it from its own metadata."""
        return isinstance(request, DescribeConfigsRequest)

    # --- reassignments ---

    def _move(self, image: MetadataImage) -> Message:
        """One partition or two: moving ones are cancelled or sent elsewhere, others begin."""
        chance = self._chance
        brokers = sorted(image.cluster.brokers)
        asked: dict[str, list[moves.ReassignablePartition]] = {}
        for name, number, partition in self._some(image, count=chance.choice((1, 1, 2))):
            is_moving = bool(partition.adding_replicas or partition.removing_replicas)
            target: tuple[int, ...] | None = None
            if brokers and chance.random() < (0.5 if is_moving else 0.95):
                target = tuple(chance.sample(brokers, min(len(brokers), chance.choice((1, 2, 2, 3, 3)))))
            if target is not None and chance.random() < 0.03:
                target = (*target, _NOBODY)
            asked.setdefault(name, []).append(moves.ReassignablePartition(partition_index=number, replicas=target))
        topics = [moves.ReassignableTopic(name=name, partitions=tuple(each)) for name, each in asked.items()]
        return moves.AlterPartitionReassignmentsRequest(
            topics=tuple(topics), allow_replication_factor_change=chance.random() < 0.9, timeout_ms=2_000
        )

    def _some(self, image: MetadataImage, *, count: int) -> list[Place]:
        """Partitions; those that move are preferred."""
        chance = self._chance
        every = _places(image)
        moving = [each for each in every if each[2].adding_replicas or each[2].removing_replicas]
        found = {}
        for _ in range(count if every else 0):
            name, number, partition = chance.choice(moving if moving and chance.random() < 0.3 else every)
            found[name, number] = (name, number, partition)
        return list(found.values())

    def _list_moves(self, image: MetadataImage) -> Message:
        if self._chance.random() < 0.5:
            return ListPartitionReassignmentsRequest(topics=None, timeout_ms=2_000)
        topics = {
            name: ListPartitionReassignmentsTopics(name=name, partition_indexes=(0, 1, 2)) for name in self._names()
        }
        return ListPartitionReassignmentsRequest(topics=tuple(topics.values()), timeout_ms=2_000)

    # --- elections ---

    def _elect(self, image: MetadataImage) -> Message:
        """Preferred or unclean, of all or of some: of those without a leader where there are any."""
        chance = self._chance
        election_type = chance.choice((0, 1))
        places = _places(image)
        if election_type:
            places = [each for each in places if each[2].leader < 0] or places
        if not places or chance.random() < 0.3:
            return elect_leaders.ElectLeadersRequest(
                election_type=election_type, topic_partitions=None, timeout_ms=2_000
            )
        name, number, _ = chance.choice(places)
        asked = elect_leaders.TopicPartitions(topic=name, partitions=(number,))
        return elect_leaders.ElectLeadersRequest(
            election_type=election_type, topic_partitions=(asked,), timeout_ms=2_000
        )

    def _allow_unclean(self, image: MetadataImage) -> Message:
        """A topic, now and then all topics, may have unclean elections or may not; now and then how many replicas must be in sync."""
        chance = self._chance
        name, value = UNCLEAN_KEY, chance.choice(("true", "true", "true", "false"))
        is_of_topic = chance.random() < 0.85
        if is_of_topic and chance.random() < 0.15:
            name, value = MIN_ISR_KEY, chance.choice(("1", "2", "3"))
        elif (
            not is_of_topic and not self._has_brokers and chance.random() < 0.3
        ):  # whole brokers keep what they began with
            name, value = MIN_ISR_KEY, chance.choice(("1", "1", "2"))
        operation = _DELETE if chance.random() < 0.1 else _SET
        change = incremental_alter_configs.AlterableConfig(
            name=name, config_operation=operation, value=value if operation == _SET else None
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=_TOPIC if is_of_topic else _BROKER,
            resource_name=chance.choice(sorted(image.topics.by_name) or ["topic-0"]) if is_of_topic else "",
            configs=(change,),
        )
        return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,))

    # --- reads ---

    def _names(self) -> list[str]:
        return [f"topic-{self._chance.randrange(0, 8)}" for _ in range(self._chance.choice((1, 1, 2)))]

    def _metadata(self, image: MetadataImage) -> Message:
        if self._chance.random() < 0.3:
            return MetadataRequest(topics=None, allow_auto_topic_creation=False)
        topics = {name: MetadataRequestTopic(name=name) for name in self._names()}
        return MetadataRequest(topics=tuple(topics.values()), allow_auto_topic_creation=False)

    def _describe_partitions(self, image: MetadataImage) -> Message:
        names = dict.fromkeys(self._names())
        topics = () if self._chance.random() < 0.3 else tuple(TopicRequest(name=name) for name in names)
        return DescribeTopicPartitionsRequest(
            topics=topics, response_partition_limit=self._chance.choice((1, 3, 2_000, 2_000))
        )

    def _describe_configs(self, image: MetadataImage) -> Message:
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=name, configuration_keys=None)
            for name in dict.fromkeys(self._names())
        ]
        if self._chance.random() < 0.2:
            resources.append(DescribeConfigsResource(resource_type=_BROKER, configuration_keys=None))
        return DescribeConfigsRequest(resources=tuple(resources))


def _places(image: MetadataImage) -> list[Place]:
    return [
        (topic.name, number, partition)
        for _, topic in sorted(image.topics.by_name.items())
        for number, partition in sorted(topic.partitions.items())
    ]
