"""The raft node: who leads the metadata log, what is committed in it, and what its readers get.

`RaftNode.step` is driven by `node.metadata_plane`. It routes each event to the concern it belongs to, then lets the role's concerns do
what is due; what they share is `RaftCore`:

    voting            elections, from both sides          following   fetches, truncation, giving the leader up
    leading           appends, commit, check-quorum       snapshot_download   a snapshot in place of the log
    voter_changes     AddRaftVoter and the like           joining     what a follower tells of itself
    requests          readers of the log

Observers (brokers, controllers that are no voters) run the same with the roles Unattached and Follower only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from headrace.core.errors import StorageFault
from headrace.core.peers import SendFailure
from headrace.raft.core import RaftCore
from headrace.raft.events import (
    AnswerRaftRequest,
    KRaftVersionRequested,
    LinkLost,
    LogFlushed,
    NodeStarted,
    QuorumStateStored,
    RaftEffect,
    RaftEvent,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    RecordsOffered,
    ResignRequested,
    ShutdownBegan,
    SnapshotCreated,
    SnapshotStored,
    TimeAdvanced,
)
from headrace.raft.following import Following
from headrace.raft.history import VotersAt, voters_of_snapshot
from headrace.raft.invariants import RaftInvariantBroken
from headrace.raft.joining import Joining
from headrace.raft.leading import Leading
from headrace.raft.outbox import Purpose
from headrace.raft.replication import LoggedBatch, SnapshotsPort, read_batches
from headrace.raft.requests import RequestDesk
from headrace.raft.roles import Candidate, Follower, Leader, Resigned, Role, Unattached
from headrace.raft.snapshot_download import SnapshotDownload
from headrace.raft.snapshots import StoredSnapshot, is_replaced_by, log_start_after_cleaning
from headrace.raft.voter_changes import VoterChanges
from headrace.raft.voters import VoterSet
from headrace.raft.voting import Voting
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest
from headrace.wire.messages.api_versions import ApiVersionsResponse
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from headrace.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.core.peers import Destination
    from headrace.core.ports import Rng
    from headrace.log.ports import PartitionLogPort
    from headrace.raft.config import RaftConfig
    from headrace.raft.events import QuorumState, RaftResponse
    from headrace.raft.replicas import Replicas


MAX_ROLES_A_STEP = 16
"""A step goes through fewer roles than this (prospective, candidate, elected, leader, claimed), or it would never end."""


class RaftNode:
    """One node of the quorum. Drivers use `step`, `next_deadline_ms` and `read_committed`; the rest is to look at."""

    def __init__(
        self, *, config: RaftConfig, log: PartitionLogPort, snapshots: SnapshotsPort, state: QuorumState, rng: Rng
    ) -> None:
        """`state` is what `quorum-state` says (the default when there is none); `log` is recovered. Raises StorageFault."""
        self.config = config
        core = self._core = RaftCore(config=config, log=log, snapshots=snapshots, state=state, rng=rng)
        core.on_role_changed = self._role_changed
        self._leading = Leading(core, on_committed=self._committed, on_grown=self._grown)
        self._voting = Voting(core, on_elected=self._leading.begin)
        self._download = SnapshotDownload(core)
        self._following = Following(core, self._download, on_leader_gone=self._voting.prospect)
        self._joining = Joining(core)
        self._changes = VoterChanges(core, self._leading, resign=self._resign)
        self._desk = RequestDesk(core, self._leading)
        self._stored_snapshots: dict[OffsetAndEpoch, StoredSnapshot] = {}

    # What may be seen

    @property
    def log_directory(self) -> str:
        """The log directory that holds the metadata log."""
        return self._core.log.directory

    @property
    def role(self) -> Role:
        """What the node is now."""
        return self._core.role

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self._core.role.epoch

    @property
    def leader_id(self) -> int:
        """Who leads; -1 = nobody this node knows of."""
        return self._core.leader_id

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed, as far as this node knows."""
        return self._core.log.high_watermark

    @property
    def log_end(self) -> int:
        """The offset that the next record gets."""
        return self._core.log.log_end_offset

    @property
    def log_end_epoch(self) -> int:
        """The epoch of the newest record; 0 for an empty log."""
        return self._core.last().epoch

    @property
    def durable_end(self) -> int:
        """Everything below it is on disk, and known to be."""
        return self._core.durable_end

    @property
    def next_offset(self) -> int:
        """The offset of the next record that is offered, behind those that wait to be written."""
        return self._leading.next_offset

    @property
    def voters(self) -> VoterSet:
        """The voters in force, committed or not."""
        return self._core.voters

    @property
    def is_voter(self) -> bool:
        """Whether this very replica is one of them."""
        return self._core.is_voter

    @property
    def voter_change(self) -> VotersAt | None:
        """The newest voters and where the log names them, while that is not committed."""
        return self._core.history.uncommitted(self._core.log.high_watermark)

    @property
    def voters_offset(self) -> int:
        """Where the log names the voters in force; -1 while only the settings do."""
        return self._core.history.latest.offset

    @property
    def other_voters(self) -> list[Destination]:
        """Where the other voters in force are asked, as far as that is known."""
        core = self._core
        found = [core.destination(voter.voter_id, voter.end_points) for voter in core.others]
        return [each for each in found if each is not None]

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version in force."""
        return self._core.voters.kraft_version

    @property
    def replicas(self) -> Replicas | None:
        """How far the others are, known while this node leads."""
        return self._leading.replicas if isinstance(self._core.role, Leader) else None

    @property
    def is_farewell_over(self) -> bool:
        """A node that is shutting down need not wait any more: it does not lead, and those who follow know."""
        return not isinstance(self._core.role, Leader | Resigned) or (
            isinstance(self._core.role, Resigned) and self._leading.has_said_goodbye
        )

    def voters_at(self, end_offset: int) -> VoterSet:
        """The voters that records below `end_offset` name: what a snapshot that ends there must say (KIP-853)."""
        return self._core.history.at(end_offset)

    def read_committed(self, start: int, end: int) -> Iterator[LoggedBatch]:
        """The batches in [start, end) of the log, `end` at most the high watermark. Raises StorageFault (B-S11)."""
        return read_batches(self._core.log, start, min(end, self._core.log.high_watermark))

    def next_deadline_ms(self) -> int | None:
        """When `TimeAdvanced` is due, None when nothing waits for time."""
        return self._core.wake_ms

    # Events

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        """Take one event; what must be done, in order.

        Raises StorageFault when the log's disk fails, RaftInvariantBroken when the node finds a promise broken: it must stop then.
        """
        core = self._core
        core.out = []
        core.now_ms = max(core.now_ms, event.now_ms)
        self._handle(event)
        self._poll()
        self._desk.answer_late(is_tick=isinstance(event, TimeAdvanced))
        return core.out

    def _handle(self, event: RaftEvent) -> None:
        match event:
            case RaftRequestArrived():
                response = self._request(event)
                if response is not None:
                    self._core.reveal(AnswerRaftRequest(token=event.token, response=response))
            case RaftResponseArrived():
                self._response(event)
            case RecordsOffered():
                self._leading.offered(event)
            case LogFlushed():
                self._core.flushed(event.upto)
                self._leading.flushed()
            case TimeAdvanced():
                pass
            case QuorumStateStored():
                self._core.stored()
            case RaftRequestFailed():
                self._failed(event)
            case _:
                self._rare(event)

    def _rare(
        self,
        event: NodeStarted
        | LinkLost
        | SnapshotCreated
        | SnapshotStored
        | KRaftVersionRequested
        | ShutdownBegan
        | ResignRequested,
    ) -> None:
        core = self._core
        match event:
            case NodeStarted():
                self._start()
            case LinkLost():
                if isinstance(core.role, Follower) and core.role.leader_id == event.node_id:
                    self._following.leader_gone()
            case SnapshotCreated():
                self._clean_log()
            case SnapshotStored():
                self._download.stored(event)
                self._following.began()
            case KRaftVersionRequested():
                core.emit(self._changes.upgrade(event))
            case ShutdownBegan():
                core.is_shutting_down = True
                self._leading.resign(election_deadline_ms=None)
            case ResignRequested():
                if event.epoch == core.role.epoch:
                    self._resign()
            case _:
                assert_never(event)

    def _poll(self) -> None:
        """Let the role do what is due, and the next one, if that changed the role; each notes when it wants to be asked again."""
        core = self._core
        for _ in range(MAX_ROLES_A_STEP):
            role = core.role
            core.wake_ms = None
            self._poll_role(role)
            if core.role is role:
                return
        raise RaftInvariantBroken(f"the role does not settle: {core.role}")

    def _poll_role(self, role: Role) -> None:
        match role:
            case Leader():
                self._changes.poll()
                self._leading.poll()
                self._desk.poll()
            case Follower():
                self._following.poll()
                self._joining.poll()
            case Unattached():
                self._voting.poll()
                self._following.poll()
            case Resigned():
                self._leading.poll()
                self._voting.poll()
                self._following.poll()
            case _:
                self._voting.poll()

    def _start(self) -> None:
        core = self._core
        latest = core.snapshots.latest()
        if latest is not None and is_replaced_by(core.last(), latest):
            core.start_log_at(latest)
            voters = voters_of_snapshot(core.snapshots, latest, directory=core.log.directory)
            core.voters_loaded(latest, voters)
        self._fit_log_start()
        base = max(core.log.log_start_offset, 0 if latest is None else latest.offset)
        core.log.set_high_watermark(base)
        self._leading.next_offset = core.log.log_end_offset
        self._clean_log()
        role = core.role
        match role:
            case Candidate():
                self._voting.resume_candidacy()
            case Follower():
                core.tell_leader()
                self._following.began()
                self._joining.began()
            case _:
                self._start_waiting(role)

    def _fit_log_start(self) -> None:
        """A log that was cut begins where a snapshot ends (R15). Which offset that was is not on disk, only whole segments are gone."""
        core = self._core
        start = core.log.log_start_offset
        if start == 0:
            return
        covering = [each.offset for each in core.snapshots.ids() if each.offset >= start]
        if not covering:
            raise StorageFault(
                f"the metadata log begins at offset {start}, and no snapshot holds what was before it",
                directory=core.log.directory,
            )
        if covering[0] > start:
            core.log.delete_segments_below(covering[0])

    def _start_waiting(self, role: Role) -> None:
        core = self._core
        if not core.may_stand or not isinstance(role, Unattached | Resigned):
            return
        knows_nobody = not isinstance(role, Unattached) or role.leader_id < 0
        if knows_nobody and core.config.elect_at_start:
            self._voting.prospect()
        else:
            self._voting.wait()

    def _role_changed(self, before: Role, after: Role) -> None:
        """The epoch or the kind of role is another one: whoever leaned on the former is told."""
        self._download.stop()
        if isinstance(before, Leader):
            self._leading.ended(epoch=before.epoch)
            self._desk.leadership_lost()
            self._changes.leadership_lost()
        if after.epoch > before.epoch:
            self._leading.farewell_is_over()
        if isinstance(after, Follower):
            self._following.began()
            self._joining.began()
            self._voting.leader_known()

    def _committed(self) -> None:
        self._desk.high_watermark_moved()
        self._changes.committed()

    def _grown(self) -> None:
        self._desk.log_grew()

    def _resign(self) -> None:
        self._leading.resign(election_deadline_ms=self._core.random_election_deadline())

    def _clean_log(self) -> None:
        """Drop old snapshots, and the log below the oldest that stays, when the limits say so (B-S04)."""
        core = self._core
        known = self._stored_snapshots
        self._stored_snapshots = {each: known.get(each) or self._look_at(each) for each in core.snapshots.ids()}
        start = log_start_after_cleaning(
            list(self._stored_snapshots.values()),
            log_size=core.log.size_bytes,
            max_bytes=self.config.retention_bytes,
            max_ms=self.config.retention_ms,
        )
        if start is not None and start <= core.log.high_watermark:
            core.log.delete_segments_below(start)
            core.snapshots.delete_below(start)
            core.history.forget_below(start)

    def _look_at(self, snapshot_id: OffsetAndEpoch) -> StoredSnapshot:
        """Size and age of a snapshot, which never change."""
        snapshots = self._core.snapshots
        size, mtime_ms = snapshots.size(snapshot_id), snapshots.mtime_ms(snapshot_id)
        return StoredSnapshot(snapshot_id=snapshot_id, size=size or 0, mtime_ms=mtime_ms or 0)

    # Requests, and answers to ours

    def _request(self, event: RaftRequestArrived) -> RaftResponse | None:
        request = event.request
        response: RaftResponse | None
        match request:
            case FetchRequest():
                response = self._desk.fetch(event, request)
            case VoteRequest():
                response = self._voting.requested(event, request)
            case BeginQuorumEpochRequest():
                response = self._following.epoch_begun(event, request)
            case EndQuorumEpochRequest():
                response = self._following.epoch_ended(event, request)
            case FetchSnapshotRequest():
                response = self._desk.fetch_snapshot(event, request)
            case DescribeQuorumRequest():
                response = self._desk.describe_quorum(event, request)
            case AddRaftVoterRequest():
                response = self._changes.add(event, request)
            case RemoveRaftVoterRequest():
                response = self._changes.remove(event, request)
            case UpdateRaftVoterRequest():
                response = self._changes.update(event, request)
            case _:
                assert_never(request)
        return response

    def _response(self, event: RaftResponseArrived) -> None:
        flight = self._core.outbox.answered(event.correlation)
        if flight is None:
            return
        match event.response:
            case FetchResponse() as fetched:
                self._following.answered(flight, fetched)
            case VoteResponse() as voted:
                self._voting.answered(flight, voted)
            case BeginQuorumEpochResponse() as begun:
                self._leading.told(flight, begun)
            case EndQuorumEpochResponse():
                self._leading.said_goodbye(flight.to.node_id)
            case FetchSnapshotResponse() as piece:
                if self._download.answered(flight, piece):
                    self._following.leader_served()
            case ApiVersionsResponse() as versions:
                self._changes.versions_answered(flight, versions)
            case UpdateRaftVoterResponse() as updated:
                self._joining.updated(flight, updated)
            case _:
                pass  # AddRaftVoter and RemoveRaftVoter: what became of them stands in the log

    def _failed(self, event: RaftRequestFailed) -> None:
        flight = self._core.outbox.failed(event.correlation, event.failure, self._core.now_ms)
        if flight is None:
            return
        if flight.purpose in (Purpose.FETCH, Purpose.FETCH_SNAPSHOT):
            self._following.failed(flight, event.failure)
        elif flight.purpose in (Purpose.PRE_VOTE, Purpose.VOTE):
            self._voting.failed(flight, event.failure)
        elif flight.purpose is Purpose.END_EPOCH and event.failure is not SendFailure.TIMED_OUT:
            self._leading.said_goodbye(flight.to.node_id)
