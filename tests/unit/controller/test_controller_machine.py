"""Active and standby, answers at commit, deadlines, undo, time."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller import requests
from headrace.controller.decision import Decision
from headrace.controller.events import Answer, AppendRecords, RequestArrived, RequestCause, Resign, TimeAdvanced
from headrace.controller.machine import ControllerMachine
from headrace.core.error_code import ErrorCode
from headrace.metadata.image import EMPTY_IMAGE
from headrace.metadata.snapshot import VersionedRecord
from headrace.wire.messages import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_partitions,
    create_topics,
    delete_topics,
    incremental_alter_configs,
    unregister_broker,
    update_features,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from tests.support.controller import ControllerBench, active, registration

REQUESTS: list[Any] = [
    allocate_producer_ids.AllocateProducerIdsRequest(),
    alter_configs.AlterConfigsRequest(resources=(alter_configs.AlterConfigsResource(resource_type=2),)),
    alter_partition.AlterPartitionRequest(),
    broker_heartbeat.BrokerHeartbeatRequest(),
    broker_registration.BrokerRegistrationRequest(),
    controller_registration.ControllerRegistrationRequest(),
    create_partitions.CreatePartitionsRequest(
        topics=(create_partitions.CreatePartitionsTopic(name="t"),), timeout_ms=1
    ),
    create_topics.CreateTopicsRequest(topics=(create_topics.CreatableTopic(name="t"),)),
    delete_topics.DeleteTopicsRequest(topics=(delete_topics.DeleteTopicState(name="t"),), timeout_ms=1),
    incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=(incremental_alter_configs.AlterConfigsResource(resource_type=2),)
    ),
    unregister_broker.UnregisterBrokerRequest(broker_id=1, remove_from_assignments=True),
    update_features.UpdateFeaturesRequest(),
]


def new(name: str = "t") -> CreateTopicsRequest:
    """One topic."""
    return CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=1),))


def errors(response: Any) -> set[int]:
    """Every error code anywhere in a response."""
    found = {response.error_code} if hasattr(response, "error_code") else set()
    for name in ("topics", "responses", "results"):
        found |= {each.error_code for each in getattr(response, name, ())}
    return found


def test_an_empty_log_gets_the_bootstrap_records_in_a_transaction() -> None:
    """B-C21, B-S10, B-C11, B-C18: in one append, before any request."""
    bench = ControllerBench()
    bench.gain()
    assert bench.log == [
        BeginTransactionRecord(name="Bootstrap records"),
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        EndTransactionRecord(),
    ]
    assert bench.machine.is_active


def test_a_log_that_has_records_gets_none() -> None:
    """B-C21: only the first controller of a cluster bootstraps."""
    bench = active()
    again = ControllerBench(image=bench.committed_image)
    assert again.gain(next_offset=9) == []
    assert again.machine.is_active


def test_an_open_transaction_is_aborted() -> None:
    """B-C18, B-C21: what was begun is undone; a bootstrap that was cut off is written again."""
    bench = ControllerBench(image=EMPTY_IMAGE)
    bench.gain(next_offset=4, in_transaction=True)
    assert isinstance(bench.log[0], AbortTransactionRecord)
    assert [type(record) for record in bench.log[1:]] == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        EndTransactionRecord,
    ]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_standby_refuses_every_request(request_: Any) -> None:
    """S1-52, S1-61, S1-67, S0-36, B28: NOT_CONTROLLER(41) in the API's own answer."""
    bench = ControllerBench()
    [effect] = bench.send(request_)
    assert isinstance(effect, Answer)
    assert errors(effect.response) == {ErrorCode.NOT_CONTROLLER}


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: type(each).__name__)
def test_a_request_past_its_deadline_has_no_effect(request_: Any) -> None:
    """B-C27: REQUEST_TIMED_OUT(7)."""
    bench = active()
    before = bench.machine.image
    [effect] = bench.send(request_, deadline_ms=bench.now_ms)
    assert isinstance(effect, Answer)
    assert errors(effect.response) == {ErrorCode.REQUEST_TIMED_OUT}
    assert bench.machine.image is before


def test_a_request_that_gives_no_time_is_late_at_once() -> None:
    """B-C27: `timeoutMs` 0, as in Kafka."""
    bench = active()
    bench.broker(1)
    answer = bench.ask(CreateTopicsRequest(topics=new().topics, timeout_ms=0))
    assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert "t" not in bench.machine.image.topics.by_name


def test_a_late_heartbeat_still_shows_that_its_broker_lives() -> None:
    """B-C27, C14: the request is refused, the session goes on."""
    bench = active()
    epoch = bench.broker(1)
    bench.advance(8_000)
    late = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=9)
    [effect] = bench.send(late, deadline_ms=bench.now_ms - 1)
    assert isinstance(effect, Answer)
    assert errors(effect.response) == {ErrorCode.REQUEST_TIMED_OUT}
    bench.advance(8_000)
    assert not bench.machine.image.cluster.brokers[1].fenced


def test_an_answer_leaves_when_its_records_are_committed() -> None:
    """S1-53, S1-65, C3: not before."""
    bench = active()
    bench.broker(1)
    effects = bench.send(new())
    assert [type(effect) for effect in effects] == [AppendRecords]
    assert "t" not in bench.committed_image.topics.by_name
    [answer] = bench.commit()
    assert isinstance(answer, Answer)
    assert answer.response.topics[0].error_code == 0


