"""The fewest records that say all of an image, in the versions that its metadata.version asks for."""

from __future__ import annotations

import pytest

from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.metadata.bootstrap import bootstrap_records, read_bootstrap_records
from headrace.metadata.image import EMPTY_IMAGE, ScramCredential
from headrace.metadata.replay import replay_all
from headrace.metadata.snapshot import image_records, snapshot_content
from headrace.metadata.versions import (
    LATEST_METADATA_VERSION,
    METADATA_VERSION_NAMES,
    MINIMUM_METADATA_VERSION,
    partition_version,
    register_broker_version,
)
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.frame import decode_record, decode_record_with_version
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord

T1, T2 = Uuid(b"1" * 16), Uuid(b"2" * 16)
LEVELS = range(MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION + 1)


def test_a_snapshot_has_no_events_and_nothing_deleted() -> None:
    """B-S03: metadata.version first; no NoOp, no fence as such, no deleted topic."""
    image = replay_all(
        EMPTY_IMAGE,
        [
            FeatureLevelRecord(name="a.version", feature_level=1),
            FeatureLevelRecord(name="metadata.version", feature_level=30),
            RegisterBrokerRecord(broker_id=1, broker_epoch=3),
            BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1),
            TopicRecord(name="gone", topic_id=T1),
            TopicRecord(name="kept", topic_id=T2),
            RemoveTopicRecord(topic_id=T1),
            NoOpRecord(),
        ],
    )
    records = [decode_record(data) for data in snapshot_content(image)]
    assert records == [
        FeatureLevelRecord(name="metadata.version", feature_level=30),
        FeatureLevelRecord(name="a.version", feature_level=1),
        RegisterBrokerRecord(broker_id=1, broker_epoch=3, fenced=False),
        TopicRecord(name="kept", topic_id=T2),
    ]


@pytest.mark.parametrize("level", LEVELS)
def test_records_are_written_in_the_versions_of_the_level(level: int) -> None:
    """B-U01: only the record versions of the finalized metadata.version; what they cannot say is left out."""
    image = replay_all(
        EMPTY_IMAGE,
        [
            FeatureLevelRecord(name="metadata.version", feature_level=level),
            RegisterBrokerRecord(broker_id=1, broker_epoch=3, log_dirs=(T1,), cordoned_log_dirs=(T1,)),
            TopicRecord(name="t", topic_id=T2),
            PartitionRecord(
                partition_id=0,
                topic_id=T2,
                replicas=(1,),
                isr=(1,),
                leader=1,
                directories=(T1,),
                eligible_leader_replicas=(1,),
            ),
        ],
    )
    written = {type(record): version for record, version in map(decode_record_with_version, snapshot_content(image))}
    assert written[RegisterBrokerRecord] == register_broker_version(level)
    assert written[PartitionRecord] == partition_version(level)


def test_the_versions_are_those_of_kafka() -> None:
    """B-U01: the steps at which Kafka 4.3.1 raises them."""
    assert [level for level in LEVELS if register_broker_version(level) != register_broker_version(level - 1)] == [
        8,
        17,
        30,
    ]
    assert [level for level in LEVELS if partition_version(level) != partition_version(level - 1)] == [17, 23]
    assert set(METADATA_VERSION_NAMES) == set(LEVELS)


def test_bootstrap_records() -> None:
    """B-S10: the features whose level is above 0, then credentials; read back as they are."""
    credential = ScramCredential(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096)
    data = bootstrap_records(metadata_version=29, features={"b": 1, "a": 2, "off": 0}, scram=[credential])
    image = replay_all(EMPTY_IMAGE, [each.record for each in read_bootstrap_records(data)])
    assert dict(image.features.levels) == {"metadata.version": 29, "a": 2, "b": 1}
    assert image.scram["a", 1] == credential
    assert [each.encode() for each in image_records(image)] == list(data)


def test_bad_and_missing_bootstrap_records() -> None:
    """B-S10: without a file the latest level; with one that names no metadata.version, or is damaged, a refusal."""
    [record] = read_bootstrap_records(())
    assert record.record == FeatureLevelRecord(name="metadata.version", feature_level=30)
    with pytest.raises(DecodeError, match=r"no metadata\.version"):
        read_bootstrap_records([bootstrap_records(features={"a": 1})[1]])
    with pytest.raises(DecodeError):
        read_bootstrap_records([b"\x01\x63\x00\x00"])
