"""What the controller would do: a broker that dies or stops, or a reassignment, decided by a `ControllerMachine` on a copy of the image.

Nothing is foretold by other rules than those that decide: the machine becomes active on the image that a cluster has now, is told what would
happen, and its decisions are the forecast. What brokers do in between (acknowledge, fall silent, come into sync) is told it too, on the
assumption that every broker that lives does its part.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import (
    Answer,
    BrokerUnreachable,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestCause,
    TimeAdvanced,
)
from headrace.controller.machine import ControllerMachine
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.core.values import value_class
from headrace.metadata.image import LEADER_RECOVERED
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.config.node_config import NodeConfig
    from headrace.controller.events import ControllerEffect
    from headrace.core.ports import Rng
    from headrace.metadata.image import MetadataImage, PartitionRegistration

_NOW_MS: Final = 0
_ALL_AT_ONCE: Final = 1 << 40
"""No slices: nobody else waits for this machine."""
_EVERYTHING: Final = 1 << 62
"""An offset above all that is written."""


@value_class
class Forecast:
    """An image as it is, as it would be when the controller has decided, and when every live broker has done its part after that."""

    before: MetadataImage
    decided: MetadataImage
    after: MetadataImage
    refused: Mapping[TopicPartition, PeerError] = field(default_factory=dict)
    """What the controller would refuse to move, and why."""


class _Rehearsal:
    """A controller that leads alone: what it writes is committed at once, and no time goes by."""

    def __init__(self, image: MetadataImage, config: NodeConfig, rng: Rng) -> None:
        settings = replace(config, headrace_fence_unreachable_brokers=True)
        self._machine = ControllerMachine(config=settings, cluster_id="", rng=rng, bootstrap=())
        self._machine.slice_size = self._machine.most_at_once = _ALL_AT_ONCE
        next_offset = image.provenance.last_contained_offset + 1
        self._take(LeadershipGained(epoch=1, next_offset=next_offset, image=image, now_ms=_NOW_MS))

    @property
    def image(self) -> MetadataImage:
        """Everything decided so far."""
        return self._machine.image

    def _take(self, event: Any) -> list[ControllerEffect]:
        """One event, and what follows until nothing is left to do."""
        effects = self._machine.step(event)
        while True:
            effects += self._machine.step(RecordsCommitted(image=self.image, upto=_EVERYTHING, now_ms=_NOW_MS))
            if not self._machine.queue_size:
                return effects
            effects += self._machine.step(TimeAdvanced(now_ms=_NOW_MS))

    def ask(self, request: Any) -> Any:
        """The response to a request."""
        cause = RequestCause(api_version=request.SCHEMA.versions.last)
        asked = RequestArrived(token=1, request=request, cause=cause, now_ms=_NOW_MS, deadline_ms=_NOW_MS + 1)
        [answer] = [effect for effect in self._take(asked) if isinstance(effect, Answer)]
        return answer.response

    def lose(self, broker_id: int) -> None:
        """The broker's process is gone."""
        broker = self.image.cluster.brokers[broker_id]
        self._take(BrokerUnreachable(broker_id=broker_id, broker_epoch=broker.broker_epoch, now_ms=_NOW_MS))

    def stop(self, broker_id: int) -> None:
        """The broker asks for its controlled shutdown."""
        broker = self.image.cluster.brokers[broker_id]
        self.ask(
            BrokerHeartbeatRequest(
                broker_id=broker_id,
                broker_epoch=broker.broker_epoch,
                current_metadata_offset=broker.broker_epoch,
                want_shut_down=True,
            )
        )

    def settle(self, places: Sequence[TopicPartition]) -> None:
        """Live replicas of these partitions come into sync, one after the other, until nothing changes any more."""
        for where in places:
            while (lagging := self._lagging(where)) is not None:
                before = self.image
                self.ask(self._joined(where, lagging))
                if self.image is before:
                    break

    def _lagging(self, where: TopicPartition) -> int | None:
        """A replica that could be in sync and is not, of those that stay."""
        partition = self.image.topics.partition(*where)
        if partition is None or not self._is_active(partition.leader):
            return None
        staying = (each for each in partition.replicas if each not in partition.removing_replicas)
        return next((each for each in staying if each not in partition.isr and self._is_active(each)), None)

    def _is_active(self, broker_id: int) -> bool:
        broker = self.image.cluster.brokers.get(broker_id)
        return broker is not None and broker.is_active

    def _joined(self, where: TopicPartition, replica: int) -> AlterPartitionRequest:
        """The leader says that a replica has caught up."""
        brokers, topic = self.image.cluster.brokers, self.image.topics.by_name[where.topic]
        partition = topic.partitions[where.partition]
        data = RequestPartitionData(
            partition_index=where.partition,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=tuple(
                BrokerState(broker_id=each, broker_epoch=brokers[each].broker_epoch)
                for each in (*partition.isr, replica)
                if each in brokers
            ),
            leader_recovery_state=LEADER_RECOVERED,
        )
        return AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=brokers[partition.leader].broker_epoch,
            topics=(RequestTopicData(topic_id=topic.id, partitions=(data,)),),
        )


