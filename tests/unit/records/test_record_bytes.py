"""Records inside batches, written and read one by one."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.batch import read_header, set_crc
from headrace.records.compression import Codec
from headrace.records.control import (
    ControlType,
    TransactionMarker,
    build_control_batch,
    build_marker_batch,
    control_type,
    read_marker,
)
from headrace.records.record import (
    NO_PRODUCER,
    NewRecord,
    Placement,
    ProducerStamp,
    Record,
    WrittenRecords,
    all_records,
    build_batch,
    build_batch_at,
    build_written_batch,
    read_all_records,
    read_records,
    written_values,
)
from headrace.records.varint import read_varint, read_varlong, varint_size, write_varint

HEADERS = (("a", b"1"), ("a", None), ("é", b""))


@pytest.mark.parametrize("codec", list(Codec))
def test_what_is_written_is_read(codec: Codec) -> None:
    """KIP-82, KIP-98: null and empty keys and values, repeated headers, timestamps that go back, in every codec."""
    written = [
        NewRecord(None, None, 5),
        NewRecord(b"", b"", 1),
        NewRecord(b"key", b"value" * 1000, 2**40, HEADERS),
        NewRecord(b"k" * 200, None, 3),
    ]
    batch = build_batch(written, codec=codec, producer=ProducerStamp(1, 2, 3), placement=Placement(base_offset=40))
    assert read_records(batch) == [
        Record(40 + index, r.timestamp, r.key, r.value, r.headers, 3 + index) for index, r in enumerate(written)
    ]


def test_records_keep_offsets_with_gaps() -> None:
    """B-P03: compaction leaves gaps, and the batch keeps its last offset."""
    kept = [Record(12, 7, b"a", b"1"), Record(15, 9, b"b", b"2")]
    batch = build_batch_at(kept, placement=Placement(base_offset=10, last_offset=19))
    assert read_records(batch) == kept
    assert read_header(batch).next_offset == 20


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (61, 0x7F, "negative length"),
        (61, 0x7E, "longer than the batch"),
        (61, 0x00, "empty record"),
        (65, 0x7F, "key of a negative size"),
        (65, 0x7E, "key longer than the record"),
    ],
)
def test_damaged_records_are_refused(position: int, value: int, reason: str) -> None:
    """B49: sizes that disagree are an error, never a crash."""
    batch = build_batch([NewRecord(b"k", b"v", 0)])
    batch[position] = value
    set_crc(batch, 0, len(batch))
    with pytest.raises(PeerError) as refused:
        read_records(batch)
    assert refused.value.code is ErrorCode.INVALID_RECORD, reason


@pytest.mark.parametrize("count", [-1, 2, 1_000_000, 2**31 - 1])
def test_a_record_count_that_does_not_fit_is_refused(count: int) -> None:
    """B20, B43: the count is checked against the bytes that are there."""
    batch = build_batch([NewRecord(b"k", b"v", 0)])
    batch[57:61] = count.to_bytes(4, "big", signed=True)
    with pytest.raises(PeerError):
        read_records(batch)


def test_varints_are_zigzag_and_bounded() -> None:
    """B9: at most 5 bytes for an int, 10 for a long, no overlong bits."""
    for value in (0, -1, 1, -64, 64, 2**31 - 1, -(2**31)):
        out = bytearray()
        write_varint(out, value)
        assert (read_varint(out, 0), varint_size(value)) == ((value, len(out)), len(out))
    out = bytearray()
    write_varint(out, -(2**63))
    assert read_varlong(out, 0) == (-(2**63), 10)
    for bad in (b"\x80" * 5 + b"\x01", b"\xff\xff\xff\xff\x7f", b"\x80", b""):
        with pytest.raises(PeerError):
            read_varint(bad, 0)


def test_markers_and_quorum_controls_are_read_back() -> None:
    """KIP-98, KIP-595: a marker ends a transaction; other control batches are no markers."""
    marker = TransactionMarker(is_commit=True, coordinator_epoch=4)
    batch = build_marker_batch(marker, producer_id=9, producer_epoch=2, timestamp=5)
    header = read_header(batch)
    assert (read_marker(batch, header), header.is_control, header.producer_id) == (marker, True, 9)
    change = build_control_batch(ControlType.LEADER_CHANGE, b"value", timestamp=5)
    assert read_marker(change, read_header(change)) is None
    assert control_type(read_records(change)[0].key) is ControlType.LEADER_CHANGE
    assert control_type(b"\x00") is control_type(b"\x00\x00\x00\x63") is ControlType.UNKNOWN


def test_readers_check_the_crc_and_leave_control_batches_out() -> None:
    """PR9: a batch with a wrong CRC is never handed on."""
    data = build_batch([NewRecord(b"k", b"v", 0)])
    control = build_control_batch(ControlType.SNAPSHOT_HEADER, b"", timestamp=0)
    assert [record.value for record in all_records(bytes(data) + bytes(control))] == [b"v"]
    data[-1] ^= 1
    with pytest.raises(PeerError, match="CRC"):
        list(read_all_records(data))


@pytest.mark.parametrize("count", [1, 63, 64, 65, 9_000])
def test_values_that_are_written_together_are_the_bytes_of_records_written_one_by_one(count: int) -> None:
    """The controller's records: values of one time, without keys and headers; sizes and offsets of one, two and three bytes of a varint."""
    values = [bytes([number & 0xFF]) * (number % 200 * (1 if number % 100 else 100)) for number in range(count)]
    placement = Placement(base_offset=17, leader_epoch=3, last_offset=16 + count)
    rows = [NewRecord(None, value, 1_000) for value in values]
    written = WrittenRecords(written_values(values), count, 1_000, 1_000)
    assert build_written_batch(written, codec=Codec.NONE, producer=NO_PRODUCER, placement=placement) == build_batch(
        rows, placement=placement
    )


def test_what_is_no_utf_8_in_a_headers_name_is_replaced() -> None:
    """As by Java's consumers. Any producer may write it: one such record ended each console consumer of its topic, and `dump-log` took the segment for damaged."""
    batch = build_batch([NewRecord(b"k", b"v", 0, (("zq", b"1"),)), NewRecord(b"l", b"w")])
    at = bytes(batch).index(b"zq")
    batch[at : at + 2] = b"z\xff"
    set_crc(batch, 0, len(batch))
    assert [(each.value, each.headers) for each in read_records(batch)] == [(b"v", (("z\ufffd", b"1"),)), (b"w", ())]
