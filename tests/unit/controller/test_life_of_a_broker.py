"""What the controller holds of a broker from its first registration on: identity, state, and what it may change."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.controller.events import Answer, TimeAdvanced
from headrace.controller.machine import ControllerMachine
from headrace.core.error_code import ErrorCode
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.image import BrokerRegistration, MetadataImage
from headrace.metadata.versions import MINIMUM_METADATA_VERSION, partition_version, register_broker_version
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import Feature, Listener
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from tests.support.controller import CLUSTER_ID, ControllerBench, active, incarnation, registration
from tests.support.partitions import cluster, join, partition, topic


def states(image: MetadataImage) -> dict[int, str]:
    """The state of each broker, as the image has it."""
    return {broker_id: state(broker) for broker_id, broker in sorted(image.cluster.brokers.items())}


def state(broker: BrokerRegistration) -> str:
    """Inactive, active or stopping."""
    if broker.fenced:
        return "inactive"
    return "stopping" if broker.in_controlled_shutdown else "active"


def test_epochs_rise_over_restarts_and_failovers() -> None:
    """S0-05, S0-07, S0-33, inv:C8: 50 restarts under six controllers, one after the other; an epoch is the offset of its record."""
    leaders = [active()]
    epochs = []
    for number in range(50):
        bench = leaders[-1]
        epoch = bench.broker(1, incarnation_id=incarnation(number))
        epochs.append(epoch)
        assert isinstance(bench.written_at[epoch], RegisterBrokerRecord)
        bench.heartbeat(1, epoch, want_shut_down=True)  # the next process need not wait for a session
        if number % 10 == 9:
            successor = ControllerBench(image=bench.committed_image)
            successor.epoch = bench.epoch + 1
            successor.gain(next_offset=bench.next_offset + 1)
            leaders.append(successor)
    assert all(former < later for former, later in pairwise(epochs))
    assert len(leaders) == 6


def test_standbys_know_the_same_states() -> None:
    """S0-08, S0-11: a broker begins inactive, becomes active, is stopping while it is moved away; it is in the log, so that every replay says so."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    standby = ControllerBench()
    bench.ask(registration(3))
    bench.heartbeat(1, epochs[1], want_shut_down=True)
    standby.follow(bench)
    assert states(standby.committed_image) == {1: "stopping", 2: "active", 3: "inactive"}
    assert states(standby.committed_image) == states(bench.committed_image)


def test_an_inactive_broker_counts_as_absent() -> None:
    """S0-10, S0-09, C7: it leads nothing, is in no ISR that has another member, and is given nothing new."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2, 3))
    bench.heartbeat(1, epochs[1], want_fence=True)
    found = partition(bench)
    assert (found.leader, found.isr) == (2, (2, 3))
    topic(bench, *[(2, 3)] * 2, name="u")
    eligible = bench.machine._active.situation(None, 0).eligible()  # type: ignore[union-attr, arg-type]
    assert [eligible.is_active(each) for each in (1, 2, 3)] == [False, True, True]


def test_leaders_leave_a_stopping_broker_in_parts() -> None:
    """S0-13, S0-25, B-C22: 250 partitions, a hundred a turn; it may go only after the last, and until then nobody hears of another state."""
    bench, epochs = cluster(2)
    topic(bench, *[(1, 2)] * 250)
    bench.machine.slice_size = 100
    sizes = []
    before = len(bench.log)
    effects = bench.send(_heartbeat(bench, 1, epochs[1], want_shut_down=True)) + bench.commit()
    sizes.append(len(bench.log) - before)
    while not any(isinstance(each, Answer) for each in effects):
        before = len(bench.log)
        assert not bench.committed_image.cluster.brokers[1].in_controlled_shutdown
        effects = bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))) + bench.commit()
        sizes.append(len(bench.log) - before)
    assert sizes == [100, 100, 51]
    [answer] = [each.response for each in effects if isinstance(each, Answer)]
    assert answer.should_shut_down is False
    bench.heartbeat(2, epochs[2])
    assert bench.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down is True


def _heartbeat(bench: ControllerBench, broker_id: int, epoch: int, **changes: Any) -> Any:
    fields: dict[str, Any] = {"current_metadata_offset": bench.next_offset - 1} | changes
    return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, **fields)


def test_an_older_process_changes_nothing() -> None:
    """S0-23, S0-24, S0-31: its heartbeats get 77, write nothing, and do not keep the newer one's session; nor does one of an epoch that nobody has."""
    bench = active(broker_session_timeout_ms=9_000)
    old = bench.broker(1)
    bench.advance(9_001)
    bench.commit()
    new = bench.broker(1, incarnation_id=incarnation(9))
    before = len(bench.log)
    for _ in range(3):
        bench.advance(3_000)
        for epoch in (old, new + 1):
            answer = bench.heartbeat(1, epoch, want_fence=True)
            assert answer == BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert len(bench.log) == before
    bench.advance(1)
    bench.commit()
    assert bench.committed_image.cluster.brokers[1].fenced


