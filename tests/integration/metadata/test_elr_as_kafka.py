"""Eligible leader replicas (KIP-966): one story told to Kafka's controller and to ours, answers, partitions and settings compared after each step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.wire.messages.alter_configs import (
    AlterableConfig as WholeConfig,
)
from headrace.wire.messages.alter_configs import (
    AlterConfigsRequest,
)
from headrace.wire.messages.alter_configs import (
    AlterConfigsResource as WholeResource,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.wire.schema import Message
from tests.integration.metadata.test_decisions_as_kafka import CAUGHT_UP, Side, Story, two_controllers

pytestmark = pytest.mark.java

ELR = "eligible.leader.replicas.version"
MIN_ISR = "min.insync.replicas"
TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
PREFERRED, UNCLEAN = 0, 1


SESSION_S = 4.0
"""A broker that was fenced may be registered anew when its session is over (Kafka 4.3.1 waits for that, however it was fenced)."""


class ElrStory(Story):
    """What such a story has beside the usual; its brokers send heartbeats while they serve."""

    def __init__(self, kafka_port: int, port: int) -> None:
        super().__init__(kafka_port, port)
        self.serving: set[int] = set()
        self.kept_alive = time.monotonic()

    def ask(self, version: int, make: Callable[[Side], Message]) -> list[Any]:
        """The same to both, in time between heartbeats."""
        self.keep_alive()
        return super().ask(version, make)

    def keep_alive(self) -> None:
        """Everybody who serves says so, now and then."""
        if time.monotonic() < self.kept_alive + SESSION_S / 10:
            return
        self.kept_alive = time.monotonic()
        for broker_id in sorted(self.serving):
            for side in self.sides:
                epoch = side.epochs[broker_id]
                side.connection.ask(
                    BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=CAUGHT_UP),
                    1,
                )

    def lapse(self) -> None:
        """Until the sessions of all that do not serve are over."""
        until = time.monotonic() + SESSION_S + 0.2
        while time.monotonic() < until:
            self.keep_alive()
            time.sleep(0.05)

    def beat(self, broker_id: int, **changes: Any) -> None:
        """It serves from now on, or stops to."""
        is_leaving = bool(changes.get("want_fence") or changes.get("want_shut_down"))
        self.serving.discard(broker_id)
        super().beat(broker_id, **changes)
        if not is_leaving:
            self.serving.add(broker_id)

    def feature(self, level: int, kind: int, *, name: str = ELR, validate_only: bool = False) -> list[Any]:
        """A level for the feature."""
        update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
        request = UpdateFeaturesRequest(feature_updates=(update,), validate_only=validate_only)
        return self.ask(1, lambda _: request)

    def configure(self, resource: tuple[int, str], value: str | None, name: str = MIN_ISR) -> list[Any]:
        """One setting, None to delete it."""
        change = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        asked = AlterConfigsResource(resource_type=resource[0], resource_name=resource[1], configs=(change,))
        return self.ask(1, lambda _: IncrementalAlterConfigsRequest(resources=(asked,)))

    def replace(self, resource: tuple[int, str], **settings: str) -> None:
        """All settings of a resource."""
        given = tuple(WholeConfig(name=key.replace("_", "."), value=value) for key, value in settings.items())
        asked = WholeResource(resource_type=resource[0], resource_name=resource[1], configs=given)
        self.ask(2, lambda _: AlterConfigsRequest(resources=(asked,)))

    def make(self, name: str, replicas: tuple[int, ...], **settings: str) -> None:
        """A topic of one partition."""
        configs = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
        )
        given = (CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),)
        new = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=given, configs=configs)
        self.ask(7, lambda _: CreateTopicsRequest(topics=(new,)))

    def down(self, *brokers: int) -> None:
        """They are fenced, one after the other."""
        for each in brokers:
            self.beat(each, want_fence=True)

    def elect(self, kind: int) -> None:
        """An election of all partitions."""
        self.ask(2, lambda _: ElectLeadersRequest(election_type=kind, topic_partitions=None))

    def now(self, topic: str) -> tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """(leader, ISR, ELR, LastKnownElr) of a topic's partition, which both have."""
        partition = self.sides[1].image().topics.partition(topic, 0)
        assert partition is not None
        return partition.leader, partition.isr, partition.eligible_leader_replicas, partition.last_known_elr


