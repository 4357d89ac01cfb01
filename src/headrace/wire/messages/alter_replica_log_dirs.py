"""The requests and responses of AlterReplicaLogDirs (api key 34).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class AlterReplicaLogDirTopic(Struct):
    """Part of `AlterReplicaLogDirsRequest`."""

    name: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class AlterReplicaLogDir(Struct):
    """Part of `AlterReplicaLogDirsRequest`."""

    path: str = field("string 0+ key", default="")
    topics: tuple[AlterReplicaLogDirTopic, ...] = field("[]AlterReplicaLogDirTopic 0+", default=())


class AlterReplicaLogDirsRequest(Message, kind="request", api_key=34, versions="1-2", flexible="2+"):
    """Request of api key 34."""

    dirs: tuple[AlterReplicaLogDir, ...] = field("[]AlterReplicaLogDir 0+", default=())


class AlterReplicaLogDirPartitionResult(Struct):
    """Part of `AlterReplicaLogDirsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    error_code: int = field("int16 0+", default=0)


class AlterReplicaLogDirTopicResult(Struct):
    """Part of `AlterReplicaLogDirsResponse`."""

    topic_name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[AlterReplicaLogDirPartitionResult, ...] = field(
        "[]AlterReplicaLogDirPartitionResult 0+", default=()
    )


class AlterReplicaLogDirsResponse(Message, kind="response", api_key=34, versions="1-2", flexible="2+"):
    """Response of api key 34."""

    throttle_time_ms: int = field("int32 0+", default=0)
    results: tuple[AlterReplicaLogDirTopicResult, ...] = field("[]AlterReplicaLogDirTopicResult 0+", default=())
