"""The files of `__cluster_metadata-0` and `quorum-state`: opened and recovered, synced, closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.log.config import NO_LIMIT, LogConfig
from headrace.metadata.bootstrap import read_bootstrap_records
from headrace.raft.events import QuorumState, StoreQuorumState
from headrace.raft.quorum_state import decode_quorum_state, encode_quorum_state
from headrace.raft.snapshots import finish_download, read_snapshot
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints, RottenLog
from headrace.storage.roll_allowance import RollAllowance
from headrace.storage.snapshot_files import (
    METADATA_PARTITION_DIRECTORY,
    QUORUM_STATE_FILE_NAME,
    SnapshotFiles,
    read_bootstrap_checkpoint,
    read_quorum_state,
    read_synced_offset,
    write_quorum_state,
    write_synced_offset,
)
from headrace.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from headrace.broker.ports import Clock
    from headrace.config.node_config import NodeConfig
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.core.ports import DiskSpace, Files
    from headrace.metadata.snapshot import VersionedRecord
    from headrace.node.metadata_plane import SnapshotJob

Paced = Callable[[Iterable[Any]], Iterable[Any]]
"""Gives the same items, perhaps with rests between them."""


class MetadataFiles:
    """The metadata log of one node with its snapshots and its vote, on the disk. `flush`, the jobs and `close` are for a thread: they may block long."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        files: Files,
        clock: Clock,
        pace: Paced = iter,
        log_class: type[StoredLog] = StoredLog,
    ) -> None:
        """Recover the metadata log. What a thread writes piece by piece goes through `pace`. Raises StorageFault."""
        self._config = config
        self._files = files = files.within(config.metadata_log_dir)
        self._clock = clock
        self._pace = pace
        self._is_closed = False
        self.snapshot_bytes = 0
        """LatestSnapshotGeneratedBytes: of the newest snapshot that this process wrote."""
        self.snapshot_ms = clock.now_ms()
        """When that was; without one, when the process began."""
        directory = self._directory = f"{config.metadata_log_dir}/{METADATA_PARTITION_DIRECTORY}"
        if not files.exists(directory):
            files.mkdir(directory)
            files.fsync_dir(config.metadata_log_dir)
        self.snapshots = SnapshotFiles(files, directory)
        self.snapshots.delete_leftovers()
        files.fsync_dir(
            directory
        )  # names that the process before gave and may not have synced: quorum-state above all (R4)
        self.log = open_metadata_log(
            log_class,
            files,
            config.metadata_log_dir,
            _metadata_log_config(config),
            LoadHints(
                now_ms=clock.wall_ms(),
                recovery_point=synced_below(files, self.snapshots, flushes=config.is_controller),
                latest_epoch=None if config.is_controller else self._latest_epoch(),
            ),
        )
        self.log.owner.rolls = RollAllowance()
        self.log.owner.persist_recovery_point = partial(_lower_synced, files, directory, self.log)
        self._check_epochs()

    def _latest_epoch(self) -> int | None:
        """A broker notes an epoch durably before it fetches a record of it: a later one in its log is rotten. Raises StorageFault.

        A controller goes by its log, as Kafka's does: that may hold what the quorum acknowledged.
        """
        return self.quorum_state().leader_epoch or None

    def _check_epochs(self) -> None:
        """No record that a snapshot holds is of a later epoch than the snapshot. A batch's epoch is outside of its CRC, so rot there shows nowhere else. Raises RottenLog."""
        latest, log = self.snapshots.latest(), self.log
        if latest is None or not log.log_start_offset < latest.offset <= log.log_end_offset:
            return
        epoch = log.epoch_at(latest.offset - 1)
        if epoch is not None and epoch > latest.epoch:
            raise RottenLog(
                f"{self._directory}: offset {latest.offset - 1} is of epoch {epoch} in the log, of epoch {latest.epoch} in the snapshot at"
                f" {latest.offset}: this replica cannot be used any more",
                directory=self._config.metadata_log_dir,
            )

    # --- what a start finds ---

    def quorum_state(self) -> QuorumState:
        """The vote that is on the disk. Raises StorageFault."""
        stored = read_quorum_state(self._files, self._directory)
        if stored is None:
            return QuorumState()
        path = f"{self._directory}/{QUORUM_STATE_FILE_NAME}"
        return decode_quorum_state(stored, path=path, directory=self._config.metadata_log_dir)

    def bootstrap_records(self) -> tuple[VersionedRecord, ...]:
        """What the formatting left for the first controller. Raises StorageFault."""
        directory = self._config.metadata_log_dir
        data = read_bootstrap_checkpoint(self._files, directory)
        records = () if data is None else read_snapshot(data, name="bootstrap.checkpoint", directory=directory).records
        return read_bootstrap_records(records)

    def disk_space(self) -> DiskSpace:
        """Of the file system of the metadata log. Raises StorageFault."""
        return self._files.disk_space(self._config.metadata_log_dir)

    # --- work for a thread ---

    def store_quorum_state(self, order: StoreQuorumState) -> Callable[[], None]:
        """Replace `quorum-state` durably (B-R03)."""
        data = encode_quorum_state(order.state, kraft_version=order.kraft_version, voter_ids=order.voter_ids)
        return partial(write_quorum_state, self._files, self._directory, data)

    def flush(self) -> MetadataFlush:
        """Sync the metadata log."""
        assert not self._is_closed, "the metadata log is open while the node runs"
        return MetadataFlush(self.log)

    def write_snapshot(self, job: SnapshotJob) -> Callable[[], None]:
        """Write a snapshot of the metadata."""

        def run() -> None:
            self.snapshot_bytes = self.snapshots.write(job.snapshot_id, self._pace(job.batches()))
            self.snapshot_ms = self._clock.now_ms()

        return run

    def finish_download(self, snapshot_id: OffsetAndEpoch) -> Download:
        """Check a fetched snapshot and make it whole."""
        return Download(self.snapshots, snapshot_id)

    def close(self, *, is_clean: bool) -> None:
        """Close the metadata log, cleanly: flushed, with a note of it. Blocks. Raises StorageFault."""
        if self._is_closed:
            return
        self._is_closed = True
        log = self.log
        if is_clean:
            job = log.prepare_flush()
            if job is not None:
                job.run_all()
                log.flushed(job.upto)
        end = log.log_end_offset
        log.close(clean=is_clean)
        if is_clean:
            write_synced_offset(self._files, self._directory, end)