@pytest.fixture
def story(tmp_path: Path) -> Iterator[ElrStory]:
    """Both controllers with brokers 2 to 6."""
    settings = {MIN_ISR: "2", "broker.session.timeout.ms": str(int(SESSION_S * 1_000))}
    with two_controllers(tmp_path, **settings) as ports, ElrStory(*ports) as found:
        for broker_id in range(2, 7):
            found.register(broker_id)
            found.beat(broker_id)
            found.beat(broker_id)
        yield found


def test_a_story_of_eligible_leaders_is_kafkas(story: ElrStory) -> None:
    """B-C31, KIP-966, inv:C5, inv:C7, inv:C10, inv:C11: who is in sync, eligible and last known after each step, all answers, and the settings."""
    tell_of_the_feature(story)
    tell_of_replicas_that_go_in_turn(story)
    tell_of_the_last_known_leader(story)
    tell_of_settings(story)
    tell_of_elections(story)
    tell_of_brokers_that_leave(story)
    tell_of_the_end(story)
    assert story.different == []
    assert story.asked > 60


def tell_of_the_feature(story: ElrStory) -> None:
    """It is on in a new cluster. It is switched off and on again, and every broker gets the controller's own `min.insync.replicas`."""
    assert story.sides[1].image().features.level(ELR) == 1
    story.feature(0, 2)
    story.configure((BROKER, ""), None)
    story.configure((BROKER, "3"), "1")
    story.configure((BROKER, "3"), "5000", name="log.flush.interval.ms")
    story.make("before", (2, 3))
    story.down(3, 2)
    assert story.now("before")[:3] == (-1, (2,), ())
    story.feature(2, 1)
    story.feature(1, 2)
    story.feature(1, 1, validate_only=True)
    story.feature(1, 1)
    configs = story.sides[1].image().configs
    assert (configs.of_all_brokers().get(MIN_ISR), configs.of_broker(3).get(MIN_ISR)) == ("2", None)
    story.beat(2)
    story.beat(3)
    story.feature(1, 1)


def tell_of_replicas_that_go_in_turn(story: ElrStory) -> None:
    """RF 3, min ISR 2: each goes and comes back; who has no proof of a clean stop is neither in sync nor eligible."""
    story.make("t", (2, 3, 4))
    story.make("u", (2, 6, 5))
    story.down(5, 6)
    assert story.now("u") == (2, (2,), (6,), ())
    story.down(3)
    assert story.now("t") == (2, (2, 4), (), ())
    story.down(4)
    assert story.now("t") == (2, (2,), (4,), ())
    story.down(2)
    assert story.now("t") == (-1, (), (2, 4), (2,))
    assert story.now("u") == (-1, (), (2, 6), (2,))
    story.beat(3)
    assert story.now("t")[0] == -1
    story.lapse()
    story.register(6, 2)
    assert story.now("u") == (-1, (), (2,), (2,))
    story.register(4, 2, is_clean=True)
    story.register(2, 2, is_clean=True)
    story.beat(4)
    assert story.now("t") == (4, (4,), (2,), ())
    story.isr("t", 0, 4, (4, 3))
    assert story.now("t") == (4, (4, 3), (), ())
    story.beat(2)
    assert story.now("u") == (2, (2,), (), ())
    story.isr("t", 0, 4, (4, 3, 2))
    story.isr("t", 0, 4, (4,))
    assert story.now("t") == (4, (4,), (2, 3), ())
    story.isr("t", 0, 4, (4, 2))
    assert story.now("t")[2] == ()
    story.isr("t", 0, 4, (4, 2, 3))
    story.beat(5)
    story.beat(6)


def tell_of_the_last_known_leader(story: ElrStory) -> None:
    """Who led last may lead when nobody else is left, and is marked as after an unclean election; where the topic allows these, nobody waits for it."""
    story.make("l", (2, 3))
    story.make("one", (5,))
    story.make("v", (4, 6), unclean_leader_election_enable="true")
    story.make("both", (3, 2))
    story.down(3, 2, 5, 6, 4)
    assert story.now("l") == (-1, (), (2, 3), (2,))
    assert story.now("v") == (-1, (), (4, 6), (4,))
    story.lapse()
    story.register(3, 2)
    story.register(2, 3)
    story.register(5, 2)
    assert story.now("l") == (-1, (), (), (2,))
    story.beat(3)
    assert story.now("l") == (-1, (), (), (2,))
    story.beat(2)
    assert story.now("l") == (2, (2,), (), ())
    story.isr("l", 0, 2, (2, 3), recovery=1)
    story.isr("l", 0, 2, (2, 3))
    story.beat(5)
    assert story.now("one") == (5, (5,), (), ())
    story.register(6, 3)
    story.beat(6)
    assert story.now("v") == (6, (6,), (), ())
    story.beat(4)


