"""KIP-227: what does a fetch session remember, and when must one make room?"""

from __future__ import annotations

import random
from collections.abc import Hashable

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.replication.fetch_session import EVICTION_MS, FetchSession, FetchSessionCache, SessionPartition


def partition(name: str, index: int = 0, *, fetch_offset: int = 0) -> tuple[Hashable, SessionPartition]:
    """A partition as a request asks for it."""
    asked = SessionPartition(
        topic=name, topic_id=ZERO_UUID, partition=index, fetch_offset=fetch_offset, max_bytes=1 << 20
    )
    return (name, index), asked


def cache(slots: int = 2) -> FetchSessionCache:
    """A small cache with a seeded rng."""
    return FetchSessionCache(slots=slots, rng=random.Random(7))


def create(sessions: FetchSessionCache, *, now_ms: int = 0, is_privileged: bool = False) -> FetchSession | None:
    """A session with one partition."""
    return sessions.create([partition("a")], is_privileged=is_privileged, by_id=False, now_ms=now_ms)


def test_an_incremental_fetch_needs_the_session_and_its_next_epoch() -> None:
    """B-P07: unknown id is 70, a wrong epoch 71."""
    sessions = cache()
    session = create(sessions)
    assert session is not None
    assert sessions.resume(session.id + 1, 1, now_ms=1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.resume(session.id, 2, now_ms=1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.resume(session.id, 1, now_ms=1) is session
    session.next_epoch()
    assert sessions.resume(session.id, 1, now_ms=1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_the_epoch_wraps_to_one() -> None:
    """0 and -1 have meanings of their own."""
    session = create(cache())
    assert session is not None
    session.epoch = 2**31 - 1
    session.next_epoch()
    assert session.epoch == 1


def test_a_partition_is_told_only_when_something_changed() -> None:
    _, asked = partition("a")
    assert asked.was_told(high_watermark=5, log_start_offset=0, is_loud=False)
    assert not asked.was_told(high_watermark=5, log_start_offset=0, is_loud=False)
    assert asked.was_told(high_watermark=6, log_start_offset=0, is_loud=False)
    assert asked.was_told(high_watermark=6, log_start_offset=1, is_loud=False)
    assert asked.was_told(high_watermark=6, log_start_offset=1, is_loud=True)


def test_a_session_adds_changes_and_forgets() -> None:
    session = create(cache())
    assert session is not None
    session.update([partition("b"), partition("a", fetch_offset=9)], [])
    assert [key for key in session.partitions] == [("a", 0), ("b", 0)]
    assert session.partitions["a", 0].fetch_offset == 9
    session.update([], [("a", 0), ("never", 3)])
    assert [key for key in session.partitions] == [("b", 0)]


def test_a_served_partition_goes_behind_the_others() -> None:
    """So that no partition of a session starves."""
    session = create(cache())
    assert session is not None
    session.update([partition("b"), partition("c")], [])
    session.served(session.partitions["a", 0])
    assert [partition.topic for partition in session.to_read()] == ["b", "c", "a"]


def test_a_full_cache_refuses_a_consumer_and_makes_room_for_a_follower() -> None:
    """M5: at most `max.incremental.fetch.session.cache.slots` sessions."""
    sessions = cache(slots=2)
    first, second = create(sessions, now_ms=0), create(sessions, now_ms=1)
    assert first is not None
    assert second is not None
    assert create(sessions, now_ms=2) is None
    follower = create(sessions, now_ms=3, is_privileged=True)
    assert follower is not None
    assert len(sessions) == 2
    assert sessions.resume(first.id, 1, now_ms=3) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.evictions == 1


def test_a_session_unused_for_two_minutes_makes_room() -> None:
    sessions = cache(slots=1)
    assert create(sessions, now_ms=0) is not None
    assert create(sessions, now_ms=EVICTION_MS) is None
    assert create(sessions, now_ms=EVICTION_MS + 1) is not None


def test_without_slots_there_are_no_sessions() -> None:
    assert create(cache(slots=0)) is None
