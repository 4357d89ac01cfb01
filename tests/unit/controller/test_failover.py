"""What changes hands between controllers, and what a very large decision looks like from outside."""

from __future__ import annotations

import pytest

from headrace.controller.derived import Derived
from headrace.controller.events import (
    Answer,
    AppendRecords,
    BrokerUnreachable,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestCause,
    Resign,
    TimeAdvanced,
)
from headrace.controller.heartbeats import BrokerControlState
from headrace.controller.moving import SLICE
from headrace.core.error_code import ErrorCode
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import NO_LEADER, MetadataImage, ScramCredential
from headrace.metadata.replay import ReplayError
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from tests.support.controller import ControllerBench, active, registration
from tests.support.partitions import cluster, fence, join, partition, topic

SESSION_MS = 9_000


def new(name: str, partitions: int = 1, factor: int = 1) -> CreateTopicsRequest:
    """One topic."""
    return CreateTopicsRequest(
        topics=(CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor),), timeout_ms=1
    )


def unreachable(bench: ControllerBench, broker_id: int, epoch: int) -> list[object]:
    """The host of a broker refuses connections."""
    event = BrokerUnreachable(broker_id=broker_id, broker_epoch=epoch, now_ms=bench.now_ms)
    return list(bench.take(bench.machine.step(event)))


def same(found: Derived, image: MetadataImage) -> bool:
    """Whether the indexes are those that a look at everything makes."""
    fresh = Derived.of(image)
    keys = range(-3, 6)
    return (
        found.image == image
        and all(found.index.topics_with(key) == fresh.index.topics_with(key) for key in keys)
        and all(found.index.leaderships(key) == fresh.index.leaderships(key) for key in keys)
        and all(found.names.colliding(name) == fresh.names.colliding(name) for name in ("a.b", "a_b", "t"))
    )


def test_a_standby_becomes_active_without_a_look_at_all_partitions() -> None:
    """S2-31, B-C21: it followed the log, so its indexes are those of the image it is told to lead."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2), (2, 3))
    bench.ask(new("a.b", 2, 3))
    standby = ControllerBench()
    standby.follow(bench)
    fence(bench, 1, epochs[1])
    standby.follow(bench)
    derived = standby.machine._derived
    assert derived is not None
    assert same(derived, standby.committed_image)
    standby.epoch = 2
    standby.gain(next_offset=bench.next_offset)
    assert standby.machine._derived is derived
    assert standby.machine.image == bench.machine.image


def test_a_standby_that_was_told_no_delta_looks_at_everything_once() -> None:
    """B-C21: the image is what counts; the indexes are derived from it."""
    bench, _ = cluster(3)
    topic(bench, (1, 2))
    standby = ControllerBench(image=bench.committed_image)
    standby.machine.step(RecordsCommitted(image=bench.committed_image, upto=9, now_ms=0))
    standby.gain(next_offset=bench.next_offset)
    assert standby.machine._derived is not None
    assert same(standby.machine._derived, bench.committed_image)


def test_what_was_not_committed_is_taken_back() -> None:
    """B-C23, S2-27, S2-32, inv:C3: memory is that of the last committed record again; who waited is sent away."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2), (2, 3))
    committed = bench.committed_image
    bench.send(new("a.b", 3, 3))
    bench.send(UnregisterBrokerRequest(broker_id=3))
    unreachable(bench, 2, epochs[2])
    assert bench.machine.image != committed
    answers = [each for each in bench.lose() if isinstance(each, Answer)]
    assert [each.response.error_code for each in answers if hasattr(each.response, "error_code")] == [41]
    assert len(answers) == 2
    assert bench.machine._derived is not None
    assert same(bench.machine._derived, committed)
    assert not bench.machine.is_active
    assert bench.machine.next_deadline_ms() is None
    bench.epoch += 1
    bench.gain(next_offset=bench.next_offset + 1)
    assert bench.machine.image == committed
    assert bench.ask(new("a.b", 3, 3)).topics[0].error_code == 0


