"""Which batches of a client are refused, and with which of Kafka's errors?"""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from headrace.core.error_code import ErrorCode
from headrace.log.config import LogConfig, TimestampType
from headrace.log.ports import AppendRefused, CheckedBatch
from headrace.log.validation import check_client_batch
from headrace.records.batch import read_header, set_crc
from headrace.records.compression import Codec
from headrace.records.record import NewRecord, ProducerStamp, build_batch, read_records

NOW_MS = 1_700_000_000_000
PLAIN = LogConfig()
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}))
TWO = [NewRecord(b"a", b"1", NOW_MS), NewRecord(b"b", b"2", NOW_MS)]


def changed(
    position: int, form: str, value: int, *, keep_crc: bool = False, producer: ProducerStamp | None = None
) -> bytearray:
    """A good batch of two records with one field changed, and a CRC that fits again."""
    batch = build_batch(TWO, producer=producer or ProducerStamp())
    struct.pack_into(form, batch, position, value)
    if not keep_crc:
        set_crc(batch, 0, len(batch))
    return batch


def refused(data: bytes | bytearray, config: LogConfig = PLAIN) -> ErrorCode:
    """The error that a client gets for these bytes."""
    verdict = check_client_batch(memoryview(bytearray(data)), config, NOW_MS)
    assert isinstance(verdict, AppendRefused), verdict
    return verdict.error


def accepted(data: bytes | bytearray, config: LogConfig = PLAIN) -> CheckedBatch:
    """What is appended of these bytes."""
    verdict = check_client_batch(memoryview(bytearray(data)), config, NOW_MS)
    assert isinstance(verdict, CheckedBatch), verdict
    return verdict


def test_a_good_batch_is_taken_as_it_is() -> None:
    """B-P01: nothing is copied or changed."""
    data = memoryview(build_batch(TWO))
    verdict = check_client_batch(data, PLAIN, NOW_MS)
    assert verdict == CheckedBatch(data, read_header(data), -1)
    assert isinstance(verdict, CheckedBatch)
    assert verdict.data is data


