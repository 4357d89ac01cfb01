"""The sizes of replicas in each log directory (DescribeLogDirs, KIP-113, KIP-827)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from headrace.log.ports import PartitionLogPort
from headrace.log.store_ports import DirectoryInfo
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import InSteps, Reply
from headrace.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

_Row = tuple[TopicPartition, PartitionLogPort, int, bool]
"""A log, up to where it could go, and whether it is a future one."""


_AT_ONCE = 200


def handle(request: DescribeLogDirsRequest, context: RequestContext, broker: Broker) -> InSteps:
    """All replicas, or those asked for; unknown ones are left out."""
    return InSteps(_in_steps(request, broker))


def _in_steps(request: DescribeLogDirsRequest, broker: Broker) -> Steps[Reply]:
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    rows: dict[str, list[_Row]] = {}
    for number, (name, log) in enumerate(list(broker.logs.logs().items())):
        if not number % _AT_ONCE:
            yield None
        if wanted is None or name in wanted:
            rows.setdefault(log.directory, []).append((name, log, log.high_watermark, False))
    for name, move in broker.logs.moves().items():
        if wanted is None or name in wanted:
            rows.setdefault(move.directory, []).append((name, move.future, move.source.log_end_offset, True))
    results = []
    for directory in broker.logs.directories():
        results.append((yield from _directory(directory, rows.get(directory.path, []), broker)))
    return Reply(DescribeLogDirsResponse(results=tuple(results)))


def _directory(directory: DirectoryInfo, rows: list[_Row], broker: Broker) -> Steps[DescribeLogDirsResult]:
    shown = broker.absolute_path(directory.path)
    if not directory.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=shown)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for number, (name, log, end, is_future) in enumerate(sorted(rows, key=lambda row: row[0])):
        if not number % _AT_ONCE:
            yield None
        topics.setdefault(name.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=name.partition,
                partition_size=log.size_bytes,
                offset_lag=max(0, end - log.log_end_offset),
                is_future_key=is_future,
            )
        )
    return DescribeLogDirsResult(
        log_dir=shown,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.path in broker.cordoned_log_dirs,
    )
