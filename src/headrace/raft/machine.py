"""Who leads the metadata log, what is committed in it, and what do its readers get?

`RaftNode.step` is driven by `node.metadata_plane`. The quorum has one voter, this node; what the arithmetic of `quorum`, `election`
and `replication` says holds for any number.

One flush is in flight at most. Records that are offered meanwhile wait, at most the linger time or until they are many, and are
then written and flushed together (group commit). What is written counts when it is flushed (B-R14), and only from this leader's
own epoch on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import Rng
from headrace.log.ports import AppendRefused, Origin, PartitionLogPort
from headrace.raft.config import RaftConfig
from headrace.raft.election import election_timeout
from headrace.raft.events import (
    FlushLog,
    HighWatermarkAdvanced,
    LeaderChanged,
    LeadershipClaimed,
    LeadershipLost,
    LogFlushed,
    NodeStarted,
    QuorumState,
    QuorumStateStored,
    RaftEffect,
    RaftEvent,
    RaftRequestArrived,
    RecordsOffered,
    ResignRequested,
    ShutdownBegan,
    SnapshotCreated,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.quorum import is_majority, next_high_watermark
from headrace.raft.replication import RaftBatch, SnapshotsPort, epoch_start_batch, read_batches, record_batch
from headrace.raft.requests import QuorumView, RequestDesk
from headrace.raft.roles import Candidate, Leader, Resigned, Role, Unattached, check_transition
from headrace.raft.snapshots import StoredSnapshot, log_start_after_cleaning
from headrace.records.record import Placement


class RaftNode:
    """One node of the quorum: its role, the tail of its log, and who waits for it."""

    def __init__(
        self, *, config: RaftConfig, log: PartitionLogPort, snapshots: SnapshotsPort, state: QuorumState, rng: Rng
    ) -> None:
        """`state` is what `quorum-state` says (the default when there is none); `log` is recovered."""
        assert config.voters.ids == (config.node_id,), "the quorum has one voter: this node"
        self.config = config
        self._log = log
        self._snapshots = snapshots
        self._rng = rng
        newest = max(state.leader_epoch, log.latest_epoch or 0)
        voted_id = state.voted_id if newest == state.leader_epoch else -1
        self.role: Role = Unattached(epoch=newest, voted_id=voted_id, voted_directory_id=state.voted_directory_id)
        self._flushed = log.durable_end_offset
        self._flush_in_flight = False
        self._pending: list[bytearray] = []
        self._pending_bytes = 0
        self._pending_since_ms = 0
        self._next_offset = log.log_end_offset
        self._is_shutting_down = False
        self._desk = RequestDesk(log=log, snapshots=snapshots)

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed, as far as this node knows."""
        return self._log.high_watermark

    @property
    def leader_id(self) -> int:
        """Who leads; -1 = nobody this node knows of."""
        return self.config.node_id if isinstance(self.role, Leader) else -1

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self.role.epoch

    def read_committed(self, start: int, end: int) -> Iterator[RaftBatch]:
        """The batches in [start, end) of the log, `end` at most the high watermark. Raises StorageFault (B-S11)."""
        return read_batches(self._log, start, min(end, self._log.high_watermark))

    def next_deadline_ms(self) -> int | None:
        """When `TimeAdvanced` is due, None when nothing waits for time."""
        deadlines = [self._desk.next_deadline_ms()]
        match self.role:
            case Unattached(election_deadline_ms=deadline) | Resigned(election_deadline_ms=deadline):
                deadlines.append(deadline)
            case _:
                pass
        if self._pending:
            deadlines.append(self._pending_since_ms + self.config.append_linger_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        """Take one event; what must be done, in order. Raises StorageFault when the log's disk fails."""
        effects: list[RaftEffect] = []
        match event:
            case NodeStarted():
                effects = self._start(event.now_ms)
            case TimeAdvanced():
                effects = self._time_advanced(event.now_ms)
            case QuorumStateStored():
                effects = self._state_stored(event)
            case LogFlushed():
                effects = self._log_flushed(event)
            case RecordsOffered():
                effects = self._records_offered(event)
            case RaftRequestArrived():
                effects = list(self._desk.arrived(event, self._view()))
            case SnapshotCreated():
                self._clean_log(event.now_ms)
            case ShutdownBegan() | ResignRequested():
                effects = self._give_up(event)
            case _:
                assert_never(event)
        return effects

    # Elections

    def _start(self, now_ms: int) -> list[RaftEffect]:
        latest = self._snapshots.latest()
        if latest is not None and latest.offset > self._log.log_end_offset:
            self._log.truncate_fully_and_start_at(latest.offset)
            self._next_offset = self._log.log_end_offset
            self._flushed = self._log.durable_end_offset
        self._clean_log(now_ms)
        return self._stand_for_election(now_ms)

    def _stand_for_election(self, now_ms: int) -> list[RaftEffect]:
        """A new epoch and our own vote in it, which counts when it is on disk (B-R03)."""
        epoch = self.role.epoch + 1
        deadline = now_ms + self._election_timeout()
        self._become(Candidate(epoch=epoch, election_deadline_ms=deadline))
        directory_id = self.config.directory_id if self.config.voters.kraft_version > 0 else None
        state = QuorumState(leader_epoch=epoch, voted_id=self.config.node_id, voted_directory_id=directory_id)
        return [StoreQuorumState(state=state)]

    def _state_stored(self, event: QuorumStateStored) -> list[RaftEffect]:
        role = self.role
        if not isinstance(role, Candidate) or event.state.leader_epoch != role.epoch:
            return []
        if event.state.voted_id != self.config.node_id or self._is_shutting_down:
            return []
        role = replace(role, granted=role.granted | {self.config.node_id})
        if not is_majority(len(role.granted), voters=len(self.config.voters.ids)):
            self._become(role)
            return []
        return self._lead(role, event.now_ms)

    def _lead(self, role: Candidate, now_ms: int) -> list[RaftEffect]:
        granting = tuple(sorted(role.granted))
        start = self._log.log_end_offset
        self._become(Leader(epoch=role.epoch, epoch_start_offset=start, granting_voters=granting))
        self._next_offset = start
        self._desk.epoch_began()
        batch = epoch_start_batch(
            leader_id=self.config.node_id,
            granting=granting,
            voters=self.config.voters,
            write_voters=self.config.write_voters and start == 0,
            placement=Placement(base_offset=start, leader_epoch=role.epoch),
            now_ms=now_ms,
        )
        state = QuorumState(leader_epoch=role.epoch, leader_id=self.config.node_id)
        effects: list[RaftEffect] = [StoreQuorumState(state=state)]
        effects.append(LeaderChanged(leader_id=self.config.node_id, epoch=role.epoch))
        self._enqueue(batch, now_ms)
        return effects + self._write_pending(now_ms)

    def _give_up(self, event: ShutdownBegan | ResignRequested) -> list[RaftEffect]:
        if isinstance(event, ShutdownBegan):
            self._is_shutting_down = True
            return self._resign(election_deadline_ms=None)
        if event.epoch != self.role.epoch:
            return []
        return self._resign(election_deadline_ms=event.now_ms + self._election_timeout())

    def _resign(self, *, election_deadline_ms: int | None) -> list[RaftEffect]:
        role = self.role
        if not isinstance(role, Leader):
            return []
        self._pending.clear()
        self._pending_bytes = 0
        self._next_offset = self._log.log_end_offset
        self._become(Resigned(epoch=role.epoch, election_deadline_ms=election_deadline_ms))
        lost = LeadershipLost(epoch=role.epoch, leader_id=-1)
        changed = LeaderChanged(leader_id=-1, epoch=role.epoch)
        return [lost, changed, *self._desk.leadership_lost(self._view())]

    def _become(self, role: Role) -> None:
        check_transition(self.role, role)
        self.role = role

    def _election_timeout(self) -> int:
        return election_timeout(self.config.election_timeout_ms, self._rng)

    # The log

    def _records_offered(self, event: RecordsOffered) -> list[RaftEffect]:
        if not isinstance(self.role, Leader) or event.epoch != self.role.epoch:
            return []
        assert event.base_offset == self._next_offset, (
            f"offered at {event.base_offset}, but the log goes on at {self._next_offset}"
        )
        batch = record_batch(event.records, base_offset=event.base_offset, epoch=event.epoch, now_ms=event.now_ms)
        self._enqueue(batch, event.now_ms)
        if self._flush_in_flight and self._pending_bytes < self.config.max_batch_bytes:
            return []
        return self._write_pending(event.now_ms)

    def _enqueue(self, batch: bytearray, now_ms: int) -> None:
        if not self._pending:
            self._pending_since_ms = now_ms
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        self._next_offset += int.from_bytes(batch[57:61], "big")

    def _write_pending(self, now_ms: int) -> list[RaftEffect]:
        for batch in self._pending:
            appended = self._log.append_as_leader(
                memoryview(batch), leader_epoch=self.role.epoch, now_ms=now_ms, origin=Origin.RAFT_LEADER
            )
            if isinstance(appended, AppendRefused):
                raise StorageFault(
                    f"the metadata log refused a batch: {appended.message}", directory=self._log.directory
                )
        self._pending.clear()
        self._pending_bytes = 0
        assert self._log.log_end_offset == self._next_offset, "the log numbered the records otherwise"
        effects: list[RaftEffect] = list(self._desk.log_grew(self._view()))
        if not self._flush_in_flight and self._flushed < self._log.log_end_offset:
            self._flush_in_flight = True
            effects.append(FlushLog())
        return effects

    def _log_flushed(self, event: LogFlushed) -> list[RaftEffect]:
        self._flush_in_flight = False
        self._flushed = max(self._flushed, event.upto)
        if not isinstance(self.role, Leader):
            return []
        return self._advance_high_watermark() + self._write_pending(event.now_ms)

    def _advance_high_watermark(self) -> list[RaftEffect]:
        role = self.role
        assert isinstance(role, Leader)
        before = self._log.high_watermark
        high_watermark = next_high_watermark(
            current=before, end_offsets=(self._flushed,), epoch_start_offset=role.epoch_start_offset
        )
        effects: list[RaftEffect] = []
        if high_watermark > before:
            self._log.advance_high_watermark(high_watermark)
            effects.append(HighWatermarkAdvanced(to=high_watermark))
        if not role.is_claimed and high_watermark > role.epoch_start_offset:
            self._become(replace(role, is_claimed=True))
            effects.append(LeadershipClaimed(epoch=role.epoch, next_offset=self._next_offset))
        return effects + list(self._desk.high_watermark_moved(self._view()))

    def _clean_log(self, now_ms: int) -> None:
        """B-S04: drop old snapshots, and the log below the oldest that stays, when the limits say so."""
        stored = [
            StoredSnapshot(snapshot_id=each, size=size, mtime_ms=self._snapshots.mtime_ms(each) or 0)
            for each in self._snapshots.ids()
            if (size := self._snapshots.size(each)) is not None
        ]
        start = log_start_after_cleaning(
            stored,
            log_size=self._log.size_bytes,
            max_bytes=self.config.retention_bytes,
            max_ms=self.config.retention_ms,
            now_ms=now_ms,
        )
        if start is not None and start <= self._log.high_watermark:
            self._log.delete_segments_below(start)
            self._snapshots.delete_below(start)

    # Time and requests

    def _time_advanced(self, now_ms: int) -> list[RaftEffect]:
        effects: list[RaftEffect] = list(self._desk.time_advanced(self._view(), now_ms))
        match self.role:
            case Unattached(election_deadline_ms=deadline) | Resigned(election_deadline_ms=deadline):
                if deadline is not None and now_ms >= deadline and not self._is_shutting_down:
                    effects += self._stand_for_election(now_ms)
            case _:
                pass
        if self._pending and now_ms >= self._pending_since_ms + self.config.append_linger_ms:
            effects += self._write_pending(now_ms)
        return effects

    def _view(self) -> QuorumView:
        return QuorumView(
            config=self.config,
            role=self.role,
            leader_id=self.leader_id,
            flushed=self._flushed,
            is_shutting_down=self._is_shutting_down,
        )


def last_offset_and_epoch(log: PartitionLogPort) -> OffsetAndEpoch:
    """The end of a log as a vote names it: end offset, and the epoch of the last record (0 for an empty log)."""
    return OffsetAndEpoch(log.log_end_offset, log.latest_epoch or 0)
