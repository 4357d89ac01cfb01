"""A coordinator of the tests' own: counters by name. It shows what the runtime does whatever is coordinated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from immutables import Map

from headrace.coordinator.runtime.events import (
    Answer,
    AppendFailed,
    AppendRecords,
    CoordinatorEvent,
    LoadedRecord,
    LoadFinished,
    LogRecord,
    RecordsCommitted,
    RecordsLoaded,
    Reload,
    RequestReceived,
    Resigned,
    TimePassed,
)
from headrace.coordinator.runtime.machine import Runtime
from headrace.coordinator.runtime.shard import Shard, Status, Waiter
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError

TIMEOUT_MS = 5_000
Counters = Map[str, int]


class Counted(NamedTuple):
    """A counter's value; None: it is gone."""

    name: str
    value: int | None


class CounterRules:
    """Key "c" and the name, value the number as text. Other first letters are of other releases. Sums count up: replaying twice would show."""

    def empty(self) -> Counters:
        return Map()

    def read(self, record: LogRecord) -> Counted | None:
        if record.key[:1] != b"c":
            return None
        try:
            return Counted(record.key[1:].decode(), None if record.value is None else int(record.value))
        except ValueError as error:
            raise DecodeError("no number") from error

    def written(self, record: Counted) -> LogRecord:
        return LogRecord(b"c" + record.name.encode(), None if record.value is None else str(record.value).encode())

    def replay(self, state: Counters, records: Iterable[Counted], producer_id: int = -1) -> Counters:
        for name, value in records:
            if producer_id != -1:
                name = f"{producer_id}:{name}"
            if value is not None:
                state = state.set(name, state.get(name, 0) + value)
            elif name in state:
                state = state.delete(name)
        return state

    def end_transaction(self, state: Counters, producer_id: int, *, is_committed: bool) -> Counters:
        for name, value in list(state.items()):
            producer, _, plain = name.partition(":")
            if plain and producer == str(producer_id):
                state = state.delete(name)
                if is_committed:
                    state = state.set(plain, state.get(plain, 0) + value)
        return state


class Add(NamedTuple):
    """Add to each of these counters, answer with their sums; with `is_atomic` in one batch."""

    names: tuple[str, ...]
    by: int = 1
    is_atomic: bool = True


class Read(NamedTuple):
    """Answer with a counter as decisions see it, when what that rests on is committed."""

    name: str


class Remind(NamedTuple):
    """Add one to the counter at this time, and answer then."""

    name: str
    at_ms: int


class CounterCoordinator:
    """Adds up, forgets what a change of the metadata names, and is reminded."""

    def __init__(self, *, restore_turns: int = 1) -> None:
        self.shard: Shard[Counters, Counted] = Shard(CounterRules(), commit_timeout_ms=TIMEOUT_MS)
        self.told: list[tuple[Any, ErrorCode]] = []
        self.reminders: dict[str, int] = {}
        self.restore_turns = restore_turns

    def restore(self, *, now_ms: int) -> bool:
        self.restore_turns -= 1
        return self.restore_turns <= 0

    def loaded(self, *, now_ms: int) -> None:
        self.told.append(("loaded", ErrorCode.NONE))

    def serve(self, event: RequestReceived) -> None:
        match event.request:
            case Add(names, by, is_atomic):
                records = [Counted(name, by) for name in names]
                state = self.shard.rules.replay(self.shard.state, records)
                answer = tuple(state[name] for name in names)
                self.shard.append(
                    records,
                    now_ms=event.now_ms,
                    waiter=Waiter(event, answer),
                    then=("added", names),
                    is_atomic=is_atomic,
                )
            case Read(name):
                self.shard.answer_in_order(event, self.shard.state.get(name, 0))
            case Remind(name, at_ms):
                self.reminders[name] = event.token
                self.shard.timers.schedule(name, at_ms, name)

    def refusal(self, request: Any, error: ErrorCode) -> object:
        return error

    def written(self, then: Any, error: ErrorCode, *, now_ms: int) -> None:
        self.told.append((then, error))

    def image_changed(self, change: Any, *, now_ms: int) -> None:
        self.shard.append([Counted(change, None)], now_ms=now_ms)

    def ring(self, timer: Any, *, now_ms: int) -> None:
        self.shard.append([Counted(timer, 1)], now_ms=now_ms)
        self.shard.answer(self.reminders.pop(timer), "rung")

    def resigned(self) -> None:
        for token in self.reminders.values():
            self.shard.answer(token, ErrorCode.NOT_COORDINATOR)


class CounterBench:
    """Drives the runtime on a log in memory whose high watermark the test moves."""

    def __init__(self, log: Iterable[LogRecord] = (), *, load: bool = True) -> None:
        self.coordinator = CounterCoordinator()
        self.shard = self.coordinator.shard
        self.runtime = Runtime(self.coordinator, self.shard)
        self.now_ms = 1_000
        self.log = list(log)
        self.appends: list[tuple[int, AppendRecords]] = []
        self.answers: dict[int, Any] = {}
        self.reloads: list[Reload] = []
        self.refuses = ErrorCode.NONE
        self._tokens = 0
        if load:
            self.load(self.log)
            self.step(LoadFinished(next_offset=len(self.log), now_ms=self.now_ms))

    @property
    def status(self) -> Status:
        return self.shard.status

    def load(self, records: Iterable[LogRecord], *, offset: int = 0, producer_id: int = -1) -> None:
        loaded = [LoadedRecord(offset + index, *record) for index, record in enumerate(records)]
        self.step(RecordsLoaded(records=loaded, producer_id=producer_id))

    def step(self, event: CoordinatorEvent) -> None:
        """Appends go into the log at once, or are refused; they are committed when the test says so."""
        failed = []
        for effect in self.runtime.step(event):
            match effect:
                case Answer():
                    assert effect.token not in self.answers, "a request is answered once"
                    self.answers[effect.token] = effect.response
                case AppendRecords() if self.refuses is not ErrorCode.NONE:
                    failed.append(effect.append_id)
                case AppendRecords():
                    self.appends.append((len(self.log), effect))
                    self.log.extend(effect.records)
                case Reload():
                    self.reloads.append(effect)
        for append_id in failed:
            self.step(AppendFailed(append_id=append_id, error=self.refuses, now_ms=self.now_ms))

    def send(self, request: Any) -> int:
        self._tokens += 1
        self.step(
            RequestReceived(
                token=self._tokens,
                request=request,
                api_version=0,
                client_id="c",
                client_host="/h",
                fresh_id="f",
                now_ms=self.now_ms,
            )
        )
        return self._tokens

    def commit(self, count: int = 1) -> None:
        """The high watermark passes the next appends."""
        for _ in range(count):
            base_offset, append = self.appends.pop(0)
            self.step(RecordsCommitted(append_id=append.append_id, base_offset=base_offset, now_ms=self.now_ms))

    def pass_time(self, by_ms: int) -> None:
        self.now_ms += by_ms
        self.step(TimePassed(now_ms=self.now_ms))

    def committed_log(self) -> list[LogRecord]:
        """What a failover leaves: nothing of what was not committed."""
        return self.log[: self.appends[0][0]] if self.appends else self.log

    def resign(self) -> None:
        self.step(Resigned())
