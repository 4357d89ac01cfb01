"""The state of one partition of a coordinator: what it knows, what is on its way into the log, and who waits for it.

Status   | comes from            | leaves to
---------|-----------------------|------------------------------------------------------
LOADING  | elected               | ACTIVE (all read and committed), FAILED, RESIGNED
ACTIVE   | LOADING               | RESIGNED
FAILED   | LOADING (damaged log) | RESIGNED
RESIGNED | any                   |
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from headrace.coordinator.runtime.contract import RecordRules
from headrace.coordinator.runtime.events import (
    Answer,
    AppendRecords,
    CoordinatorEffect,
    LogRecord,
    RequestReceived,
)
from headrace.coordinator.runtime.timers import Timers
from headrace.core.error_code import ErrorCode

BATCH_BYTES: Final = 512 * 1024
"""Of the records in one batch, where they may go in several: half of what a topic's `max.message.bytes` allows unless told otherwise."""
_RECORD_OVERHEAD: Final = 40
TOLD: Final = 100
"""Lines for the operator that are kept until the driver takes them; few of them are written."""

S = TypeVar("S")
R = TypeVar("R")


class Status(Enum):
    """Where a shard is in its life."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    RESIGNED = "resigned"


class Waiter(NamedTuple):
    """A request whose answer leaves when an append is committed. `event` tells which API's error answer to give else."""

    event: RequestReceived
    response: Any


@dataclass(slots=True)
class Operation:
    """What was decided at once: it is over when each of its appends is. `then` goes back to the coordinator with the outcome."""

    missing: int
    deadline_ms: int
    waiters: list[Waiter]
    then: Any = None
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class Pending(Generic[S, R]):
    """A batch that was ordered and is not committed yet, the offset that its first record must get, and the state with it."""

    records: Sequence[R]
    base_offset: int
    state: S
    operation: Operation


class AppendsOverdue:
    """The timer of the runtime itself: some appends were not committed in time."""


APPENDS_OVERDUE: Final = AppendsOverdue()


class Shard(Generic[S, R]):
    """State and waiting room of one partition. A coordinator appends and answers; the runtime moves what is committed.

    `state` counts every append that did not fail, and decisions are made on it; `committed` is what readers may see: a failover cannot take it back.
    `commit_timeout_ms` bounds how long a request waits for its append. `effects` is what the current step has ordered so far, `told` what an operator should know
    (subject and text), for the driver to take.
    """

    def __init__(self, rules: RecordRules[S, R], *, commit_timeout_ms: int) -> None:
        self.rules = rules
        self.commit_timeout_ms = commit_timeout_ms
        self.status = Status.LOADING
        self.failure: str | None = None
        self.skipped_records = 0
        self.state: S = rules.empty()
        self.committed: S = self.state
        self.next_offset = 0
        self.timers: Timers[Any] = Timers()
        self.pending: dict[int, Pending[S, R]] = {}
        self.effects: list[CoordinatorEffect] = []
        self.told: deque[tuple[str, str]] = deque(maxlen=TOLD)
        self.wall_ahead_ms = 0
        self._next_append_id = 0

    def wall(self, now_ms: int) -> int:
        """The wall clock's milliseconds since 1970 at `now_ms`."""
        return now_ms + self.wall_ahead_ms

    @property
    def kept_bytes(self) -> int:
        """About how many bytes of what clients say it keeps beside its state."""
        return 0

    # ---- for decisions

    def answer(self, token: int | None, response: Any) -> None:
        """Answer now; nothing happens without a token."""
        if token is not None:
            self.effects.append(Answer(token=token, response=response))

    def tell(self, subject: str, text: str) -> None:
        """A line for the operator about a group, say."""
        self.told.append((subject, text))

    def answer_in_order(self, event: RequestReceived, response: Any) -> None:
        """Answer when all that was appended so far is committed: what the answer says may rest on it."""
        if not self.pending:
            self.answer(event.token, response)
        else:
            last = self.pending[next(reversed(self.pending))]
            last.operation.waiters.append(Waiter(event, response))

    def append(
        self,
        records: Sequence[R],
        *,
        now_ms: int,
        waiter: Waiter | None = None,
        then: Any = None,
        is_atomic: bool = True,
    ) -> None:
        """Order an append; it counts for decisions from now on, for readers from its commit on.

        One batch if it `is_atomic`, else as many as it takes: when one of them fails the others still count. The error that waiters and `then` get is
        the log's, or REQUEST_TIMED_OUT to waiters and `then` after `commit_timeout_ms`, though the records may still be committed.
        """
        written = [self.rules.written(record) for record in records]
        operation = Operation(0, now_ms + self.commit_timeout_ms, [] if waiter is None else [waiter], then)
        timestamp_ms = self.wall(now_ms)
        if self.timers.deadline_of(APPENDS_OVERDUE) is None:
            self.timers.schedule(APPENDS_OVERDUE, operation.deadline_ms, APPENDS_OVERDUE)
        for start, stop in ((0, len(written)),) if is_atomic else _batches(written):
            part = records if stop - start == len(records) else records[start:stop]
            self.state = self.rules.replay(self.state, part)
            operation.missing += 1
            append_id = self._next_append_id
            self._next_append_id += 1
            self.pending[append_id] = Pending(part, self.next_offset, self.state, operation)
            self.next_offset += stop - start
            self.effects.append(
                AppendRecords(append_id=append_id, records=tuple(written[start:stop]), timestamp_ms=timestamp_ms)
            )

    # ---- for the runtime

    def drop(self, append_id: int) -> Pending[S, R] | None:
        """An append failed: it never was, and what was appended behind it counts without it."""
        dropped = self.pending.pop(append_id, None)
        if dropped is None:
            return None
        count = len(dropped.records)
        state = self.committed
        for each in self.pending.values():
            if each.base_offset > dropped.base_offset:
                each.base_offset -= count
                each.state = self.rules.replay(state, each.records)
            state = each.state
        self.state = state
        self.next_offset -= count
        return dropped

    def close(self, status: Status) -> list[Waiter]:
        """Forget everything; those who waited for an append. FAILED keeps the reason."""
        waiters = [waiter for each in self.pending.values() for waiter in _taken(each.operation)]
        self.status = status
        self.state = self.committed = self.rules.empty()
        self.pending.clear()
        self.timers = Timers()
        return waiters


def _taken(operation: Operation) -> list[Waiter]:
    waiters, operation.waiters = operation.waiters, []
    return waiters


def _batches(records: Sequence[LogRecord]) -> Iterable[tuple[int, int]]:
    """Places, start to stop, of as many batches of about BATCH_BYTES as it takes."""
    start = size = 0
    for index, record in enumerate(records):
        added = len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD
        if index > start and size + added > BATCH_BYTES:
            yield start, index
            start, size = index, 0
        size += added
    yield start, len(records)
