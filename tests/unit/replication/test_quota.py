"""Throttled replication: what the quota counts, and what a follower leaves out while it is exceeded (KIP-73)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.follower_events import (
    Fetched,
    FollowedPartition,
    FollowerEffect,
    FollowerState,
    PartitionListed,
    PartitionsFollowed,
    PartitionsLeft,
    PartitionTold,
    SendFetch,
    TimeAdvanced,
)
from headrace.replication.quota import UNBOUNDED, ReplicationQuota, lists_replica
from headrace.sim.disk import LossyFiles
from tests.support.peer import batch
from tests.support.stores import memory_store
from tests.unit.replication.test_follower import KEY, OTHER, log_of


def quota(*, bound: int = 1_000, samples: int = 11, sample_ms: int = 1_000) -> ReplicationQuota:
    """One with a bound."""
    made = ReplicationQuota(samples=samples, sample_ms=sample_ms)
    made.bound = bound
    return made


# --- the quota ---


def test_the_first_second_counts_as_a_whole_one() -> None:
    """Kafka behaviour (SimpleRate): a burst at the beginning is its size a second, and fades with the time since."""
    counted = quota()
    counted.record(1_500, 10_000)
    rates = [counted.rate(now_ms) for now_ms in (10_000, 11_000, 11_500, 13_000)]
    assert rates == [1_500, 1_500, 1_000, 500]
    assert [counted.is_exceeded(now_ms) for now_ms in (10_000, 11_499, 11_500)] == [True, True, False]


def test_what_is_older_than_the_windows_counts_no_more() -> None:
    """`replication.quota.window.num` samples of `replication.quota.window.size.seconds`."""
    counted = quota(samples=3, sample_ms=2_000)
    counted.record(6_000, 0)
    counted.record(300, 2_000)
    assert counted.rate(5_999) == 6_300 * 1_000 / 5_999
    assert counted.rate(6_000) == 300 * 1_000 / 4_000
    assert counted.rate(8_000) == 0
    assert not counted.is_used or counted.bound == 1_000


def test_many_small_records_are_few_samples() -> None:
    """The memory is the samples', and the sum is that of a plain twin."""
    counted = quota(samples=4)
    plain: list[list[int]] = []
    for now_ms in range(0, 9_000, 7):
        counted.record(now_ms % 13, now_ms)
        if not plain or now_ms - plain[-1][0] >= 1_000:
            plain.append([now_ms, 0])
        plain[-1][1] += now_ms % 13
    kept = [each for each in plain if 8_993 - each[0] < 4_000]
    assert counted.rate(8_993) == sum(size for _, size in kept) * 1_000 / max(8_993 - kept[0][0], 1_000)


def test_without_a_bound_nothing_is_exceeded() -> None:
    """Kafka behaviour: the rate is unlimited by default."""
    counted = ReplicationQuota(samples=11, sample_ms=1_000)
    assert not counted.is_used
    counted.record(1 << 40, 0)
    assert (counted.bound, counted.is_exceeded(0), counted.is_used) == (UNBOUNDED, False, True)


@pytest.mark.parametrize("bound", [0, 100, 999])
def test_when_it_will_be_acceptable_is_known(bound: int) -> None:
    """At that time, and not a moment before, unless the caller looks earlier."""
    counted = quota(bound=bound)
    counted.record(5_000, 100)
    at_ms = counted.acceptable_at_ms(100, latest_ms=60_000)
    if bound:
        assert counted.is_exceeded(min(at_ms, 11_099) - 1)
        assert not counted.is_exceeded(at_ms)
    assert quota().acceptable_at_ms(100, latest_ms=150) == 150


@pytest.mark.parametrize(
    ("listed", "expected"),
    [((), False), (("*",), True), (("3:1",), True), (("3:2", "4:1"), False), (("13:1", "3:11"), False)],
)
def test_a_topics_list_names_replicas(listed: tuple[str, ...], expected: bool) -> None:
    """KIP-73: `*`, or pairs of partition and broker."""
    assert lists_replica(listed, 3, 1) is expected


# --- the follower ---


