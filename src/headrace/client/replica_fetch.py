"""Fetches from replicas themselves, leaders or not, as Kafka's debugging consumer (replica id -2) may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from headrace.client.fetcher import sound_prefix
from headrace.client.retry import error_of
from headrace.client.routing import unsupported
from headrace.client.session import Session
from headrace.client.talk import Answered, Ask, AskAll, Call, Conversation, Unsupported
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.core.ids import TopicPartition
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

DEBUGGING_CONSUMER: Final = -2
"""The replica id of a reader that may ask any replica, and is counted for nothing."""
_BY_STATE = 15
_BATCH = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSum:
    """One batch of a replica's log, by what must be the same on all of them."""

    base_offset: int
    last_offset: int
    crc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaRead:
    """What one replica has from an offset on: batches, and where it believes the high watermark and its log's start."""

    batches: tuple[BatchSum, ...]
    high_watermark: int
    log_start_offset: int


Read = dict[TopicPartition, ReplicaRead | PeerError]


def read_replicas(
    session: Session,
    wanted: Mapping[int, Mapping[TopicPartition, int]],
    *,
    max_bytes: int,
    max_wait_ms: int,
    timeout_ms: int,
) -> Conversation[dict[int, Read]]:
    """What each broker's replicas have from these offsets on, `max_bytes` of each; all brokers are asked at the same time."""
    asks: list[Ask] = []
    for broker_id, positions in wanted.items():
        node = session.cluster.nodes[broker_id]
        request = _request(session, positions, max_bytes=max_bytes, max_wait_ms=max_wait_ms)
        asks.append(Ask(address=node.address, request=request, timeout_ms=timeout_ms + max_wait_ms))
    outcomes = (yield AskAll(asks=tuple(asks))) if asks else []
    found: dict[int, Read] = {}
    for (broker_id, positions), outcome in zip(wanted.items(), outcomes, strict=True):
        if isinstance(outcome, Answered):
            found[broker_id] = _taken(session, outcome, positions)
            continue
        error = (
            unsupported(outcome)
            if isinstance(outcome, Unsupported)
            else PeerError(ErrorCode.NETWORK_EXCEPTION, outcome.reason)
        )
        found[broker_id] = dict.fromkeys(positions, error)
    return found


def _request(session: Session, positions: Mapping[TopicPartition, int], *, max_bytes: int, max_wait_ms: int) -> Call:
    topics: dict[str, list[FetchPartition]] = {}
    for where, offset in positions.items():
        part = FetchPartition(partition=where.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
        topics.setdefault(where.topic, []).append(part)
    asked = tuple(
        FetchTopic(topic=name, topic_id=session.cluster.topics[name].topic_id, partitions=tuple(parts))
        for name, parts in topics.items()
    )

    def build(version: int) -> FetchRequest:
        by_state = version >= _BY_STATE
        return FetchRequest(
            replica_id=-1 if by_state else DEBUGGING_CONSUMER,
            replica_state=ReplicaState(replica_id=DEBUGGING_CONSUMER) if by_state else ReplicaState(),
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes * max(1, len(positions)),
            topics=asked,
        )

    return Call(api=FetchRequest, build=build)


def _taken(session: Session, outcome: Answered, positions: Mapping[TopicPartition, int]) -> Read:
    whole = error_of(outcome.response.error_code)
    if whole is not None:
        return dict.fromkeys(positions, whole)
    found: Read = {}
    for topic in outcome.response.responses:
        name = topic.topic if outcome.version < 13 else session.cluster.names.get(topic.topic_id, "")
        for part in topic.partitions:
            where = TopicPartition(name, part.partition_index)
            if where in positions:
                found[where] = error_of(part.error_code) or _sums(session, part, positions[where])
    missing = PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves out the partition")
    return {where: found.get(where, missing) for where in positions}


def _sums(session: Session, part: Any, offset: int) -> ReplicaRead | PeerError:
    records = memoryview(part.records or b"")
    try:
        end, _ = sound_prefix(records, offset, is_crc_checked=session.settings.is_crc_checked)
    except DecodeError as error:
        return PeerError(ErrorCode.CORRUPT_MESSAGE, str(error))
    except PeerError as error:
        return error
    batches: list[BatchSum] = []
    position = 0
    while position < end:
        base_offset, length, _, _, crc, _, last_delta = _BATCH.unpack_from(records, position)
        batches.append(BatchSum(base_offset=base_offset, last_offset=base_offset + last_delta, crc=crc))
        position += 12 + length
    return ReplicaRead(
        batches=tuple(batches), high_watermark=part.high_watermark, log_start_offset=part.log_start_offset
    )
