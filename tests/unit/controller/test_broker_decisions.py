"""Who may register, and what follows from heartbeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from headrace.controller.brokers import MOST_REGISTRATIONS
from headrace.controller.events import Answer, BrokerUnreachable, TimeAdvanced
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ONE_UUID, Uuid
from headrace.metadata.image import NO_LEADER
from headrace.metadata.replay import replay_all
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationResponse, Feature, Listener
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.controller_registration import Listener as ControllerListener
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from tests.support.controller import ControllerBench, active, directory, incarnation, registration

LOST = Uuid(b"L" * 16)


def topic(bench: ControllerBench, *replicas: tuple[int, ...], name: str = "t") -> Uuid:
    """A topic with these replicas a partition."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=each) for number, each in enumerate(replicas)
    )
    asked = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    answer = bench.ask(CreateTopicsRequest(topics=(asked,)))
    assert answer.topics[0].error_code == 0
    found: Uuid = answer.topics[0].topic_id
    return found


def shape(bench: ControllerBench, name: str = "t") -> list[tuple[int, tuple[int, ...], int]]:
    """(leader, ISR, leader epoch) of each partition."""
    partitions = bench.committed_image.topics.by_name[name].partitions
    return [(partitions[n].leader, partitions[n].isr, partitions[n].leader_epoch) for n in sorted(partitions)]


def test_a_registration_is_a_record_and_its_epoch_is_the_records_offset() -> None:
    """S0-11, S1-53, B-C01, C8: acknowledged when committed; epochs are unique and rise."""
    bench = active()
    offset = bench.next_offset
    assert bench.ask(registration(1)) == BrokerRegistrationResponse(broker_epoch=offset)
    record = bench.log[-1]
    assert isinstance(record, RegisterBrokerRecord)
    assert (record.broker_epoch, record.fenced, record.log_dirs) == (offset, True, (directory(1),))
    assert bench.ask(registration(2)).broker_epoch == offset + 1


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"cluster_id": "AAAAAAAAAAAAAAAAAAAAAg"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"is_migrating_zk_broker": True}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ({"log_dirs": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (ONE_UUID,)}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (directory(1), directory(1))}, ErrorCode.INVALID_REGISTRATION),
        ({"log_dirs": (directory(7),)}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (Listener(name="A", host="h", port=1),) * 2}, ErrorCode.INVALID_REQUEST),
        ({"listeners": (Listener(name="A", host="", port=1),)}, ErrorCode.INVALID_REQUEST),
        ({"listeners": (Listener(name="A", host="h", port=0),)}, ErrorCode.INVALID_REQUEST),
        ({"broker_id": -1}, ErrorCode.INVALID_REQUEST),
        ({"features": ()}, ErrorCode.INVALID_REGISTRATION),
        ({"rack": "r" * 8_192}, ErrorCode.INVALID_REGISTRATION),
        ({"listeners": (Listener(name="A", host="h" * 8_192, port=1),)}, ErrorCode.INVALID_REGISTRATION),
        (
            {"features": (Feature(name="metadata.version", min_supported_version=7, max_supported_version=29),)},
            ErrorCode.UNSUPPORTED_VERSION,
        ),
    ],
)
def test_registrations_that_are_refused(changes: dict[str, Any], error: ErrorCode) -> None:
    """S0-32, S1-28, S1-44, S1-47, S1-48, S1-50, B-U03: with epoch -1, and nothing written (S1-51)."""
    bench = active()
    bench.broker(7)
    before = len(bench.log)
    answer = bench.ask(registration(1, **changes))
    assert answer == BrokerRegistrationResponse(error_code=error, broker_epoch=-1)
    assert len(bench.log) == before


