"""Do the vectorised reader and writer of record batches agree with the plain ones, on any records and on any bytes?"""

from __future__ import annotations

import contextlib
import random
import struct

import pyarrow as pa
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.arrow.batch_settings import BatchSettings
from headrace.arrow.encode import RowColumns, encode_batches
from headrace.arrow.frames import FrameLimits
from headrace.arrow.schema import HEADERS_TYPE, ROWS_WITH_HEADERS_SCHEMA
from headrace.core.errors import PeerError
from headrace.records.record import NewRecord, Placement, build_batch
from tests.support.arrow_rows import Row, arrow_batches, arrow_rows, plain_rows

QUICK = settings(max_examples=120, deadline=None, derandomize=True)
CODECS = st.sampled_from((0, 0, 1, 2, 3, 4))
FIELDS = st.one_of(st.none(), st.binary(max_size=6), st.binary(min_size=60, max_size=70), st.just(b"v" * 8200))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
HEADERS = st.lists(st.tuples(NAMES, st.one_of(st.none(), st.binary(max_size=80))), max_size=3).map(tuple)
TIMES = st.one_of(st.integers(0, 100), st.integers(-1, 2**45))
RECORDS = st.builds(NewRecord, key=FIELDS, value=FIELDS, timestamp=TIMES, headers=HEADERS)
SAME = st.builds(lambda record, count: [record] * count, RECORDS, st.integers(1, 300))
BATCHES = st.lists(
    st.tuples(st.one_of(st.lists(RECORDS, min_size=1, max_size=12), SAME), CODECS), min_size=1, max_size=4
)


def answer(batches: list[tuple[list[NewRecord], int]], *, gap: int = 0) -> bytes:
    """A fetch answer of these batches, `gap` offsets missing after each."""
    out, offset = bytearray(), 1000
    for records, codec in batches:
        out += build_batch(records, codec=codec, placement=Placement(base_offset=offset))
        offset += len(records) + gap
    return bytes(out)


@QUICK
@given(BATCHES, st.integers(0, 3))
def test_any_records_read_as_the_plain_reader_reads_them(batches: list[tuple[list[NewRecord], int]], gap: int) -> None:
    """The clever reader has a plain twin: same offsets, times, keys, values and headers for all codecs, sizes and nulls."""
    records = answer(batches, gap=gap)
    assert arrow_rows(records) == plain_rows(records)
    assert arrow_rows(records, limits=FrameLimits(max_rows=1)) == plain_rows(records)


@QUICK
@given(BATCHES, st.integers(995, 1400), st.integers(0, 400))
def test_only_the_offsets_asked_for_are_read(batches: list[tuple[list[NewRecord], int]], start: int, size: int) -> None:
    """A range has exactly its offsets, wherever in a batch it begins and ends."""
    records = answer(batches)
    wanted = [row for row in plain_rows(records) if start <= row[0] < start + size]
    assert arrow_rows(records, start=start, end=start + size) == wanted


@QUICK
@given(BATCHES, st.lists(st.sampled_from(ROWS_WITH_HEADERS_SCHEMA.names), min_size=1, unique=True))
def test_chosen_columns_are_those_of_the_whole(batches: list[tuple[list[NewRecord], int]], columns: list[str]) -> None:
    """Whichever columns are wanted, in whatever order: the same values as when all are read."""
    records = answer(batches)
    whole = [each.select(columns) for each in arrow_batches(records)]
    assert arrow_batches(records, columns=columns) == whole


@QUICK
@given(BATCHES, st.integers(0, 2**32 - 1))
def test_spoilt_records_are_errors_or_what_the_plain_reader_reads(
    batches: list[tuple[list[NewRecord], int]], seed: int
) -> None:
    """B49, B52, B53: bytes changed under a right CRC give an error or the plain reader's rows, never other rows."""
    rng = random.Random(seed)
    records = bytearray(answer([(each, 0) for each, _ in batches]))
    for _ in range(rng.randrange(1, 4)):
        records[rng.randrange(61, len(records))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    spoilt = _with_right_crcs(records)
    try:
        found = arrow_rows(spoilt)
    except PeerError:
        return
    assert found == _plain_or_none(spoilt)


@QUICK
@given(BATCHES, st.integers(0, 2**32 - 1))
def test_any_changed_byte_without_a_new_crc_is_an_error(batches: list[tuple[list[NewRecord], int]], seed: int) -> None:
    """B40: what the CRC covers cannot change unseen."""
    rng = random.Random(seed)
    records = bytearray(answer(batches[:1]))
    position = rng.randrange(21, len(records))
    records[position] ^= 1 << rng.randrange(8)
    try:
        arrow_rows(bytes(records))
    except PeerError:
        return
    raise AssertionError(f"byte {position} changed and nobody saw")


@QUICK
@given(st.binary(max_size=300))
def test_any_bytes_are_rows_or_an_error(noise: bytes) -> None:
    """B52: no exception but PeerError comes out of any bytes."""
    with contextlib.suppress(PeerError):
        arrow_rows(noise)


@QUICK
@given(st.lists(RECORDS, max_size=40), CODECS, st.sampled_from((1, 200, 1 << 20)))
def test_any_rows_are_written_as_the_plain_reader_reads_them(records: list[NewRecord], codec: int, limit: int) -> None:
    """Arrow columns to record batches and back through the plain reader: nothing is changed, the CRC is right, batches keep to their size."""
    columns = RowColumns(
        key=pa.array([each.key for each in records], pa.binary()),
        value=pa.array([each.value for each in records], pa.binary()),
        headers=pa.array([list(each.headers) for each in records], HEADERS_TYPE),
    )
    out = bytearray()
    for batch in encode_batches(columns, now_ms=77, settings=BatchSettings(codec=codec, max_batch_bytes=limit)):
        count = struct.unpack_from(">i", batch, 57)[0]
        assert codec or len(batch) <= limit or count == 1
        struct.pack_into(">q", batch, 0, len(plain_rows(bytes(out))))
        out += batch
    wanted = [(index, 77, each.key, each.value, each.headers) for index, each in enumerate(records)]
    assert plain_rows(bytes(out)) == wanted
    assert arrow_rows(bytes(out)) == wanted


def _with_right_crcs(records: bytearray) -> bytes:
    position = 0
    while position + 61 <= len(records):
        end = position + 12 + struct.unpack_from(">i", records, position + 8)[0]
        struct.pack_into(">I", records, position + 17, crc32c(memoryview(records)[position + 21 : end]))
        position = end
    return bytes(records)


def _plain_or_none(records: bytes) -> list[Row]:
    """The plain reader's rows, none where it refuses the bytes."""
    try:
        return plain_rows(records)
    except PeerError:
        return []
