"""How does the coordinator of one partition of `__consumer_offsets` get its log read, its records written and its answers out?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from headrace.broker.group_loading import LoadFailed, load_slice
from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices, InternalAppend
from headrace.config.node_config import NodeConfig
from headrace.coordinator.config import GroupConfig
from headrace.coordinator.events import (
    Answer,
    AppendFailed,
    AppendRecords,
    GroupEvent,
    GroupRecord,
    LoadFinished,
    RecordsCommitted,
    Resigned,
    TimePassed,
    TopicsDeleted,
    WallClockMoved,
)
from headrace.coordinator.machine import GroupCoordinator
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError
from headrace.records.record import NewRecord, build_batch

BATCH_BYTES = 512 * 1024
LOAD_POLL_MS = 20
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
    """Drives the machine of one partition: loads it, then feeds it events and does its effects in order.

    `epoch` is the leader epoch it serves in; `failure` says why its log could not be read. `answer` takes (token, response), `changed` is called before
    and after each event: `next_deadline_ms` may be another one.
    """

    def __init__(
        self,
        partition: int,
        epoch: int,
        services: BrokerServices,
        *,
        answer: Callable[[int, Any], None],
        changed: Callable[[], None],
    ) -> None:
        self.partition = partition
        self.epoch = epoch
        self.machine = GroupCoordinator(group_config(services.config))
        self.failure: str | None = None
        self._services = services
        self._answer = answer
        self._changed = changed
        self._after_load: list[GroupEvent] = []
        self._queue: deque[GroupEvent] = deque()
        self._is_running = False
        self._is_gone = False
        self._wall_ahead_ms = 0
        self._load_until = 0
        self._load_offset: int | None = 0
        bounds = services.log_bounds(OFFSETS_TOPIC, partition)
        if bounds is None:
            self.failure = "the partition has no log here"
            return
        self._load_offset, _, self._load_until = bounds
        if self._load_offset == self._load_until:
            self._load(services.now_ms())

    @property
    def error(self) -> ErrorCode:
        """NONE when it serves, else what a client hears in its place."""
        if self.failure is not None:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if self._load_offset is None else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, or None."""
        if self.failure is not None:
            return None
        if self._load_offset is None:
            return self.machine.next_deadline_ms
        return self._services.now_ms() + (0 if self._load_offset < self._load_until else LOAD_POLL_MS)

    def tick(self, now_ms: int) -> None:
        """Load a slice, or ring what is due."""
        if self.failure is not None:
            return
        if self._load_offset is not None:
            self._load(now_ms)
            return
        due = self.machine.next_deadline_ms
        if due is not None and due <= now_ms:
            self.run(TimePassed(now_ms=now_ms))

    def run(self, event: GroupEvent) -> None:
        """Step the machine, do its effects in order, and go on with what they caused."""
        self._changed()
        self._queue.append(event)
        if self._is_running:
            return
        self._is_running = True
        try:
            self._follow_wall_clock()
            while self._queue:
                for effect in self.machine.step(self._queue.popleft()):
                    if isinstance(effect, AppendRecords):
                        self._append(effect)
                    else:
                        self._answer(effect.token, effect.response)
        finally:
            self._is_running = False
            self._changed()

    def delete_topics(self, event: TopicsDeleted) -> None:
        """Forget the positions in topics that are gone, those that are still to be loaded too."""
        if self._load_offset is None:
            self.run(event)
        else:
            self._after_load.append(event)

    def resign(self) -> None:
        """Send everybody who waits to the next coordinator; nothing counts after this."""
        self._is_gone = True
        for effect in self.machine.step(Resigned()):
            if isinstance(effect, Answer):
                self._answer(effect.token, effect.response)

    def _follow_wall_clock(self) -> None:
        ahead_ms = self._services.wall_ms() - self._services.now_ms()
        if abs(ahead_ms - self._wall_ahead_ms) > _CLOCK_TOLERANCE_MS:
            self._wall_ahead_ms = ahead_ms
            self.machine.step(WallClockMoved(ahead_ms=ahead_ms))

    def _append(self, effect: AppendRecords) -> None:
        batches = list(batches_of(effect, codec=self._services.config.offsets_topic_compression_codec))
        missing = len(batches)
        failed = ErrorCode.NONE

        def done(outcome: InternalAppend) -> None:
            nonlocal missing, failed
            missing -= 1
            if outcome.error is not ErrorCode.NONE:
                failed = outcome.error
            if missing or self._is_gone:
                return
            now_ms = self._services.now_ms()
            if failed is ErrorCode.NONE:
                self.run(RecordsCommitted(append_id=effect.append_id, now_ms=now_ms))
            else:
                self.run(AppendFailed(append_id=effect.append_id, error=failed, now_ms=now_ms))

        for batch in batches:
            self._services.append_internal(OFFSETS_TOPIC, self.partition, batch, done)

    def _load(self, now_ms: int) -> None:
        """Read one slice; when everything is read and committed, serve."""
        assert self._load_offset is not None, "only a loading coordinator loads"
        if self._load_offset < self._load_until:
            self._load_offset = self._replay(self._load_offset, now_ms)
        bounds = self._services.log_bounds(OFFSETS_TOPIC, self.partition)
        if self.failure is not None:
            return
        if bounds is None:
            self.failure = "the partition has no log here any more"
        elif self._load_offset >= self._load_until and bounds[1] >= self._load_until:
            self._load_offset = None
            for event in (LoadFinished(now_ms=now_ms), *self._after_load):
                self.run(event)
            self._after_load.clear()

    def _replay(self, offset: int, now_ms: int) -> int:
        """Give the machine the records of a slice; the offset to go on from. Damage is a failure: half a group is none."""
        read = load_slice(self._services, self.partition, offset, until=self._load_until, now_ms=now_ms)
        if isinstance(read, LoadFailed):
            self.failure = read.reason
            return offset
        try:
            for event in read.events:
                self.machine.step(event)
        except DecodeError as error:
            self.failure = f"{OFFSETS_TOPIC}-{self.partition} from offset {offset}: {error}"
        return read.next_offset


def batches_of(effect: AppendRecords, *, codec: int) -> Iterable[bytearray]:
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
