"""The directories of one node: whose they are, what lies in them, what a start recovers, and how they are closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.log_settings import log_config
from headrace.config.node_config import NodeConfig
from headrace.config.topic_config import topic_config, topic_defaults
from headrace.core.errors import OperatorError
from headrace.core.ids import MIGRATING_DIRECTORY, ZERO_UUID, Uuid
from headrace.log.config import LogConfig
from headrace.metadata.image import MetadataImage, PartitionRegistration
from headrace.node.directories import NodeDirectories, all_directories, check_directories
from headrace.node.metadata_files import MetadataFiles, Paced
from headrace.storage.log_store import LogStore
from headrace.storage.roll_allowance import RollAllowance
from headrace.storage.stored_log import StoredLog

if TYPE_CHECKING:
    from headrace.broker.ports import Clock
    from headrace.core.ports import FileLock, Files, Rng
    from headrace.storage.log_directory import Found


class NodeDisk:
    """The directories of one node: locked, checked, opened, closed; the same on a real disk and on a simulated one.

    Calls that may block long are for a thread: the jobs, `close_logs` and `close_metadata`.
    """

    def __init__(
        self,
        config: NodeConfig,
        *,
        files: Files,
        clock: Clock,
        pace: Paced = iter,
        metadata_log_class: type[StoredLog] = StoredLog,
    ) -> None:
        """What a thread writes piece by piece goes through `pace`, which may let it rest in between.

        The simulation observes the metadata log through a `metadata_log_class` of its own.
        """
        self.pace = pace
        self._config = config
        self._clock = clock
        self._files = files
        self._metadata_log_class = metadata_log_class
        self._locks: list[FileLock] = []
        self._directories: NodeDirectories | None = None
        self._store: LogStore | None = None
        self._metadata: MetadataFiles | None = None
        self.is_loaded = False
        self.previous_broker_epoch = -1

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
            {path: self._directories.directory_ids.get(path, ZERO_UUID) for path in self._config.log_dirs},
            retention_check_interval_ms=self._config.log_retention_check_interval_ms,
            producer_expiration_check_interval_ms=self._config.producer_id_expiration_check_interval_ms,
            pace=self.pace,
        )
        self._store.share_rolls(RollAllowance())
        for path in self._directories.offline:
            self._store.fail_directory(path)
        if not self._config.headrace_keep_strays:
            self._store.remove_strays_after(self._config.log_segment_delete_delay_ms)
        self.previous_broker_epoch = self._store.previous_broker_epoch

    def open_metadata(self, rng: Rng) -> MetadataFiles:
        """Recover the metadata log. `rng` is for the logs, too. Raises StorageFault."""
        self.logs.draw_from(rng)
        self._metadata = MetadataFiles(
            self._config,
            files=self._files,
            clock=self._clock,
            pace=self.pace,
            log_class=self._metadata_log_class,
        )
        return self._metadata

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
    def metadata_directory_id(self) -> Uuid:
        """Of the directory with the metadata log."""
        assert self._directories is not None, "open comes first"
        return self._directories.directory_ids[self._config.metadata_log_dir]

    @property
    def logs(self) -> LogStore:
        """The broker's logs."""
        assert self._store is not None, "open comes first"
        return self._store

    @property
    def metadata(self) -> MetadataFiles:
        """The metadata log, its snapshots and the vote."""
        assert self._metadata is not None, "open_metadata comes first"
        return self._metadata

    def recover(self, image: MetadataImage) -> None:
        """Put strays aside before any log is loaded for use (S1-40), then load the others. Blocks."""
        self._put_strays_aside(image)
        store = self.logs
        defaults = topic_defaults(self._config)

        def settings(topic: str) -> LogConfig:
            return log_config(topic_config(image.configs.of_topic(topic), defaults), self._config)

        store.load(settings, now_ms=self._clock.wall_ms())
        self.is_loaded = True

    def _put_strays_aside(self, image: MetadataImage) -> None:
        """What is not this node's goes, of a move that a crash ended only what is right stays, and a move under way is noted (KIP-113, KIP-858).

        A future log takes its place at once where the log itself is gone and the metadata know the replica there: a crash, or the loss of the other directory,
        came after the controller had been told. Kafka 4.3.1 does so too where the other directory only cannot be read; what is there may be more, so here the
        replica is not used then, and the controller is told that it is lost.
        """
        store = self.logs
        for found in store.found():
            if self._registered(image, found) is None:
                store.set_found_aside(found)

        def place_of(found: Found) -> Uuid:
            registered = self._registered(image, found)
            return ZERO_UUID if registered is None else registered.directory_of(self._config.node_id)

        store.settle_doubles(place_of)
        there = {(found.partition, found.topic_id) for found in store.found()}
        online = {info.path: info.directory_id for info in store.directories() if info.is_online}
        kept, promoted, left = [], [], []
        is_whole = len(online) == len(store.directories())
        for future in store.found_futures():
            if self._registered(image, future) is None:
                continue
            if (future.partition, future.topic_id) in there:
                kept.append(future)
            elif not is_whole:
                left.append(future)
            elif place_of(future) in (online.get(future.directory), MIGRATING_DIRECTORY):
                promoted.append(future)
                there.add((future.partition, future.topic_id))
        store.keep_futures(kept, promoted, left)

    def _registered(self, image: MetadataImage, found: Found) -> PartitionRegistration | None:
        """What the metadata say of the partition, None if this node has no replica of it."""
        topic = image.topics.by_id.get(found.topic_id)
        registered = None if topic is None else topic.partitions.get(found.partition.partition)
        is_ours = topic is not None and topic.name == found.partition.topic
        if not is_ours or registered is None or self._config.node_id not in registered.replicas:
            return None
        return registered

    # --- while running ---

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
        """Flush and close the metadata log, if it was opened. Blocks. Raises StorageFault."""
        if self._metadata is not None:
            self._metadata.close(is_clean=is_clean)

    def unlock(self) -> None:
        """Let another process have the directories."""
        locks, self._locks = self._locks, []
        for lock in locks:
            lock.release()
