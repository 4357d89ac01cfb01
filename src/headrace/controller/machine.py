"""What does the controller do with each event?

    standby --LeadershipGained--> activating --its first records committed--> active --LeadershipEnded, Resign--> standby

Active: one request at a time, decide -> records -> append -> answer when they are committed. Its image holds what was decided, committed
or not; when leadership ends, that image and everything derived from it are dropped (B-C23). Driven by `node.metadata_plane`.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, assert_never

from headrace.controller.brokers import (
    check_broker_epoch,
    decide_controller_registration,
    decide_heartbeat,
    decide_registration,
    fence_records,
)
from headrace.controller.configs import decide_alter_configs, decide_incremental_alter_configs
from headrace.controller.decision import Decision, Situation, batches
from headrace.controller.events import (
    Answer,
    AppendRecords,
    ControllerEffect,
    ControllerEvent,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestCause,
    Resign,
    TimeAdvanced,
)
from headrace.controller.features import decide_update_features
from headrace.controller.heartbeats import BrokerControlState, Heartbeats
from headrace.controller.isr_index import IsrIndex
from headrace.controller.more_partitions import decide_create_partitions
from headrace.controller.partitions import decide_alter_partition
from headrace.controller.producer_ids import decide_allocation
from headrace.controller.refusals import refused
from headrace.controller.topic_names import TopicNames
from headrace.controller.topics import decide_create_topics, decide_delete_topics
from headrace.core.error_code import ErrorCode
from headrace.core.errors import EncodeError, PeerError
from headrace.core.ids import TopicIdPartition
from headrace.metadata.bootstrap import bootstrap_metadata_version
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.replay import ReplayError, replay_all
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import has_metadata_transactions
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_configs import AlterConfigsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.update_features import UpdateFeaturesRequest
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.no_op_record import NoOpRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.core.node_config import NodeConfig
    from headrace.core.ports import Rng
    from headrace.wire.schema import Message

_TOPIC, _PARTITION, _PARTITION_CHANGE, _REMOVE_TOPIC = 2, 3, 5, 9

_BATCH_OVERHEAD: Final = 100
STALL_MS: Final = 1_000
"""A longer gap between two events means that this process stood still: it is woken for a NoOp more often than that."""


class _Waiting(NamedTuple):
    """An answer that leaves when everything below `after` is committed."""

    after: int
    token: int
    request: Any
    response: Message


class _Active:
    """What only an active controller has; dropped as a whole when leadership ends."""

    def __init__(self, event: LeadershipGained, heartbeats: Heartbeats) -> None:
        self.epoch = event.epoch
        self.image = event.image
        self.next_offset = event.next_offset
        self.committed = event.next_offset
        self.index = IsrIndex.of(event.image)
        self.names = TopicNames(event.image.topics.by_name)
        self.heartbeats = heartbeats
        self.waiting: deque[_Waiting] = deque()
        self.no_op_at_ms: int | None = None
        self.last_event_ms = event.now_ms
        self.started = False


class ControllerMachine:
    """Decides for the cluster while its node leads the metadata quorum. `step` is called by one caller at a time."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        cluster_id: str,
        rng: Rng,
        bootstrap: Sequence[VersionedRecord],
        kraft_version: int = 0,
    ) -> None:
        """`bootstrap` are the records of `bootstrap.checkpoint`: the first ones of an empty log (B-S10)."""
        self._config = config
        self._cluster_id = cluster_id
        self._rng = rng
        self._bootstrap = tuple(bootstrap)
        self._kraft_version = kraft_version
        self._active: _Active | None = None
        self._held: list[RequestArrived] = []
        self._decisions: dict[type, Callable[[Situation, Any], Decision]] = {
            AllocateProducerIdsRequest: decide_allocation,
            AlterConfigsRequest: decide_alter_configs,
            AlterPartitionRequest: _alter_partition,
            BrokerHeartbeatRequest: self._heartbeat,
            BrokerRegistrationRequest: self._registration,
            ControllerRegistrationRequest: decide_controller_registration,
            CreatePartitionsRequest: decide_create_partitions,
            CreateTopicsRequest: decide_create_topics,
            DeleteTopicsRequest: decide_delete_topics,
            IncrementalAlterConfigsRequest: decide_incremental_alter_configs,
            UpdateFeaturesRequest: decide_update_features,
        }

    @property
    def is_active(self) -> bool:
        """Requests are taken: this node leads and the first records of its term are written."""
        return self._active is not None and self._active.started

    @property
    def image(self) -> MetadataImage:
        """What is decided, committed or not; the empty image on a standby. For decisions and tests only (C3)."""
        return EMPTY_IMAGE if self._active is None else self._active.image

    def next_deadline_ms(self) -> int | None:
        """When `TimeAdvanced` is due."""
        if self._active is None:
            return None
        deadlines = [self._active.heartbeats.next_expiry_ms(), self._active.no_op_at_ms]
        return min((each for each in deadlines if each is not None), default=None)

    def step(self, event: ControllerEvent) -> list[ControllerEffect]:
        """Take one event; what must be done, in order."""
        self._note_stall(event.now_ms)
        match event:
            case LeadershipGained():
                return self._activate(event)
            case LeadershipEnded():
                return self._deactivate()
            case RecordsCommitted():
                return self._committed(event)
            case RequestArrived():
                return self._request(event)
            case TimeAdvanced():
                return self._time_advanced(event.now_ms)
            case _:
                assert_never(event)

    def _note_stall(self, now_ms: int) -> None:
        active = self._active
        if active is None:
            return
        gap = now_ms - active.last_event_ms
        if gap > STALL_MS + self._config.metadata_max_idle_interval_ms > STALL_MS:
            active.heartbeats.forgive(gap)
        active.last_event_ms = max(now_ms, active.last_event_ms)

    # Activation

    def _activate(self, event: LeadershipGained) -> list[ControllerEffect]:
        """B-C21: sessions begin anew, an open transaction is aborted, an empty log gets the bootstrap records."""
        assert self._active is None, "leadership was gained twice"
        heartbeats = Heartbeats(session_timeout_ms=self._config.broker_session_timeout_ms)
        for broker_id in sorted(event.image.cluster.brokers):
            broker = event.image.cluster.brokers[broker_id]
            heartbeats.register(broker_id, is_fenced=broker.fenced, now_ms=event.now_ms)
            if broker.in_controlled_shutdown and not broker.fenced:
                heartbeats.begin_controlled_shutdown(broker_id, event.next_offset)
        self._active = _Active(event, heartbeats)
        effects: list[ControllerEffect] = []
        if event.in_transaction:
            effects += self._append(
                [VersionedRecord(AbortTransactionRecord(reason="Controller failover"), 0)], event.now_ms
            )
        if event.image.features.metadata_version is None:
            effects += self._append(self._bootstrap_batch(), event.now_ms)
        self._active.started = True
        self._note_write(event.now_ms)
        return effects

    def _bootstrap_batch(self) -> list[VersionedRecord]:
        records = list(self._bootstrap)
        level = bootstrap_metadata_version(records)
        if level is not None and has_metadata_transactions(level):
            begin = VersionedRecord(BeginTransactionRecord(name="Bootstrap records"), 0)
            return [begin, *records, VersionedRecord(EndTransactionRecord(), 0)]
        return records

    def _deactivate(self) -> list[ControllerEffect]:
        """B-C23: everything that was not committed is forgotten; who waited is told to find the new controller."""
        active, self._active = self._active, None
        if active is None:
            return []
        error = PeerError(ErrorCode.NOT_CONTROLLER, "The active controller changed before the outcome was committed.")
        return [Answer(token=each.token, response=refused(each.request, error)) for each in active.waiting]

    # Requests

    def _request(self, event: RequestArrived) -> list[ControllerEffect]:
        active = self._active
        if active is None or not active.started:
            return [self._refusal(event, PeerError(ErrorCode.NOT_CONTROLLER, "This is not the active controller."))]
        if event.now_ms >= event.deadline_ms or getattr(event.request, "timeout_ms", 1) <= 0:
            return self._too_late(event)
        try:
            decision = self._decide(event, active)
        except PeerError as error:
            return [self._refusal(event, error)]
        try:
            effects = self._append(decision.records, event.now_ms, is_atomic=decision.is_atomic)
        except PeerError as error:
            return [self._refusal(event, error)]
        except EncodeError as error:
            return [self._refusal(event, PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))]
        except ReplayError as error:
            return self._fault(f"a decision on {type(event.request).__name__} makes no sense: {error}")
        after = active.next_offset
        if after <= active.committed:
            effects.append(Answer(token=event.token, response=decision.response))
        else:
            active.waiting.append(_Waiting(after, event.token, event.request, decision.response))
        return effects

    def _decide(self, event: RequestArrived, active: _Active) -> Decision:
        decide = self._decisions.get(type(event.request))
        assert decide is not None, f"the controller does not take {type(event.request).__name__}"
        return decide(self._situation(active, event.cause, event.now_ms), event.request)

    def _too_late(self, event: RequestArrived) -> list[ControllerEffect]:
        """B-C27: no effect. A heartbeat that waited too long still shows that its broker lives."""
        active = self._active
        request = event.request
        if active is not None and isinstance(request, BrokerHeartbeatRequest):
            broker = active.image.cluster.brokers.get(request.broker_id)
            if broker is not None and broker.broker_epoch == request.broker_epoch:
                active.heartbeats.touch(
                    request.broker_id,
                    is_fenced=broker.fenced,
                    metadata_offset=request.current_metadata_offset,
                    now_ms=event.now_ms,
                )
        return [self._refusal(event, PeerError(ErrorCode.REQUEST_TIMED_OUT, "The request waited past its deadline."))]

    def _situation(self, active: _Active, cause: RequestCause, now_ms: int) -> Situation:
        return Situation(
            image=active.image,
            index=active.index,
            names=active.names,
            config=self._config,
            cluster_id=self._cluster_id,
            kraft_version=self._kraft_version,
            rng=self._rng,
            next_offset=active.next_offset,
            now_ms=now_ms,
            cause=cause,
        )

    def _refusal(self, event: RequestArrived, error: PeerError) -> Answer:
        return Answer(token=event.token, response=refused(event.request, error))

    def _fault(self, reason: str) -> list[ControllerEffect]:
        """A bug of ours: nothing of the decision was written; this controller gives up."""
        assert self._active is not None
        epoch = self._active.epoch
        return [Resign(epoch=epoch, reason=reason), *self._deactivate()]

    # Decisions that touch the sessions

    def _registration(self, situation: Situation, request: BrokerRegistrationRequest) -> Decision:
        assert self._active is not None
        heartbeats = self._active.heartbeats
        decision = decide_registration(situation, request, heartbeats)
        response = decision.response
        assert isinstance(response, BrokerRegistrationResponse)
        existing = situation.image.cluster.brokers.get(request.broker_id)
        is_same = existing is not None and existing.incarnation_id == request.incarnation_id
        is_fenced = existing.fenced if existing is not None and is_same else True
        heartbeats.register(request.broker_id, is_fenced=is_fenced, now_ms=situation.now_ms)
        return decision

    def _heartbeat(self, situation: Situation, request: BrokerHeartbeatRequest) -> Decision:
        assert self._active is not None
        heartbeats = self._active.heartbeats
        outcome = decide_heartbeat(situation, request, heartbeats)
        heartbeats.touch(
            request.broker_id,
            is_fenced=outcome.state.is_fenced,
            metadata_offset=request.current_metadata_offset,
            now_ms=situation.now_ms,
        )
        if outcome.state is BrokerControlState.CONTROLLED_SHUTDOWN:
            last = situation.next_offset + len(outcome.decision.records) - 1
            heartbeats.begin_controlled_shutdown(request.broker_id, last)
        return outcome.decision

    # The log

    def _append(
        self, records: Sequence[VersionedRecord], now_ms: int, *, is_atomic: bool = True
    ) -> list[ControllerEffect]:
        """Replay the records onto the image of what is decided, and offer them to raft.

        Raises ReplayError and EncodeError (a bug of ours), PeerError(POLICY_VIOLATION): too much for one batch (B-C22).
        """
        active = self._active
        assert active is not None
        if not records:
            return []
        limit = self._config.internal_metadata_max_batch_size_in_bytes - _BATCH_OVERHEAD
        parts = list(batches([each.encode() for each in records], max_bytes=limit))
        if (is_atomic and len(parts) > 1) or max(sum(map(len, part)) for part in parts) > limit:
            raise PeerError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        before = active.image
        active.image = replay_all(before, [each.record for each in records])
        _update_index(active, before, records)
        effects: list[ControllerEffect] = []
        for part in parts:
            effects.append(AppendRecords(records=part, base_offset=active.next_offset, epoch=active.epoch))
            active.next_offset += len(part)
        self._note_write(now_ms)
        return effects

    def _committed(self, event: RecordsCommitted) -> list[ControllerEffect]:
        active = self._active
        if active is None:
            return []
        active.committed = max(active.committed, event.upto)
        effects: list[ControllerEffect] = []
        while active.waiting and active.waiting[0].after <= active.committed:
            each = active.waiting.popleft()
            effects.append(Answer(token=each.token, response=each.response))
        return effects

    # Time

    def _time_advanced(self, now_ms: int) -> list[ControllerEffect]:
        active = self._active
        if active is None or not active.started:
            return []
        effects = self._fence_expired(active, now_ms)
        if active.no_op_at_ms is not None and now_ms >= active.no_op_at_ms:
            effects += self._append([VersionedRecord(NoOpRecord(), 0)], now_ms)
        return effects

    def _fence_expired(self, active: _Active, now_ms: int) -> list[ControllerEffect]:
        """C14: brokers that were silent for a session; one decision each, so that the next sees what the one did."""
        effects: list[ControllerEffect] = []
        for broker_id in active.heartbeats.expired(now_ms):
            active.heartbeats.fenced(broker_id)
            broker = active.image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                continue
            situation = self._situation(active, RequestCause(api_version=0, client_id="session timeout"), now_ms)
            effects += self._append(list(fence_records(situation, broker)), now_ms, is_atomic=False)
        return effects

    def _note_write(self, now_ms: int) -> None:
        """B-C16: a NoOp is due when nothing was written for `metadata.max.idle.interval.ms` (0 = never)."""
        assert self._active is not None
        interval = self._config.metadata_max_idle_interval_ms
        self._active.no_op_at_ms = now_ms + interval if interval > 0 else None


def _alter_partition(situation: Situation, request: AlterPartitionRequest) -> Decision:
    check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    return decide_alter_partition(situation, request)


def _update_index(active: _Active, before: MetadataImage, records: Sequence[VersionedRecord]) -> None:
    """Keep what is derived from the image in step with replayed records."""
    touched: dict[TopicIdPartition, None] = {}
    for each in records:
        record: Any = each.record
        kind = record.SCHEMA.api_key
        if kind in (_PARTITION, _PARTITION_CHANGE):
            touched[TopicIdPartition(record.topic_id, record.partition_id)] = None
        elif kind == _TOPIC:
            active.names.add(record.name)
        elif kind == _REMOVE_TOPIC:
            topic = before.topics.by_id[record.topic_id]
            active.names.remove(topic.name)
            for partition_id in topic.partitions:
                touched[TopicIdPartition(record.topic_id, partition_id)] = None
    for place in touched:
        old, new = before.topics.partition_by_id(*place), active.image.topics.partition_by_id(*place)
        active.index.changed(place, old, new)
