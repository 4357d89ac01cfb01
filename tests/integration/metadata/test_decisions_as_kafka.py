"""Brokers that only exist as registrations: one story told to Kafka's controller and to ours, answers and partitions compared after each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from headrace.cli.metadata_follower import QuorumFollower
from headrace.core.error_code import ErrorCode
from headrace.core.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, ZERO_UUID, Uuid
from headrace.metadata.image import MetadataImage
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.testing import Node
from headrace.wire.messages import alter_partition
from headrace.wire.messages import assign_replicas_to_dirs as assign
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.schema import Message, Struct
from tests.peers import kafka
from tests.support.metadata_load import wait_until
from tests.support.raw import RawConnection

pytestmark = pytest.mark.java

CAUGHT_UP = 1 << 40
FOREVER = {"broker.session.timeout.ms": "36000000", "auto.leader.rebalance.enable": "false"}


class Side:
    """One controller, and what its brokers know: their epochs."""

    def __init__(self, port: int) -> None:
        self.connection = RawConnection(port)
        self.follower = QuorumFollower(f"127.0.0.1:{port}", {})
        self.cluster_id = self.connection.ask(DescribeClusterRequest(endpoint_type=2), 1).cluster_id
        self.epochs: dict[int, int] = {}
        wait_until(lambda: self.image().features.metadata_version)  # before, it is not active and refuses brokers

    def image(self) -> MetadataImage:
        """All that is committed."""
        return self.follower.refresh()

    def topic_id(self, name: str) -> Uuid:
        """The id that this controller drew."""
        return self.image().topics.by_name[name].id

    def close(self) -> None:
        """End both connections."""
        self.connection.socket.close()
        self.follower.close()


def controller_settings(port: int) -> dict[str, str]:
    """A controller alone."""
    return {
        **FOREVER,
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "controller.quorum.voters": f"1@127.0.0.1:{port}",
    }


def normal(value: Any) -> Any:
    """An answer without what must differ: ids and epochs that each side makes, and the order of lists."""
    if isinstance(value, Struct):
        fields = {name: normal(getattr(value, name)) for name in type(value).__facts__}
        for name, nothing in (("topic_id", ZERO_UUID), ("broker_epoch", -1)):
            if name in fields:
                fields[name] = fields[name] != nothing
        return fields
    if isinstance(value, tuple):
        return sorted((normal(each) for each in value), key=repr)
    return value


def shape(image: MetadataImage) -> dict[Any, Any]:
    """Brokers, partitions and settings, without what each side draws."""
    found: dict[Any, Any] = {
        broker_id: (each.fenced, each.in_controlled_shutdown, each.incarnation_id, each.log_dirs, each.rack)
        for broker_id, each in image.cluster.brokers.items()
    }
    found.update((key, dict(settings)) for key, settings in image.configs.by_resource.items())
    for topic in image.topics.by_id.values():
        found.update(((topic.name, number), each) for number, each in topic.partitions.items())
    return found


def directory(broker_id: int, number: int = 0) -> Uuid:
    """A log directory of a broker."""
    return Uuid.from_numbers(broker_id, 1_000 + number)


class Story:
    """Both sides, and what was found different."""

    def __init__(self, kafka_port: int, port: int) -> None:
        self.sides = (Side(kafka_port), Side(port))
        self.different: list[object] = []
        self.asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for side in self.sides:
            side.close()

    def ask(self, version: int, make: Callable[[Side], Message]) -> list[Any]:
        """The same to both; their answers."""
        answers = [side.connection.ask(make(side), version) for side in self.sides]
        self.asked += 1
        expected, found = normal(answers[0]), normal(answers[1])
        if expected != found:
            self.different.append((self.asked, {"kafka": expected, "headrace": found}))
        self._compare()
        return answers

    def _compare(self) -> None:
        deadline = time.monotonic() + 30
        while (shapes := [shape(side.image()) for side in self.sides])[0] != shapes[1]:
            if time.monotonic() > deadline:
                keys = [key for key in {**shapes[0], **shapes[1]} if shapes[0].get(key) != shapes[1].get(key)]
                told = {key: [each.get(key) for each in shapes] for key in keys}
                raise AssertionError(f"after request {self.asked}: {told}; answers that differ: {self.different}")
            time.sleep(0.02)

    def register(self, broker_id: int, incarnation: int = 1, *, is_clean: bool = False, **changes: Any) -> None:
        """A broker's registration, with the proof that it stopped cleanly or without."""
        fields: dict[str, Any] = {
            "broker_id": broker_id,
            "incarnation_id": Uuid.from_numbers(incarnation, 1_000 + broker_id),
            "listeners": (Listener(name="PLAINTEXT", host="h", port=9_000 + broker_id, security_protocol=0),),
            "features": tuple(
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
                if name != "kraft.version"
            ),
            "rack": None,
            "log_dirs": (directory(broker_id),),
        }
        fields |= changes

        def make(side: Side) -> Message:
            previous = side.epochs.get(broker_id, -1) if is_clean else -1
            return BrokerRegistrationRequest(cluster_id=side.cluster_id, previous_broker_epoch=previous, **fields)

        answers = self.ask(4, make)
        for side, answer in zip(self.sides, answers, strict=True):
            if answer.error_code == 0:
                side.epochs[broker_id] = answer.broker_epoch

    def beat(self, broker_id: int, **changes: Any) -> None:
        """Its heartbeat."""
        fields = {"current_metadata_offset": CAUGHT_UP} | changes
        self.ask(
            1,
            lambda side: BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=side.epochs.get(broker_id, -1), **fields
            ),
        )

    def topic(self, name: str, *replicas: tuple[int, ...], error: int = 0) -> None:
        """A topic with these replicas, or the error that both have for it."""
        given = tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=each) for number, each in enumerate(replicas)
        )
        new = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=given)
        answers = self.ask(7, lambda _: CreateTopicsRequest(topics=(new,)))
        assert answers[0].topics[0].error_code == error

    def isr(self, name: str, number: int, leader: int, members: tuple[int, ...], **changes: int) -> None:
        """The leader proposes an ISR."""

        def make(side: Side) -> Message:
            now = side.image().topics.partition(name, number)
            assert now is not None
            data = alter_partition.RequestPartitionData(
                partition_index=number,
                leader_epoch=now.leader_epoch + changes.get("leader_epoch", 0),
                partition_epoch=now.partition_epoch + changes.get("partition_epoch", 0),
                leader_recovery_state=changes.get("recovery", 0),
                new_isr_with_epochs=tuple(
                    alter_partition.BrokerState(broker_id=each, broker_epoch=side.epochs.get(each, -1))
                    for each in members
                ),
            )
            return alter_partition.AlterPartitionRequest(
                broker_id=leader,
                broker_epoch=side.epochs[leader],
                topics=(alter_partition.RequestTopicData(topic_id=side.topic_id(name), partitions=(data,)),),
            )

        self.ask(3, make)

    def reassign(self, name: str, number: int, target: tuple[int, ...] | None) -> None:
        """A target, or None to cancel; then what goes on."""
        asked = ReassignableTopic(
            name=name, partitions=(ReassignablePartition(partition_index=number, replicas=target),)
        )
        self.ask(1, lambda _: AlterPartitionReassignmentsRequest(topics=(asked,)))
        self.ask(0, lambda _: ListPartitionReassignmentsRequest(topics=None))

    def assign(self, broker_id: int, where: Uuid, name: str, *numbers: int) -> None:
        """The broker says in which directory its replicas are."""
        parts = tuple(assign.RequestPartitionData(partition_index=number) for number in numbers)

        def make(side: Side) -> Message:
            topics = (assign.RequestTopicData(topic_id=side.topic_id(name), partitions=parts),)
            return assign.AssignReplicasToDirsRequest(
                broker_id=broker_id,
                broker_epoch=side.epochs[broker_id],
                directories=(assign.RequestDirectoryData(id=where, topics=topics),),
            )

        self.ask(0, make)


