"""Which rows come out of fetched batches, and which bytes are refused?"""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from crc32c import crc32c

from headrace.arrow.corrupt import CorruptRecords
from headrace.arrow.frames import FrameLimits
from headrace.arrow.schema import ROWS_SCHEMA, ROWS_WITH_HEADERS_SCHEMA, rows_schema
from headrace.client.fetcher import AbortedRange
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch
from tests.support.arrow_rows import arrow_batches, arrow_rows, plain_rows


def batch(count: int = 3, *, base: int = 0, codec: int = 0, producer: ProducerStamp | None = None) -> bytearray:
    """`count` records named by their number."""
    records = [NewRecord(key=b"k%d" % each, value=b"v%d" % each, timestamp=5) for each in range(count)]
    return build_batch(
        records, codec=codec, placement=Placement(base_offset=base), producer=producer or ProducerStamp()
    )


def with_field(records: bytearray, layout: str, position: int, value: int) -> bytes:
    """The batch with one field changed, and the CRC made right again."""
    struct.pack_into(layout, records, position, value)
    struct.pack_into(">I", records, 17, crc32c(memoryview(records)[21:]))
    return bytes(records)


def test_columns_are_those_of_sparks_kafka_source() -> None:
    """Name, type and order of every column, with and without headers."""
    (found,) = arrow_batches(bytes(batch()))
    assert found.schema.equals(ROWS_WITH_HEADERS_SCHEMA)
    assert rows_schema(include_headers=False).equals(ROWS_SCHEMA)
    assert found.slice(1, 1).to_pylist() == [
        {
            "key": b"k1",
            "value": b"v1",
            "topic": "t",
            "partition": 7,
            "offset": 1,
            "timestamp": datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=UTC),
            "timestampType": 0,
            "headers": None,
        }
    ]


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_every_codec_is_read_beside_plain_batches(codec: int) -> None:
    """none, gzip, snappy, lz4 and zstd in one answer with batches that are not compressed."""
    records = bytes(batch(2) + batch(300, base=2, codec=codec) + batch(2, base=302))
    assert [row[0] for row in arrow_rows(records)] == list(range(304))


def test_log_append_time_is_every_records_time() -> None:
    """KIP-32: with LogAppendTime the batch's time counts, and timestampType is 1."""
    records = build_batch([NewRecord(key=None, value=b"x", timestamp=5)], placement=Placement(log_append_time=99))
    (found,) = arrow_batches(bytes(records))
    assert found.column("timestampType").to_pylist() == [1]
    assert found.column("timestamp").cast(pa.int64()).to_pylist() == [99_000]


def test_the_cut_last_batch_is_left_for_the_next_fetch() -> None:
    """A fetch answer may end within a batch; that is no error."""
    records = bytes(batch(3) + batch(3, base=3))
    assert [row[0] for row in arrow_rows(records[:-1])] == [0, 1, 2]
    assert arrow_rows(records[:30]) == []


def test_control_batches_are_no_rows() -> None:
    """KIP-98: markers take offsets and are never seen."""
    producer = ProducerStamp(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=9,
        producer_epoch=0,
        timestamp=5,
        placement=Placement(base_offset=3),
    )
    records = bytes(batch(3, producer=producer) + marker + batch(2, base=4))
    assert [row[0] for row in arrow_rows(records)] == [0, 1, 2, 4, 5]


def test_read_committed_leaves_out_aborted_transactions_only() -> None:
    """KIP-98: batches of an aborted producer are hidden from its first offset up to its marker; others and later ones are not."""
    producer = ProducerStamp(producer_id=9, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=9,
        producer_epoch=0,
        timestamp=5,
        placement=Placement(base_offset=4),
    )
    records = bytes(batch(2, producer=producer) + batch(2, base=2) + marker + batch(2, base=5, producer=producer))
    found = arrow_batches(records, aborted=(AbortedRange(producer_id=9, first_offset=0),))
    assert [each for rows in found for each in rows.column("offset").to_pylist()] == [2, 3, 5, 6]
    from_marker = bytes(marker + batch(2, base=5, producer=producer))
    found = arrow_batches(from_marker, aborted=(AbortedRange(producer_id=9, first_offset=0),))
    assert [each for rows in found for each in rows.column("offset").to_pylist()] == [5, 6]


