"""What the active controller derives from its image, against the plain look at all of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.isr_index import IsrIndex
from headrace.controller.topic_names import TopicNames
from headrace.core.ids import TopicIdPartition, Uuid
from headrace.metadata.image import NO_LEADER, PartitionRegistration

PLACES = [TopicIdPartition(Uuid(bytes([topic]) * 16), number) for topic in (1, 2) for number in (0, 1)]
PARTITIONS = st.builds(
    lambda isr, led: PartitionRegistration(replicas=(1, 2, 3), isr=tuple(isr), leader=isr[0] if led else NO_LEADER),
    st.lists(st.integers(1, 3), min_size=1, unique=True),
    st.booleans(),
)
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), st.none() | PARTITIONS), max_size=30)


@given(CHANGES)
def test_the_index_of_isrs_is_that_of_the_partitions(
    changes: list[tuple[TopicIdPartition, PartitionRegistration | None]],
) -> None:
    """S2-01, B-C24: who is in which ISR, who leads, what has no leader: as a walk over all partitions finds it."""
    index = IsrIndex()
    present: dict[TopicIdPartition, PartitionRegistration] = {}
    for place, after in changes:
        index.changed(*place, present.get(place), after)
        if after is None:
            present.pop(place, None)
        else:
            present[place] = after
    for broker_id in (1, 2, 3):
        expected = sorted(place for place, each in present.items() if broker_id in each.isr)
        assert list(index.partitions_with(broker_id)) == expected
        assert index.has_leaderships(broker_id) == any(each.leader == broker_id for each in present.values())
    assert list(index.without_leader()) == sorted(place for place, each in present.items() if each.leader == NO_LEADER)


NAMES = st.sampled_from(["a.b", "a_b", "ab", "a.b.c", "a_b.c", "x", "._"])


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=20), NAMES)
def test_collisions_are_those_with_existing_names(changes: list[tuple[str, bool]], asked: str) -> None:
    """B26."""
    names = TopicNames()
    present: list[str] = []
    for name, is_there in changes:
        if is_there and name not in present:
            names.add(name)
            present.append(name)
        elif not is_there and name in present:
            names.remove(name)
            present.remove(name)
    alike = [
        each for each in present if each.replace(".", "_") == asked.replace(".", "_") and ("." in each or "_" in each)
    ]
    assert names.colliding(asked) == (alike[0] if alike else None)
