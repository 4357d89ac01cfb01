"""A node's metadata side on a disk in memory: requests and disk work in a random order, and what was promised when.

`MetadataWorkload.run` is one life; `recovered` starts a node on a disk as it may be found after a power cut and says what is wrong with it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from headrace.config.node_config import NodeConfig
from headrace.controller.events import Answer, RequestArrived, RequestCause
from headrace.controller.machine import ControllerMachine
from headrace.core.errors import StorageFault
from headrace.log.config import LogConfig
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.image import MetadataImage
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.node.metadata_files import synced_below
from headrace.node.metadata_plane import MetadataPlane, PlaneConfig, PlaneEffect, WriteSnapshot
from headrace.raft.config import RaftConfig
from headrace.raft.events import (
    FlushLog,
    LogFlushed,
    QuorumState,
    QuorumStateStored,
    SnapshotCreated,
    StoreQuorumState,
)
from headrace.raft.machine import RaftNode
from headrace.raft.quorum_state import decode_quorum_state, encode_quorum_state
from headrace.sim.disk import LossyFiles
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.snapshot_files import SnapshotFiles, read_quorum_state, write_quorum_state
from headrace.storage.stored_log import StoredLog
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.controller import registration
from tests.support.raft import CLUSTER_ID, DIRECTORY_ID, STATIC

ROOT = "/d"
DIRECTORY = f"{ROOT}/__cluster_metadata-0"
NOW_MS = 1_795_000_000_000
SMALL = LogConfig(segment_bytes=1_000, retention_bytes=-1, retention_ms=-1)
State = tuple[Any, Any, int]


def state_of(image: MetadataImage) -> State:
    """What requests changed: topics, settings, producer ids."""
    return image.topics, image.configs, image.next_producer_id


class Promise(NamedTuple):
    """After `calls` calls of the disk an answer told of the state number `state`."""

    calls: int
    state: int


@dataclass
class Life:
    """One life of a node on a disk."""

    files: LossyFiles
    rng: random.Random
    syncs: bool = True
    effects: deque[PlaneEffect] = field(default_factory=deque)
    states: list[State] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    terms: list[tuple[int, int]] = field(default_factory=list)
    """(calls of the disk, epoch) of each leadership that was stored."""
    waiting: dict[int, int] = field(default_factory=dict)
    tokens: count[int] = field(default_factory=lambda: count(1))

    def open(self) -> None:
        """Find what is on the disk, and compose the node. Raises StorageFault, MetadataFault."""
        if not self.files.exists(ROOT):  # the crash came before the formatted directory was durable
            self.files.mkdir(ROOT)
            self.files.fsync_dir("/")
        if not self.files.exists(DIRECTORY):
            self.files.mkdir(DIRECTORY)
            self.files.fsync_dir(ROOT)
        self.snapshots = SnapshotFiles(self.files, DIRECTORY)
        self.snapshots.delete_leftovers()
        self.log = open_metadata_log(
            StoredLog,
            self.files,
            ROOT,
            SMALL,
            LoadHints(now_ms=NOW_MS, recovery_point=synced_below(self.files, self.snapshots)),
        )
        stored = read_quorum_state(self.files, DIRECTORY)
        self.raft = RaftNode(
            config=RaftConfig(
                node_id=1,
                directory_id=DIRECTORY_ID,
                cluster_id=CLUSTER_ID,
                voters=STATIC,
                retention_bytes=1_000,
            ),
            log=self.log,
            snapshots=self.snapshots,
            state=QuorumState() if stored is None else decode_quorum_state(stored, path="quorum-state"),
            rng=self.rng,
        )
        self.controller = ControllerMachine(
            config=NodeConfig(node_id=1, log_dirs=(ROOT,), metadata_max_idle_interval_ms=0),
            cluster_id=CLUSTER_ID,
            rng=self.rng,
            bootstrap=read_bootstrap_records(bootstrap_records()),
        )
        self.plane = MetadataPlane(
            config=PlaneConfig(snapshot_max_new_bytes=900),
            raft=self.raft,
            loader=MetadataLoader(),
            controller=self.controller,
            snapshots=self.snapshots,
        )
        self._take(self.plane.start(NOW_MS))

    def settle(self) -> None:
        """Do all that is ordered."""
        while self.effects:
            self.work()

    def work(self) -> None:
        """Do the oldest thing that is ordered."""
        match self.effects.popleft():
            case StoreQuorumState(state=state):
                data = encode_quorum_state(state, kraft_version=0, voter_ids=(1,))
                write_quorum_state(self.files, DIRECTORY, data)
                if state.leader_id == 1:
                    self.terms.append((len(self.files.ops), state.leader_epoch))
                self._take(self.plane.step(QuorumStateStored(state=state, now_ms=NOW_MS)))
            case FlushLog():
                job = self.log.prepare_flush()
                upto = self.log.durable_end_offset
                if job is not None:
                    if self.syncs:
                        job.run()
                    self.log.flushed(job.upto)
                    upto = job.upto
                self._take(self.plane.step(LogFlushed(upto=upto, now_ms=NOW_MS)))
            case WriteSnapshot(job=job_):
                self.snapshots.write(job_.snapshot_id, job_.batches())
                done = SnapshotCreated(end_offset=job_.snapshot_id.offset, epoch=job_.snapshot_id.epoch, now_ms=NOW_MS)
                self._take(self.plane.step(done))
            case Answer(token=token):
                state_number = self.waiting.pop(token, None)
                if state_number is not None:
                    self.promises.append(Promise(len(self.files.ops), state_number))
            case _:
                pass

    def ask(self, request: Any) -> None:
        """A request; when it is answered, what the controller had decided by then is promised."""
        token = next(self.tokens)
        event = RequestArrived(
            token=token,
            request=request,
            cause=RequestCause(api_version=request.SCHEMA.versions.last, listener="CONTROLLER"),
            now_ms=NOW_MS,
            deadline_ms=NOW_MS + 1,
        )
        effects = self.plane.step(event)
        now = state_of(self.controller.image)
        if not self.states or now != self.states[-1]:
            self.states.append(now)
        self.waiting[token] = len(self.states) - 1
        self._take(effects)

    def _take(self, effects: list[PlaneEffect]) -> None:
        self.effects.extend(effects)


class MetadataWorkload(Life):
    """A node that is asked things while its disk works, all in an order that the seed decides."""

    def __init__(self, seed: int, *, syncs: bool = True) -> None:
        files = LossyFiles()
        files.mkdir(ROOT)
        files.fsync_dir("/")
        super().__init__(files=files, rng=random.Random(seed), syncs=syncs)

    def run(self, steps: int) -> MetadataWorkload:
        """Start, register the broker, then `steps` random things."""
        self.open()
        self.settle()
        self.ask(registration(1))
        self.settle()
        epoch = self.controller.image.cluster.brokers[1].broker_epoch
        self.ask(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch))
        self.settle()
        requests: list[Callable[[], Any]] = [
            self._creation,
            self._creation,
            self._deletion,
            self._setting,
            lambda: AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch),
        ]
        for _ in range(steps):
            if self.effects and self.rng.random() < 0.6:
                self.work()
            else:
                self.ask(self.rng.choice(requests)())
        return self

    def _name(self) -> str:
        return f"t{self.rng.randrange(8)}"

    def _creation(self) -> CreateTopicsRequest:
        count_ = self.rng.randrange(1, 4)
        return CreateTopicsRequest(
            topics=(CreatableTopic(name=self._name(), num_partitions=count_, replication_factor=1),)
        )

    def _deletion(self) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=(DeleteTopicState(name=self._name()),), timeout_ms=1)

    def _setting(self) -> IncrementalAlterConfigsRequest:
        value = str(self.rng.randrange(1000, 2000))
        setting = AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=2, resource_name=self._name(), configs=(setting,))
        return IncrementalAlterConfigsRequest(resources=(resource,))


def recovered(files: LossyFiles, seed: int) -> tuple[Life, str | None]:
    """A node started on this disk, and why it did not start."""
    life = Life(files=files, rng=random.Random(seed))
    try:
        life.open()
        life.settle()
    except (StorageFault, MetadataFault) as fault:
        return life, f"the node does not start: {fault}"
    return life, None