def test_wishes_are_granted_to_the_right_process() -> None:
    """S0-22, S0-25, S0-26, S0-30: active once it has read its registration; then fenced; then let go."""
    bench = active()
    epoch = bench.broker(1, unfenced=False)
    granted = [
        bench.heartbeat(1, epoch, current_metadata_offset=epoch - 1),
        bench.heartbeat(1, epoch),
        bench.heartbeat(1, epoch, want_fence=True),
        bench.heartbeat(1, epoch),
        bench.heartbeat(1, epoch, want_shut_down=True),
    ]
    assert [(each.is_caught_up, each.is_fenced, each.should_shut_down) for each in granted] == [
        (False, True, False),
        (True, False, False),
        (True, True, False),
        (True, False, False),
        (True, True, True),
    ]


def test_what_a_registration_says_is_what_its_record_says() -> None:
    """S0-47, S0-49, S1-43, S1-45, S1-47, S1-49, B-C01: incarnation, end points up to port 65,535, supported levels, rack or none."""
    bench = active()
    asked = registration(
        1,
        incarnation_id=incarnation(7),
        rack="r1",
        listeners=(Listener(name="A", host="h", port=65_535, security_protocol=1),),
    )
    assert bench.ask(asked).error_code == 0
    record = bench.log[-1]
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_id, record.incarnation_id, record.rack) == (1, incarnation(7), "r1")
    assert [(each.name, each.host, each.port, each.security_protocol) for each in record.end_points] == [
        ("A", "h", 65_535, 1)
    ]
    assert {(each.name, each.min_supported_version, each.max_supported_version) for each in record.features} == {
        (each.name, each.min_supported_version, each.max_supported_version) for each in asked.features
    }
    assert bench.ask(registration(2)).error_code == 0
    assert bench.committed_image.cluster.brokers[2].rack is None


def test_a_registration_without_an_end_point_is_refused() -> None:
    """S0-32: as one with a negative id, a repeated name, no host, or port 0 (see the table of refused registrations)."""
    assert active().ask(registration(1, listeners=())).error_code == ErrorCode.INVALID_REQUEST


