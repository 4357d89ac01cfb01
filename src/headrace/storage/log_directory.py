"""One of `log.dirs`: the partitions that lie in it, and what its checkpoints say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from threading import Lock
from typing import Final, NamedTuple

from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID, TopicPartition, Uuid
from headrace.core.ports import DiskFull, Files, Rng
from headrace.log.config import LogConfig
from headrace.log.store_ports import DirectoryInfo
from headrace.storage.busy import BusyLogs
from headrace.storage.checkpoints import (
    read_clean_shutdown,
    read_offsets,
    read_topic_id,
    remove_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from headrace.storage.cutting import CutJob, CutOfLog, OpenLog
from headrace.storage.flushing import SegmentFlush, sync_together
from headrace.storage.future_files import FutureFiles, FutureLog
from headrace.storage.known_logs import KnownLog, KnownLogs
from headrace.storage.layout import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG,
    LOG_STARTS,
    METADATA_TOPIC,
    RECOVERY_POINTS,
    offset_file,
    parse_offset_file,
    parse_partition_directory,
    parse_suffixed_directory,
    partition_directory,
    suffixed_directory,
)
from headrace.storage.recovery import LoadHints, RottenLog, load
from headrace.storage.renewal import renew_unsynced, unsynced_bytes
from headrace.storage.roll_allowance import RollAllowance
from headrace.storage.segment_file import Segment
from headrace.storage.stored_log import StoredLog

STRAY_MARK: Final = "headrace-stray"
"""Ours; in a directory that was set aside because the metadata does not know the replica."""
MANY_SYNCS: Final = 16
"""So many logs are synced together; with fewer, what others wrote to the file system would be waited for in vain."""


class Found(NamedTuple):
    """A partition's directory, before its log is read; `topic_id` is all zeros if the directory does not say it. `future`: its name, where it is a copy in the making."""

    partition: TopicPartition
    topic_id: Uuid
    directory: str
    future: str = ""