def test_a_new_controller_gives_every_broker_a_full_session() -> None:
    """S2-25, inv:C14, defect:K25: what was not heard before counts for nothing."""
    bench, epochs = cluster(2)
    bench.advance(SESSION_MS - 1)
    successor = ControllerBench(image=bench.committed_image)
    successor.now_ms = bench.now_ms
    successor.gain(next_offset=bench.next_offset)
    successor.advance(SESSION_MS)
    assert [broker.fenced for broker in successor.machine.image.cluster.brokers.values()] == [False, False]
    successor.heartbeat(1, epochs[1])
    successor.advance(1)
    successor.commit()
    assert successor.committed_image.cluster.brokers[2].fenced is True
    assert successor.committed_image.cluster.brokers[1].fenced is False


def test_a_stopping_broker_is_still_stopping_for_the_next_controller() -> None:
    """S2-19, S2-20, inv:C15: it is let go when the others have read what this controller found."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    assert not bench.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
    successor = ControllerBench(image=bench.committed_image)
    successor.gain(next_offset=bench.next_offset)
    assert not successor.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
    successor.heartbeat(2, epochs[2], current_metadata_offset=bench.next_offset - 2)
    assert not successor.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
    successor.heartbeat(2, epochs[2], current_metadata_offset=bench.next_offset - 1)
    assert successor.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down


def test_a_broker_whose_host_refuses_is_fenced_at_once() -> None:
    """design.md "Failure detection", inv:C14: only that incarnation, once, and a heartbeat brings it back."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    assert unreachable(bench, 1, epochs[1] - 1) == []
    [append] = unreachable(bench, 1, epochs[1])
    assert isinstance(append, AppendRecords)
    bench.commit()
    assert (partition(bench).leader, partition(bench).isr) == (2, (2,))
    assert bench.machine.image.cluster.brokers[1].fenced
    assert unreachable(bench, 1, epochs[1]) == []
    assert bench.heartbeat(1, epochs[1]).is_fenced is False
    assert bench.machine.statistics.fenced_by_refusal == 1


def test_fencing_on_refusal_can_be_turned_off() -> None:
    """`headrace.fence.unreachable.brokers`: then the session decides alone, as in Kafka."""
    bench, epochs = cluster(2, headrace_fence_unreachable_brokers=False)
    assert unreachable(bench, 1, epochs[1]) == []
    assert ControllerBench().machine.step(BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=0)) == []


def test_a_broker_is_unregistered() -> None:
    """S2-04, B-C02: out of every ISR, then the record; its session does not hold others back (inv:C15)."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2))
    topic(bench, (1,), name="only")
    records = bench.written(UnregisterBrokerRequest(broker_id=1))
    assert [type(each) for each in records] == [PartitionChangeRecord, PartitionChangeRecord, UnregisterBrokerRecord]
    assert (partition(bench).leader, partition(bench, name="only").leader) == (2, NO_LEADER)
    assert bench.ask(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    refused = bench.heartbeat(1, epochs[1])
    assert refused.error_code == ErrorCode.STALE_BROKER_EPOCH
    bench.heartbeat(2, epochs[2], want_shut_down=True)
    bench.heartbeat(3, epochs[3])
    assert bench.heartbeat(2, epochs[2], want_shut_down=True).should_shut_down


# Decisions about many partitions


def sliced(size: int, topics: int = 5) -> tuple[ControllerBench, dict[int, int]]:
    """Three brokers; broker 1 leads `topics` partitions; a step looks at `size` of them."""
    bench, epochs = cluster(3)
    topic(bench, *[(1, 2)] * topics)
    bench.machine.slice_size = size
    return bench, epochs


def test_a_long_fence_is_split() -> None:
    """B-C22, B-C24: one slice a step, the fence itself last; time is due at once until it is done."""
    bench, epochs = sliced(2)
    sizes = [len(each.records) for each in unreachable(bench, 1, epochs[1]) if isinstance(each, AppendRecords)]
    while bench.machine.next_deadline_ms() == bench.now_ms:
        assert not bench.machine.image.cluster.brokers[1].fenced
        effects = bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
        sizes += [len(each.records) for each in effects if isinstance(each, AppendRecords)]
    assert sizes == [2, 2, 2]
    assert bench.machine.image.cluster.brokers[1].fenced
    assert {each.leader for each in bench.machine.image.topics.by_name["t"].partitions.values()} == {2}
    assert isinstance(bench.pending[-1], BrokerRegistrationChangeRecord)


def test_a_usual_fence_is_one_batch() -> None:
    """B-C22, B-C24, defect:K27: up to 10,000 records go together."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2), (1, 2), (2, 1))
    [append] = unreachable(bench, 1, epochs[1])
    assert isinstance(append, AppendRecords)
    assert len(append.records) == 4
    assert SLICE + 10 <= 10_000


