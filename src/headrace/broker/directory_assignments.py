"""The directories of this broker's replicas on their way to the controller (AssignReplicasToDirs, KIP-858)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.core.values import value_class
from headrace.metadata.versions import has_directory_assignment
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Reply
from headrace.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)

if TYPE_CHECKING:
    from headrace.broker.ports import ControllerChannel
    from headrace.core.ids import TopicIdPartition, Uuid
    from headrace.core.ports import Rng
    from headrace.metadata.image import MetadataImage

MAX_ASSIGNMENTS: Final = 2_250
"""Of one request: Kafka's AssignReplicasToDirsRequest.MAX_ASSIGNMENTS_PER_REQUEST."""
FIRST_BACKOFF_MS: Final = 100
"""So long an assignment waits for others to go with it, too."""
_LAST_BACKOFF_MS: Final = 10_000
_JITTER: Final = 0.02
_TIMEOUT_MS: Final = 30_000
_ASSIGN_REPLICAS_TO_DIRS: Final = 73


@value_class(kw_only=False, eq=False)
class _Assignment:
    """Where a replica is or goes, and who wants to hear that the controller knows it."""

    directory: Uuid
    accepted: Callable[[], None]


def _nobody_waits() -> None:
    """Most only want the controller to know."""


class DirectoryAssignments:
    """Tells the controller in which directory each replica is, until it says that it knows. Driven by the broker: `assign`, `tick`.

    One request at a time, with all that wait, the oldest first. Of two words about one replica the newer holds: an older one that was not sent yet is
    forgotten, one that is under way is followed by the newer and not sent again. What the controller refuses, or does not answer, is sent again after a
    pause that doubles, unless the replica is not this broker's any more.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        controller: ControllerChannel,
        image: Callable[[], MetadataImage],
        now_ms: Callable[[], int],
        rng: Rng,
    ) -> None:
        self.broker_epoch = -1
        self.on_waiting: Callable[[], None] = _nobody_waits
        """Told when `next_deadline_ms` may be sooner than before."""
        self._broker_id = broker_id
        self._controller = controller
        self._image = image
        self._now_ms = now_ms
        self._rng = rng
        self._ready: dict[TopicIdPartition, _Assignment] = {}
        self._sent: dict[TopicIdPartition, _Assignment] = {}
        self._send_at_ms: int | None = None
        self._failures = 0

    def __len__(self) -> int:
        """QueuedReplicaToDirAssignments: those that the controller has not answered."""
        return len(self._ready) + len(self._sent)

    def assign(self, place: TopicIdPartition, directory: Uuid, *, accepted: Callable[[], None] = _nobody_waits) -> None:
        """Tell that the replica is in `directory`, or goes there; `accepted` hears when the controller knows it, never if a newer word comes first."""
        if not has_directory_assignment(self._image().features.metadata_version or 0):
            accepted()
            return
        waiting = self._ready.get(place, self._sent.get(place))
        if waiting is not None and waiting.directory == directory and waiting.accepted == accepted:
            return
        self._ready.pop(place, None)  # the newer word waits behind all others
        self._ready[place] = _Assignment(directory, accepted)
        self._plan()

    def word_of(self, place: TopicIdPartition) -> Uuid | None:
        """The newest directory that the controller is being told, None if it is told nothing of this replica."""
        waiting = self._ready.get(place, self._sent.get(place))
        return None if waiting is None else waiting.directory

    def withdraw(self, place: TopicIdPartition) -> None:
        """What was not sent yet is not true any more."""
        self._ready.pop(place, None)

    def tick(self, now_ms: int) -> None:
        """Send what waits."""
        if self._send_at_ms is not None and now_ms >= self._send_at_ms:
            self._send_at_ms = None
            self._send()

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return self._send_at_ms

    # --- inside ---

    def _plan(self) -> None:
        """Many that wait go at once, few after a moment; after a failure all wait."""
        if self._sent or not self._ready:
            return
        wait_ms = FIRST_BACKOFF_MS
        if self._failures:
            jitter = 1 + _JITTER * (2 * self._rng.random() - 1)
            wait_ms = int(min(FIRST_BACKOFF_MS << min(self._failures, 16), _LAST_BACKOFF_MS) * jitter)
        elif len(self._ready) >= MAX_ASSIGNMENTS:
            wait_ms = 0
        at_ms = self._now_ms() + wait_ms
        self._send_at_ms = at_ms if self._send_at_ms is None else min(self._send_at_ms, at_ms)
        self.on_waiting()

    def _is_ours(self, place: TopicIdPartition) -> bool:
        partition = self._image().topics.partition_by_id(place.topic_id, place.partition)
        return partition is not None and self._broker_id in partition.replicas

    def _send(self) -> None:
        self._ready = {place: each for place, each in self._ready.items() if self._is_ours(place)}
        self._sent = dict(islice(self._ready.items(), MAX_ASSIGNMENTS))
        if not self._sent:
            return
        for place in self._sent:
            del self._ready[place]
        where: dict[Uuid, dict[Uuid, list[RequestPartitionData]]] = {}
        for place, each in self._sent.items():
            partitions = where.setdefault(each.directory, {}).setdefault(place.topic_id, [])
            partitions.append(RequestPartitionData(partition_index=place.partition))
        request = AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self.broker_epoch,
            directories=tuple(
                RequestDirectoryData(
                    id=directory,
                    topics=tuple(
                        RequestTopicData(topic_id=topic_id, partitions=tuple(found))
                        for topic_id, found in topics.items()
                    ),
                )
                for directory, topics in where.items()
            ),
        )
        context = RequestContext(api_key=_ASSIGN_REPLICAS_TO_DIRS, api_version=0, is_internal=True)
        self._controller.send(request, context, deadline_ms=self._now_ms() + _TIMEOUT_MS).when_done(self._answered)

    def _answered(self, reply: AnyReply) -> None:
        sent, self._sent = self._sent, {}
        assert isinstance(reply, Reply), "the controller answers with a message"
        response = reply.message
        assert isinstance(response, AssignReplicasToDirsResponse), "the api's own response"
        if response.error_code != ErrorCode.NONE:
            self._failures += 1
            errors: dict[tuple[bytes, int], int] = {}
        else:
            self._failures = 0
            errors = {
                (topic.topic_id, partition.partition_index): partition.error_code
                for directory in response.directories
                for topic in directory.topics
                for partition in topic.partitions
            }
        again: dict[TopicIdPartition, _Assignment] = {}
        for place, each in sent.items():
            if place in self._ready:  # a newer word about it waits
                continue
            if errors.get(place) == ErrorCode.NONE:
                each.accepted()
            else:
                again[place] = each
        self._ready = again | self._ready
        self._plan()
