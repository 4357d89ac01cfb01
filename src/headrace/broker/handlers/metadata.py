"""The brokers and topics of the cluster, and who leads what (Metadata).

From version 9 on the answer says at which offset of the metadata log it was made (tag 10000, S4-55); on one broker it only grows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from functools import partial

from headrace.broker.authorized_operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS
from headrace.broker.broker import Broker
from headrace.broker.departures import NewsOfLeader
from headrace.broker.internal_topics import INTERNAL_TOPICS, topic_name_problem
from headrace.broker.topic_listing import Reachable, rack_of
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.metadata.image import MetadataImage, PartitionRegistration, TopicImage
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps, emptied, released
from headrace.rpc.reply import OTHERS_FIRST, AnyReply, Deferred, HandlerResult, InSteps, Reply
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
_MOST_WAITING = 500
"""Clients that wait for news of a leader, and are told in one turn; others are told of no leader at once."""
_MOST_NAMED, _MOST_NAMED_CHARACTERS = 1_000, 64 << 10
"""Who names more is not kept waiting: the request lies in memory meanwhile."""
_MOST_IN_A_QUERY = 10
_MOMENT_MS = 5
"""Some milliseconds pass between the first and the last connection that a killed process closes, where cores are busy."""
_LOOKED_AT_AT_ONCE = 1_000
"""A tenth of a millisecond."""
_REST_AFTER = 16
"""A partition takes 3 microseconds: who comes at the same moment as a crowd waits for one step of each."""
_SEEN_TOGETHER = 4_000
"""A set of a million names grows by 40 ms at a time, and goes in 30; small ones do so a tenth of a millisecond at a time."""
_MOST_SORTED = 20_000
"""Beyond it topics come in any order, as Kafka's do: to sort a million names takes a second."""
_MOST_CREATED = 100
"""To decide on a topic and to make its files takes a good part of a millisecond."""


def handle(request: MetadataRequest, context: RequestContext, broker: Broker) -> InSteps:
    """Answer at once, but for topics that are made first, and for leaders whose process is gone: those are waited for a little while. What is long is answered in steps."""
    return InSteps(_steps(request, context, broker), size=1, mostly_short=True)


def _steps(
    request: MetadataRequest, context: RequestContext, broker: Broker, *, is_new: bool = True
) -> Steps[HandlerResult]:
    """A rest after every few hundred names, and after every few hundred partitions."""
    refused = yield from _check(request, context)
    if refused is not None:
        return Reply(refused)
    missing = yield from _to_create(request, context, broker)
    if missing:
        yield OTHERS_FIRST
        return _after_creation(request, context, broker, missing)
    if is_new and (yield from _is_leader_query(request, broker)):
        return _in_a_moment(request, context, broker)
    awaited = yield from _awaited(request, broker)
    if awaited:
        return _after_news(request, context, broker, awaited)
    reachable = _reachable(context, broker)
    answer = yield from _answer(request, context, broker, {}, reachable)
    if reachable.missed and broker.image is not reachable.image:  # the news came while the answer was made
        yield from released(answer)
        answer = yield from _answer_now(request, context, broker, {})
    return Reply(answer)


def _reachable(context: RequestContext, broker: Broker) -> Reachable:
    return Reachable(broker.image, context.listener, broker.departures.gone)


def _is_leader_query(request: MetadataRequest, broker: Broker) -> Steps[bool]:
    """Whether somebody may be asking because the connection to a leader broke from which this broker fetches."""
    followed = broker.replica_fetchers.leaders
    if not followed or not request.topics or len(request.topics) > _MOST_IN_A_QUERY:
        return False
    return (yield from _is_any_led_by(followed, request, broker))


def _in_a_moment(request: MetadataRequest, context: RequestContext, broker: Broker) -> Deferred:
    """Answer when this broker's own connection has broken too: a process that dies closes one after the other, and others run in between."""

    def again() -> InSteps:
        return InSteps(_steps(request, context, broker, is_new=False), size=1, mostly_short=True)

    deferred = Deferred(deadline_ms=context.now_ms + _MOMENT_MS, on_timeout=again)
    broker.purgatory.hold(deferred)
    return deferred


def _awaited(request: MetadataRequest, broker: Broker) -> Steps[Mapping[int, int]]:
    """Leaders of which this request should wait for news, and until when (ms)."""
    awaited = broker.departures.awaited()
    if not awaited or not _may_wait(request, broker, awaited):
        return {}
    return awaited if (yield from _is_any_led_by(awaited, request, broker)) else {}


