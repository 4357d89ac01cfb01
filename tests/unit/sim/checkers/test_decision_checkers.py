"""Made-up decisions of a controller: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from headrace.controller.events import Answer, BrokerUnreachable, LeadershipEnded, RecordsCommitted, TimeAdvanced
from headrace.core.ids import Uuid
from headrace.metadata.image import EMPTY_IMAGE
from headrace.raft.roles import Leader
from headrace.sim.checkers import JUDGES
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
    ResponseTopicData,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.fence_broker_record import FenceBrokerRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from headrace.wire.schema import Message
from tests.support.histories import SESSION_MS, breaks, records_batch
from tests.support.made_up_metadata import TOPIC, Reigning, image_of, partition, registered, usual_records

GROUP = partial(ControllerSteps, judges=JUDGES)


def _reign(*more: Message) -> Reigning:
    return Reigning(GROUP, image=image_of(*usual_records(), *more))


def _change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)


def _heartbeat(broker_id: int, *, offset: int = 100, epoch: int | None = None, **wants: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_id if epoch is None else epoch,
        current_metadata_offset=offset,
        **wants,
    )


def _create() -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))


# C1


def test_a_controller_that_writes_before_it_replayed_everything_is_flagged() -> None:
    """inv:C1."""
    reign = _reign()
    role = Leader(epoch=3, epoch_start_offset=1, granting_voters=(1, 2))
    with breaks("C1"):
        reign.step(1, records_batch(1, 3, b"x"), role=role)


# C3


def test_an_answer_before_its_records_are_committed_is_flagged() -> None:
    """inv:C3, defect:K26."""
    reign = Reigning(GROUP)
    event = reign.request(_create())
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,), leader=-1)]
    with breaks("C3"):
        reign.decide(event, records, answers=[Answer(token=event.token, response=CreateTopicsResponse())])


def test_an_answer_when_its_records_are_committed_is_fine() -> None:
    """inv:C3."""
    reign = Reigning(GROUP)
    event = reign.request(_create())
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,), leader=-1)]
    reign.decide(event, records)
    reign.write(records)
    committed = RecordsCommitted(image=EMPTY_IMAGE, upto=3, now_ms=reign.now_ms)
    reign.decide(committed, answers=[Answer(token=event.token, response=CreateTopicsResponse())])


def test_a_refusal_may_leave_at_once() -> None:
    """inv:C3: it shows nothing."""
    reign = Reigning(GROUP)
    event = reign.request(_create())
    reign.decide(event, answers=[Answer(token=event.token, response=CreateTopicsResponse())])


def test_an_answer_that_tells_of_what_is_not_committed_is_flagged() -> None:
    """inv:C3: it wrote nothing itself, but says that a topic is there which another request has just made."""
    reign = Reigning(GROUP)
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,), leader=-1)]
    reign.decide(reign.request(_create()), records)
    exists = CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=36),))
    refused = CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=42),))
    event = reign.request(_create())
    reign.decide(event, answers=[Answer(token=event.token, response=refused)])
    event = reign.request(_create())
    with breaks("C3"):
        reign.decide(event, answers=[Answer(token=event.token, response=exists)])


def test_a_registration_that_is_answered_before_its_last_slice_is_flagged() -> None:
    """inv:C3, B-C22: the former incarnation's places are committed, the registration itself is not."""
    reign = _ruling()
    event = reign.request(_registration(4))
    reign.decide(event, [_setting()])
    reign.write([_setting()])
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [registered(4, epoch=reign.next_offset, fenced=True)])
    response = BrokerRegistrationResponse(broker_epoch=reign.next_offset - 1)
    committed = RecordsCommitted(image=EMPTY_IMAGE, upto=reign.next_offset - 1, now_ms=reign.now_ms)
    with breaks("C3"):
        reign.decide(committed, answers=[Answer(token=event.token, response=response)])


# RL2


