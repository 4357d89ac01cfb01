"""The quorum, the metadata and the controller of one node together.

`MetadataPlane` routes the effects of `RaftNode`, `MetadataLoader` and `ControllerMachine` among the three and hands out what is left
for the driver. The driver does those effects in list order; see `raft.events` for the two that report back.

    committed     HighWatermarkAdvanced -> batches -> loader -> Publish(delta) -> controller (RecordsCommitted: answers leave)
    leading       LeadershipClaimed -> controller (LeadershipGained, with everything before it replayed: B-C21)
    deciding      controller AppendRecords -> raft RecordsOffered -> FlushLog
    snapshots     enough new bytes or time -> WriteSnapshot -> SnapshotCreated -> raft cleans the log (B-S01, B-S04)
    following     SendRaftRequest -> RaftResponseArrived or RaftRequestFailed; FinishSnapshot -> SnapshotStored -> LoadSnapshot -> Publish(delta)
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, assert_never

from headrace.controller.events import (
    Answer,
    AppendRecords,
    BrokerUnreachable,
    ControllerEffect,
    ControllerEvent,
    KRaftVersionAnswered,
    LeadershipEnded,
    LeadershipGained,
    RecordsCommitted,
    RequestArrived,
    RequestKRaftVersion,
    Resign,
)
from headrace.controller.events import OffsetsTaken as ControllerOffsetsTaken
from headrace.controller.events import TimeAdvanced as ControllerTimeAdvanced
from headrace.core.deadlines import sooner
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class
from headrace.metadata.image import MetadataProvenance
from headrace.metadata.snapshot import snapshot_content
from headrace.node.witness import QuorumWitness
from headrace.raft.events import (
    AnswerKRaftVersion,
    AnswerRaftRequest,
    FinishSnapshot,
    FlushLog,
    HighWatermarkAdvanced,
    KRaftVersionRequested,
    LeaderChanged,
    LeadershipClaimed,
    LeadershipLost,
    LoadSnapshot,
    NodeStarted,
    OffsetsTaken,
    RaftEffect,
    RaftEvent,
    RecordsOffered,
    ResignRequested,
    SendRaftRequest,
    SnapshotCreated,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.history import load_snapshot
from headrace.raft.snapshots import build_snapshot, is_snapshot_due

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from headrace.controller.machine import ControllerMachine
    from headrace.core.errors import StorageFault
    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import MetadataImage
    from headrace.metadata.loader import MetadataLoader
    from headrace.node.quorum_statistics import QuorumStatistics
    from headrace.raft.machine import RaftNode
    from headrace.raft.replication import SnapshotsPort
    from headrace.raft.voters import VoterSet


@value_class
class Publish:
    """Committed metadata changed: hand the delta to the publishers, in their fixed order."""

    delta: MetadataDelta


@value_class
class WriteSnapshot:
    """Write a snapshot off the loop: `snapshots.write(snapshot_id, job.batches())`, then feed `SnapshotCreated`."""

    job: SnapshotJob


@value_class
class SnapshotJob:
    """All that a thread needs to write one snapshot; the image never changes under it."""

    image: MetadataImage
    voters: VoterSet
    now_ms: int

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The name: end offset and the epoch of the last record."""
        provenance = self.image.provenance
        return OffsetAndEpoch(provenance.last_contained_offset + 1, provenance.last_contained_epoch)

    def batches(self) -> Iterator[bytearray]:
        """The file's content (B-S03)."""
        return build_snapshot(
            snapshot_content(self.image),
            snapshot_id=self.snapshot_id,
            last_contained_log_timestamp=self.image.provenance.last_contained_log_time_ms,
            now_ms=self.now_ms,
            voters=self.voters,
        )


PlaneEffect = (
    StoreQuorumState
    | FlushLog
    | LeaderChanged
    | AnswerRaftRequest
    | SendRaftRequest
    | FinishSnapshot
    | Answer
    | Publish
    | WriteSnapshot
)
PlaneEvent = RaftEvent | RequestArrived | BrokerUnreachable


@value_class
class PlaneConfig:
    """Limits of snapshots: bytes and ms (B-S01)."""

    snapshot_max_new_bytes: int = 20_971_520
    snapshot_max_interval_ms: int = 3_600_000


