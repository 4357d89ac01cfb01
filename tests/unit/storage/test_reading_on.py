"""Does a reader that goes on where it stopped get every batch once, whatever the sizes of batches and reads?"""

from __future__ import annotations

import random

import pytest

from headrace.log.config import LogConfig
from headrace.log.ports import Appended, FileSlice
from headrace.records.batch import iter_batches
from headrace.records.record import ProducerStamp
from headrace.sim.disk import LossyFiles
from headrace.storage.index_file import EntryFile, OffsetIndex
from headrace.storage.stored_log import StoredLog
from tests.support.stores import append, batch, memory_store, open_log, producer_batch

ROOMY = LogConfig(segment_bytes=20_000, index_interval_bytes=300, retention_ms=-1)


def _filled(seed: int) -> StoredLog:
    chance = random.Random(seed)
    log = open_log(memory_store(LossyFiles(), ROOMY), ROOMY)
    for _ in range(150):
        append(log, batch(*(b"x" * chance.randrange(1, 400) for _ in range(chance.randrange(1, 4)))))
    return log


def _read_on(log: StoredLog, max_bytes: int) -> list[int]:
    """The base offsets of all batches, read as a consumer does."""
    found: list[int] = []
    offset = 0
    while offset < log.log_end_offset:
        part = log.read_slice(offset, max_bytes, upper_offset=log.log_end_offset, min_one_batch=True)
        assert isinstance(part, FileSlice)
        data = part.read()
        first = next(iter_batches(data))[1]
        assert part.size <= max(max_bytes, first.size)
        before = offset
        for _, header in iter_batches(data):
            found.append(header.base_offset)
            offset = header.next_offset
        assert offset > before, "a read made no progress"
    return found


@pytest.mark.parametrize("max_bytes", [1, 61, 300, 900, 2_000, 8_000, 1 << 20])
def test_reading_on_gives_every_batch_once(max_bytes: int) -> None:
    """B-P07: where a read stops is where the next begins, with what was learnt from the one before and without it."""
    log = _filled(max_bytes)
    expected = [
        header.base_offset for segment in log.segments for _, header in iter_batches(segment.log.pread(segment.size, 0))
    ]
    assert _read_on(log, max_bytes) == expected
    assert _read_on(log, max_bytes) == expected


def test_a_cut_forgets_where_batches_were() -> None:
    """R20: after a truncation other batches may stand at the same offsets, elsewhere."""
    log = _filled(5)
    _read_on(log, 2_000)
    log.truncate_to(10)
    for _ in range(40):
        append(log, batch(b"another size altogether"))
    found = _read_on(log, 2_000)
    assert found[-1] < log.log_end_offset
    assert [offset for offset in found if offset >= 10] == list(range(10, log.log_end_offset))


@pytest.mark.parametrize("seed", range(20))
def test_the_index_finds_what_a_plain_search_finds(seed: int) -> None:
    """K33: entries that lie evenly, unevenly, close together and far apart; a search from every side."""
    chance = random.Random(seed)
    index = OffsetIndex(EntryFile(LossyFiles(), "/index"), 1000)
    last, position = 1000 + chance.randrange(3), 0
    entries: list[tuple[int, int]] = []
    deltas: dict[int, int] = {}
    for _ in range(chance.randrange(60)):
        entries.append((last, position))
        deltas[position] = chance.randrange(100)
        index.append(last, position, deltas[position])
        last += chance.choice((1, 2, 50, 10_000))
        position += chance.choice((61, 4096, 900_000))
    for _ in range(200):
        offset, at = 1000 + chance.randrange(last), chance.randrange(position + 100)
        below = [entry for entry in entries if entry[0] <= offset]
        assert index.entry_for(offset) == (below[-1] if below else None)
        before = [entry for entry in entries if entry[1] <= at]
        assert index.batch_before(at) == ((before[-1][0] - deltas[before[-1][1]], *before[-1]) if before else None)
    stored = OffsetIndex(EntryFile(LossyFiles(), "/index", bytes(index.file.data)), 1000)
    stored.append(last, position, 7)
    assert [(stored.batch_before(at) or (0,))[0] for _, at in entries] == [-1] * len(entries)
    assert stored.batch_before(position) == (last - 7, last, position)
    for each in (stored, index):
        each.cut_at(position // 2)
        each.append(last, position, 9)
        assert each.batch_before(position) == (last - 9, last, position)


def test_an_idempotent_producer_is_checked_on_the_quick_way_too() -> None:
    """E1, E2, E3: in order, repeated, with a gap, of an older epoch; the answers are those of the long way."""
    log = open_log(memory_store(LossyFiles(), ROOMY), ROOMY)

    def send(epoch: int, sequence: int, *values: bytes) -> tuple[int, bool] | str:
        done = log.append_as_leader(
            producer_batch(ProducerStamp(7, epoch, sequence), *values), leader_epoch=0, now_ms=1_700_000_000_000
        )
        return (done.first_offset, done.is_duplicate) if isinstance(done, Appended) else done.error.name

    assert [send(3, sequence, b"a", b"b") for sequence in (0, 2, 4)] == [(0, False), (2, False), (4, False)]
    assert send(3, 2, b"a", b"b") == (2, True)
    assert send(3, 8, b"a") == "OUT_OF_ORDER_SEQUENCE_NUMBER"
    assert send(2, 6, b"a") == "INVALID_PRODUCER_EPOCH"
    assert send(3, 6, b"c") == (6, False)
    assert send(4, 0, b"d") == (7, False)
    assert send(4, 1, b"e") == (8, False)
    assert send(4, 1, b"e") == (8, True)
    assert [(each.last_sequence, each.producer_epoch) for each in log.active_producers()] == [(1, 4)]
