"""Through which states does a broker go, and what does it say on the way?"""

from __future__ import annotations

import random

import pytest

from headrace.config.node_config import NodeConfig
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ONE_UUID
from headrace.node.lifecycle import (
    BrokerIdentity,
    BrokerLifecycle,
    BrokerState,
    LifecycleEffect,
    NotedDirectories,
    RecoverLogs,
    StartFailed,
    StateChanged,
)
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse


class Controller:
    """The controller's side of the port: keeps what was asked, answers when told."""

    def __init__(self) -> None:
        self.asked: list[tuple[object, Deferred]] = []

    def send(self, request: object, context: RequestContext, *, deadline_ms: int) -> Deferred:
        """As the port's."""
        deferred = Deferred()
        self.asked.append((request, deferred))
        return deferred

    def answer(self, response: object) -> object:
        """Answer the oldest question, and give it."""
        request, deferred = self.asked.pop(0)
        deferred.complete(Reply(response))
        return request


class Setting:
    """A lifecycle with its controller and its effects."""

    def __init__(self, **settings: int | bool | str) -> None:
        self.controller = Controller()
        self.effects: list[LifecycleEffect] = []
        self.machine = BrokerLifecycle(
            config=NodeConfig(node_id=4, log_dirs=("/data",), **settings),  # type: ignore[arg-type]
            identity=BrokerIdentity(
                cluster_id="c",
                incarnation_id=ONE_UUID,
                listeners=(),
                directory_ids=(ONE_UUID,),
                previous_broker_epoch=17,
            ),
            controller=self.controller,
            rng=random.Random(1),
            metadata_offset=lambda: 33,
            emit=self.effects.append,
        )

    def heartbeat(self, *, now_ms: int, **answer: bool) -> BrokerHeartbeatRequest:
        """Time passes, the heartbeat that is due is answered."""
        self.machine.tick(now_ms)
        request = self.controller.answer(BrokerHeartbeatResponse(**answer))
        assert isinstance(request, BrokerHeartbeatRequest)
        return request

    def run_up(self) -> None:
        """To RUNNING, at time 30."""
        self.machine.start(0)
        self.controller.answer(BrokerRegistrationResponse(broker_epoch=50))
        self.heartbeat(now_ms=10, is_caught_up=True)
        self.machine.recovered(20)
        self.heartbeat(now_ms=30, is_caught_up=True, is_fenced=False)
        assert self.machine.state is BrokerState.RUNNING


def test_a_broker_comes_up_in_the_order_of_b_k02() -> None:
    """B-K01, B-K02: STARTING 1, RECOVERY 2, RUNNING 3; fenced until its logs are loaded."""
    setting = Setting()
    setting.machine.start(0)
    registration = setting.controller.answer(BrokerRegistrationResponse(broker_epoch=50))
    assert isinstance(registration, BrokerRegistrationRequest)
    assert (registration.broker_id, registration.previous_broker_epoch) == (4, 17)
    first = setting.heartbeat(now_ms=10, is_caught_up=False)
    assert (first.broker_epoch, first.want_fence, first.current_metadata_offset) == (50, True, 33)
    setting.heartbeat(now_ms=30, is_caught_up=True)
    assert setting.effects[-1] == RecoverLogs()
    setting.machine.recovered(40)
    ready = setting.heartbeat(now_ms=40, is_caught_up=True, is_fenced=False)
    assert not ready.want_fence
    states = [effect.state for effect in setting.effects if isinstance(effect, StateChanged)]
    assert [int(state) for state in states] == [1, 2, 3]


def test_a_broker_stays_in_recovery_until_it_is_unfenced() -> None:
    setting = Setting()
    setting.machine.start(0)
    setting.controller.answer(BrokerRegistrationResponse(broker_epoch=50))
    setting.heartbeat(now_ms=10, is_caught_up=True)
    setting.machine.recovered(20)
    setting.heartbeat(now_ms=20, is_caught_up=True, is_fenced=True)
    assert setting.machine.state is BrokerState.RECOVERY


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_registration_is_tried_again_with_growing_waits(error: ErrorCode) -> None:
    """B-K09: 100 ms, doubled, jitter 2 %, up to the session timeout."""
    setting = Setting(broker_session_timeout_ms=400)
    setting.machine.start(0)
    now_ms, waits = 0, []
    for _ in range(4):
        setting.controller.answer(BrokerRegistrationResponse(error_code=error))
        due = setting.machine.next_deadline_ms()
        assert due is not None
        waits.append(due - now_ms)
        now_ms = due
        setting.machine.tick(now_ms)
    assert [round(wait / 10) * 10 for wait in waits] == [100, 200, 400, 400]


