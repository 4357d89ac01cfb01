"""A whole node, broker and controller in one, on a disk in memory: composed as a process composes it, with a driver of a few lines."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from headrace.broker.broker import Broker
from headrace.config.node_config import NodeConfig
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.core.listener import Listener, QuorumVoter, SecurityProtocol
from headrace.core.ports import BytesLike
from headrace.metadata.bootstrap import bootstrap_records
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.node.compose import ComposedNode, NodeEnvironment, compose_node
from headrace.node.disk import NodeDisk
from headrace.node.lifecycle import BrokerState, RecoverLogs, StateChanged
from headrace.node.machine import NodeEffect
from headrace.node.metadata_plane import WriteSnapshot
from headrace.node.outbound import SendRequest
from headrace.raft.events import FinishSnapshot, FlushLog, StoreQuorumState
from headrace.raft.snapshots import BOOTSTRAP_ID, build_snapshot
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred
from headrace.sim.disk import LossyFile, LossyFiles
from headrace.storage.meta_properties import MetaProperties, write_meta_properties
from headrace.storage.snapshot_files import write_bootstrap_checkpoint
from tests.support.broker_bench import DIRECTORY_ID, ManualClock
from tests.support.raft import CLUSTER_ID

DATA = "/data"
METADATA = "/data/__cluster_metadata-0"
LISTENERS = (
    Listener("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT),
    Listener("CONTROLLER", "127.0.0.1", 9093, SecurityProtocol.PLAINTEXT),
)
CONFIG = NodeConfig(
    node_id=1,
    listeners=LISTENERS,
    controller_quorum_voters=(QuorumVoter(1, "127.0.0.1", 9093),),
    log_dirs=(DATA,),
    metadata_log_dir=DATA,
    metadata_max_idle_interval_ms=0,
)


class FailingFile(LossyFile):
    """A file on a disk that can be made to fail."""

    def __init__(self, files: FailingFiles, opened: LossyFile) -> None:
        super().__init__(files, opened.node, opened.path)
        self._disk = files

    def pwrite(self, data: BytesLike, offset: int, /) -> None:
        """As the port's, while this part of the disk works."""
        if self._disk.broken is not None and self.path.startswith(self._disk.broken):
            raise StorageFault(
                f"cannot write {self.path}: Input/output error", directory=self._disk.log_directory_of(self.path)
            )
        super().pwrite(data, offset)


class FailingFiles(LossyFiles):
    """Files on a disk; nothing can be written where the path begins with `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None
        self.unreadable: str | None = None
        """Nothing can be read where the path begins with this."""

    def read_file(self, path: str, /) -> bytes | None:
        """As the port's, while this part of the disk works."""
        self.reading(path)
        return super().read_file(path)

    def reading(self, path: str) -> None:
        """As the port's, while this part of the disk works."""
        if self.unreadable is not None and path.startswith(self.unreadable):
            raise StorageFault(f"cannot read {path}: Input/output error", directory=self.log_directory_of(path))

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """As the port's; the file fails with the disk."""
        return FailingFile(self, super().open(path, create=create, truncate=truncate, read_only=read_only))


def format_disk(
    files: LossyFiles,
    *,
    node_id: int = 1,
    directory_id: Uuid = DIRECTORY_ID,
    others: Sequence[str] = (),
    metadata_version: int = LATEST_METADATA_VERSION,
) -> None:
    """What `headrace storage format` leaves on a node of a static quorum; `others` are log directories beside the one of the metadata."""
    files.mkdir(DATA)
    for number, other in enumerate(others):
        files.mkdir(other)
        more = MetaProperties(
            cluster_id=CLUSTER_ID, node_id=node_id, directory_id=Uuid(f"directory-nr-{number:03}".encode()), version=1
        )
        write_meta_properties(files, other, more, date="today")
    records = bootstrap_records(metadata_version=metadata_version)
    batches = build_snapshot(records, snapshot_id=BOOTSTRAP_ID, last_contained_log_timestamp=0, now_ms=0)
    write_bootstrap_checkpoint(files, DATA, batches)
    properties = MetaProperties(cluster_id=CLUSTER_ID, node_id=node_id, directory_id=directory_id, version=1)
    write_meta_properties(files, DATA, properties, date="today")