def _is_any_led_by(leaders: Container[int], request: MetadataRequest, broker: Broker) -> Steps[bool]:
    """Whether one of these brokers leads a partition that is asked for; a rest after every thousand."""
    topics, looked_at = broker.image.topics, 0
    for asked in topics.by_id.values() if request.topics is None else request.topics:
        topic: TopicImage | None = None
        if isinstance(asked, TopicImage):
            topic = asked
        elif asked.topic_id != ZERO_UUID:
            topic = topics.by_id.get(asked.topic_id)
        elif asked.name is not None:
            topic = topics.by_name.get(asked.name)
        for partition in () if topic is None else topic.partitions.values():
            if partition.leader in leaders:
                return True
            looked_at += 1
            if not looked_at % _LOOKED_AT_AT_ONCE:
                yield None
    return False


def _may_wait(request: MetadataRequest, broker: Broker, leaders: Iterable[int]) -> bool:
    """Whether little is kept in memory by this request, and by those that wait already."""
    topics = request.topics or ()
    if len(topics) > _MOST_NAMED or sum(len(topic.name or "") for topic in topics) > _MOST_NAMED_CHARACTERS:
        return False
    return sum(broker.purgatory.waiters_of(NewsOfLeader(each)) for each in leaders) < _MOST_WAITING


def _after_news(
    request: MetadataRequest, context: RequestContext, broker: Broker, awaited: Mapping[int, int]
) -> Deferred:
    """Answer when the metadata say who leads instead of processes that are gone, as they do in a moment; after a while without that.

    librdkafka that is told of no leader, or of the old one, asks again at its timer's next second. `awaited`: which leaders, and until when.
    """

    def attempt() -> bool:
        return not broker.departures.awaited(awaited) and deferred.complete(again())

    again = partial(_later, request, context, broker, {})
    deferred = Deferred(deadline_ms=max(awaited.values()), on_timeout=again)
    broker.purgatory.watch(deferred, [NewsOfLeader(leader_id) for leader_id in awaited], attempt)
    return deferred


def _later(
    request: MetadataRequest, context: RequestContext, broker: Broker, errors: Mapping[str, ErrorCode]
) -> InSteps:
    """The answer of a request that has waited."""

    def steps() -> Steps[HandlerResult]:
        return Reply((yield from _answer_now(request, context, broker, errors)))

    later = InSteps(steps(), size=1, mostly_short=True)
    later.asks_for_all = request.topics is None
    return later


def _check(request: MetadataRequest, context: RequestContext) -> Steps[MetadataResponse | None]:
    """Names may be absent and ids given only from version 12 on."""
    if context.api_version >= _FIRST_BY_ID or request.topics is None:
        return None
    is_bad = False
    for number, topic in enumerate(request.topics, 1):
        if topic.name is None or topic.topic_id != ZERO_UUID:
            is_bad = True
            break
        if not number % _REST_AFTER:
            yield None
    if not is_bad:
        return None
    topics = []
    for number, topic in enumerate(request.topics, 1):
        error = ErrorCode.INVALID_REQUEST
        topics.append(MetadataResponseTopic(error_code=error, name=topic.name or "", topic_id=topic.topic_id))
        if not number % _REST_AFTER:
            yield None
    return MetadataResponse(topics=tuple(topics))


def _to_create(request: MetadataRequest, context: RequestContext, broker: Broker) -> Steps[list[str]]:
    """The unknown names that may be made now, each once, and not more than `_MOST_CREATED`: clients ask again for the others."""
    if not request.topics or not broker.config.auto_create_topics_enable:
        return []
    if not (request.allow_auto_topic_creation or context.api_version < 4):
        return []
    known = broker.image.topics.by_name
    missing: dict[str, None] = {}
    for number, topic in enumerate(request.topics, 1):
        name = topic.name
        if name is not None and topic.topic_id == ZERO_UUID and name not in known and topic_name_problem(name) is None:
            missing[name] = None
            if len(missing) >= _MOST_CREATED:
                break
        if not number % _REST_AFTER:
            yield None
    return list(missing)


def _after_creation(request: MetadataRequest, context: RequestContext, broker: Broker, missing: list[str]) -> Deferred:
    """Ask for the topics, answer when the controller has answered for all of them, or after a second."""
    errors: dict[str, ErrorCode] = {}
    waiting = set(missing)
    seen: AnyReply | None = None
    codes: dict[str | None, ErrorCode] = {}
    deferred = Deferred(
        deadline_ms=context.now_ms + _CREATION_WAIT_MS,
        on_timeout=partial(_later, request, context, broker, errors),
    )
    broker.purgatory.hold(deferred)

    def created(name: str, reply: AnyReply) -> None:
        nonlocal seen, codes
        if deferred.is_done:
            return
        if reply is not seen:  # one reply tells of many names, and comes for each of them
            assert isinstance(reply, Reply), "the controller answers with a message"
            assert isinstance(reply.message, CreateTopicsResponse), "the api's own response"
            seen, codes = reply, {one.name: ErrorCode.known(one.error_code) for one in reply.message.topics}
        code = codes.get(name, ErrorCode.NONE)
        if code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            errors[name] = _shown_error(code)
        waiting.discard(name)
        if not waiting:
            deferred.complete(_later(request, context, broker, errors))

    for name, asked in broker.auto_create_topics(missing, context).items():
        asked.when_done(partial(created, name))
    return deferred


