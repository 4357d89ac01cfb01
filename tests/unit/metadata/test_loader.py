"""Committed batches and snapshots become an image, and what changed becomes a delta."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from headrace.core.ids import Uuid
from headrace.metadata.delta import PartitionDelta
from headrace.metadata.image import ConfigResource, MetadataProvenance
from headrace.metadata.loader import Decided, MetadataFault, MetadataLoader
from headrace.metadata.replay import replay_all
from headrace.metadata.snapshot import VersionedRecord, snapshot_content
from headrace.wire.metadata_records.abort_transaction_record import AbortTransactionRecord
from headrace.wire.metadata_records.begin_transaction_record import BeginTransactionRecord
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.end_transaction_record import EndTransactionRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import decode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message

T1, T2 = Uuid(b"1" * 16), Uuid(b"2" * 16)


class Batch(NamedTuple):
    """A committed batch as the loader takes it."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp: int
    records: tuple[bytes, ...]


class Feed:
    """A loader and the offset at which the log goes on."""

    def __init__(self) -> None:
        self.loader = MetadataLoader()
        self.next_offset = 0

    def batch(self, *records: Message, epoch: int = 1) -> Batch:
        """The next batch; without records a control batch."""
        base = self.next_offset
        self.next_offset += max(len(records), 1)
        data = tuple(VersionedRecord(each, 0).encode() for each in records)
        return Batch(base, self.next_offset - 1, epoch, 100 + base, data)


def partition(topic_id: Uuid, leader: int = 1, *, replicas: tuple[int, ...] = (1, 2)) -> PartitionRecord:
    """Partition 0."""
    return PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
    )


def test_the_image_follows_the_batches() -> None:
    """B-R01: control batches move the offset; the provenance is that of the last batch."""
    feed = Feed()
    delta = feed.loader.load_batches([feed.batch(), feed.batch(TopicRecord(name="t", topic_id=T1), partition(T1))])
    assert delta is not None
    assert delta.image is feed.loader.image
    assert feed.loader.image.provenance == MetadataProvenance(
        last_contained_offset=2, last_contained_epoch=1, last_contained_log_time_ms=101
    )
    assert feed.loader.next_offset == 3
    change = delta.changed_topics[T1]
    assert change.before is None
    after = delta.image.topics.by_id[T1].partitions[0]
    assert change.partitions == {0: PartitionDelta(None, after)}
    assert change.partitions[0].is_new_leader_epoch


def test_nothing_new_makes_no_delta_and_a_no_op_an_empty_one() -> None:
    """B-C16: the offset moves on in an idle cluster."""
    feed = Feed()
    assert feed.loader.load_batches([]) is None
    delta = feed.loader.load_batches([feed.batch(NoOpRecord())])
    assert delta is not None
    assert delta.is_empty


def test_the_delta_names_what_the_records_touched() -> None:
    """Cost: the change. What ends as it began is not in it."""
    feed = Feed()
    feed.loader.load_batches(
        [
            feed.batch(TopicRecord(name="t", topic_id=T1), partition(T1)),
            feed.batch(TopicRecord(name="u", topic_id=T2), partition(T2)),
            feed.batch(ConfigRecord(resource_type=2, resource_name="u", name="a", value="1")),
            feed.batch(RegisterBrokerRecord(broker_id=1, broker_epoch=7)),
        ]
    )
    delta = feed.loader.load_batches(
        [
            feed.batch(PartitionChangeRecord(partition_id=0, topic_id=T1, isr=(1,))),
            feed.batch(RemoveTopicRecord(topic_id=T2)),
            feed.batch(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1)),
            feed.batch(FeatureLevelRecord(name="metadata.version", feature_level=30)),
            feed.batch(ConfigRecord(resource_type=4, resource_name="", name="a", value="1")),
            feed.batch(ConfigRecord(resource_type=4, resource_name="", name="a", value=None)),
        ]
    )
    assert delta is not None
    assert list(delta.changed_topics) == [T1]
    assert not delta.changed_topics[T1].partitions[0].is_new_leader_epoch
    assert [topic.name for topic in delta.deleted_topics.values()] == ["u"]
    assert delta.changed_brokers == (1,)
    assert delta.changed_features == ("metadata.version",)
    assert delta.changed_configs == (ConfigResource(2, "u"),)


def test_a_topic_made_and_deleted_between_two_deltas_is_in_neither() -> None:
    """S1-37: nobody ever hosted it."""
    feed = Feed()
    delta = feed.loader.load_batches(
        [feed.batch(TopicRecord(name="t", topic_id=T1), partition(T1)), feed.batch(RemoveTopicRecord(topic_id=T1))]
    )
    assert delta is not None
    assert delta.is_empty


