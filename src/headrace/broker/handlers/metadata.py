"""Which brokers and topics are there, and who leads what? (Metadata)

From version 9 on the answer says at which offset of the metadata log it was made (tag 10000, S4-55); on one broker it only grows.
"""

from __future__ import annotations

from functools import partial

from headrace.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS, topic_name_problem
from headrace.broker.topic_listing import Reachable, leader_error, rack_of
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, HandlerResult, Reply
from headrace.wire.messages.create_topics import CreateTopicsResponse
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_FIRST_BY_ID = 12
_CREATION_WAIT_MS = 1_000


def handle(request: MetadataRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """Answer at once, but for topics that are made first: those are waited for a little while."""
    refused = _check(request, context)
    if refused is not None:
        return Reply(refused)
    missing = _to_create(request, context, broker)
    if not missing:
        return Reply(_answer(request, context, broker, {}))
    return _after_creation(request, context, broker, missing)


def _check(request: MetadataRequest, context: RequestContext) -> MetadataResponse | None:
    """Names may be absent and ids given only from version 12 on."""
    if context.api_version >= _FIRST_BY_ID or request.topics is None:
        return None
    if all(topic.name is not None and topic.topic_id == ZERO_UUID for topic in request.topics):
        return None
    topics = tuple(
        MetadataResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name or "", topic_id=topic.topic_id)
        for topic in request.topics
    )
    return MetadataResponse(topics=topics)


def _to_create(request: MetadataRequest, context: RequestContext, broker: Broker) -> list[str]:
    """The unknown names that may be made now, each once."""
    if not request.topics or not broker.config.auto_create_topics_enable:
        return []
    if not (request.allow_auto_topic_creation or context.api_version < 4):
        return []
    names = dict.fromkeys(
        topic.name for topic in request.topics if topic.name is not None and topic.topic_id == ZERO_UUID
    )
    known = broker.image.topics.by_name
    return [name for name in names if name not in known and topic_name_problem(name) is None]


def _after_creation(request: MetadataRequest, context: RequestContext, broker: Broker, missing: list[str]) -> Deferred:
    """Ask for the topics, answer when the controller has answered for all of them, or after a second."""
    errors: dict[str, ErrorCode] = {}
    waiting = set(missing)
    seen: AnyReply | None = None
    codes: dict[str | None, ErrorCode] = {}
    deferred = Deferred(
        deadline_ms=context.now_ms + _CREATION_WAIT_MS,
        on_timeout=lambda: Reply(_answer(request, context, broker, errors)),
    )
    broker.purgatory.watch(deferred, (), lambda: False)

    def created(name: str, reply: AnyReply) -> None:
        nonlocal seen, codes
        if reply is not seen:  # one reply tells of many names, and comes for each of them
            assert isinstance(reply, Reply), "the controller answers with a message"
            assert isinstance(reply.message, CreateTopicsResponse), "the api's own response"
            seen, codes = reply, {one.name: ErrorCode.known(one.error_code) for one in reply.message.topics}
        code = codes.get(name, ErrorCode.NONE)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            errors[name] = _shown_error(code)
        waiting.discard(name)
        if not waiting:
            deferred.complete(Reply(_answer(request, context, broker, errors)))

    for name, asked in broker.auto_create_topics(missing, context).items():
        asked.when_done(partial(created, name))
    return deferred


def _shown_error(code: ErrorCode) -> ErrorCode:
    """What a client is told about a topic that could not be made: something that makes it try again, or why it never will."""
    final = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION)
    return code if code in final else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer(
    request: MetadataRequest, context: RequestContext, broker: Broker, errors: dict[str, ErrorCode]
) -> MetadataResponse:
    image = broker.image
    reachable = Reachable(image, context.listener)
    alive = reachable.end_points
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    listing = _Listing(image, reachable, context.api_version, operations)
    if request.topics is None or (context.api_version == 0 and not request.topics):
        topics = tuple(listing.topic(image.topics.by_name[name]) for name in sorted(image.topics.by_name))
    else:
        topics = tuple(listing.asked(topic, errors) for topic in _served(request.topics))
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=broker_id, host=end.host, port=end.port, rack=rack_of(image, broker_id))
            for broker_id, end in alive.items()
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id if broker.node_id in alive else next(iter(alive), -1),
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations and 8 <= context.api_version <= 10
            else NOT_ASKED
        ),
        metadata_offset=image.provenance.last_contained_offset,
    )


def _served(topics: tuple[MetadataRequestTopic, ...]) -> list[MetadataRequestTopic]:
    """Each topic once; where one is asked for by its id, names are not looked at, as in Kafka."""
    by_id = {topic.topic_id: topic for topic in topics if topic.topic_id != ZERO_UUID}
    return list(by_id.values()) if by_id else list(dict.fromkeys(topics))


class _Listing:
    """Shows topics of one image to clients of one listener, in one version. Made for one answer."""

    def __init__(self, image: MetadataImage, reachable: Reachable, version: int, operations: int) -> None:
        self._image = image
        self._reachable = reachable
        self._alive = reachable.end_points
        self._version = version
        self._operations = operations

    def asked(self, asked: MetadataRequestTopic, errors: dict[str, ErrorCode]) -> MetadataResponseTopic:
        """One topic by name or id, or the error that it has."""
        if asked.topic_id != ZERO_UUID:
            by_id = self._image.topics.by_id.get(asked.topic_id)
            if by_id is None:
                return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
            return self.topic(by_id)
        name = asked.name or ""
        found = self._image.topics.by_name.get(name)
        if found is not None:
            return self.topic(found)
        error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_name_problem(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._operations,
        )

    def topic(self, topic: TopicImage) -> MetadataResponseTopic:
        """One topic with its partitions in order."""
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(self._partition(index, topic.partitions[index]) for index in sorted(topic.partitions)),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, index: int, partition: PartitionRegistration) -> MetadataResponsePartition:
        error = leader_error(partition, self._image, self._alive)
        if error is ErrorCode.LISTENER_NOT_FOUND and self._version < 6:
            error = ErrorCode.LEADER_NOT_AVAILABLE
        replicas, isr = partition.replicas, partition.isr
        if self._version == 0:
            replicas = tuple(replica for replica in replicas if replica in self._alive)
            isr = tuple(replica for replica in isr if replica in self._alive)
            if error is ErrorCode.NONE and (len(replicas) < len(partition.replicas) or len(isr) < len(partition.isr)):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        return MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=partition.leader if error in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE) else -1,
            leader_epoch=partition.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=isr,
            offline_replicas=self._reachable.offline_replicas(partition),
        )
