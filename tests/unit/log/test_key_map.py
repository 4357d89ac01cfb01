"""Does compaction note the keys of a batch as far as there is room, and none of a damaged one?"""

from __future__ import annotations

import pytest

from headrace.core.errors import PeerError
from headrace.log.compaction import KeyMap
from headrace.records.batch import HEADER_SIZE, read_header
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.records.walk import open_records
from tests.unit.log.test_compaction_rules import take_all


def noted(keys: KeyMap, data: bytes | bytearray) -> list[int | None]:
    """Note the keys of a batch; the last offset of each of its records' keys."""
    header = read_header(data)
    take_all(keys.add_batch(header, bytes(data), max_bytes=1 << 30))
    records = open_records(data, header, max_bytes=1 << 30)
    found = []
    while not records.is_done:
        found += [keys.last_offset(records, span) for span in records.take()]
    return found


def test_a_batch_of_more_keys_than_there_is_room_for_is_noted_in_part() -> None:
    """One batch may open to millions of keys: what is left is for the next pass, which begins inside it."""
    data = build_batch([NewRecord(b"k%d" % n, b"") for n in range(10)], placement=Placement(base_offset=100))
    keys = KeyMap(max_keys=4)
    assert noted(keys, data) == [100, 101, 102, 103, None, None, None, None, None, None]
    assert (keys.is_full, keys.end_offset) == (True, 104)


@pytest.mark.parametrize("count", [100, 12_000])
def test_long_keys_and_many_records_are_noted_too(count: int) -> None:
    """Digests of long keys; batches of so many records that they are walked twice."""
    records = [NewRecord(b"a key that is longer than its digest %d" % (n % 50), b"") for n in range(count)]
    keys = KeyMap()
    last = {n % 50: n for n in range(count)}
    assert noted(keys, build_batch(records)) == [last[n % 50] for n in range(count)]
    assert (keys.is_full, keys.end_offset) == (False, count)


@pytest.mark.parametrize("count", [100, 12_000])
def test_a_batch_that_is_damaged_at_its_end_hides_no_key(count: int) -> None:
    """B53: it stays as it is, and so does what it might hide."""
    data = build_batch([NewRecord(b"k%d" % n, b"") for n in range(count)])
    data[-1] = 7
    keys = KeyMap()
    with pytest.raises(PeerError):
        take_all(keys.add_batch(read_header(data), bytes(data), max_bytes=1 << 30))
    whole = build_batch([NewRecord(b"k0", b"")])
    records = open_records(whole, read_header(whole), max_bytes=1 << 20)
    assert [keys.last_offset(records, span) for span in records.take()] == [None]
    assert len(data) > HEADER_SIZE