def test_a_broker_that_is_leaving_gets_nothing_new() -> None:
    """inv:C7, inv:C9, S2-12: what comes in between sees it as gone: no unfence, no ISR, no new replica, no registration."""
    bench, epochs = sliced(1)
    unreachable(bench, 1, epochs[1])
    assert bench.machine.image.cluster.brokers[1].fenced is False
    assert bench.heartbeat(1, epochs[1]).is_fenced is False
    assert join(bench, 2, epochs, (2, 1)).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert bench.ask(new("one", 4, 1)).topics[0].error_code == 0
    assert 1 not in {each.leader for each in bench.machine.image.topics.by_name["one"].partitions.values()}
    again = bench.ask(registration(1, incarnation_id=registration(9).incarnation_id))
    assert again.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert bench.ask(UnregisterBrokerRequest(broker_id=1)).error_code == ErrorCode.REQUEST_TIMED_OUT
    bench.advance(4_000)
    bench.commit()
    assert bench.heartbeat(1, epochs[1]).is_fenced is False


def test_a_late_heartbeat_does_not_unfence_a_broker_that_is_being_fenced() -> None:
    """inv:C14, S2-30: it shows that the broker lives, but the fence goes on; told is what the committed image says."""
    bench, epochs = sliced(1)
    bench.now_ms += 5_000
    unreachable(bench, 1, epochs[1])
    late = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset - 1)
    event = RequestArrived(
        token=999,
        request=late,
        cause=RequestCause(api_version=1, listener="CONTROLLER"),
        deadline_ms=bench.now_ms + 5_000,
        received_ms=bench.now_ms - 4_000,
        now_ms=bench.now_ms,
    )
    [refusal] = bench.machine.step(event)
    assert isinstance(refusal, Answer)
    assert refusal.response.error_code == ErrorCode.REQUEST_TIMED_OUT
    term = bench.machine._active
    assert term is not None
    assert term.heartbeats.state(1) is BrokerControlState.FENCED
    assert bench.heartbeat(1, epochs[1]).is_fenced is bench.committed_image.cluster.brokers[1].fenced is False
    assert term.heartbeats.state(1) is BrokerControlState.FENCED
    while bench.machine.next_deadline_ms() == bench.now_ms:
        bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
        bench.commit()
    assert bench.committed_image.cluster.brokers[1].fenced


def test_what_a_heartbeat_is_told_is_the_committed_image_though_more_was_decided() -> None:
    """inv:C14: the fence that was decided behind a heartbeat is committed together with what that waits for."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    bench.send(new("held.back", 1, 1))
    alive = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset - 1)
    assert [each for each in bench.send(alive) if isinstance(each, Answer)] == []
    unreachable(bench, 1, epochs[1])
    told = [
        each.response.is_fenced
        for each in bench.commit()
        if isinstance(each, Answer) and isinstance(each.response, BrokerHeartbeatResponse)
    ]
    assert told == [bench.committed_image.cluster.brokers[1].fenced] == [True]


def test_a_fault_in_one_fence_ends_the_term_and_nothing_is_decided_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-12, S3-03, B-C23: two sessions run out at once, the first fence makes no sense: the controller resigns, once, and lives."""
    bench, _ = cluster(3)
    topic(bench, (1, 2), (2, 1))

    def broken(*_: object) -> MetadataImage:
        raise ReplayError("planted")

    monkeypatch.setattr("headrace.controller.term.replay_all", broken)
    bench.now_ms += SESSION_MS + 1
    effects = bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))
    assert [type(each) for each in effects] == [Resign]
    assert (bench.machine.is_active, bench.machine.statistics.faults) == (False, 1)


