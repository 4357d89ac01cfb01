"""What a checker sees of a simulated cluster, step by step.

A *step* is one event handled by one node, or one thing done to a node from outside (a start, a crash, a client's call). After each step
every checker gets one `Step`. What the outside world could notice stands in `Step.changes`, in the order in which it happened: a vote
that was stored stands before the answer that was sent because of it. `Step.node` is the node afterwards, to be read and never changed.

A start step's changes describe what the node found on its disk: `LogReset`, a `LogAppended` for each batch, `LogDurable`,
`SnapshotAppeared` for each snapshot and `QuorumStateDurable`. So a checker can keep a ghost log for each disk from the changes alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.core.ids import TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class

if TYPE_CHECKING:
    from headrace.controller.machine import ControllerMachine
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import MetadataImage
    from headrace.node.machine import NodeMachine
    from headrace.node.metadata_plane import MetadataPlane
    from headrace.raft.events import QuorumState, RaftRequest, RaftResponse
    from headrace.raft.machine import RaftNode
    from headrace.sim.markers import Markers


class InvariantBroken(Exception):
    """A line of the contract is broken: its id (`R1`, `CL2`), what was seen, and which nodes were involved."""

    def __init__(self, invariant: str, message: str, *, nodes: Sequence[int] = ()) -> None:
        super().__init__(f"{invariant}: {message}")
        self.invariant = invariant
        self.message = message
        self.nodes = tuple(nodes)


class StepKind(IntEnum):
    """What happened to the node."""

    EVENT = 0
    """The node's machine took `Step.event`."""
    STARTED = 1
    """The process started on its disk."""
    CRASHED = 2
    """The process died; with `Step.event` a `Crash`. What was not synced may be lost."""
    STOPPED = 3
    """The process ended cleanly."""
    PAUSED = 4
    """The process stands still (SIGSTOP)."""
    RESUMED = 5
    """The process goes on."""
    CALL = 6
    """A client sent or finished a call; `Step.event` is `CallStarted` or `CallEnded`."""
    FAULT = 7
    """The world changed: `Step.event` is the fault, as text."""


@value_class
class Crash:
    """How a process died, or what was done to the disk of a node that was down.

    `is_lossy`: by power cut, so unsynced data may be gone; `is_disk_lost`: the disk is empty, the directory id new; `is_rotten`: a bit of
    the metadata directory is another one, so the disk counts as destroyed until it is replaced.
    """

    is_lossy: bool
    is_disk_lost: bool = False
    is_rotten: bool = False
    reason: str = ""


# Changes: what the outside could notice, in order


class LogReset(NamedTuple):
    """The metadata log was emptied and begins at `start` (a snapshot was installed), or this is what a start found."""

    start: int


class LogAppended(NamedTuple):
    """One batch was written to the page cache at the log's end. `data` is the whole batch; `crc` is its own."""

    base_offset: int
    next_offset: int
    epoch: int
    crc: int
    is_control: bool
    data: bytes


class LogTruncated(NamedTuple):
    """Everything from `to` on was removed; if that is not durable, the process ends and the next start may find either."""

    to: int
    is_durable: bool = True


class LogStartMoved(NamedTuple):
    """Records below `to` are gone: a snapshot covers them."""

    to: int


class LogDurable(NamedTuple):
    """Everything below `upto` is synced."""

    upto: int


class QuorumStateDurable(NamedTuple):
    """The file `quorum-state` says this now, durably."""

    state: QuorumState


class SnapshotAppeared(NamedTuple):
    """A snapshot has its final name. `is_durable`: bytes and name are synced; `data` are the file's bytes."""

    snapshot_id: OffsetAndEpoch
    is_durable: bool
    data: bytes


class SnapshotRemoved(NamedTuple):
    """A snapshot is gone."""

    snapshot_id: OffsetAndEpoch


class RequestSent(NamedTuple):
    """A request to another node left. `to` is -1 when the sender does not know who listens there."""

    to: int
    request: RaftRequest | object
    correlation: int


class ResponseSent(NamedTuple):
    """An answer left, to node or client `to`; `request` is what was asked."""

    to: int
    request: RaftRequest | object
    response: RaftResponse | object


class HighWatermarkMoved(NamedTuple):
    """The node handed out a higher high watermark."""

    to: int


class BatchApplied(NamedTuple):
    """The metadata loader of this node took one committed batch; `records` are framed metadata records, none of a control batch."""

    base_offset: int
    next_offset: int
    epoch: int
    records: tuple[bytes, ...]


class SnapshotApplied(NamedTuple):
    """The metadata loader of this node took a snapshot."""

    snapshot_id: OffsetAndEpoch


class ImagePublished(NamedTuple):
    """The node's readers got a new image."""

    image: MetadataImage


class DeltaPublished(NamedTuple):
    """The node's readers were told what changed."""

    delta: MetadataDelta


class LeadershipTaken(NamedTuple):
    """The node's controller was told that it leads `epoch` and that the next record gets `next_offset`."""

    epoch: int
    next_offset: int


class LeadershipGone(NamedTuple):
    """The node's controller was told that it no longer leads `epoch`."""

    epoch: int


class LogMoved(NamedTuple):
    """A partition's log goes on in the directory of this id; it was in `home`. Whether it has the same records, and as many of them durable."""

    partition: TopicPartition
    topic_id: Uuid
    home: str
    directory_id: Uuid
    is_same: bool
    is_as_durable: bool


class MachineStep(NamedTuple):
    """One pure machine inside the node took one event: `machine` is `raft` or `controller`. Comes before what its effects changed."""

    machine: str
    event: object
    effects: Sequence[object]


