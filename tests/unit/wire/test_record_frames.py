"""What stands around metadata records and coordinator records?"""

from __future__ import annotations

import random

import pytest

from headrace.core.errors import DecodeError, EncodeError
from headrace.core.ids import ONE_UUID
from headrace.wire.group_records import frame as group_frame
from headrace.wire.group_records.group_metadata_key import GroupMetadataKey
from headrace.wire.group_records.offset_commit_key import OffsetCommitKey
from headrace.wire.group_records.offset_commit_value import OffsetCommitValue
from headrace.wire.messages.heartbeat import HeartbeatRequest
from headrace.wire.metadata_records.frame import decode_record, decode_record_with_version, encode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.registry import RECORD_TYPES
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.metadata_records.zk_migration_state_record import ZkMigrationStateRecord
from headrace.wire.share_records import frame as share_frame
from headrace.wire.share_records.share_update_key import ShareUpdateKey
from headrace.wire.transaction_records import frame as transaction_frame
from headrace.wire.transaction_records.transaction_log_key import TransactionLogKey
from headrace.wire.transaction_records.transaction_log_value import TransactionLogValue
from tests.support.messages import all_messages, sample

TOPIC = TopicRecord(name="foo", topic_id=ONE_UUID)


def test_a_metadata_record_in_its_frame() -> None:
    """B-C00, B-C03: frame version 1, type 2, version 0, then the flexible body."""
    data = encode_record(TOPIC, 0)
    assert data == b"\x01\x02\x00" + b"\x04foo" + ONE_UUID + b"\x00"
    assert decode_record_with_version(data) == (TOPIC, 0)
    assert decode_record(memoryview(data)) == TOPIC


def test_every_type_and_version_goes_through_its_frame() -> None:
    """B-C00..B-C19: 26 record types; each finds its class again."""
    records = [cls for cls in all_messages() if cls.SCHEMA.kind == "metadata"]
    assert {cls.SCHEMA.api_key for cls in records} == set(RECORD_TYPES)
    assert len(records) == 26
    rng = random.Random(3)
    for cls in records:
        for version in range(cls.SCHEMA.versions.last + 1):
            record = sample(cls, version, rng)
            assert decode_record_with_version(encode_record(record, version)) == (record, version)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        pytest.param(b"", "cut off", id="nothing"),
        pytest.param(b"\x01\x02", "cut off", id="no version"),
        pytest.param(b"\x00\x02\x00", "frame version 0", id="frame version 0"),
        pytest.param(b"\x02\x02\x00", "frame version 2", id="frame version 2"),
        pytest.param(b"\x01\x06\x00", "type 6", id="type 6 was never used"),
        pytest.param(b"\x01\xff\xff\x03\x00", "type 65535", id="type 65535"),
        pytest.param(b"\x01\x02\x07", "no version 7", id="version 7"),
        pytest.param(encode_record(TOPIC, 0) + b"\0", "left over", id="bytes left over"),
        pytest.param(encode_record(TOPIC, 0)[:-1], "TopicRecord", id="one byte short"),
    ],
)
def test_bad_frames_are_refused(data: bytes, says: str) -> None:
    """B-C00, B4: unknown frame version, type or record version; bytes left over or missing."""
    with pytest.raises(DecodeError, match=says):
        decode_record(data)


def test_the_smallest_records() -> None:
    """B-C16, B-C17: a no-op is four bytes; the state of a migration is read whatever it says."""
    assert encode_record(NoOpRecord(), 0) == b"\x01\x14\x00\x00"
    assert decode_record(b"\x01\x15\x00\x03\x00") == ZkMigrationStateRecord(zk_migration_state=3)


def test_only_metadata_records_have_that_frame() -> None:
    """A request is not written into the metadata log."""
    with pytest.raises(EncodeError, match="no metadata record"):
        encode_record(HeartbeatRequest(), 0)


def test_offsets_in_their_frame() -> None:
    """Formats of __consumer_offsets: the key's type before the key, the value's version before the value."""
    key = OffsetCommitKey(group="g", topic="t", partition=1)
    data = group_frame.encode_key(key)
    assert data == b"\x00\x01" + b"\x00\x01g" + b"\x00\x01t" + b"\x00\x00\x00\x01"
    assert group_frame.decode_key(data) == key
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9)
    for version in (3, 4):
        written = group_frame.encode_value(value, version)
        assert group_frame.version_of(written) == version
        assert group_frame.decode_value(key, written) == value


def test_keys_of_each_coordinator_have_their_own_types() -> None:
    """Type 0 is a transaction in one topic, an old offset in another, a share snapshot in the third."""
    transaction = TransactionLogKey(transactional_id="tx")
    assert transaction_frame.decode_key(transaction_frame.encode_key(transaction)) == transaction
    value = TransactionLogValue(producer_id=7)
    assert transaction_frame.decode_value(transaction, transaction_frame.encode_value(value, 1)) == value
    share = ShareUpdateKey(group_id="g", topic_id=ONE_UUID, partition=1)
    assert share_frame.decode_key(share_frame.encode_key(share)) == share
    with pytest.raises(DecodeError):
        share_frame.decode_key(group_frame.encode_key(GroupMetadataKey(group="g")))


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x02", b"\x7f\xff\0\x01g", b"\xff\xff\0\x01g", b"\0\x02\0\x01gx"])
def test_bad_keys_are_refused(data: bytes) -> None:
    """B-C00, B77: cut, unknown type, bytes left over."""
    with pytest.raises(DecodeError):
        group_frame.decode_key(data)


def test_bad_values_are_refused() -> None:
    """B77: a version that does not exist, no version at all; a key is no value."""
    key = OffsetCommitKey(group="g")
    for data in (b"", b"\0\x07abc", b"\xff\xff"):
        with pytest.raises(DecodeError):
            group_frame.decode_value(key, data)
    with pytest.raises(EncodeError):
        group_frame.encode_value(key, 0)
    with pytest.raises(EncodeError):
        group_frame.encode_key(OffsetCommitValue())
