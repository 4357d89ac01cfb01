"""Batches of a producer, appended (Produce).

A hot file: batches for partitions that are led here, where nobody need be waited for, are the case that `handle` is written for; everything else
is a `ProduceCall`.
"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.internal_topics import INTERNAL_TOPICS
from headrace.broker.partitions import HostedPartition
from headrace.broker.produce_call import ATTRIBUTES_LOW_BYTE, FIRST_WITH_ZSTD, TRANSACTIONAL_BIT, Offered, ProduceCall
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.log.ports import Appended, AppendRefused
from headrace.replication.leader import PartitionLeader
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import HandlerResult, HotResult, InSteps
from headrace.wire.codec import LongMessage
from headrace.wire.produce import (
    AppendedBatch,
    ParsedProduce,
    encode_all_appended,
    encode_appended,
    parse_produce,
    parse_produce_in_steps,
)
from headrace.wire.produce_heads import split_head

_FIRST_BY_ID = 13
_MOST_COPIED_BYTES = 1 << 20
"""A request that is appended in steps is copied out of the buffer that it came in, which others need, unless it is larger."""


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HotResult:
    """Append every partition's batch, then answer by `acks`. What begins as an earlier request did goes the way that was found for that one."""
    version = context.api_version
    parts = split_head(body, version)
    if parts is None:
        return _read_and_append(body, context, broker, None)
    head, records = parts
    route = broker.partitions.produce_routes.by_head[version].get(head)
    if route is None:
        return _read_and_append(body, context, broker, head)
    hosted, request, is_leader_enough, write, end = route
    leader = hosted.leader
    if (
        leader is None
        or hosted.is_withheld
        or hosted.refused is not None
        or len(records) <= ATTRIBUTES_LOW_BYTE
        or records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
    ):
        return _read_and_append(body, context, broker, None)
    is_leader_enough = is_leader_enough or leader.is_alone
    if not is_leader_enough and not leader.has_enough_replicas:
        return _read_and_append(body, context, broker, None)
    try:
        appended = leader.append(records, now_ms=broker.wall_ms())
    except StorageFault as fault:
        broker.on_storage_fault(fault)
        appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
    if type(appended) is not Appended:
        request = parse_produce(body, 0, version)
    elif is_leader_enough and not appended[6]:
        return write(appended[0], appended[2], appended[3], end)
    return ProduceCall(request, context, broker).go_on([(hosted, appended)])


def _read_and_append(body: memoryview, context: RequestContext, broker: Broker, head: bytes | None) -> HotResult:
    """A request of any shape. If it is of the usual one, requests with the same head find their way alone from now on."""
    version = context.api_version
    try:
        request = parse_produce(body, 0, version)
    except LongMessage:
        return _in_steps(body, context, broker)
    transactional_id, acks, _, batches = request
    if transactional_id is not None or acks not in (1, -1) or version < FIRST_WITH_ZSTD:
        return ProduceCall(request, context, broker).result()
    if len(batches) == 1:
        topic, index, records = batches[0]
        partitions = broker.partitions
        hosted = (partitions.by_id if version >= _FIRST_BY_ID else partitions.by_name).get((topic, index))  # type: ignore[arg-type]
        leader = None if hosted is None else _usual_leader(hosted, records, acks)
        if hosted is not None and head is not None and hosted.topic not in INTERNAL_TOPICS:
            partitions.produce_routes.remember(version, head, hosted, request)
        if hosted is not None and leader is not None:
            try:
                appended = leader.append(records, now_ms=broker.wall_ms())  # type: ignore[arg-type] # a leader has its records
            except StorageFault as fault:
                broker.on_storage_fault(fault)
                appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
            if type(appended) is Appended and not appended[6]:
                return encode_appended(version, (topic, index, appended[0], appended[2], appended[3]))
            return ProduceCall(request, context, broker).go_on([(hosted, appended)])
    elif len({batch[:2] for batch in batches}) == len(batches):
        return _append_many(request, context, broker)
    return ProduceCall(request, context, broker).result()


def _in_steps(body: memoryview, context: RequestContext, broker: Broker) -> InSteps:
    """A request of very many partitions: read, appended and answered while others have their turns; what comes behind it on its connection waits."""
    size = len(body)
    is_copied = size <= _MOST_COPIED_BYTES
    kept = memoryview(bytearray(body)) if is_copied else body
    return InSteps(
        _appended_in_steps(kept, context, broker),
        size=size,
        holds_back=True,
        keeps_frame=not is_copied,
        outlives_asker=True,
    )


def _appended_in_steps(body: memoryview, context: RequestContext, broker: Broker) -> Steps[HandlerResult]:
    request = yield from parse_produce_in_steps(body, context.api_version)
    del body
    call = ProduceCall(request, context, broker)
    del request
    return (yield from call.in_steps())


def _usual_leader(hosted: HostedPartition, records: memoryview | None, acks: int) -> PartitionLeader | None:
    """The leader, when nothing but the log itself can refuse the batch and nobody need be waited for."""
    leader = hosted.leader
    if (
        leader is not None
        and records is not None
        and (leader.is_alone or acks == 1)
        and not hosted.is_withheld
        and hosted.refused is None
        and len(records) > ATTRIBUTES_LOW_BYTE
        and not records[ATTRIBUTES_LOW_BYTE] & TRANSACTIONAL_BIT
        and hosted.topic not in INTERNAL_TOPICS
    ):
        return leader
    return None


def _append_many(request: ParsedProduce, context: RequestContext, broker: Broker) -> HotResult:
    """A request of several partitions, as long as each is the usual case; from the first that is not, a `ProduceCall` goes on."""
    version, acks, batches = context.api_version, request.acks, request.batches
    partitions = broker.partitions
    places = partitions.by_id if version >= _FIRST_BY_ID else partitions.by_name
    done: list[tuple[HostedPartition, Offered]] = []
    placed: list[AppendedBatch] = []
    now_ms = broker.wall_ms()
    for topic, index, records in batches:
        hosted = places.get((topic, index))  # type: ignore[arg-type]
        leader = None if hosted is None else _usual_leader(hosted, records, acks)
        if leader is None:
            break
        try:
            appended = leader.append(records, now_ms=now_ms)  # type: ignore[arg-type]
        except StorageFault as fault:
            broker.on_storage_fault(fault)
            appended = AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
        done.append((hosted, appended))  # type: ignore[arg-type]
        if type(appended) is not Appended or appended[6]:
            break
        placed.append((topic, index, appended[0], appended[2], appended[3]))
    if len(placed) == len(batches):
        return encode_all_appended(version, placed)
    return ProduceCall(request, context, broker).go_on(done)
