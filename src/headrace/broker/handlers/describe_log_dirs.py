"""The sizes of replicas in each log directory (DescribeLogDirs, KIP-113, KIP-827)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from headrace.log.store_ports import DirectoryInfo
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Reply
from headrace.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle(request: DescribeLogDirsRequest, context: RequestContext, broker: Broker) -> Reply:
    """All replicas, or those asked for; unknown ones are left out."""
    wanted: set[TopicPartition] | None = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    return Reply(
        DescribeLogDirsResponse(
            results=tuple(_directory(directory, wanted, broker) for directory in broker.logs.directories())
        )
    )


def _directory(directory: DirectoryInfo, wanted: set[TopicPartition] | None, broker: Broker) -> DescribeLogDirsResult:
    shown = broker.absolute_path(directory.path)
    if not directory.is_online:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=shown)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    here = [(name, log) for name, log in broker.logs.logs().items() if log.directory == directory.path]
    to_be = [(name, move) for name, move in broker.logs.moves().items() if move.directory == directory.path]
    rows = [(name, log, log.high_watermark, False) for name, log in here]
    rows += [(name, move.future, move.source.log_end_offset, True) for name, move in to_be]
    for name, log, end, is_future in sorted(rows, key=lambda row: row[0]):
        if wanted is None or name in wanted:
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