def test_who_waits_at_a_controller_that_goes_is_told() -> None:
    """inv:RL2, S2-32: one that says nothing to somebody who waits is flagged."""
    answer = CreateTopicsResponse(topics=(CreatableTopicResult(name="t", error_code=41),))
    for is_told in (True, False):
        reign = Reigning(GROUP)
        event = reign.request(_create())
        reign.decide(event, [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,), leader=-1)])
        ended = LeadershipEnded(image=EMPTY_IMAGE, now_ms=reign.now_ms)
        if is_told:
            reign.decide(ended, answers=[Answer(token=event.token, response=answer)])
        else:
            with breaks("RL2"):
                reign.decide(ended)


def test_a_request_that_an_active_controller_never_answers_is_flagged() -> None:
    """inv:RL2: its records are committed long ago."""
    reign = Reigning(GROUP)
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,), leader=-1)]
    reign.decide(reign.request(_create()), records)
    reign.write(records)
    reign.watcher.at_end(reign.cluster)
    reign.wait(5_000)
    with breaks("RL2"):
        reign.watcher.at_end(reign.cluster)


# C4


def test_an_operation_that_becomes_visible_in_parts_is_flagged() -> None:
    """inv:C4, defect:K27."""
    reign = Reigning(GROUP)
    parts: list[list[Message]] = [[TopicRecord(name="t", topic_id=TOPIC)], [partition(replicas=(1,), leader=-1)]]
    reign.decide(reign.request(_create()), *parts)
    with breaks("C4"):
        reign.write(parts[0])


def test_an_operation_in_parts_inside_of_a_transaction_is_fine() -> None:
    """inv:C4: KIP-868."""
    reign = Reigning(GROUP)
    parts: list[list[Message]] = [
        [BeginTransactionRecord(name="x"), TopicRecord(name="t", topic_id=TOPIC)],
        [partition(replicas=(1,), leader=-1), EndTransactionRecord()],
    ]
    reign.decide(reign.request(_create()), *parts)
    reign.write(*parts)


def test_the_partitions_of_one_alter_partition_may_come_in_parts() -> None:
    """inv:C4, KIP-497: a leader changes very many ISRs at once, each partition on its own (Kafka's result is not atomic either)."""
    reign = Reigning(GROUP)
    created = [*usual_records()]
    reign.decide(reign.request(_create()), created)
    reign.write(created)
    parts: list[list[Message]] = [[_change(isr=(1, 2))], [_change(isr=(1,))]]
    reign.decide(reign.request(AlterPartitionRequest(broker_id=1, broker_epoch=1, topics=())), *parts)
    reign.write(parts[0])


def test_what_a_leaving_broker_means_may_come_in_parts() -> None:
    """inv:C4, B-C22: only operations that are one decision are all or none."""
    reign = _reign()
    _beats(reign, 2, 3, seconds=9)
    parts: list[list[Message]] = [[_change(isr=(2, 3), leader=2)], [FenceBrokerRecord(id=1, epoch=1)]]
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), *parts)


# C7


def test_a_fenced_broker_that_goes_on_leading_is_flagged() -> None:
    """inv:C7, defect:K23."""
    reign = _reign()
    event = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=reign.now_ms)
    with breaks("C7"):
        reign.decide(event, [FenceBrokerRecord(id=1, epoch=1)])


def test_a_fenced_broker_that_stays_in_an_isr_is_flagged() -> None:
    """inv:C7."""
    reign = _reign()
    event = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=reign.now_ms)
    with breaks("C7"):
        reign.decide(event, [_change(leader=2), FenceBrokerRecord(id=1, epoch=1)])


def test_the_last_member_may_stay_without_leading() -> None:
    """inv:C7: with ELR off."""
    reign = Reigning(
        GROUP,
        image=image_of(registered(1, epoch=1), TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1,))),
    )
    event = BrokerUnreachable(broker_id=1, broker_epoch=1, now_ms=reign.now_ms)
    reign.decide(event, [_change(leader=-1), FenceBrokerRecord(id=1, epoch=1)])


def test_a_stopping_broker_that_leads_is_flagged() -> None:
    """inv:C7."""
    reign = _reign()
    record = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
    with breaks("C7"):
        reign.decide(reign.request(_heartbeat(1)), [record])


