"""How do the reads of a fetch become its answer?"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.fetch_reading import PartitionRead
from headrace.broker.leader_hints import leader_hint, node_hint
from headrace.broker.reply import AnyReply, Reply
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FIRST_BY_ID = 13
_FIRST_WITH_HINTS = 16
_FIRST_WITH_STORAGE_ERROR = 6
_NO_LEADER = LeaderIdAndEpoch()
_NO_DIVERGENCE = EpochEndOffset()


def top_level_error(version: int, error: ErrorCode) -> AnyReply:
    """The whole fetch failed (its session is unknown)."""
    return Reply(FetchResponse(error_code=error))


def fetch_reply(reads: list[PartitionRead], context: RequestContext, broker: Broker, *, session_id: int) -> AnyReply:
    """Topics in the order read; neighbours of one topic come together."""
    nodes: dict[int, NodeEndpoint] = {}
    topics: list[FetchableTopicResponse] = []
    at = 0
    while at < len(reads):
        topic, topic_id = reads[at].asked.topic, reads[at].asked.topic_id
        partitions = []
        while at < len(reads) and reads[at].asked.topic_id == topic_id and reads[at].asked.topic == topic:
            partitions.append(_partition(reads[at], context, broker, nodes))
            at += 1
        topics.append(FetchableTopicResponse(topic=topic or "", topic_id=Uuid(topic_id), partitions=tuple(partitions)))
    return Reply(FetchResponse(session_id=session_id, responses=tuple(topics), node_endpoints=tuple(nodes.values())))


def _partition(
    read: PartitionRead, context: RequestContext, broker: Broker, nodes: dict[int, NodeEndpoint]
) -> PartitionData:
    error = read.error
    if error is ErrorCode.KAFKA_STORAGE_ERROR and context.api_version < _FIRST_WITH_STORAGE_ERROR:
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return PartitionData(
        partition_index=read.asked.partition,
        error_code=error,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        diverging_epoch=(
            _NO_DIVERGENCE
            if read.diverging_epoch is None
            else EpochEndOffset(epoch=read.diverging_epoch[0], end_offset=read.diverging_epoch[1])
        ),
        current_leader=_leader(read, context, broker, nodes),
        aborted_transactions=(
            None
            if read.aborted is None
            else tuple(AbortedTransaction(producer_id=producer, first_offset=first) for producer, first in read.aborted)
        ),
        records=b"" if read.data is None else read.data.read(),
    )


def _leader(
    read: PartitionRead, context: RequestContext, broker: Broker, nodes: dict[int, NodeEndpoint]
) -> LeaderIdAndEpoch:
    """KIP-951: who leads, for a client that came to the wrong broker or with an old epoch."""
    wrong = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
    if read.error not in wrong or context.api_version < _FIRST_WITH_HINTS:
        return _NO_LEADER
    hint = leader_hint(broker, read.asked.topic or "", read.asked.partition)
    node = node_hint(broker, hint.leader_id, context.listener)
    if node is not None:
        nodes[node.node_id] = NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
    return LeaderIdAndEpoch(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