class Throttled:
    """A fetcher of two partitions, of which the first is listed; a batch of each is 70 bytes or so, and the bound 100 a second."""

    def __init__(self, *, is_listed: bool = True, bound: int = 100) -> None:
        self.quota = quota(bound=bound)
        self.fetcher = ReplicaFetcher(backoff_ms=1_000, quota=self.quota)
        store = memory_store(LossyFiles())
        self.logs = {KEY: log_of(store), OTHER: log_of(store, 1)}
        self.now_ms = 50_000
        self.partitions = {key: FollowedPartition(key, log, leader_epoch=1) for key, log in self.logs.items()}
        self.partitions[KEY].is_listed = is_listed
        self.effects = self.step(PartitionsFollowed(partitions=tuple(self.partitions.values()), now_ms=self.now_ms))

    def step(self, event: Any) -> list[FollowerEffect]:
        """One event."""
        self.effects = self.fetcher.step(event)
        return self.effects

    def told(self, *keys: TopicIdPartition, high_watermark: int = 99, size: int = 400) -> list[FollowerEffect]:
        """The leader sends a batch of each."""
        told = []
        for key in keys:
            data = batch(b"x" * size)
            data[:8] = self.logs[key].log_end_offset.to_bytes(8, "big")
            data[12:16] = (1).to_bytes(4, "big")
            told.append(PartitionTold(key, ErrorCode.NONE, high_watermark, 0, None, memoryview(data)))
        event = Fetched(session_id=7, error=ErrorCode.NONE, told=told, now_ms=self.now_ms, wall_ms=4_102_444_800_000)
        return self.step(event)

    @property
    def sent(self) -> SendFetch:
        """The fetch that was ordered last."""
        (found,) = [each for each in self.effects if isinstance(each, SendFetch)]
        return found

    def states(self) -> list[FollowerState]:
        """Of the two."""
        return [each.state for each in self.partitions.values()]


def test_what_is_behind_and_listed_is_left_out_while_too_much_came() -> None:
    """KIP-73: the session forgets it, the other goes on; when the rate has fallen it is asked for again, from where it was."""
    both = Throttled()
    both.told(KEY, OTHER)
    assert [key for key, _ in both.sent.plan.asks] == [OTHER]
    assert both.sent.plan.forgotten == [KEY]
    assert both.states() == [FollowerState.THROTTLED, FollowerState.FETCHING]
    assert both.fetcher.next_deadline_ms is None, "the next fetch may go when this one is answered"
    both.now_ms += 20_000
    both.told(OTHER)
    assert dict(both.sent.plan.asks)[KEY].fetch_offset == 1
    assert both.states() == [FollowerState.FETCHING, FollowerState.FETCHING]


def test_a_fetcher_with_nothing_else_to_ask_looks_again_in_time() -> None:
    """KIP-73: no fetch goes meanwhile, and none too late."""
    both = Throttled()
    both.step(PartitionsLeft(keys=(OTHER,)))
    both.told(KEY, size=60)
    size = both.fetcher.bytes_in
    assert both.sent.plan.asks == []
    both.step(Fetched(session_id=7, error=ErrorCode.NONE, told=(), now_ms=both.now_ms, wall_ms=4_102_444_800_000))
    assert both.effects == []
    due_ms = both.fetcher.next_deadline_ms
    assert due_ms == both.now_ms + min(1_000, size * 10)
    both.now_ms += 10_000
    both.step(TimeAdvanced(now_ms=both.now_ms))
    assert [key for key, _ in both.sent.plan.asks] == [KEY]
    assert both.fetcher.next_deadline_ms is None


@pytest.mark.parametrize("reason", ["in sync", "not listed", "no bound"])
def test_only_what_is_behind_and_listed_waits(reason: str) -> None:
    """KIP-73: a replica in sync is never held back, so that no throttle takes it out of the ISR; what it takes counts all the same."""
    both = Throttled(is_listed=reason != "not listed", bound=UNBOUNDED if reason == "no bound" else 100)
    both.told(KEY, OTHER, high_watermark=1 if reason == "in sync" else 99)
    assert {key for key, _ in both.sent.plan.asks} == {KEY, OTHER}
    assert (both.quota.rate(both.now_ms) > 0) is (reason != "not listed")


def test_a_partition_that_is_listed_no_more_goes_on_at_once() -> None:
    """KIP-73: by the topic's settings."""
    both = Throttled()
    both.told(KEY, OTHER)
    both.step(PartitionListed(key=KEY, is_listed=False))
    assert both.states() == [FollowerState.FETCHING, FollowerState.FETCHING]
    both.told(KEY, OTHER)
    assert {key for key, _ in both.sent.plan.asks} == {KEY, OTHER}


def test_a_partition_that_comes_to_be_listed_waits_with_the_next_records() -> None:
    """KIP-73: by the topic's settings."""
    both = Throttled(is_listed=False)
    both.told(KEY, OTHER)
    both.step(PartitionListed(key=KEY, is_listed=True))
    both.told(KEY, OTHER)
    assert both.states() == [FollowerState.THROTTLED, FollowerState.FETCHING]


def test_a_new_leader_epoch_does_not_lift_the_throttle() -> None:
    """KIP-73: of a new leader nobody knows yet whether it has more."""
    both = Throttled()
    both.told(KEY, OTHER)
    again = FollowedPartition(KEY, both.logs[KEY], leader_epoch=2)
    again.is_listed = True
    both.step(PartitionsFollowed(partitions=(again,), now_ms=both.now_ms))
    assert again.state is FollowerState.THROTTLED
    both.step(PartitionsLeft(keys=(KEY,)))
    both.now_ms += 60_000
    both.told(OTHER)
    assert {key for key, _ in both.sent.plan.asks} == {OTHER}
