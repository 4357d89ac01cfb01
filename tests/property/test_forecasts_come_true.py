"""Does the controller do what was foretold, on random clusters, however slowly and in whatever order things happen?"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.controller.forecast import Forecast, if_broker_dies, if_broker_stops, if_reassigned
from headrace.core.ids import TopicPartition
from headrace.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tests.support.controller import ControllerBench
from tests.support.partitions import cluster, join, topic

BROKERS = 5
SESSION_MS = 9_000


def replica_lists(least: int = 1, most: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(1, BROKERS), min_size=least, max_size=most, unique=True).map(tuple)


def state(image: MetadataImage) -> dict[int, tuple[Any, ...]]:
    """What counts of each partition; members of an ISR have no order, and ELR none either."""
    found = image.topics.by_name["t"].partitions
    return {number: shape(found[number]) for number in found}


def shape(partition: PartitionRegistration) -> tuple[Any, ...]:
    return (
        partition.replicas,
        frozenset(partition.isr),
        partition.leader,
        partition.leader_epoch,
        partition.leader_recovery_state,
        partition.adding_replicas,
        partition.removing_replicas,
        frozenset(partition.eligible_leader_replicas),
    )


class Life:
    """A bench with brokers of which some are fenced and some lag."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.bench, self.epochs = cluster(BROKERS)
        self.bench.machine.slice_size = data.draw(st.sampled_from([1, 2, 5_000]), label="slice size")
        factor = data.draw(st.integers(1, 4), label="replication factor")
        lists = data.draw(st.lists(replica_lists(factor, factor), min_size=1, max_size=6), label="replicas")
        unclean = {"unclean_leader_election_enable": "true"} if data.draw(st.booleans(), label="unclean") else {}
        topic(self.bench, *lists, **unclean)
        self.fenced: set[int] = set()
        for _ in range(data.draw(st.integers(0, 3), label="how many are fenced in turn")):
            broker_id = data.draw(st.integers(1, BROKERS), label="fenced")
            if broker_id not in self.fenced:
                self.beat(broker_id, want_fence=True)
                self.fenced.add(broker_id)
        back = data.draw(st.sampled_from([None, *sorted(self.fenced)]), label="back again")
        if back is not None:
            self.beat(back)
            self.fenced.discard(back)

    @property
    def image(self) -> MetadataImage:
        return self.bench.committed_image

    def beat(self, broker_id: int, **wants: Any) -> None:
        """A heartbeat, and what it leads to."""
        offset = self.bench.next_offset - 1
        self.bench.send(
            BrokerHeartbeatRequest(
                broker_id=broker_id, broker_epoch=self.epochs[broker_id], current_metadata_offset=offset, **wants
            )
        )
        self.bench.commit()
        self.settle()

    def settle(self) -> None:
        """Slices that are due, each committed by itself."""
        while self.bench.machine.queue_size:
            self.bench.advance(1)
            self.bench.commit()

    def fall_silent(self, silent: int) -> None:
        """The others go on until the session of one has run out."""
        for _ in range(4):
            self.bench.advance(SESSION_MS // 3)
            self.bench.commit()
            self.settle()
            for broker_id in range(1, BROKERS + 1):
                if broker_id != silent and broker_id not in self.fenced:
                    self.beat(broker_id)


def forecast_of(life: Life, how: Any, *arguments: Any) -> Forecast:
    found: Forecast = how(life.image, *arguments, config=life.bench.config, rng=random.Random(0))
    return found


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_broker_that_dies_does_what_was_foretold(data: st.DataObject) -> None:
    """B-C24, C7, C11: leaders, ISRs and epochs after its session has run out are those of the forecast."""
    life = Life(data)
    broker_id = data.draw(st.integers(1, BROKERS), label="dies")
    foretold = forecast_of(life, if_broker_dies, broker_id)
    assert foretold.before is life.image
    before = state(life.image)
    life.fall_silent(broker_id)
    assert life.image.cluster.brokers[broker_id].fenced
    assert state(life.image) == state(foretold.after)
    assert state(foretold.before) == before


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_broker_that_stops_does_what_was_foretold(data: st.DataObject) -> None:
    """S1-57, KIP-841: what it hands over, and what is left when it is gone."""
    life = Life(data)
    running = [each for each in range(1, BROKERS + 1) if each not in life.fenced]
    broker_id = data.draw(st.sampled_from(running), label="stops")
    foretold = forecast_of(life, if_broker_stops, broker_id)
    life.beat(broker_id, want_shut_down=True)
    assert state(life.image) == state(foretold.decided)
    life.fall_silent(broker_id)
    assert state(life.image) == state(foretold.after)


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_a_reassignment_ends_as_was_foretold(data: st.DataObject) -> None:
    """S2-06, S2-08, KIP-455: begun as foretold, and whatever the order in which replicas catch up, it ends with these."""
    life = Life(data)
    partitions = life.image.topics.by_name["t"].partitions
    numbers = data.draw(st.lists(st.sampled_from(sorted(partitions)), min_size=1, unique=True), label="moved")
    targets = {TopicPartition("t", number): data.draw(replica_lists(), label="target") for number in numbers}
    foretold = forecast_of(life, if_reassigned, targets)
    asked = tuple(ReassignablePartition(partition_index=each.partition, replicas=to) for each, to in targets.items())
    life.bench.ask(AlterPartitionReassignmentsRequest(topics=(ReassignableTopic(name="t", partitions=asked),)))
    assert state(life.image) == state(foretold.decided)
    assert foretold.refused == {}
    before = partitions
    for number in numbers:
        catch_up(life, number)
        after, said = (
            life.image.topics.by_name["t"].partitions[number],
            foretold.after.topics.by_name["t"].partitions[number],
        )
        assert (after.replicas, set(after.isr), after.adding_replicas, after.removing_replicas) == (
            said.replicas,
            set(said.isr),
            said.adding_replicas,
            said.removing_replicas,
        )
        if set(before[number].isr) == set(before[number].replicas):  # else it depends on who catches up first
            assert after.leader == said.leader


def catch_up(life: Life, number: int) -> None:
    """Live replicas come into sync one by one, in an order that is drawn."""
    while True:
        now = life.bench.machine.image.topics.by_name["t"].partitions[number]
        if now.leader == NO_LEADER or now.leader in life.fenced:
            return
        late = [
            each
            for each in now.replicas
            if each not in now.isr and each not in now.removing_replicas and each not in life.fenced
        ]
        if not late:
            return
        join(
            life.bench,
            now.leader,
            life.epochs,
            (*now.isr, life.data.draw(st.sampled_from(late), label="caught up")),
            number,
        )


def test_an_impossible_reassignment_is_foretold_as_refused() -> None:
    """S2-06: with the controller's own words, and the image as it was."""
    bench: ControllerBench
    bench, _ = cluster(2)
    topic(bench, (1,))
    targets = {TopicPartition("t", 0): (9,), TopicPartition("x", 0): (1,)}
    found = if_reassigned(bench.committed_image, targets, config=bench.config, rng=random.Random(0))
    assert {where: error.message for where, error in found.refused.items()} == {
        TopicPartition("t", 0): "The manual partition assignment includes broker 9, but no such broker is registered.",
        TopicPartition("x", 0): "Unable to find a topic named x.",
    }
    assert found.after is bench.committed_image