def test_a_broker_that_cannot_follow_this_quorum_is_refused() -> None:
    """C24, KIP-853: kraft.version is in the quorum's own records and counts like any feature; who does not name it has it at 0."""
    without = tuple(each for each in registration(1).features if each.name != "kraft.version")
    assert active().ask(registration(1, features=without)).error_code == ErrorCode.NONE
    bench = active(kraft_version=1)
    low = Feature(name="kraft.version", min_supported_version=0, max_supported_version=0)
    for features in (without, (*without, low)):
        assert bench.ask(registration(1, features=features)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert bench.ask(registration(1)).error_code == ErrorCode.NONE


def test_nodes_that_nobody_knows_register_up_to_a_number() -> None:
    """promise:PR8: those that are registered may come again; whoever is unregistered makes room."""

    def asked(broker_id: int) -> int:
        own = Uuid(broker_id.to_bytes(16, "little"))
        answer = bench.ask(replace(registration(1), broker_id=broker_id, incarnation_id=own, log_dirs=(own,)))
        return ErrorCode(answer.error_code)

    bench = active()
    first, after = 1_000, 1_000 + MOST_REGISTRATIONS
    assert asked(first) == ErrorCode.NONE
    bench = with_brokers_like_the_last(bench, range(first + 1, after - 1))
    assert asked(after - 1) == ErrorCode.NONE
    assert len(bench.committed_image.cluster.brokers) == MOST_REGISTRATIONS
    assert asked(after) == ErrorCode.POLICY_VIOLATION
    assert asked(first) == ErrorCode.NONE
    assert bench.ask(UnregisterBrokerRequest(broker_id=first)).error_code == 0
    assert asked(after) == ErrorCode.NONE


def with_brokers_like_the_last(bench: ControllerBench, broker_ids: Iterable[int]) -> ControllerBench:
    """The next active controller, after these registered as the last one did."""
    (*_, record) = bench.log
    records, offset = [], bench.next_offset
    for offset, broker_id in enumerate(broker_ids, start=bench.next_offset):
        own = Uuid(broker_id.to_bytes(16, "little"))
        changes = {"broker_id": broker_id, "incarnation_id": own, "log_dirs": (own,), "broker_epoch": offset}
        records.append(replace(record, **changes))
    successor = ControllerBench(image=replay_all(bench.committed_image, records))
    successor.gain(next_offset=offset + 1)
    return successor


def test_controllers_that_nobody_knows_register_up_to_a_number() -> None:
    """promise:PR8: and each says so much of itself and no more."""
    bench = active()
    free = MOST_REGISTRATIONS - len(bench.committed_image.cluster.controllers)
    asked = [ControllerRegistrationRequest(controller_id=100 + number) for number in range(free + 1)]
    assert [bench.ask(each).error_code for each in asked] == [0] * free + [ErrorCode.POLICY_VIOLATION]
    assert bench.ask(asked[0]).error_code == 0
    long = ControllerListener(name="C", host="h" * 8_192, port=1)
    answer = bench.ask(ControllerRegistrationRequest(controller_id=100, listeners=(long,)))
    assert answer.error_code == ErrorCode.INVALID_REGISTRATION
    assert "more than 8192: shorten its hosts, listener names or rack" in answer.error_message


def test_an_id_in_use_is_refused_while_its_session_lives() -> None:
    """S1-29: holder unfenced and heard from: DUPLICATE_BROKER_REGISTRATION(101); C8: one live incarnation an id."""
    bench = active()
    bench.broker(1)
    answer = bench.ask(registration(1, incarnation_id=incarnation(9)))
    assert answer.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


def test_the_broker_of_the_controllers_own_process_gets_in_at_once() -> None:
    """S1-29: it holds the locks of its directories, so the incarnation before it is dead; it leaves every ISR first (C10)."""
    bench = active()
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2))
    bench.listener = ""
    answer = bench.ask(registration(1, incarnation_id=incarnation(9)))
    assert answer.error_code == 0
    assert answer.broker_epoch == bench.next_offset - 1
    assert shape(bench) == [(2, (2,), 1)]


def test_the_same_incarnation_may_register_again_and_keeps_its_epoch() -> None:
    """S1-29: and whether it is fenced."""
    bench = active()
    epoch = bench.broker(1)
    assert bench.ask(registration(1, rack="r")) == BrokerRegistrationResponse(broker_epoch=epoch)
    broker = bench.committed_image.cluster.brokers[1]
    assert (broker.rack, broker.fenced) == ("r", False)


def test_a_fenced_holder_that_was_never_heard_from_gives_way() -> None:
    """S1-29: as in Kafka, whose sessions begin with the first heartbeat."""
    bench = active()
    epoch = bench.broker(1, unfenced=False)
    again = bench.ask(registration(1, incarnation_id=incarnation(9)))
    assert again.error_code == 0
    assert again.broker_epoch > epoch


