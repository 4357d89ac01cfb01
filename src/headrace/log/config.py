"""The settings of one partition log."""

from __future__ import annotations

from enum import Enum

from headrace.core.values import value_class

NO_LIMIT = 2**63 - 1


class TimestampType(Enum):
    """Who sets a record's timestamp: `message.timestamp.type`."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@value_class
class LogConfig:
    """Topic settings that the log itself needs, with Kafka 4.3's defaults.

    Each field is the topic setting of the same name with dots for underscores, but for the last group, which are
    settings of the broker. Times are in ms, sizes in bytes; -1 means no limit where Kafka's setting says so.
    """

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * 3600 * 1000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 24 * 3600 * 1000
    file_delete_delay_ms: int = 60_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LIMIT
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = NO_LIMIT
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    flush_messages: int = NO_LIMIT
    flush_ms: int = NO_LIMIT
    preallocate: bool = False

    producer_id_expiration_ms: int = 86_400_000
    transaction_max_timeout_ms: int = 900_000
    validate_records: bool = False
    max_decompressed_bytes: int = 128 * 1024 * 1024

    @property
    def is_compacted(self) -> bool:
        """True if `cleanup.policy` names `compact`."""
        return "compact" in self.cleanup_policy

    @property
    def deletes_old(self) -> bool:
        """True if `cleanup.policy` names `delete`."""
        return "delete" in self.cleanup_policy

    @property
    def asks_for_syncs(self) -> bool:
        """True if `flush.messages` or `flush.ms` is set: what is not synced within them is not left to the operating system."""
        return min(self.flush_messages, self.flush_ms) < NO_LIMIT

    @property
    def roll_ms(self) -> int:
        """How long a segment may take records: a compacted log's are to be compacted within `max.compaction.lag.ms`, which the active segment never is (KIP-354)."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms
