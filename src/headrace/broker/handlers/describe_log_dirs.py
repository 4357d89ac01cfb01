"""The sizes of replicas in each log directory (DescribeLogDirs, KIP-113, KIP-827)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from headrace.log.ports import DirectoryInfo
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
    for name, log in sorted(broker.logs.logs().items()):
        if log.directory != directory.path or (wanted is not None and name not in wanted):
            continue
        topics.setdefault(name.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=name.partition,
                partition_size=log.size_bytes,
                offset_lag=max(0, log.high_watermark - log.log_end_offset),
            )
        )
    return DescribeLogDirsResult(
        log_dir=shown,
        topics=tuple(
            DescribeLogDirsTopic(name=name, partitions=tuple(partitions)) for name, partitions in topics.items()
        ),
        total_bytes=directory.total_bytes,
        usable_bytes=directory.usable_bytes,
        is_cordoned=directory.path in broker.config.cordoned_log_dirs,
    )
