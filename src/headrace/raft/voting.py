"""Votes of this node for others, and its own election.

Unattached -> Prospective      the election timeout passed, or it just started
Follower   -> Prospective      the fetch timeout passed, or the leader's host refuses connections (`following`)
Resigned   -> Prospective      the election timeout passed
Prospective -> Candidate       a majority would vote for it (pre-vote, KIP-996); else back to what it was
Candidate  -> Leader           a majority voted for it, its own vote being on disk (B-R03)
Candidate  -> Prospective      it cannot win, and backed off (S1-19); or the election timeout passed

A vote is asked for, and a new epoch begun, only with a log that is on disk: who voted for a candidate does so again when that comes back
after a power cut, whatever it holds by then (R7). The sync is ordered with the pre-vote, and mostly done before its answers are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import SendFailure
from headrace.raft import serving
from headrace.raft.election import cannot_win, election_backoff, gives_way, is_up_to_date, may_grant_vote
from headrace.raft.epoch_limits import LAST_EPOCH
from headrace.raft.events import QuorumState
from headrace.raft.messages import vote_request
from headrace.raft.outbox import Flight, Purpose
from headrace.raft.quorum import is_majority
from headrace.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from headrace.raft.voters import VoterEndPoint
from headrace.wire.messages.vote import RequestPartitionData, VoteRequest, VoteResponse

if TYPE_CHECKING:
    from headrace.raft.core import RaftCore
    from headrace.raft.events import RaftRequestArrived

MIN_BACKOFF_MS = 50
"""Who lost an election leaves the winner at least so long to be heard of."""

ASK_AGAIN_MS = 50
"""A voter that refused a pre-vote is asked again so soon: it may see only later that the leader is gone, or in which epoch the others are."""


class Voting:
    """Elections, from both sides. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore, *, on_elected: Callable[[Candidate], None]) -> None:
        """`on_elected` makes the node leader; its leadership is on disk by then."""
        self._core = core
        self._on_elected = on_elected
        self._retries = 0
        self._give_way_until_ms = 0
        self._give_up_ms = 0
        self._ask_again_ms: dict[int, int] = {}

    # This node's own elections

    def poll(self) -> None:
        """Do what is due in the roles that wait for an election or hold one."""
        core = self._core
        match core.role:
            case Unattached(election_deadline_ms=deadline) | Resigned(election_deadline_ms=deadline):
                if deadline is None or core.is_shutting_down or not core.may_stand:
                    return
                if core.now_ms < deadline:
                    core.wake_at(deadline)
                else:
                    self.prospect()
            case Prospective():
                self._poll_prospective(core.role)
            case Candidate():
                self._poll_candidate(core.role)
            case _:
                pass

    def wait(self) -> None:
        """Begin the election timeout of a voter that just started."""
        core = self._core
        if isinstance(core.role, Unattached | Resigned):
            core.become(replace(core.role, election_deadline_ms=core.random_election_deadline()))

    def leader_known(self) -> None:
        """An election was decided: the next one begins without backoff."""
        self._retries = 0

    def prospect(self) -> None:
        """Ask whether an election could be won (KIP-996)."""
        core = self._core
        role = core.role
        assert isinstance(role, Unattached | Follower | Candidate | Resigned)
        voted_id, voted_directory_id = -1, None
        if isinstance(role, Unattached | Follower):
            voted_id, voted_directory_id = role.voted_id, role.voted_directory_id
        else:  # it voted for itself in this epoch
            vote = core.own_vote(role.epoch)
            voted_id, voted_directory_id = vote.voted_id, vote.voted_directory_id
        self._give_way_until_ms = 0
        self._give_up_ms = core.now_ms + 3 * ASK_AGAIN_MS
        self._ask_again_ms.clear()
        core.flush()
        core.become(
            Prospective(
                epoch=role.epoch,
                leader_id=core.leader_id,
                leader_end_points=core.leader_end_points,
                voted_id=voted_id,
                voted_directory_id=voted_directory_id,
                granted=frozenset((core.config.node_id,)),
                election_deadline_ms=core.random_election_deadline(),
            )
        )
        self.poll()

    def _poll_prospective(self, role: Prospective) -> None:
        core = self._core
        if core.is_shutting_down:
            return
        if is_majority(core.votes(role.granted), voters=len(core.voters.voters)):
            if core.now_ms < self._give_way_until_ms:
                core.wake_at(self._give_way_until_ms)
            elif role.epoch >= LAST_EPOCH:
                pass  # no epoch is left to stand in
            elif core.is_log_synced:
                self._stand()
                return
            else:
                core.flush()
        if core.now_ms >= role.election_deadline_ms or self._is_refused(role):
            self._drop_back(role)
            return
        core.wake_at(role.election_deadline_ms if core.now_ms >= self._give_up_ms else self._give_up_ms)
        self._ask(Purpose.PRE_VOTE, role.granted)

    def _is_refused(self, role: Prospective) -> bool:
        """The leader itself said no, or a majority did, and again when asked again: somebody leads, or has a longer log."""
        if role.leader_id in role.rejected:
            return True
        is_lost = cannot_win(voters=len(self._core.voters.voters), rejected=len(role.rejected), unreachable=0)
        return is_lost and self._core.now_ms >= self._give_up_ms

    def _drop_back(self, role: Prospective) -> None:
        """Nobody would elect it now: follow the leader that it knows, else wait."""
        core = self._core
        if role.leader_id >= 0 and role.leader_end_points:
            core.to_follower(role.epoch, role.leader_id, role.leader_end_points)
            return
        core.become(
            Unattached(
                epoch=role.epoch,
                leader_id=role.leader_id,
                voted_id=role.voted_id,
                voted_directory_id=role.voted_directory_id,
                election_deadline_ms=core.random_election_deadline(),
            )
        )

    def _stand(self) -> None:
        """A new epoch and our own vote in it, which counts when it is on disk (B-R03)."""
        core = self._core
        self._ask_again_ms.clear()
        role = Candidate(epoch=core.role.epoch + 1, election_deadline_ms=core.random_election_deadline())
        core.become(role)
        core.store(core.own_vote(role.epoch), then=lambda: self._own_vote_stored(role.epoch))

    def resume_candidacy(self) -> None:
        """A node that started as candidate (S4-27): its own vote is on disk since before."""
        core = self._core
        role = core.role
        assert isinstance(role, Candidate)
        core.become(replace(role, election_deadline_ms=core.random_election_deadline()))
        self._own_vote_stored(role.epoch)

    def _own_vote_stored(self, epoch: int) -> None:
        core = self._core
        if isinstance(core.role, Candidate) and core.role.epoch == epoch and not core.is_shutting_down:
            self._granted(core.role, core.config.node_id)

    def _granted(self, role: Candidate, voter_id: int) -> None:
        core = self._core
        role = replace(role, granted=role.granted | {voter_id})
        if role.is_elected or not is_majority(core.votes(role.granted), voters=len(core.voters.voters)):
            core.become(role)
            return
        elected = replace(role, is_elected=True)
        core.become(elected)
        state = QuorumState(leader_epoch=role.epoch, leader_id=core.config.node_id)
        core.store(state, then=lambda: self._leadership_stored(role.epoch))

    def _leadership_stored(self, epoch: int) -> None:
        """A leader that restarts finds that it led this epoch, and never leads it again (R13)."""
        core = self._core
        if isinstance(core.role, Candidate) and core.role.epoch == epoch and not core.is_shutting_down:
            self._retries = 0
            self._on_elected(core.role)

    def _poll_candidate(self, role: Candidate) -> None:
        core = self._core
        if role.is_elected or core.is_shutting_down:
            return
        if role.backoff_deadline_ms is not None:
            if core.now_ms >= role.backoff_deadline_ms:
                self.prospect()
            else:
                core.wake_at(role.backoff_deadline_ms)
            return
        if core.now_ms >= role.election_deadline_ms:
            self._retries += 1
            self.prospect()
            return
        unreachable = [each for each in core.others if each.voter_id in core.outbox.refusing]
        gone = sum(each.voter_id not in role.granted and each.voter_id not in role.rejected for each in unreachable)
        if cannot_win(voters=len(core.voters.voters), rejected=len(role.rejected), unreachable=gone):
            self._retries += 1
            backoff = election_backoff(self._retries, max_ms=core.config.election_backoff_max_ms, rng=core.rng)
            deadline = core.now_ms + max(MIN_BACKOFF_MS, backoff)
            core.become(replace(role, backoff_deadline_ms=deadline))
            core.wake_at(deadline)
            return
        core.wake_at(role.election_deadline_ms)
        if core.is_log_synced:
            self._ask(Purpose.VOTE, role.granted | role.rejected)
        else:
            core.flush()

    def _ask(self, purpose: Purpose, answered: frozenset[int]) -> None:
        core = self._core
        for voter in core.others:
            if voter.voter_id in answered:
                continue
            to = core.route(voter)
            if to is None or core.outbox.is_busy(purpose, to):
                continue
            ready = max(core.outbox.ready_at(to), self._ask_again_ms.get(voter.voter_id, 0))
            if core.now_ms < ready:
                core.wake_at(ready)
                continue
            request = vote_request(
                core.config,
                voter,
                epoch=core.role.epoch,
                log_end=core.last(),
                is_pre_vote=purpose is Purpose.PRE_VOTE,
            )
            core.reveal(core.outbox.send(purpose, to, request, epoch=core.role.epoch))

    def answered(self, flight: Flight, response: VoteResponse) -> None:
        """A voter answered a vote or a pre-vote."""
        core = self._core
        if response.error_code != ErrorCode.NONE or not response.topics or not response.topics[0].partitions:
            self._refused(flight)
            return
        partition = response.topics[0].partitions[0]
        nodes = [each for each in response.node_endpoints if each.node_id == partition.leader_id]
        end_points = tuple(VoterEndPoint(core.config.listener, each.host, each.port) for each in nodes)
        core.heed_response(flight.to, partition.leader_epoch, partition.leader_id, end_points)
        if partition.error_code == ErrorCode.INVALID_VOTER_KEY:
            core.outbox.leave_alone(flight.to, core.now_ms)  # somebody else listens there
        elif partition.error_code == ErrorCode.NONE and partition.vote_granted:
            self._counted(flight)
        elif partition.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH and flight.purpose is Purpose.VOTE:
            self._ask_again_ms[flight.to.node_id] = (
                core.now_ms + ASK_AGAIN_MS
            )  # it asks around whether this epoch is there
        else:
            self._refused(flight)

    def failed(self, flight: Flight, failure: SendFailure) -> None:
        """A voter did not answer. One that does not know pre-votes is taken to agree: the vote itself will tell (KIP-996)."""
        if failure is SendFailure.UNSUPPORTED_VERSION and flight.purpose is Purpose.PRE_VOTE:
            self._counted(flight)

    def _counted(self, flight: Flight) -> None:
        role, voter_id = self._core.role, flight.to.node_id
        if flight.epoch != role.epoch:
            return
        if isinstance(role, Prospective) and flight.purpose is Purpose.PRE_VOTE:
            self._core.become(replace(role, granted=role.granted | {voter_id}, rejected=role.rejected - {voter_id}))
        elif isinstance(role, Candidate) and flight.purpose is Purpose.VOTE and voter_id not in role.rejected:
            self._granted(role, voter_id)

    def _refused(self, flight: Flight) -> None:
        role, voter_id = self._core.role, flight.to.node_id
        if flight.epoch != role.epoch:
            return
        if isinstance(role, Prospective) and flight.purpose is Purpose.PRE_VOTE:
            self._ask_again_ms[voter_id] = self._core.now_ms + ASK_AGAIN_MS
            self._core.become(replace(role, rejected=role.rejected | {voter_id}, granted=role.granted - {voter_id}))
        elif isinstance(role, Candidate) and flight.purpose is Purpose.VOTE and voter_id not in role.granted:
            self._core.become(replace(role, rejected=role.rejected | {voter_id}))

    # Others' elections

    def requested(self, event: RaftRequestArrived, request: VoteRequest) -> VoteResponse:
        """Somebody asks for this node's vote (B-R05, B-R06)."""
        core = self._core
        error = serving.check_single_partition(core.config.cluster_id, request.cluster_id, request.topics)
        if error is not ErrorCode.NONE:
            return VoteResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        error = self._vote_error(request, asked)
        is_granted = error is ErrorCode.NONE and self._may_be_candidate(asked) and self._decide(asked)
        return serving.vote_answer(error, core.hint(event.listener), is_granted=is_granted, version=event.api_version)

    def _vote_error(self, request: VoteRequest, asked: RequestPartitionData) -> ErrorCode:
        """Why a request is refused before it changes anything (B-R06, R21)."""
        core = self._core
        last_epoch, epoch = asked.last_offset_epoch, asked.replica_epoch
        is_ahead = last_epoch > epoch if asked.pre_vote else last_epoch >= epoch
        if asked.last_offset < 0 or last_epoch < 0 or is_ahead:
            return ErrorCode.INVALID_REQUEST
        if epoch < core.role.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if asked.replica_id < 0 or asked.replica_id == core.config.node_id:
            return ErrorCode.INVALID_REQUEST
        error = serving.own_key_error(core.config, request.voter_id, asked.voter_directory_id)
        if error is ErrorCode.NONE and epoch > core.furthest_epoch():
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return error

    def _may_be_candidate(self, asked: RequestPartitionData) -> bool:
        """Whether an honest replica can ask so; else its epoch is not heeded, and it gets no vote.

        Who is no voter for all that is known here may be one since records that this node lacks (KIP-853): then it holds them, and no leader
        serves this node.
        """
        core = self._core
        if core.may_be_voter(asked.replica_id, asked.replica_directory_id):
            return True
        candidate_end = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)
        return not core.is_led and candidate_end != core.last() and is_up_to_date(candidate_end, core.last())

    def _decide(self, asked: RequestPartitionData) -> bool:
        core = self._core
        core.outbox.heard_from(asked.replica_id)
        if asked.replica_epoch > core.role.epoch:
            core.to_unattached(asked.replica_epoch)
        candidate_end = OffsetAndEpoch(asked.last_offset, asked.last_offset_epoch)
        is_granted = may_grant_vote(
            core.role,
            candidate_id=asked.replica_id,
            candidate_directory_id=asked.replica_directory_id,
            is_up_to_date=is_up_to_date(candidate_end, core.last()),
            is_pre_vote=asked.pre_vote,
        )
        if is_granted and asked.pre_vote:
            self._maybe_give_way(asked.replica_id, candidate_end)
        elif is_granted:
            self._vote_for(asked.replica_id, asked.replica_directory_id)
        return is_granted

    def _maybe_give_way(self, other_id: int, other_end: OffsetAndEpoch) -> None:
        core = self._core
        if (
            isinstance(core.role, Prospective)
            and self._give_way_until_ms == 0
            and gives_way(core.last(), core.config.node_id, other_end, other_id)
        ):
            self._give_way_until_ms = core.now_ms + max(1, core.config.election_timeout_ms // 5)

    def _vote_for(self, candidate_id: int, directory_id: Uuid) -> None:
        """Note the vote; the answer leaves when it is on disk (R2)."""
        core = self._core
        role = core.role
        assert isinstance(role, Unattached | Prospective)
        if role.voted_id >= 0:
            return
        core.become(
            Unattached(
                epoch=role.epoch,
                voted_id=candidate_id,
                voted_directory_id=None if directory_id == ZERO_UUID else directory_id,
                election_deadline_ms=core.random_election_deadline() if core.may_stand else None,
            )
        )
