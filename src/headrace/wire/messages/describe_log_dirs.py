"""The requests and responses of DescribeLogDirs (api key 35).

Written by tools/generate_messages.py from the definitions of Apache Kafka 4.3.1; do not edit.
"""

from __future__ import annotations

from headrace.wire.schema import Message, Struct, field


class DescribableLogDirTopic(Struct):
    """Part of `DescribeLogDirsRequest`."""

    topic: str = field("string 0+ key entity=topicName", default="")
    partitions: tuple[int, ...] = field("[]int32 0+", default=())


class DescribeLogDirsRequest(Message, kind="request", api_key=35, versions="1-5", flexible="2+"):
    """Request of api key 35."""

    topics: tuple[DescribableLogDirTopic, ...] | None = field("[]DescribableLogDirTopic 0+ nullable=0+", default=())


class DescribeLogDirsPartition(Struct):
    """Part of `DescribeLogDirsResponse`."""

    partition_index: int = field("int32 0+", default=0)
    partition_size: int = field("int64 0+", default=0)
    offset_lag: int = field("int64 0+", default=0)
    is_future_key: bool = field("bool 0+", default=False)


class DescribeLogDirsTopic(Struct):
    """Part of `DescribeLogDirsResponse`."""

    name: str = field("string 0+ entity=topicName", default="")
    partitions: tuple[DescribeLogDirsPartition, ...] = field("[]DescribeLogDirsPartition 0+", default=())


class DescribeLogDirsResult(Struct):
    """Part of `DescribeLogDirsResponse`."""

    error_code: int = field("int16 0+", default=0)
    log_dir: str = field("string 0+", default="")
    topics: tuple[DescribeLogDirsTopic, ...] = field("[]DescribeLogDirsTopic 0+", default=())
    total_bytes: int = field("int64 4+ ignorable", default=-1)
    usable_bytes: int = field("int64 4+ ignorable", default=-1)
    is_cordoned: bool = field("bool 5+ ignorable", default=False)


class DescribeLogDirsResponse(Message, kind="response", api_key=35, versions="1-5", flexible="2+"):
    """Response of api key 35."""

    throttle_time_ms: int = field("int32 0+", default=0)
    error_code: int = field("int16 3+ ignorable", default=0)
    results: tuple[DescribeLogDirsResult, ...] = field("[]DescribeLogDirsResult 0+", default=())
