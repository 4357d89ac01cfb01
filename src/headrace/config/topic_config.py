"""The settings by which one topic keeps, checks and compresses its records.

`TopicConfig` is what a partition's log, its leader and its cleaner read. The defaults of a broker come from its `log.*`
keys (`topic_defaults`); a topic's own settings go over them (`topic_config`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from typing import Any

from headrace.config.key import ConfigKey, ConfigValue, InvalidConfigValue, parse_value
from headrace.config.node_config import NodeConfig
from headrace.core.values import value_class

LONG_MAX = 2**63 - 1


@value_class
class TopicConfig:
    """The settings of one topic, named as Kafka's keys with `_` for `.`; milliseconds and bytes; -1 is unlimited.

    `segment_bytes` may be below Kafka's public minimum of 1 MiB: `internal.segment.bytes` sets it too.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 86_400_000
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4_096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 604_800_000
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 604_800_000
    unclean_leader_election_enable: bool = False

    @property
    def is_compacted(self) -> bool:
        """Of each key only the last record is kept."""
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_by_retention(self) -> bool:
        """Old segments are deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def uses_log_append_time(self) -> bool:
        """The broker's clock stamps the records, not the producer's."""
        return self.message_timestamp_type == "LogAppendTime"


DEFAULT_TOPIC_CONFIG = TopicConfig()


def topic_defaults(node: NodeConfig) -> TopicConfig:
    """What a topic without settings of its own gets on this node."""
    return TopicConfig(
        cleanup_policy=node.log_cleanup_policy,
        compression_gzip_level=node.compression_gzip_level,
        compression_lz4_level=node.compression_lz4_level,
        compression_type=node.compression_type,
        compression_zstd_level=node.compression_zstd_level,
        delete_retention_ms=node.log_cleaner_delete_retention_ms,
        file_delete_delay_ms=node.log_segment_delete_delay_ms,
        flush_messages=node.log_flush_interval_messages,
        flush_ms=node.log_flush_interval_ms,
        index_interval_bytes=node.log_index_interval_bytes,
        max_compaction_lag_ms=node.log_cleaner_max_compaction_lag_ms,
        max_message_bytes=node.message_max_bytes,
        message_timestamp_after_max_ms=node.log_message_timestamp_after_max_ms,
        message_timestamp_before_max_ms=node.log_message_timestamp_before_max_ms,
        message_timestamp_type=node.log_message_timestamp_type,
        min_cleanable_dirty_ratio=node.log_cleaner_min_cleanable_ratio,
        min_compaction_lag_ms=node.log_cleaner_min_compaction_lag_ms,
        min_insync_replicas=node.min_insync_replicas,
        preallocate=node.log_preallocate,
        retention_bytes=node.log_retention_bytes,
        retention_ms=node.log_retention_ms,
        segment_bytes=node.log_segment_bytes,
        segment_index_bytes=node.log_index_size_max_bytes,
        segment_jitter_ms=node.log_roll_jitter_ms,
        segment_ms=node.log_roll_ms,
        unclean_leader_election_enable=node.unclean_leader_election_enable,
    )


def topic_config(overrides: Mapping[str, str], defaults: TopicConfig = DEFAULT_TOPIC_CONFIG) -> TopicConfig:
    """`defaults` with a topic's own settings (as the metadata image holds them) over them.

    What a newer cluster may have written and we do not know, or cannot read, keeps its default: a stored setting was
    checked when it was made (`config_rules`).
    """
    keys = _keys()
    changes: dict[str, Any] = {}
    for name, text in overrides.items():
        key = keys.get(name)
        if key is None:
            continue
        try:
            value: ConfigValue = parse_value(name, key.type, text)
        except InvalidConfigValue:
            continue
        changes["segment_bytes" if name == "internal.segment.bytes" else name.replace(".", "_")] = value
    return replace(defaults, **changes) if changes else defaults


@cache
def _keys() -> Mapping[str, ConfigKey]:
    from headrace.config.topic_keys import TOPIC_KEYS  # only read when a topic has settings of its own

    known = {field.name.replace("_", ".") for field in fields(TopicConfig)} | {"internal.segment.bytes"}
    return {key.name: key for key in TOPIC_KEYS if key.name in known}