def tell_of_settings(story: ElrStory) -> None:
    """No broker has its own `min.insync.replicas`, that of all stays, and ELRs go when it changes."""
    story.make("s", (5, 6, 4), min_insync_replicas="3")
    story.down(4, 6)
    assert story.now("s") == (5, (5,), (4, 6), ())
    story.configure((TOPIC, "s"), "2")
    assert story.now("s") == (5, (5,), (), ())
    story.down(5)
    assert story.now("s") == (-1, (), (5,), (5,))
    story.configure((BROKER, "3"), "1")
    story.configure((BROKER, "3"), None)
    story.configure((BROKER, ""), None)
    story.configure((BROKER, ""), "0")
    story.replace((BROKER, ""))
    story.replace((BROKER, "3"), min_insync_replicas="2")
    story.replace((BROKER, "3"), log_flush_interval_ms="6000")
    story.replace((TOPIC, "s"), retention_ms="100000")
    story.configure((BROKER, ""), "3")
    assert story.now("s") == (-1, (), (), ())
    story.configure((BROKER, ""), "2")
    for broker_id in (4, 5, 6):
        story.beat(broker_id)
    assert story.now("s")[0] == -1


def tell_of_elections(story: ElrStory) -> None:
    """Preferred and unclean ones that are asked for."""
    story.elect(UNCLEAN)
    assert story.now("s") == (5, (5,), (), ())
    story.make("e", (4, 5, 6))
    story.down(5, 6, 4)
    story.elect(UNCLEAN)
    story.beat(6)
    assert story.now("e") == (6, (6,), (4,), ())
    story.beat(4)
    story.isr("e", 0, 6, (6, 4))
    story.elect(PREFERRED)
    assert story.now("e") == (4, (6, 4), (), ())
    story.beat(5)


def tell_of_brokers_that_leave(story: ElrStory) -> None:
    """A controlled shutdown makes who stops eligible; who was unregistered has no proof."""
    story.make("w", (2, 3))
    story.make("x", (6, 4))
    story.down(6)
    assert story.now("x") == (4, (4,), (6,), ())
    story.beat(3, want_shut_down=True)
    assert story.now("w") == (2, (2,), (3,), ())
    story.beat(2, want_shut_down=True)
    assert story.now("w") == (-1, (), (2, 3), (2,))
    story.lapse()
    story.register(3, 3, is_clean=True)
    story.beat(3)
    assert story.now("w") == (3, (3,), (2,), ())
    story.ask(0, lambda _: UnregisterBrokerRequest(broker_id=2))
    assert story.now("w") == (3, (3,), (2,), ())
    story.register(2, 4, is_clean=True)
    assert story.now("w") == (3, (3,), (), ())
    story.register(6, 9)
    assert story.now("x") == (4, (4,), (), ())
    story.beat(2)
    story.beat(6)


def tell_of_the_end(story: ElrStory) -> None:
    """The feature goes: who is left in an ELR may still lead, and goes from it with the next change of the partition."""
    for broker_id in (2, 3, 4, 5, 6):
        story.beat(broker_id)
    story.make("y", (6, 5))
    story.make("z", (4, 5))
    story.isr("y", 0, 6, (6,))
    story.isr("z", 0, 4, (4,))
    assert story.now("z") == (4, (4,), (5,), ())
    story.feature(0, 1)
    story.feature(0, 2)
    assert story.now("z") == (4, (4,), (5,), ())
    story.isr("z", 0, 4, (4, 5))
    assert story.now("z") == (4, (4, 5), (), ())
    story.down(6)
    assert story.now("y") == (5, (5,), (), ())
    story.down(5)
    assert story.now("y") == (-1, (5,), (), ())
    story.configure((BROKER, ""), None)
    story.configure((BROKER, "3"), "1")