@pytest.mark.parametrize("wants", [{"current_metadata_offset": 0}, {"want_fence": True}])
def test_a_fenced_holder_keeps_its_id_while_it_is_heard_from(wants: dict[str, Any]) -> None:
    """S1-29: a second process that was started by mistake took it, and each took it from the other from then on."""
    bench = active(broker_session_timeout_ms=9_000)
    epoch = bench.broker(1, unfenced=False)
    assert bench.heartbeat(1, epoch, **wants).is_fenced
    other = registration(1, incarnation_id=incarnation(9))
    bench.advance(9_000)
    assert bench.ask(other).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    bench.advance(1)
    assert bench.ask(other).error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_unfenced", [True, False])
def test_a_holder_that_was_told_to_end_gives_way(*, is_unfenced: bool) -> None:
    """S1-29, S1-58: a broker that is stopped and started need not wait for its session, as it must in Kafka."""
    bench = active()
    epoch = bench.broker(1, unfenced=is_unfenced)
    assert bench.heartbeat(1, epoch, want_shut_down=True).should_shut_down
    assert bench.ask(registration(1, incarnation_id=incarnation(9))).error_code == ErrorCode.NONE


@pytest.mark.parametrize("is_unfenced", [True, False])
def test_a_holder_that_is_known_to_be_gone_gives_way(*, is_unfenced: bool) -> None:
    """S1-29, C14: its host refuses connections; an older incarnation's refusal says nothing of this one."""
    bench = active()
    epoch = bench.broker(1, unfenced=is_unfenced)
    if not is_unfenced:
        bench.heartbeat(1, epoch, want_fence=True)
    other = registration(1, incarnation_id=incarnation(9))
    for seen in (epoch - 1, epoch):
        assert bench.ask(other).error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        bench.take(bench.machine.step(BrokerUnreachable(broker_id=1, broker_epoch=seen, now_ms=bench.now_ms)))
        bench.commit()
    assert bench.ask(other).error_code == ErrorCode.NONE


def test_an_expired_holder_gives_way() -> None:
    """S1-29: after kill -9 the same id gets in once the old session has expired."""
    bench = active(broker_session_timeout_ms=9_000)
    epoch = bench.broker(1)
    bench.advance(9_000)
    assert bench.ask(registration(1, incarnation_id=incarnation(9))).error_code != 0
    bench.advance(1)
    bench.commit()
    assert bench.ask(registration(1, incarnation_id=incarnation(9))).broker_epoch > epoch


def test_a_new_incarnation_is_out_of_every_isr_before_it_can_lead() -> None:
    """C10, S1-29: the epoch is the offset of the registration, behind the records that take it out."""
    bench = active()
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2))
    bench.advance(9_001)
    bench.commit()
    offset = bench.next_offset
    answer = bench.ask(registration(1, incarnation_id=incarnation(9)))
    assert bench.log[answer.broker_epoch - bench.start_offset].SCHEMA.api_key == 0
    assert answer.broker_epoch >= offset


def test_unfencing_waits_until_the_broker_has_read_its_registration() -> None:
    """S1-55, S1-56, S1-60, C16: an offset equal to the record's counts as caught up, one less does not."""
    bench = active()
    epoch = bench.broker(1, unfenced=False)
    assert bench.heartbeat(1, epoch, current_metadata_offset=epoch - 1) == BrokerHeartbeatResponse(
        is_caught_up=False, is_fenced=True
    )
    assert bench.heartbeat(1, epoch, current_metadata_offset=epoch, want_fence=True) == BrokerHeartbeatResponse(
        is_caught_up=True, is_fenced=True
    )
    assert bench.heartbeat(1, epoch, current_metadata_offset=epoch) == BrokerHeartbeatResponse(
        is_caught_up=True, is_fenced=False
    )
    assert bench.log[-1] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, fenced=-1)


@pytest.mark.parametrize(("broker_id", "shift"), [(2, 0), (1, -1), (1, 1)])
def test_heartbeats_of_unknown_ids_and_epochs_are_stale(broker_id: int, shift: int) -> None:
    """S0-31, S1-61, C8: STALE_BROKER_EPOCH(77)."""
    bench = active()
    epoch = bench.broker(1)
    answer = bench.heartbeat(broker_id, epoch + shift)
    assert answer == BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)


