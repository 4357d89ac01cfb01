"""How a cause travels with a record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.metadata.cause import (
    CAUSE_TAG,
    MAX_TEXT,
    Cause,
    CauseKind,
    decode_cause,
    decode_caused,
    encode_cause,
    encode_with_cause,
    short,
)
from headrace.metadata.image import EMPTY_IMAGE
from headrace.metadata.replay import replay_all
from headrace.wire.metadata_records.frame import decode_record, decode_record_with_version, encode_record
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message

TOPIC = Uuid(bytes([7]) * 16)
TEXTS = st.text(max_size=80)
CAUSES = st.builds(
    Cause,
    kind=st.sampled_from([int(each) for each in CauseKind]),
    api_key=st.integers(-1, 92),
    broker_id=st.integers(-1, 2**31 - 1),
    principal=TEXTS,
    client_id=st.none() | TEXTS,
    client_host=TEXTS,
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    through=st.integers(-1, 9),
    listener=TEXTS,
    election=st.integers(-1, 1),
)
RECORDS = st.sampled_from(
    [
        (NoOpRecord(), 0),
        (TopicRecord(name="t", topic_id=TOPIC), 0),
        (
            PartitionRecord(
                partition_id=1, topic_id=TOPIC, replicas=(1, 2), isr=(1,), leader=1, directories=(TOPIC,) * 2
            ),
            1,
        ),
        (PartitionChangeRecord(partition_id=3, topic_id=TOPIC), 0),
        (
            PartitionChangeRecord(
                partition_id=3, topic_id=TOPIC, isr=(1, 2), leader=5, replicas=(1,), directories=(TOPIC,)
            ),
            2,
        ),
    ]
)


@given(RECORDS, CAUSES)
def test_a_record_says_the_same_with_a_cause_and_gives_the_cause_back(
    given_record: tuple[Message, int], cause: Cause
) -> None:
    """inv:C2, B-W03: a tagged field of an unknown number is skipped by who does not know it."""
    record, version = given_record
    data = encode_with_cause(record, version, encode_cause(cause))
    assert decode_record_with_version(data) == (record, version)
    assert decode_caused(data) == (record, cause)
    assert decode_caused(encode_record(record, version)) == (record, None)


def test_the_bytes_are_those_of_the_public_schema() -> None:
    """docs/history.md: version 0, kind, count of tagged fields, then each: what a reader without this code finds."""
    plain = encode_record(NoOpRecord(), 0)
    assert plain == bytes((1, 20, 0, 0))
    fence = encode_cause(Cause(kind=CauseKind.CONNECTION_REFUSED, broker_id=2))
    assert fence == bytes((0, 3, 1, 1, 4, 0, 0, 0, 2))
    tag = bytes((0x80 | CAUSE_TAG & 0x7F, CAUSE_TAG >> 7))
    assert encode_with_cause(NoOpRecord(), 0, fence) == bytes((1, 20, 0, 1)) + tag + bytes((len(fence),)) + fence


def test_an_image_is_the_same_with_causes_and_without() -> None:
    """inv:C2: nothing that is replayed depends on them."""
    records: list[tuple[Message, int]] = [
        (TopicRecord(name="t", topic_id=TOPIC), 0),
        (PartitionRecord(partition_id=0, topic_id=TOPIC, replicas=(1, 2), isr=(1, 2), leader=1), 0),
        (PartitionChangeRecord(partition_id=0, topic_id=TOPIC, isr=(2,), leader=2), 0),
    ]
    cause = encode_cause(Cause(kind=CauseKind.SESSION_EXPIRED, broker_id=1))
    plain = replay_all(EMPTY_IMAGE, [decode_record(encode_record(*each)) for each in records])
    told = replay_all(EMPTY_IMAGE, [decode_record(encode_with_cause(*each, cause)) for each in records])
    assert plain == told


def test_a_cause_of_a_later_version_is_none_and_what_is_no_cause_is_refused() -> None:
    """docs/history.md: a reader leaves alone what it does not know."""
    assert decode_cause(b"\x01anything") is None
    with pytest.raises(DecodeError):
        decode_cause(b"")
    with pytest.raises(DecodeError):
        decode_cause(b"\x00\x01\x05")
    strange = bytearray(encode_with_cause(NoOpRecord(), 0, encode_cause(Cause(kind=1))))
    strange[-1] ^= 0xFF
    assert decode_caused(bytes(strange)) == (NoOpRecord(), None)


def test_what_a_client_says_of_itself_is_cut() -> None:
    """inv:M1: 32 KB of client id in each record would be a way to fill the disk."""
    assert short("a" * MAX_TEXT) == "a" * MAX_TEXT
    assert short("a" * 30_000) == "a" * (MAX_TEXT - 1) + "…"