class MemoryNode:
    """The node. Effects wait in `effects` until `settle` does them; with `holds_recovery` the logs stay unloaded until `recover`.

    `after` is the node that ran on the same disk before. What it asks of other nodes waits in `asked`.
    """

    STOPPED_IN_EPOCH = 7
    """The broker epoch in the mark that `stop` leaves."""

    def __init__(
        self,
        *,
        holds_recovery: bool = False,
        after: MemoryNode | None = None,
        config: NodeConfig = CONFIG,
        clock: ManualClock | None = None,
        metadata_version: int = LATEST_METADATA_VERSION,
        **changes: object,
    ) -> None:
        self.clock = clock or ManualClock()
        self.effects: deque[NodeEffect] = deque()
        self.done: list[NodeEffect] = []
        self.states: list[BrokerState] = []
        self.asked: list[SendRequest] = []
        self.config = replace(config, **changes)  # type: ignore[arg-type]
        self._holds_recovery = holds_recovery
        self._recovery: RecoverLogs | None = None
        self.starts: int = 1 if after is None else after.starts + 1
        node_id = self.config.node_id
        if after is None:
            self.files = FailingFiles()
            format_disk(
                self.files,
                node_id=node_id,
                directory_id=Uuid(f"directory-no-{node_id:03}".encode()),
                others=self.config.log_dirs[1:],
                metadata_version=metadata_version,
            )
        else:
            self.files = after.files
        self.disk = NodeDisk(self.config, files=self.files, clock=self.clock)
        self.disk.open()
        self.node: ComposedNode = compose_node(
            self.config,
            disk=self.disk,
            bound=self.config.listeners,
            environment=NodeEnvironment(clock=self.clock, rng=random.Random(100 * node_id + self.starts)),
            do=self.effects.append,
        )
        self.machine, self.plane = self.node.machine, self.node.plane
        self.logs = self.disk.logs
        if self.machine.broker is not None:
            self.broker: Broker = self.machine.broker

    def start(self) -> None:
        """Start, and do what that orders."""
        self.machine.start()
        self.settle()

    def settle(self) -> None:
        """Do effects and let time pass until a second went by with nothing to do."""
        for _ in range(100):
            self.work()
            self.clock.now += 10
            self.machine.tick()

    def work(self) -> None:
        """Do what is ordered."""
        while self.effects:
            self._do(self.effects.popleft())

    def recover(self) -> None:
        """The logs are loaded."""
        assert self._recovery is not None
        self._run(self._recovery)

    def stop(self) -> None:
        """Close everything cleanly."""
        self.logs.close(clean=True, broker_epoch=self.STOPPED_IN_EPOCH)
        self.disk.close_metadata(is_clean=True)
        self.disk.unlock()

    def forward(self, request: object, api_version: int) -> Deferred:
        """Ask the controller as a handler would."""
        api_key = type(request).SCHEMA.api_key  # type: ignore[attr-defined]
        context = RequestContext(api_key=api_key, api_version=api_version, now_ms=self.clock.now)
        return self.broker.forward(request, context)

    def _do(self, effect: NodeEffect) -> None:
        self.done.append(effect)
        match effect:
            case StoreQuorumState() | FlushLog() | WriteSnapshot() | FinishSnapshot():
                self._run(effect)
            case RecoverLogs():
                self._recovery = effect
                if not self._holds_recovery:
                    self.recover()
            case StateChanged():
                self.states.append(effect.state)
            case SendRequest():
                self.asked.append(effect)
            case _:
                pass

    def _run(self, effect: StoreQuorumState | FlushLog | WriteSnapshot | FinishSnapshot | RecoverLogs) -> None:
        job = self.node.disk_jobs.job(effect)
        job.run()
        job.finish()
