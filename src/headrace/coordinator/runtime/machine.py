"""The runtime of one partition's coordinator.

`broker/coordinators/hosted.py` drives it: gives it events, does its effects in order, and reports the outcome of every append in the order of the log. Deadlines are values:
`next_deadline_ms` says when TimePassed is due.
"""

from __future__ import annotations

from typing import Any, Final, assert_never

from headrace.coordinator.runtime.contract import Coordinator
from headrace.coordinator.runtime.events import (
    AppendFailed,
    CoordinatorEffect,
    CoordinatorEvent,
    ImageChanged,
    LoadFailed,
    LoadFinished,
    LogRecord,
    RecordsCommitted,
    RecordsLoaded,
    Reload,
    RequestReceived,
    Resigned,
    TimePassed,
    TransactionEnded,
    WallClockMoved,
)
from headrace.coordinator.runtime.shard import APPENDS_OVERDUE, Operation, Shard, Status
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError

RUNG_A_TURN: Final = 50
"""Deadlines that are looked at in one turn."""


class Runtime:
    """Load, append, wait for the commit, resign: the life of a shard, whatever its coordinator decides."""

    def __init__(self, coordinator: Coordinator, shard: Shard[Any, Any]) -> None:
        self.coordinator = coordinator
        self.shard = shard
        self._changes: list[ImageChanged] = []
        self._is_restoring = False

    @property
    def next_deadline_ms(self) -> int | None:
        """When TimePassed is due, or None."""
        return self.shard.timers.next_deadline_ms()

    def step(self, event: CoordinatorEvent) -> list[CoordinatorEffect]:
        """Take in what happened and say what must be done, in that order. A shard that is over does nothing any more."""
        shard = self.shard
        if shard.status is Status.ACTIVE:
            self._live(event)
        elif shard.status is Status.LOADING:
            self._load(event)
        elif isinstance(event, Resigned):
            shard.status = Status.RESIGNED
        effects, shard.effects = shard.effects, []
        return effects

    # ---- loading

    def _load(self, event: CoordinatorEvent) -> None:
        shard = self.shard
        match event:
            case RecordsLoaded() | TransactionEnded():
                self._replay(event)
            case LoadFinished():
                shard.committed = shard.state
                shard.next_offset = event.next_offset
                self._is_restoring = True
                self._restore(event.now_ms)
            case TimePassed():
                if self._is_restoring:
                    self._restore(event.now_ms)
            case LoadFailed():
                self._fail(event.reason)
            case ImageChanged():
                self._changes.append(event)
            case WallClockMoved():
                shard.wall_ahead_ms = event.ahead_ms
            case Resigned():
                self._resign()
            case RequestReceived() | RecordsCommitted() | AppendFailed():
                raise AssertionError(f"{type(event).__name__} while loading")
            case _:
                assert_never(event)

    def _replay(self, event: RecordsLoaded | TransactionEnded) -> None:
        """Records of types that we do not know are left alone, as Kafka leaves them; damage is a failure: half a state is none."""
        shard = self.shard
        rules = shard.rules
        if isinstance(event, TransactionEnded):
            shard.state = rules.end_transaction(shard.state, event.producer_id, is_committed=event.is_committed)
            return
        read = []
        for offset, key, value in event.records:
            try:
                if key is None:
                    raise DecodeError("it has no key")
                record = rules.read(LogRecord(key, value))
            except DecodeError as error:
                self._fail(f"the record at offset {offset}: {error}")
                return
            if record is None:
                shard.skipped_records += 1
            else:
                read.append(record)
        shard.state = rules.replay(shard.state, read, event.producer_id)

    def _restore(self, now_ms: int) -> None:
        """A turn of making what is derived from the state; then serve."""
        shard = self.shard
        if not self.coordinator.restore(now_ms=now_ms):
            return
        shard.status = Status.ACTIVE
        self.coordinator.loaded(now_ms=now_ms)
        changes, self._changes = self._changes, []
        for change in changes:
            self.coordinator.image_changed(change.change, now_ms=now_ms)

    def _fail(self, reason: str) -> None:
        self.shard.failure = reason
        self._changes.clear()
        self.shard.close(Status.FAILED)

    # ---- serving

    def _live(self, event: CoordinatorEvent) -> None:
        shard = self.shard
        match event:
            case RequestReceived():
                self.coordinator.serve(event)
            case RecordsCommitted():
                self._committed(event)
            case AppendFailed():
                self._failed(event)
            case TimePassed():
                self._ring(event.now_ms)
            case ImageChanged():
                self.coordinator.image_changed(event.change, now_ms=event.now_ms)
            case WallClockMoved():
                shard.wall_ahead_ms = event.ahead_ms
            case Resigned():
                self._resign()
            case RecordsLoaded() | TransactionEnded() | LoadFinished() | LoadFailed():
                raise AssertionError(f"{type(event).__name__} after the load")
            case _:
                assert_never(event)

    def _committed(self, event: RecordsCommitted) -> None:
        """The high watermark passed an append, and so everything before it."""
        shard = self.shard
        committed = shard.pending.get(event.append_id)
        if committed is None:
            return
        if committed.base_offset != event.base_offset:
            shard.effects.append(Reload(expected_offset=committed.base_offset, found_offset=event.base_offset))
            self._resign()
            return
        while shard.pending:
            first = next(iter(shard.pending))
            pending = shard.pending.pop(first)
            shard.committed = pending.state
            self._part_is_over(pending.operation, ErrorCode.NONE, now_ms=event.now_ms)
            if first == event.append_id:
                return

    def _failed(self, event: AppendFailed) -> None:
        dropped = self.shard.drop(event.append_id)
        if dropped is not None:
            self._part_is_over(dropped.operation, event.error, now_ms=event.now_ms)

    def _part_is_over(self, operation: Operation, error: ErrorCode, *, now_ms: int) -> None:
        """A part of an operation is committed or failed; with the last one it has its outcome."""
        operation.missing -= 1
        if error is not ErrorCode.NONE:
            operation.error = error
        if not self.shard.pending:
            self.shard.timers.cancel(APPENDS_OVERDUE)
        if not operation.missing:
            self._tell(operation, operation.error, now_ms=now_ms)

    def _tell(self, operation: Operation, error: ErrorCode, *, now_ms: int) -> None:
        """Answer those who waited, and do what was to follow."""
        waiters, operation.waiters = operation.waiters, []
        for waiter in waiters:
            is_done = error is ErrorCode.NONE
            response = waiter.response if is_done else self.coordinator.refusal(waiter.event.request, error)
            self.shard.answer(waiter.event.token, response)
        then, operation.then = operation.then, None
        if then is not None:
            self.coordinator.written(then, error, now_ms=now_ms)

    def _ring(self, now_ms: int) -> None:
        """Some of what is due; the deadline of the rest has passed, too. The sessions of all members of a group may end at the same moment (M6)."""
        for _ in range(RUNG_A_TURN):
            due = self.shard.timers.pop_due(now_ms)
            if due is None:
                return
            if due is APPENDS_OVERDUE:
                self._give_up(now_ms)
            else:
                self.coordinator.ring(due, now_ms=now_ms)

    def _give_up(self, now_ms: int) -> None:
        """The records may still be committed: only those who wait for them give up."""
        shard = self.shard
        for pending in list(shard.pending.values()):
            operation = pending.operation
            if operation.deadline_ms > now_ms:
                shard.timers.schedule(APPENDS_OVERDUE, operation.deadline_ms, APPENDS_OVERDUE)
                return
            self._tell(operation, ErrorCode.REQUEST_TIMED_OUT, now_ms=now_ms)

    # ---- leaving

    def _resign(self) -> None:
        """Everybody who waits is sent to the next coordinator, and what is not committed was never there."""
        shard = self.shard
        for waiter in shard.close(Status.RESIGNED):
            shard.answer(waiter.event.token, self.coordinator.refusal(waiter.event.request, ErrorCode.NOT_COORDINATOR))
        self._changes.clear()
        self.coordinator.resigned()