class LogDirectory:
    """One log directory and its logs; `headrace.storage.log_store.LogStore` drives it.

    A `StorageFault` in it makes it offline for as long as the process runs. Checkpoints may be written from a thread.
    """

    def __init__(self, files: Files, path: str, directory_id: Uuid) -> None:
        self._files = files.within(path)
        self.rng: Rng | None = None
        self.rolls: RollAllowance | None = None
        self.path = path
        self.directory_id = directory_id
        self.is_online = True
        self.logs: dict[TopicPartition, StoredLog] = {}
        self.futures: dict[TopicPartition, FutureLog] = {}
        self.is_cordoned = False
        self.notes: list[str] = []
        self._checkpointing = Lock()
        self._written_points: frozenset[TopicPartition] = frozenset()
        self._written_state: int | None = None
        self.busy: BusyLogs[StoredLog] = BusyLogs()
        self._going: list[tuple[int, str]] = []
        self._left: list[tuple[int, Callable[[], None]]] = []
        self._strays: list[str] = []
        self.stray_delay_ms: int | None = None
        """After so long a replica that the metadata does not know is removed; None: never."""
        self._renames = 0
        self._now_ms = 0
        self._known = KnownLogs(self._files, path)
        self._known_here: dict[TopicPartition, KnownLog] = {}

    def info(self) -> DirectoryInfo:
        """State and room."""
        if self.is_online:
            try:
                space = self._files.disk_space(self.path)
                return DirectoryInfo(
                    self.path,
                    self.directory_id,
                    is_online=True,
                    total_bytes=space.total_bytes,
                    usable_bytes=space.usable_bytes,
                )
            except StorageFault:
                pass
        return DirectoryInfo(self.path, self.directory_id, is_online=False, total_bytes=-1, usable_bytes=-1)

    def clean_epoch(self) -> int | None:
        """The broker epoch of the mark of a clean stop, None if there is no mark."""
        return read_clean_shutdown(self._files, self.path)

    def found(self) -> list[Found]:
        """The partitions that lie here; the metadata log is not one of them."""
        found = []
        if self.clean_epoch() is not None:
            self._known.read()
        for name in self._files.listdir(self.path):
            partition = parse_partition_directory(name)
            future = ""
            if partition is None and (suffixed := parse_suffixed_directory(name)) and suffixed[1] == "future":
                partition, future = suffixed[0], name
            if partition is None or partition.topic == METADATA_TOPIC:
                self._note_leftover(name)
                continue
            known = self._known.take(name)
            if known is not None:
                self._known_here[partition] = known
                found.append(Found(partition, known.topic_id, self.path))
                continue
            try:
                topic_id = read_topic_id(self._files, f"{self.path}/{name}") or ZERO_UUID
            except StorageFault as fault:
                self.notes.append(str(fault))
                topic_id = ZERO_UUID
            found.append(Found(partition, topic_id, self.path, future))
        return found

    def _note_leftover(self, name: str) -> None:
        """A directory that the process before renamed: one that was deleted goes now, a stray that is not to be kept after the delay."""
        if not parse_suffixed_directory(name):
            return
        path = f"{self.path}/{name}"
        if name.endswith("-delete"):
            self._going.append((0, path))
        elif self.stray_delay_ms is not None and self._files.exists(f"{path}/{STRAY_MARK}"):
            self._strays.append(path)

    # -- loading -----------------------------------------------------------------------------------------------

    def start_loading(self) -> _Checkpoints:
        """Remove the mark of a clean stop, durably, before anything is read (D4, K29); what the checkpoints say."""
        is_clean = self.clean_epoch() is not None
        self._known.remove()
        remove_clean_shutdown(self._files, self.path)
        points = self._read(RECOVERY_POINTS)
        self._written_points = frozenset(points)
        return _Checkpoints(
            is_clean, points, self._read(LOG_STARTS), self._read(HIGH_WATERMARKS), self._read(CLEANER_OFFSETS)
        )

    def _read(self, name: str) -> dict[TopicPartition, int]:
        found = read_offsets(self._files, self.path, name)
        if found is None:
            if self._files.exists(f"{self.path}/{name}"):
                self.notes.append(f"{self.path}/{name} is damaged and was not used")
            return {}
        return found

    def load(self, found: Found, config: LogConfig, checkpoints: _Checkpoints, now_ms: int) -> StoredLog | None:
        """Read one log; None if a synced part of it is damaged: it is then set aside as a stray (D6).

        After an unclean stop what may be in the page cache only is written again, where the topic asks for syncs (see `headrace.storage.renewal`).
        """
        partition = found.partition
        path = f"{self.path}/{partition_directory(partition)}"
        future = FutureFiles(self._files, path=path, actual=f"{self.path}/{found.future}") if found.future else None
        files = future or self._files
        hints = LoadHints(
            recovery_point=checkpoints.recovery_points.get(partition, 0),
            log_start_offset=checkpoints.log_starts.get(partition, 0),
            cleaned_to=checkpoints.cleaned.get(partition, 0),
            is_clean=checkpoints.is_clean,
            now_ms=now_ms,
            known=None if future is not None else self._known_here.pop(partition, None),
        )
        try:
            loaded = load(files, path, config, hints)
        except RottenLog as fault:
            if future is not None:  # the log that it was copied from is there
                self._remove_later(future.actual, "delete", partition, 0)
            else:
                self.notes.append(f"{fault}; its directory was set aside as a stray")
                self.rename(partition, "stray")
            return None
        if not checkpoints.is_clean and config.asks_for_syncs:
            durable_end = loaded.state.durable_end_offset
            most = unsynced_bytes(loaded.segments, durable_end)
            renew_unsynced(loaded.segments, durable_end=durable_end, max_bytes=most)
        log = StoredLog(files, partition, loaded, directory=self.path, topic_id=found.topic_id, rng=self.rng)
        if not checkpoints.is_clean and (future is not None or log.durable_end_offset <= log.segments[0].base_offset):
            # of an empty log, too: records that come are synced without them; a future log is flushed when all is copied
            log.distrust_names()
        if future is not None:
            log.set_high_watermark(checkpoints.high_watermarks.get(partition, 0))
            self._look_forward(log, future)
            return log
        log.set_high_watermark(checkpoints.high_watermarks.get(partition, 0))
        self._adopt(log)
        self.notes += [f"{path}: {note}" for note in log.notes]
        return log

    def create(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, now_ms: int) -> StoredLog:
        """A new, empty log."""
        if partition in self._written_points:
            self.write_checkpoints()
        path = f"{self.path}/{partition_directory(partition)}"
        self._files.mkdir(path)
        log = StoredLog(
            self._files,
            partition,
            load(self._files, path, config, LoadHints(now_ms=now_ms)),
            directory=self.path,
            topic_id=topic_id,
            rng=self.rng,
        )
        log.write_topic_id()
        self._adopt(log)
        return log

    def create_future(self, partition: TopicPartition, topic_id: Uuid, config: LogConfig, now_ms: int) -> None:
        """A new, empty log that will take the place of one in another directory."""
        if partition in self._written_points:
            self.write_checkpoints()
        path = f"{self.path}/{partition_directory(partition)}"
        actual = self._free_name(partition, "future", now_ms)
        files = FutureFiles(self._files, path=path, actual=actual)
        self._files.mkdir(actual)
        loaded = load(files, path, config, LoadHints(now_ms=now_ms))
        log = StoredLog(files, partition, loaded, directory=self.path, topic_id=topic_id, rng=self.rng)
        log.write_topic_id()
        self._look_forward(log, files)

    def _look_forward(self, log: StoredLog, files: FutureFiles) -> None:
        log.owner.persist_recovery_point = self.write_checkpoints
        self.futures[log.topic_partition] = FutureLog(log, files)

    def give_up_future(self, partition: TopicPartition, now_ms: int) -> None:
        """The future log goes; nobody reads it."""
        future = self.futures.pop(partition, None)
        if future is not None:
            future.log.close(clean=False)
            self._remove_later(future.files.actual, "delete", partition, now_ms)

    def adopt_marks(self, future: StoredLog, log: StoredLog) -> None:
        """What is known of a log is true of its copy."""
        future.set_high_watermark(log.high_watermark)
        if future.log_start_offset < log.log_start_offset <= future.high_watermark:
            future.advance_log_start(log.log_start_offset)

    def take_over(self, log: StoredLog) -> None:
        """A log goes on here, where it was copied to."""
        self.futures.pop(log.topic_partition, None)
        self._adopt(log)

    def leave(self, partition: TopicPartition, close: Callable[[], None], due_ms: int) -> None:
        """A log goes on elsewhere: what it leaves here goes at `due_ms`, when whoever reads it is done. Raises StorageFault."""
        log = self.logs.pop(partition)
        self.busy.discard(log)
        self._left.append((due_ms, close))
        self._remove_later(f"{self.path}/{partition_directory(partition)}", "delete", partition, due_ms)

    def sync_names(self) -> None:
        """The names of the logs' directories become durable; blocks."""
        self._files.fsync_dir(self.path)

    def _adopt(self, log: StoredLog) -> None:
        log.retired.waits_for_checkpoint = True
        log.owner.persist_recovery_point = self.write_checkpoints
        log.owner.looks_after(log, self.busy)
        log.owner.rolls = self.rolls
        self.busy.add(log)
        self.logs[log.topic_partition] = log

    # -- checkpoints -------------------------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """Replace the three checkpoints durably, then let go of segments that the new log starts exclude. May run in a thread.

        What is let go is removed `file.delete.delay.ms` after the latest `take_due`, which tells the time. Raises DiskFull if the disk
        has no room for the checkpoints; then the segments go all the same: oldest first, so that what a crash brings back follows without a
        hole, and room comes of nothing else.
        """
        with self._checkpointing:
            futures = [future.log for future in list(self.futures.values())]
            logs = [log for log in [*list(self.logs.values()), *futures] if not log.is_closed]
            state = hash(tuple((id(log), log.high_watermark, log.recovery_point, log.log_start_offset) for log in logs))
            if state == self._written_state and not any(log.retired.condemned for log in logs):
                return
            condemned = [(log, log.retired.take()) for log in logs]
            points = {log.topic_partition: log.recovery_point for log in logs}
            starts = {
                log.topic_partition: log.log_start_offset
                for log in logs
                if log.log_start_offset > log.segments[0].base_offset or log.log_start_offset > 0
            }
            marks = {log.topic_partition: log.high_watermark for log in logs}
            full: DiskFull | None = None
            try:
                write_offsets(self._files, self.path, LOG_STARTS, starts)
                write_offsets(self._files, self.path, RECOVERY_POINTS, points)
                write_offsets(self._files, self.path, HIGH_WATERMARKS, marks)
                self._written_points = frozenset(points)
                self._written_state = state
            except DiskFull as fault:
                full = fault
            for log, segments in condemned:
                if segments and not log.is_closed:
                    self._rename_condemned(log, segments, self._now_ms)
            if full is not None:
                raise full

    def _rename_condemned(self, log: StoredLog, segments: list[Segment], now_ms: int) -> None:
        try:
            log.retired.rename(segments, now_ms + log.config.file_delete_delay_ms)
            self.busy.add_quietly(log)
        except StorageFault:
            if not log.is_closed:  # a topic that is deleted meanwhile takes its files along
                raise

    # -- removing ----------------------------------------------------------------------------------------------

    def rename(self, partition: TopicPartition, suffix: str, *, now_ms: int = 0) -> str:
        """Give a partition's directory its `-delete` or `-stray` name; the log, if it is open, is closed first."""
        log = self.logs.pop(partition, None)
        if log is not None:
            self.busy.discard(log)
            log.close(clean=False)
        name = self._free_name(partition, suffix, now_ms)
        self._files.rename(f"{self.path}/{partition_directory(partition)}", name)
        return name

    def _free_name(self, partition: TopicPartition, suffix: str, now_ms: int) -> str:
        while True:
            self._renames += 1
            unique = f"{now_ms & 2**64 - 1:016x}{self._renames:016x}"
            name = f"{self.path}/{suffixed_directory(partition, unique, suffix)}"
            if not self._files.exists(name):
                return name

    def _remove_later(self, path: str, suffix: str, partition: TopicPartition, due_ms: int) -> None:
        name = self._free_name(partition, suffix, due_ms)
        self._files.rename(path, name)
        self._going.append((due_ms, name))

    def promote(self, found: Found) -> Found:
        """A future log whose place in use is free takes it, durably, before it is loaded."""
        self._files.rename(f"{self.path}/{found.future}", f"{self.path}/{partition_directory(found.partition)}")
        self._files.fsync_dir(self.path)
        return found._replace(future="")

    def refuse_future(self, found: Found) -> None:
        """A future log of the process before that is of no use goes."""
        self._remove_later(f"{self.path}/{found.future}", "delete", found.partition, 0)

    def extent(self, partition: TopicPartition) -> tuple[int, int]:
        """How far a log that was not loaded reaches: its last segment's base offset, and that one's bytes."""
        path = f"{self.path}/{partition_directory(partition)}"
        names = (parse_offset_file(name) for name in self._files.listdir(path))
        bases = [each.offset for each in names if each is not None and each.suffix == LOG and not each.state]
        last = max(bases, default=-1)
        stat = self._files.stat(offset_file(path, last, LOG)) if bases else None
        return last, stat.size if stat is not None else 0

    def set_aside(self, partition: TopicPartition, now_ms: int) -> str:
        """Rename a replica that the metadata does not know to `-stray`; it goes after the delay, unless strays are kept (D-06). The new name.

        A mark in it says so to the next process: what was set aside because it is damaged (D6), or by another program, has none and stays.
        """
        name = self.rename(partition, "stray", now_ms=now_ms)
        if self.stray_delay_ms is not None:
            try:
                self._files.open(f"{name}/{STRAY_MARK}", create=True).close()
            except DiskFull as fault:
                self.notes.append(f"{fault}: the stray stays after a restart")
            self._strays.append(name)
        return name

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Rename to `-delete`; the files go after `file.delete.delay.ms`."""
        log = self.logs.get(partition)
        delay = log.config.file_delete_delay_ms if log else 0
        self._going.append((now_ms + delay, self.rename(partition, "delete", now_ms=now_ms)))

    @property
    def next_removal_ms(self) -> int | None:
        """When `take_due` finds a directory, None if none waits."""
        return 0 if self._strays else min((due_ms for due_ms, _ in [*self._going, *self._left]), default=None)

    def take_due(self, now_ms: int) -> list[str]:
        """Directories whose delay is over; the caller removes them."""
        self._now_ms = now_ms
        if self._strays:
            self._going += [(now_ms + (self.stray_delay_ms or 0), path) for path in self._strays]
            self._strays = []
        for due_ms, close in self._left:
            if due_ms <= now_ms:
                close()
        self._left = [(due_ms, close) for due_ms, close in self._left if due_ms > now_ms]
        due = [path for due_ms, path in self._going if due_ms <= now_ms]
        if due:
            self._going = [(due_ms, path) for due_ms, path in self._going if due_ms > now_ms]
        return due

    def sync(self, jobs: Sequence[SegmentFlush]) -> None:
        """Run the syncs of logs in this directory; blocks. Raises StorageFault."""
        if len(jobs) >= MANY_SYNCS:
            sync_together(self._files, self.path, jobs)
        else:
            for job in jobs:
                job.run()

    def cut_job(self, cuts: Sequence[CutOfLog], note_cuts: Callable[[Iterable[tuple[OpenLog, int]]], None]) -> CutJob:
        """The cuts of logs in this directory as one job."""

        def sync_tree(due: Sequence[CutOfLog]) -> bool:
            return len(due) >= MANY_SYNCS and self._files.sync_tree(self.path)

        return CutJob(cuts, note_cuts=note_cuts, write_checkpoints=self.write_checkpoints, sync_tree=sync_tree)

    # -- closing -----------------------------------------------------------------------------------------------

    def close(self, *, clean: bool, broker_epoch: int) -> None:
        """Close all logs; with `clean`, sync them, write the checkpoints and leave the mark last (D4). Where a cut is under way recovery is to look.

        May run in a thread, while topics come and go.
        """
        for _, close in self._left:
            close()
        here, futures = [*self.logs.values()], [future.log for future in list(self.futures.values())]
        logs = [*here, *futures]
        if clean and self.is_online and not any(log.owner.is_being_cut for log in logs):
            jobs = [(log, job) for log in logs if (job := _prepared(log)) is not None]
            self.sync([job for _, job in jobs])
            for log, job in jobs:
                job.check_room()
                log.flushed(job.upto)
            self.write_checkpoints()
            with suppress(DiskFull):  # then each is read
                self._known.write({log.path.rpartition("/")[2]: known for log in here if (known := log.at_rest())})
            write_clean_shutdown(self._files, self.path, broker_epoch)
        for log in logs:
            log.close(clean=False)

    def fail(self) -> Sequence[TopicPartition]:
        """Go offline; the partitions lost."""
        self.is_online = False
        lost = list(self.logs)
        for _, close in self._left:
            close()
        self._left = []
        for log in self.logs.values():
            self.busy.discard(log)
            log.close(clean=False)
        for future in self.futures.values():
            future.log.close(clean=False)
        self.logs.clear()
        self.futures.clear()
        return lost


def _prepared(log: StoredLog) -> SegmentFlush | None:
    """What a log that stops wants to have synced; None where it was closed meanwhile: its names may be those of another."""
    with log.owner.closing:
        return None if log.is_closed else log.prepare_stop()


class _Checkpoints(NamedTuple):
    """What a log directory says about its logs before they are read."""

    is_clean: bool
    recovery_points: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int]
    high_watermarks: dict[TopicPartition, int]
    cleaned: dict[TopicPartition, int]


def remove_paths(files: Files, paths: Sequence[str]) -> None:
    """Remove files, and directories with the files in them; those that are gone are gone. Blocks: a large file takes a while."""
    for path in paths:
        found = files.stat(path)
        if found is not None and found.is_directory:
            for name in files.listdir(path):
                files.unlink(f"{path}/{name}")
            files.rmdir(path)
        elif found is not None:
            files.unlink(path)
