"""A whole node, broker and controller in one, on memory: its machine with the real parts, and a driver of a few lines."""

from __future__ import annotations

import random
from collections import deque

from headrace.broker.broker import Broker
from headrace.broker.context import RequestContext
from headrace.broker.reply import Deferred
from headrace.controller.machine import ControllerMachine
from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.core.listener import Listener, SecurityProtocol
from headrace.core.node_config import NodeConfig
from headrace.core.ports import BytesLike
from headrace.log.config import LogConfig
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.loader import MetadataLoader
from headrace.node.lifecycle import BrokerIdentity, BrokerState, RecoverLogs, StateChanged
from headrace.node.machine import NodeEffect, NodeMachine
from headrace.node.metadata_plane import MetadataPlane, PlaneConfig
from headrace.raft.events import FlushLog, LogFlushed, QuorumStateStored, StoreQuorumState
from headrace.sim.disk import LossyFile, LossyFiles
from headrace.storage.log_store import LogStore
from tests.support.broker_bench import DIRECTORY_ID, ManualClock
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CLUSTER_ID, RaftBench


class FailingLog(MemoryLog):
    """A metadata log whose disk can be made to fail."""

    is_broken = False

    def append_as_leader(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
        """As the port's, while the disk works."""
        if self.is_broken:
            raise StorageFault("no more room for metadata", directory=self.directory)
        return super().append_as_leader(*arguments, **named)  # type: ignore[arg-type]


class FailingFile(LossyFile):
    """A file on a disk that can be made to fail."""

    def __init__(self, files: FailingFiles, opened: LossyFile) -> None:
        super().__init__(files, opened.node, opened.path)
        self._disk = files

    def pwrite(self, data: BytesLike, offset: int, /) -> None:
        """As the port's, while the disk works."""
        if self._disk.is_broken:
            raise StorageFault(f"cannot write {self.path}: Input/output error")
        super().pwrite(data, offset)


class FailingFiles(LossyFiles):
    """Files on a disk that can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """As the port's; the file fails with the disk."""
        return FailingFile(self, super().open(path, create=create, truncate=truncate, read_only=read_only))


class MemoryNode:
    """The node. Effects wait in `effects` until `settle` does them; with `holds_recovery` the logs stay unloaded until `recover`.

    `after` is the node that ran on the same disks before.
    """

    def __init__(self, *, holds_recovery: bool = False, after: MemoryNode | None = None) -> None:
        self.clock = ManualClock()
        self.effects: deque[NodeEffect] = deque()
        self.done: list[NodeEffect] = []
        self.states: list[BrokerState] = []
        self._holds_recovery = holds_recovery
        rng = random.Random(9)
        config = NodeConfig(node_id=1, log_dirs=("/data",), metadata_max_idle_interval_ms=0)
        self.log: FailingLog = FailingLog() if after is None else after.log
        snapshots = MemorySnapshots()
        raft = RaftBench(log=self.log, snapshots=snapshots).node
        plane = MetadataPlane(
            config=PlaneConfig(node_id=1, incarnation_id=Uuid(b"controller------")),
            raft=raft,
            loader=MetadataLoader(),
            controller=ControllerMachine(
                config=config, cluster_id=CLUSTER_ID, rng=rng, bootstrap=read_bootstrap_records(bootstrap_records())
            ),
            snapshots=snapshots.as_port(),
        )
        self.machine = NodeMachine(config=config, plane=plane, clock=self.clock, rng=rng, do=self.effects.append)
        self.files: FailingFiles = FailingFiles() if after is None else after.files
        self.files.mkdir("/data")
        self.logs = LogStore(self.files, {"/data": DIRECTORY_ID})
        identity = BrokerIdentity(
            cluster_id=CLUSTER_ID,
            incarnation_id=Uuid(b"broker----------"),
            listeners=(Listener("PLAINTEXT", "127.0.0.1", 9092, SecurityProtocol.PLAINTEXT),),
            directory_ids=(DIRECTORY_ID,),
        )
        self.broker: Broker = self.machine.add_broker(identity=identity, logs=self.logs)

    def start(self) -> None:
        """Start, and do what that orders."""
        self.machine.start()
        self.settle()

    def settle(self) -> None:
        """Do effects and let time pass until a second went by with nothing to do."""
        for _ in range(100):
            while self.effects:
                self._do(self.effects.popleft())
            self.clock.now += 10
            self.machine.tick()

    def recover(self) -> None:
        """The logs are loaded."""
        self.logs.load(lambda topic: LogConfig(), now_ms=self.clock.now)
        self.machine.recovered()

    def forward(self, request: object, api_version: int) -> Deferred:
        """Ask the controller as a handler would."""
        context = RequestContext(api_key=0, api_version=api_version, now_ms=self.clock.now)
        return self.broker.forward(request, context)

    def _do(self, effect: NodeEffect) -> None:
        self.done.append(effect)
        match effect:
            case StoreQuorumState():
                self.machine.step(QuorumStateStored(state=effect.state, now_ms=self.clock.now))
            case FlushLog():
                self.machine.step(LogFlushed(upto=self.log.flush(), now_ms=self.clock.now))
            case StateChanged():
                self.states.append(effect.state)
            case RecoverLogs():
                if not self._holds_recovery:
                    self.recover()
            case _:
                pass
