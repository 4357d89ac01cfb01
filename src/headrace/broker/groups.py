"""Which coordinator serves a group here, and how do its records get into `__consumer_offsets`?

One `GroupCoordinator` for each partition of the offsets topic that this broker leads. A partition is loading from its election until every record of its log was
read and is committed; after that its machine gets requests, and its effects are done here: appends with acks=all, answers to whoever waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from headrace.broker.context import RequestContext
from headrace.broker.group_loading import LoadFailed, load_slice
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices, InternalAppend
from headrace.broker.reply import Deferred, HandlerResult, Reply
from headrace.coordinator.config import GroupConfig
from headrace.coordinator.events import (
    Answer,
    AppendFailed,
    AppendRecords,
    GroupEvent,
    GroupRecord,
    LoadFinished,
    RecordsCommitted,
    RequestReceived,
    Resigned,
    TimePassed,
    TopicsDeleted,
    WallClockMoved,
)
from headrace.coordinator.hashing import partition_for
from headrace.coordinator.machine import GroupCoordinator
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.core.node_config import NodeConfig
from headrace.records.record import NewRecord, build_batch

BATCH_BYTES = 512 * 1024
_LOAD_POLL_MS = 20
_RECORD_OVERHEAD = 40
_CLOCK_TOLERANCE_MS = 500


def group_config(config: NodeConfig) -> GroupConfig:
    """The coordinator's settings out of the node's."""
    return GroupConfig(
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        max_size=config.group_max_size,
        offset_metadata_max_size=config.offset_metadata_max_bytes,
        offsets_retention_ms=config.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        commit_timeout_ms=config.offsets_commit_timeout_ms,
    )


class HostedCoordinator:
    """The coordinator of one partition, and where its loading stands. `load_offset` is None once it is active."""

    __slots__ = (
        "epoch",
        "failure",
        "is_running",
        "load_offset",
        "load_until",
        "machine",
        "partition",
        "queue",
        "wall_ahead_ms",
    )

    def __init__(self, partition: int, epoch: int, config: GroupConfig) -> None:
        self.partition = partition
        self.epoch = epoch
        self.machine = GroupCoordinator(config)
        self.load_offset: int | None = 0
        self.load_until = 0
        self.failure: str | None = None
        self.queue: deque[GroupEvent] = deque()
        self.is_running = False
        self.wall_ahead_ms = 0

    @property
    def error(self) -> ErrorCode:
        """NONE when it serves, else what a client hears in its place."""
        if self.failure is not None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self.load_offset is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class GroupService:
    """The group coordinators of this broker. Driven by the broker: elections, image changes and ticks come in, handlers ask.

    `failures` holds the partitions whose log could not be read, with the reason.
    """

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._config: GroupConfig | None = None
        self._hosted: dict[int, HostedCoordinator] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = count()
        self._is_active = True
        self._deadline_known = False
        self._deadline_ms: int | None = None

    # ---- what the broker tells

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of the offsets topic from now on: load it."""
        known = self._hosted.get(partition)
        if known is not None and known.epoch == leader_epoch:
            return
        if known is not None:
            self._resign(known)
        if self._config is None:
            self._config = group_config(self._services.config)
        self._deadline_known = False
        hosted = self._hosted[partition] = HostedCoordinator(partition, leader_epoch, self._config)
        bounds = self._services.log_bounds(OFFSETS_TOPIC, partition)
        if bounds is None:
            hosted.failure = "the partition has no log here"
            return
        hosted.load_offset, _, hosted.load_until = bounds
        if hosted.load_offset == hosted.load_until:
            self._load(hosted, self._services.now_ms())

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """This broker leads the partition no longer (`leader_epoch` is the new leader's, None when the topic is gone)."""
        hosted = self._hosted.get(partition)
        if hosted is not None and (leader_epoch is None or leader_epoch >= hosted.epoch):
            self._resign(hosted)

    def topics_deleted(self, topics: Iterable[tuple[str, Uuid]]) -> None:
        """Topics are gone, and with them the positions of every group in them."""
        gone = tuple(topics)
        now_ms = self._services.now_ms()
        for hosted in list(self._hosted.values()):
            if hosted.error is ErrorCode.NONE:
                self._run(hosted, TopicsDeleted(topics=gone, now_ms=now_ms))

    def tick(self, now_ms: int) -> None:
        """Do what is due: sessions, rebalances, expiry, and a slice of loading."""
        for hosted in list(self._hosted.values()):
            if hosted.failure is not None:
                continue
            if hosted.load_offset is not None:
                self._load(hosted, now_ms)
                continue
            due = hosted.machine.next_deadline_ms
            if due is not None and due <= now_ms:
                self._run(hosted, TimePassed(now_ms=now_ms))

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, or None."""
        if self._deadline_known:
            return self._deadline_ms
        self._deadline_known = not any(each.load_offset is not None for each in self._hosted.values())
        self._deadline_ms = self._earliest_deadline()
        return self._deadline_ms

    def _earliest_deadline(self) -> int | None:
        deadlines = []
        for hosted in self._hosted.values():
            if hosted.failure is not None:
                continue
            if hosted.load_offset is None:
                due = hosted.machine.next_deadline_ms
                if due is not None:
                    deadlines.append(due)
            else:
                reading = hosted.load_offset < hosted.load_until
                deadlines.append(self._services.now_ms() + (0 if reading else _LOAD_POLL_MS))
        return min(deadlines, default=None)

    def shut_down(self) -> None:
        """Send everybody away; nothing is served afterwards."""
        self._is_active = False
        for hosted in list(self._hosted.values()):
            self._resign(hosted)

    @property
    def failures(self) -> dict[int, str]:
        """Why partitions could not be loaded."""
        return {each.partition: each.failure for each in self._hosted.values() if each.failure is not None}

    # ---- what handlers ask

    def partition_of(self, group_id: str) -> int:
        """The partition of the offsets topic that owns the group."""
        topic = self._services.image.topics.by_name.get(OFFSETS_TOPIC)
        partitions = len(topic.partitions) if topic is not None else self._services.config.offsets_topic_num_partitions
        return partition_for(group_id, partitions)

    def coordinator_of(self, group_id: str) -> GroupCoordinator | ErrorCode:
        """The machine that serves the group here, or the error that sends its client elsewhere or makes it wait."""
        hosted = self._find(group_id)
        return hosted if isinstance(hosted, ErrorCode) else hosted.machine

    def all_coordinators(self) -> list[GroupCoordinator] | ErrorCode:
        """Every machine that serves here; COORDINATOR_LOAD_IN_PROGRESS as long as one is not ready."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if any(each.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for each in self._hosted.values()):
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each.machine for each in self._hosted.values() if each.failure is None]

    def ask(
        self,
        group_id: str,
        request: Any,
        context: RequestContext,
        *,
        refused: Callable[[ErrorCode], object],
        shape: Callable[[Any], object] | None = None,
    ) -> HandlerResult:
        """Give a request to its group's coordinator. The reply is there at once, or comes when it is committed or the group is complete.

        `refused` makes the response when this broker does not serve the group, `shape` the response out of the machine's answer.
        """
        hosted = self._find(group_id)
        if isinstance(hosted, ErrorCode):
            return Reply(refused(hosted))
        token = next(self._tokens)
        answers: list[Any] = []
        self._waiting[token] = answers.append
        event = RequestReceived(
            token=token,
            request=request,
            api_version=context.api_version,
            client_id=context.client_id or "",
            client_host="/" + context.client_host,
            fresh_id=_dashed(self._services.new_uuid()),
            now_ms=self._services.now_ms(),
        )
        self._run(hosted, event)
        if answers:
            return Reply(shape(answers[0]) if shape is not None else answers[0])
        deferred = Deferred(on_abandoned=lambda: self._forget(token))
        self._waiting[token] = lambda answer: self._complete(deferred, answer, shape)
        return deferred

    # ---- driving the machines

    def _find(self, group_id: str) -> HostedCoordinator | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        hosted = self._hosted.get(self.partition_of(group_id))
        if hosted is None:
            return ErrorCode.NOT_COORDINATOR
        return hosted if hosted.error is ErrorCode.NONE else hosted.error

    def _run(self, hosted: HostedCoordinator, event: GroupEvent) -> None:
        """Step the machine, do its effects in order, and go on with what they caused."""
        hosted.queue.append(event)
        self._deadline_known = False
        if hosted.is_running:
            return
        hosted.is_running = True
        try:
            self._follow_wall_clock(hosted)
            while hosted.queue:
                for effect in hosted.machine.step(hosted.queue.popleft()):
                    if isinstance(effect, AppendRecords):
                        self._append(hosted, effect)
                    else:
                        self._answer(effect)
        finally:
            hosted.is_running = False

    def _follow_wall_clock(self, hosted: HostedCoordinator) -> None:
        ahead_ms = self._services.wall_ms() - self._services.now_ms()
        if abs(ahead_ms - hosted.wall_ahead_ms) > _CLOCK_TOLERANCE_MS:
            hosted.wall_ahead_ms = ahead_ms
            hosted.machine.step(WallClockMoved(ahead_ms=ahead_ms))

    def _append(self, hosted: HostedCoordinator, effect: AppendRecords) -> None:
        batches = list(_batches(effect, codec=self._services.config.offsets_topic_compression_codec))
        missing = len(batches)
        failed = ErrorCode.NONE

        def done(outcome: InternalAppend) -> None:
            nonlocal missing, failed
            missing -= 1
            if outcome.error is not ErrorCode.NONE:
                failed = outcome.error
            if missing or self._hosted.get(hosted.partition) is not hosted:
                return
            now_ms = self._services.now_ms()
            if failed is ErrorCode.NONE:
                self._run(hosted, RecordsCommitted(append_id=effect.append_id, now_ms=now_ms))
            else:
                self._run(hosted, AppendFailed(append_id=effect.append_id, error=failed, now_ms=now_ms))

        for batch in batches:
            self._services.append_internal(OFFSETS_TOPIC, hosted.partition, batch, done)

    def _answer(self, effect: Answer) -> None:
        waiting = self._waiting.pop(effect.token, None)
        if waiting is not None:
            waiting(effect.response)

    def _complete(self, deferred: Deferred, answer: Any, shape: Callable[[Any], object] | None) -> None:
        deferred.complete(Reply(shape(answer) if shape is not None else answer))

    def _forget(self, token: int) -> None:
        self._waiting.pop(token, None)

    def _load(self, hosted: HostedCoordinator, now_ms: int) -> None:
        """Read one slice; when everything is read and committed, serve."""
        assert hosted.load_offset is not None, "only a loading coordinator loads"
        if hosted.load_offset < hosted.load_until:
            result = load_slice(
                self._services, hosted.partition, hosted.load_offset, until=hosted.load_until, now_ms=now_ms
            )
            if isinstance(result, LoadFailed):
                hosted.failure = result.reason
                return
            try:
                for event in result.events:
                    hosted.machine.step(event)
            except DecodeError as error:
                hosted.failure = f"{OFFSETS_TOPIC}-{hosted.partition} from offset {hosted.load_offset}: {error}"
                return
            hosted.load_offset = result.next_offset
        bounds = self._services.log_bounds(OFFSETS_TOPIC, hosted.partition)
        if bounds is None:
            hosted.failure = "the partition has no log here any more"
        elif hosted.load_offset >= hosted.load_until and bounds[1] >= hosted.load_until:
            hosted.load_offset = None
            self._run(hosted, LoadFinished(now_ms=now_ms))

    def _resign(self, hosted: HostedCoordinator) -> None:
        if self._hosted.get(hosted.partition) is hosted:
            del self._hosted[hosted.partition]
        self._deadline_known = False
        for effect in hosted.machine.step(Resigned()):
            if isinstance(effect, Answer):
                self._answer(effect)


def _batches(effect: AppendRecords, *, codec: int) -> Iterable[bytearray]:
    """One batch of an atomic append, else as many of about BATCH_BYTES as it takes."""
    chunk: list[NewRecord] = []
    size = 0
    for record in effect.records:
        added = _size(record)
        if chunk and not effect.is_atomic and size + added > BATCH_BYTES:
            yield build_batch(chunk, codec=codec)
            chunk, size = [], 0
        chunk.append(NewRecord(key=record.key, value=record.value, timestamp=effect.timestamp_ms))
        size += added
    yield build_batch(chunk, codec=codec)


def _size(record: GroupRecord) -> int:
    return len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD


def _dashed(value: Uuid) -> str:
    """A uuid as Java prints it."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
