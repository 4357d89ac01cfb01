"""C19: where the replicas of new partitions go."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.placement import UsableBroker, place_replicas
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError

RACKS = st.sampled_from(["a", "b", "c", ""])


@st.composite
def clusters(draw: st.DrawFn) -> list[UsableBroker]:
    """One to nine brokers in up to four racks, at least one of them alive."""
    count = draw(st.integers(1, 9))
    fenced = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    fenced[draw(st.integers(0, count - 1))] = False
    return [UsableBroker(number, draw(RACKS), fenced[number]) for number in range(count)]


@given(clusters(), st.integers(1, 30), st.data(), st.integers(0, 9))
def test_replicas_are_apart_and_on_the_living(
    brokers: list[UsableBroker], partitions: int, data: st.DataObject, seed: int
) -> None:
    """C19, S3-65, S0-10, S1-49, D-04: never two on one broker; as many racks as possible; none on a fenced broker."""
    live = [broker for broker in brokers if not broker.is_fenced]
    factor = data.draw(st.integers(1, len(live)))
    placed = place_replicas(brokers, partitions=partitions, replication_factor=factor, rng=random.Random(seed))
    assert len(placed) == partitions
    rack_of = {broker.broker_id: broker.rack for broker in live}
    for replicas in placed:
        assert len(set(replicas)) == len(replicas) == factor
        assert set(replicas) <= set(rack_of)
        assert len({rack_of[each] for each in replicas}) == min(factor, len(set(rack_of.values())))


def test_leaders_and_replicas_are_spread_evenly() -> None:
    """KIP-36: with as many partitions as a multiple of the brokers each leads the same number."""
    brokers = [UsableBroker(number, "abc"[number % 3], False) for number in range(6)]
    placed = place_replicas(brokers, partitions=60, replication_factor=3, rng=random.Random(1))
    assert set(Counter(replicas[0] for replicas in placed).values()) == {10}
    assert all(len({number % 3 for number in replicas}) == 3 for replicas in placed)


def test_the_same_replicas_do_not_stand_together_again_and_again() -> None:
    """S3-65, KIP-36: when every broker has led once the order changes, so that what a broker held is everywhere when it goes."""
    brokers = [UsableBroker(number, None, False) for number in range(5)]
    placed = place_replicas(brokers, partitions=60, replication_factor=2, rng=random.Random(1))
    pairs = Counter(frozenset(replicas) for replicas in placed)
    assert len(pairs) == 10, "every two brokers have a partition together"
    assert max(pairs.values()) < 60 / 5


def test_the_same_chance_places_the_same() -> None:
    """Decisions repeat from one seed."""
    brokers = [UsableBroker(number, "ab"[number % 2], False) for number in range(5)]

    def placed() -> list[tuple[int, ...]]:
        return place_replicas(brokers, partitions=7, replication_factor=2, rng=random.Random(3))

    assert placed() == placed()
    assert placed() == place_replicas(brokers[::-1], partitions=7, replication_factor=2, rng=random.Random(3))


@pytest.mark.parametrize(
    ("brokers", "factor"),
    [
        ([], 1),
        ([UsableBroker(1, "", True)], 1),
        ([UsableBroker(1, "", False)], 2),
        ([UsableBroker(1, "", False)], 0),
        ([UsableBroker(1, "", False), UsableBroker(2, "", True)], 2),
    ],
)
def test_placements_that_cannot_be(brokers: list[UsableBroker], factor: int) -> None:
    """B72, D-04: INVALID_REPLICATION_FACTOR."""
    with pytest.raises(PeerError) as refusal:
        place_replicas(brokers, partitions=1, replication_factor=factor, rng=random.Random(1))
    assert refusal.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