def test_a_silent_broker_is_fenced_and_out_of_every_isr() -> None:
    """B-C24, C7, C14: new leaders first, then the fence; the last member of an ISR stays in it without leading."""
    bench = active()
    bench.broker(1)
    second = bench.broker(2)
    topic(bench, (1, 2), (2, 1))
    topic(bench, (1,), name="alone")
    bench.advance(5_000)
    bench.heartbeat(2, second)
    bench.advance(4_001)
    before = len(bench.log)
    bench.commit()
    assert [type(record) for record in bench.log[before:]] == [
        PartitionChangeRecord,
        PartitionChangeRecord,
        PartitionChangeRecord,
        BrokerRegistrationChangeRecord,
    ]
    assert shape(bench) == [(2, (2,), 1), (2, (2,), 0)]
    assert shape(bench, "alone") == [(NO_LEADER, (1,), 1)]
    assert bench.committed_image.cluster.brokers[1].fenced
    assert not bench.committed_image.cluster.brokers[2].fenced


def test_a_partition_without_a_leader_comes_back_with_its_last_member() -> None:
    """B-C25: unfencing elects it where nobody leads."""
    bench = active()
    epoch = bench.broker(1)
    topic(bench, (1,))
    bench.advance(9_001)
    bench.commit()
    assert shape(bench) == [(NO_LEADER, (1,), 1)]
    assert bench.heartbeat(1, epoch).is_fenced is False
    assert shape(bench) == [(1, (1,), 2)]


def test_a_fence_with_very_many_partitions_is_written_in_parts() -> None:
    """B-C22: a long fence result is split; no batch has more than 10,000 records."""
    bench = active()
    bench.broker(1)
    bench.broker(2)
    for number in range(3):
        topic(bench, *[(1, 2)] * 4_000, name=f"t{number}")
    effects = bench.advance(9_001)
    while bench.machine.next_deadline_ms() == bench.now_ms:
        effects += bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    sizes = [len(effect.records) for effect in effects if hasattr(effect, "records")]
    assert max(sizes) <= 10_000
    assert sum(sizes) > 12_000


def test_a_controlled_shutdown_moves_the_leaders_and_then_lets_go() -> None:
    """S1-57, S1-58, KIP-841: out of every ISR that has another member, others lead; cleared when all have seen it."""
    bench = active()
    first = bench.broker(1)
    second = bench.broker(2)
    topic(bench, (1, 2))
    behind = bench.next_offset - 1
    bench.heartbeat(2, second, current_metadata_offset=behind)
    answer = bench.heartbeat(1, first, want_shut_down=True)
    assert answer == BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False, should_shut_down=False)
    assert shape(bench) == [(2, (2,), 1)]
    assert bench.committed_image.cluster.brokers[1].in_controlled_shutdown
    assert bench.heartbeat(1, first, want_shut_down=True).should_shut_down is False
    bench.heartbeat(2, second)
    answer = bench.heartbeat(1, first, want_shut_down=True)
    assert answer == BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)
    assert bench.committed_image.cluster.brokers[1].fenced


def test_a_lone_broker_keeps_what_it_leads_until_it_stops() -> None:
    """S1-57: with nobody to take over it stays in the ISR, without a leader, and is let go (one node can stop)."""
    bench = active()
    epoch = bench.broker(1)
    topic(bench, (1,))
    assert bench.heartbeat(1, epoch, want_shut_down=True).should_shut_down is False
    assert shape(bench) == [(NO_LEADER, (1,), 1)]
    assert bench.heartbeat(1, epoch, want_shut_down=True).should_shut_down is True


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    """B-K05."""
    bench = active()
    epoch = bench.broker(1)
    assert bench.heartbeat(1, epoch, want_shut_down=True).should_shut_down is True
    assert bench.committed_image.cluster.brokers[1].fenced


def test_lost_and_cordoned_directories_are_noted() -> None:
    """B-K08, KIP-858, KIP-1066: replicas in a lost directory leave the ISR; only what changed is written."""
    bench = active()
    epoch = bench.broker(1, log_dirs=(directory(1), LOST))
    bench.broker(2)
    topic(bench, (1, 2))
    bench.heartbeat(1, epoch, cordoned_log_dirs=())
    assert bench.log[-1] == BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, cordoned_log_dirs=())
    before = len(bench.log)
    bench.heartbeat(1, epoch, cordoned_log_dirs=())
    assert len(bench.log) == before
    bench.heartbeat(1, epoch, offline_log_dirs=(LOST,))
    assert bench.log[before:] == [
        BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=epoch, log_dirs=(directory(1),))
    ]
    assert shape(bench) == [(1, (1, 2), 0)]


def test_controllers_register_too() -> None:
    """B-C19, KIP-919."""
    bench = active()
    request = ControllerRegistrationRequest(controller_id=1, incarnation_id=incarnation(1))
    assert bench.ask(request).error_code == 0
    assert bench.committed_image.cluster.controllers[1].incarnation_id == incarnation(1)


