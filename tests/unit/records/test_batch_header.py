"""The header of a record batch: seen, changed in place, checked."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    batch_is_sound,
    crc_is_right,
    iter_batches,
    read_header,
    set_max_timestamp,
    set_offset_and_epoch,
)
from headrace.records.record import NewRecord, ProducerStamp, build_batch, read_records

RECORDS = [NewRecord(b"k", b"v", 1000), NewRecord(None, b"w", 1005)]


def test_header_has_every_field_of_format_v2() -> None:
    """KIP-98: the 61 bytes of a batch of an idempotent producer."""
    batch = build_batch(RECORDS, producer=ProducerStamp(7, 3, 11))
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=0,
        length=len(batch) - 12,
        leader_epoch=-1,
        magic=2,
        crc=header.crc,
        attributes=0,
        last_offset_delta=1,
        base_timestamp=1000,
        max_timestamp=1005,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        record_count=2,
    )
    assert (header.size, header.last_offset, header.next_offset, header.last_sequence) == (len(batch), 1, 2, 12)


def test_offset_and_epoch_are_set_without_touching_the_crc() -> None:
    """B-P01, B47: what the client set as leader epoch is overwritten; the CRC stays right."""
    batch = build_batch(RECORDS)
    before = read_header(batch)
    set_offset_and_epoch(batch, 0, 500, 9)
    after = read_header(batch)
    assert after == before._replace(base_offset=500, leader_epoch=9)
    assert crc_is_right(batch, after)
    assert [record.offset for record in read_records(batch)] == [500, 501]


def test_log_append_time_replaces_every_timestamp() -> None:
    """message.timestamp.type=LogAppendTime: all records have the batch's highest timestamp; the CRC follows."""
    batch = build_batch(RECORDS)
    set_max_timestamp(batch, read_header(batch), 77, is_append_time=True)
    header = read_header(batch)
    assert header.is_log_append_time
    assert crc_is_right(batch, header)
    assert [record.timestamp for record in read_records(batch)] == [77, 77]


def test_batches_follow_each_other_and_a_cut_one_is_left_out() -> None:
    """B42: a last batch that is not whole is not yielded."""
    data = bytes(build_batch(RECORDS)) + bytes(build_batch(RECORDS[:1]))
    assert [position for position, _ in iter_batches(data)] == [0, len(build_batch(RECORDS))]
    assert [position for position, _ in iter_batches(data[:-1])] == [0]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
def test_impossible_lengths_are_refused(length: int) -> None:
    """B42: negative, zero, shorter than a header."""
    batch = build_batch(RECORDS)
    batch[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(PeerError) as refused:
        list(iter_batches(batch))
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_other_formats_are_refused(magic: int) -> None:
    """B41: only magic 2."""
    batch = build_batch(RECORDS)
    batch[16] = magic
    with pytest.raises(PeerError):
        list(iter_batches(batch))


def test_every_flipped_bit_behind_the_header_is_noticed() -> None:
    """PR9: the CRC-32C covers everything from the attributes on."""
    batch = build_batch(RECORDS)
    for position in range(21, len(batch)):
        changed = bytearray(batch)
        changed[position] ^= 0x10
        assert not batch_is_sound(changed, read_header(changed)), position


def test_sequences_wrap_to_zero() -> None:
    """inv:E1: after 2^31-1 comes 0."""
    header = read_header(build_batch(RECORDS, producer=ProducerStamp(1, 0, 2**31 - 1)))
    assert header.last_sequence == 0
    assert HEADER_SIZE == 61