class Received(NamedTuple):
    """The message that this step took in: from node `source` (-1: a client) in its run `source_run`, as a request or an answer."""

    source: int
    source_run: int
    is_request: bool
    message: object
    api_version: int


Change = (
    LogReset
    | LogAppended
    | LogTruncated
    | LogStartMoved
    | LogDurable
    | QuorumStateDurable
    | SnapshotAppeared
    | SnapshotRemoved
    | RequestSent
    | ResponseSent
    | HighWatermarkMoved
    | BatchApplied
    | SnapshotApplied
    | ImagePublished
    | DeltaPublished
    | LeadershipTaken
    | LeadershipGone
    | LogMoved
)


# Clients


class Outcome(IntEnum):
    """How a call ended. UNKNOWN: it may have happened, once, at any time after its start."""

    OK = 0
    FAILED = 1
    UNKNOWN = 2


@value_class
class CallStarted:
    """A client sent `request` to a node. Calls of one client do not overlap."""

    call_id: int
    client_id: int
    request: object
    api_version: int


@value_class
class CallEnded:
    """The call's end; `response` is None unless the outcome is known."""

    call_id: int
    client_id: int
    request: object
    response: object | None
    outcome: Outcome


# What a checker may read


class LogView(Protocol):
    """The metadata log of a running node."""

    @property
    def log_start_offset(self) -> int:
        """First offset that may be read."""

    @property
    def log_end_offset(self) -> int:
        """Offset the next record gets."""

    @property
    def durable_end_offset(self) -> int:
        """Everything below is synced."""

    @property
    def high_watermark(self) -> int:
        """First offset that is not committed."""

    @property
    def latest_epoch(self) -> int | None:
        """The last epoch in its table; None when that is empty."""


class NodeView(Protocol):
    """One node of the simulated cluster, to be read only. The parts are None while the node is down."""

    @property
    def node_id(self) -> int:
        """Its id."""

    @property
    def directory_id(self) -> Uuid:
        """Of the disk in it; another one after the disk was replaced."""

    @property
    def run(self) -> int:
        """How often it was started, from 1 on; 0 = never yet."""

    @property
    def is_up(self) -> bool:
        """The process runs (also while it is paused)."""

    @property
    def is_controller(self) -> bool:
        """It has the controller role: it may be a voter, or become one."""

    @property
    def raft(self) -> RaftNode | None:
        """Its quorum node."""

    @property
    def plane(self) -> MetadataPlane | None:
        """Its metadata side."""

    @property
    def controller(self) -> ControllerMachine | None:
        """Its controller, when it has that role."""

    @property
    def machine(self) -> NodeMachine | None:
        """The whole node, in whole-cluster runs."""

    @property
    def log(self) -> LogView | None:
        """Its metadata log."""

    @property
    def image(self) -> MetadataImage | None:
        """What its metadata loader holds."""

    @property
    def quorum_state(self) -> QuorumState | None:
        """What `quorum-state` says durably; None when there is no such file."""


class ClusterView(Protocol):
    """The cluster, to be read only."""

    @property
    def nodes(self) -> Mapping[int, NodeView]:
        """By id, ascending."""

    @property
    def now_us(self) -> int:
        """Virtual time in microseconds."""

    @property
    def is_healing(self) -> bool:
        """Faults have stopped for good."""

    @property
    def left_behind(self) -> Collection[int]:
        """Nodes without a vote that a forged packet lifted above the epoch of their quorum."""

    @property
    def lost_directories(self) -> Sequence[Uuid]:
        """Directory ids whose disks the run destroyed."""

    @property
    def election_timeout_ms(self) -> int:
        """`controller.quorum.election.timeout.ms` of this run."""

    @property
    def fetch_timeout_ms(self) -> int:
        """`controller.quorum.fetch.timeout.ms` of this run."""

    @property
    def broker_session_timeout_ms(self) -> int:
        """`broker.session.timeout.ms` of this run."""

    def local_ms(self, node_id: int) -> int:
        """The monotonic clock of one node, in its own (drifting) milliseconds."""

    def latest_wall_ms(self, node_id: int) -> int:
        """The latest time that the wall clock of one node ever showed: ms since 1970."""


class Step:
    """One step. The object is used again for the next one: keep what you need, not the step."""

    __slots__ = ("at_us", "changes", "event", "is_cut_short", "kind", "machines", "node", "number", "received")

    def __init__(self) -> None:
        self.number = 0
        """From 1 on, over the whole cluster."""
        self.at_us = 0
        """Virtual time in microseconds."""
        self.kind = StepKind.EVENT
        self.node: NodeView
        self.event: object = None
        self.is_cut_short = False
        """The process ends in the middle of it: what it holds now is no whole state."""
        self.changes: list[Change] = []
        self.machines: list[MachineStep] = []
        """Every event that `RaftNode` or `ControllerMachine` took in this step, in order."""
        self.received: Received | None = None
        """The message that caused the step, if one did."""


class Checker(Protocol):
    """One or more invariants, fed with every step. Raises InvariantBroken. Ghost state lives in the checker, never in a node."""

    def begin(self, cluster: ClusterView, markers: Markers) -> None:
        """Before the first step. Count reached states in `markers`."""

    def on_step(self, step: Step) -> None:
        """After every step; cheap: look at what the step changed only."""

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every 1,000 steps and at the end: the costly checks (frequency k)."""

    def settled(self, cluster: ClusterView) -> None:
        """After healing, while whoever leads partitions still works, and nobody else asks for anything: what must have come to its end."""

    def at_end(self, cluster: ClusterView) -> None:
        """After healing: the checks of liveness (frequency e)."""

    def over(self, cluster: ClusterView) -> None:
        """Once, after `at_end` held: the judgement of the run as a whole."""
