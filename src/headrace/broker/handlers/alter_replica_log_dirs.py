"""Replicas that are to lie in another log directory of this broker (AlterReplicaLogDirs, KIP-113)."""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.core.ids import TopicPartition
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import HandlerResult, Reply
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)


def handle(request: AlterReplicaLogDirsRequest, context: RequestContext, broker: Broker) -> HandlerResult:
    """The moves begin; DescribeLogDirs tells how far they are. Directories are named by their absolute paths."""
    known = {broker.absolute_path(info.path): info.path for info in broker.logs.directories()}
    answers: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        path = known.get(directory.path, directory.path)
        for topic in directory.topics:
            for index in topic.partitions:
                error = broker.replica_moves.alter(TopicPartition(topic.name, index), path)
                answer = AlterReplicaLogDirPartitionResult(partition_index=index, error_code=error)
                answers.setdefault(topic.name, []).append(answer)
    return Reply(
        AlterReplicaLogDirsResponse(
            results=tuple(
                AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each)) for name, each in answers.items()
            )
        )
    )
