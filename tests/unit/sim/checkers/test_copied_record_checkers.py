"""A healthy cluster whose copies are spoilt behind its back: each promise that is broken so is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.metadata.image import MetadataImage, PartitionRegistration
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.checkers.copied_records import CopiedRecords, _Begun
from headrace.sim.observation import Crash, StepKind
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.histories import breaks
from tests.support.spoilt_copies import Copies


@pytest.fixture(scope="module")
def healthy() -> Copies[CopiedRecords]:
    """Looked at only."""
    return Copies(CopiedRecords)


def test_a_healthy_cluster_keeps_every_promise(healthy: Copies[CopiedRecords]) -> None:
    """inv:PL1 inv:PR1: there are acknowledged records, and all three copies have them."""
    assert healthy.promise.end > 0
    assert healthy.cluster.markers.counts["copied records acknowledged"] > 50
    healthy.group.now_and_then(healthy.cluster)
    healthy.group.at_end(healthy.cluster)


@pytest.mark.parametrize("whose", ["leader", "follower"])
def test_who_is_in_sync_has_all_that_is_promised(whose: str) -> None:
    """inv:P1 inv:P3: a log of the leader, or of another member of the ISR, that ends too early."""
    copies = Copies(CopiedRecords)
    copies.log(getattr(copies, whose)()).truncate_to(copies.promise.end - 1)
    with breaks("P3"):
        copies.group.now_and_then(copies.cluster)


def test_somebody_has_all_that_is_promised() -> None:
    """inv:P2: also where nobody leads, and nobody is in sync or eligible; as long as one copy reaches so far, nothing is lost."""
    copies = Copies(CopiedRecords)
    nobody = replace(copies.partition, leader=-1, isr=(), eligible_leader_replicas=())
    copies.group._image = lambda: with_partition(copies.image, copies.place, nobody)  # type: ignore[method-assign]
    *others, last = (101, 102, 103)
    for broker_id in others:
        copies.log(broker_id).truncate_to(copies.promise.end - 1)
    copies.promise.compared.clear()
    copies.group.now_and_then(copies.cluster)
    copies.log(last).truncate_to(copies.promise.end - 1)
    with breaks("P2"):
        copies.group.now_and_then(copies.cluster)


def with_partition(image: MetadataImage, place: tuple[str, int], partition: PartitionRegistration) -> MetadataImage:
    """The image with that in the place of one of its partitions."""
    name, number = place
    topic = image.topics.by_name[name]
    topic = replace(topic, partitions=topic.partitions.set(number, partition))
    topics = replace(
        image.topics, by_name=image.topics.by_name.set(name, topic), by_id=image.topics.by_id.set(topic.id, topic)
    )
    return replace(image, topics=topics)


def test_at_the_end_no_write_waits_and_what_was_acknowledged_is_on_every_live_replica() -> None:
    """inv:PL2: a call without an end; a live replica whose log is not there, or ends too early."""
    copies = Copies(CopiedRecords)
    call_id, begun = -1, _Begun(copies.promise, 0, 0, (0, 0), is_write=True)
    copies.group._begun[call_id] = begun._replace(is_write=False)
    copies.group.at_end(copies.cluster)
    copies.group._begun[call_id] = begun
    with breaks("PL2"):
        copies.group.at_end(copies.cluster)
    del copies.group._begun[call_id]
    follower = copies.hosted(copies.follower())
    kept, follower.log = follower.log, None
    with breaks("PL2"):
        copies.group.at_end(copies.cluster)
    follower.log = kept
    kept.truncate_to(copies.promise.end - 1)
    with breaks("PL2"):
        copies.group.at_end(copies.cluster)


def spoil(copies: Copies[CopiedRecords]) -> None:
    """A follower has another record in the place of the last that is promised."""
    log = copies.log(copies.follower())
    end = log.log_end_offset
    log.truncate_to(copies.promise.end - 1)
    at = log.log_end_offset
    values = [NewRecord(None, b"another %d" % number) for number in range(end - at)]
    placement = Placement(base_offset=at, leader_epoch=log.latest_epoch or 0)
    log.append_as_follower(memoryview(build_batch(values, placement=placement)), leader_epoch=9, now_ms=0)
    log.advance_high_watermark(end)


def test_a_batch_is_known_again_unless_a_restart_left_only_later_ones() -> None:
    """inv:E2: a producer snapshot holds the last batch of a producer, as Kafka's does."""
    copies = Copies(CopiedRecords)
    group, promise, leader = copies.group, copies.promise, copies.leader()
    group.scene.step.node = copies.cluster.nodes[leader]
    in_order = sorted(promise.offsets, key=lambda value: promise.offsets[value])
    earlier, last = (ProduceRequest(topic_data=(_written(value),)) for value in (in_order[0], in_order[-1]))
    group._acknowledged.update(dict.fromkeys(in_order, 5))
    group._started[leader] = 4
    for request in (earlier, last):
        with breaks("E2"):
            group._known_again(promise, request)
    group._started[leader] = 6
    group._known_again(promise, earlier)
    with breaks("E2"):
        group._known_again(promise, last)
    with breaks("PR4"):
        group._hold(promise, promise.end, in_order[-1])
    copies.cluster.nodes[leader].clock.jump_wall(86_400_000)
    group._known_again(promise, last)
    group._hold(promise, promise.end, in_order[-1])


def _written(value: bytes) -> TopicProduceData:
    batch = bytes(build_batch([NewRecord(None, value)]))
    return TopicProduceData(partition_data=(PartitionProduceData(records=batch),))


def test_copies_are_the_same_below_their_high_watermarks() -> None:
    """inv:P4: while the run goes on, of what was looked at by this process."""
    copies = Copies(CopiedRecords)
    copies.promise.compared.clear()
    spoil(copies)
    with breaks("P4"):
        copies.group.now_and_then(copies.cluster)


def test_at_the_end_every_copy_holds_what_was_promised() -> None:
    """inv:PR1: value by value."""
    copies = Copies(CopiedRecords)
    spoil(copies)
    with breaks("PR1"):
        copies.group.at_end(copies.cluster)


def test_at_the_end_every_live_replica_is_in_sync() -> None:
    """inv:PL1: a broker that is stopped for good is not waited for, one that lives is."""
    copies = Copies(CopiedRecords)
    victim = copies.follower()
    copies.cluster.nodes[victim].die(Crash(is_lossy=False, reason="killed"))
    copies.cluster.run_for(20_000)
    copies.group.at_end(copies.cluster)
    copies.cluster.nodes[victim].start()
    while len(copies.image.cluster.brokers[victim].end_points) and not copies.image.cluster.brokers[victim].is_active:
        copies.cluster.run_for(1)
    with breaks("PL1"):
        copies.group.at_end(copies.cluster)


def test_promises_end_when_too_many_copies_lost_what_was_not_synced(healthy: Copies[CopiedRecords]) -> None:
    """inv:PR1: as many as `min.insync.replicas`; one alone takes nothing away."""
    copies = Copies(CopiedRecords)
    image = copies.image
    needed = int(image.configs.of_topic(copies.place[0])["min.insync.replicas"])
    for number, broker_id in enumerate((101, 102, 103)[:needed], start=1):
        life = copies.group.ghost.lives[broker_id]
        copies.group.scene.step.event = Crash(is_lossy=True, reason="power cut")
        copies.group.ended(life, StepKind.CRASHED)
        assert copies.promise.is_void is (number == needed)
    assert copies.promise.end == 0
    assert healthy.promise.end > 0
