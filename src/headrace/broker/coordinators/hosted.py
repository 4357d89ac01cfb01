"""The driver of one partition's coordinator: its log is read, its records are written, its responses leave."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from headrace.broker.coordinators.reading import LogReader
from headrace.broker.ports import BrokerServices, InternalAppend
from headrace.coordinator.runtime.events import (
    Answer,
    AppendFailed,
    AppendRecords,
    CoordinatorEvent,
    LoadFailed,
    LoadFinished,
    RecordsCommitted,
    Reload,
    Resigned,
    TimePassed,
    WallClockMoved,
)
from headrace.coordinator.runtime.machine import Runtime
from headrace.coordinator.runtime.shard import Status
from headrace.core.error_code import ErrorCode
from headrace.core.notice import Notice
from headrace.records.compression import Codec
from headrace.records.record import NewRecord, build_batch

_CLOCK_TOLERANCE_MS = 500
_PACKED_AT_LEISURE_BYTES = 512 << 10
_QUICK: dict[int, int] = {Codec.GZIP: Codec.LZ4, Codec.ZSTD: Codec.LZ4}
"""What larger batches, of a group with very many members, are packed by: gzip takes 30 ms for a megabyte, and unpacked they might be too large for their topic."""


class CoordinatorKind(NamedTuple):
    """Coordinators of one kind: the topic whose partitions are their logs, the codec of what they write, and how one is made that has loaded nothing."""

    topic: str
    codec: int
    make: Callable[[], Runtime]


class HostedCoordinator:
    """Drives the runtime of one partition: loads it, then feeds it events and does its effects in order.

    `epoch` is the leader epoch it serves in. `answer` takes an answer and its number among those of one event, `changed` is called before
    and after each event: `next_deadline_ms` may be another one. `loaded_in_ms` is how long it took until it served.
    """

    def __init__(
        self,
        kind: CoordinatorKind,
        partition: int,
        epoch: int,
        services: BrokerServices,
        *,
        answer: Callable[[Answer, int], None],
        changed: Callable[[], None],
    ) -> None:
        self.epoch = epoch
        self._topic, self._partition = kind.topic, partition
        self._name = f"{kind.topic}-{partition}"
        self._kind = kind
        self._services = services
        self._answer = answer
        self._changed = changed
        self.loaded_in_ms: int | None = None
        self._begin()

    def __repr__(self) -> str:
        return f"HostedCoordinator({self._name}, epoch={self.epoch}, {self.status.value})"

    def _begin(self) -> None:
        """Have a coordinator that knows nothing, and a reader for it; an empty log is loaded at once."""
        self.runtime = self._kind.make()
        self._queue: deque[CoordinatorEvent] = deque()
        self._is_running = False
        self._wall_ahead_ms = 0
        self._is_committed = False
        self._loading_since_ms: int | None = self._services.now_ms()
        self._reader: LogReader | None = None
        bounds = self._services.log_bounds(self._topic, self._partition)
        if bounds is None:
            self._fail("the partition has no log here")
            return
        start, _, until = bounds
        self._reader = LogReader(
            self._services,
            (self._topic, self._partition),
            start=start,
            until=until,
            opened=self._changed,
        )
        if self._reader.is_done:
            self._wait_for_commit(self._reader)

    @property
    def status(self) -> Status:
        """Where the coordinator is in its life."""
        return self.runtime.shard.status

    @property
    def failure(self) -> str | None:
        """Why its log could not be read, or None."""
        reason = self.runtime.shard.failure
        return None if reason is None else f"{self._name}: {reason}"

    @property
    def error(self) -> ErrorCode:
        """NONE when it serves, else what a client hears in its place. Where another broker may lead the partition, another coordinator may have taken commits."""
        if self.status is Status.ACTIVE:
            is_withheld = self._services.is_withheld(self._topic, self._partition)
            return ErrorCode.NOT_COORDINATOR if is_withheld else ErrorCode.NONE
        is_loading = self.status is Status.LOADING
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR

    @property
    def has_turn(self) -> bool:
        """Whether it loads and a turn would bring it on: not while a batch is opened elsewhere, or while what was read waits for its commit."""
        if self.status is not Status.LOADING:
            return False
        return self._is_committed or (self._reader is not None and self._reader.is_reading)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, or None; what `has_turn` is due at once."""
        return self.runtime.next_deadline_ms if self.status is Status.ACTIVE else None

    def tick(self, now_ms: int) -> bool:
        """Ring what is due; whether something was."""
        due = self.next_deadline_ms
        if due is None or due > now_ms:
            return False
        self.run(TimePassed(now_ms=now_ms))
        return True

    def run(self, event: CoordinatorEvent) -> None:
        """Step the runtime, do its effects in order, and go on with what they caused."""
        self._changed()
        self._queue.append(event)
        if self._is_running:
            return
        self._is_running = True
        runtime, queue = self.runtime, self._queue
        answers = 0
        try:
            self._follow_wall_clock()
            while queue:
                for effect in runtime.step(queue.popleft()):
                    if isinstance(effect, AppendRecords):
                        self._append(effect)
                    elif isinstance(effect, Answer):
                        self._answer(effect, answers)
                        answers += 1
                    else:
                        self._reload(effect)
                if runtime.shard.told:
                    self._tell(runtime.shard.told)
        finally:
            self._is_running = False
            self._changed()
        since_ms = self._loading_since_ms
        if since_ms is not None and self.status is Status.ACTIVE:
            self._loading_since_ms = None
            self.loaded_in_ms = self._services.now_ms() - since_ms

    def _tell(self, told: deque[tuple[str, str]]) -> None:
        while told:
            self._services.on_notice(Notice(self._topic, *told.popleft()))

    def resign(self) -> list[Answer]:
        """The last answers, which send everybody who waits to the next coordinator; nothing counts after this."""
        return [effect for effect in self.runtime.step(Resigned()) if isinstance(effect, Answer)]

    # ---- appends

    def _follow_wall_clock(self) -> None:
        ahead_ms = self._services.wall_ms() - self._services.now_ms()
        if abs(ahead_ms - self._wall_ahead_ms) > _CLOCK_TOLERANCE_MS:
            self._wall_ahead_ms = ahead_ms
            self.runtime.step(WallClockMoved(ahead_ms=ahead_ms))

    def _append(self, effect: AppendRecords) -> None:
        runtime = self.runtime
        timestamp_ms = effect.timestamp_ms
        codec, size = self._kind.codec, sum(len(key) + len(value or b"") for key, value in effect.records)
        batch = build_batch(
            [NewRecord(key=key, value=value, timestamp=timestamp_ms) for key, value in effect.records],
            codec=codec if size <= _PACKED_AT_LEISURE_BYTES else _QUICK.get(codec, codec),
        )

        def done(outcome: InternalAppend) -> None:
            if self.runtime is not runtime:
                return  # it was replaced by one that reads the log anew
            now_ms = self._services.now_ms()
            if outcome.error is ErrorCode.NONE:
                self.run(RecordsCommitted(append_id=effect.append_id, base_offset=outcome.base_offset, now_ms=now_ms))
            else:
                self.run(AppendFailed(append_id=effect.append_id, error=outcome.error, now_ms=now_ms))

        self._services.append_internal(self._topic, self._partition, batch, done)

    # ---- loading

    def load(self, now_ms: int) -> None:
        """Take one turn: read, or restore what was read; when everything is read, committed and restored, serve."""
        reader = self._reader
        if self._is_committed or reader is None:
            self.run(TimePassed(now_ms=now_ms))
        else:
            for event in reader.turn():
                self.run(event)
            if reader.is_done and self.status is Status.LOADING:
                self._wait_for_commit(reader)
        self._say_what_came_of_it()

    def _wait_for_commit(self, reader: LogReader) -> None:
        """Everything is read. Its end might still be cut: nothing is served before all of it is committed."""
        bounds = self._services.log_bounds(self._topic, self._partition)
        if bounds is None:
            self._fail("the partition has no log here any more")
            return
        if bounds[2] > reader.until:
            reader.until = bounds[2]
            return

        def done(outcome: ErrorCode) -> None:
            if outcome is ErrorCode.NONE:
                self._is_committed = True
                self.run(LoadFinished(next_offset=reader.until, now_ms=self._services.now_ms()))

        self._services.when_committed(self._topic, self._partition, reader.until, done)

    def _fail(self, reason: str) -> None:
        self.run(LoadFailed(reason=reason))

    def _say_what_came_of_it(self) -> None:
        """A line for the operator where something in the log could not be read."""
        if self.failure is not None:
            self._services.on_warning(f"the coordinator of {self._name} cannot serve: {self.runtime.shard.failure}")
        elif self.status is Status.ACTIVE and self.runtime.shard.skipped_records:
            skipped = self.runtime.shard.skipped_records
            self._services.on_warning(f"{skipped} records of unknown types in {self._name} were left alone")

    def _reload(self, effect: Reload) -> None:
        self._services.on_warning(
            f"a record of the coordinator of {self._name} lies at offset {effect.found_offset}, expected at {effect.expected_offset}: "
            "somebody else wrote there, and the log is read anew"
        )
        self._begin()