def test_a_fresh_registration_has_read_nothing_until_a_heartbeat_says_so() -> None:
    """S1-46: it counts as at offset -1, so that nobody who stops is let go while it may know nothing."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    bench.broker(3)
    heartbeats = bench.machine._active.heartbeats  # type: ignore[union-attr]
    bench.heartbeat(1, epochs[1])
    bench.heartbeat(2, epochs[2])
    assert (heartbeats.lowest_active_offset() or -1) > 0
    heartbeats.register(3, is_fenced=False, now_ms=bench.now_ms)
    assert heartbeats.lowest_active_offset() == -1


# What a leader may change


def change(bench: ControllerBench, *asked: tuple[str, int, tuple[int, ...]], broker_id: int = 1) -> Any:
    """Broker 1 asks for these ISRs: (topic, partition, members), each topic once for each run of it."""
    brokers = bench.committed_image.cluster.brokers
    topics: list[tuple[str, list[RequestPartitionData]]] = []
    for name, number, members in asked:
        states_ = tuple(BrokerState(broker_id=each, broker_epoch=brokers[each].broker_epoch) for each in members)
        now = bench.committed_image.topics.by_name[name].partitions.get(number)
        data = RequestPartitionData(
            partition_index=number,
            leader_epoch=0 if now is None else now.leader_epoch,
            partition_epoch=0 if now is None else now.partition_epoch,
            new_isr_with_epochs=states_,
        )
        if not topics or topics[-1][0] != name:
            topics.append((name, []))
        topics[-1][1].append(data)
    ids = {name: each.id for name, each in bench.committed_image.topics.by_name.items()}
    return AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=brokers[broker_id].broker_epoch,
        topics=tuple(RequestTopicData(topic_id=ids[name], partitions=tuple(data)) for name, data in topics),
    )


def test_each_change_of_an_isr_has_its_own_answer_in_the_order_of_the_request() -> None:
    """S0-38, S0-42, S0-40: partitions as they were asked for, good and bad ones mixed; the good ones are written."""
    bench, _ = cluster(3)
    topic(bench, *[(1, 2, 3)] * 4, name="b")
    topic(bench, *[(1, 2, 3)] * 2, name="a")
    request = change(
        bench, ("b", 3, (1, 2)), ("b", 0, ()), ("b", 9, (1,)), ("b", 1, (1,)), ("a", 1, (2,)), ("a", 0, (1, 3))
    )
    answer = bench.ask(request)
    ids = {each.id: name for name, each in bench.committed_image.topics.by_name.items()}
    found = [
        (ids[each.topic_id], row.partition_index, row.error_code) for each in answer.topics for row in each.partitions
    ]
    refused, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [("b", 3, 0), ("b", 0, refused), ("b", 9, unknown), ("b", 1, 0), ("a", 1, refused), ("a", 0, 0)]
    isr = {(name, n): partition(bench, n, name).isr for name, n in (("b", 3), ("b", 0), ("b", 1), ("a", 1), ("a", 0))}
    assert isr == {("b", 3): (1, 2), ("b", 0): (1, 2, 3), ("b", 1): (1,), ("a", 1): (1, 2, 3), ("a", 0): (1, 3)}


def test_a_change_of_an_isr_is_answered_when_it_is_committed() -> None:
    """S0-41: with the new epochs; without the commit there is no answer."""
    bench, _ = cluster(2)
    topic(bench, (1, 2))
    effects = bench.send(change(bench, ("t", 0, (1,))))
    assert not any(isinstance(each, Answer) for each in effects)
    [answer] = [each.response for each in bench.commit() if isinstance(each, Answer)]
    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.isr, row.partition_epoch) == (0, (1,), 1)


def test_a_process_whose_id_was_taken_changes_no_isr() -> None:
    """S0-37: 77 for the whole request, before any partition is looked at."""
    bench, _ = cluster(2)
    topic(bench, (1, 2))
    request = change(bench, ("t", 0, (1,)))
    bench.advance(9_001)
    bench.commit()
    bench.broker(1, incarnation_id=incarnation(9))
    answer = bench.ask(request)
    assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, ())


def test_only_the_controller_writes_an_isr() -> None:
    """S0-27: brokers ask by AlterPartition, from one place; records of partitions are made in the controller alone (a forecast asks a copy of it; the simulation makes some up)."""
    root = Path(headrace.__file__).parent
    sources = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py")}

    def makers(call: str) -> set[str]:
        return {name for name, text in sources.items() if call in text and not name.startswith(("wire/", "sim/"))}

    assert makers("AlterPartitionRequest(") == {"broker/isr_changes.py", "controller/forecast.py"}
    assert {name.partition("/")[0] for name in makers("PartitionChangeRecord(")} == {"controller"}


# Old levels


def at_level(level: int) -> ControllerBench:
    """A controller of a cluster that is at this level of metadata.version."""
    bench = ControllerBench()
    bench.machine = ControllerMachine(
        config=bench.config,
        cluster_id=CLUSTER_ID,
        rng=random.Random(5),
        bootstrap=read_bootstrap_records(bootstrap_records(metadata_version=level)),
    )
    bench.machine.most_at_once = 10_000
    bench.gain()
    return bench


@pytest.mark.parametrize("level", [MINIMUM_METADATA_VERSION, 13, 19])
def test_records_are_in_the_versions_of_the_level(level: int) -> None:
    """S0-46, B-U03: heartbeats work at every level, and nothing newer is written."""
    bench = at_level(level)
    epochs = {each: bench.broker(each) for each in (1, 2)}
    topic(bench, (1, 2))
    bench.heartbeat(1, epochs[1], want_shut_down=True)
    highest: dict[int, int] = {}
    for data in bench.written_bytes.values():
        _, api_key, version = _frame(data)
        highest[api_key] = max(highest.get(api_key, 0), version)
    assert highest[0] == register_broker_version(level)
    assert highest[3] == highest[5] == partition_version(level)
    assert highest[17] <= 1


def _frame(data: bytes) -> tuple[int, int, int]:
    """Frame version, type and version of a record, each a varint of one byte."""
    return data[0], data[1], data[2]


@pytest.mark.parametrize(("level", "bumps"), [(MINIMUM_METADATA_VERSION, True), (11, True), (12, False), (19, False)])
def test_before_3_6_a_shrinking_isr_begins_a_leader_epoch(level: int, *, bumps: bool) -> None:
    """S3-04, KAFKA-15021: brokers of then must fence who left by that; a growing one, and any change of who is in sync from 3.6-IV0 (12) on, keeps the epoch."""
    bench = at_level(level)
    epochs = {each: bench.broker(each) for each in (1, 2)}
    topic(bench, (1, 2))
    found = []
    for isr in ((1,), (1, 2)):
        join(bench, 1, epochs, isr)
        found.append((partition(bench).leader, partition(bench).leader_epoch, partition(bench).partition_epoch))
    assert found == [(1, int(bumps), 1), (1, int(bumps), 2)]


def test_a_silent_broker_of_the_lowest_level_is_fenced_like_any_other() -> None:
    """S0-48: nobody is active without heartbeats."""
    bench = at_level(MINIMUM_METADATA_VERSION)
    only = Feature(name="metadata.version", min_supported_version=1, max_supported_version=MINIMUM_METADATA_VERSION)
    epoch = bench.broker(1, features=(only,), log_dirs=())
    bench.broker(2)
    topic(bench, (1, 2))
    assert states(bench.committed_image)[1] == "active"
    bench.advance(5_000)
    bench.heartbeat(2, bench.committed_image.cluster.brokers[2].broker_epoch)
    bench.advance(4_001)
    bench.commit()
    assert states(bench.committed_image) == {1: "inactive", 2: "active"}
    assert partition(bench).leader == 2
    assert isinstance(bench.log[-1], BrokerRegistrationChangeRecord)
    assert isinstance(bench.log[-2], PartitionChangeRecord)
    assert bench.heartbeat(1, epoch).is_fenced is False
