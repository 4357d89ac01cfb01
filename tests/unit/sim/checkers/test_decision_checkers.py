"""Made-up decisions of a controller: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from headrace.controller.events import Answer, BrokerUnreachable, RecordsCommitted, TimeAdvanced
from headrace.metadata.image import EMPTY_IMAGE
from headrace.raft.roles import Leader
from headrace.sim.checkers import JUDGES
from headrace.sim.checkers.deciding import Deciding
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.fence_broker_record import FenceBrokerRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.unfence_broker_record import UnfenceBrokerRecord
from headrace.wire.schema import Message
from tests.support.histories import SESSION_MS, breaks, records_batch
from tests.support.made_up_metadata import TOPIC, Reigning, image_of, partition, registered, usual_records

GROUP = partial(Deciding, judges=JUDGES)


def _reign(*more: Message) -> Reigning:
    return Reigning(GROUP, image=image_of(*usual_records(), *more))


def _change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)


def _heartbeat(broker_id: int, *, offset: int = 100, epoch: int | None = None) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_id if epoch is None else epoch,
        current_metadata_offset=offset,
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
    reign = Reigning(partial(Deciding, judges=(JUDGES[2],)), image=image_of(*records))
    with breaks("C9"):
        reign.decide(reign.request(_alter((1, 2, 3), partition_epoch=1)), [_change(isr=(1, 2, 3))])


def test_an_isr_change_by_the_rules_is_fine() -> None:
    """inv:C9."""
    reign = _reign()
    reign.decide(reign.request(_alter((1, 2))), [_change(isr=(1, 2))])


# C10, C11


def _registration(broker_id: int) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(broker_id=broker_id)


def test_a_broker_that_registers_anew_and_stays_in_an_isr_is_flagged() -> None:
    """inv:C10."""
    reign = _reign(_change(isr=(1, 3), leader=1), FenceBrokerRecord(id=2, epoch=2))
    with breaks("C10"):
        reign.decide(reign.request(_registration(3)), [registered(3, epoch=50, run=2)])


def test_a_broker_that_registers_anew_and_leaves_the_isr_is_fine() -> None:
    """inv:C10."""
    reign = _reign()
    reign.decide(reign.request(_registration(3)), [_change(isr=(1, 2)), registered(3, epoch=50, fenced=True, run=2)])
    assert reign.markers.counts["unclean registration left an isr"] == 1


def test_the_same_process_that_registers_again_may_stay() -> None:
    """inv:C10: a repeated request."""
    reign = _reign()
    reign.decide(reign.request(_registration(3)), [registered(3, epoch=3)])


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


def _may_stop(reign: Reigning, broker_id: int) -> None:
    event = reign.request(_heartbeat(broker_id))
    response = BrokerHeartbeatResponse(is_fenced=False, should_shut_down=True)
    reign.decide(event, answers=[Answer(token=event.token, response=response)])


def test_a_broker_that_leads_and_may_stop_is_flagged() -> None:
    """inv:C15."""
    with breaks("C15"):
        _may_stop(_reign(), 1)


def test_a_broker_that_may_stop_before_the_others_know_is_flagged() -> None:
    """inv:C15: broker 2 has not read who leads now."""
    reign = _reign()
    reign.decide(reign.request(_heartbeat(2, offset=0)))
    stopping = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
    reign.decide(reign.request(_heartbeat(1)), [stopping, _change(isr=(2, 3), leader=2)])
    with breaks("C15"):
        _may_stop(reign, 1)


def test_a_broker_that_may_stop_when_all_know_is_fine() -> None:
    """inv:C15."""
    reign = _reign()
    stopping = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1)
    reign.decide(reign.request(_heartbeat(1)), [stopping, _change(isr=(2, 3), leader=2)])
    for each in (2, 3):
        reign.decide(reign.request(_heartbeat(each)))
    _may_stop(reign, 1)


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
