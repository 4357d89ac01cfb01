"""Random lives of a cluster under one controller: the rules of the catalogue hold after every decision.

Brokers register, die silently, come back as new incarnations, stop; topics come and go; leaders change ISRs; the controller loses leadership with
and without uncommitted decisions. After each step every partition, epoch and id is checked against the step before.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.controller.derived import Derived
from headrace.controller.events import BrokerUnreachable
from headrace.core.ids import Uuid
from headrace.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.controller import ControllerBench, incarnation, registration

BROKERS = st.integers(1, 4)
NAMES = st.sampled_from(["a", "b", "c"])


class Cluster(RuleBasedStateMachine):
    """One controller bench; what a step led to is committed at once, or later, or lost."""

    @initialize(slice_size=st.sampled_from([1, 2, 9_990]))
    def start(self, slice_size: int) -> None:
        self.bench = ControllerBench()
        self.bench.machine.slice_size = slice_size
        self.standby = ControllerBench()
        self.bench.gain()
        self.before: MetadataImage = self.bench.machine.image
        self.epochs_seen: set[int] = set()
        self.ids_gone: set[Uuid] = set()
        self.blocks: list[int] = []
        self.number = 10
        for broker_id in (1, 2, 3):
            self.bench.broker(broker_id)
        self.create("a", 2, 3)
        self.create("b", 1, 2)
        self.bench.commit()

    def _send(self, request: Any) -> None:
        self.bench.send(request)

    # Brokers

    @rule(broker_id=BROKERS, is_new=st.booleans())
    def register(self, broker_id: int, is_new: bool) -> None:
        self.number += 1
        number = self.number if is_new else broker_id
        self._send(registration(broker_id, incarnation_id=incarnation(number % 250)))

    @rule(broker_id=BROKERS)
    def serve(self, broker_id: int) -> None:
        """A broker that lives and has read everything."""
        self.heartbeat(broker_id, 0, fence=False, stop=False, is_stale=False)

    @rule(silent=BROKERS)
    def one_falls_silent(self, silent: int) -> None:
        """All others go on, until its session has run out."""
        for _ in range(3):
            self.bench.advance(3_001)
            for broker_id in (1, 2, 3, 4):
                if broker_id != silent:
                    self.serve(broker_id)

    @rule(broker_id=BROKERS)
    def stop(self, broker_id: int) -> None:
        """A broker that wants to stop."""
        self.heartbeat(broker_id, 0, fence=False, stop=True, is_stale=False)

    @rule(broker_id=BROKERS, behind=st.integers(0, 3), fence=st.booleans(), stop=st.booleans(), is_stale=st.booleans())
    def heartbeat(self, broker_id: int, behind: int, fence: bool, stop: bool, is_stale: bool) -> None:
        broker = self.bench.machine.image.cluster.brokers.get(broker_id)
        epoch = (broker.broker_epoch if broker else 0) - (1 if is_stale else 0)
        before = self.bench.machine.image
        self._send(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=epoch,
                current_metadata_offset=self.bench.next_offset - 1 - behind,
                want_fence=fence,
                want_shut_down=stop,
            )
        )
        if broker is None or is_stale:
            assert self.bench.machine.image is before, "C8: an older epoch changed something"

    @rule(ms=st.sampled_from([100, 2_000, 9_001]))
    def time(self, ms: int) -> None:
        self.bench.advance(ms)

    # Topics

    @rule(name=NAMES, partitions=st.integers(1, 4), factor=st.integers(1, 3))
    def create(self, name: str, partitions: int, factor: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)
        self._send(CreateTopicsRequest(topics=(topic,)))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self._send(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1))

    @rule(name=NAMES, count=st.integers(1, 6))
    def more(self, name: str, count: int) -> None:
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        self._send(CreatePartitionsRequest(topics=(topic,), timeout_ms=1))

    @rule(
        name=NAMES,
        members=st.lists(BROKERS, min_size=1, max_size=3, unique=True),
        shift=st.sampled_from([-1, 0, 0, 0, 1]),
    )
    def change_isr(self, name: str, members: list[int], shift: int) -> None:
        image = self.bench.machine.image
        topic = image.topics.by_name.get(name)
        if topic is None:
            return
        partition = topic.partitions[0]
        sender = image.cluster.brokers.get(partition.leader)
        if sender is None:
            return
        asked = RequestPartitionData(
            partition_index=0,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch + shift,
            new_isr_with_epochs=tuple(BrokerState(broker_id=each) for each in members),
            leader_recovery_state=partition.leader_recovery_state,
        )
        data = RequestTopicData(topic_id=topic.id, partitions=(asked,))
        self._send(AlterPartitionRequest(broker_id=sender.broker_id, broker_epoch=sender.broker_epoch, topics=(data,)))
        after = self.bench.machine.image.topics.by_id[topic.id].partitions[0]
        if shift or partition.leader not in members or not set(members) <= set(partition.replicas):
            assert after == partition, "C9: a change was accepted that must not be"

    @rule(broker_id=BROKERS)
    def producer_ids(self, broker_id: int) -> None:
        broker = self.bench.machine.image.cluster.brokers.get(broker_id)
        if broker is not None:
            self._send(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker.broker_epoch))

    # Leaders and replicas

    @rule(name=NAMES, number=st.integers(0, 2), moved_to=st.none() | st.lists(BROKERS, min_size=1, max_size=3))
    def reassign(self, name: str, number: int, moved_to: list[int] | None) -> None:
        asked = ReassignablePartition(partition_index=number, replicas=None if moved_to is None else tuple(moved_to))
        topic = ReassignableTopic(name=name, partitions=(asked,))
        self._send(AlterPartitionReassignmentsRequest(topics=(topic,)))

    @rule(kind=st.integers(0, 1), name=st.none() | NAMES, numbers=st.lists(st.integers(0, 3), max_size=3))
    def elect(self, kind: int, name: str | None, numbers: list[int]) -> None:
        places = None if name is None else (TopicPartitions(topic=name, partitions=tuple(numbers)),)
        self._send(ElectLeadersRequest(election_type=kind, topic_partitions=places))

    @rule(broker_id=BROKERS)
    def unregister(self, broker_id: int) -> None:
        self._send(UnregisterBrokerRequest(broker_id=broker_id))

    @rule(broker_id=BROKERS, is_stale=st.booleans())
    def refuse_connections(self, broker_id: int, is_stale: bool) -> None:
        before = self.bench.machine.image
        broker = before.cluster.brokers.get(broker_id)
        epoch = (broker.broker_epoch if broker else 0) - (1 if is_stale else 0)
        event = BrokerUnreachable(broker_id=broker_id, broker_epoch=epoch, now_ms=self.bench.now_ms)
        self.bench.take(self.bench.machine.step(event))
        if broker is None or is_stale:
            assert self.bench.machine.image is before, "C8: an older epoch changed something"

    # The quorum

    @rule()
    def commit(self) -> None:
        self.bench.commit()

    @precondition(lambda self: self.bench.machine.is_active)
    @rule(is_committed=st.booleans())
    def another_term(self, is_committed: bool) -> None:
        """Leadership is lost and gained again; what was not committed is forgotten (B-C23)."""
        if is_committed:
            self.bench.commit()
        self.bench.lose()
        self.bench.epoch += 1
        self.bench.gain(next_offset=self.bench.next_offset + 1)
        assert self.bench.machine.image == self.bench.committed_image
        self.before = self.bench.committed_image
        self.ids_gone -= set(self.before.topics.by_id)

    # The rules

    @invariant()
    def partitions_have_the_right_shape(self) -> None:
        """C5, C7: replicas and ISR; a leader is in the ISR and neither fenced nor stopping."""
        image = self.bench.machine.image
        for topic in image.topics.by_id.values():
            assert sorted(topic.partitions) == list(range(len(topic.partitions))), "C12: partitions are numbered 0..n-1"
            for partition in topic.partitions.values():
                self._check_shape(image, partition)

    def _check_shape(self, image: MetadataImage, partition: PartitionRegistration) -> None:
        replicas, isr = partition.replicas, partition.isr
        assert replicas
        assert len(set(replicas)) == len(replicas), "C5, C19: two replicas on one broker"
        assert isr
        assert set(isr) <= set(replicas), "C5"
        assert partition.leader == NO_LEADER or partition.leader in isr, "C5"
        assert set(partition.adding_replicas) <= set(replicas), "C5"
        assert set(partition.removing_replicas) <= set(replicas) - set(partition.adding_replicas), "C5"
        assert len(partition.directories) == len(replicas)
        if partition.leader != NO_LEADER:
            assert _is_active(image, partition.leader), "C7: a fenced or stopping broker leads"
        inactive = [each for each in isr if not _is_active(image, each)]
        assert not inactive or (len(isr) == 1 and partition.leader == NO_LEADER), (
            "C7: out, or the last member without leading"
        )

    @invariant()
    def epochs_only_rise(self) -> None:
        """C6, C12, C13: partition and leader epochs, numbers of partitions, producer ids; ids never come back."""
        before, after = self.before, self.bench.machine.image
        assert after.next_producer_id >= before.next_producer_id, "C13"
        for topic_id, old in before.topics.by_id.items():
            new = after.topics.by_id.get(topic_id)
            if new is None:
                self.ids_gone.add(topic_id)
                continue
            assert new.name == old.name, "C12"
            assert len(new.partitions) >= len(old.partitions), "C12"
            for number, partition in old.partitions.items():
                self._check_epochs(partition, new.partitions[number])
        assert not self.ids_gone & set(after.topics.by_id), "C12: a deleted id came back"
        for topic in after.topics.by_id.values():
            assert after.topics.by_name[topic.name] is topic, "C12: name and id are one to one"
        self.before = after

    def _check_epochs(self, old: PartitionRegistration, new: PartitionRegistration) -> None:
        changed = new.partition_epoch - old.partition_epoch
        assert changed >= 0, "C6"
        assert (changed == 0) == (new == old), "C6: every change raises the partition epoch"
        assert 0 <= new.leader_epoch - old.leader_epoch <= changed, "C6"
        if new.leader != old.leader:
            assert new.leader_epoch > old.leader_epoch, "C6: every change of leader raises the leader epoch"

    @invariant()
    def unfenced_brokers_have_read_their_registration(self) -> None:
        """C8, C16: a broker epoch is the offset of its registration, unique among the brokers."""
        brokers = list(self.bench.machine.image.cluster.brokers.values())
        epochs = [broker.broker_epoch for broker in brokers]
        assert len(set(epochs)) == len(epochs), "C8"
        for broker in brokers:
            record = self.bench.written_at[broker.broker_epoch]
            assert (record.SCHEMA.api_key, getattr(record, "broker_id", None)) == (0, broker.broker_id), "C8"

    @invariant()
    def the_index_is_that_of_the_image(self) -> None:
        """C2: what is derived equals what a walk over everything finds."""
        active = self.bench.machine._active
        assert active is not None
        self._check_derived(active.derived, active.image)
        self.standby.follow(self.bench)
        assert self.standby.machine._derived is not None
        self._check_derived(self.standby.machine._derived, self.standby.committed_image)

    def _check_derived(self, derived: Derived, image: MetadataImage) -> None:
        assert derived.image == image
        for broker_id in range(-1, 5):
            expected = sorted(
                (topic.id, number)
                for topic in image.topics.by_id.values()
                for number, each in topic.partitions.items()
                if broker_id in each.isr or (broker_id == NO_LEADER == each.leader)
            )
            assert list(derived.index.partitions_with(broker_id)) == expected
            led = [each for topic in image.topics.by_id.values() for each in topic.partitions.values()]
            assert derived.index.leaderships(broker_id) == sum(each.leader == broker_id for each in led)


def _is_active(image: MetadataImage, broker_id: int) -> bool:
    broker = image.cluster.brokers.get(broker_id)
    return broker is not None and broker.is_active


TestControllerInvariants = Cluster.TestCase
TestControllerInvariants.settings = settings(stateful_step_count=40, deadline=None)