def test_an_answer_waits_for_the_last_slice() -> None:
    """inv:C3, inv:C8: the epoch of a registration is the offset of its record, wherever the slices end."""
    bench, epochs = sliced(2)
    bench.advance(SESSION_MS)
    for broker_id in (2, 3):
        bench.heartbeat(broker_id, epochs[broker_id])
    topic(bench, *[(2, 3)] * 5, name="more")
    bench.now_ms += 1
    effects = bench.send(UnregisterBrokerRequest(broker_id=2))
    answers: list[Answer] = []
    for _ in range(20):
        effects += bench.commit()
        answers = [each for each in effects if isinstance(each, Answer)]
        if answers:
            break
        effects += bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert [each.response.error_code for each in answers] == [0]
    assert 2 not in bench.committed_image.cluster.brokers


def test_leadership_lost_in_the_middle_leaves_a_broker_half_moved() -> None:
    """B-C24, inv:C4, inv:C7: each committed slice is a right state; the next controller finds the broker unfenced."""
    bench, epochs = sliced(2)
    unreachable(bench, 1, epochs[1])
    bench.commit()
    bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    bench.lose()
    leaders = [each.leader for _, each in sorted(bench.committed_image.topics.by_name["t"].partitions.items())]
    assert leaders == [2, 2, 1, 1, 1]
    assert bench.committed_image.cluster.brokers[1].fenced is False
    bench.epoch += 1
    bench.gain(next_offset=bench.next_offset + 1)
    unreachable(bench, 1, epochs[1])
    for _ in range(5):
        bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert bench.machine.image.cluster.brokers[1].fenced is True


def test_several_brokers_go_one_after_the_other() -> None:
    """B-C24: each fence is decided on what the one before left; nobody is elected who is on the list."""
    bench, epochs = sliced(2)
    unreachable(bench, 1, epochs[1])
    unreachable(bench, 2, epochs[2])
    bench.send(BrokerHeartbeatRequest(broker_id=3, broker_epoch=epochs[3], current_metadata_offset=99))
    for _ in range(12):
        bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    image = bench.machine.image
    assert [image.cluster.brokers[each].fenced for each in (1, 2, 3)] == [True, True, False]
    assert {each.leader for each in image.topics.by_name["t"].partitions.values()} == {NO_LEADER}


def test_a_term_and_its_successor_share_no_state() -> None:
    """S2-32: the machine of a deposed controller hears of commits as a standby does."""
    bench, _ = cluster(2)
    bench.send(new("gone"))
    bench.machine.step(LeadershipEnded(image=bench.committed_image, now_ms=bench.now_ms))
    delta = MetadataDelta(previous=bench.committed_image, image=bench.committed_image)
    event = RecordsCommitted(image=bench.committed_image, upto=bench.next_offset, delta=delta, now_ms=bench.now_ms)
    assert bench.machine.step(event) == []
    gained = LeadershipGained(epoch=5, next_offset=99, image=bench.committed_image, now_ms=bench.now_ms)
    assert bench.machine.step(gained) == []
    assert "gone" not in bench.machine.image.topics.by_name


def test_large_bootstrap_records_are_one_transaction() -> None:
    """B-S10, B-C18, inv:C4: more than a batch holds is written in several, visible together."""
    users = [
        ScramCredential(
            name=f"user-{number}", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4_096
        )
        for number in range(30)
    ]
    bench = ControllerBench(internal_metadata_max_batch_size_in_bytes=400)
    bench.machine._bootstrap = read_bootstrap_records(bootstrap_records(scram=users))
    event = LeadershipGained(epoch=1, next_offset=1, image=bench.committed_image, now_ms=bench.now_ms)
    bench.start_offset = 1
    effects = bench.take(bench.machine.step(event))
    assert len([each for each in effects if isinstance(each, AppendRecords)]) > 1
    assert type(bench.pending[0]).__name__ == "BeginTransactionRecord"
    assert type(bench.pending[-1]).__name__ == "EndTransactionRecord"
    assert len(bench.committed_image.scram) == 0
    bench.commit()
    assert len(bench.committed_image.scram) == 30
    assert active().machine.is_active