def test_what_one_broker_must_lead_follow_and_delete() -> None:
    """S1-37: leaders, followers, and replicas that are no longer its own."""
    feed = Feed()
    feed.loader.load_batches(
        [
            feed.batch(TopicRecord(name="t", topic_id=T1), partition(T1)),
            feed.batch(TopicRecord(name="u", topic_id=T2), partition(T2)),
        ]
    )
    delta = feed.loader.load_batches(
        [
            feed.batch(PartitionChangeRecord(partition_id=0, topic_id=T1, leader=2, replicas=(2, 3), isr=(2, 3))),
            feed.batch(RemoveTopicRecord(topic_id=T2)),
        ]
    )
    assert delta is not None
    names = {
        broker_id: tuple([each.topic for each in part] for part in (local.leaders, local.followers, local.removed))
        for broker_id in (1, 2, 3, 4)
        for local in [delta.local_changes(broker_id)]
    }
    assert names == {1: ([], [], ["u", "t"]), 2: (["t"], [], ["u"]), 3: ([], ["t"], []), 4: ([], [], [])}


def test_a_transaction_becomes_visible_as_a_whole() -> None:
    """B-C18, C4: between Begin and End nothing is seen, though it may take many batches."""
    feed = Feed()
    feed.loader.load_batches([feed.batch()])
    before = feed.loader.image
    begun = [
        feed.batch(BeginTransactionRecord(name="x"), TopicRecord(name="t", topic_id=T1)),
        feed.batch(partition(T1)),
    ]
    assert feed.loader.load_batches(begun) is None
    assert feed.loader.image is before
    assert feed.loader.in_transaction
    delta = feed.loader.load_batches([feed.batch(EndTransactionRecord())])
    assert delta is not None
    assert list(delta.changed_topics[T1].partitions) == [0]
    assert delta.image.provenance.last_contained_offset == 4


def test_an_aborted_transaction_never_happened() -> None:
    """B-C18: the image is that of before, the offset goes on."""
    feed = Feed()
    feed.loader.load_batches([feed.batch(FeatureLevelRecord(name="metadata.version", feature_level=30))])
    topics = feed.loader.image.topics
    feed.loader.load_batches([feed.batch(BeginTransactionRecord()), feed.batch(TopicRecord(name="t", topic_id=T1))])
    delta = feed.loader.load_batches([feed.batch(AbortTransactionRecord(reason="x"))])
    assert delta is not None
    assert delta.is_empty
    assert feed.loader.image.topics == topics
    assert feed.loader.next_offset == 4


def test_records_before_a_begin_in_the_same_batch_are_visible() -> None:
    """B-C18: a batch may end one thing and begin another."""
    feed = Feed()
    delta = feed.loader.load_batches([feed.batch(TopicRecord(name="t", topic_id=T1), BeginTransactionRecord())])
    assert delta is not None
    assert list(delta.changed_topics) == [T1]
    assert feed.loader.image.provenance.last_contained_offset == 0
    assert feed.loader.next_offset == 2


@pytest.mark.parametrize(
    "records",
    [
        (EndTransactionRecord(),),
        (AbortTransactionRecord(),),
        (BeginTransactionRecord(), BeginTransactionRecord()),
        (RemoveTopicRecord(topic_id=T1),),
    ],
)
def test_what_cannot_be_replayed_stops_the_loader_for_good(records: tuple[Message, ...]) -> None:
    """C18, B-C20: a clear message with the offset, and nothing is loaded any more."""
    feed = Feed()
    feed.loader.load_batches([feed.batch()])
    with pytest.raises(MetadataFault, match="offset"):
        feed.loader.load_batches([feed.batch(*records)])
    with pytest.raises(MetadataFault):
        feed.loader.load_batches([])


def test_an_unknown_record_stops_the_loader() -> None:
    """B-C20: type 99, and a version of a known type that nobody knows."""
    for data in (b"\x01\x63\x00\x00", b"\x01\x14\x07\x00", b"", b"\xff" * 9):
        feed = Feed()
        with pytest.raises(MetadataFault, match="record at offset 0 of the metadata log is unknown"):
            feed.loader.load_batches([Batch(0, 0, 1, 0, (data,))])


def test_a_snapshot_replaces_everything_and_tells_what_that_changed() -> None:
    """B-S09: deleted topics and lost partitions show by their absence."""
    newer = Feed()
    newer.loader.load_batches(
        [
            newer.batch(TopicRecord(name="t", topic_id=T1), partition(T1, 2, replicas=(2, 3))),
            newer.batch(RegisterBrokerRecord(broker_id=2, broker_epoch=2)),
            newer.batch(FeatureLevelRecord(name="metadata.version", feature_level=7)),
        ]
    )
    feed = Feed()
    feed.loader.load_batches(
        [
            feed.batch(TopicRecord(name="t", topic_id=T1), partition(T1)),
            feed.batch(TopicRecord(name="u", topic_id=T2), partition(T2)),
            feed.batch(RegisterBrokerRecord(broker_id=1, broker_epoch=4)),
        ]
    )
    provenance = MetadataProvenance(last_contained_offset=49, last_contained_epoch=3, last_contained_log_time_ms=9)
    delta = feed.loader.load_snapshot(snapshot_content(newer.loader.image), provenance)
    assert delta.from_snapshot
    assert list(delta.changed_topics) == [T1]
    assert [topic.name for topic in delta.deleted_topics.values()] == ["u"]
    assert delta.changed_brokers == (1, 2)
    assert delta.changed_features == ("metadata.version",)
    assert [each.topic for each in delta.local_changes(1).removed] == ["u", "t"]
    assert feed.loader.image.topics == newer.loader.image.topics
    assert feed.loader.next_offset == 50
    assert feed.loader.load_batches([Batch(50, 50, 3, 1, ())]) is not None


