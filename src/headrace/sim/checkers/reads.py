"""Topics, partitions and settings that a node shows, never older than what it has shown to be past.  H13

The committed log is the order of all changes. A read that begins when the node's metadata ends at some offset must show the state at that
offset or at a later one, all of it at one offset: so a change that was acknowledged, and that this node has, is seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.metadata.image import RESOURCE_TOPIC
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import CallEnded, CallStarted, Outcome
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.describe_configs import DescribeConfigsRequest
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from headrace.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.metadata.image import MetadataImage, TopicImage
    from headrace.sim.observation import NodeView

_OF_TOPIC, _OF_ALL_BROKERS = 1, 3
"""Sources of a setting in DescribeConfigs."""
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


class _Begun(NamedTuple):
    """A read that goes on: the node's run, and where its metadata ended."""

    run: int
    end: int


class Reads(Group):
    """What clients read, against the committed log."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._begun: dict[int, _Begun] = {}
        self._acknowledged: dict[str, int] = {}
        """Topic -> the committed end when a change of it was acknowledged last."""

    def called(self, event: object) -> None:
        """A read began or ended, or a change was acknowledged."""
        if isinstance(event, CallStarted):
            if type(event.request) in _SHOWN:
                node = self.scene.step.node
                self._begun[event.call_id] = _Begun(node.run, _end_of(node))
        elif isinstance(event, CallEnded):
            if type(event.request) in _SHOWN:
                self._judge(event, self._begun.pop(event.call_id))
            elif event.outcome is Outcome.OK:
                self._acknowledged.update(dict.fromkeys(_changed_topics(event.request), self.ghost.committed.end))

    def _judge(self, event: CallEnded, begun: _Begun) -> None:
        if event.response is None:
            return
        node = self.scene.step.node
        asks_another = isinstance(event.request, ListPartitionReassignmentsRequest) and not node.is_controller
        end = begun.end if node.run == begun.run and not asks_another else 0
        shows = _SHOWN[type(event.request)]
        if not any(shows(image, event.request, event.response) for image in self.ghost.committed.images_since(end)):
            raise self.broken(
                "H13",
                f"call {event.call_id}: node {node.node_id}, whose metadata ended at {end}, answered what was never so "
                f"from then on: {event.response}",
                self.ghost.lives[node.node_id],
            )
        self.hit(f"read of a {'controller' if node.is_controller else 'broker'}")
        if any(self._acknowledged.get(name, end + 1) <= end for name in _named(event.request, event.response)):
            self.hit("read after an acknowledged change")


def _end_of(node: NodeView) -> int:
    """The first offset that the node's readers do not have."""
    image = node.image if node.machine is None else node.machine.image
    return 0 if image is None else image.provenance.last_contained_offset + 1


def _changed_topics(request: Any) -> list[str]:
    """The topics that a request is to change, as far as it says their names."""
    match request:
        case CreateTopicsRequest() | CreatePartitionsRequest() | AlterPartitionReassignmentsRequest():
            return [topic.name for topic in request.topics]
        case DeleteTopicsRequest():
            return [*(topic.name for topic in request.topics if topic.name is not None), *request.topic_names]
        case IncrementalAlterConfigsRequest():
            return [each.resource_name for each in request.resources if each.resource_type == RESOURCE_TOPIC]
        case _:
            return []


def _named(request: Any, response: Any) -> list[str]:
    """The topics that a read was about."""
    if isinstance(request, DescribeConfigsRequest):
        return [each.resource_name for each in request.resources if each.resource_type == RESOURCE_TOPIC]
    return [topic.name for topic in (*(request.topics or ()), *response.topics) if topic.name is not None]


