"""All partition logs of a node: where each lies, and what is due for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.ports import DiskFull, Files, Rng
from headrace.log.config import LogConfig
from headrace.log.ports import CompactionJob, LogCut
from headrace.log.store_ports import DirectoryInfo
from headrace.storage.cutting import CutJob
from headrace.storage.flushing import SegmentFlush
from headrace.storage.layout import partition_directory
from headrace.storage.log_cleaner import LogCleaner
from headrace.storage.log_directory import Found, LogDirectory, remove_paths
from headrace.storage.moving import LogMove
from headrace.storage.roll_allowance import RollAllowance
from headrace.storage.stored_log import StoredLog
from headrace.storage.sweeping import (
    PRODUCER_EXPIRATION_CHECK_INTERVAL_MS,
    RETENTION_CHECK_INTERVAL_MS,
    Sweeper,
)

ROUND_MS: Final = 1_000
"""So often the logs are looked at in which something is on its way."""
MOST_PREFERRED: Final = 10_000
"""So many wishes where a partition is to be made that is not here yet."""


class LogStore:
    """All logs over one or more log directories; implements `headrace.log.store_ports.LogStorePort`.

    In this order: `found` (and `mark_stray`) before anything is read, `load`, then all else, `close`. The caller holds the
    directories' locks. A directory that cannot be read is offline from the start.
    """

    def __init__(
        self,
        files: Files,
        directories: Mapping[str, Uuid],
        *,
        retention_check_interval_ms: int = RETENTION_CHECK_INTERVAL_MS,
        producer_expiration_check_interval_ms: int = PRODUCER_EXPIRATION_CHECK_INTERVAL_MS,
        pace: Callable[[Iterable[None]], Iterable[None]] = iter,
    ) -> None:
        """`pace` may let compaction rest between its pieces."""
        self._files = files
        self._directories = [LogDirectory(files, path, one) for path, one in directories.items()]
        self._by_partition: dict[TopicPartition, StoredLog] = {}
        self._sweeper = Sweeper(
            retention_ms=retention_check_interval_ms, expiration_ms=producer_expiration_check_interval_ms
        )
        self._now_ms = 0
        self._cleaner = LogCleaner(files, pace)
        self.previous_broker_epoch = self._previous_epoch()
        self._found: list[Found] | None = None
        self._futures: list[Found] = []
        self._unsure: set[TopicPartition] = set()
        self._moves: dict[TopicPartition, LogMove] = {}
        self._preferred: dict[TopicPartition, str] = {}
        self._refused_for_space = ""
        self._removals: dict[str, list[str]] = {}
        self._waiting: list[Callable[[], None]] = []

    def _previous_epoch(self) -> int:
        """The broker epoch of the last run if every directory was closed well in it, else -1 (KIP-966)."""
        epochs = set()
        for directory in self._directories:
            try:
                epochs.add(directory.clean_epoch())
            except StorageFault as fault:
                self._fault(directory, fault)
        epoch = epochs.pop() if len(epochs) == 1 else None
        return -1 if epoch is None else epoch

    @staticmethod
    def _fault(directory: LogDirectory, fault: StorageFault) -> None:
        directory.notes.append(str(fault))
        directory.fail()

    def _online(self) -> list[LogDirectory]:
        return [directory for directory in self._directories if directory.is_online]

    @property
    def notes(self) -> list[str]:
        """What was found amiss in the directories, a line each."""
        return [note for directory in self._directories for note in directory.notes]

    def draw_from(self, rng: Rng) -> None:
        """Where `segment.jitter.ms` is drawn from in logs that are loaded or made from now on."""
        for directory in self._directories:
            directory.rng = rng

    def share_rolls(self, rolls: RollAllowance) -> None:
        """All logs that are loaded or made from now on begin new segments within this; without this call each does as its topic says."""
        for directory in self._directories:
            directory.rolls = rolls

    def remove_strays_after(self, delay_ms: int) -> None:
        """Replicas that the metadata does not know go so long after they were set aside (D-06); without this call they stay."""
        for directory in self._directories:
            directory.stray_delay_ms = delay_ms

    # -- starting ----------------------------------------------------------------------------------------------

    def found(self) -> Sequence[Found]:
        """The partitions on the disks, before any log is read."""
        if self._found is None:
            self._found = []
            for directory in self._online():
                try:
                    found = directory.found()
                    self._found += [each for each in found if not each.future]
                    self._futures += [each for each in found if each.future]
                except StorageFault as fault:
                    self._fault(directory, fault)
        return tuple(self._found)

    def load(self, settings: Callable[[str], LogConfig], *, now_ms: int) -> None:
        """Read every log found; `settings` gives those of a topic. Blocks: seconds after an unclean stop.

        One after the other: two threads took a fifth to a half longer for ten thousand logs, each waiting for the other after every call of the system.
        """
        self._now_ms = now_ms
        found = [*self.found(), *self._futures]
        configs: dict[str, LogConfig] = {}
        for directory in self._online():
            try:
                checkpoints = directory.start_loading()
                for one in found:
                    if one.directory != directory.path or (not one.future and one.partition in self._by_partition):
                        continue
                    topic = one.partition.topic
                    if topic not in configs:
                        configs[topic] = settings(topic)
                    log = directory.load(one, configs[topic], checkpoints, now_ms)
                    if log is not None and not one.future:
                        self._cleaner.look_after(log)
                        self._by_partition[one.partition] = log
            except StorageFault as fault:
                self._fault(directory, fault)
        self._by_partition = {p: log for d in self._online() for p, log in d.logs.items()}
        for directory in self._online():
            for partition in list(directory.futures):
                if partition in self._by_partition:
                    self._note_move(partition, directory)
                else:
                    directory.give_up_future(partition, now_ms)

    def found_futures(self) -> Sequence[Found]:
        """The future logs on the disks, before any log is read; `keep_futures` decides about them."""
        self.found()
        return tuple(self._futures)

    def keep_futures(self, kept: Iterable[Found], promoted: Iterable[Found], left: Iterable[Found] = ()) -> None:
        """The first are copied on, the second take their places, the third stay as they are: their logs may have more. All others go."""
        kept, promoted, left = set(kept), set(promoted), set(left)
        self._unsure = {one.partition for one in left}
        for directory in self._online():
            for one in [each for each in self._futures if each.directory == directory.path]:
                try:
                    if one in promoted:
                        self._found = [*self.found(), directory.promote(one)]
                    elif one not in kept and one not in left:
                        directory.refuse_future(one)
                except StorageFault as fault:
                    self._fault(directory, fault)
        self._futures = [each for each in self._futures if each in kept]

    def is_unsure(self, partition: TopicPartition) -> bool:
        """A copy is here, and its log may be in a directory that cannot be read: neither is used by this process."""
        return partition in self._unsure

    def settle_doubles(self, place_of: Callable[[Found], Uuid]) -> None:
        """Of a replica that is in two directories, because its move ended in a crash, the one stays that the metadata know; else the one that reaches further.

        The other is set aside, and removed like any stray.
        """
        places: dict[tuple[TopicPartition, Uuid], list[Found]] = {}
        for one in self.found():
            places.setdefault((one.partition, one.topic_id), []).append(one)
        for doubles in places.values():
            if len(doubles) > 1:
                known = {each.path: each for each in self._online()}
                doubles.sort(
                    key=lambda one: (
                        known[one.directory].directory_id == place_of(one),
                        known[one.directory].extent(one.partition),
                    )
                )
                for stale in doubles[:-1]:
                    self.set_found_aside(stale)

    def set_found_aside(self, found: Found) -> None:
        """As `mark_stray`, of one of several directories."""
        directory = next(each for each in self._online() if each.path == found.directory)
        self._found = [one for one in self._found or () if one != found]
        self._set_aside(directory, found.partition)

    # -- logs --------------------------------------------------------------------------------------------------

    def directories(self) -> Sequence[DirectoryInfo]:
        """The log directories, in the order of `log.dirs`."""
        return [directory.info() for directory in self._directories]

    def get(self, partition: TopicPartition) -> StoredLog | None:
        """The log of a partition, None if there is none here or its directory is offline."""
        return self._by_partition.get(partition)

    def logs(self) -> Mapping[TopicPartition, StoredLog]:
        """All logs that are online."""
        return self._by_partition

    def create(
        self, partition: TopicPartition, *, topic_id: Uuid, config: LogConfig, directory_id: Uuid | None = None
    ) -> StoredLog:
        """The log of a partition, made if there is none; a log of another topic of that name is set aside first."""
        log = self._by_partition.get(partition)
        if log is not None:
            if log.topic_id == topic_id:
                return log
            self.mark_stray(partition)
        online = self._online()
        if not online:
            raise StorageFault("no log directory is online", directory="")
        directory = self._place(partition, directory_id, online)
        self._cleaner.forget(directory.path, partition)
        log = directory.create(partition, topic_id, config, self._now_ms)
        self._cleaner.look_after(log)
        self._by_partition[partition] = log
        return log

    def _place(self, partition: TopicPartition, directory_id: Uuid | None, online: list[LogDirectory]) -> LogDirectory:
        """Where an operator wants it, else where the controller does, else in the directory with the fewest logs that takes new ones (KIP-113, KIP-1066)."""
        preferred = self._preferred.pop(partition, None)
        for directory in online:
            if directory.path == preferred:
                return directory
        for directory in online:
            if directory.directory_id == directory_id:
                return directory
        usable = [directory for directory in online if not directory.is_cordoned] or online
        return min(usable, key=lambda one: len(one.logs) + len(one.futures))

    def cordon(self, paths: Sequence[str]) -> None:
        """These directories get no new replicas, as long as there are others."""
        for directory in self._directories:
            directory.is_cordoned = directory.path in paths

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """The next log of this partition is made there. Of very many such wishes the oldest are forgotten."""
        self._preferred.pop(partition, None)
        self._preferred[partition] = path
        if len(self._preferred) > MOST_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    # -- moves between directories -----------------------------------------------------------------------------

    def moves(self) -> Mapping[TopicPartition, LogMove]:
        """The replicas with a future log."""
        return self._moves

    def begin_move(self, partition: TopicPartition, path: str) -> LogMove:
        """A future log in the directory `path`."""
        log = self._by_partition[partition]
        to = next(directory for directory in self._online() if directory.path == path)
        assert log.directory != path, "it is there already"
        self.give_up_move(partition)
        self._cleaner.forget(path, partition)
        try:
            to.create_future(partition, log.topic_id, log.config, self._now_ms)
        except StorageFault:
            to.futures.pop(partition, None)
            raise
        return self._note_move(partition, to)

    def _note_move(self, partition: TopicPartition, to: LogDirectory) -> LogMove:
        source = self._by_partition[partition]
        home = next(directory for directory in self._online() if directory.path == source.directory)
        move = self._moves[partition] = LogMove(
            source, to.futures[partition], home=home, to=to, taken=lambda: self._moved(partition)
        )
        return move

    def _moved(self, partition: TopicPartition) -> None:
        self._moves.pop(partition, None)

    def give_up_move(self, partition: TopicPartition) -> None:
        """The future log goes, if there is one."""
        if self._moves.pop(partition, None) is not None:
            for directory in self._online():
                directory.give_up_future(partition, self._now_ms)

    def wait_for_room(self, reason: str, job: Callable[[], None]) -> None:
        """`create` raised DiskFull, as `reason` says: do `job` at one of the next calls of `maintain`."""
        self._refused_for_space = reason
        self._waiting.append(job)

    def _try_waiting(self) -> None:
        """Those that wait for room, in order, until one has to wait again."""
        waiting, self._waiting = self._waiting, []
        for index, job in enumerate(waiting):
            job()
            if self._waiting:
                self._waiting = [*waiting[index + 1 :], *self._waiting]
                return

    def _directory_of(self, partition: TopicPartition) -> LogDirectory | None:
        for directory in self._online():
            if partition in directory.logs:
                return directory
        for one in self._found or ():
            if one.partition == partition:
                return next((d for d in self._online() if d.path == one.directory), None)
        return None

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Rename the directory to `-delete` and remove its files after `file.delete.delay.ms`."""
        self.give_up_move(partition)
        self._forget(partition, lambda directory: directory.delete(partition, now_ms))

    def mark_stray(self, partition: TopicPartition) -> None:
        """Rename the directory to `-stray`, with a note; also before it was loaded."""
        self.give_up_move(partition)
        self._forget(partition, lambda directory: self._set_aside(directory, partition))

    def _set_aside(self, directory: LogDirectory, partition: TopicPartition) -> None:
        name = directory.set_aside(partition, self._now_ms)
        directory.notes.append(
            f"{directory.path}/{partition_directory(partition)} is not what the metadata knows under that name: set aside as {name}"
        )

    def _forget(self, partition: TopicPartition, remove: Callable[[LogDirectory], object]) -> None:
        directory = self._directory_of(partition)
        if directory is not None:
            self._by_partition.pop(partition, None)
            self._found = [one for one in self._found or () if one.partition != partition]
            remove(directory)

    def fail_directory(self, path: str) -> Sequence[TopicPartition]:
        """Take a log directory offline; the partitions lost with it."""
        lost: list[TopicPartition] = []
        for directory in self._online():
            if directory.path == path:
                lost += directory.fail()
        for partition in lost:
            self._by_partition.pop(partition, None)
        self._moves = {partition: move for partition, move in self._moves.items() if not move.is_over}
        return lost

    def cut(self, cuts: Sequence[LogCut]) -> Sequence[CutJob]:
        """Begin to cut many logs: a job for each log directory. From now on, until its job is finished, nobody may use a log of it."""
        jobs = []
        for directory in self._online():
            here = [
                log.begin_cut(offset, starts_over=starts_over)
                for partition, offset, starts_over in cuts
                if (log := directory.logs.get(partition)) is not None
            ]
            if here:
                jobs.append(directory.cut_job(here, self._cleaner.note_cuts))
        return jobs

    # -- what is due -------------------------------------------------------------------------------------------

    def write_checkpoints(self) -> None:
        """Replace the checkpoints of all directories; where there is no room the old ones stay (D10). May run in a thread beside appends."""
        for directory in self._online():
            try:
                directory.write_checkpoints()
            except DiskFull as fault:
                self._refused_for_space = str(fault)

    def maintain(self, now_ms: int) -> None:
        """Retention, expired producers, delayed deletions, idle memory: what is due of it, some logs of a pass over all at a time."""
        self._now_ms = now_ms
        touched: dict[StoredLog, None] = {}
        for directory in self._online():
            for log in directory.busy.all():
                if not log.maintain(now_ms):
                    directory.busy.discard(log)
                touched[log] = None
            due = directory.take_due(now_ms)
            if due:
                self._removals.setdefault(directory.path, []).extend(due)
        touched.update(dict.fromkeys(self._sweeper.turn(self._by_partition.values(), now_ms)))
        for log in touched:
            if log.owner.refused_for_space:
                self._refused_for_space, log.owner.refused_for_space = log.owner.refused_for_space, ""
            if log.retired.names_due:
                self._removals.setdefault(log.directory, []).extend(log.retired.names_due)
                log.retired.names_due = []
        self._try_waiting()

    def next_maintenance_ms(self) -> int:
        """When `maintain` is due; 0 for as soon as it may be, which is a second after the last time where logs wait, at once where a pass is under way."""
        if self._waiting or self._refused_for_space or any(len(each.busy) for each in self._online()):
            return min(self._now_ms + ROUND_MS, self._sweeper.next_ms)
        removals = (each.next_removal_ms for each in self._online())
        return min([self._sweeper.next_ms, *(at_ms for at_ms in removals if at_ms is not None)])

    def when_busy(self, told: Callable[[], None]) -> None:
        """Have `told` called when a log wants maintenance after none did."""
        for directory in self._directories:
            directory.busy.on_first = told

    def removals_due(self) -> Sequence[Callable[[], None]]:
        """Work for threads: remove the files whose delay was over when `maintain` looked, a job for each log directory."""
        removals, self._removals = self._removals, {}
        return [partial(remove_paths, self._files.within(path), names) for path, names in removals.items()]

    def take_space_refusal(self) -> str:
        """Why an append was refused on a full disk (D10) since the last call, as `maintain` noticed; empty if none was."""
        reason, self._refused_for_space = self._refused_for_space, ""
        return reason

    def next_compaction(self, now_ms: int) -> CompactionJob | None:
        """The log that needs compaction most, as a job; None if none does, or a job is under way."""
        return self._cleaner.next_job(self._by_partition, now_ms)

    def flush_jobs_due(self, now_ms: int) -> Sequence[tuple[StoredLog, SegmentFlush]]:
        """Flush jobs that `flush.messages`, `flush.ms`, rolls and new logs ask for."""
        jobs = []
        for log in [log for directory in self._online() for log in directory.busy.all()]:
            if log.is_flush_due(now_ms) and (job := log.prepare_flush()) is not None:
                jobs.append((log, job))
        return jobs

    def sync(self, jobs: Sequence[tuple[StoredLog, SegmentFlush]]) -> None:
        """Run flush jobs, those of one log directory together; blocks. Raises StorageFault."""
        for directory in self._online():
            directory.sync([job for log, job in jobs if log.directory == directory.path])

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Close all logs. With `clean`, sync everything first and leave `.kafka_cleanshutdown` last (D4).

        A directory that cannot be closed well keeps no other from it. Raises StorageFault, the first one, when all are closed.
        """
        faults: list[StorageFault] = []
        for directory in self._online():
            try:
                directory.close(clean=clean, broker_epoch=broker_epoch)
            except StorageFault as fault:
                faults.append(fault)
                directory.fail()
        self._by_partition = {}
        self._moves = {}
        if faults:
            raise faults[0]