def test_a_snapshot_with_a_bad_record_is_refused() -> None:
    """B-C20."""
    with pytest.raises(MetadataFault, match="record 0 of the snapshot that ends at 10"):
        MetadataLoader().load_snapshot([b"\x01\x63\x00\x00"], MetadataProvenance(last_contained_offset=9))


def decided(feed: Feed, *batches: Batch) -> Decided:
    """What this node's controller made of the records of these batches, on the image that it has."""
    records = [decode_record(data) for each in batches for data in each.records]
    before = feed.loader.image
    return Decided(
        batches[0].base_offset,
        batches[-1].last_offset + 1,
        batches[0].epoch,
        records,
        before,
        replay_all(before, records),
    )


def topic_in_two_batches(feed: Feed) -> list[Batch]:
    return [feed.batch(TopicRecord(name="t", topic_id=T1)), feed.batch(partition(T1))]


def test_what_was_decided_here_is_taken_over() -> None:
    """C2: the image is that of the records; what comes next may build on it."""
    feed = Feed()
    feed.loader.load_batches([feed.batch(NoOpRecord())])
    batches = topic_in_two_batches(feed)
    first = decided(feed, *batches)
    change = feed.batch(PartitionChangeRecord(partition_id=0, topic_id=T1, leader=2))
    records = [decode_record(data) for data in change.records]
    after = replay_all(first.after, records)
    second = Decided(change.base_offset, change.last_offset + 1, 1, records, first.after, after)
    delta = feed.loader.load_batches([*batches, change], [first, second])
    assert delta is not None
    assert delta.changed_topics[T1].partitions[0].after.leader == 2
    assert feed.loader.image.topics is after.topics
    assert feed.loader.image.provenance.last_contained_offset == change.last_offset
    replayed = MetadataLoader()
    replayed.load_batches([Batch(0, 0, 1, 100, (VersionedRecord(NoOpRecord(), 0).encode(),)), *batches, change])
    assert feed.loader.image == replayed.image


def test_only_what_is_in_the_log_whole_and_of_this_epoch_is_taken_over() -> None:
    """R1, C4: the records of another leader at the same offset, half an operation, or one decided on another image are replayed."""
    for spoil in ("epoch", "half", "base", "longer"):
        feed = Feed()
        feed.loader.load_batches([feed.batch(NoOpRecord())])
        batches = topic_in_two_batches(feed)
        wrong = replay_all(feed.loader.image, [TopicRecord(name="never", topic_id=T2)])
        own = decided(feed, *batches)._replace(after=wrong)
        if spoil == "epoch":
            own = own._replace(epoch=2)
        elif spoil == "base":
            own = own._replace(before=wrong)
        elif spoil == "longer":
            own = own._replace(end_offset=own.end_offset + 1)
        for part in [batches[:1], batches[1:]] if spoil == "half" else [batches]:
            feed.loader.load_batches(part, [own])
        assert set(feed.loader.image.topics.by_name) == {"t"}, spoil
        assert set(feed.loader.image.topics.by_id[T1].partitions) == {0}, spoil


def test_a_replayed_batch_ends_what_may_be_built_on() -> None:
    """C2: an operation that was decided before records of somebody else came in between does not fit any more."""
    feed = Feed()
    first = feed.batch(TopicRecord(name="t", topic_id=T1))
    own = decided(feed, first)
    foreign, change = feed.batch(TopicRecord(name="u", topic_id=T2)), feed.batch(partition(T1))
    records = [decode_record(data) for data in change.records]
    late = Decided(change.base_offset, change.last_offset + 1, 1, records, own.after, replay_all(own.after, records))
    feed.loader.load_batches([first, foreign, change], [own, late])
    assert set(feed.loader.image.topics.by_name) == {"t", "u"}
    assert set(feed.loader.image.topics.by_id[T1].partitions) == {0}


def test_bounds_of_transactions_are_always_replayed() -> None:
    """B-C18: what is decided inside a transaction becomes visible with its end."""
    feed = Feed()
    begin = feed.batch(BeginTransactionRecord(), TopicRecord(name="t", topic_id=T1))
    own = decided(feed, begin)
    assert feed.loader.load_batches([begin], [own]) is None
    inside = feed.batch(partition(T1))
    records = [decode_record(data) for data in inside.records]
    second = Decided(inside.base_offset, inside.last_offset + 1, 1, records, own.after, replay_all(own.after, records))
    assert feed.loader.load_batches([inside], [second]) is None
    assert feed.loader.load_batches([feed.batch(EndTransactionRecord())]) is not None
    assert set(feed.loader.image.topics.by_id[T1].partitions) == {0}
