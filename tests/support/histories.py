"""A made-up history of a cluster for the checkers: steps of nodes that do not exist, written by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.raft.events import QuorumState
from headrace.raft.roles import Candidate, Follower, Leader, Role, Unattached
from headrace.raft.voters import Voter, VoterSet, encode_voters
from headrace.records.batch import read_header
from headrace.records.control import ControlType, build_control_batch
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.watcher import Watcher
from headrace.sim.clock import WALL_START_MS
from headrace.sim.markers import Markers
from headrace.sim.observation import (
    Crash,
    InvariantBroken,
    LogAppended,
    LogDurable,
    LogReset,
    MachineStep,
    QuorumStateDurable,
    Received,
    Step,
    StepKind,
)

CLUSTER_ID = "made-up-cluster-000000"
FETCH_TIMEOUT_MS = 2_000
SESSION_MS = 9_000


def directory(number: int) -> Uuid:
    """The directory id of a node's first disk."""
    return Uuid(bytes([number]) * 16)


def voter_set(*ids: int, kraft_version: int = 0) -> VoterSet:
    """Voters; with `kraft_version` 1 by directory too."""
    voters = tuple(
        Voter(voter_id=each, directory_id=directory(each) if kraft_version else ZERO_UUID) for each in sorted(ids)
    )
    return VoterSet(voters=voters, kraft_version=kraft_version)


def appended(data: bytes | bytearray) -> LogAppended:
    """The change that this batch makes."""
    header = read_header(data)
    return LogAppended(
        header.base_offset, header.next_offset, header.leader_epoch, header.crc, header.is_control, bytes(data)
    )


def leader_change(base_offset: int, epoch: int) -> LogAppended:
    """The first batch of an epoch."""
    placement = Placement(base_offset=base_offset, leader_epoch=epoch)
    return appended(build_control_batch(ControlType.LEADER_CHANGE, b"", timestamp=epoch, placement=placement))


def voters_batch(base_offset: int, epoch: int, voters: VoterSet) -> LogAppended:
    """A change of voters."""
    placement = Placement(base_offset=base_offset, leader_epoch=epoch)
    value = encode_voters(voters)
    return appended(build_control_batch(ControlType.KRAFT_VOTERS, value, timestamp=epoch, placement=placement))


def records_batch(base_offset: int, epoch: int, *records: bytes) -> LogAppended:
    """A batch of framed metadata records; of any bytes where nobody reads them."""
    placement = Placement(base_offset=base_offset, leader_epoch=epoch)
    return appended(build_batch([NewRecord(None, each, epoch) for each in records], placement=placement))


@dataclass
class MadeUpConfig:
    """What the checkers read of a raft node's settings."""

    cluster_id: str = CLUSTER_ID


@dataclass
class MadeUpRaft:
    """What the checkers read of a raft node."""

    voters: VoterSet
    role: Role = field(default_factory=lambda: Unattached(epoch=0))
    high_watermark: int = -1
    leader_id: int = -1
    config: MadeUpConfig = field(default_factory=MadeUpConfig)

    @property
    def epoch(self) -> int:
        """That of the role."""
        return self.role.epoch

    def voters_at(self, end_offset: int) -> VoterSet:
        """Those before the first record."""
        return self.voters


class MadeUpLoader:
    """A loader that may have met a record that it cannot replay."""

    _fault: Exception | None = None


class MadeUpPlane:
    """The metadata side of a made-up node."""

    def __init__(self) -> None:
        self.loader = MadeUpLoader()


@dataclass
class MadeUpController:
    """What the checkers read of a controller."""

    is_active: bool = True


class MadeUpNode:
    """One node; a test writes its parts."""

    def __init__(self, node_id: int, voters: VoterSet, *, is_controller: bool) -> None:
        self.node_id = node_id
        self.directory_id = directory(node_id)
        self.run = 0
        self.is_up = False
        self.is_controller = is_controller
        self.raft: Any = MadeUpRaft(voters=voters)
        self.plane: Any = MadeUpPlane()
        self.controller: Any = MadeUpController() if is_controller else None
        self.machine: Any = None
        self.log: Any = None
        self.image: MetadataImage = EMPTY_IMAGE
        self.quorum_state: QuorumState | None = None


class MadeUpCluster:
    """The nodes, and the settings that bound times."""

    def __init__(self) -> None:
        self.nodes: dict[int, Any] = {}
        self.now_us = 0
        self.is_healing = False
        self.left_behind: frozenset[int] = frozenset()
        self.lost_directories: Sequence[Uuid] = ()
        self.election_timeout_ms = 1_000
        self.fetch_timeout_ms = FETCH_TIMEOUT_MS
        self.broker_session_timeout_ms = SESSION_MS
        self.ahead_ms: dict[int, int] = {}
        """Node -> how far its wall clock once was ahead; the others' are right."""

    def local_ms(self, node_id: int) -> int:
        """All monotonic clocks are right."""
        return self.now_us // 1_000

    def latest_wall_ms(self, node_id: int) -> int:
        """The latest time that its wall clock showed."""
        return WALL_START_MS + self.now_us // 1_000 + self.ahead_ms.get(node_id, 0)


