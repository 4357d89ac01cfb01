"""Mistakes that the crash test must find: each switches one rule of the storage code off (section 8 of the fault catalogue)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.ports import BytesLike, Files
from headrace.log import producers
from headrace.log.config import LogConfig
from headrace.log.ports import Appended, AppendRefused
from headrace.storage import checkpoints, cutting, log_directory, recovery, trimming
from headrace.storage.index_file import EntryFile, OffsetIndex, TimeIndex
from headrace.storage.layout import CLEAN_SHUTDOWN, INDEX, TIME_INDEX, offset_file
from headrace.storage.log_store import LogStore
from headrace.storage.segment_file import Segment
from headrace.storage.stored_log import StoredLog

Plant = Callable[[pytest.MonkeyPatch], None]


def clean_mark_removed_after_loading(patch: pytest.MonkeyPatch) -> None:
    """K29: the mark of a clean stop goes when everything is loaded, and nobody makes sure that it is gone.

    Small segments are walked at a start whatever the mark says, and those of this workload are small: here they count as large. Their indexes
    reach the page cache at once, as Kafka's do, which are mapped files: a clean start believes them.
    """
    patch.setattr(recovery, "WALKED_BYTES", -1)
    honest_append = StoredLog.append_as_leader

    def append_as_leader(self: StoredLog, batches: memoryview, **terms: Any) -> Appended | AppendRefused:
        done = honest_append(self, batches, **terms)
        self.segments[-1].store_indexes()
        return done

    patch.setattr(StoredLog, "append_as_leader", append_as_leader)
    honest_load = LogStore.load

    def load(self: LogStore, settings: Callable[[str], LogConfig], *, now_ms: int) -> None:
        honest_load(self, settings, now_ms=now_ms)
        for info in self.directories():
            self._files.unlink(f"{info.path}/{CLEAN_SHUTDOWN}")

    patch.setattr(log_directory, "remove_clean_shutdown", lambda files, directory: None)
    patch.setattr(LogStore, "load", load)


def rename_without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    """K30: a replaced file's new name is not made durable."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}.tmp", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        files.rename(f"{directory}/{name}.tmp", f"{directory}/{name}")

    patch.setattr(checkpoints, "replace_file", replace_file)


def checkpoint_written_in_place(patch: pytest.MonkeyPatch) -> None:
    """K32: a checkpoint is written over the old one."""

    def replace_file(files: Files, directory: str, name: str, data: BytesLike) -> None:
        file = files.open(f"{directory}/{name}", create=True, truncate=True)
        file.pwrite(data, 0)
        file.fsync()
        files.fsync_dir(directory)

    patch.setattr(checkpoints, "replace_file", replace_file)


def index_trusted_past_the_log(patch: pytest.MonkeyPatch) -> None:
    """K33: recovery takes the index that is there, though the log may end before it."""

    def keep_indexes(self: Segment, index_interval_bytes: int = 4096) -> None:
        names = [offset_file(self.path, self.base_offset, suffix) for suffix in (INDEX, TIME_INDEX)]
        if all(self._files.exists(name) for name in names):
            index, times = (EntryFile(self._files, name, self._files.read_file(name) or b"") for name in names)
            self._index, self._time_index = OffsetIndex(index, self.base_offset), TimeIndex(times, self.base_offset)
        else:
            self.index_batches(index_interval_bytes)

    patch.setattr(OffsetIndex, "is_sane", lambda self, log_size: True)
    patch.setattr(TimeIndex, "is_sane", lambda self: True)
    patch.setattr(Segment, "rebuild_indexes", keep_indexes)


def one_batch_remembered(patch: pytest.MonkeyPatch) -> None:
    """K34: the check for repeated batches knows the last one only."""
    patch.setattr(producers, "REMEMBERED_BATCHES", 1)


def producers_not_cut(patch: pytest.MonkeyPatch) -> None:
    """K35: producer state stays as it was when the log is cut."""
    for each in (trimming, cutting):
        patch.setattr(each, "replay_producers", lambda *_, **__: None)


PLANTED: dict[str, Plant] = {
    "K29": clean_mark_removed_after_loading,
    "K30": rename_without_directory_sync,
    "K32": checkpoint_written_in_place,
    "K33": index_trusted_past_the_log,
    "K34": one_batch_remembered,
    "K35": producers_not_cut,
}