# C8


def test_a_request_with_an_older_broker_epoch_that_is_taken_is_flagged() -> None:
    """inv:C8."""
    reign = _reign()
    with breaks("C8"):
        reign.decide(reign.request(_heartbeat(1, epoch=0)), [ConfigRecord(resource_type=4, name="a", value="b")])


def test_a_request_with_an_older_broker_epoch_that_is_refused_is_fine() -> None:
    """inv:C8."""
    reign = _reign()
    event = reign.request(_heartbeat(1, epoch=0))
    reign.decide(event, answers=[Answer(token=event.token, response=BrokerHeartbeatResponse(error_code=77))])
    assert reign.markers.counts["request refused: older broker epoch"] == 1


def test_another_incarnation_beside_one_that_lives_is_flagged() -> None:
    """inv:C8: two machines with one id; the second is taken only when the first is silent for a session, or fenced and never heard from."""
    reign = _reign()
    with breaks("C8"):
        reign.decide(reign.request(_registration(3)), [_change(isr=(1, 2))])
    reign = _reign(_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3))
    reign.decide(reign.request(_registration(3)), [registered(3, epoch=50, fenced=True, run=2)])


def test_another_incarnation_beside_a_fenced_one_that_is_heard_from_is_flagged() -> None:
    """inv:C8, S1-29: unless that was told to end, or is known to be gone."""
    fenced = (_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3))
    taken = [registered(3, epoch=50, fenced=True, run=2)]
    reign = _reign(*fenced)
    reign.decide(reign.request(_heartbeat(3, offset=0)))
    with breaks("C8"):
        reign.decide(reign.request(_registration(3)), taken)
    reign = _reign(*fenced)
    reign.decide(reign.request(_heartbeat(3, offset=0)))
    reign.decide(reign.request(_heartbeat(3, want_shut_down=True)))
    reign.decide(reign.request(_registration(3)), taken)
    reign = _reign(*fenced)
    reign.decide(reign.request(_heartbeat(3, offset=0)))
    reign.decide(BrokerUnreachable(broker_id=3, broker_epoch=3, now_ms=reign.now_ms))
    reign.decide(reign.request(_registration(3)), taken)


def test_of_who_registers_behind_one_that_was_unregistered_nothing_was_heard() -> None:
    """inv:C8: two processes take a free id one after the other; only the one before them, which is struck off, had been heard from."""
    reign = _reign(_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3))
    reign.decide(reign.request(_heartbeat(3, offset=0)))
    reign.decide(
        reign.request(UnregisterBrokerRequest(broker_id=3)), [UnregisterBrokerRecord(broker_id=3, broker_epoch=3)]
    )
    for epoch, run in ((50, 2), (51, 3)):
        reign.decide(reign.request(_registration(3, run=run)), [registered(3, epoch=epoch, fenced=True, run=run)])


def test_another_incarnation_that_is_refused_is_fine() -> None:
    """inv:C8: DUPLICATE_BROKER_REGISTRATION."""
    reign = _reign()
    event = reign.request(_registration(3))
    refused = BrokerRegistrationResponse(error_code=101, broker_epoch=-1)
    reign.decide(event, answers=[Answer(token=event.token, response=refused)])


# C9


def _alter(
    members: tuple[int, ...],
    *,
    broker_id: int = 1,
    leader_epoch: int = 0,
    partition_epoch: int = 0,
    member_epoch: int = -1,
) -> AlterPartitionRequest:
    asked = RequestPartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=tuple(BrokerState(broker_id=each, broker_epoch=member_epoch) for each in members),
    )
    data = RequestTopicData(topic_id=TOPIC, partitions=(asked,))
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_id, topics=(data,))


