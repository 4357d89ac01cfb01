"""May this node vote for that one, and how long does it wait before it stands itself?"""

from __future__ import annotations

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import Rng
from headrace.raft.roles import Candidate, Follower, Leader, Resigned, Role, Unattached


def is_up_to_date(candidate_end: OffsetAndEpoch, own_end: OffsetAndEpoch) -> bool:
    """The candidate's log holds at least ours: a later last epoch, or the same and as many records (KIP-595)."""
    return (candidate_end.epoch, candidate_end.offset) >= (own_end.epoch, own_end.offset)


def may_grant_vote(
    role: Role, *, candidate_id: int, candidate_directory_id: Uuid, is_up_to_date: bool, is_pre_vote: bool
) -> bool:
    """Whether a vote in the role's epoch may be given.

    At most one a epoch, to a log that is not behind; never against a leader that is known. A pre-vote binds nobody (KIP-996).
    """
    match role:
        case Unattached():
            if role.voted_id < 0 or is_pre_vote:
                return is_up_to_date
            same_directory = role.voted_directory_id in (None, ZERO_UUID, candidate_directory_id)
            return role.voted_id == candidate_id and same_directory
        case Candidate() | Resigned():
            return is_pre_vote and is_up_to_date
        case Leader() | Follower():
            return False


def election_timeout(timeout_ms: int, rng: Rng) -> int:
    """S1-18: a random wait in [timeout, 2 x timeout)."""
    return timeout_ms + rng.randrange(0, max(timeout_ms, 1))


def election_backoff(retries: int, *, max_ms: int, base_ms: int = 100, rng: Rng) -> int:
    """S1-19: binary exponential with chance, at most `max_ms`. `retries` counts from 1."""
    return min(base_ms * rng.randrange(0, 2 << min(20, retries - 1)), max_ms)