class MetadataFlush:
    """One sync of the metadata log: `run` in a thread, then `finish` where the log is used."""

    def __init__(self, log: StoredLog) -> None:
        self._log = log
        self._job = log.prepare_flush()
        self.upto = log.durable_end_offset if self._job is None else self._job.upto

    def run(self) -> None:
        """Sync. Raises StorageFault."""
        if self._job is not None:
            self._job.run_all()

    def finish(self) -> None:
        """Everything below `upto` is durable."""
        if self._job is not None:
            self._log.flushed(self.upto)


class Download:
    """The end of fetching one snapshot: after `run`, `is_sound` says whether it is there now."""

    def __init__(self, snapshots: SnapshotFiles, snapshot_id: OffsetAndEpoch) -> None:
        self._snapshots = snapshots
        self._snapshot_id = snapshot_id
        self.is_sound = False

    def run(self) -> None:
        """Check it, sync it, give it its name. Raises StorageFault."""
        self.is_sound = finish_download(self._snapshots, self._snapshot_id)


def synced_below(files: Files, snapshots: SnapshotFiles, *, flushes: bool = True) -> int:
    """Which part of the metadata log is known to be synced: a clean stop syncs all, and a controller makes snapshots of synced records only.

    A broker does not sync (`flushes` False): its snapshots say nothing of its log, whose damaged end it fetches anew.
    """
    latest = snapshots.latest()
    synced = read_synced_offset(files, snapshots.directory)
    return synced if latest is None or not flushes else max(synced, latest.offset)


def _lower_synced(files: Files, directory: str, log: StoredLog) -> None:
    """The metadata log is cut: what is written there from now on may be torn by a power cut, which below the note would look like rot (D6)."""
    if read_synced_offset(files, directory) > log.durable_end_offset:
        write_synced_offset(files, directory, log.durable_end_offset)


def _metadata_log_config(config: NodeConfig) -> LogConfig:
    """The metadata log keeps everything until a snapshot covers it; `raft` decides what goes."""
    return LogConfig(
        segment_bytes=config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        retention_bytes=-1,
        retention_ms=-1,
        max_message_bytes=config.internal_metadata_max_batch_size_in_bytes,
        flush_messages=NO_LIMIT,
        flush_ms=NO_LIMIT,
    )
