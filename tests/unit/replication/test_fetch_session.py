"""KIP-227: what does a fetch session remember, and when must one make room?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Hashable

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.replication.fetch_session import NOBODY, Asker, FetchSession, SessionPartition
from headrace.replication.fetch_session_cache import (
    EVICTION_MS,
    MOST_IN_A_SESSION,
    MOST_OF_A_REPLICA,
    MOST_PARTITIONS,
    FetchSessionCache,
)


def partition(name: str, index: int = 0) -> tuple[Hashable, SessionPartition]:
    """A partition as a request asks for it."""
    asked = SessionPartition(topic=name, topic_id=ZERO_UUID, partition=index, fetch_offset=0, max_bytes=1 << 20)
    return (name, index), asked


def cache(slots: int = 2) -> FetchSessionCache:
    """A small cache with a seeded rng."""
    return FetchSessionCache(slots=slots, rng=random.Random(7))


def create(
    sessions: FetchSessionCache, asker: Asker = NOBODY, *, now_ms: int = 0, is_privileged: bool = False, count: int = 1
) -> FetchSession | None:
    """A session with so many partitions."""
    partitions = [partition("a", number) for number in range(count)]
    return sessions.create(partitions, asker=asker, is_privileged=is_privileged, by_id=False, now_ms=now_ms)


def owners(sessions: FetchSessionCache) -> Counter[Hashable]:
    """How many sessions each has."""
    return Counter(each.asker.owner for each in sessions)


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


def test_a_session_adds_and_forgets() -> None:
    session = create(cache())
    assert session is not None
    session.add(*partition("b"))
    assert [key for key in session.partitions] == [("a", 0), ("b", 0)]
    session.forget([("a", 0), ("never", 3)])
    assert [key for key in session.partitions] == [("b", 0)]


def test_a_served_partition_goes_behind_the_others() -> None:
    """So that no partition of a session starves."""
    session = create(cache())
    assert session is not None
    session.add(*partition("b"))
    session.add(*partition("c"))
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


def test_who_opens_ever_new_sessions_gives_way_to_others() -> None:
    """PR8: others were without a session as long as one client's were in use; now each gets one, and keeps it."""
    sessions = cache(slots=10)
    for number in range(30):
        create(sessions, Asker("greedy"), now_ms=number)
    assert len(sessions) == 10
    for name in ("a", "b", "c", "a"):
        assert create(sessions, Asker(name), now_ms=40) is not None
    assert owners(sessions) == {"greedy": 6, "a": 2, "b": 1, "c": 1}
    assert create(sessions, Asker("greedy"), now_ms=41) is None
    assert owners(sessions) == {"greedy": 6, "a": 2, "b": 1, "c": 1}


def test_those_who_have_the_same_number_do_not_take_turns_in_driving_each_other_out() -> None:
    """KIP-227: who is one too many fetches without a session."""
    sessions = cache(slots=4)
    for name in "abcd":
        create(sessions, Asker(name))
    assert create(sessions, Asker("e")) is None
    assert owners(sessions) == dict.fromkeys("abcd", 1)


def test_of_one_hosts_connections_the_one_with_most_sessions_gives_way() -> None:
    """PR8: clients of one host share one address."""
    sessions = cache(slots=6)
    create(sessions, Asker("host", 1))
    for _ in range(9):
        create(sessions, Asker("host", 2))
    assert create(sessions, Asker("host", 3)) is not None
    assert Counter(each.asker.connection for each in sessions) == {1: 1, 2: 4, 3: 1}


def test_who_claims_to_be_a_follower_displaces_no_more_than_a_follower_needs() -> None:
    """PR8, KIP-227: a broker has few sessions, and its id is no secret."""
    sessions = cache(slots=MOST_OF_A_REPLICA + 8)
    for number in range(MOST_OF_A_REPLICA + 8):
        create(sessions, Asker(f"client-{number}"))
    for _ in range(3 * MOST_OF_A_REPLICA):
        create(sessions, Asker(7), is_privileged=True)
    assert owners(sessions)[7] == MOST_OF_A_REPLICA
    assert sum(owners(sessions).values()) == MOST_OF_A_REPLICA + 8


def test_who_has_most_partitions_gives_way_to_others() -> None:
    """PR8: all sessions together hold so many; four of one client's filled them."""
    sessions = cache(slots=100)
    for _ in range(6):
        create(sessions, Asker("greedy"), count=MOST_IN_A_SESSION)
    assert sessions.held_partitions == MOST_PARTITIONS
    assert create(sessions, Asker("a"), count=10) is not None
    assert owners(sessions) == {"greedy": MOST_PARTITIONS // MOST_IN_A_SESSION - 1, "a": 1}


def test_nobody_ends_the_session_of_somebody_else() -> None:
    """PR8: ids are numbers of 31 bits, and may be guessed."""
    sessions = cache()
    session = create(sessions, Asker("a"))
    assert session is not None
    sessions.end(session.id, Asker("b"))
    assert len(sessions) == 1
    sessions.end(session.id, Asker("a", 9))
    assert len(sessions) == 0
