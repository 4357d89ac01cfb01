"""B-R02, B-R27: which role may follow which, for every pair of roles."""

from __future__ import annotations

import itertools

import pytest

from headrace.raft.roles import (
    Candidate,
    Follower,
    IllegalTransition,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    check_transition,
)


def roles(epoch: int) -> dict[str, Role]:
    """One role of each kind in this epoch."""
    return {
        "unattached": Unattached(epoch=epoch),
        "prospective": Prospective(epoch=epoch, election_deadline_ms=0),
        "candidate": Candidate(epoch=epoch, election_deadline_ms=0),
        "leader": Leader(epoch=epoch, epoch_start_offset=0, granting_voters=(1,)),
        "follower": Follower(epoch=epoch, leader_id=2),
        "resigned": Resigned(epoch=epoch),
    }


HIGHER_ONLY = {
    ("prospective", "candidate"),
    ("candidate", "unattached"),
    ("leader", "unattached"),
    ("leader", "follower"),
    ("follower", "unattached"),
    ("resigned", "unattached"),
    ("resigned", "follower"),
}
SAME_ONLY = {
    ("unattached", "prospective"),
    ("prospective", "prospective"),
    ("follower", "prospective"),
    ("candidate", "candidate"),
    ("candidate", "prospective"),
    ("candidate", "leader"),
    ("leader", "leader"),
    ("leader", "resigned"),
    ("resigned", "resigned"),
    ("resigned", "prospective"),
}
SAME_OR_HIGHER = {
    ("unattached", "unattached"),
    ("unattached", "follower"),
    ("prospective", "unattached"),
    ("prospective", "follower"),
    ("candidate", "follower"),
    ("follower", "follower"),
}
PAIRS = list(itertools.product(roles(1), repeat=2))


def is_legal(before: str, after: str, step: int) -> bool:
    """The rule in plain words: which pairs may, and how the epoch must move."""
    pair = (before, after)
    if step > 0:
        return pair in HIGHER_ONLY | SAME_OR_HIGHER
    return step == 0 and pair in SAME_ONLY | SAME_OR_HIGHER


@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("step", [-1, 0, 1])
def test_every_legal_pair_passes_and_every_other_raises(before: str, after: str, step: int) -> None:
    """B-R02."""
    change = (roles(5)[before], roles(5 + step)[after])
    if is_legal(before, after, step):
        check_transition(*change)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(*change)


def test_an_epoch_has_one_leader() -> None:
    """KIP-595: a follower cannot hear of a second leader of the same epoch."""
    with pytest.raises(IllegalTransition, match="epoch 5 has the leader 2, not 3"):
        check_transition(Follower(epoch=5, leader_id=2), Follower(epoch=5, leader_id=3))