def _shown_error(code: ErrorCode) -> ErrorCode:
    """What a client is told about a topic that could not be made: something that makes it try again, or why it never will."""
    final = (ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.POLICY_VIOLATION)
    return code if code in final else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _answer_now(
    request: MetadataRequest, context: RequestContext, broker: Broker, errors: Mapping[str, ErrorCode]
) -> Steps[MetadataResponse]:
    """From what is known now, whoever is gone."""
    return _answer(request, context, broker, errors, _reachable(context, broker))


def _answer(
    request: MetadataRequest,
    context: RequestContext,
    broker: Broker,
    errors: Mapping[str, ErrorCode],
    reachable: Reachable,
) -> Steps[MetadataResponse]:
    image = reachable.image
    alive = reachable.end_points
    listed = alive | broker.departures.end_points(image, context.listener)
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NOT_ASKED
    listing = _Listing(image, reachable, context.api_version, operations)
    topics: list[MetadataResponseTopic] = []
    if request.topics is None or (context.api_version == 0 and not request.topics):
        names = list(image.topics.by_name)
        if len(names) <= _MOST_SORTED:
            names.sort()
        for name in names:
            topics.append((yield from listing.topic(image.topics.by_name[name])))
    else:
        served = yield from _served(request.topics)
        for topic in served:
            topics.append((yield from listing.asked(topic, errors)))
        yield from emptied(served)
    answer = MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(node_id=broker_id, host=end.host, port=end.port, rack=rack_of(image, broker_id))
            for broker_id, end in sorted(listed.items())
        ),
        cluster_id=broker.cluster_id,
        controller_id=broker.node_id if broker.node_id in alive else next(iter(alive), -1),
        topics=tuple(topics),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS
            if request.include_cluster_authorized_operations and 8 <= context.api_version <= 10
            else NOT_ASKED
        ),
        metadata_offset=image.provenance.last_contained_offset,
    )
    yield from emptied(topics)
    return answer


def _served(topics: tuple[MetadataRequestTopic, ...]) -> Steps[list[MetadataRequestTopic]]:
    """Each topic once; where one is asked for by its id, names are not looked at, as in Kafka."""
    seen: list[set[str | Uuid | None]] = [set() for _ in range(1 + len(topics) // _SEEN_TOGETHER)]
    ids_only: list[MetadataRequestTopic] = []
    named: list[MetadataRequestTopic] = []
    for number, topic in enumerate(topics, 1):
        is_by_id = topic.topic_id != ZERO_UUID
        key = topic.topic_id if is_by_id else topic.name
        known = seen[hash(key) % len(seen)]
        if key not in known:
            known.add(key)
            (ids_only if is_by_id else named).append(topic)
        if not number % _REST_AFTER:
            yield None
    while seen:
        seen.pop()
        yield None
    return ids_only or named


class _Listing:
    """Shows topics of one image to clients of one listener, in one version. Made for one answer."""

    def __init__(self, image: MetadataImage, reachable: Reachable, version: int, operations: int) -> None:
        self._image = image
        self._reachable = reachable
        self._alive = reachable.end_points
        self._version = version
        self._operations = operations
        self._shown = 0

    def _is_rest_due(self) -> bool:
        self._shown += 1
        return not self._shown % _REST_AFTER

    def asked(self, asked: MetadataRequestTopic, errors: Mapping[str, ErrorCode]) -> Steps[MetadataResponseTopic]:
        """One topic by name or id, or the error that it has."""
        if self._is_rest_due():
            yield None
        if asked.topic_id != ZERO_UUID:
            by_id = self._image.topics.by_id.get(asked.topic_id)
            if by_id is None:
                return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id)
            return (yield from self.topic(by_id))
        name = asked.name or ""
        found = self._image.topics.by_name.get(name)
        if found is not None:
            return (yield from self.topic(found))
        error = errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if topic_name_problem(name) is not None:
            error = ErrorCode.INVALID_TOPIC_EXCEPTION
        return MetadataResponseTopic(
            error_code=error,
            name=name,
            is_internal=name in INTERNAL_TOPICS,
            topic_authorized_operations=self._operations,
        )

    def topic(self, topic: TopicImage) -> Steps[MetadataResponseTopic]:
        """One topic with its partitions in order."""
        partitions = []
        for index in sorted(topic.partitions):
            partitions.append(self._partition(index, topic.partitions[index]))
            if self._is_rest_due():
                yield None
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=tuple(partitions),
            topic_authorized_operations=self._operations,
        )

    def _partition(self, index: int, partition: PartitionRegistration) -> MetadataResponsePartition:
        error = self._reachable.leader_error(partition)
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