def test_groups_keep_to_their_limits() -> None:
    """A record batch for Spark has about as many rows as its limits say; a Kafka batch is split only where it has four times as many."""
    records = b"".join(bytes(batch(10, base=10 * each)) for each in range(6))
    found = arrow_batches(records, limits=FrameLimits(max_rows=20))
    assert [each.num_rows for each in found] == [20, 20, 20]


def test_batches_of_one_size_may_differ_inside() -> None:
    """A batch is supposed to be like an earlier one of its size; where it is not, its own lengths count."""
    same = [NewRecord(key=None, value=bytes(20)) for _ in range(40)]
    other = [NewRecord(key=None, value=b"\xff" * (20 + (-1) ** each * 9)) for each in range(40)]
    records = bytearray()
    for number, chosen in enumerate((same, same, other, same, other)):
        records += build_batch(chosen, placement=Placement(base_offset=40 * number))
    assert arrow_rows(bytes(records)) == plain_rows(bytes(records))


@pytest.mark.parametrize(
    ("layout", "position", "value"),
    [
        pytest.param(">i", 57, -1, id="negative count"),
        pytest.param(">i", 57, 2, id="count too small"),
        pytest.param(">i", 57, 4, id="count above the offsets"),
        pytest.param(">i", 57, 2**31 - 1, id="count of two thousand million"),
        pytest.param(">i", 23, -1, id="negative last offset delta"),
        pytest.param(">i", 23, 1, id="last offset delta below the last record"),
        pytest.param(">h", 21, 0x80, id="unknown attribute"),
        pytest.param(">q", 27, 2**62, id="time beyond microseconds"),
    ],
)
def test_headers_that_cannot_be_right_are_refused(layout: str, position: int, value: int) -> None:
    """B43, B45, B48: a header that contradicts its records."""
    with pytest.raises(CorruptRecords):
        arrow_rows(with_field(batch(3), layout, position, value))


def test_lengths_and_magic_that_cannot_be_right_are_refused() -> None:
    """B41, B42: batch lengths no batch has; formats before v2."""
    for position, layout, value in ((8, ">i", -1), (8, ">i", 0), (8, ">i", 48), (16, ">b", 1), (16, ">b", -1)):
        records = batch(3)
        struct.pack_into(layout, records, position, value)
        with pytest.raises(CorruptRecords):
            arrow_rows(bytes(records))


def test_batches_out_of_order_are_refused() -> None:
    """B52: a batch that does not lie behind the one before it."""
    with pytest.raises(CorruptRecords, match="follows one that ends at 6"):
        arrow_rows(bytes(batch(2, base=5) + batch(2, base=6)))


def test_an_unknown_codec_is_refused() -> None:
    """B45: codecs 5 to 7 do not exist."""
    with pytest.raises(PeerError) as caught:
        arrow_rows(with_field(batch(3), ">h", 21, 5))
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_decompression_bomb_is_refused(codec: int) -> None:
    """B51: a batch that opens to more than the bound is refused."""
    records = build_batch([NewRecord(key=None, value=bytes(4 << 20))], codec=codec)
    with pytest.raises(PeerError) as caught:
        arrow_rows(bytes(records), limits=FrameLimits(max_unpacked_bytes=1 << 20))
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_header_name_that_is_no_text_is_replaced() -> None:
    """A Java consumer reads such a name with U+FFFD in it."""
    records = build_batch([NewRecord(key=None, value=b"x", headers=(("name", b"1"),))])
    spoilt = records.replace(b"name", b"n\xffme")
    struct.pack_into(">I", spoilt, 17, crc32c(memoryview(spoilt)[21:]))
    assert arrow_rows(bytes(spoilt))[0][4] == (("n�me", b"1"),)
