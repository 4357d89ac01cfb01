"""The response to a fetch, made of its reads."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.fetch_reading import OF_NO_TOPIC, PartitionRead
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import EncodedReply
from headrace.wire.fetch import FetchResult, encode_fetch_in_steps, encode_fetch_response
from headrace.wire.leader_hints import Endpoint, LeaderHint
from headrace.wire.produce import TopicName

_FIRST_BY_ID = 13
_FIRST_WITH_HINTS = 16
_FIRST_WITH_STORAGE_ERROR = 6
_REST_AFTER = 64


def top_level_error(version: int, error: ErrorCode, broker: Broker) -> EncodedReply:
    """The whole fetch failed (its session is unknown)."""
    broker.errors.add("Fetch", error)
    return EncodedReply(tuple(encode_fetch_response(version, (), error_code=error)))


def fetch_reply(
    reads: list[PartitionRead], context: RequestContext, broker: Broker, *, session_id: int, is_follower: bool
) -> EncodedReply:
    """Topics in the order read, the partitions of each together. A follower is told no nodes, it knows them (as in Kafka)."""
    nodes: dict[int, Endpoint] = {}
    by_id = context.api_version >= _FIRST_BY_ID
    results = [_result(read, context, broker, nodes, by_id=by_id) for read in reads]
    if len(results) > 1:
        places: dict[object, int] = {}
        for result in results:
            places.setdefault(result.topic, len(places))
        results.sort(key=lambda result: places[result.topic])
    return EncodedReply(
        tuple(
            encode_fetch_response(
                context.api_version,
                results,
                session_id=session_id,
                endpoints=[] if is_follower else list(nodes.values()),
            )
        )
    )


def fetch_reply_in_steps(
    reads: list[PartitionRead], context: RequestContext, broker: Broker, *, session_id: int, is_follower: bool
) -> Steps[EncodedReply]:
    """The same of very many reads, with a rest after every few."""
    nodes: dict[int, Endpoint] = {}
    by_id = context.api_version >= _FIRST_BY_ID
    topics: dict[TopicName, list[FetchResult]] = {}
    for number, read in enumerate(reads):
        if not number % _REST_AFTER:
            yield None
        result = _result(read, context, broker, nodes, by_id=by_id)
        topics.setdefault(result.topic, []).append(result)
    pieces = yield from encode_fetch_in_steps(
        context.api_version,
        list(topics.items()),
        session_id=session_id,
        endpoints=[] if is_follower else list(nodes.values()),
    )
    return EncodedReply(tuple(pieces))


def _result(
    read: PartitionRead, context: RequestContext, broker: Broker, nodes: dict[int, Endpoint], *, by_id: bool
) -> FetchResult:
    error = read.error
    asked = read.asked
    topic = Uuid(asked.topic_id) if by_id else asked.topic or ""
    if error is ErrorCode.NONE:
        return FetchResult(
            topic,
            asked.partition,
            0,
            read.high_watermark,
            read.last_stable_offset,
            read.log_start_offset,
            b"" if read.data is None else read.data,
            read.aborted,
            read.preferred,
            read.diverging_epoch,
        )
    if error is ErrorCode.KAFKA_STORAGE_ERROR and context.api_version < _FIRST_WITH_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    broker.errors.add("Fetch", error)
    return FetchResult(
        topic,
        asked.partition,
        error,
        aborted_transactions=() if error in OF_NO_TOPIC else None,  # as Kafka tells it
        current_leader=_leader(read, context, broker, nodes),
    )


def _leader(
    read: PartitionRead, context: RequestContext, broker: Broker, nodes: dict[int, Endpoint]
) -> LeaderHint | None:
    """KIP-951: who leads, for a client that came to the wrong broker or with an old epoch."""
    wrong = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    if read.error not in wrong or context.api_version < _FIRST_WITH_HINTS:
        return None
    name = read.asked.topic
    if name is None:  # it was not known yet when the session began
        topic = broker.image.topics.by_id.get(Uuid(read.asked.topic_id))
        name = "" if topic is None else topic.name
    hint = leader_hint(broker, name, read.asked.partition)
    node = node_hint(broker, hint.leader_id, context.listener)
    if node is not None:
        nodes[node.node_id] = node
    return hint
