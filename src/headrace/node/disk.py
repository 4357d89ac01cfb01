"""What of a node lies on its disks, and in which order is it opened and closed?"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.broker.log_settings import log_config
from headrace.config.node_config import NodeConfig
from headrace.config.topic_config import topic_config, topic_defaults
from headrace.controller.machine import ControllerMachine
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.listener import Listener
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.config import NO_LIMIT, LogConfig
from headrace.metadata.bootstrap import read_bootstrap_records
from headrace.metadata.image import EndPoint, MetadataImage
from headrace.metadata.loader import MetadataLoader
from headrace.node.directories import NodeDirectories, all_directories, check_directories
from headrace.node.metadata_plane import MetadataPlane, PlaneConfig, SnapshotJob
from headrace.raft.config import RaftConfig
from headrace.raft.events import QuorumState, StoreQuorumState
from headrace.raft.machine import RaftNode
from headrace.raft.quorum_state import decode_quorum_state, encode_quorum_state
from headrace.raft.snapshots import finish_download, read_snapshot
from headrace.raft.voters import VoterEndPoint, static_voters
from headrace.storage.log_store import LogStore
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
    from headrace.core.ports import DiskSpace, FileLock, Files, Rng

_METADATA = TopicPartition("__cluster_metadata", 0)

Paced = Callable[[Iterable[Any]], Iterable[Any]]
"""Gives the same items, perhaps with rests between them."""


class NodeDisk:
    """The directories of one node: locked, checked, opened, closed; the same on a real disk and on a simulated one.

    Calls that may block long are for a thread: the jobs, `close_logs` and `close_metadata`.
    """

    metadata_log_class: type[StoredLog] = StoredLog
    """What the metadata log is opened as; the simulation looks on through a subclass."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        files: Files,
        clock: Clock,
        host_name: str = "localhost",
        stopwatch: Callable[[], float] | None = None,
        pace: Paced = iter,
    ) -> None:
        """`host_name` is what others call this machine: it stands for an empty host. `stopwatch` is for the controller's statistics.

        What a thread writes piece by piece goes through `pace`, which may let it rest in between.
        """
        self.host_name = host_name
        self.pace = pace
        self._stopwatch = stopwatch
        self._config = config
        self.clock = clock
        self._files = files
        self._metadata_files = files.within(config.metadata_log_dir)
        self._locks: list[FileLock] = []
        self._directories: NodeDirectories | None = None
        self._store: LogStore | None = None
        self._metadata: StoredLog | None = None
        self._snapshots: SnapshotFiles | None = None
        self._plane: MetadataPlane | None = None
        self._checkpoint_at_ms = 0
        self.is_loaded = False
        self.previous_broker_epoch = -1
        self.snapshot_bytes = 0
        """LatestSnapshotGeneratedBytes: of the newest snapshot that this process wrote."""
        self.snapshot_ms = clock.now_ms()
        """When that was; without one, when the process began."""

    # --- opening ---

    def open(self) -> None:
        """Check whose the directories are, and lock them (B-K06, B-K07). Raises OperatorError."""
        for directory in all_directories(self._config):
            if self._files.exists(directory):
                lock = self._files.lock(f"{directory}/.lock")
                if lock is None:
                    raise OperatorError(
                        f"{directory} is in use by another process: stop it, or choose another log.dirs"
                    )
                self._locks.append(lock)
        self._directories = check_directories(self._config, self._files)
        self._store = LogStore(
            self._files,
            {path: self._directories.directory_ids[path] for path in self._config.log_dirs},
            retention_check_interval_ms=self._config.log_retention_check_interval_ms,
            producer_expiration_check_interval_ms=self._config.producer_id_expiration_check_interval_ms,
            pace=self.pace,
        )
        if not self._config.headrace_keep_strays:
            self._store.remove_strays_after(self._config.log_segment_delete_delay_ms)
        self.previous_broker_epoch = self._store.previous_broker_epoch

    @property
    def cluster_id(self) -> str:
        """From `meta.properties`."""
        assert self._directories is not None, "open comes first"
        return self._directories.cluster_id

    @property
    def directory_ids(self) -> tuple[Uuid, ...]:
        """Of the broker's log directories, as far as they have ids."""
        assert self._directories is not None, "open comes first"
        ids = self._directories.directory_ids
        return tuple(ids[path] for path in self._config.log_dirs if path in ids)

    @property
    def logs(self) -> LogStore:
        """The broker's logs."""
        assert self._store is not None, "open comes first"
        return self._store

    @property
    def plane(self) -> MetadataPlane:
        """The metadata side."""
        assert self._plane is not None, "open_metadata comes first"
        return self._plane

    @property
    def metadata_log(self) -> StoredLog:
        """The log of `__cluster_metadata`."""
        assert self._metadata is not None, "open_metadata comes first"
        return self._metadata

    def metadata_space(self) -> DiskSpace:
        """Room on the file system of the metadata log. Raises StorageFault."""
        return self._files.disk_space(self._config.metadata_log_dir)

    def open_metadata(self, bound: tuple[Listener, ...], rng: Rng) -> MetadataPlane:
        """Recover the metadata log and compose the quorum node, the loader and the controller on it."""
        config, files = self._config, self._metadata_files
        self.logs.draw_from(rng)
        directory = self._metadata_directory
        if not files.exists(directory):
            files.mkdir(directory)
            files.fsync_dir(config.metadata_log_dir)
        snapshots = self._snapshots = SnapshotFiles(files, directory)
        snapshots.delete_leftovers()
        files.fsync_dir(
            directory
        )  # names that the process before gave and may not have synced: quorum-state above all (R4)
        log = self._metadata = self.metadata_log_class.open(
            files,
            _METADATA,
            directory=config.metadata_log_dir,
            config=_metadata_log_config(config),
            now_ms=self.clock.wall_ms(),
            recovery_point=synced_below(files, snapshots, flushes=config.is_controller),
        )
        log.persist_recovery_point = partial(_lower_synced, files, directory, log)
        end_points = self.controller_end_points(bound)
        raft = self._raft(log, snapshots, end_points, rng)
        self._plane = MetadataPlane(
            config=PlaneConfig(
                snapshot_max_new_bytes=config.metadata_log_max_record_bytes_between_snapshots,
                snapshot_max_interval_ms=config.metadata_log_max_snapshot_interval_ms,
            ),
            raft=raft,
            loader=MetadataLoader(),
            controller=self._controller(rng),
            snapshots=snapshots,
        )
        return self._plane

    def controller_end_points(self, bound: tuple[Listener, ...]) -> tuple[EndPoint, ...]:
        """This node's controller listeners as it announces them: the advertised ones where there are such, with bound ports for 0."""
        config = self._config
        ports = {one.name: one.port for one in bound}
        told = {one.name: one for one in (*config.controller_listeners, *config.advertised_controller_listeners)}
        return tuple(
            EndPoint(name, one.host or self.host_name, one.port or ports.get(name, 0), int(one.security_protocol))
            for name in config.controller_listener_names
            if (one := told.get(name)) is not None
        )

    def _raft(self, log: StoredLog, snapshots: SnapshotFiles, end_points: tuple[EndPoint, ...], rng: Rng) -> RaftNode:
        """The quorum node over its log, with the vote that is on the disk."""
        config = self._config
        assert self._directories is not None, "open comes first"
        stored = read_quorum_state(self._metadata_files, snapshots.directory)
        configured = {voter.node_id: (voter.host, voter.port) for voter in config.controller_quorum_voters}
        return RaftNode(
            config=RaftConfig(
                node_id=config.node_id,
                directory_id=self._directories.directory_ids[config.metadata_log_dir],
                cluster_id=self.cluster_id,
                voters=static_voters(configured, config.controller_listener_names[0]),
                end_points=tuple(VoterEndPoint(one.name, one.host, one.port) for one in end_points),
                listener=config.controller_listener_names[0],
                bootstrap_servers=tuple((one.host, one.port) for one in config.controller_quorum_bootstrap_servers),
                is_controller=config.is_controller,
                auto_join=config.controller_quorum_auto_join_enable,
                append_linger_ms=config.controller_quorum_append_linger_ms,
                election_timeout_ms=config.controller_quorum_election_timeout_ms,
                election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
                fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
                retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
                retry_backoff_max_ms=config.controller_quorum_retry_backoff_max_ms,
                elect_on_refused=config.headrace_elect_on_refusal,
                elect_at_start=config.headrace_elect_at_start,
                max_batch_bytes=config.internal_metadata_max_batch_size_in_bytes,
                fetch_max_bytes=config.controller_quorum_fetch_max_bytes,
                snapshot_fetch_max_bytes=config.controller_quorum_fetch_snapshot_max_bytes,
                retention_bytes=config.metadata_max_retention_bytes,
                retention_ms=config.metadata_max_retention_ms,
            ),
            log=log,
            snapshots=snapshots,
            state=QuorumState()
            if stored is None
            else decode_quorum_state(
                stored, path=f"{snapshots.directory}/{QUORUM_STATE_FILE_NAME}", directory=config.metadata_log_dir
            ),
            rng=rng,
        )

    def _controller(self, rng: Rng) -> ControllerMachine | None:
        if not self._config.is_controller:
            return None
        data = read_bootstrap_checkpoint(self._metadata_files, self._config.metadata_log_dir)
        records = (
            ()
            if data is None
            else read_snapshot(data, name="bootstrap.checkpoint", directory=self._config.metadata_log_dir).records
        )
        return ControllerMachine(
            config=self._config,
            cluster_id=self.cluster_id,
            rng=rng,
            bootstrap=read_bootstrap_records(records),
            stopwatch=self._stopwatch,
        )

    def recover(self, image: MetadataImage) -> None:
        """Put strays aside before any log is loaded for use (S1-40), then load the others. Blocks."""
        store = self.logs
        node_id = self._config.node_id
        for found in store.found():
            topic = image.topics.by_id.get(found.topic_id)
            registered = None if topic is None else topic.partitions.get(found.partition.partition)
            is_ours = topic is not None and topic.name == found.partition.topic
            if not is_ours or registered is None or node_id not in registered.replicas:
                store.mark_stray(found.partition)
        defaults = topic_defaults(self._config)

        def settings(topic: str) -> LogConfig:
            return log_config(topic_config(image.configs.of_topic(topic), defaults), self._config)

        store.load(settings, now_ms=self.clock.wall_ms())
        self.is_loaded = True

    # --- the metadata side's effects ---

    def quorum_state_job(self, order: StoreQuorumState) -> Callable[[], None]:
        """Work for a thread: replace `quorum-state` durably (B-R03)."""
        data = encode_quorum_state(order.state, kraft_version=order.kraft_version, voter_ids=order.voter_ids)
        return partial(write_quorum_state, self._metadata_files, self._metadata_directory, data)

    def metadata_flush(self) -> MetadataFlush:
        """Work for a thread: sync the metadata log."""
        assert self._metadata is not None, "open_metadata comes first"
        return MetadataFlush(self._metadata)

    def snapshot_job(self, job: SnapshotJob) -> Callable[[], None]:
        """Work for a thread: write a snapshot of the metadata."""
        snapshots = self._snapshots
        assert snapshots is not None, "open_metadata comes first"

        def run() -> None:
            self.snapshot_bytes = snapshots.write(job.snapshot_id, self.pace(job.batches()))
            self.snapshot_ms = self.clock.now_ms()

        return run

    def download_job(self, snapshot_id: OffsetAndEpoch) -> Download:
        """Work for a thread: check a fetched snapshot and make it whole."""
        assert self._snapshots is not None, "open_metadata comes first"
        return Download(self._snapshots, snapshot_id)

    @property
    def _metadata_directory(self) -> str:
        return f"{self._config.metadata_log_dir}/{METADATA_PARTITION_DIRECTORY}"

    # --- while running ---

    def are_checkpoints_due(self) -> bool:
        """Every `replica.high.watermark.checkpoint.interval.ms`."""
        now_ms = self.clock.now_ms()
        if now_ms < self._checkpoint_at_ms:
            return False
        self._checkpoint_at_ms = now_ms + self._config.replica_high_watermark_checkpoint_interval_ms
        return True

    def has_online_directory(self) -> bool:
        """Some log directory still works."""
        return any(one.is_online for one in self.logs.directories())

    # --- closing ---

    def close_logs(self, *, is_clean: bool, broker_epoch: int) -> None:
        """Close the broker's logs; cleanly: flushed, with `.kafka_cleanshutdown` last (B-K04). Blocks."""
        if self.is_loaded:
            self.is_loaded = False
            self.logs.close(clean=is_clean, broker_epoch=broker_epoch)

    def close_metadata(self, *, is_clean: bool) -> None:
        """Flush and close the metadata log. Blocks."""
        log, self._metadata = self._metadata, None
        if log is None:
            return
        if is_clean:
            job = log.prepare_flush()
            if job is not None:
                job.run_all()
                log.flushed(job.upto)
        end = log.log_end_offset
        log.close(clean=is_clean)
        if is_clean:
            write_synced_offset(self._metadata_files, self._metadata_directory, end)

    def unlock(self) -> None:
        """Let another process have the directories."""
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()


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
