"""What brokers and the node ask of all partition logs of a node, over one or more log directories, and of a log on its way from one to another.

`headrace.storage.log_store.LogStore` is the real one. As in `headrace.log.ports`, what waits for the disk is handed out as jobs for a thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from headrace.core.ids import TopicPartition, Uuid
from headrace.core.values import value_class
from headrace.log.config import LogConfig
from headrace.log.ports import CompactionJob, CutJob, FileSlice, FlushJob, LogCut, PartitionLogPort


@value_class
class MoveStep:
    """One step of copying a log into another directory: first it is cut, or starts over, or leaps; then it takes `data`, which follows; the last one syncs it."""

    data: FileSlice | None = None
    cut_to: int | None = None
    starts_over_at: int | None = None
    leap_to: int | None = None
    is_last: bool = False


class MoveJob(Protocol):
    """Work for a thread: one step. Afterwards it says what came of it."""

    @property
    def copied(self) -> int:
        """Bytes."""

    @property
    def refusal(self) -> str:
        """Why there was no room; empty if there was."""

    def run(self) -> None:
        """Copy; blocks. Raises StorageFault."""


class LogMovePort(Protocol):
    """A replica on its way into another log directory (KIP-113). Of the future log only its steps' jobs, one at a time, change anything."""

    @property
    def source(self) -> PartitionLogPort:
        """The log as it is; after `take_place` it is where the future one was."""

    @property
    def future(self) -> PartitionLogPort:
        """The log in the making: no more is asked of it than where it stands."""

    @property
    def partition(self) -> TopicPartition:
        """What is moved."""

    @property
    def directory(self) -> str:
        """Where it is moved to."""

    @property
    def directory_id(self) -> Uuid:
        """The id of that directory."""

    @property
    def home_id(self) -> Uuid:
        """The id of the directory where it is."""

    @property
    def is_over(self) -> bool:
        """It is done, or one of the logs is closed."""

    def step(self, step: MoveStep, now_ms: int) -> MoveJob:
        """A step as work for a thread."""

    def take_place(self, now_ms: int) -> None:
        """The future log, which has everything, becomes the log. Raises StorageFault."""

    def end(self) -> Callable[[], None]:
        """Work for a thread, after `take_place`: make that durable. Raises StorageFault."""


class DirectoryInfo(NamedTuple):
    """One of `log.dirs`: `total_bytes` and `usable_bytes` are those of its volume, -1 if offline."""

    path: str
    directory_id: Uuid
    is_online: bool
    total_bytes: int
    usable_bytes: int


class LogStorePort(Protocol):
    """All partition logs of a node, over one or more log directories."""

    def directories(self) -> Sequence[DirectoryInfo]:
        """The log directories, in the order of `log.dirs`."""

    def get(self, partition: TopicPartition) -> PartitionLogPort | None:
        """The log of a partition, None if there is none here (or its directory is offline)."""

    def logs(self) -> Mapping[TopicPartition, PartitionLogPort]:
        """All logs that are online."""

    def create(
        self, partition: TopicPartition, *, topic_id: Uuid, config: LogConfig, directory_id: Uuid | None = None
    ) -> PartitionLogPort:
        """The log of a partition, made if there is none: in `directory_id` if given and online, else in the directory with the
        fewest logs, or where `prefer` said. A fresh log's high watermark is 0; a found one's is the checkpointed one. Raises StorageFault; DiskFull if it is
        only room that is missing: then it may be asked again."""

    def prefer(self, partition: TopicPartition, path: str) -> None:
        """`create` makes the log of this partition in the directory `path`, if it is online by then."""

    def begin_move(self, partition: TopicPartition, path: str) -> LogMovePort:
        """A future log in the directory `path`, another than the log's own; a future one elsewhere is given up. Raises StorageFault; DiskFull if there is no room."""

    def moves(self) -> Mapping[TopicPartition, LogMovePort]:
        """The replicas with a future log, those of the process before too."""

    def give_up_move(self, partition: TopicPartition) -> None:
        """The future log goes, if there is one. Raises StorageFault."""

    def is_unsure(self, partition: TopicPartition) -> bool:
        """A copy is here, and its log may be in a directory that cannot be read: neither is used by this process."""

    def cordon(self, paths: Sequence[str]) -> None:
        """These directories get no new replicas, as long as there are others (KIP-1066)."""

    def wait_for_room(self, reason: str, job: Callable[[], None]) -> None:
        """`create` raised DiskFull: do `job` at one of the next calls of `maintain`. It may find no room again, and wait again."""

    def delete(self, partition: TopicPartition, now_ms: int) -> None:
        """Rename the directory to `-delete` and remove its files after `file.delete.delay.ms`."""

    def mark_stray(self, partition: TopicPartition) -> None:
        """Rename the directory to `-stray`: its topic is not in the metadata."""

    def fail_directory(self, path: str) -> Sequence[TopicPartition]:
        """Take a log directory offline after a `StorageFault`; returns the partitions lost with it."""

    def cut(self, cuts: Sequence[LogCut]) -> Sequence[CutJob]:
        """Cut many logs durably, off the loop: a job for each log directory, for `node.log_cuts`."""

    def write_checkpoints(self) -> None:
        """Replace recovery-point, high-watermark and log-start checkpoints of all directories atomically."""

    def maintain(self, now_ms: int) -> None:
        """Retention, expired producers, delayed deletions: what is due at this time of the wall clock, or a part of it."""

    def next_maintenance_ms(self) -> int:
        """When `maintain` and `flush_jobs_due` have something to do, by the wall clock; past for as soon as may be."""

    def when_busy(self, told: Callable[[], None]) -> None:
        """Have `told` called when `next_maintenance_ms` became sooner; in the event loop."""

    def take_space_refusal(self) -> str:
        """Why an append was refused on a full disk (D10) since the last call, as `maintain` noticed; empty if none was."""

    def removals_due(self) -> Sequence[Callable[[], None]]:
        """Work for threads: remove the files whose delay was over when `maintain` looked."""

    def next_compaction(self, now_ms: int) -> CompactionJob | None:
        """The log that needs compaction most, as a job; None if none does. One job at a time."""

    def flush_jobs_due(self, now_ms: int) -> Sequence[tuple[PartitionLogPort, FlushJob]]:
        """Flush jobs that `flush.messages` and `flush.ms` ask for, rolls and new logs."""

    def sync(self, jobs: Sequence[tuple[Any, Any]]) -> None:
        """Work for a thread: run such jobs, which is quicker together than one by one. Raises StorageFault."""

    def close(self, *, clean: bool, broker_epoch: int = -1) -> None:
        """Close all logs. With `clean`, flush everything first and write `.kafka_cleanshutdown` last (D4)."""
