"""Which roles may a node of the quorum have, and which may follow which?

One frozen value a role, holding only what that role needs. `check_transition` is the table of B-R02; every change of role goes
through it, so a change that is not in the table is a bug that stops the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.core.ids import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class Unattached:
    """Knows no leader of `epoch`; may have voted in it. Waits until `election_deadline_ms` (None: an observer, for ever)."""

    epoch: int
    voted_id: int = -1
    voted_directory_id: Uuid | None = None
    election_deadline_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Asks for votes in `epoch`. Ids of voters that answered; our own vote counts once it is on disk (B-R03)."""

    epoch: int
    granted: frozenset[int] = frozenset()
    rejected: frozenset[int] = frozenset()
    election_deadline_ms: int
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leader:
    """Leads `epoch`, whose first record (LeaderChange) has `epoch_start_offset`.

    `is_claimed`: that record is committed, so everything before it is, and the controller was told.
    """

    epoch: int
    epoch_start_offset: int
    granting_voters: tuple[int, ...]
    is_claimed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Follows the leader of `epoch`; after `fetch_deadline_ms` without a good fetch it stands for election."""

    epoch: int
    leader_id: int
    fetch_deadline_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """Led `epoch` and gave it up; stands again after `election_deadline_ms` (None: it is shutting down)."""

    epoch: int
    election_deadline_ms: int | None = None


Role = Unattached | Candidate | Leader | Follower | Resigned

_HIGHER: Final = "higher"
_SAME: Final = "same"
_ANY: Final = "any"

_TABLE: Final[dict[tuple[type, type], str]] = {
    (Unattached, Unattached): _ANY,
    (Unattached, Candidate): _HIGHER,
    (Unattached, Follower): _ANY,
    (Candidate, Candidate): _ANY,
    (Candidate, Leader): _SAME,
    (Candidate, Unattached): _HIGHER,
    (Candidate, Follower): _ANY,
    (Leader, Leader): _SAME,
    (Leader, Resigned): _SAME,
    (Leader, Unattached): _HIGHER,
    (Leader, Follower): _HIGHER,
    (Follower, Follower): _ANY,
    (Follower, Candidate): _HIGHER,
    (Follower, Unattached): _HIGHER,
    (Resigned, Unattached): _HIGHER,
    (Resigned, Candidate): _HIGHER,
    (Resigned, Follower): _HIGHER,
}
"""(from, to) -> how the epoch must move: `higher`, `same`, or `any` (not lower)."""


class IllegalTransition(AssertionError):
    """A change of role that is not in the table: a bug of ours."""


def check_transition(before: Role, after: Role) -> None:
    """Raises IllegalTransition unless the table allows `before` -> `after`, with the epoch moving as it says."""
    rule = _TABLE.get((type(before), type(after)))
    if rule is None:
        raise IllegalTransition(f"{type(before).__name__} cannot become {type(after).__name__}")
    allowed = {
        _HIGHER: after.epoch > before.epoch,
        _SAME: after.epoch == before.epoch,
        _ANY: after.epoch >= before.epoch,
    }[rule]
    if not allowed:
        raise IllegalTransition(
            f"{type(before).__name__} of epoch {before.epoch} cannot become {type(after).__name__} of epoch {after.epoch}"
        )
    if isinstance(before, Follower) and isinstance(after, Follower):
        _check_same_leader(before, after)


def _check_same_leader(before: Follower, after: Follower) -> None:
    """An epoch has one leader (KIP-595)."""
    if before.epoch == after.epoch and before.leader_id != after.leader_id:
        raise IllegalTransition(f"epoch {before.epoch} has the leader {before.leader_id}, not {after.leader_id}")