class MetadataPlane:
    """The metadata side of one node. One call at a time; `step` gives what the driver must do."""

    def __init__(
        self,
        *,
        config: PlaneConfig,
        raft: RaftNode,
        loader: MetadataLoader,
        controller: ControllerMachine | None,
        snapshots: SnapshotsPort,
    ) -> None:
        self.raft = raft
        self.loader = loader
        self.controller = controller
        self._config = config
        self._snapshots = snapshots
        self._out: list[PlaneEffect] = []
        self._raft_effects: deque[RaftEffect] = deque()
        self._controller_effects: deque[ControllerEffect] = deque()
        self._bytes_since_snapshot = 0
        self._snapshot_end = 0
        self._snapshot_since_ms = 0
        self._is_writing_snapshot = False
        self._now_ms = 0
        self.witness = QuorumWitness()
        """Observes, for `headrace quorum explain`."""
        self.statistics: QuorumStatistics | None = None
        """Observes where metrics are wanted; set before `start`."""
        self.on_resigned: Callable[[str], None] | None = None
        """Told why the controller gave up leadership because of a fault of ours; for the driver's log."""
        self.on_machine_step: Callable[[str, object, Sequence[object]], None] | None = None
        """Told each event of `raft` and `controller` and the effects it had, in order; for checkers and journals."""

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata of this node."""
        return self.loader.image

    @property
    def is_controller_active(self) -> bool:
        """The controller of this node takes requests."""
        return self.controller is not None and self.controller.is_active

    def start(self, now_ms: int) -> list[PlaneEffect]:
        """Load the newest snapshot, then begin. Once, before any `step`. Raises StorageFault, MetadataFault."""
        self._now_ms = self._snapshot_since_ms = now_ms
        latest = self._snapshots.latest()
        if latest is not None and latest.offset > 0:
            self._load_snapshot(latest)
        return self.step(NodeStarted(now_ms=now_ms))

    def next_deadline_ms(self) -> int | None:
        """When `step(TimeAdvanced(now_ms))` is due."""
        due = self.raft.next_deadline_ms()
        if self.controller is not None:
            due = sooner(due, self.controller.next_deadline_ms())
        interval_ms = self._config.snapshot_max_interval_ms
        may_write = not self._is_writing_snapshot and interval_ms > 0
        if may_write and self._has_new_records and not self.loader.in_transaction:
            due = sooner(due, self._snapshot_since_ms + interval_ms)
        return due

    def step(self, event: PlaneEvent) -> list[PlaneEffect]:
        """Take one event; what the driver must do, in order. Raises StorageFault, MetadataFault."""
        self._now_ms = max(self._now_ms, event.now_ms)
        statistics = self.statistics
        began = 0.0 if statistics is None else statistics.begin()
        if isinstance(event, RequestArrived | BrokerUnreachable):
            assert self.controller is not None, "a node without the controller role was asked to decide"
            self._step_controller(event)
        else:
            if isinstance(event, SnapshotCreated):
                self._is_writing_snapshot = False
                self._snapshot_end = event.end_offset
            self._step_raft(event)
            if isinstance(event, TimeAdvanced) and self.controller is not None:
                self._step_controller(ControllerTimeAdvanced(now_ms=event.now_ms))
        self._drain()
        self._maybe_snapshot()
        if statistics is not None:
            statistics.end(began)
        out, self._out = self._out, []
        return out

    def snapshot_failed(self, fault: StorageFault) -> None:
        """A snapshot could not be written: the log stays, the next one is tried when it is due."""
        self._is_writing_snapshot = False
        if self.on_resigned is not None:
            self.on_resigned(f"a metadata snapshot failed: {fault}")

    def _step_raft(self, event: RaftEvent) -> None:
        """Records that raft wrote itself are told to the controller before anything else, so its next ones follow them."""
        effects = self.raft.step(event)
        self.witness.saw(event, effects, self._now_ms)
        if self.statistics is not None:
            self.statistics.saw(event, effects)
        if self.on_machine_step is not None:
            self.on_machine_step("raft", event, effects)
        for effect in effects:
            if isinstance(effect, OffsetsTaken):
                self._route_raft(effect)
            else:
                self._raft_effects.append(effect)

    def _step_controller(self, event: ControllerEvent) -> None:
        assert self.controller is not None
        effects = self.controller.step(event)
        self._controller_effects.extend(effects)
        if self.on_machine_step is not None:
            self.on_machine_step("controller", event, effects)

    def _drain(self) -> None:
        """Route until nothing moves. The controller's effects go first: raft must see its appends in order."""
        while self._controller_effects or self._raft_effects:
            if self._controller_effects:
                self._route_controller(self._controller_effects.popleft())
            else:
                self._route_raft(self._raft_effects.popleft())

    def _route_controller(self, effect: ControllerEffect) -> None:
        match effect:
            case AppendRecords():
                offered = RecordsOffered(
                    records=effect.records,
                    base_offset=effect.base_offset,
                    epoch=effect.epoch,
                    now_ms=self._now_ms,
                )
                self._step_raft(offered)
            case Answer():
                self._out.append(effect)
            case Resign():
                if self.on_resigned is not None:
                    self.on_resigned(effect.reason)
                self._step_raft(ResignRequested(epoch=effect.epoch, now_ms=self._now_ms))
            case RequestKRaftVersion():
                self._step_raft(
                    KRaftVersionRequested(
                        token=effect.token, level=effect.level, validate_only=effect.validate_only, now_ms=self._now_ms
                    )
                )

    def _route_raft(self, effect: RaftEffect) -> None:
        match effect:
            case HighWatermarkAdvanced():
                self._load_committed(effect.to)
            case LoadSnapshot():
                self._load_snapshot(effect.snapshot_id)
            case LeadershipClaimed() | OffsetsTaken() | AnswerKRaftVersion() | LeadershipLost():
                if self.controller is not None:
                    self._step_controller(self._for_controller(effect))
            case (
                StoreQuorumState()
                | FlushLog()
                | LeaderChanged()
                | AnswerRaftRequest()
                | SendRaftRequest()
                | FinishSnapshot()
            ):
                self._out.append(effect)
            case _:
                assert_never(effect)

    def _for_controller(
        self, effect: LeadershipClaimed | OffsetsTaken | AnswerKRaftVersion | LeadershipLost
    ) -> ControllerEvent:
        """The controller's event for an effect of raft that concerns it."""
        match effect:
            case LeadershipClaimed():
                return LeadershipGained(
                    epoch=effect.epoch,
                    next_offset=effect.next_offset,
                    image=self.loader.image,
                    in_transaction=self.loader.in_transaction,
                    kraft_version=self.raft.kraft_version,
                    now_ms=self._now_ms,
                )
            case OffsetsTaken():
                return ControllerOffsetsTaken(epoch=effect.epoch, next_offset=effect.next_offset, now_ms=self._now_ms)
            case AnswerKRaftVersion():
                return KRaftVersionAnswered(
                    token=effect.token, error=effect.error, message=effect.message, now_ms=self._now_ms
                )
            case LeadershipLost():
                return LeadershipEnded(image=self.loader.image, now_ms=self._now_ms)

    def _load_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """The image becomes a snapshot's content: at the start, or after one was fetched because the leader's log begins behind us."""
        snapshot = load_snapshot(self._snapshots, snapshot_id, directory=self.raft.log_directory)
        provenance = MetadataProvenance(
            last_contained_offset=snapshot_id.offset - 1,
            last_contained_epoch=snapshot_id.epoch,
            last_contained_log_time_ms=snapshot.last_contained_log_timestamp,
        )
        self._snapshot_end = snapshot_id.offset
        self._bytes_since_snapshot = 0
        if self.statistics is not None:
            self.statistics.snapshots_loaded += 1
            self.statistics.loading()
        delta = self.loader.load_snapshot(snapshot.records, provenance)
        self._out.append(Publish(delta=delta))
        if self.controller is not None:
            self._step_controller(
                RecordsCommitted(image=self.loader.image, upto=snapshot_id.offset, delta=delta, now_ms=self._now_ms)
            )

    def _load_committed(self, to: int) -> None:
        batches = list(self.raft.read_committed(self.loader.next_offset, to))
        self._bytes_since_snapshot += sum(batch.size for batch in batches)
        statistics = self.statistics
        began = 0.0 if statistics is None else statistics.loading()
        delta = self.loader.load_batches(batches, () if self.controller is None else self.controller.decided)
        if statistics is not None:
            statistics.loaded(began, [batch.count for batch in batches], is_visible=delta is not None)
        if delta is not None:
            self._out.append(Publish(delta=delta))
        if self.controller is not None and batches:
            upto = batches[-1].last_offset + 1
            self._step_controller(
                RecordsCommitted(image=self.loader.image, upto=upto, delta=delta, now_ms=self._now_ms)
            )

    # Snapshots

    @property
    def _has_new_records(self) -> bool:
        return self.loader.image.provenance.last_contained_offset + 1 > self._snapshot_end

    def _maybe_snapshot(self) -> None:
        is_due = is_snapshot_due(
            bytes_since=self._bytes_since_snapshot,
            max_bytes=self._config.snapshot_max_new_bytes,
            ms_since=self._now_ms - self._snapshot_since_ms,
            max_ms=self._config.snapshot_max_interval_ms,
            has_new_records=self._has_new_records,
        )
        if not is_due or self._is_writing_snapshot or self.loader.in_transaction:
            return
        end_offset = self.loader.image.provenance.last_contained_offset + 1
        if self.raft.config.is_controller and self.raft.durable_end < end_offset:
            return  # a start takes the log below a snapshot for synced (D6); the flush that is under way ends soon
        self._is_writing_snapshot = True
        self._bytes_since_snapshot = 0
        self._snapshot_since_ms = self._now_ms
        job = SnapshotJob(image=self.loader.image, voters=self.raft.voters_at(end_offset), now_ms=self._now_ms)
        self._out.append(WriteSnapshot(job=job))