def _shows_topics(image: MetadataImage, request: MetadataRequest, response: Any) -> bool:
    """Metadata: the topics that were asked for, or all, each as the image has it."""
    told = {topic.name for topic in response.topics}
    if request.topics is None and told != set(image.topics.by_name):
        return False
    offset = response.metadata_offset
    if offset >= 0 and offset != image.provenance.last_contained_offset:
        return False
    return all(_shows_topic(image, topic) for topic in response.topics)


def _shows_topic(image: MetadataImage, told: Any) -> bool:
    known = image.topics.by_id.get(told.topic_id) if told.name is None else image.topics.by_name.get(told.name)
    if told.error_code in _UNKNOWN or known is None:
        return known is None and told.error_code in _UNKNOWN
    numbers = [each.partition_index for each in told.partitions]
    return (
        told.topic_id in (ZERO_UUID, known.id)
        and numbers == sorted(known.partitions)
        and all(_shows_partition(known, each) for each in told.partitions)
    )


def _shows_partition(topic: TopicImage, told: Any) -> bool:
    known = topic.partitions[told.partition_index]
    return (
        told.leader_id in (-1, known.leader)
        and told.leader_epoch == known.leader_epoch
        and tuple(told.replica_nodes) == known.replicas
        and tuple(told.isr_nodes) == known.isr
    )


def _shows_page(image: MetadataImage, request: DescribeTopicPartitionsRequest, response: Any) -> bool:
    """DescribeTopicPartitions: a page from the first partition on."""
    asked = sorted({topic.name for topic in request.topics} or image.topics.by_name)
    told = [topic.name for topic in response.topics]
    if told != asked[: len(told)] or (response.next_cursor is None and len(told) < len(asked)):
        return False
    for topic in response.topics:
        known = image.topics.by_name.get(topic.name)
        if known is None or topic.error_code in _UNKNOWN:
            if known is not None or topic.error_code not in _UNKNOWN:
                return False
            continue
        count = len(topic.partitions)
        is_last = topic is response.topics[-1] and response.next_cursor is not None
        if topic.topic_id != known.id or (count < len(known.partitions) and not is_last):
            return False
        if [each.partition_index for each in topic.partitions] != sorted(known.partitions)[:count]:
            return False
        if not all(_shows_partition(known, each) for each in topic.partitions):
            return False
    return True


def _shows_settings(image: MetadataImage, request: DescribeConfigsRequest, response: Any) -> bool:
    """DescribeConfigs: what was set for a topic, or for all brokers."""
    for told in response.results:
        is_topic = told.resource_type == RESOURCE_TOPIC
        is_there = not is_topic or told.resource_name in image.topics.by_name
        if told.error_code in _UNKNOWN or not is_there:
            if is_there or told.error_code not in _UNKNOWN:
                return False
            continue
        source = _OF_TOPIC if is_topic else _OF_ALL_BROKERS
        said = {each.name: each.value for each in told.configs if each.config_source == source}
        if said != dict(image.configs.of(told.resource_type, told.resource_name)):
            return False
    return True


def _shows_moves(image: MetadataImage, request: ListPartitionReassignmentsRequest, response: Any) -> bool:
    """ListPartitionReassignments: all that go on, or those of the named partitions."""
    asked = None if request.topics is None else {each.name: each.partition_indexes for each in request.topics}
    known = {
        (name, number): (partition.replicas, partition.adding_replicas, partition.removing_replicas)
        for name, topic in image.topics.by_name.items()
        for number, partition in topic.partitions.items()
        if (partition.adding_replicas or partition.removing_replicas)
        and (asked is None or number in asked.get(name, ()))
    }
    told = {
        (topic.name, each.partition_index): (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    }
    return told == known


_SHOWN: Final[dict[type, Callable[[MetadataImage, Any, Any], bool]]] = {
    MetadataRequest: _shows_topics,
    DescribeTopicPartitionsRequest: _shows_page,
    DescribeConfigsRequest: _shows_settings,
    ListPartitionReassignmentsRequest: _shows_moves,
}
"""Each kind of read -> whether an image is what its answer shows."""
