"""Do records go to the partitions where every Kafka client would put them?"""

from __future__ import annotations

import random

import pytest

from headrace.client.partitioner import StickyChoice, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_values_that_kafkas_own_test_lists(key: bytes, signed: int) -> None:
    """Source: the values in the Java client's UtilsTest."""
    assert murmur2(key) == signed % 2**32


def test_a_key_stays_with_its_partition() -> None:
    """The same key and count give the same partition, within the count."""
    for count in (1, 3, 50):
        found = [partition_for_key(str(number).encode(), count) for number in range(200)]
        assert found == [partition_for_key(str(number).encode(), count) for number in range(200)]
        assert set(found) <= set(range(count))


def test_records_without_a_key_stay_together_until_a_batch_is_full() -> None:
    """KIP-794: another partition is chosen only after `batch_bytes` went to one."""
    choice = StickyChoice(batch_bytes=100, rng=random.Random(3))
    first = [choice.choose([0, 1, 2], 30) for _ in range(4)]
    assert len(set(first)) == 1
    assert choice.choose([0, 1, 2], 30) != first[0]


def test_a_partition_that_lost_its_leader_is_left() -> None:
    """KIP-794: only available partitions are chosen."""
    choice = StickyChoice(batch_bytes=10**9, rng=random.Random(3))
    first = choice.choose([0, 1], 1)
    assert choice.choose([1 - first], 1) == 1 - first