def slowly(bench: ControllerBench, *requests: Any) -> list[Any]:
    """The answers to requests that come one behind the other while moves go on partition by partition, and to those moves."""
    bench.machine.slice_size = 1
    effects = [each for request in requests for each in bench.send(request)]
    while bench.machine.queue_size:
        effects += bench.commit() + bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    bench.machine.slice_size = 1_000
    return [effect.response for effect in effects if isinstance(effect, Answer)]


def test_a_feature_that_is_raised_while_a_broker_registers_is_checked_again() -> None:
    """C24, inv:C8: the new process does not support what was finalized meanwhile; its former incarnation is gone all the same."""
    bench = active(features={"metadata.version": 29})
    epoch = bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2), (1, 2), (1, 2))
    bench.now_ms += bench.config.broker_session_timeout_ms + 1
    ranges = {each.name: each for each in registration(1).features}
    old = replace(ranges["metadata.version"], max_supported_version=29)
    anew = registration(
        1,
        incarnation_id=incarnation(9),
        features=tuple((ranges | {"metadata.version": old}).values()),
    )
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
    answers = slowly(bench, anew, UpdateFeaturesRequest(feature_updates=(raised,), timeout_ms=1))
    assert BrokerRegistrationResponse(error_code=ErrorCode.REQUEST_TIMED_OUT) in answers
    assert bench.committed_image.features.metadata_version == 30
    now = bench.committed_image.cluster.brokers[1]
    assert (now.broker_epoch, now.fenced) == (epoch, True)
    assert bench.ask(anew).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert bench.ask(registration(1, incarnation_id=incarnation(9))).error_code == ErrorCode.NONE


def test_of_two_processes_that_register_at_once_one_gets_the_directory() -> None:
    """inv:C8, KIP-858: a directory in two registrations is what no controller of Kafka can read."""
    bench = active()
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2), (1, 2), (2, 1))
    bench.now_ms += bench.config.broker_session_timeout_ms + 1
    copied = {"incarnation_id": incarnation(9), "log_dirs": (directory(7),)}
    answers = slowly(bench, registration(1, **copied), registration(2, **copied))
    assert sorted(each.error_code for each in answers) == [ErrorCode.NONE, ErrorCode.INVALID_REGISTRATION]
    brokers = bench.committed_image.cluster.brokers
    assert [(brokers[each].log_dirs, brokers[each].fenced) for each in (1, 2)] == [
        ((directory(7),), True),
        ((directory(2),), True),
    ]


def test_of_two_processes_that_register_at_once_one_gets_the_id() -> None:
    """inv:C8: also an id that was unregistered and is still the last one in sync, so that its registration takes a while."""
    bench = active(features={"eligible.leader.replicas.version": 1}, min_insync_replicas=2)
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2), (1, 2), (1, 2))
    bench.ask(UnregisterBrokerRequest(broker_id=2))
    two = [registration(2, incarnation_id=incarnation(number)) for number in (8, 9)]
    answers = slowly(bench, *two)
    assert sorted(each.error_code for each in answers) == [ErrorCode.NONE, ErrorCode.DUPLICATE_BROKER_REGISTRATION]
    assert bench.committed_image.cluster.brokers[2].incarnation_id == incarnation(8)
    assert bench.heartbeat(2, bench.committed_image.cluster.brokers[2].broker_epoch).is_fenced is False


def test_a_registration_that_stands_has_a_session_though_another_one_came_to_nothing() -> None:
    """inv:C8: two of one id are under way; the first ends for a feature that was raised, the second was asked for after that."""
    levels = {"metadata.version": 29, "eligible.leader.replicas.version": 1}
    bench = active(features=levels, min_insync_replicas=2)
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2), (1, 2), (1, 2))
    bench.ask(UnregisterBrokerRequest(broker_id=2))
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
    first, second = (registration(2, incarnation_id=incarnation(number)) for number in (8, 9))
    answers = slowly(bench, first, UpdateFeaturesRequest(feature_updates=(raised,), timeout_ms=1), second)
    codes = [each.error_code for each in answers if isinstance(each, BrokerRegistrationResponse)]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
    assert bench.committed_image.cluster.brokers[2].incarnation_id == incarnation(9)
    assert bench.heartbeat(2, bench.committed_image.cluster.brokers[2].broker_epoch).is_fenced is False