@pytest.mark.parametrize(
    "request_of",
    [
        _alter((1, 2), broker_id=2),
        _alter((1, 2), leader_epoch=1),
        _alter((1, 2), partition_epoch=7),
        _alter((1, 2), member_epoch=9),
        _alter((1, 4)),
    ],
    ids=["not the leader", "leader epoch", "partition epoch", "broker epoch of a member", "no replica"],
)
def test_an_isr_change_that_must_not_be_accepted_is_flagged(request_of: AlterPartitionRequest) -> None:
    """inv:C9, defect:K20."""
    reign = _reign()
    with breaks("C9"):
        reign.decide(reign.request(request_of), [_change(isr=(1, 2))])


def test_a_fenced_member_that_joins_is_flagged() -> None:
    """inv:C9: at once also C7, which is judged on what it led to."""
    records = [*usual_records(), _change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)]
    reign = Reigning(partial(ControllerSteps, judges=(JUDGES[2],)), image=image_of(*records))
    with breaks("C9"):
        reign.decide(reign.request(_alter((1, 2, 3), partition_epoch=1)), [_change(isr=(1, 2, 3))])


@pytest.mark.parametrize(("error", "is_wrong"), [(0, True), (42, True), (41, False)])
def test_an_isr_change_ahead_of_the_controller_is_told_that_it_is_none(error: int, *, is_wrong: bool) -> None:
    """inv:C9: NOT_CONTROLLER(41), so that the broker looks for the one that knows more; nothing else."""
    reign = _reign()
    event = reign.request(_alter((1, 2, 3), partition_epoch=7))
    told = ResponseTopicData(topic_id=TOPIC, partitions=(ResponsePartitionData(partition_index=0, error_code=error),))
    answers = [Answer(token=event.token, response=AlterPartitionResponse(topics=(told,)))]
    if is_wrong:
        with breaks("C9"):
            reign.decide(event, answers=answers)
    else:
        reign.decide(event, answers=answers)


def test_an_isr_change_by_the_rules_is_fine() -> None:
    """inv:C9."""
    reign = _reign()
    reign.decide(reign.request(_alter((1, 2))), [_change(isr=(1, 2))])


# C10, C11


def _registration(broker_id: int, run: int = 2) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(broker_id=broker_id, incarnation_id=Uuid(bytes([broker_id, run] * 8)))


def _setting() -> ConfigRecord:
    return ConfigRecord(resource_type=4, name="a", value="b")


def test_a_broker_that_registers_anew_and_stays_in_an_isr_is_flagged() -> None:
    """inv:C10."""
    reign = _reign(_change(isr=(1, 3), leader=1), FenceBrokerRecord(id=2, epoch=2))
    with breaks("C10"):
        reign.decide(reign.request(_registration(3)), [registered(3, epoch=50, run=2)])


def test_a_broker_that_registers_anew_and_leaves_the_isr_is_fine() -> None:
    """inv:C10: when the session of its former incarnation is over (inv:C8)."""
    reign = _reign()
    _beats(reign, 1, 2, seconds=9)
    reign.decide(reign.request(_registration(3)), [_change(isr=(1, 2)), registered(3, epoch=50, fenced=True, run=2)])
    assert reign.markers.counts["unclean registration left an isr"] == 1


def test_the_same_process_that_registers_again_may_stay() -> None:
    """inv:C10: a repeated request."""
    reign = _reign()
    reign.decide(reign.request(_registration(3, run=1)), [registered(3, epoch=3)])


def test_a_leader_from_outside_of_the_isr_is_flagged() -> None:
    """inv:C11."""
    reign = _reign(_change(isr=(1, 2)))
    with breaks("C11"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(3,), leader=3, leader_recovery_state=1)])


def test_an_unclean_leader_that_is_not_marked_is_flagged() -> None:
    """inv:C11."""
    allowed = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    reign = _reign(_change(isr=(1, 2)), allowed)
    with breaks("C11"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(3,), leader=3)])


def test_an_unclean_leader_where_it_is_allowed_and_marked_is_counted() -> None:
    """inv:C11."""
    allowed = ConfigRecord(resource_type=2, resource_name="t", name="unclean.leader.election.enable", value="true")
    reign = _reign(_change(isr=(1, 2)), allowed)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(3,), leader=3, leader_recovery_state=1)])
    assert reign.markers.counts["unclean leader election"] == 1