@contextmanager
def two_controllers(tmp_path: Path, **settings_of_both: str) -> Iterator[tuple[int, int]]:
    """The ports of Kafka's controller and of ours, both fresh."""
    (port,) = kafka.free_ports(1)
    settings = controller_settings(port) | settings_of_both
    settings["advertised.listeners"] = settings["listeners"]
    peer = kafka.Kafka(
        tmp_path / "kafka",
        port=port,
        controller_port=port,
        properties=settings,
        format_arguments=kafka.plain_features(),
    )
    spare = Node(directory=tmp_path / "spare").controller_port
    ours = controller_settings(spare) | settings_of_both
    with peer, Node(directory=tmp_path / "ours", in_process=True, properties=ours):
        yield port, spare


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """Both controllers, told alike."""
    with two_controllers(tmp_path) as ports, Story(*ports) as found:
        yield found


def test_a_story_of_brokers_and_partitions_is_kafkas(story: Story) -> None:
    """S2-01, S2-06..S2-08, S1-29, S1-50, B-C24, B-C25, B-K08, B-C31, C5, C6, C9, KIP-455, KIP-858: what each step leads to, and all answers."""
    for broker_id in range(2, 7):
        story.register(broker_id)
        story.beat(broker_id)
        story.beat(broker_id)
    story.register(7, features=())
    story.register(7, log_dirs=(directory(2),))
    story.register(7, log_dirs=(directory(7, 1), directory(7, 2)))
    story.beat(7)
    story.register(2, incarnation=2)  # the holder of the id lives: 101
    story.register(2)  # it says so again
    story.register(8)
    story.register(8, incarnation=2)  # nobody heard of its holder: taken
    story.beat(8, current_metadata_offset=0)
    story.register(8, incarnation=3)  # the holder lives, though it is fenced: 101
    story.register(8, incarnation=2)
    story.ask(0, lambda _: UnregisterBrokerRequest(broker_id=8))
    story.beat(2)
    tell_of_directories(story)
    tell_of_elections(story)
    tell_of_reassignments(story)
    tell_of_the_rest(story)
    assert story.different == []
    assert story.asked > 80