def test_a_refused_registration_ends_the_start() -> None:
    """S1-28: a wrong cluster id is not tried again."""
    setting = Setting()
    setting.machine.start(0)
    setting.controller.answer(BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID))
    assert setting.effects[-2] == StartFailed(reason="the controller refused the registration: INCONSISTENT_CLUSTER_ID")
    assert setting.machine.state is BrokerState.SHUTTING_DOWN


def test_without_a_controller_the_broker_gives_up() -> None:
    """S1-13: after `initial.broker.registration.timeout.ms`."""
    setting = Setting(initial_broker_registration_timeout_ms=2000)
    setting.machine.start(0)
    setting.machine.tick(1999)
    assert setting.machine.state is BrokerState.STARTING
    setting.machine.tick(2000)
    assert any(isinstance(effect, StartFailed) for effect in setting.effects)


def test_a_registered_broker_catches_up_for_as_long_as_it_takes() -> None:
    """S1-13, S1-56: the timeout is that of the registration; a long metadata log is no reason to give up."""
    setting = Setting(initial_broker_registration_timeout_ms=2000)
    setting.machine.start(0)
    setting.controller.answer(BrokerRegistrationResponse(broker_epoch=7))
    for now_ms in range(0, 10_000, 500):
        setting.machine.tick(now_ms)
        while setting.controller.asked:
            setting.controller.answer(BrokerHeartbeatResponse(is_caught_up=False))
    waiting = setting.machine.state
    assert not any(isinstance(effect, StartFailed) for effect in setting.effects)
    setting.machine.tick(10_000)
    setting.controller.answer(BrokerHeartbeatResponse(is_caught_up=True))
    assert (waiting, setting.machine.state) == (BrokerState.STARTING, BrokerState.RECOVERY)


def test_heartbeats_come_at_their_interval() -> None:
    """S0-14, S1-14, S1-62: `broker.heartbeat.interval.ms`, 2000 by default."""
    setting = Setting()
    setting.run_up()
    assert setting.machine.next_deadline_ms() == 2030
    setting.heartbeat(now_ms=2030, is_caught_up=True, is_fenced=False)
    assert setting.machine.next_deadline_ms() == 4030


