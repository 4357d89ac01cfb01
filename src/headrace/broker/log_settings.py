"""The settings of a log, out of those of its topic and of the broker."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any, Final

from headrace.config.node_config import NodeConfig
from headrace.config.topic_config import TopicConfig
from headrace.log.config import LogConfig, TimestampType

SMALLEST_INTERVAL: Final = 256
"""Indexes are in memory while a segment is written: with an entry for each small batch they would be a third of it."""
LARGEST_INTERVAL: Final = 64 << 10
"""What lies behind an entry is read, header by header, whenever a fetch begins there: at most a thousand small batches."""


@cache
def _shared_names() -> tuple[str, ...]:
    known = {field.name for field in fields(TopicConfig)}
    return tuple(field.name for field in fields(LogConfig) if field.name in known)


def log_config(topic: TopicConfig, node: NodeConfig) -> LogConfig:
    """The settings of one log: those of its topic, and a few that only the broker has."""
    values: dict[str, Any] = {name: getattr(topic, name) for name in _shared_names()}
    values["index_interval_bytes"] = min(max(topic.index_interval_bytes, SMALLEST_INTERVAL), LARGEST_INTERVAL)
    values["cleanup_policy"] = frozenset(topic.cleanup_policy)
    values["message_timestamp_type"] = TimestampType(topic.message_timestamp_type)
    return LogConfig(
        **values,
        producer_id_expiration_ms=node.producer_id_expiration_ms,
        transaction_max_timeout_ms=node.transaction_max_timeout_ms,
        validate_records=node.headrace_validate_records,
        max_decompressed_bytes=node.headrace_max_decompressed_bytes,
    )