def tell_of_directories(story: Story) -> None:
    """KIP-858: placed, not placed yet, lost."""
    story.topic("d", (7, 2), (7, 3), (2, 7), (7, 4))
    story.assign(7, directory(7, 1), "d", 0, 2)
    story.assign(7, directory(7, 2), "d", 1, 3)
    story.assign(7, UNASSIGNED_DIRECTORY, "d", 2)
    story.assign(7, LOST_DIRECTORY, "d", 0)
    story.beat(7, offline_log_dirs=(directory(7, 2),))
    story.beat(7, offline_log_dirs=(directory(7, 2),))
    for kind in (0, 1):
        story.ask(2, lambda _, kind=kind: ElectLeadersRequest(election_type=kind, topic_partitions=None))  # type: ignore[misc]


def tell_of_elections(story: Story) -> None:
    """KIP-460, KIP-497, KIP-841: leaders go, come back, and are elected out of sync."""
    story.topic("e", (2, 3, 4), (3, 2, 4))
    story.isr("e", 1, 3, (3, 2), leader_epoch=1)
    story.isr("e", 1, 3, (3, 2), partition_epoch=-1)
    story.isr("e", 1, 3, (2, 4))
    story.isr("e", 1, 3, (3, 2))
    story.isr("e", 0, 2, (2,))
    story.beat(2, want_fence=True)
    for kind in (0, 1):
        story.ask(2, lambda _, kind=kind: ElectLeadersRequest(election_type=kind, topic_partitions=None))  # type: ignore[misc]
    story.isr("e", 0, 3, (3, 2))
    story.isr("e", 0, 3, (3,), recovery=1)
    story.beat(2)
    story.isr("e", 0, 3, (3, 2), recovery=1)
    story.isr("e", 0, 3, (3, 2))
    story.ask(2, lambda _: ElectLeadersRequest(election_type=0, topic_partitions=None))


def tell_of_reassignments(story: Story) -> None:
    """KIP-455: to the end, cancelled, the same target again, and with one that lags anyway."""
    story.topic("r", (2, 3), (2, 3))
    story.reassign("r", 0, (4, 5))
    story.isr("r", 0, 2, (2, 3, 4))
    story.reassign("r", 0, (4, 5))
    story.isr("r", 0, 2, (2, 3, 4, 5))
    story.reassign("r", 1, (4, 5))
    story.isr("r", 1, 2, (2, 3, 5))
    story.reassign("r", 1, (4, 5))
    story.reassign("r", 1, None)
    story.reassign("r", 1, (3, 2))
    story.topic("q", (2, 3, 4), (2, 3, 4))
    for number, target in ((0, (2, 3, 5)), (1, (2, 3))):
        story.isr("q", number, 2, (2, 4))
        story.reassign("q", number, target)
        story.isr("q", number, 2, (2, 4, 5) if number == 0 else (2, 3, 4))


def tell_of_the_rest(story: Story) -> None:
    """KIP-631: a clean stop, a broker that is unregistered, too many partitions, topics that are named twice."""
    story.beat(6)
    story.topic("s", (6, 5), (5, 6))
    story.beat(6, want_shut_down=True)
    story.topic("t", (6,), error=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    story.ask(0, lambda _: UnregisterBrokerRequest(broker_id=3))
    story.register(3, 2)
    story.beat(3)
    wide = CreatePartitionsTopic(name="e", count=3, assignments=None)
    for broker_id in (3, 4, 5):
        story.ask(0, lambda _, it=broker_id: UnregisterBrokerRequest(broker_id=it))  # type: ignore[misc]
    story.ask(0, lambda _: UnregisterBrokerRequest(broker_id=7))
    story.ask(3, lambda _: CreatePartitionsRequest(topics=(wide,), timeout_ms=30_000))
    for names in (("a", "b"), ("e", "b")):
        many = tuple(CreatableTopic(name=name, num_partitions=6_000, replication_factor=1) for name in names)
        story.ask(7, lambda _, many=many: CreateTopicsRequest(topics=many))  # type: ignore[misc]

    def twice(side: Side) -> Message:
        by_id = DeleteTopicState(topic_id=side.topic_id("e"))
        return DeleteTopicsRequest(topics=(by_id, by_id, DeleteTopicState(name="e")), timeout_ms=30_000)

    story.ask(6, twice)