def test_one_heartbeat_is_under_way_at_most() -> None:
    """S1-62: whatever is to be told at once waits for the answer, and goes with the next; a failure is tried again after 100 ms."""
    setting = Setting()
    setting.run_up()
    setting.machine.tick(2_030)
    setting.machine.begin_shutdown(2_040)
    setting.machine.tick(2_050)
    assert len(setting.controller.asked) == 1
    first = setting.controller.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert isinstance(first, BrokerHeartbeatRequest)
    assert not first.want_shut_down
    setting.machine.tick(2_060)
    assert len(setting.controller.asked) == 1
    second = setting.controller.answer(BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert isinstance(second, BrokerHeartbeatRequest)
    assert second.want_shut_down
    assert setting.machine.next_deadline_ms() == 2_160


def test_a_shutdown_asks_at_once_then_after_50_ms_then_at_the_interval() -> None:
    """B-K03: until the controller says that the broker may go."""
    setting = Setting()
    setting.run_up()
    setting.machine.begin_shutdown(1000)
    assert setting.machine.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    assert setting.heartbeat(now_ms=1000, is_caught_up=True).want_shut_down
    assert setting.machine.next_deadline_ms() == 1050
    setting.heartbeat(now_ms=1050, is_caught_up=True)
    assert setting.machine.next_deadline_ms() == 3050
    setting.heartbeat(now_ms=3050, is_caught_up=True, should_shut_down=True)
    assert setting.effects[-1] == StateChanged(state=BrokerState.SHUTTING_DOWN)


def test_a_shutdown_ends_without_any_controller() -> None:
    """B-K03: with all controllers dead it still ends: after a session without an answer it counts as gone anyway."""
    setting = Setting()
    setting.run_up()
    setting.machine.begin_shutdown(1000)
    setting.machine.tick(1000)
    setting.machine.tick(9999)
    assert setting.machine.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    setting.machine.tick(10_000)
    assert setting.effects[-1] == StateChanged(state=BrokerState.SHUTTING_DOWN)


@pytest.mark.parametrize(
    ("settings", "timeout_ms"),
    [({}, 300_000), ({"headrace_controlled_shutdown_timeout_ms": 12_000}, 12_000)],
)
def test_a_shutdown_ends_at_its_timeout(settings: dict[str, int | bool], timeout_ms: int) -> None:
    """B-K03: also when the controller answers, and never lets the broker go; 300 s unless it is set."""
    setting = Setting(**settings)
    setting.run_up()
    setting.machine.begin_shutdown(1000)
    for now_ms in range(1000, 1000 + timeout_ms, 5_000):
        setting.heartbeat(now_ms=now_ms, is_caught_up=True)
    setting.machine.tick(999 + timeout_ms)
    assert setting.machine.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    setting.machine.tick(1000 + timeout_ms)
    assert setting.effects[-1] == StateChanged(state=BrokerState.SHUTTING_DOWN)


def test_another_controller_hears_of_the_broker_at_once() -> None:
    """B-K11: a new active controller knows no heartbeat times yet."""
    setting = Setting()
    setting.run_up()
    setting.machine.controller_changed(1000)
    assert setting.machine.next_deadline_ms() == 1000


def test_without_controlled_shutdown_it_stops_at_once() -> None:
    setting = Setting(controlled_shutdown_enable=False)
    setting.run_up()
    setting.machine.begin_shutdown(1000)
    assert setting.machine.state is BrokerState.SHUTTING_DOWN


def test_an_error_that_nobody_knows_yet_does_not_end_the_heartbeats() -> None:
    """input:B29, B-K09: a newer controller may say what this node has no name for; it is asked again."""
    setting = Setting()
    setting.machine.start(0)
    setting.controller.answer(BrokerRegistrationResponse(error_code=9_999))
    setting.machine.tick(1_000)
    setting.controller.answer(BrokerRegistrationResponse(broker_epoch=50))
    setting.machine.tick(1_010)
    setting.controller.answer(BrokerHeartbeatResponse(error_code=9_999))
    setting.machine.tick(2_000)
    assert isinstance(setting.controller.asked[0][0], BrokerHeartbeatRequest)


def test_an_unregistered_broker_registers_again() -> None:
    """S1-73, S3-29: at once, as the same process, in the state that it was in; the next heartbeats carry the new epoch until it is unfenced."""
    setting = Setting()
    told: list[object] = []
    setting.machine.on_trouble = told.append
    setting.machine.on_registered_again = lambda: told.append(setting.machine.broker_epoch)
    setting.run_up()
    setting.machine.tick(3_000)
    setting.controller.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert (setting.machine.broker_epoch, setting.machine.is_fenced, setting.machine.unregistrations) == (-1, True, 1)
    setting.machine.tick(3_000)
    request = setting.controller.answer(BrokerRegistrationResponse(broker_epoch=70))
    assert isinstance(request, BrokerRegistrationRequest)
    assert request.incarnation_id == ONE_UUID
    assert told == ["this broker is no longer registered; it registers again", 70]
    first = setting.heartbeat(now_ms=3_000, is_caught_up=True, is_fenced=True)
    assert (first.broker_epoch, first.want_fence) == (70, False)
    setting.heartbeat(now_ms=3_010, is_caught_up=True, is_fenced=False)
    assert setting.machine.next_deadline_ms() == 3_010 + 2_000
    assert setting.effects[-1] == StateChanged(state=BrokerState.RUNNING)
    assert not setting.machine.is_fenced


def test_an_operator_hears_that_another_process_has_the_id() -> None:
    """S1-29: once, and not of one that died a moment ago: a minute without a word looks like a hang."""
    setting = Setting()
    told: list[str] = []
    setting.machine.on_trouble = told.append
    setting.machine.start(0)
    first = 0
    for now_ms in range(0, 10_000, 50):
        setting.machine.tick(now_ms)
        while setting.controller.asked:
            setting.controller.answer(
                BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_epoch=-1)
            )
        first = first or (now_ms if told else 0)
    assert len(told) == 1
    assert "registered as broker 4" in told[0]
    assert "another node.id" in told[0]
    assert 1_000 < first < 3_000


def test_a_broker_whose_id_was_taken_gives_up_at_last() -> None:
    """S1-73, S1-29: while the newer process lives it is refused with 101, and then it ends."""
    setting = Setting(initial_broker_registration_timeout_ms=1_000)
    setting.run_up()
    setting.machine.tick(3_000)
    setting.controller.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    for now_ms in range(3_000, 4_100, 50):
        setting.machine.tick(now_ms)
        while setting.controller.asked:
            setting.controller.answer(
                BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION, broker_epoch=-1)
            )
    assert any(isinstance(each, StartFailed) for each in setting.effects)
    assert setting.machine.state is BrokerState.SHUTTING_DOWN


def test_an_unregistered_broker_ends_where_that_is_wished() -> None:
    """S1-73: `headrace.when.unregistered` = exit."""
    setting = Setting(headrace_when_unregistered="exit")
    setting.run_up()
    setting.machine.tick(3_000)
    setting.controller.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    assert setting.effects[-2:] == [
        StartFailed(reason="this broker is no longer registered, and headrace.when.unregistered is exit"),
        StateChanged(state=BrokerState.SHUTTING_DOWN),
    ]


