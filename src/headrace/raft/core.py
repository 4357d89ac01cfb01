"""What all concerns of a quorum node share: its role, its log, its voters, and what it has told its driver to do.

`RaftCore` is the one place that changes the role, stores the election state, holds back what may not leave before that is stored (R4),
orders flushes, and cuts the log. The concerns (`voting`, `following`, `leading`, ...) decide; they reach each other through it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import Destination
from headrace.raft.election import election_timeout, starting_role
from headrace.raft.epoch_limits import EpochsTold, furthest_in_request
from headrace.raft.events import FlushLog, LeaderChanged, QuorumState, StoreQuorumState
from headrace.raft.history import VoterHistory, read_history, voters_in_batches
from headrace.raft.invariants import check_may_cut, check_may_load
from headrace.raft.outbox import Outbox
from headrace.raft.quorum import majority_of
from headrace.raft.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
    is_leader_certain,
    leader_of,
)
from headrace.raft.serving import LeaderHint
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet, find_end_point

if TYPE_CHECKING:
    from headrace.core.ports import Rng
    from headrace.log.ports import PartitionLogPort
    from headrace.raft.config import RaftConfig
    from headrace.raft.events import RaftEffect
    from headrace.raft.replication import SnapshotsPort


class RaftCore:
    """The state that every concern reads, and the few ways to change it. Driven by `RaftNode.step`, one event at a time."""

    def __init__(
        self, *, config: RaftConfig, log: PartitionLogPort, snapshots: SnapshotsPort, state: QuorumState, rng: Rng
    ) -> None:
        self.config = config
        self.log = log
        self.snapshots = snapshots
        self.rng = rng
        self.now_ms = 0
        self.is_shutting_down = False
        self.out: list[RaftEffect] = []
        self.outbox = Outbox(config, rng)
        self.history: VoterHistory = read_history(log, snapshots, config.voters)
        self.voters: VoterSet = self.history.latest.voters
        self.others: tuple[Voter, ...] = ()
        self.is_voter = False
        self._voters_changed()
        self.durable_end = min(log.durable_end_offset, log.log_end_offset)
        self.is_flushing = False
        self.on_role_changed: Callable[[Role, Role], None] | None = None
        self.wake_ms: int | None = None
        self._leader_found: Destination | None = None
        self._leader_found_for: Role | None = None
        self._epochs_told = EpochsTold()
        self._hint: tuple[Role, str, LeaderHint] | None = None
        self._stored = state
        self._stores_begun = 0
        self._stores_done = 0
        self._held: deque[tuple[int, RaftEffect]] = deque()
        self._when_stored: deque[tuple[int, Callable[[], None]]] = deque()
        self.role: Role = starting_role(
            state,
            node_id=config.node_id,
            is_voter=self.may_stand,
            log_epoch=self.last().epoch,
            leader_end_points=self.end_points_of(state.leader_id),
        )

    # Where the log ends, who counts

    def last(self) -> OffsetAndEpoch:
        """The end of the log as votes and fetches name it: end offset, and the epoch of the last record (0 for an empty log)."""
        epoch = self.log.latest_epoch
        if epoch is None:
            latest = self.snapshots.latest() if self.log.log_end_offset > 0 else None
            epoch = 0 if latest is None else latest.epoch
        return OffsetAndEpoch(self.log.log_end_offset, epoch)

    @property
    def leader_id(self) -> int:
        """Who leads; -1 = nobody this node knows of."""
        return self.config.node_id if isinstance(self.role, Leader) else leader_of(self.role)

    @property
    def leader_end_points(self) -> tuple[VoterEndPoint, ...]:
        """Where the leader listens, as far as it is known."""
        role = self.role
        if isinstance(role, Leader):
            return self.config.end_points
        if isinstance(role, Follower | Prospective):
            return role.leader_end_points
        return ()

    @property
    def may_stand(self) -> bool:
        """Whether it may ask for votes: a voter, or one that the newest, uncommitted voters leave out.

        The latter may be the only one who holds that change, and so the only one who can be elected and commit it (KIP-853; Raft 4.2.2). It
        counts no vote of its own.
        """
        if self.is_voter:
            return True
        former = self.history.replaced(self.log.high_watermark)
        own = (self.config.node_id, self.config.directory_id)
        return self.config.is_controller and former is not None and former.is_voter(*own)

    def votes(self, granted: frozenset[int]) -> int:
        """How many of those who granted are voters in force; this node only if it is one."""
        own = 1 if self.is_voter and self.config.node_id in granted else 0
        return own + sum(each.voter_id in granted for each in self.others)

    def end_points_of(self, voter_id: int) -> tuple[VoterEndPoint, ...]:
        """Where the voters in force say that this one listens."""
        voter = self.voters.find(voter_id)
        return () if voter is None else voter.end_points

    def destination(self, node_id: int, end_points: tuple[VoterEndPoint, ...]) -> Destination | None:
        """Whom to ask there, None when there is no end point."""
        found = find_end_point(end_points, self.config.listener)
        return None if found is None else Destination(node_id, found.host, found.port)

    def route(self, voter: Voter) -> Destination | None:
        """Where to ask a voter: where the log says, or, while nobody answers there, at a bootstrap server (S4-17).

        Whoever answers there checks the voter's key: another replica refuses with INVALID_VOTER_KEY.
        """
        to = self.destination(voter.voter_id, voter.end_points)
        if to is not None and self.outbox.ready_at(to) <= self.now_ms:
            return to
        own = {(each.host, each.port) for each in self.config.end_points}
        for host, port in self.config.bootstrap_servers:
            other = Destination(voter.voter_id, host, port)
            if (host, port) not in own and self.outbox.ready_at(other) <= self.now_ms:
                return other
        return to

    def leader_destination(self) -> Destination | None:
        """Where the leader is asked, None when nobody else leads or its end point is not known."""
        if self._leader_found_for is not self.role:
            self._leader_found_for = self.role
            leader_id = leader_of(self.role)
            self._leader_found = None if leader_id < 0 else self.destination(leader_id, self.leader_end_points)
        return self._leader_found

    def hint(self, listener: str) -> LeaderHint:
        """Who leads, and where the asker's listener finds it."""
        known = self._hint
        if known is None or known[0] is not self.role or known[1] != listener:
            known = self._hint = (self.role, listener, self._find_hint(listener))
        return known[2]

    def _find_hint(self, listener: str) -> LeaderHint:
        end_point = next((each for each in self.leader_end_points if each.name == listener), None)
        if end_point is None and not isinstance(self.role, Leader):
            end_point = find_end_point(self.leader_end_points, self.config.listener)
        return LeaderHint(leader_id=self.leader_id, leader_epoch=self.role.epoch, end_point=end_point)

    def role_has_fetched(self) -> bool:
        """The leader that this node follows has served it in this epoch."""
        return isinstance(self.role, Follower) and self.role.has_fetched

    # Effects and deadlines

    def emit(self, effect: RaftEffect) -> None:
        """Order something that stays on this node."""
        self.out.append(effect)

    def reveal(self, effect: RaftEffect) -> None:
        """Order something that others see: only once what it may reveal is on disk (R4, K1)."""
        if self.is_storing:
            self._held.append((self._stores_begun, effect))
        else:
            self.out.append(effect)

    @property
    def is_storing(self) -> bool:
        """What is to be revealed waits for the disk."""
        return self._stores_done < self._stores_begun

    def wake_at(self, deadline_ms: int) -> None:
        """`TimeAdvanced` is due then, or earlier."""
        if self.wake_ms is None or deadline_ms < self.wake_ms:
            self.wake_ms = deadline_ms

    def random_election_deadline(self) -> int:
        """From now on (S1-18)."""
        return self.now_ms + election_timeout(self.config.election_timeout_ms, self.rng)

    # The election state on disk

    def store(self, state: QuorumState, then: Callable[[], None] | None = None) -> None:
        """Store the state unless it is what was stored last; do `then` when it, and all before it, are on disk.

        Of several states in one step only the last is stored: one fsync to adopt an epoch and vote in it.
        """
        if state != self._stored:
            self._stored = state
            effect = StoreQuorumState(state=state, kraft_version=self.voters.kraft_version, voter_ids=self.voters.ids)
            for position, earlier in enumerate(self.out):
                if isinstance(earlier, StoreQuorumState):
                    self.out[position] = effect
                    break
            else:
                self._stores_begun += 1
                self.out.append(effect)
        if then is not None:
            self._when_stored.append((self._stores_begun, then))
            self._run_stored()

    def stored(self) -> None:
        """The driver stored the next state."""
        self._stores_done = min(self._stores_done + 1, self._stores_begun)
        self._run_stored()
        while self._held and self._held[0][0] <= self._stores_done:
            self.out.append(self._held.popleft()[1])

    def _run_stored(self) -> None:
        while self._when_stored and self._when_stored[0][0] <= self._stores_done:
            self._when_stored.popleft()[1]()

    def _store_role(self) -> None:
        role = self.role
        if self._stored.leader_id == self.config.node_id and self._stored.leader_epoch == role.epoch:
            return  # that this node led the epoch stays on disk until a later one begins (R13)
        match role:
            case Unattached() | Prospective() | Follower():
                state = QuorumState(
                    leader_epoch=role.epoch,
                    leader_id=role.leader_id,
                    voted_id=role.voted_id,
                    voted_directory_id=role.voted_directory_id,
                )
            case Candidate():
                if role.is_elected:
                    return
                state = self.own_vote(role.epoch)
            case _:
                return
        self.store(state)

    def own_vote(self, epoch: int) -> QuorumState:
        """This node voted for itself."""
        directory_id = self.config.directory_id if self.voters.kraft_version > 0 else None
        return QuorumState(leader_epoch=epoch, voted_id=self.config.node_id, voted_directory_id=directory_id)

    # Roles

    def become(self, role: Role) -> None:
        """Change the role: checked, stored, told to whom it concerns."""
        before = self.role
        known_before = (self.leader_id, before.epoch, self.leader_end_points)
        check_transition(before, role, is_certain=is_leader_certain(before, log_epoch=self.last().epoch))
        self.role = role
        self._store_role()
        is_other_leader = isinstance(role, Follower) and leader_of(before) != role.leader_id
        if type(before) is not type(role) or before.epoch != role.epoch or is_other_leader:
            self.outbox.forget_flights()
            if self.on_role_changed is not None:
                self.on_role_changed(before, role)
        known = (self.leader_id, role.epoch, self.leader_end_points)
        if known != known_before and (known[0] >= 0 or known_before[0] >= 0):
            self.tell_leader()

    def tell_leader(self) -> None:
        """Let the node know who leads, and where."""
        self.reveal(
            LeaderChanged(
                leader_id=self.leader_id,
                epoch=self.role.epoch,
                to=self.leader_destination(),
                end_points=self.leader_end_points,
            )
        )

    def to_unattached(self, epoch: int, *, leader_id: int = -1) -> None:
        """Follow nobody in a later epoch.

        Who waits for an election already waits no longer for it, or a voter that cannot win could put all elections off for ever.
        """
        voted_id = -1
        if leader_id == self.config.node_id:
            leader_id, voted_id = (
                -1,
                self.config.node_id,
            )  # led by this node before its disk was set back: no vote in it
        deadline = self.random_election_deadline() if self.may_stand else None
        waiting = self.role.election_deadline_ms if isinstance(self.role, Unattached | Candidate) else None
        if deadline is not None and waiting is not None and waiting > self.now_ms:
            deadline = min(deadline, waiting)
        self.become(Unattached(epoch=epoch, leader_id=leader_id, voted_id=voted_id, election_deadline_ms=deadline))

    def to_follower(self, epoch: int, leader_id: int, end_points: tuple[VoterEndPoint, ...]) -> None:
        """Follow `leader_id`; a vote given in the same epoch stays known."""
        role = self.role
        voted_id, voted_directory_id = -1, None
        if role.epoch == epoch:
            if isinstance(role, Unattached | Prospective | Follower):
                voted_id, voted_directory_id = role.voted_id, role.voted_directory_id
            elif isinstance(role, Candidate):
                vote = self.own_vote(epoch)
                voted_id, voted_directory_id = vote.voted_id, vote.voted_directory_id
        self.become(
            Follower(
                epoch=epoch,
                leader_id=leader_id,
                leader_end_points=end_points,
                voted_id=voted_id,
                voted_directory_id=voted_directory_id,
            )
        )

    def heed(self, epoch: int, leader_id: int, end_points: tuple[VoterEndPoint, ...]) -> None:
        """Another node says who leads (-1: nobody) in its epoch: adopt what is newer or more (B-R20, S4-23).

        Whether the epoch may be heeded was found out by the caller.
        """
        if epoch < self.role.epoch:
            return
        is_other = leader_id >= 0 and leader_id != self.config.node_id
        found = end_points or self.end_points_of(leader_id)
        if epoch > self.role.epoch:
            if is_other and found:
                self.to_follower(epoch, leader_id, found)
            else:
                self.to_unattached(epoch, leader_id=leader_id)
        elif is_other:
            self._heed_same_epoch(epoch, leader_id, found, is_told=bool(end_points))

    def heed_response(self, to: Destination, epoch: int, leader_id: int, end_points: tuple[VoterEndPoint, ...]) -> None:
        """The same, from the response to a request that this node sent to `to`: a later epoch only as far as it is believed."""
        if epoch > furthest_in_request(self.role.epoch):
            others = tuple(each.voter_id for each in self.others)
            if not self._is_known_address(to):
                return
            self._epochs_told.note(to.node_id, epoch)
            if not self._epochs_told.is_believed(epoch, others=others, majority=majority_of(len(others) + 1)):
                return
        self.heed(epoch, leader_id, end_points)

    def _is_known_address(self, to: Destination) -> bool:
        """Settings or log say that a voter, or who knows them, listens there; a request may have told any other address."""
        listening = {(each.host, each.port) for voter in self.others for each in voter.end_points}
        return (to.host, to.port) in listening or (to.host, to.port) in self.config.bootstrap_servers

    def _heed_same_epoch(
        self, epoch: int, leader_id: int, end_points: tuple[VoterEndPoint, ...], *, is_told: bool
    ) -> None:
        role = self.role
        known = self.leader_id
        if isinstance(role, Leader | Resigned) or self.is_other_leader_certain(leader_id) or not end_points:
            return
        if (
            isinstance(role, Unattached | Candidate)
            or (isinstance(role, Prospective) and known != leader_id)
            or (isinstance(role, Follower) and known != leader_id)
            or (isinstance(role, Follower) and is_told and not self._has_listeners(role, end_points))
        ):
            self.to_follower(epoch, leader_id, end_points)

    def is_other_leader_certain(self, leader_id: int) -> bool:
        """Whether somebody else than `leader_id` surely leads this epoch (R1): who says that it is this one is not to be believed.

        That somebody leads is only a claim until it served this node, or the log holds a record of the epoch. A claim gives way to another
        one: or a forged one would keep this node from the leader that is elected in that epoch.
        """
        known = self.leader_id
        return known >= 0 and known != leader_id and is_leader_certain(self.role, log_epoch=self.last().epoch)

    def furthest_epoch(self) -> int:
        """The latest epoch that a request may move this node to.

        Who is no voter stays where it is: ahead of the voters it would follow nobody, and none of them would ever hear of it. It asks them all
        the time while no leader serves it, and their responses tell; whoever needs its vote asks again.
        """
        return furthest_in_request(self.role.epoch) if self.may_stand else self.role.epoch

    @property
    def is_led(self) -> bool:
        """This node leads, or a leader serves it."""
        return isinstance(self.role, Leader) or self.role_has_fetched()

    def may_be_voter(self, replica_id: int, directory_id: Uuid = ZERO_UUID) -> bool:
        """Whether the replica is a voter, or was one as far as this log tells: it may not know that it was removed. The zero id is any directory."""
        for voters in self.history.voter_sets():
            voter = voters.find(replica_id)
            if voter is not None and (directory_id == ZERO_UUID or voter.is_replica(replica_id, directory_id)):
                return True
        return False

    def _has_listeners(self, role: Follower, end_points: tuple[VoterEndPoint, ...]) -> bool:
        """What is told is known already; one that tells fewer listeners tells nothing new unless the address moved."""
        return all(each in role.leader_end_points for each in end_points)

    # The log

    @property
    def is_log_synced(self) -> bool:
        """All that the log holds is known to be on disk."""
        return self.durable_end >= self.log.log_end_offset

    def flush(self) -> None:
        """Order a flush, unless one is under way or all is on disk."""
        if not self.is_flushing and not self.is_log_synced:
            self.is_flushing = True
            self.out.append(FlushLog())

    def flushed(self, upto: int) -> None:
        """The driver flushed everything below `upto`."""
        self.is_flushing = False
        self.durable_end = min(max(self.durable_end, upto), self.log.log_end_offset)

    def cut(self, to: int) -> None:
        """Truncate the log to `to` (R5, R11); voters named behind it are taken back."""
        latest = self.snapshots.latest()
        check_may_cut(
            to,
            high_watermark=self.log.high_watermark,
            snapshot_end=0 if latest is None else latest.offset,
            is_leader=isinstance(self.role, Leader),
        )
        self.log.truncate_to(to)
        self.durable_end = min(self.durable_end, self.log.log_end_offset)
        if self.history.truncated(self.log.log_end_offset):
            self._voters_changed()

    def start_log_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """The log begins anew at the end of a snapshot (B-S06, R16)."""
        check_may_load(is_leader=isinstance(self.role, Leader))
        self.log.truncate_fully_and_start_at(snapshot_id.offset)
        self.durable_end = min(self.log.durable_end_offset, self.log.log_end_offset)

    def voters_found(self, data: bytes | bytearray | memoryview, *, upto: int) -> None:
        """The batches that end at or below `upto` were written to the log: heed the voters that they name."""
        is_changed = False
        for found in voters_in_batches(data, "an appended batch", directory=self.log.directory):
            if found.next_offset > upto:
                break
            if found.voters is not None:
                self.history.named(found.offset, found.voters)
                is_changed = True
        if is_changed:
            self._voters_changed()

    def voters_loaded(self, snapshot_id: OffsetAndEpoch, voters: VoterSet | None) -> None:
        """A snapshot replaced the log."""
        self.history.loaded(snapshot_id, voters)
        self._voters_changed()

    def _voters_changed(self) -> None:
        self.voters = self.history.latest.voters
        own = (self.config.node_id, self.config.directory_id)
        self.is_voter = self.config.is_controller and self.voters.is_voter(*own)
        self.others = tuple(each for each in self.voters.voters if each.voter_id != self.config.node_id)