GOOD = bytes(build_batch(TWO))
CASES: dict[str, tuple[bytes | bytearray, ErrorCode]] = {
    "B40 wrong CRC": (changed(57, ">i", 2, keep_crc=True)[:-1] + b"\x77", ErrorCode.CORRUPT_MESSAGE),
    "B41 magic 0": (changed(16, ">b", 0), ErrorCode.INVALID_RECORD),
    "B41 magic 1": (changed(16, ">b", 1), ErrorCode.INVALID_RECORD),
    "B41 magic 3": (changed(16, ">b", 3), ErrorCode.CORRUPT_MESSAGE),
    "B41 magic 127": (changed(16, ">b", 127), ErrorCode.CORRUPT_MESSAGE),
    "B41 magic -1": (changed(16, ">b", -1), ErrorCode.CORRUPT_MESSAGE),
    "B42 negative length": (changed(8, ">i", -5, keep_crc=True), ErrorCode.CORRUPT_MESSAGE),
    "B42 length 0": (changed(8, ">i", 0, keep_crc=True), ErrorCode.CORRUPT_MESSAGE),
    "B42 shorter than a header": (changed(8, ">i", 48, keep_crc=True), ErrorCode.CORRUPT_MESSAGE),
    "B42 past the field": (changed(8, ">i", len(GOOD) - 11, keep_crc=True), ErrorCode.INVALID_RECORD),
    "B42 off by one": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "B42 bytes after the batch": (GOOD + b"x", ErrorCode.INVALID_RECORD),
    "B42 only the beginning": (GOOD[:30], ErrorCode.INVALID_RECORD),
    "B43 count 0": (changed(57, ">i", 0), ErrorCode.INVALID_RECORD),
    "B43 negative count": (changed(57, ">i", -1), ErrorCode.INVALID_RECORD),
    "B43 count above the offsets": (changed(57, ">i", 3), ErrorCode.INVALID_RECORD),
    "B43 negative last offset delta": (changed(23, ">i", -1), ErrorCode.INVALID_RECORD),
    "B44 two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "B44 none": (b"", ErrorCode.INVALID_RECORD),
    "B45 control bit": (changed(21, ">h", 0x20), ErrorCode.INVALID_RECORD),
    "B45 transactional without a producer": (changed(21, ">h", 0x10), ErrorCode.INVALID_RECORD),
    "B45 unknown attribute bits": (changed(21, ">h", 0x100), ErrorCode.INVALID_RECORD),
    "B45 delete horizon bit": (changed(21, ">h", 0x40), ErrorCode.INVALID_RECORD),
    "B45 unknown codec": (changed(21, ">h", 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    "B46 producer without sequence": (changed(53, ">i", -1, producer=ProducerStamp(1, 0, 0)), ErrorCode.INVALID_RECORD),
    "B47 base offset set": (changed(0, ">q", 5), ErrorCode.INVALID_RECORD),
    "B48 far future": (build_batch([NewRecord(b"a", b"", NOW_MS + 3_600_001)]), ErrorCode.INVALID_TIMESTAMP),
    "B49 too large": (build_batch([NewRecord(b"a", bytes(1_048_588), NOW_MS)]), ErrorCode.MESSAGE_TOO_LARGE),
}


def test_a_batch_as_large_as_the_topic_takes_is_taken() -> None:
    """B49: max.message.bytes is inclusive; one byte more is refused."""
    size = len(build_batch(TWO))
    assert accepted(build_batch(TWO), replace(PLAIN, max_message_bytes=size)).header.record_count == 2
    assert refused(build_batch(TWO), replace(PLAIN, max_message_bytes=size - 1)) is ErrorCode.MESSAGE_TOO_LARGE


def test_the_limits_of_timestamps_are_inclusive() -> None:
    """B48: so far before and after now is allowed, a millisecond more is not."""
    config = replace(PLAIN, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=2000)
    for shift in (-1000, 2000):
        assert accepted(build_batch([NewRecord(b"a", b"", NOW_MS + shift)]), config).header.record_count == 1
    for shift in (-1001, 2001):
        late = memoryview(build_batch([NewRecord(b"a", b"", NOW_MS + shift)]))
        verdict = check_client_batch(late, config, NOW_MS)
        assert isinstance(verdict, AppendRefused)
        assert verdict.record_errors == (
            (0, f"Timestamp {NOW_MS + shift} is outside [{NOW_MS - 1000}, {NOW_MS + 2000}]."),
        )


def test_the_first_producer_and_the_first_sequence_are_0() -> None:
    """B46: 0 is an id and a sequence like any other; a transactional batch of it has its producer."""
    stamp = ProducerStamp(producer_id=0, producer_epoch=0, base_sequence=0)
    assert accepted(build_batch(TWO, producer=stamp)).header.producer_id == 0
    assert accepted(build_batch(TWO, producer=stamp._replace(is_transactional=True))).header.is_transactional
    assert refused(changed(53, ">i", -1, producer=stamp)) is ErrorCode.INVALID_RECORD


def test_a_batch_of_no_records_is_refused() -> None:
    """B43, B42: count 0 with the last offset delta that belongs to it, and a header with nothing behind it."""
    none = changed(57, ">i", 0)
    struct.pack_into(">i", none, 23, -1)
    set_crc(none, 0, len(none))
    assert refused(none) is ErrorCode.INVALID_RECORD
    bare = none[:61]
    struct.pack_into(">i", bare, 8, 49)
    set_crc(bare, 0, len(bare))
    assert refused(bare) is ErrorCode.INVALID_RECORD


def claiming(count: int, *, codec: int, body: int) -> bytearray:
    """A batch whose header claims so many records in a body of so many bytes."""
    data = build_batch(TWO, codec=codec)[:61] + bytes(body)
    struct.pack_into(">i", data, 8, len(data) - 12)
    struct.pack_into(">i", data, 23, count - 1)
    struct.pack_into(">i", data, 57, count)
    set_crc(data, 0, len(data))
    return data


def test_a_batch_that_claims_more_records_than_its_bytes_hold_is_refused() -> None:
    """B43: 69 bytes took two billion offsets, and whoever read them found no record."""
    accepted(claiming(3, codec=Codec.NONE, body=21))
    assert refused(claiming(4, codec=Codec.NONE, body=21)) is ErrorCode.INVALID_RECORD
    assert refused(claiming(2**31 - 1, codec=Codec.NONE, body=8)) is ErrorCode.INVALID_RECORD
    accepted(claiming(30_000_000, codec=Codec.ZSTD, body=25_000))
    assert refused(claiming(2**31 - 1, codec=Codec.ZSTD, body=25_000)) is ErrorCode.INVALID_RECORD


def test_the_reason_of_a_refusal_is_the_field_that_is_wrong() -> None:
    """B43, B45, B46: told in the answer from version 8 on."""

    def reason(data: bytes | bytearray) -> str:
        verdict = check_client_batch(memoryview(bytearray(data)), PLAIN, NOW_MS)
        assert isinstance(verdict, AppendRefused)
        return verdict.message or ""

    packed = build_batch(TWO, codec=Codec.ZSTD)
    struct.pack_into(">h", packed, 21, Codec.ZSTD | 0x20)
    set_crc(packed, 0, len(packed))
    assert reason(packed) == "Clients may not write control records."
    assert reason(changed(57, ">i", 3)) == "Record count 3 and last offset delta 1 disagree."
    assert reason(changed(53, ">i", -1, producer=ProducerStamp(0, 0, 0))) == "Sequence -1 with a producer id."
    assert reason(changed(21, ">h", 0x10)) == "A transactional batch without a producer id."


@pytest.mark.parametrize("name", sorted(CASES))
def test_bad_batches_get_kafkas_error(name: str) -> None:
    """B40-B49: one error each, and nothing is appended."""
    data, error = CASES[name]
    assert refused(data) is error


def test_times_are_checked_record_by_record_only_when_the_header_is_suspicious() -> None:
    """B48, KIP-467, KIP-937: the records at fault are named by their index."""
    config = replace(PLAIN, message_timestamp_before_max_ms=1000)
    records = [
        NewRecord(b"a", b"", NOW_MS),
        NewRecord(b"b", b"", NOW_MS - 1001),
        NewRecord(b"c", b"", NOW_MS + 3_600_001),
    ]
    verdict = check_client_batch(memoryview(build_batch(records)), config, NOW_MS)
    assert isinstance(verdict, AppendRefused)
    assert verdict.error is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in verdict.record_errors] == [1, 2]
    assert accepted(build_batch([NewRecord(b"a", b"", -1)]), config).header.max_timestamp == -1


def test_a_lying_highest_timestamp_is_corrected() -> None:
    """B48: the header says far future, the records do not: stored with the truth, as Kafka does."""
    checked = accepted(changed(35, ">q", NOW_MS + 10**12))
    assert checked.header.max_timestamp == NOW_MS


def test_compacted_topics_take_no_record_without_a_key() -> None:
    """B50: E(INVALID_RECORD), and the record is named."""
    records = [NewRecord(b"a", b"", NOW_MS), NewRecord(None, b"", NOW_MS)]
    verdict = check_client_batch(memoryview(build_batch(records, codec=Codec.ZSTD)), COMPACTED, NOW_MS)
    assert isinstance(verdict, AppendRefused)
    assert (verdict.error, [index for index, _ in verdict.record_errors]) == (ErrorCode.INVALID_RECORD, [1])


def test_records_are_opened_where_the_topic_demands_it() -> None:
    """B49: damaged records are refused on compacted topics and with headrace.validate.records, else stored as they are."""
    damaged = build_batch(TWO)
    damaged[62] ^= 0xFF
    damaged[63] ^= 0xFF
    damaged[61] = 0x7E
    set_crc(damaged, 0, len(damaged))
    assert refused(damaged, COMPACTED) is ErrorCode.INVALID_RECORD
    assert refused(damaged, replace(PLAIN, validate_records=True)) is ErrorCode.INVALID_RECORD
    assert accepted(damaged).data == damaged


def test_bombs_are_refused_where_batches_are_opened() -> None:
    """B51, inv:M3: more than max.decompressed is MESSAGE_TOO_LARGE."""
    bomb = build_batch([NewRecord(b"a", bytes(3_000_000), NOW_MS)], codec=Codec.ZSTD)
    assert refused(bomb, replace(COMPACTED, max_decompressed_bytes=1_000_000)) is ErrorCode.MESSAGE_TOO_LARGE


def test_log_append_time() -> None:
    """B47: the topic's clock replaces the client's; a client that claims it itself is refused."""
    config = replace(PLAIN, message_timestamp_type=TimestampType.LOG_APPEND_TIME)
    checked = accepted(build_batch([NewRecord(b"a", b"", 5)]), config)
    assert checked.log_append_time == NOW_MS
    assert [record.timestamp for record in read_records(checked.data)] == [NOW_MS]
    assert refused(changed(21, ">h", 0x08), config) is ErrorCode.INVALID_TIMESTAMP
    assert not accepted(changed(21, ">h", 0x08)).header.is_log_append_time


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_compression_type_of_the_topic_rewrites_batches(target: str) -> None:
    """compression.type other than `producer`: the same records in the topic's codec, with the producer's numbers."""
    config = replace(PLAIN, compression_type=target)
    sent = build_batch(TWO, codec=Codec.GZIP if target != "gzip" else Codec.NONE, producer=ProducerStamp(4, 1, 9))
    checked = accepted(sent, config)
    name = "NONE" if target == "uncompressed" else target.upper()
    assert checked.header.codec == Codec[name]
    assert read_records(checked.data) == read_records(sent)
    same = build_batch(TWO, codec=Codec[name])
    assert accepted(same, config).data == same