# C13


def _block(start: int) -> AllocateProducerIdsResponse:
    return AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=1000)


def test_producer_ids_given_out_twice_are_flagged() -> None:
    """inv:C13, defect:K28."""
    reign = _reign()
    for start in (0, 1000):
        event = reign.request(AllocateProducerIdsRequest(broker_id=1, broker_epoch=1))
        reign.decide(event, answers=[Answer(token=event.token, response=_block(start))])
    event = reign.request(AllocateProducerIdsRequest(broker_id=2, broker_epoch=2))
    with breaks("C13"):
        reign.decide(event, answers=[Answer(token=event.token, response=_block(1000))])


# C14


def test_a_broker_that_is_fenced_too_soon_is_flagged() -> None:
    """inv:C14, defect:K24."""
    reign = _reign()
    reign.wait(SESSION_MS - 2_000)
    reign.decide(reign.request(_heartbeat(3)))
    reign.wait(3_000)
    with breaks("C14"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)])


def test_a_broker_that_is_fenced_right_after_a_failover_is_flagged() -> None:
    """inv:C14, defect:K25: the new controller's own time counts."""
    reign = _reign()
    reign.wait(SESSION_MS * 2)
    reign.gain(image_of(*usual_records()))
    with breaks("C14"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)])


def _beats(reign: Reigning, *brokers: int, seconds: int) -> None:
    for _ in range(seconds * 2):
        reign.wait(500)
        for each in brokers:
            reign.decide(reign.request(_heartbeat(each)))


def test_a_broker_that_is_fenced_after_its_session_is_fine() -> None:
    """inv:C14."""
    reign = _reign()
    _beats(reign, 1, 2, seconds=9)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)])
    assert reign.markers.counts["broker fenced by time"] == 1


def test_a_heartbeat_between_the_end_of_a_session_and_its_fence_is_too_late() -> None:
    """inv:C14: the moves that begin a fence take several slices (B-C22)."""
    reign = _reign()
    _beats(reign, 1, 2, seconds=9)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2))])
    reign.wait(4)
    reign.decide(reign.request(_heartbeat(3)))
    reign.wait(12)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [FenceBrokerRecord(id=3, epoch=3)])
    assert reign.markers.counts["broker fenced by time"] == 1


def test_a_fence_after_a_heartbeat_just_before_the_end_of_the_session_is_flagged() -> None:
    """inv:C14: when time was told the session had not run out."""
    reign = _reign()
    _beats(reign, 1, 2, seconds=8)
    reign.wait(900)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2))])
    reign.wait(1)
    reign.decide(reign.request(_heartbeat(3)))
    reign.wait(12)
    with breaks("C14"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [FenceBrokerRecord(id=3, epoch=3)])


def test_a_session_that_ran_out_long_ago_excuses_no_fence() -> None:
    """inv:C14: the broker was heard from again, and went on."""
    reign = _reign()
    _beats(reign, 1, 2, seconds=9)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms))
    _beats(reign, 1, 2, 3, seconds=3)
    with breaks("C14"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)])


@pytest.mark.parametrize("how", ["registered", "asked for the fence that it was in"])
def test_a_fence_that_nobody_asked_for_since_the_broker_serves_is_too_soon(how: str) -> None:
    """inv:C14: what it said while it was fenced excuses no fence later on."""
    new = registered(4, epoch=40, fenced=True, run=2)
    reign = _reign() if how == "registered" else _reign(new)
    if how == "registered":
        reign.decide(reign.request(_registration(4)), [new])
    else:
        reign.decide(reign.request(_heartbeat(4, epoch=40, want_fence=True)))
    reign.decide(reign.request(_heartbeat(4, epoch=40)), [UnfenceBrokerRecord(id=4, epoch=40)])
    reign.wait(500)
    with breaks("C14"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [FenceBrokerRecord(id=4, epoch=40)])


def test_a_silent_broker_that_is_not_fenced_is_flagged() -> None:
    """inv:C14."""
    reign = _reign()
    with breaks("C14"):
        _beats(reign, 1, 2, seconds=12)


