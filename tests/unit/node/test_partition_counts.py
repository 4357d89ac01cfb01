"""Do counts that follow the changes say what a look at everything would say?"""

from __future__ import annotations

import random

from immutables import Map

from headrace.core.ids import Uuid
from headrace.metadata.compare import compare_images
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import (
    EMPTY_IMAGE,
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    ConfigResource,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from headrace.metadata.replay import replay_all
from headrace.node.partition_counts import (
    AT_MIN_ISR,
    REASSIGNING,
    UNDER_MIN_ISR,
    UNDER_REPLICATED,
    BrokerCounts,
    ClusterCounts,
    marks_of,
)
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.made_up_metadata import TOPIC, partition, registered, usual_records

ME = 1


class Followed:
    """An image that goes on, and both counters behind it."""

    def __init__(self, *, min_isr: int = 1) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.min_isr = min_isr
        self.cluster = ClusterCounts()
        self.broker = BrokerCounts(ME, lambda _: self.min_isr)

    def replay(self, *records: Message) -> MetadataDelta:
        """These are committed."""
        return self.goto(replay_all(self.image, records))

    def goto(self, image: MetadataImage) -> MetadataDelta:
        """The image is this by now."""
        delta = compare_images(self.image, image)
        self.image = image
        self.cluster.follow(delta)
        self.broker.follow(delta)
        return delta

    def changed(self, number: int = 0, **fields: object) -> None:
        """One partition changed."""
        self.replay(PartitionChangeRecord(partition_id=number, topic_id=TOPIC, **fields))  # type: ignore[arg-type]


def counted(cluster: ClusterCounts) -> tuple[int, ...]:
    """Topics, partitions, those without a leader, those that another one leads."""
    return cluster.topics, cluster.partitions, cluster.offline, cluster.not_preferred


def test_the_controllers_gauges_follow_what_is_committed() -> None:
    """B-M02, inv:C3: topics and partitions, offline and not preferred; an offline one is not led by its first replica either, as in Kafka."""
    seen = Followed()
    seen.replay(*usual_records())
    assert counted(seen.cluster) == (1, 1, 0, 0)
    seen.changed(leader=2)
    assert counted(seen.cluster) == (1, 1, 0, 1)
    seen.changed(leader=-1)
    assert counted(seen.cluster) == (1, 1, 1, 1)
    seen.replay(partition(1))
    assert counted(seen.cluster) == (1, 2, 1, 1)
    seen.replay(RemoveTopicRecord(topic_id=TOPIC))
    assert counted(seen.cluster) == (0, 0, 0, 0)


def test_brokers_are_active_fenced_or_leaving() -> None:
    """B-M02: as Kafka counts: one that is about to stop is still active."""
    seen = Followed()
    seen.replay(registered(1, epoch=1), registered(2, epoch=2, fenced=True), registered(3, epoch=3))
    assert (seen.cluster.active_brokers, seen.cluster.fenced_brokers, seen.cluster.leaving_brokers) == (2, 1, 0)
    leaving = RegisterBrokerRecord(broker_id=3, broker_epoch=4, fenced=False, in_controlled_shutdown=True)
    seen.replay(registered(2, epoch=5), leaving)
    assert (seen.cluster.active_brokers, seen.cluster.fenced_brokers, seen.cluster.leaving_brokers) == (3, 0, 1)


def test_unclean_elections_are_those_that_lose_records() -> None:
    """B-M03, inv:C11: the new leader was not in sync; one that was, or that is brought back, is not counted."""
    seen = Followed()
    seen.replay(*usual_records())
    seen.changed(leader=2, isr=(2,))
    assert (seen.cluster.unclean_elections, seen.cluster.elr_elections) == (0, 0)
    seen.changed(leader=-1)
    seen.changed(leader=2)
    assert seen.cluster.unclean_elections == 0
    seen.changed(leader=3, isr=(3,), leader_recovery_state=1)
    assert (seen.cluster.unclean_elections, seen.cluster.elr_elections) == (1, 0)
    seen.changed(eligible_leader_replicas=(1,))
    seen.changed(leader=1, isr=(1,), leader_recovery_state=0)
    assert (seen.cluster.unclean_elections, seen.cluster.elr_elections) == (1, 1)


def test_a_brokers_gauges_are_about_what_it_leads() -> None:
    """B-M06: under-replicated, under and at min ISR, as the ISR shrinks; a follower counts none of it."""
    seen = Followed(min_isr=2)
    seen.replay(*usual_records())
    marked = seen.broker.marked
    assert (seen.broker.leaders, *marked.values()) == (1, 0, 0, 0, 0)
    seen.changed(isr=(1, 2))
    assert (seen.broker.leaders, marked[UNDER_REPLICATED], marked[UNDER_MIN_ISR], marked[AT_MIN_ISR]) == (1, 1, 0, 1)
    seen.changed(isr=(1,))
    assert (marked[UNDER_REPLICATED], marked[UNDER_MIN_ISR], marked[AT_MIN_ISR]) == (1, 1, 0)
    seen.changed(leader=2, isr=(2,))
    assert (seen.broker.leaders, *marked.values()) == (0, 0, 0, 0, 0)


def test_settings_are_counted_anew_when_they_change() -> None:
    """B-M06: `min.insync.replicas` of a topic, and of the brokers for all topics."""
    seen = Followed(min_isr=1)
    seen.replay(*usual_records())
    assert seen.broker.marked[AT_MIN_ISR] == 0
    for kind, name, minimum, at_minimum in (
        (RESOURCE_TOPIC, "t", 3, 1),
        (RESOURCE_BROKER, "", 2, 0),
        (RESOURCE_TOPIC, "t", 9, 1),
    ):
        seen.min_isr = minimum
        value = str(minimum)
        record = ConfigRecord(resource_type=kind, resource_name=name, name="min.insync.replicas", value=value)
        assert seen.replay(record).changed_configs == (ConfigResource(kind, name),)
        assert seen.broker.marked[AT_MIN_ISR] == at_minimum


def test_a_move_needs_only_the_replicas_that_were_there() -> None:
    """B-M06, S2-22: replicas that are added are not missed yet, and the partition counts as reassigning."""
    moving = PartitionRegistration(replicas=(1, 2, 3, 4), isr=(1, 2, 3), leader=1, adding_replicas=(4,))
    assert marks_of(moving, 1) == REASSIGNING
    behind = PartitionRegistration(replicas=(1, 2, 3, 4), isr=(1, 2), leader=1, adding_replicas=(4,))
    assert marks_of(behind, 2) == REASSIGNING | UNDER_REPLICATED | AT_MIN_ISR
    leaving = PartitionRegistration(replicas=(1, 2), isr=(1, 2), leader=1, removing_replicas=(2,))
    assert marks_of(leaving, 3) == REASSIGNING | AT_MIN_ISR


def made_up(rng: random.Random) -> MetadataImage:
    """Some of five topics, with partitions of some brokers."""
    image = EMPTY_IMAGE
    for number in rng.sample(range(5), rng.randrange(6)):
        topic_id = Uuid(bytes([number + 1] * 16))
        image = replay_all(image, [TopicRecord(name=f"t{number}", topic_id=topic_id)])
        partitions = {each: _made_up_partition(rng) for each in range(rng.randrange(4))}
        topic = TopicImage(name=f"t{number}", id=topic_id, partitions=Map(partitions))
        topics = type(image.topics)(
            by_name=image.topics.by_name.set(topic.name, topic), by_id=image.topics.by_id.set(topic_id, topic)
        )
        image = type(image)(topics=topics)
    return image


def _made_up_partition(rng: random.Random) -> PartitionRegistration:
    replicas = tuple(rng.sample(range(1, 5), rng.randrange(1, 5)))
    isr = tuple(rng.sample(replicas, rng.randrange(1, len(replicas) + 1)))
    adding = replicas[-1:] if rng.random() < 0.2 and len(replicas) > 1 else ()
    return PartitionRegistration(
        replicas=replicas,
        isr=isr,
        leader=rng.choice((*isr, -1)),
        adding_replicas=adding,
        partition_epoch=rng.randrange(1_000_000),
    )


def test_following_is_the_same_as_counting() -> None:
    """B-M02, B-M06: whatever comes and goes, the counts are those of the image; partitions that shrink with a new topic of the name too."""
    rng = random.Random(7)
    seen = Followed(min_isr=2)
    for _ in range(200):
        image = made_up(rng)
        if any(len(topic.partitions) < _known(seen, topic) for topic in image.topics.by_id.values()):
            continue  # partitions never go one by one
        seen.goto(image)
        partitions = [each for topic in image.topics.by_id.values() for each in topic.partitions.values()]
        led = [each for each in partitions if each.leader == ME]
        assert counted(seen.cluster) == (
            len(image.topics.by_id),
            len(partitions),
            sum(each.leader == -1 for each in partitions),
            sum(each.leader != each.replicas[0] for each in partitions),
        )
        assert seen.broker.leaders == len(led)
        for mark, count in seen.broker.marked.items():
            assert count == sum(bool(marks_of(each, 2) & mark) for each in led)


def _known(seen: Followed, topic: TopicImage) -> int:
    before = seen.image.topics.by_id.get(topic.id)
    return 0 if before is None else len(before.partitions)