def test_a_registration_that_fits_no_batch_is_refused_before_anything_moves() -> None:
    """B-C22: the former incarnation keeps its places, and the controller its leadership."""
    bench, _ = cluster(2, internal_metadata_max_batch_size_in_bytes=4_000)
    topic(bench, (1, 2))
    bench.advance(SESSION_MS + 500)
    bench.commit()
    before = bench.machine.image
    huge = registration(1, incarnation_id=registration(9).incarnation_id, rack="r" * 3_000)
    assert bench.ask(huge).error_code == ErrorCode.POLICY_VIOLATION
    assert bench.machine.image is before
    assert bench.machine.is_active


def test_a_broker_that_is_fenced_while_it_stops_is_not_stopping_when_it_is_back() -> None:
    """B-K05, inv:C15: its moves go on in slices, its session runs out in between; then it serves like any other."""
    bench, epochs = sliced(1)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset, want_shut_down=True
    )
    bench.send(request)
    unreachable(bench, 1, epochs[1])
    bench.now_ms += SESSION_MS + 1
    for broker_id in (2, 3):
        bench.heartbeat(broker_id, epochs[broker_id])
    for _ in range(20):
        bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    bench.commit()
    assert bench.machine.image.cluster.brokers[1].fenced
    active_term = bench.machine._active
    assert active_term is not None
    assert active_term.heartbeats.state(1).is_fenced


def test_a_new_controller_elects_what_its_predecessor_had_no_time_for() -> None:
    """inv:CL2, B-C25: a broker was unfenced, and the controller went before the slice that let it lead."""
    bench, epochs = cluster(2)
    topic(bench, (1,), (1,), (1,))
    fence(bench, 1, epochs[1])
    bench.machine.slice_size = 1
    bench.send(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset))
    bench.commit()
    bench.lose()
    leaders = [each.leader for _, each in sorted(bench.committed_image.topics.by_name["t"].partitions.items())]
    assert leaders == [1, NO_LEADER, NO_LEADER]
    bench.epoch += 1
    bench.gain(next_offset=bench.next_offset + 1)
    assert bench.machine.next_deadline_ms() == bench.now_ms
    for _ in range(4):
        bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert {each.leader for each in bench.machine.image.topics.by_name["t"].partitions.values()} == {1}


def test_nothing_waits_at_a_controller_that_lost_its_office() -> None:
    """S4-62: the slices of a fence that were to come are gone with the leadership, and are counted no more."""
    bench, epochs = sliced(2)
    unreachable(bench, 1, epochs[1])
    assert bench.machine.statistics.waiting == 1
    bench.lose()
    assert bench.machine.statistics.waiting == 0


def test_a_name_that_was_deleted_and_made_again_in_vain_is_still_taken() -> None:
    """B-C23, B26: the deletion and the creation are taken back together."""
    bench, _ = cluster(1)
    assert bench.ask(new("a.b")).topics[0].error_code == 0
    bench.send(DeleteTopicsRequest(topics=(DeleteTopicState(name="a.b"),)))
    bench.send(new("a.b"))
    bench.lose()
    assert bench.machine._derived is not None
    assert same(bench.machine._derived, bench.committed_image)
    bench.epoch += 1
    bench.gain(next_offset=bench.next_offset + 1)
    assert bench.ask(new("a_b")).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_refused_registration_begins_no_session() -> None:
    """inv:C14: the former incarnation is fenced when its session has run out, whatever was refused in between."""
    bench, _ = cluster(2, internal_metadata_max_batch_size_in_bytes=4_000)
    bench.now_ms += SESSION_MS + 1
    huge = registration(1, incarnation_id=registration(9).incarnation_id, rack="r" * 3_000)
    assert bench.ask(huge).error_code == ErrorCode.POLICY_VIOLATION
    bench.advance(500)
    bench.commit()
    assert bench.committed_image.cluster.brokers[1].fenced
