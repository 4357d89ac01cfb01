"""The controller: what it does with each event.

    standby --LeadershipGained--> activating --its first records decided--> active --LeadershipEnded, Resign--> standby

Active: one event at a time, decide -> records -> append -> answer when they are committed. Its image holds what was decided, committed
or not; when leadership ends, that is taken back (B-C23). What a broker's coming or going means for very many partitions is decided in
slices, one a step, with other events in between (`moving`). Driven by `node.metadata_plane`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

from headrace.controller import causes, event_names
from headrace.controller.activation import bootstrap_batch, fresh_sessions
from headrace.controller.broker_states import as_committed, fence_moves
from headrace.controller.derived import Derived
from headrace.controller.elections import balancing_moves, unclean_moves
from headrace.controller.events import (
    Answer,
    BrokerUnreachable,
    ControllerEffect,
    ControllerEvent,
    KRaftVersionAnswered,
    LeadershipEnded,
    LeadershipGained,
    OffsetsTaken,
    RecordsCommitted,
    RequestArrived,
    RequestKRaftVersion,
    Resign,
    TimeAdvanced,
)
from headrace.controller.features import decide_update_features
from headrace.controller.moving import SLICE, begin_moves, continue_moves
from headrace.controller.refusals import refused
from headrace.controller.requests import HANDLED, decide
from headrace.controller.statistics import ControllerStatistics
from headrace.controller.term import ActiveTerm, Asked, OngoingMoves, Surroundings, Waiting
from headrace.core.error_code import ErrorCode
from headrace.core.errors import EncodeError, PeerError
from headrace.metadata.cause import CauseKind
from headrace.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage
from headrace.metadata.replay import ReplayError
from headrace.metadata.snapshot import VersionedRecord
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.config.node_config import NodeConfig
    from headrace.controller.decision import Moves, Situation
    from headrace.controller.heartbeats import Heartbeats
    from headrace.core.ports import Rng
    from headrace.metadata.cause import Cause
    from headrace.metadata.loader import Decided
    from headrace.wire.messages.update_features import UpdateFeaturesRequest
    from headrace.wire.schema import Message

STALL_MS: Final = 1_000
"""A longer gap between two events means that this process stood still: it is woken for a NoOp more often than that."""


class ControllerMachine:
    """Decides for the cluster while its node leads the metadata quorum. `step` is called by one caller at a time (S2-12)."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        cluster_id: str,
        rng: Rng,
        bootstrap: Sequence[VersionedRecord],
        kraft_version: int = 0,
        stopwatch: Callable[[], float] | None = None,
    ) -> None:
        """`bootstrap` are the records of `bootstrap.checkpoint`: the first ones of an empty log (B-S10).

        `stopwatch` gives seconds, for the processing times of the statistics; without it there are none.
        """
        self._config = config
        self._bootstrap = tuple(bootstrap)
        self._kraft_version = kraft_version
        self._active: ActiveTerm | None = None
        self._is_stepping = False
        self._derived: Derived | None = Derived.of(EMPTY_IMAGE)
        """Of the committed image on a standby, of everything decided when active; None when it lost the thread."""
        self.statistics = ControllerStatistics(stopwatch)
        self.slice_size = SLICE
        """How many partitions one step looks at; smaller in tests of what comes in between."""
        self.most_at_once = SLICE
        """A decision of more records is replayed and appended in the step after it."""
        self._around = Surroundings(config, cluster_id, rng, self.statistics)

    @property
    def is_active(self) -> bool:
        """Requests are taken: this node leads and the first records of its term are written."""
        return self._active is not None and self._active.started

    @property
    def image(self) -> MetadataImage:
        """What is decided, committed or not; the empty image on a standby. For decisions and tests only (C3)."""
        return EMPTY_IMAGE if self._active is None else self._active.image

    @property
    def decided(self) -> Iterator[Decided]:
        """What was decided and is not visible yet, in order: the loader takes it over when it is committed. None on a standby."""
        return iter(()) if self._active is None else (each.decided for each in self._active.uncommitted)

    @property
    def queue_size(self) -> int:
        """EventQueueSize: requests whose answer is still to leave, and slices of work that are due (S2-33)."""
        active = self._active
        return 0 if active is None else len(active.waiting) + len(active.moves) + len(active.raft_asked)

    @property
    def heartbeats(self) -> Heartbeats | None:
        """The sessions of the brokers, to look at; None on a standby."""
        return None if self._active is None else self._active.heartbeats

    def next_deadline_ms(self) -> int | None:
        """When `TimeAdvanced` is due."""
        return None if self._active is None else self._active.next_deadline_ms()

    def step(self, event: ControllerEvent) -> list[ControllerEffect]:
        """Take one event; what must be done, in order."""
        assert not self._is_stepping, "an event of the controller began inside another one (S2-12)"
        self._is_stepping = True
        try:
            began = self.statistics.start()
            self._note_stall(event.now_ms)
            effects = self._take_up(event)
            name, more = self._take(event)
            effects += more
            self.statistics.end(name, began, event.now_ms)
        finally:
            self._is_stepping = False
        return effects

    def _take_up(self, event: ControllerEvent) -> list[ControllerEffect]:
        """What was postponed, unless the event decides nothing: then it may wait."""
        active = self._active
        if active is None or active.postponed is None:
            return []
        if isinstance(event, RecordsCommitted | OffsetsTaken | LeadershipEnded):
            return []
        return self._resume(active, event.now_ms)

    def _take(self, event: ControllerEvent) -> tuple[str, list[ControllerEffect]]:
        """The name of what was done, and what must be done."""
        match event:
            case RequestArrived():
                return event_names.event_name(event.request), self._request(event)
            case RecordsCommitted():
                return event_names.HANDLE_COMMIT, self._committed(event)
            case TimeAdvanced():
                return self._time_advanced(event.now_ms)
            case OffsetsTaken():
                return event_names.HANDLE_COMMIT, self._offsets_taken(event)
            case BrokerUnreachable():
                return event_names.FENCE_UNREACHABLE_BROKER, self._unreachable(event)
            case KRaftVersionAnswered():
                return "updateFeatures", self._kraft_version_answered(event)
            case LeadershipGained():
                return event_names.COMPLETE_ACTIVATION, self._activate(event)
            case LeadershipEnded():
                return event_names.RENOUNCE, self._deactivate(event.image)
            case _:
                assert_never(event)

    def _note_stall(self, now_ms: int) -> None:
        """While this process stood still, heartbeats may have waited unread; the time does not count (S2-30, C14)."""
        active = self._active
        if active is None:
            return
        gap = now_ms - active.last_event_ms
        if gap > STALL_MS + self._config.metadata_max_idle_interval_ms > STALL_MS:
            active.heartbeats.forgive(gap)
        active.last_event_ms = max(now_ms, active.last_event_ms)

    # Activation

    def _activate(self, event: LeadershipGained) -> list[ControllerEffect]:
        """Sessions begin anew, an open transaction is aborted, an empty log gets the bootstrap records (B-C21)."""
        assert self._active is None, "leadership was gained twice"
        derived = self._derived
        if derived is None or derived.image is not event.image:
            derived = Derived.of(event.image)
        self._derived = derived
        if event.kraft_version is not None:
            self._kraft_version = event.kraft_version
        self._active = active = ActiveTerm(
            event,
            self._around,
            derived,
            heartbeats=fresh_sessions(event, session_timeout_ms=self._config.broker_session_timeout_ms),
            kraft_version=self._kraft_version,
        )
        self.statistics.activations += 1
        effects: list[ControllerEffect] = []
        if event.in_transaction:
            abort = VersionedRecord(AbortTransactionRecord(reason="Controller failover"), 0, causes.ACTIVATION)
            effects += active.append([abort], event.now_ms)
        if event.image.features.metadata_version is None:
            records: list[VersionedRecord] = []
            batch = bootstrap_batch(self._bootstrap, self._config.min_insync_replicas)
            active.replay(causes.caused(batch, causes.ACTIVATION), records)
            effects += active.write(records, event.now_ms)
        active.started = True
        active.note_write(event.now_ms)
        if self._config.auto_leader_rebalance_enable:
            active.balance_at_ms = event.now_ms + self._config.leader_imbalance_check_interval_seconds * 1_000
        is_led = not derived.index.topics_with(NO_LEADER)
        active.unclean_at_ms = event.now_ms + (self._config.unclean_leader_election_interval_ms if is_led else 0)
        return effects

    def _deactivate(self, committed: MetadataImage | None) -> list[ControllerEffect]:
        """Everything that was not committed is forgotten; who waited is told to find the new controller (B-C23, S2-32).

        Without the committed image (a fault of ours) the indexes are made anew when they are needed.
        """
        active, self._active = self._active, None
        if active is None:
            return []
        self.statistics.waiting = 0
        if committed is None:
            self._derived = None
        else:
            active.undo(committed)
        error = PeerError(ErrorCode.NOT_CONTROLLER, "The active controller changed before the outcome was committed.")
        asked = [each.asked for each in active.waiting]
        asked += [each.asked for each in active.moves if each.asked is not None]
        if active.postponed is not None:
            asked.append(active.postponed.asked)
        of_raft = (self._refusal(event, error) for event in active.raft_asked.values())
        return [*(_refuse(each, error) for each in asked), *of_raft]

    # Requests

    def _request(self, event: RequestArrived) -> list[ControllerEffect]:
        active = self._active
        if active is None or not active.started:
            return [self._refusal(event, PeerError(ErrorCode.NOT_CONTROLLER, "This is not the active controller."))]
        self._note_queued(event)
        if self._is_too_late(event):
            return self._too_late(event)
        assert type(event.request) in HANDLED, f"the controller does not take {type(event.request).__name__}"
        try:
            return self._decide(event, active)
        except PeerError as error:
            return [self._refusal(event, error)]
        except EncodeError as error:
            return [self._refusal(event, PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))]
        except ReplayError as error:
            gives_up = self._fault(f"a decision on {type(event.request).__name__} makes no sense: {error}")
            return [*gives_up, self._refusal(event, PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))]

    def _decide(self, event: RequestArrived, active: ActiveTerm) -> list[ControllerEffect]:
        """Raises PeerError: refused; EncodeError, ReplayError: a bug of ours."""
        decision = decide(active.situation(event.cause, event.now_ms), event.request, active.heartbeats)
        asked = self._asked(event)
        if decision.kraft_level is not None:
            return self._ask_raft(active, event, decision.kraft_level)
        if decision.moves:
            why = causes.cause_of_request(event.request, event.cause)
            work = OngoingMoves(decision.moves, event.cause, asked, decision.response, why=why)
            return self._begin(active, work, decision.records, event.now_ms)
        records = causes.caused_by_request(decision.records, event.request, event.cause)
        if len(records) > self.most_at_once:
            active.postpone(records, asked, decision.response, event.now_ms, is_atomic=decision.is_atomic)
            return []
        appended = active.append(records, event.now_ms, is_atomic=decision.is_atomic)
        return [*appended, *self._answer_when_committed(active, asked, decision.response, event.now_ms)]

    def _resume(self, active: ActiveTerm, now_ms: int) -> list[ControllerEffect]:
        """What was decided on very many things is replayed and appended, before anything else is decided (C4)."""
        postponed = active.postponed
        assert postponed is not None, "something was postponed"
        try:
            appended = active.resume(now_ms)
        except ReplayError as error:
            asked = postponed.asked
            gives_up = self._fault(f"a decision on {type(asked.request).__name__} makes no sense: {error}")
            unknown = PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
            return [*gives_up, _refuse(asked, unknown)]
        return [*appended, *self._answer_when_committed(active, postponed.asked, postponed.response, now_ms)]

    def _asked(self, event: RequestArrived) -> Asked:
        received = event.now_ms if event.received_ms < 0 else event.received_ms
        return Asked(
            event.token, event.request, event.cause.api_version, event_names.event_name(event.request), received
        )

    def _note_queued(self, event: RequestArrived) -> None:
        waited = 0 if event.received_ms < 0 else max(0, event.now_ms - event.received_ms)
        self.statistics.times(event_names.event_name(event.request)).queued.add(waited)

    def _answer_when_committed(
        self, active: ActiveTerm, asked: Asked, response: Message, now_ms: int
    ) -> list[ControllerEffect]:
        """The answer leaves when everything decided so far is committed; at once when it is (C3)."""
        after = active.next_offset
        if after <= active.committed:
            return [self._answer(asked, response, now_ms, active.image)]
        active.waiting.append(Waiting(after, asked, response))
        return []

    def _answer(self, asked: Asked, response: Message, now_ms: int, committed: MetadataImage) -> Answer:
        if isinstance(response, BrokerHeartbeatResponse):
            response = as_committed(asked.request, response, committed)
        self.statistics.times(asked.name).committed.add(max(0, now_ms - asked.received_ms))
        return Answer(token=asked.token, response=response)

    def _is_too_late(self, event: RequestArrived) -> bool:
        """A heartbeat must not wait longer than half its interval (S2-30; B-C27)."""
        if event.now_ms >= event.deadline_ms or getattr(event.request, "timeout_ms", 1) <= 0:
            return True
        is_heartbeat = isinstance(event.request, BrokerHeartbeatRequest) and event.received_ms >= 0
        return is_heartbeat and event.now_ms - event.received_ms > self._config.broker_heartbeat_interval_ms // 2

    def _too_late(self, event: RequestArrived) -> list[ControllerEffect]:
        """No effect (B-C27). A heartbeat that waited too long still shows that its broker lives (S2-30)."""
        active = self._active
        request = event.request
        self.statistics.timed_out += 1
        if active is not None and isinstance(request, BrokerHeartbeatRequest):
            self.statistics.timed_out_heartbeats += 1
            broker = active.image.cluster.brokers.get(request.broker_id)
            if broker is not None and broker.broker_epoch == request.broker_epoch:
                offset = request.current_metadata_offset
                active.heartbeats.touch(request.broker_id, metadata_offset=offset, now_ms=event.now_ms)
        return [self._refusal(event, PeerError(ErrorCode.REQUEST_TIMED_OUT, "The request waited past its deadline."))]

    def _refusal(self, event: RequestArrived, error: PeerError) -> Answer:
        return Answer(token=event.token, response=refused(event.request, error, api_version=event.cause.api_version))

    def _fault(self, reason: str) -> list[ControllerEffect]:
        """A bug of ours: nothing of the decision was written; this controller gives up."""
        assert self._active is not None
        self.statistics.faults += 1
        epoch = self._active.epoch
        return [Resign(epoch=epoch, reason=reason), *self._deactivate(None)]

    # The level of the quorum itself

    def _ask_raft(self, active: ActiveTerm, event: RequestArrived, level: int) -> list[ControllerEffect]:
        """Raft writes kraft.version and the voters; the other features follow when it has taken it (B-U03, KIP-853)."""
        active.raft_asked[event.token] = event
        request: UpdateFeaturesRequest = event.request
        order = RequestKRaftVersion(
            token=event.token, epoch=active.epoch, level=level, validate_only=request.validate_only
        )
        return [order]

    def _kraft_version_answered(self, event: KRaftVersionAnswered) -> list[ControllerEffect]:
        active = self._active
        asked = None if active is None else active.raft_asked.pop(event.token, None)
        if active is None or asked is None:
            return []
        if event.error is not ErrorCode.NONE:
            return [self._refusal(asked, PeerError(event.error, event.message or event.error.name))]
        situation = active.situation(asked.cause, event.now_ms)
        decision = decide_update_features(situation, asked.request, is_kraft_version_taken=True)
        if decision.kraft_level is not None and not asked.request.validate_only:
            active.kraft_version = decision.kraft_level
        records = causes.caused_by_request(decision.records, asked.request, asked.cause)
        effects: list[ControllerEffect] = [*active.append(records, event.now_ms)]
        return effects + self._answer_when_committed(active, self._asked(asked), decision.response, event.now_ms)

    def _unreachable(self, event: BrokerUnreachable) -> list[ControllerEffect]:
        """A process that is gone is fenced at once (design: failure detection); the one exception to C14."""
        active = self._active
        if active is None or not active.started or not self._config.headrace_fence_unreachable_brokers:
            return []
        broker = active.image.cluster.brokers.get(event.broker_id)
        if broker is None or broker.broker_epoch != event.broker_epoch:
            return []
        active.heartbeats.ended(event.broker_id)
        if broker.fenced or (event.broker_id in active.leaving() and event.broker_id not in active.losing()):
            return []
        self.statistics.fenced_by_refusal += 1
        return self._fence(active, event.broker_id, CauseKind.CONNECTION_REFUSED, event.now_ms)

    def _fence(self, active: ActiveTerm, broker_id: int, kind: CauseKind, now_ms: int) -> list[ControllerEffect]:
        active.heartbeats.fenced(broker_id)
        broker = active.image.cluster.brokers[broker_id]
        moves = fence_moves(active.situation(causes.NOBODY_ASKED, now_ms), broker, causes.about_broker(kind, broker_id))
        return self._begin(active, OngoingMoves((moves,), causes.NOBODY_ASKED), (), now_ms)

    def _begin(
        self, active: ActiveTerm, work: OngoingMoves, first: Sequence[VersionedRecord], now_ms: int
    ) -> list[ControllerEffect]:
        """Raises as `ActiveTerm.append`, but for what nobody asked for, which is a bug of ours."""
        try:
            appended = begin_moves(active, work, first, now_ms, slice_size=self.slice_size)
        except (ReplayError, EncodeError, PeerError) as error:
            return self._fault(f"the moves of broker {work.leaving} make no sense: {error}")
        return [*appended, *self._after_slice(active, work, now_ms)]

    def _continue(self, active: ActiveTerm, now_ms: int) -> list[ControllerEffect]:
        work = active.moves[0]
        try:
            appended = continue_moves(active, now_ms, slice_size=self.slice_size)
        except (ReplayError, EncodeError, PeerError) as error:
            return self._fault(f"the moves of broker {work.leaving} make no sense: {error}")
        return [*appended, *self._after_slice(active, work, now_ms)]

    def _after_slice(self, active: ActiveTerm, work: OngoingMoves, now_ms: int) -> list[ControllerEffect]:
        """Who asked for moves that are done gets the answer when they are committed."""
        self.statistics.waiting = len(active.moves)
        if work.queue or work.asked is None or work.response is None:
            return []
        return self._answer_when_committed(active, work.asked, work.response, now_ms)

    # The log

    def _committed(self, event: RecordsCommitted) -> list[ControllerEffect]:
        active = self._active
        if active is None:
            self._follow(event)
            return []
        active.committed_to(event.upto, event.now_ms)
        active.visible(event.image)
        effects: list[ControllerEffect] = []
        while active.waiting and active.waiting[0].after <= active.committed:
            each = active.waiting.popleft()
            effects.append(self._answer(each.asked, each.response, event.now_ms, event.image))
        return effects

    def _follow(self, event: RecordsCommitted) -> None:
        """A standby keeps its indexes in step, so that a failover does not cost all partitions (S2-31)."""
        derived, delta = self._derived, event.delta
        if derived is None or derived.image is event.image:
            return
        if delta is not None and delta.previous is derived.image and delta.image is event.image:
            derived.follow(delta)
        else:
            self._derived = None

    def _offsets_taken(self, event: OffsetsTaken) -> list[ControllerEffect]:
        if self._active is not None and self._active.epoch == event.epoch:
            self._active.next_offset = event.next_offset
        return []

    # Time

    def _time_advanced(self, now_ms: int) -> tuple[str, list[ControllerEffect]]:
        """What is due; S2-11: each of these is an event of its own, in this order."""
        active = self._active
        if active is None or not active.started:
            return event_names.WRITE_NO_OP, []
        effects = self._fence_expired(active, now_ms)
        if self._active is not active:
            return event_names.FENCE_STALE_BROKERS, effects  # it gave up
        if active.moves:
            return event_names.CONTINUE_MOVES, effects + self._continue(active, now_ms)
        if effects:
            return event_names.FENCE_STALE_BROKERS, effects
        if active.balance_at_ms is not None and now_ms >= active.balance_at_ms:
            return event_names.BALANCE_LEADERS, self._balance(active, now_ms)
        if active.unclean_at_ms is not None and now_ms >= active.unclean_at_ms:
            return event_names.ELECT_UNCLEAN, self._elect_unclean(active, now_ms)
        if active.no_op_at_ms is not None and now_ms >= active.no_op_at_ms:
            return event_names.WRITE_NO_OP, [*active.append([VersionedRecord(NoOpRecord(), 0)], now_ms)]
        return event_names.WRITE_NO_OP, []

    def _fence_expired(self, active: ActiveTerm, now_ms: int) -> list[ControllerEffect]:
        """Brokers that were silent for a session; one decision each, so that the next sees what the one did (C14)."""
        effects: list[ControllerEffect] = []
        for broker_id in active.heartbeats.expired(now_ms):
            broker = active.image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                active.heartbeats.fenced(broker_id)
                continue
            self.statistics.fenced_by_timeout += 1
            effects += self._fence(active, broker_id, CauseKind.SESSION_EXPIRED, now_ms)
            if self._active is not active:
                break  # a fault: this term is over
        return effects

    def _balance(self, active: ActiveTerm, now_ms: int) -> list[ControllerEffect]:
        active.balance_at_ms = now_ms + self._config.leader_imbalance_check_interval_seconds * 1_000
        return self._at_its_time(active, causes.BALANCING, balancing_moves, now_ms)

    def _elect_unclean(self, active: ActiveTerm, now_ms: int) -> list[ControllerEffect]:
        active.unclean_at_ms = now_ms + self._config.unclean_leader_election_interval_ms
        return self._at_its_time(active, causes.UNCLEAN_TIMER, unclean_moves, now_ms)

    def _at_its_time(
        self, active: ActiveTerm, why: Cause, moves: Callable[[Situation], Moves], now_ms: int
    ) -> list[ControllerEffect]:
        work = OngoingMoves((moves(active.situation(causes.NOBODY_ASKED, now_ms)),), causes.NOBODY_ASKED, why=why)
        return self._begin(active, work, (), now_ms)


def _refuse(asked: Asked, error: PeerError) -> Answer:
    return Answer(token=asked.token, response=refused(asked.request, error, api_version=asked.api_version))
