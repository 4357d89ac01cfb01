"""Rules of elections: who may be voted for, who gives way, and how long a node waits before it stands itself."""

from __future__ import annotations

from collections.abc import Collection

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import Rng
from headrace.raft.events import QuorumState
from headrace.raft.quorum import majority_of
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from headrace.raft.voters import VoterEndPoint


def is_up_to_date(candidate_end: OffsetAndEpoch, own_end: OffsetAndEpoch) -> bool:
    """The candidate's log holds at least ours: a later last epoch, or the same and as many records (KIP-595)."""
    return (candidate_end.epoch, candidate_end.offset) >= (own_end.epoch, own_end.offset)


def may_grant_vote(
    role: Role, *, candidate_id: int, candidate_directory_id: Uuid, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    """Whether a vote in the role's epoch may be given.

    At most one an epoch, to a log that is not behind; never against a leader that is known. A pre-vote binds nobody, and is refused only
    by a leader and by those whom a leader has served in this epoch (KIP-996).
    """
    if is_pre_vote:
        is_served = isinstance(role, Follower) and role.has_fetched and role.leader_id != candidate_id
        return is_up_to_date and not is_served and not isinstance(role, Leader)
    match role:
        case Unattached() | Prospective():
            if role.leader_id >= 0:
                return False
            if role.voted_id < 0:
                return is_up_to_date
            same_directory = role.voted_directory_id in (None, ZERO_UUID, candidate_directory_id)
            return role.voted_id == candidate_id and same_directory
        case Candidate() | Resigned() | Leader() | Follower():
            return False


def cannot_win(*, voters: int, rejected: int, unreachable: int) -> bool:
    """Whether those who refused, and those whose host says that nobody listens, leave less than a majority."""
    return voters - rejected - unreachable < majority_of(voters)


def gives_way(own_end: OffsetAndEpoch, own_id: int, other_end: OffsetAndEpoch, other_id: int) -> bool:
    """Of two that ask at the same time the one with the longer log goes first, else the one with the lower id.

    Without it two voters that see their leader die at one moment would split the votes.
    """
    return (other_end.epoch, other_end.offset, -other_id) > (own_end.epoch, own_end.offset, -own_id)


def election_timeout(timeout_ms: int, rng: Rng) -> int:
    """A random wait in [timeout, 2 x timeout) (S1-18, B-R18)."""
    return timeout_ms + rng.randrange(0, max(timeout_ms, 1))


def election_backoff(retries: int, *, max_ms: int, base_ms: int = 100, rng: Rng) -> int:
    """Binary exponential with chance, at most `max_ms` (S1-19). `retries` counts from 1."""
    return min(base_ms * rng.randrange(0, 2 << min(20, retries - 1)), max_ms)


def successor_backoff(position: int, count: int, *, max_ms: int, base_ms: int = 100) -> int:
    """How long the voter at `position` of `count` successors waits; the first not at all, one not listed the longest (B-R08)."""
    if position == 0:
        return 0
    if position >= count:
        return max_ms
    return min(max_ms, base_ms << min(20, position - 1))


def starting_role(
    state: QuorumState,
    *,
    node_id: int,
    is_voter: bool,
    log_epoch: int,
    leader_end_points: Collection[VoterEndPoint],
) -> Role:
    """What the stored state makes of a node that starts; deadlines are set when it runs (S4-27).

    An epoch that the log knows to be over is over; who led is Resigned, who voted for itself is Candidate, who knows where a leader is
    follows it, and everybody else is unattached with the vote it gave.
    """
    epoch = state.leader_epoch
    if epoch < log_epoch:
        return Unattached(epoch=log_epoch)
    if state.leader_id == node_id:
        return Resigned(epoch=epoch) if is_voter else Unattached(epoch=epoch, voted_id=node_id)
    if state.leader_id >= 0 and leader_end_points:
        return Follower(
            epoch=epoch,
            leader_id=state.leader_id,
            leader_end_points=tuple(leader_end_points),
            voted_id=state.voted_id,
            voted_directory_id=state.voted_directory_id,
        )
    if state.leader_id < 0 and state.voted_id == node_id and is_voter:
        return Candidate(epoch=epoch, election_deadline_ms=0)
    return Unattached(
        epoch=epoch,
        leader_id=state.leader_id,
        voted_id=state.voted_id,
        voted_directory_id=state.voted_directory_id,
    )