def if_broker_dies(image: MetadataImage, broker_id: int, *, config: NodeConfig, rng: Rng) -> Forecast:
    """The broker's process is gone, and the controller fences it. `broker_id` must be registered."""
    rehearsal = _Rehearsal(image, config, rng)
    rehearsal.lose(broker_id)
    return Forecast(before=image, decided=rehearsal.image, after=rehearsal.image)


def if_broker_stops(image: MetadataImage, broker_id: int, *, config: NodeConfig, rng: Rng) -> Forecast:
    """The broker stops in order: `decided` is while it hands over and still runs, `after` when it is gone. `broker_id` must be registered."""
    rehearsal = _Rehearsal(image, config, rng)
    if not image.cluster.brokers[broker_id].fenced:
        rehearsal.stop(broker_id)
    decided = rehearsal.image
    rehearsal.lose(broker_id)
    return Forecast(before=image, decided=decided, after=rehearsal.image)


def if_reassigned(
    image: MetadataImage, targets: Mapping[TopicPartition, Sequence[int]], *, config: NodeConfig, rng: Rng
) -> Forecast:
    """These partitions get these replicas: `decided` is when that has begun, `after` when all live replicas are in sync."""
    rehearsal = _Rehearsal(image, config, rng)
    topics: dict[str, list[ReassignablePartition]] = {}
    for where, replicas in sorted(targets.items()):
        asked = ReassignablePartition(partition_index=where.partition, replicas=tuple(replicas))
        topics.setdefault(where.topic, []).append(asked)
    rows = tuple(ReassignableTopic(name=name, partitions=tuple(parts)) for name, parts in topics.items())
    response = rehearsal.ask(AlterPartitionReassignmentsRequest(topics=rows))
    decided = rehearsal.image
    refused = dict(_refused(response, targets))
    rehearsal.settle([where for where in sorted(targets) if where not in refused])
    return Forecast(before=image, decided=decided, after=rehearsal.image, refused=refused)


def _refused(
    response: Any, targets: Mapping[TopicPartition, Sequence[int]]
) -> Iterator[tuple[TopicPartition, PeerError]]:
    """Each partition that the controller did not take; all of them when it refused the whole."""
    if response.error_code != ErrorCode.NONE:
        error = PeerError(ErrorCode.known(response.error_code), response.error_message or "")
        yield from dict.fromkeys(targets, error).items()
        return
    for topic in response.responses:
        for part in topic.partitions:
            if part.error_code != ErrorCode.NONE:
                error = PeerError(ErrorCode.known(part.error_code), part.error_message or "")
                yield TopicPartition(topic.name, part.partition_index), error


def changed_partitions(
    before: MetadataImage, after: MetadataImage
) -> Iterator[tuple[TopicPartition, PartitionRegistration, PartitionRegistration | None]]:
    """The partitions that differ, as they were and as they are (None: gone), by name. Cost: the topics, and the partitions of those that differ."""
    for name in sorted(before.topics.by_name):
        old, new = before.topics.by_name[name], after.topics.by_name.get(name)
        if old is new:
            continue
        for number in sorted(old.partitions):
            was = old.partitions[number]
            now = None if new is None else new.partitions.get(number)
            if was is not now:
                yield TopicPartition(name, number), was, now
