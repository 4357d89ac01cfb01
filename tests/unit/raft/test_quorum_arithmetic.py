"""Majorities, the high watermark and votes, against plain twins."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.raft.election import election_backoff, election_timeout, is_up_to_date, may_grant_vote
from headrace.raft.quorum import is_majority, majority_end_offset, majority_of, next_high_watermark
from headrace.raft.roles import Candidate, Follower, Leader, Resigned, Unattached

OFFSETS = st.lists(st.integers(0, 20), min_size=1, max_size=7)
OTHER = Uuid(b"o" * 16)


def test_majorities() -> None:
    """KIP-595: more than half."""
    assert [majority_of(voters) for voters in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]
    assert not is_majority(0, voters=0)
    assert is_majority(1, voters=1)
    assert not is_majority(1, voters=2)


@given(OFFSETS)
def test_majority_end_offset_is_what_a_majority_holds(offsets: list[int]) -> None:
    """Twin: the highest offset that more than half of the voters have reached."""
    twin = max(end for end in range(21) if sum(each >= end for each in offsets) * 2 > len(offsets))
    assert majority_end_offset(offsets) == twin


@given(st.integers(0, 20), OFFSETS, st.integers(0, 20))
def test_high_watermark_waits_for_a_record_of_the_own_epoch(current: int, offsets: list[int], start: int) -> None:
    """Raft 5.4.2, KIP-595: commit only in the own epoch, and never move back."""
    moved = next_high_watermark(current=current, end_offsets=offsets, epoch_start_offset=start)
    assert moved >= current
    if moved > current:
        assert moved > start


def test_a_log_is_up_to_date_by_its_last_epoch_then_its_length() -> None:
    """KIP-595."""
    own = OffsetAndEpoch(10, 3)
    assert is_up_to_date(OffsetAndEpoch(10, 3), own)
    assert is_up_to_date(OffsetAndEpoch(1, 4), own)
    assert not is_up_to_date(OffsetAndEpoch(9, 3), own)
    assert not is_up_to_date(OffsetAndEpoch(99, 2), own)


def grant(role: object, *, is_fresh: bool = True, is_pre_vote: bool = False, directory: Uuid = ZERO_UUID) -> bool:
    """Whether voter 2 gets the vote."""
    return may_grant_vote(
        role,  # type: ignore[arg-type]
        candidate_id=2,
        candidate_directory_id=directory,
        is_up_to_date=is_fresh,
        is_pre_vote=is_pre_vote,
    )


def test_one_vote_an_epoch() -> None:
    """B-R03, KIP-595, KIP-853, KIP-996: to whom a vote may be given."""
    assert grant(Unattached(epoch=1))
    assert not grant(Unattached(epoch=1), is_fresh=False)
    assert grant(Unattached(epoch=1, voted_id=2))
    assert not grant(Unattached(epoch=1, voted_id=3))
    assert not grant(Unattached(epoch=1, voted_id=2, voted_directory_id=OTHER), directory=Uuid(b"x" * 16))
    assert grant(Unattached(epoch=1, voted_id=3), is_pre_vote=True)
    for role in (Candidate(epoch=1, election_deadline_ms=0), Resigned(epoch=1)):
        assert not grant(role)
        assert grant(role, is_pre_vote=True)
    for known in (Unattached(epoch=1, leader_id=3), Follower(epoch=1, leader_id=3)):
        assert not grant(known)
        assert grant(known, is_pre_vote=True)
    leader = Leader(epoch=1, epoch_start_offset=0, granting_voters=(1,))
    for served in (leader, Follower(epoch=1, leader_id=3, has_fetched=True)):
        assert not grant(served)
        assert not grant(served, is_pre_vote=True)


def test_election_waits_are_bounded() -> None:
    """S1-18, S1-19: a wait in [t, 2t), a backoff that doubles up to its cap."""
    rng = random.Random(7)
    assert all(1_000 <= election_timeout(1_000, rng) < 2_000 for _ in range(200))
    for retries, choices in ((1, 2), (2, 4), (3, 8)):
        waits = {election_backoff(retries, max_ms=1_000, rng=rng) for _ in range(200)}
        assert waits == {100 * each for each in range(choices)}
    for retries in (10, 60):
        waits = {election_backoff(retries, max_ms=1_000, rng=rng) for _ in range(200)}
        assert max(waits) == 1_000
