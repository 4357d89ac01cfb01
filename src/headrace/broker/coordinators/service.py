"""The partitions of a coordinator's topic that are served here.

There is one coordinator for each that this broker leads (`hosted.py`). It is loading from the election until every record of the log was read
and is committed; only then does it serve. What coordinators are made of is imported when the first one starts, after the node is ready.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.broker.ports import BrokerServices
from headrace.coordinator.runtime.events import Answer, ImageChanged, RequestReceived
from headrace.core.deadlines import earliest
from headrace.core.error_code import ErrorCode
from headrace.core.histogram import RecentHistogram
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HandlerResult, Reply

if TYPE_CHECKING:
    from headrace.broker.coordinators.hosted import CoordinatorKind, HostedCoordinator

_RUNG_AT_ONCE = 2
_ANSWERED_A_TURN = 200


class CoordinatorService:
    """The coordinators of one kind on this broker. Driven by the broker: elections, image changes and ticks come in, handlers ask.

    `kind` is called when the first coordinator starts.
    """

    def __init__(self, services: BrokerServices, kind: Callable[[], CoordinatorKind]) -> None:
        self._services = services
        self._kind = kind
        self._starting: dict[int, int] = {}
        self._hosted: dict[int, HostedCoordinator] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = count()
        self._late_answers: deque[Answer] = deque()
        self._is_active = True
        self._loaded_last = -1
        self._rung_last = -1
        self._deadline_known = False
        self._deadline_ms: int | None = None
        self._loads = RecentHistogram()

    # ---- what the broker tells

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of the topic from now on; it is loaded by the next ticks."""
        known = self._hosted.get(partition)
        if known is not None and known.epoch == leader_epoch:
            return
        self._drop(partition)
        self._starting[partition] = leader_epoch
        self._changed()

    def resigned(self, partition: int, leader_epoch: int | None) -> None:
        """This broker leads the partition no longer (`leader_epoch` is the new leader's, None when the topic is gone)."""
        hosted = self._hosted.get(partition)
        epoch = self._starting.get(partition) if hosted is None else hosted.epoch
        if epoch is not None and (leader_epoch is None or leader_epoch >= epoch):
            self._drop(partition)

    def image_changed(self, change: Any) -> None:
        """Tell every coordinator of a change in the metadata, those that load too."""
        self._start_all()
        event = ImageChanged(change=change, now_ms=self._services.now_ms())
        for hosted in list(self._hosted.values()):
            hosted.run(event)

    def tick(self, now_ms: int) -> None:
        """Do what is due: starts, deadlines of some coordinators, and one turn of one that loads, each in its turn, so that nobody waits for all of them."""
        due = self.next_deadline_ms()
        if due is None or due > now_ms:
            return
        self._deadline_known = False
        self._answer_some(_ANSWERED_A_TURN)
        self._start_all()
        self._ring_some(now_ms)
        loading = [partition for partition, hosted in self._hosted.items() if hosted.has_turn]
        if loading:
            self._loaded_last = min(loading, key=lambda partition: (partition <= self._loaded_last, partition))
            self._hosted[self._loaded_last].load(now_ms)

    def _ring_some(self, now_ms: int) -> None:
        """The deadlines of a few coordinators, each in its turn: those of all often come together, of a look at all positions for example (M6)."""
        rung = 0
        for partition in sorted(self._hosted, key=lambda each: (each <= self._rung_last, each)):
            hosted = self._hosted.get(partition)
            if hosted is not None and hosted.tick(now_ms):
                self._rung_last = partition
                rung += 1
                if rung == _RUNG_AT_ONCE:
                    return

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due, or None."""
        if not self._deadline_known:
            self._deadline_ms = self._earliest_deadline()
            self._deadline_known = True
        return self._deadline_ms

    def shut_down(self) -> None:
        """Send everybody away; nothing is served afterwards."""
        self._is_active = False
        for partition in [*self._starting, *self._hosted]:
            self._drop(partition)
        self._answer_some(len(self._late_answers))

    @property
    def failures(self) -> dict[int, str]:
        """The partitions whose log could not be read, and why."""
        return {number: each.failure for number, each in self._hosted.items() if each.failure is not None}

    @property
    def loads(self) -> RecentHistogram:
        """How many ms coordinators took until they served."""
        for hosted in self._hosted.values():
            self._note_load(hosted)
        return self._loads

    def _note_load(self, hosted: HostedCoordinator) -> None:
        if hosted.loaded_in_ms is not None:
            self._loads.add(hosted.loaded_in_ms)
            hosted.loaded_in_ms = None

    @property
    def partition_states(self) -> dict[str, int]:
        """How many of the partitions are loading, are served, or could not be read, by Kafka's names."""
        statuses = [each.status for each in self._hosted.values()]
        failed = len(self.failures)
        loading = sum(each.value == "loading" for each in statuses) + len(self._starting)
        return {"loading": loading, "active": sum(each.value == "active" for each in statuses), "failed": failed}

    # ---- what handlers ask

    def serving(self, partition: int) -> Any | ErrorCode:
        """The coordinator that serves a partition here, or the error that sends its client elsewhere or makes it wait."""
        hosted = self._find(partition)
        return hosted if isinstance(hosted, ErrorCode) else hosted.runtime.coordinator

    def all_serving(self) -> list[Any] | ErrorCode:
        """Every coordinator that serves here; COORDINATOR_LOAD_IN_PROGRESS as long as one is not ready."""
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        self._start_all()
        errors = {hosted.error for hosted in self._hosted.values()}
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in errors:
            return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return [each.runtime.coordinator for each in self._hosted.values() if each.error is ErrorCode.NONE]

    def give(
        self,
        partition: int,
        request: Any,
        context: RequestContext,
        *,
        refused: Callable[[ErrorCode], object],
        shape: Callable[[Any], object] | None = None,
    ) -> HandlerResult:
        """Give a request to the coordinator of a partition. The reply is there at once, or comes when it is committed or what it waits for happened.

        `refused` makes the response when this broker does not serve the partition, `shape` the response out of the coordinator's answer.
        """
        hosted = self._find(partition)
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
        hosted.run(event)
        if answers:
            return Reply(shape(answers[0]) if shape is not None else answers[0])
        deferred = Deferred(on_abandoned=lambda: self._forget(token))
        self._waiting[token] = lambda answer: _complete(deferred, answer, shape)
        return deferred

    # ---- coordinators and their answers

    def _find(self, partition: int) -> HostedCoordinator | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if partition in self._starting:
            self._start(partition)
        hosted = self._hosted.get(partition)
        if hosted is None:
            return ErrorCode.NOT_COORDINATOR
        error = hosted.error
        return hosted if error is ErrorCode.NONE else error

    def _start_all(self) -> None:
        for partition in list(self._starting):
            self._start(partition)

    def _start(self, partition: int) -> None:
        from headrace.broker.coordinators.hosted import HostedCoordinator  # a fifth of a node's start-up time

        self._deadline_known = False
        epoch = self._starting.pop(partition)
        self._hosted[partition] = HostedCoordinator(
            self._kind(),
            partition,
            epoch,
            self._services,
            answer=self._answer_or_wait,
            changed=self._changed,
        )

    def _drop(self, partition: int) -> None:
        self._deadline_known = False
        self._starting.pop(partition, None)
        hosted = self._hosted.pop(partition, None)
        if hosted is not None:
            self._late_answers.extend(hosted.resign())
            self._answer_some(_ANSWERED_A_TURN)
            self._changed()
            self._note_load(hosted)
            self._gone(hosted.runtime.coordinator)

    def _gone(self, coordinator: Any) -> None:
        """One serves no more; what it counted is to be kept."""

    def _earliest_deadline(self) -> int | None:
        if self._starting or self._late_answers or any(each.has_turn for each in self._hosted.values()):
            return self._services.now_ms()
        return earliest([each.next_deadline_ms for each in self._hosted.values()])

    def _answer(self, token: int, response: Any) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is not None:
            waiting(response)

    def _answer_or_wait(self, answer: Answer, number: int) -> None:
        """One event, a committed record or the request of a tool, may be what thousands wait for: only the first of them are answered in its turn (M6)."""
        if number < _ANSWERED_A_TURN:
            self._answer(answer.token, answer.response)
        else:
            self._late_answers.append(answer)

    def _answer_some(self, most: int) -> None:
        """Of the last answers of coordinators that are gone, and of those that one event gives to thousands (M6)."""
        for _ in range(min(most, len(self._late_answers))):
            answer = self._late_answers.popleft()
            self._answer(answer.token, answer.response)

    def _changed(self) -> None:
        self._deadline_known = False
        self._services.deadline_changed()

    def _forget(self, token: int) -> None:
        self._waiting.pop(token, None)


def _complete(deferred: Deferred, answer: Any, shape: Callable[[Any], object] | None) -> None:
    deferred.complete(Reply(shape(answer) if shape is not None else answer))


def _dashed(value: Uuid) -> str:
    """A uuid as Java prints it."""
    text = value.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