def test_a_controller_that_stood_still_forgives_the_silence() -> None:
    """inv:C14: heartbeats may wait unread."""
    reign = _reign()
    reign.wait(SESSION_MS * 3)
    _beats(reign, 1, 2, 3, seconds=1)


def test_a_broker_whose_host_refuses_connections_may_be_fenced_at_once() -> None:
    """inv:C14: the one exception."""
    reign = _reign()
    event = BrokerUnreachable(broker_id=3, broker_epoch=3, now_ms=reign.now_ms)
    reign.decide(event, [_change(isr=(1, 2)), FenceBrokerRecord(id=3, epoch=3)])


# C15


STOPPING = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
MOVED = [_change(isr=(2, 3), leader=2), STOPPING]
FENCED = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=1)


def _ruling() -> Reigning:
    """A controller whose log holds what it knows: three brokers, of which 1 leads the only partition; all have read everything."""
    reign = Reigning(GROUP)
    reign.write(usual_records())
    reign.next_offset = reign.ghost.committed.end
    reign.gain(image_of(*usual_records()))
    for each in (1, 2, 3):
        _asks(
            reign,
            _heartbeat(each, offset=reign.next_offset - 1),
            BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False),
        )
    return reign


def _asks(
    reign: Reigning, request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, *records: Message
) -> None:
    """A heartbeat, what it leads to, and its answer when that is committed."""
    event = reign.request(request)
    reign.decide(event, *([records] if records else []))
    if records:
        reign.write(records)
    committed = RecordsCommitted(image=EMPTY_IMAGE, upto=reign.next_offset, now_ms=reign.now_ms)
    reign.decide(committed, answers=[Answer(token=event.token, response=response)])


def _wants_to_stop(reign: Reigning, broker_id: int = 1, *records: Message, may: bool = False) -> None:
    """A broker that is told to stop is fenced by the same decision, so it leads nothing when it hears that."""
    request = _heartbeat(broker_id, offset=reign.next_offset - 1, want_shut_down=True)
    _asks(reign, request, BrokerHeartbeatResponse(is_caught_up=True, is_fenced=may, should_shut_down=may), *records)


def test_a_broker_that_leads_and_may_stop_is_flagged() -> None:
    """inv:C15: though its leaderships are moved by that very decision."""
    with breaks("C15"):
        _wants_to_stop(_ruling(), 1, MOVED[0], FENCED, may=True)


