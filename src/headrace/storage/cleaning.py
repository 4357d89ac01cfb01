"""Which log is compacted next?"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.ids import TopicPartition
from headrace.core.ports import Files
from headrace.log.ports import CompactionJob
from headrace.storage.stored_log import StoredLog


class LogCleaner:
    """Chooses logs and hands out one job at a time."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def next_job(self, logs: Mapping[TopicPartition, StoredLog], now_ms: int) -> CompactionJob | None:
        """None while nothing needs it."""
        return None
