"""What clients were told is true, and what was acknowledged stays.  PR3 H13

The committed log is the order of all changes, so a call fits into it when its effect lies between the call's start and its end. A call
whose outcome is unknown may have happened or not: nothing is asked of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.metadata.image import NO_LEADER, RESOURCE_TOPIC, MetadataImage
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import CallEnded, CallStarted, Outcome, ResponseSent
from headrace.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from headrace.wire.messages.create_partitions import CreatePartitionsRequest
from headrace.wire.messages.create_topics import CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataResponse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from headrace.metadata.image import PartitionRegistration
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView

_SET, _DELETE = 0, 1


class _Made(NamedTuple):
    """A topic whose creation was acknowledged."""

    name: str
    call_id: int


class History(Group):
    """Calls of clients against the committed log."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._begun: dict[int, int] = {}
        """Call -> committed end when it began."""
        self._made: dict[Uuid, _Made] = {}
        self._deletions: set[Uuid] = set()
        """Ids of topics that somebody was or may have been told to be gone, or asked to delete."""
        self._names_asked_gone: set[str] = set()
        self._unmade: dict[Uuid, int] = {}
        self._judges: dict[type, Callable[[CallEnded, int, Any, Any], None]] = {
            CreateTopicsRequest: self._creations,
            DeleteTopicsRequest: self._deletions_told,
            IncrementalAlterConfigsRequest: self._alterations,
            CreatePartitionsRequest: self._growths,
            AlterPartitionReassignmentsRequest: self._moves,
            ElectLeadersRequest: self._elections,
        }

    def after_changes(self) -> Mapping[type, Handler]:
        """What a node says about topics is what it shows."""
        return {ResponseSent: self._answered}

    # Calls

    def called(self, event: object) -> None:
        """A call began or ended."""
        if isinstance(event, CallStarted):
            self._begun[event.call_id] = self.ghost.committed.end
            if isinstance(event.request, DeleteTopicsRequest):
                self._asked_gone(event.request)
        elif isinstance(event, CallEnded):
            begun = self._begun.pop(event.call_id, 0)
            if event.outcome is not Outcome.UNKNOWN and event.response is not None:
                self._judge(event, begun)

    def _asked_gone(self, request: DeleteTopicsRequest) -> None:
        for topic in request.topics:
            if topic.name is not None:
                self._names_asked_gone.add(topic.name)
            else:
                self._deletions.add(topic.topic_id)
        self._names_asked_gone.update(request.topic_names)

    def _judge(self, event: CallEnded, begun: int) -> None:
        request: Any = event.request
        response: Any = event.response
        judge = self._judges.get(type(request))
        if judge is not None and not getattr(request, "validate_only", False):
            judge(event, begun, request, response)

    def _creations(self, event: CallEnded, begun: int, _request: Any, response: Any) -> None:
        for result in response.topics:
            self._create(event, begun, result)

    def _deletions_told(self, event: CallEnded, begun: int, _request: Any, response: Any) -> None:
        for result in response.responses:
            self._delete(event, begun, result)

    def _alterations(self, event: CallEnded, begun: int, request: Any, response: Any) -> None:
        self._each_ok(request.resources, response.responses, lambda asked: self._alter(event, begun, asked))

    def _growths(self, event: CallEnded, begun: int, request: Any, response: Any) -> None:
        self._each_ok(request.topics, response.results, lambda asked: self._grow(event, begun, asked))

    def _moves(self, event: CallEnded, begun: int, request: Any, response: Any) -> None:
        for topic, told in zip(request.topics, response.responses, strict=False):
            for asked, result in zip(topic.partitions, told.partitions, strict=False):
                self._move(event, begun, (topic.name, asked), result.error_code)

    def _elections(self, event: CallEnded, begun: int, request: Any, response: Any) -> None:
        is_preferred = request.election_type == 0
        for each in response.replica_election_results:
            for result in each.partition_result:
                if result.error_code == ErrorCode.NONE:
                    self._elect(event, begun, (each.topic, result.partition_id), is_preferred=is_preferred)

    def _each_ok(self, asked: Sequence[Any], results: Sequence[Any], judge: Callable[[Any], None]) -> None:
        for each, result in zip(asked, results, strict=False):
            if result.error_code == ErrorCode.NONE:
                judge(each)

    def _create(self, event: CallEnded, begun: int, result: Any) -> None:
        if result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS:
            if not self._ever(begun, lambda image: result.name in image.topics.by_name):
                raise self._wrong(event, f"topic {result.name} was said to exist and never did in that time")
            return
        if result.error_code != ErrorCode.NONE:
            return
        topic_id = result.topic_id
        if topic_id == ZERO_UUID:
            if not self._ever(begun, lambda image: result.name in image.topics.by_name):
                raise self._wrong(event, f"topic {result.name} was acknowledged and is not there")
            return
        if topic_id in (self._image_at_or_before(begun)).topics.by_id:
            raise self._wrong(event, f"topic {result.name} was there before it was made")
        if not self._ever(begun, lambda image: topic_id in image.topics.by_id):
            raise self._wrong(event, f"topic {result.name} was acknowledged and is not committed")
        if topic_id in self._made:
            raise self._wrong(event, f"topic {result.name} was made by two calls")
        self._made[topic_id] = _Made(result.name, event.call_id)

    def _delete(self, event: CallEnded, begun: int, result: Any) -> None:
        topic_id, name = result.topic_id, result.name
        if result.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID):
            if name is not None and not self._ever(begun, lambda image: name not in image.topics.by_name):
                raise self._wrong(event, f"topic {name} was said to be unknown and was there all the time")
            return
        if result.error_code != ErrorCode.NONE:
            return
        if topic_id == ZERO_UUID:
            if not self._ever(begun, lambda image: name not in image.topics.by_name):
                raise self._wrong(event, f"the end of topic {name} was acknowledged, and it is there")
            return
        self._deletions.add(topic_id)
        if topic_id in self._unmade:
            raise self._wrong(event, f"topic {name} was deleted by two calls, {self._unmade[topic_id]} too")
        self._unmade[topic_id] = event.call_id
        if not self._ever(begun, lambda image: topic_id not in image.topics.by_id):
            raise self._wrong(event, f"the end of topic {name} was acknowledged, and it is there")

    def _alter(self, event: CallEnded, begun: int, asked: Any) -> None:
        key = (asked.resource_type, asked.resource_name)
        for config in asked.configs:
            if config.config_operation not in (_SET, _DELETE):
                continue
            wanted = config.value if config.config_operation == _SET else None
            if not self._ever(begun, _says(key, config.name, wanted)):
                raise self._wrong(event, f"{config.name}={wanted} of {key} was acknowledged and never was so")

    def _grow(self, event: CallEnded, begun: int, asked: Any) -> None:
        def has_grown(image: MetadataImage) -> bool:
            topic = image.topics.by_name.get(asked.name)
            return topic is not None and len(topic.partitions) >= asked.count

        if not self._ever(begun, has_grown):
            raise self._wrong(event, f"{asked.count} partitions of {asked.name} were acknowledged and never were there")

    def _move(self, event: CallEnded, begun: int, what: tuple[str, Any], error: int) -> None:
        name, asked = what

        def holds(image: MetadataImage) -> bool:
            partition = _partition(image, name, asked.partition_index)
            if partition is None:
                return False
            if asked.replicas is None:
                return not partition.adding_replicas and not partition.removing_replicas
            removing = partition.removing_replicas
            target = tuple(each for each in partition.replicas if each not in removing)
            return target == tuple(asked.replicas)

        is_said = error == ErrorCode.NONE or (error == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS and asked.replicas is None)
        if is_said and not self._ever(begun, holds):
            raise self._wrong(event, f"{name}-{asked.partition_index} was said to go to {asked.replicas} and never did")

    def _elect(self, event: CallEnded, begun: int, place: tuple[str, int], *, is_preferred: bool) -> None:
        def holds(image: MetadataImage) -> bool:
            """As in Kafka an election is done, too, when it ended a reassignment, and a preferred one when it gave a partition any leader."""
            partition = _partition(image, *place)
            if partition is None:
                return False
            if partition.adding_replicas or partition.removing_replicas:
                return True
            return (
                partition.leader in (NO_LEADER, partition.replicas[0])
                if is_preferred
                else partition.leader != NO_LEADER
            )

        if not self._ever(begun, holds):
            raise self._wrong(event, f"{place[0]}-{place[1]} was said to have a new leader and had none")
        self.hit(f"{'preferred' if is_preferred else 'unclean'} election on request")

    def _wrong(self, event: CallEnded, message: str) -> Exception:
        return self.broken("H13", f"call {event.call_id}: {message}")

    # The committed log in a span

    def _image_at_or_before(self, end: int) -> MetadataImage:
        prefix = self.ghost.committed
        image = prefix.image_at(end)
        return image if image is not None else MetadataImage()

    def _images(self, begun: int) -> Iterator[MetadataImage]:
        return self.ghost.committed.images_since(begun)

    def _ever(self, begun: int, holds: Callable[[MetadataImage], bool]) -> bool:
        return any(holds(image) for image in self._images(begun))

    # Reads

    def _answered(self, life: Life, change: ResponseSent) -> None:
        response = change.response
        if not isinstance(change.request, MetadataRequest) or not isinstance(response, MetadataResponse):
            return
        image = self.scene.step.node.image
        if image is None:
            return
        for topic in response.topics:
            if topic.name is None or topic.error_code != ErrorCode.NONE:
                continue
            known = image.topics.by_name.get(topic.name)
            if known is None or (topic.topic_id not in (ZERO_UUID, known.id)):
                raise self.broken(
                    "H13", f"node {life.node_id} tells of topic {topic.name} what its metadata does not say", life
                )

    # nothing acknowledged is lost (PR3)

    def at_end(self, cluster: ClusterView) -> None:
        """What was acknowledged is there, unless somebody asked for its end."""
        image = self._image_at_or_before(self.ghost.committed.end)
        for topic_id, made in self._made.items():
            if topic_id in image.topics.by_id or topic_id in self._deletions or made.name in self._names_asked_gone:
                continue
            raise self.broken("PR3", f"topic {made.name}, acknowledged to call {made.call_id}, is gone")
        for topic_id, call_id in self._unmade.items():
            if topic_id in image.topics.by_id:
                raise self.broken("PR3", f"a topic whose end was acknowledged to call {call_id} is there again")


def _partition(image: MetadataImage, name: str, number: int) -> PartitionRegistration | None:
    topic = image.topics.by_name.get(name)
    return None if topic is None else topic.partitions.get(number)


def _says(key: tuple[int, str], name: str, wanted: str | None) -> Callable[[MetadataImage], bool]:
    def says(image: MetadataImage) -> bool:
        if key[0] == RESOURCE_TOPIC and key[1] not in image.topics.by_name:
            return wanted is None
        return image.configs.of(*key).get(name) == wanted

    return says
