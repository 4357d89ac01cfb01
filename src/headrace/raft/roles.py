"""The roles of a node of the quorum, and which may follow which.

One frozen value a role, holding only what that role needs. `check_transition` is the table of B-R02 with the role of KIP-996; every
change of role goes through it, so a change that is not in the table is a bug that stops the node.
"""

from __future__ import annotations

from typing import Final

from headrace.core.ids import Uuid
from headrace.core.values import value_class
from headrace.raft.invariants import RaftInvariantBroken
from headrace.raft.voters import VoterEndPoint


@value_class
class Unattached:
    """Follows nobody in `epoch`; may have voted in it, and may know who leads without knowing where (`leader_id`).

    Waits until `election_deadline_ms` (None: an observer, for ever).
    """

    epoch: int
    leader_id: int = -1
    voted_id: int = -1
    voted_directory_id: Uuid | None = None
    election_deadline_ms: int | None = None


@value_class
class Prospective:
    """Asks whether it would be elected, without raising anyone's epoch (KIP-996). What it knew of `epoch` before stays."""

    epoch: int
    leader_id: int = -1
    leader_end_points: tuple[VoterEndPoint, ...] = ()
    voted_id: int = -1
    voted_directory_id: Uuid | None = None
    granted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    election_deadline_ms: int


@value_class
class Candidate:
    """Asks for votes in `epoch`. Ids of voters that answered; our own vote counts once it is on disk (B-R03).

    `backoff_deadline_ms`: it cannot win any more and waits so long. `is_elected`: it won, and leads once that is on disk (R13).
    """

    epoch: int
    granted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    election_deadline_ms: int
    backoff_deadline_ms: int | None = None
    is_elected: bool = False


@value_class
class Leader:
    """Leads `epoch`, whose first record (LeaderChange) has `epoch_start_offset`.

    `is_claimed`: that record is committed, so everything before it is, and the controller was told.
    """

    epoch: int
    epoch_start_offset: int
    granting_voters: tuple[int, ...]
    is_claimed: bool = False


@value_class
class Follower:
    """Follows the leader of `epoch`. `has_fetched`: the leader answered a fetch in this epoch, so it is alive (KIP-996)."""

    epoch: int
    leader_id: int
    leader_end_points: tuple[VoterEndPoint, ...] = ()
    voted_id: int = -1
    voted_directory_id: Uuid | None = None
    has_fetched: bool = False


@value_class
class Resigned:
    """Led `epoch` and gave it up; asks again after `election_deadline_ms` (None: it is shutting down)."""

    epoch: int
    election_deadline_ms: int | None = None


Role = Unattached | Prospective | Candidate | Leader | Follower | Resigned

_HIGHER: Final = "higher"
_SAME: Final = "same"
_ANY: Final = "any"

_TABLE: Final[dict[tuple[type, type], str]] = {
    (Unattached, Unattached): _ANY,
    (Unattached, Prospective): _SAME,
    (Unattached, Follower): _ANY,
    (Prospective, Prospective): _SAME,
    (Prospective, Candidate): _HIGHER,
    (Prospective, Unattached): _ANY,
    (Prospective, Follower): _ANY,
    (Candidate, Candidate): _SAME,
    (Candidate, Prospective): _SAME,
    (Candidate, Leader): _SAME,
    (Candidate, Unattached): _HIGHER,
    (Candidate, Follower): _ANY,
    (Leader, Leader): _SAME,
    (Leader, Resigned): _SAME,
    (Leader, Unattached): _HIGHER,
    (Leader, Follower): _HIGHER,
    (Follower, Follower): _ANY,
    (Follower, Prospective): _SAME,
    (Follower, Unattached): _HIGHER,
    (Resigned, Resigned): _SAME,
    (Resigned, Prospective): _SAME,
    (Resigned, Unattached): _HIGHER,
    (Resigned, Follower): _HIGHER,
}
"""(from, to) -> how the epoch must move: `higher`, `same`, or `any` (not lower)."""


class IllegalTransition(RaftInvariantBroken):
    """A change of role that is not in the table: a bug of ours, or two leaders of one epoch."""


def check_transition(before: Role, after: Role, *, is_certain: bool = True) -> None:
    """Raises IllegalTransition unless the table allows `before` -> `after`, with the epoch moving as it says (R3).

    `is_certain`: the leader that `before` names leads its epoch for sure (`is_leader_certain`).
    """
    rule = _TABLE.get((type(before), type(after)))
    if rule is None:
        raise IllegalTransition(f"{type(before).__name__} cannot become {type(after).__name__}")
    if rule is _HIGHER:
        is_allowed = after.epoch > before.epoch
    elif rule is _SAME:
        is_allowed = after.epoch == before.epoch
    else:
        is_allowed = after.epoch >= before.epoch
    if not is_allowed:
        raise IllegalTransition(
            f"{type(before).__name__} of epoch {before.epoch} cannot become {type(after).__name__} of epoch {after.epoch}"
        )
    if before.epoch == after.epoch and is_certain:
        _check_same_leader(before, after)


def is_leader_certain(role: Role, *, log_epoch: int) -> bool:
    """Whether the leader that the role names served this node in its epoch; else somebody only said that it leads.

    `log_epoch` is that of the log's last record.
    """
    return (isinstance(role, Follower) and role.has_fetched) or log_epoch >= role.epoch


def _check_same_leader(before: Role, after: Role) -> None:
    """An epoch has one leader (KIP-595)."""
    known = leader_of(before)
    if known >= 0 and isinstance(after, Follower) and known != after.leader_id:
        raise IllegalTransition(f"epoch {before.epoch} has the leader {known}, not {after.leader_id}")


def leader_of(role: Role) -> int:
    """Who leads the role's epoch as far as another node told; -1 = unknown, or this node itself."""
    match role:
        case Unattached() | Prospective() | Follower():
            return role.leader_id
        case Candidate() | Leader() | Resigned():
            return -1
