"""Which coordinator serves a group here?

There is one for each partition of `__consumer_offsets` that this broker leads (`hosted_groups.py`). It is loading from the election until every record of the log was read
and is committed; only then are its groups served. What coordinators are made of is imported when the first one starts, after the node is ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices
from headrace.coordinator.events import RequestReceived, TopicsDeleted
from headrace.coordinator.hashing import partition_for
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HandlerResult, Reply

if TYPE_CHECKING:
    from headrace.broker.hosted_groups import HostedCoordinator
    from headrace.coordinator.machine import GroupCoordinator


class GroupService:
    """The group coordinators of this broker. Driven by the broker: elections, image changes and ticks come in, handlers ask."""

    def __init__(self, services: BrokerServices) -> None:
        self._services = services
        self._starting: dict[int, int] = {}
        self._hosted: dict[int, HostedCoordinator] = {}
        self._waiting: dict[int, Callable[[Any], None]] = {}
        self._tokens = count()
        self._is_active = True
        self._deadline_known = False
        self._deadline_ms: int | None = None

    # ---- what the broker tells

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads a partition of the offsets topic from now on; it is loaded by the next ticks."""
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

    def topics_deleted(self, topics: Iterable[tuple[str, Uuid]]) -> None:
        """Topics are gone, and with them the positions of every group in them."""
        event = TopicsDeleted(topics=tuple(topics), now_ms=self._services.now_ms())
        for partition in list(self._starting):
            self._start(partition)
        for hosted in list(self._hosted.values()):
            if hosted.failure is None:
                hosted.delete_topics(event)

    def tick(self, now_ms: int) -> None:
        """Do what is due: starts, slices of loading, sessions, rebalances, expiry."""
        due = self.next_deadline_ms()
        if due is None or due > now_ms:
            return
        self._deadline_known = False
        for partition in list(self._starting):
            self._start(partition)
        for hosted in list(self._hosted.values()):
            hosted.tick(now_ms)

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

    @property
    def failures(self) -> dict[int, str]:
        """The partitions whose log could not be read, and why."""
        return {number: each.failure for number, each in self._hosted.items() if each.failure is not None}

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
        for partition in list(self._starting):
            self._start(partition)
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
        hosted.run(event)
        if answers:
            return Reply(shape(answers[0]) if shape is not None else answers[0])
        deferred = Deferred(on_abandoned=lambda: self._forget(token))
        self._waiting[token] = lambda answer: _complete(deferred, answer, shape)
        return deferred

    # ---- coordinators and their answers

    def _find(self, group_id: str) -> HostedCoordinator | ErrorCode:
        if not self._is_active:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_of(group_id)
        if partition in self._starting:
            self._start(partition)
        hosted = self._hosted.get(partition)
        if hosted is None:
            return ErrorCode.NOT_COORDINATOR
        return hosted if hosted.error is ErrorCode.NONE else hosted.error

    def _start(self, partition: int) -> None:
        from headrace.broker.hosted_groups import HostedCoordinator  # a fifth of a node's start-up time

        self._deadline_known = False
        epoch = self._starting.pop(partition)
        self._hosted[partition] = HostedCoordinator(
            partition, epoch, self._services, answer=self._answer, changed=self._changed
        )

    def _drop(self, partition: int) -> None:
        self._deadline_known = False
        self._starting.pop(partition, None)
        hosted = self._hosted.pop(partition, None)
        if hosted is not None:
            hosted.resign()

    def _earliest_deadline(self) -> int | None:
        if self._starting:
            return self._services.now_ms()
        deadlines = (each.next_deadline_ms for each in self._hosted.values())
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def _answer(self, token: int, response: Any) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is not None:
            waiting(response)

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
