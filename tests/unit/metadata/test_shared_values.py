"""Equal tuples once, quick values, and the partitions of new topics in a delta."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from immutables import Map

from headrace.core.ids import Uuid
from headrace.metadata import shared_values
from headrace.metadata.delta import NewPartitions, PartitionDelta
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration
from headrace.metadata.replay import ReplayError, replay, replay_all
from headrace.metadata.shared_values import shared
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message

IDS = [Uuid(bytes([number]) * 16) for number in (1, 2)]
NUMBERS = st.integers(0, 2)
RECORDS = st.one_of(
    st.builds(lambda which: TopicRecord(name=f"t{which}", topic_id=IDS[which]), st.integers(0, 1)),
    st.builds(
        lambda which, number: PartitionRecord(
            partition_id=number, topic_id=IDS[which], replicas=(1, 2), isr=(1, 2), leader=1
        ),
        st.integers(0, 1),
        NUMBERS,
    ),
    st.builds(
        lambda which, number, isr: PartitionChangeRecord(
            partition_id=number, topic_id=IDS[which], isr=tuple(isr), leader=isr[0]
        ),
        st.integers(0, 1),
        NUMBERS,
        st.sampled_from([[1], [2], [1, 2]]),
    ),
    st.builds(lambda which: RemoveTopicRecord(topic_id=IDS[which]), st.integers(0, 1)),
    st.builds(
        lambda value: ConfigRecord(resource_type=2, resource_name="t0", name="x", value=value), st.text(max_size=1)
    ),
)


def test_equal_tuples_are_kept_once() -> None:
    """inv:C2: sharing means nothing to whoever compares; a new partition's ISR is its replicas."""
    one, other = shared((7, 8, 9)), shared(tuple([7, 8, 9]))
    assert one is other
    topic = TopicRecord(name="t", topic_id=IDS[0])
    made = PartitionRecord(partition_id=0, topic_id=IDS[0], replicas=tuple([7, 8, 9]), isr=tuple([7, 8, 9]), leader=7)
    image = replay_all(EMPTY_IMAGE, [topic, made])
    partition = image.topics.by_name["t"].partitions[0]
    assert partition.replicas is one
    assert partition.isr is one


def test_what_is_remembered_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Distinct tuples past the bound begin a new memory; those that are held stay what they are."""
    monkeypatch.setattr(shared_values, "_shared", {})
    monkeypatch.setattr(shared_values, "MAX_SHARED", 3)
    held = [shared((number,)) for number in range(5)]
    assert held == [(number,) for number in range(5)]
    assert len(shared_values._shared) <= 3


def test_a_partition_is_a_value() -> None:
    """Equal by content, hashable, copied with changes."""
    one = PartitionRegistration(replicas=(1, 2), isr=(1, 2), leader=1)
    assert one == PartitionRegistration(replicas=(1, 2), isr=(1, 2), leader=1)
    assert hash(one) == hash(replace(one))
    assert replace(one, leader=2) != one


def test_deltas_of_new_partitions_are_made_when_they_are_looked_at() -> None:
    """B-S09: ascending, as a mapping that was filled would be."""
    partitions = {number: PartitionRegistration(replicas=(1,), isr=(1,), leader=1) for number in (2, 0, 1)}
    found = NewPartitions(Map(partitions))
    assert list(found.items()) == [(number, PartitionDelta(None, partitions[number])) for number in (0, 1, 2)]
    assert (len(found), 1 in found, 5 in found) == (3, True, False)


@given(st.lists(RECORDS, max_size=20))
def test_a_run_means_what_its_records_mean_one_by_one(records: list[Message]) -> None:
    """inv:C2, inv:C18: also when topics alternate, and the same record is the one that does not fit."""
    image: MetadataImage | None = EMPTY_IMAGE
    for record in records:
        assert image is not None
        try:
            image = replay(image, record)
        except ReplayError:
            image = None
            break
    try:
        found: MetadataImage | None = replay_all(EMPTY_IMAGE, records)
    except ReplayError:
        found = None
    assert found == image
