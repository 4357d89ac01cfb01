"""Are records walked as they are read, whole or damaged, small or large, a few at a time?"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.records.batch import HEADER_SIZE, read_header
from headrace.records.compression import Codec, decompress
from headrace.records.record import NewRecord, Record, build_batch, read_records
from headrace.records.walk import MAX_HEADERS, RecordWalk, Walk

T = TypeVar("T")
SIZES = st.one_of(st.integers(0, 40), st.sampled_from([65_500, 65_536, 70_000, 200_000]))
PARTS = st.one_of(st.none(), st.builds(bytes, SIZES))
RECORDS = st.lists(
    st.builds(
        NewRecord,
        PARTS,
        PARTS,
        st.integers(0, 2**41),
        st.lists(st.tuples(st.text(max_size=3), st.one_of(st.none(), st.binary(max_size=3))), max_size=5).map(tuple),
    ),
    min_size=1,
    max_size=12,
)


def opened(batch: bytes | bytearray) -> RecordWalk:
    """A walk over a batch."""
    header = read_header(batch)
    return RecordWalk(header, decompress(header.codec, memoryview(batch)[HEADER_SIZE:]))


def walked(walk: RecordWalk, most: int = 1_000) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """(offset, timestamp, key, value) of all."""
    found = []
    while not walk.is_done:
        spans = walk.take(most)
        assert len(spans) <= most
        base = walk.header.base_offset
        found += [(base + s.offset_delta, walk.timestamp(s), walk.key(s), walk.value(s)) for s in spans]
    return found


def told(records: list[Record]) -> list[tuple[int, int, bytes | None, bytes | None]]:
    """The same of whole records."""
    return [record[:4] for record in records]


@given(RECORDS, st.sampled_from(list(Codec)), st.integers(1, 5))
def test_a_walk_meets_the_records_that_are_there(records: list[NewRecord], codec: Codec, most: int) -> None:
    """At windows' edges, beyond them, and with headers."""
    batch = build_batch(records, codec=codec)
    assert walked(opened(batch), most) == told(read_records(batch))


@given(RECORDS, st.data())
def test_any_bytes_are_walked_or_refused(records: list[NewRecord], data: st.DataObject) -> None:
    """B49: where the reader of whole records refuses bytes, the walk does, and never fails otherwise."""
    batch = build_batch(records)
    at = data.draw(st.integers(HEADER_SIZE, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    found, refusal = outcome(lambda: walked(opened(batch)))
    expected, reason = outcome(lambda: told(read_records(batch)))
    if refusal is not None:
        assert refusal.code is ErrorCode.INVALID_RECORD
    else:
        assert reason is None
        assert found == expected


def outcome(read: Callable[[], T]) -> tuple[T | None, PeerError | None]:
    """What came out, or why nothing did."""
    try:
        return read(), None
    except PeerError as refused:
        return None, refused


def test_offsets_that_do_not_rise_are_refused_at_once() -> None:
    """30 million equal records compress to nothing; the second one is wrong."""
    batch = build_batch([NewRecord(None, None)] * 100)
    first = bytes(batch[HEADER_SIZE : HEADER_SIZE + 7])
    batch[HEADER_SIZE:] = first * 100
    walk = opened(batch)
    with pytest.raises(PeerError, match="offset delta 0 behind one with 0"):
        walk.take()


def test_a_turn_counts_headers_as_records() -> None:
    """A record of many headers takes several turns, and is given out in the last."""
    walk = opened(build_batch([NewRecord(b"k", b"v", 0, (("", None),) * 25), NewRecord(b"l", b"w")]))
    turns = []
    while not walk.is_done:
        turns.append([walk.key(span) for span in walk.take(10)])
    assert turns == [[], [], [b"k", b"l"]]


def test_headers_without_end_are_refused() -> None:
    """B49: an empty header has two bytes, so 200 MB would be 100 million turns."""
    batch = build_batch([NewRecord(None, None, 0, (("", None),) * (MAX_HEADERS + 1))])
    with pytest.raises(PeerError, match="more than 4000000 headers"):
        walked(opened(batch))


def test_a_count_that_the_bytes_have_no_room_for_is_refused_before_anything_is_read() -> None:
    """A record has seven bytes at least."""
    batch = build_batch([NewRecord(None, None)] * 2)
    header = read_header(batch)._replace(record_count=3)
    with pytest.raises(PeerError, match="record count 3 does not fit 14 bytes"):
        RecordWalk(header, memoryview(batch)[HEADER_SIZE:])


def count(records: RecordWalk) -> Generator[None, None, int]:
    """How many."""
    number = 0
    while not records.is_done:
        number += len(records.take())
        yield
    return number


@pytest.mark.parametrize(("records", "is_quick"), [(100, True), (3_000, True), (10_000, False)])
def test_a_walk_that_is_long_goes_on_elsewhere(records: int, *, is_quick: bool) -> None:
    """The first turns are taken in place."""
    walk = Walk(build_batch([NewRecord(b"k", None)] * records), count, max_bytes=1 << 20)
    assert walk.begin() is is_quick
    walk.take_all_turns()
    assert walk.outcome == records


def test_a_batch_that_opens_to_much_is_not_opened_in_place() -> None:
    """It goes to where there is room: for small ones, for large ones, or nowhere."""
    batch = build_batch([NewRecord(b"k", bytes(10 << 20))], codec=Codec.ZSTD)
    walk = Walk(batch, count, max_bytes=20 << 20)
    assert (walk.begin(), walk.open(8 << 20), walk.open(1 << 62)) == (False, False, True)
    walk.take_all_turns()
    assert walk.outcome == 1
    refused = Walk(batch, count, max_bytes=8 << 20)
    assert (refused.begin(), refused.open(8 << 20)) == (False, True)
    with pytest.raises(PeerError) as told_why:
        assert refused.outcome
    assert told_why.value.code is ErrorCode.MESSAGE_TOO_LARGE
