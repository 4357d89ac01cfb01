"""A leader: what it writes, what is committed, and whether it is still followed.

One flush is in flight at most. Records that are offered meanwhile wait, at most the linger time or until they are many, and are then
written and flushed together (group commit, B-R17), but none while `max_batch_bytes` or more are unsynced: so much, and a batch, can a power cut
tear. What is written counts for this node when it is flushed (B-R14), and only from its own epoch on (B-R13). Voters that do not fetch are told again that this node leads (B-R07); without a majority it resigns (B-R16).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.log.ports import AppendRefused, Origin
from headrace.raft.events import (
    HighWatermarkAdvanced,
    LeadershipClaimed,
    LeadershipLost,
    OffsetsTaken,
    RecordsOffered,
)
from headrace.raft.history import NOT_IN_LOG
from headrace.raft.messages import begin_epoch_request, end_epoch_request, own_voter
from headrace.raft.outbox import Purpose
from headrace.raft.quorum import next_high_watermark
from headrace.raft.replicas import Replicas
from headrace.raft.replication import epoch_start_batch, record_batch, voters_batch
from headrace.raft.roles import Candidate, Leader, Resigned
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet
from headrace.records.record import Placement

if TYPE_CHECKING:
    from headrace.core.ids import Uuid
    from headrace.raft.core import RaftCore
    from headrace.raft.outbox import Flight
    from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse


class Leading:
    """The leader's side, and the resigned leader's goodbye. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore, *, on_committed: Callable[[], None], on_grown: Callable[[], None]) -> None:
        """`on_committed`: the high watermark moved; `on_grown`: the log did."""
        self._core = core
        self._on_committed = on_committed
        self._on_grown = on_grown
        self.replicas = Replicas(core.config.node_id, VoterSet(), 0)
        self.next_offset = core.log.log_end_offset
        self._pending: list[bytearray] = []
        self._pending_bytes = 0
        self._pending_since_ms = 0
        self._unsynced: deque[tuple[int, int]] = deque()
        """(end offset, bytes) of each batch that was written in this epoch and is not on disk."""
        self._unsynced_bytes = 0
        self._check_at_ms = 0
        self._told: dict[int, int] = {}
        self._farewell: dict[int, Voter] = {}
        self._successors: list[tuple[int, Uuid]] = []

    # A term begins and ends

    def begin(self, candidate: Candidate) -> None:
        """The node is elected, and that is on disk: write the first batch of the epoch."""
        core = self._core
        start = core.log.log_end_offset
        granting = (core.config.node_id, *sorted(candidate.granted - {core.config.node_id}))
        self.replicas = Replicas(core.config.node_id, core.voters, core.now_ms)
        self.next_offset = start
        self._told.clear()
        self._check_at_ms = 0
        core.become(Leader(epoch=candidate.epoch, epoch_start_offset=start, granting_voters=granting))
        voters = self._voters_with_own_address()
        is_unwritten = core.voters.kraft_version > 0 and core.history.latest.offset == NOT_IN_LOG
        batch = epoch_start_batch(
            leader_id=core.config.node_id,
            granting=granting,
            voters=voters,
            write_voters=is_unwritten or voters != core.voters,
            placement=Placement(base_offset=start, leader_epoch=candidate.epoch),
            now_ms=core.now_ms,
        )
        self._enqueue(batch)
        self._write_pending()
        self.poll()

    def _voters_with_own_address(self) -> VoterSet:
        """A leader that listens elsewhere than the log says has nobody to tell but the log (S4-15)."""
        core = self._core
        if core.voters.kraft_version == 0 or not core.is_voter or not core.config.end_points:
            return core.voters
        return core.voters.with_voter(own_voter(core.config))

    def resign(self, *, election_deadline_ms: int | None) -> None:
        """Give leadership up, and say goodbye to the voters (B-R08)."""
        core = self._core
        if isinstance(core.role, Leader):
            successors = self.replicas.successors()
            self._successors = [(each.replica_id, each.directory_id) for each in successors]
            self._farewell = {voter.voter_id: voter for voter in core.others}
            core.become(Resigned(epoch=core.role.epoch, election_deadline_ms=election_deadline_ms))
            self.poll()

    def ended(self, *, epoch: int) -> None:
        """This node leads `epoch` no more: what was not written is dropped."""
        core = self._core
        self._pending.clear()
        self._pending_bytes = 0
        self._unsynced.clear()
        self._unsynced_bytes = 0
        self.next_offset = core.log.log_end_offset
        core.emit(LeadershipLost(epoch=epoch, leader_id=core.leader_id))

    @property
    def has_said_goodbye(self) -> bool:
        """Every voter answered EndQuorumEpoch, or there is nobody to tell."""
        return not self._farewell

    @property
    def high_watermark(self) -> int:
        """What a leader tells of it: -1 until a record of its own epoch is committed (R10)."""
        role = self._core.role
        return self._core.log.high_watermark if isinstance(role, Leader) and role.is_claimed else -1

    # Time

    def poll(self) -> None:
        """Do what is due while leading, or after it."""
        core = self._core
        role = core.role
        if isinstance(role, Resigned):
            self._say_goodbye(role)
        elif isinstance(role, Leader):
            if self._pending:
                linger = self._pending_since_ms + core.config.append_linger_ms
                if core.now_ms >= linger:
                    self._write_pending()
                else:
                    core.wake_at(linger)
            core.flush()
            self._check_quorum()
            if isinstance(core.role, Leader):
                self._tell_voters(core.role)

    def _check_quorum(self) -> None:
        core = self._core
        if core.now_ms < self._check_at_ms:
            core.wake_at(self._check_at_ms)
            return
        if not self.replicas.voters:
            return
        contact = self.replicas.majority_contact_ms(voters=len(core.voters.voters), is_own_voter=core.is_voter)
        if contact is None:
            return
        deadline = contact + check_quorum_ms(core.config.fetch_timeout_ms)
        if core.now_ms >= deadline:
            self.resign(election_deadline_ms=core.random_election_deadline())
        else:
            self._check_at_ms = deadline
            core.wake_at(deadline)

    def _tell_voters(self, role: Leader) -> None:
        """At once to each voter, and again to one that did not fetch for half the fetch timeout (B-R07)."""
        core = self._core
        period = max(1, core.config.fetch_timeout_ms // 2)
        for voter in core.others:
            progress = self.replicas.voters[voter.voter_id]
            told = self._told.get(voter.voter_id)
            due = 0 if told is None else max(told, progress.last_fetch_ms) + period
            if core.now_ms < due:
                core.wake_at(due)
                continue
            to = core.route(voter)
            if to is None or core.outbox.is_busy(Purpose.BEGIN_EPOCH, to):
                continue
            ready = core.outbox.ready_at(to)
            if core.now_ms < ready:
                core.wake_at(ready)
                continue
            request = begin_epoch_request(core.config, voter, epoch=role.epoch)
            core.reveal(core.outbox.send(Purpose.BEGIN_EPOCH, to, request, epoch=role.epoch))

    def told(self, flight: Flight, response: BeginQuorumEpochResponse) -> None:
        """A voter answered BeginQuorumEpoch; one that knows a later epoch says so (B-R20)."""
        core = self._core
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code == ErrorCode.INVALID_VOTER_KEY:
                    core.outbox.leave_alone(flight.to, core.now_ms)  # somebody else listens there
                    return
                nodes = [node for node in response.node_endpoints if node.node_id == each.leader_id]
                end_points = tuple(VoterEndPoint(core.config.listener, node.host, node.port) for node in nodes)
                core.heed_response(flight.to, each.leader_epoch, each.leader_id, end_points)
        if flight.epoch == core.role.epoch:
            self._told[flight.to.node_id] = core.now_ms

    def _say_goodbye(self, role: Resigned) -> None:
        core = self._core
        for voter in list(self._farewell.values()):
            to = core.destination(voter.voter_id, voter.end_points)
            if to is None or voter.voter_id in core.outbox.refusing:
                del self._farewell[voter.voter_id]
                continue
            if core.outbox.is_busy(Purpose.END_EPOCH, to):
                continue
            ready = core.outbox.ready_at(to)
            if core.now_ms < ready:
                core.wake_at(ready)
                continue
            request = end_epoch_request(core.config, epoch=role.epoch, successors=self._successors)
            core.reveal(core.outbox.send(Purpose.END_EPOCH, to, request, epoch=role.epoch))

    def said_goodbye(self, node_id: int) -> None:
        """A voter knows that the epoch ended."""
        self._farewell.pop(node_id, None)

    def farewell_is_over(self) -> None:
        """A later epoch began: nobody need be told any more."""
        self._farewell.clear()

    # The log

    def offered(self, event: RecordsOffered) -> None:
        """The controller's records: written now, or with the next flush (B-R17)."""
        core = self._core
        if not isinstance(core.role, Leader) or event.epoch != core.role.epoch:
            return
        assert event.base_offset == self.next_offset, (
            f"offered at {event.base_offset}, but the log goes on at {self.next_offset}"
        )
        self._enqueue(
            record_batch(event.records, base_offset=event.base_offset, epoch=event.epoch, now_ms=event.now_ms)
        )
        if not core.is_flushing or self._pending_bytes >= core.config.max_batch_bytes:
            self._write_pending()

    def write_voters(self, voters: VoterSet, *, with_level: bool = False) -> int:
        """Append a control batch with other voters; they are in force at once (KIP-853). The offset that names them."""
        core = self._core
        role = core.role
        assert isinstance(role, Leader)
        placement = Placement(base_offset=self.next_offset, leader_epoch=role.epoch)
        self._enqueue(voters_batch(voters, with_level=with_level, placement=placement, now_ms=core.now_ms))
        self._write_pending(is_all=True)
        core.out.insert(0, OffsetsTaken(epoch=role.epoch, next_offset=self.next_offset))
        return core.history.latest.offset

    def _enqueue(self, batch: bytearray) -> None:
        if not self._pending:
            self._pending_since_ms = self._core.now_ms
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        self.next_offset += int.from_bytes(batch[57:61], "big")

    def _write_pending(self, *, is_all: bool = False) -> None:
        """Write what waits. What would leave too much unsynced waits for the sync that is under way, unless `is_all`."""
        core = self._core
        voters, written = core.voters, 0
        for batch in self._pending:
            if self._unsynced_bytes >= core.config.max_batch_bytes and not is_all:
                break
            self._write(batch)
            written += 1
        if not written:
            return
        self._pending_bytes -= sum(len(batch) for batch in self._pending[:written])
        del self._pending[:written]
        assert self._pending or core.log.log_end_offset == self.next_offset, "the log numbered the records otherwise"
        if core.voters is not voters:
            self.replicas.set_voters(core.voters, core.now_ms)
            self._check_at_ms = 0
        core.flush()
        self._on_grown()

    def _write(self, batch: bytearray) -> None:
        core = self._core
        appended = core.log.append_as_leader(
            memoryview(batch), leader_epoch=core.role.epoch, now_ms=core.now_ms, origin=Origin.RAFT_LEADER
        )
        if isinstance(appended, AppendRefused):
            raise StorageFault(f"the metadata log refused a batch: {appended.message}", directory=core.log.directory)
        core.voters_found(batch, upto=core.log.log_end_offset)
        self._unsynced.append((core.log.log_end_offset, len(batch)))
        self._unsynced_bytes += len(batch)

    # Commit

    def flushed(self) -> None:
        """The log is on disk up to `core.durable_end`: write what waited for it."""
        if isinstance(self._core.role, Leader):
            while self._unsynced and self._unsynced[0][0] <= self._core.durable_end:
                self._unsynced_bytes -= self._unsynced.popleft()[1]
            self.advance()
            self._write_pending()

    def fetched(self, replica_id: int, directory_id: Uuid, fetch_offset: int) -> None:
        """A replica fetched at an offset that fits our log, so it holds everything below it."""
        core = self._core
        progress = self.replicas.of(replica_id, directory_id, core.voters)
        is_news = progress.fetched(fetch_offset=fetch_offset, leader_end=core.log.log_end_offset, now_ms=core.now_ms)
        if is_news and replica_id in self.replicas.voters:
            self.advance()

    def contacted(self, replica_id: int, directory_id: Uuid) -> None:
        """A replica fetched a snapshot: it is alive (B-R16)."""
        progress = self.replicas.find(replica_id, directory_id, self._core.voters)
        if progress is not None:
            progress.contact_ms = max(progress.contact_ms, self._core.now_ms)

    def advance(self) -> None:
        """Commit what a majority of the voters in force holds durably (B-R13); never back."""
        core = self._core
        role = core.role
        assert isinstance(role, Leader)
        before = core.log.high_watermark
        high_watermark = next_high_watermark(
            current=before, end_offsets=voter_ends(core, self.replicas), epoch_start_offset=role.epoch_start_offset
        )
        is_moved = high_watermark > before
        if is_moved:
            core.log.advance_high_watermark(high_watermark)
            core.emit(HighWatermarkAdvanced(to=high_watermark))
        if not role.is_claimed and high_watermark > role.epoch_start_offset:
            core.become(replace(role, is_claimed=True))
            core.emit(LeadershipClaimed(epoch=role.epoch, next_offset=self.next_offset))
            is_moved = True
        if is_moved:
            self._on_committed()


def check_quorum_ms(fetch_timeout_ms: int) -> int:
    """So long a leader goes on without a majority (B-R16, K6)."""
    return fetch_timeout_ms * 3 // 2


def voter_ends(core: RaftCore, replicas: Replicas) -> list[int]:
    """Up to where each voter in force holds the log durably; this leader only if it is one of them (B-R14) (R9, K5)."""
    ends = [each.log_end_offset for each in replicas.voters.values()]
    if core.is_voter:
        ends.append(core.durable_end)
    return ends