def test_a_refusal_waits_for_what_it_has_seen() -> None:
    """C3: "already exists" is told only when the topic's creation is committed."""
    bench = active()
    bench.broker(1)
    bench.send(new())
    assert bench.send(new()) == []
    first, second = bench.commit()
    assert isinstance(first, Answer)
    assert isinstance(second, Answer)
    assert first.token < second.token
    assert second.response.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    [third] = bench.send(new())
    assert isinstance(third, Answer)


def test_decisions_see_what_is_decided_but_not_committed() -> None:
    """B-C23: one decision at a time on the image of all of them."""
    bench = active()
    bench.broker(1)
    bench.send(new("a"))
    bench.send(new("b"))
    assert sorted(bench.machine.image.topics.by_name) == ["a", "b"]
    bench.commit()
    assert bench.committed_image == bench.machine.image


def test_losing_leadership_undoes_what_was_not_committed() -> None:
    """B-C23, C1: who waited is told NOT_CONTROLLER; the next term begins from what is committed."""
    bench = active()
    bench.broker(1)
    bench.send(new("a"))
    [answer] = bench.lose()
    assert isinstance(answer, Answer)
    assert errors(answer.response) == {ErrorCode.NOT_CONTROLLER}
    assert not bench.machine.is_active
    assert bench.machine.image == EMPTY_IMAGE
    bench.epoch = 2
    bench.gain(next_offset=bench.next_offset + 1)
    assert bench.ask(new("a")).topics[0].error_code == 0
    assert bench.lose() == []
    assert bench.lose() == []


def test_sessions_begin_anew_with_a_new_active_controller() -> None:
    """C14: no broker is fenced sooner than a session timeout after this controller's start."""
    bench = active()
    bench.broker(1)
    bench.advance(8_000)
    bench.lose()
    bench.now_ms += 60_000
    bench.gain(next_offset=bench.next_offset)
    bench.advance(9_000)
    assert not bench.machine.image.cluster.brokers[1].fenced
    bench.advance(1)
    assert bench.machine.image.cluster.brokers[1].fenced


def test_a_controller_that_stood_still_fences_nobody_for_it() -> None:
    """C14: a pause of the process is no silence of the brokers."""
    bench = active(metadata_max_idle_interval_ms=500)
    epoch = bench.broker(1)
    bench.now_ms += 60_000
    bench.machine.step(TimeAdvanced(now_ms=bench.now_ms))
    assert not bench.machine.image.cluster.brokers[1].fenced
    assert bench.machine.image.cluster.brokers[1].broker_epoch == epoch


def test_an_idle_controller_writes_no_ops() -> None:
    """B-C16: when nothing was written for the interval; 0 = never."""
    bench = active(metadata_max_idle_interval_ms=500)
    before = len(bench.log)
    assert bench.machine.next_deadline_ms() == bench.now_ms + 500
    bench.advance(499)
    assert len(bench.pending) == 0
    bench.advance(1)
    bench.broker(1, unfenced=False)
    deadline = bench.machine.next_deadline_ms()
    assert deadline == bench.now_ms + 500
    assert isinstance(bench.log[before], NoOpRecord)
    silent = active(metadata_max_idle_interval_ms=0)
    assert silent.machine.next_deadline_ms() == silent.now_ms + 300_000  # only the checks of leaders


def test_a_decision_that_cannot_be_replayed_costs_the_leadership(monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:C18, inv:RL2: a bug of ours must not reach the log; nothing of it is written, and nobody who asked waits for ever."""
    bench = active()
    bench.broker(1)
    bench.send(new("before"))
    written = len(bench.pending)

    def bad(_situation: object, _request: object) -> Decision:
        return Decision(records=(VersionedRecord(RemoveTopicRecord(), 0),), response=CreateTopicsResponse())

    monkeypatch.setitem(requests._PLAIN, CreateTopicsRequest, bad)
    effects = bench.send(new("after"))
    assert isinstance(effects[0], Resign)
    answers = [each.response.topics[0] for each in effects if isinstance(each, Answer)]
    assert [(each.name, each.error_code) for each in answers] == [
        ("before", ErrorCode.NOT_CONTROLLER),
        ("after", ErrorCode.UNKNOWN_SERVER_ERROR),
    ]
    assert len(bench.pending) == written
    assert not bench.machine.is_active


def test_one_seed_one_history() -> None:
    """Decisions depend on events and chance only: the same again gives the same records."""

    def history() -> list[object]:
        bench = active()
        bench.broker(1)
        bench.ask(new("a"))
        bench.ask(new("b"))
        return list(bench.log)

    assert history() == history()


def test_next_deadline_is_none_on_a_standby() -> None:
    """A standby waits for nothing, and time does nothing to it."""
    machine: ControllerMachine = ControllerBench().machine
    assert machine.next_deadline_ms() is None
    assert machine.step(TimeAdvanced(now_ms=5)) == []
    event = RequestArrived(token=1, request=registration(1), cause=RequestCause(api_version=4), now_ms=5, deadline_ms=9)
    assert len(machine.step(event)) == 1