@pytest.mark.parametrize("is_asked_before", [True, False])
def test_an_unregistered_broker_that_stops_need_not_wait(is_asked_before: bool) -> None:
    """S1-73, B-K03: it leads nothing, so that nothing has to be moved."""
    setting = Setting()
    setting.run_up()
    if is_asked_before:
        setting.machine.begin_shutdown(2_500)
    setting.machine.tick(3_000)
    setting.controller.answer(BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH))
    setting.machine.begin_shutdown(3_000)
    assert setting.machine.state is BrokerState.SHUTTING_DOWN


def test_a_failed_directory_is_told_at_once_and_with_every_heartbeat() -> None:
    """B-K08, KIP-858: not with the next heartbeat that is due anyway."""
    setting = Setting()
    setting.run_up()
    setting.machine.directory_failed(ONE_UUID, 100)
    assert setting.machine.next_deadline_ms() == 100
    told = setting.heartbeat(now_ms=100, is_caught_up=True, is_fenced=False)
    assert told.offline_log_dirs == (ONE_UUID,)
    again = setting.heartbeat(now_ms=2_100, is_caught_up=True, is_fenced=False)
    assert again.offline_log_dirs == (ONE_UUID,)
    setting.machine.tick(40_000)
    assert setting.machine.state is BrokerState.RUNNING


def test_a_failed_directory_that_nobody_hears_of_in_time_ends_the_broker() -> None:
    """B-K08: log.dir.failure.timeout.ms; an answer to a heartbeat of before it failed says nothing."""
    setting = Setting(log_dir_failure_timeout_ms=5_000)
    setting.run_up()
    setting.machine.tick(2_030)
    setting.machine.directory_failed(ONE_UUID, 2_040)
    before = setting.controller.answer(BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False))
    assert isinstance(before, BrokerHeartbeatRequest)
    assert before.offline_log_dirs == ()
    setting.machine.tick(2_050)
    assert len(setting.controller.asked) == 1
    setting.machine.tick(7_039)
    assert not [effect for effect in setting.effects if isinstance(effect, StartFailed)]
    setting.machine.tick(7_040)
    assert setting.effects[-1] == StateChanged(state=BrokerState.SHUTTING_DOWN)
    (failed,) = [effect for effect in setting.effects if isinstance(effect, StartFailed)]
    assert "log.dir.failure.timeout.ms" in failed.reason


def test_a_registration_that_lacks_the_directories_is_completed_and_a_refusal_harms_nothing() -> None:
    """B-K09, KIP-858: asked for when metadata tell so, once a heartbeat interval until they say that it was done; heartbeats go on meanwhile."""
    setting = Setting(broker_heartbeat_interval_ms=2_000)
    setting.run_up()
    setting.machine.noted_directories = lambda epoch: NotedDirectories.NOT_YET if epoch == 50 else NotedDirectories.YES
    for now_ms, refused in ((2_100, ErrorCode.INVALID_REGISTRATION), (2_200, None), (4_200, ErrorCode.NONE)):
        setting.machine.metadata_advanced(now_ms)
        setting.machine.tick(now_ms)
        asked = [request for request, _ in setting.controller.asked]
        assert [type(each) for each in asked] == ([] if refused is None else [BrokerRegistrationRequest])
        if refused is not None:
            error = BrokerRegistrationResponse(error_code=refused, broker_epoch=50 if not refused else -1)
            setting.controller.answer(error)
            beat = setting.heartbeat(now_ms=now_ms, is_caught_up=True, is_fenced=False)
            assert (beat.broker_epoch, beat.want_fence) == (50, False)
    assert setting.machine.state is BrokerState.RUNNING
    setting.machine.begin_shutdown(9_000)
    setting.machine.metadata_advanced(9_000)
    beat = setting.heartbeat(now_ms=9_000)
    assert beat.want_shut_down


def test_a_directory_that_fails_where_nobody_takes_note_of_it_stops_the_broker() -> None:
    """B-K08, KIP-858: below 3.7-IV2 no controller moves the leaders away, however well the heartbeat is answered; Kafka has no second directory there."""
    setting = Setting(log_dir_failure_timeout_ms=5_000, broker_heartbeat_interval_ms=2_000)
    setting.run_up()
    setting.machine.noted_directories = lambda _: NotedDirectories.NEVER
    setting.machine.directory_failed(ONE_UUID, 1_000)
    for now_ms in (1_000, 3_000, 5_000):
        told = setting.heartbeat(now_ms=now_ms, is_caught_up=True, is_fenced=False)
        assert told.offline_log_dirs == (ONE_UUID,)
    assert not any(isinstance(effect, StartFailed) for effect in setting.effects)
    setting.machine.tick(6_000)
    assert setting.machine.state is BrokerState.SHUTTING_DOWN
    assert any(isinstance(effect, StartFailed) and "failed" in effect.reason for effect in setting.effects)