class Story:
    """Steps in order. Unless told otherwise three voters, 1 to 3, are up and empty; 4 and up are observers when started."""

    def __init__(self, *groups: Any, voters: VoterSet | None = None, up: Sequence[int] = (1, 2, 3)) -> None:
        self.watcher = Watcher(groups)
        self.cluster = MadeUpCluster()
        self.markers = Markers()
        self.watcher.begin(self.cluster, self.markers)
        self.ghost = self.watcher.ghost
        self.voters = voters or voter_set(1, 2, 3)
        self.number = 0
        for each in up:
            self.start(each)

    def node(self, node_id: int) -> MadeUpNode:
        """The node, made when it is named first."""
        if node_id not in self.cluster.nodes:
            self.cluster.nodes[node_id] = MadeUpNode(node_id, self.voters, is_controller=node_id < 10)
        made: MadeUpNode = self.cluster.nodes[node_id]
        return made

    def _step(self, node: MadeUpNode, kind: StepKind, event: object = None) -> Step:
        self.number += 1
        self.cluster.now_us += 1_000
        step = Step()
        step.number, step.at_us, step.kind, step.event = self.number, self.cluster.now_us, kind, event
        step.node = node
        return step

    def start(
        self,
        node_id: int,
        *found: LogAppended,
        role: Role | None = None,
        start: int = 0,
        stored: QuorumState | None = None,
        more: Sequence[Any] = (),
        raft: MadeUpRaft | None = None,
    ) -> MadeUpNode:
        """A process starts; `found` are the batches on its disk, all durable. `raft` in place of a fresh one."""
        node = self.node(node_id)
        node.run += 1
        node.is_up = True
        role = role or Unattached(epoch=stored.leader_epoch if stored else 0)
        node.raft = raft or MadeUpRaft(voters=self.voters, role=role)
        node.image = EMPTY_IMAGE
        step = self._step(node, StepKind.STARTED)
        end = found[-1].next_offset if found else start
        step.changes = [LogReset(start), *found, LogDurable(end), *more]
        if stored is not None:
            step.changes.append(QuorumStateDurable(stored))
        self.watcher.on_step(step)
        return node

    def crash(self, node_id: int, *, is_lossy: bool = False, is_disk_lost: bool = False) -> None:
        """The process dies."""
        node = self.node(node_id)
        node.is_up = False
        crash = Crash(is_lossy=is_lossy, is_disk_lost=is_disk_lost)
        self.watcher.on_step(self._step(node, StepKind.CRASHED, crash))
        if is_disk_lost:
            node.directory_id = directory(100 + node_id)

    def step(
        self,
        node_id: int,
        *changes: Any,
        role: Role | None = None,
        high_watermark: int | None = None,
        machines: Sequence[MachineStep] = (),
        received: Received | None = None,
        image: MetadataImage | None = None,
    ) -> None:
        """One event of a node, and what it changed."""
        node = self.node(node_id)
        step = self._step(node, StepKind.EVENT)
        if role is not None:
            node.raft.role = role
            node.raft.leader_id = _leader_of(node_id, role)
        if high_watermark is not None:
            node.raft.high_watermark = high_watermark
        if image is not None:
            node.image = image
        step.changes, step.machines, step.received = list(changes), list(machines), received
        self.watcher.on_step(step)

    def called(self, event: object) -> None:
        """A client's call began or ended."""
        step = self._step(self.node(1), StepKind.CALL, event)
        self.watcher.on_step(step)

    def wait(self, ms: int) -> None:
        """Time passes."""
        self.cluster.now_us += ms * 1_000

    # Whole scenes

    def stores(self, node_id: int, epoch: int, *, voted_id: int = -1, leader_id: int = -1) -> None:
        """quorum-state is written."""
        state = QuorumState(leader_epoch=epoch, voted_id=voted_id, leader_id=leader_id)
        self.step(node_id, QuorumStateDurable(state))

    def lead(self, node_id: int, epoch: int, *, start: int | None = None) -> None:
        """The node becomes candidate and leader of an epoch, by the rules as far as the checkers can tell, and writes its first record."""
        self.stores(node_id, epoch, voted_id=node_id)
        begins = self.ghost.lives[node_id].disk.log.end if start is None else start
        role = Leader(epoch=epoch, epoch_start_offset=begins, granting_voters=(node_id,))
        self.step(node_id, leader_change(begins, epoch), role=role)

    def follow(self, node_id: int, epoch: int, leader_id: int) -> None:
        """The node learns who leads."""
        self.stores(node_id, epoch, leader_id=leader_id)
        self.step(node_id, role=Follower(epoch=epoch, leader_id=leader_id))

    def replicate(self, node_id: int, *batches: LogAppended) -> None:
        """The node appends the batches and syncs them."""
        self.step(node_id, *batches)
        self.step(node_id, LogDurable(batches[-1].next_offset))

    def commit(self, leader_id: int, *batches: LogAppended, followers: Sequence[int] = (2,)) -> None:
        """The leader has appended `batches` (the last ones of its log); it and the followers get them to disk."""
        self.step(leader_id, LogDurable(batches[-1].next_offset))
        for each in followers:
            self.replicate(each, *batches)


def _leader_of(node_id: int, role: Role) -> int:
    if isinstance(role, Leader):
        return node_id
    return role.leader_id if isinstance(role, Follower) else -1


@contextmanager
def breaks(invariant: str) -> Iterator[None]:
    """With this, the body must break this line of the contract, and no other."""
    with pytest.raises(InvariantBroken) as found:
        yield
    assert found.value.invariant == invariant, str(found.value)


__all__ = [
    "CLUSTER_ID",
    "FETCH_TIMEOUT_MS",
    "SESSION_MS",
    "Candidate",
    "Group",
    "Scene",
    "Story",
    "appended",
    "breaks",
    "directory",
    "leader_change",
    "records_batch",
    "voter_set",
    "voters_batch",
]