def test_a_broker_that_may_stop_before_the_others_know_is_flagged() -> None:
    """inv:C15, S2-20: broker 2 has heartbeated since, and has not read who leads now."""
    reign = _ruling()
    before = reign.next_offset - 1
    _wants_to_stop(reign, 1, *MOVED)
    for each, offset in ((2, before), (3, before + 2)):
        _asks(reign, _heartbeat(each, offset=offset), BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    with breaks("C15"):
        _wants_to_stop(reign, 1, FENCED, may=True)


def test_a_broker_that_may_stop_when_all_know_is_fine() -> None:
    """inv:C15: each has read the record that moved the leadership; what came behind it does not matter."""
    reign = _ruling()
    moved = reign.next_offset
    _wants_to_stop(reign, 1, *MOVED)
    for each in (2, 3):
        _asks(reign, _heartbeat(each, offset=moved), BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    _wants_to_stop(reign, 1, FENCED, may=True)
    assert reign.markers.counts["broker let go"] == 1


def test_who_led_nothing_when_it_asked_waits_for_nobody() -> None:
    """inv:C15, B-K05: no leadership was moved."""
    reign = _ruling()
    record = BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, fenced=1)
    _wants_to_stop(reign, 3, _change(isr=(1, 2)), record, may=True)


def test_a_broker_that_is_just_being_fenced_is_not_waited_for() -> None:
    """inv:C15: its connection was refused; it is no live broker, though the fence itself comes some slices later."""
    reign = _ruling()
    before = reign.next_offset - 1
    _wants_to_stop(reign, 1, *MOVED)
    for each, offset in ((2, before), (3, before + 2)):
        _asks(reign, _heartbeat(each, offset=offset), BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    reign.decide(BrokerUnreachable(broker_id=2, broker_epoch=2, now_ms=reign.now_ms))
    _wants_to_stop(reign, 1, FENCED, may=True)


def test_the_next_controller_waits_too() -> None:
    """inv:C15, S2-19: it finds a broker that stops, and nobody has told it yet what he has read."""
    reign = _ruling()
    _wants_to_stop(reign, 1, *MOVED)
    image = reign.ghost.committed.image_at(reign.ghost.committed.end)
    assert image is not None
    reign.gain(image)
    with breaks("C15"):
        _wants_to_stop(reign, 1, FENCED, may=True)


def test_who_is_fenced_may_stop_at_any_time() -> None:
    """inv:C15, B-K05."""
    reign = Reigning(GROUP, image=image_of(*usual_records(), _change(isr=(2, 3), leader=2), FENCED))
    event = reign.request(_heartbeat(1, offset=0, want_shut_down=True))
    response = BrokerHeartbeatResponse(is_fenced=True, should_shut_down=True)
    reign.decide(event, answers=[Answer(token=event.token, response=response)])
    assert "broker let go" not in reign.markers.counts


# C16


def test_a_broker_that_is_unfenced_before_it_read_its_registration_is_flagged() -> None:
    """inv:C16."""
    reign = _reign(registered(4, epoch=40, fenced=True))
    with breaks("C16"):
        reign.decide(reign.request(_heartbeat(4, offset=39, epoch=40)), [UnfenceBrokerRecord(id=4, epoch=40)])


def test_a_broker_that_is_unfenced_when_it_read_its_registration_is_fine() -> None:
    """inv:C16."""
    reign = _reign(registered(4, epoch=40, fenced=True))
    reign.decide(reign.request(_heartbeat(4, offset=40, epoch=40)), [UnfenceBrokerRecord(id=4, epoch=40)])
    assert reign.markers.counts["broker unfenced"] == 1


# C18, C19


def test_a_decision_that_cannot_be_replayed_is_flagged() -> None:
    """inv:C18."""
    reign = Reigning(GROUP)
    with breaks("C18"):
        reign.decide(reign.request(_create()), [partition()])


def test_two_copies_on_one_broker_are_flagged() -> None:
    """inv:C19."""
    reign = Reigning(GROUP, image=image_of(registered(1, epoch=1), registered(2, epoch=2)))
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 1), isr=(1,))]
    with breaks("C19"):
        reign.decide(reign.request(_create()), records)


def _racks() -> list[Message]:
    return [registered(each, epoch=each, rack=f"r{each % 2}") for each in (1, 2, 3, 4)]


def test_copies_that_share_a_rack_without_need_are_flagged() -> None:
    """inv:C19."""
    reign = Reigning(GROUP, image=image_of(*_racks()))
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 3))]
    with breaks("C19"):
        reign.decide(reign.request(_create()), records)


def test_copies_may_share_a_rack_while_the_brokers_of_the_other_are_fenced() -> None:
    """inv:C19, B-C24: a broker counts as gone from the first slice on; the record that says so comes last."""
    reign = Reigning(GROUP, image=image_of(*_racks()))
    for broker_id in (2, 4):
        reign.decide(BrokerUnreachable(broker_id=broker_id, broker_epoch=broker_id, now_ms=reign.now_ms))
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 3))]
    reign.decide(reign.request(_create()), records)


def test_copies_that_the_client_placed_may_share_a_rack() -> None:
    """inv:C19."""
    reign = Reigning(GROUP, image=image_of(*_racks()))
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 3))
    asked = CreateTopicsRequest(topics=(CreatableTopic(name="t", assignments=(assignment,)),))
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 3))]
    reign.decide(reign.request(asked), records)


def test_more_copies_than_racks_must_share() -> None:
    """inv:C19."""
    reign = Reigning(GROUP, image=image_of(*_racks()))
    records = [TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 2, 3))]
    reign.decide(reign.request(_create()), records)
