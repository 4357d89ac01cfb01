"""Are the last five batches of a producer known after a start, though its snapshot holds the last one only?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.log.config import LogConfig
from headrace.log.ports import Appended, AppendRefused, CheckedBatch, Opening
from headrace.log.producers import MAX_SEQUENCE
from headrace.records.record import ProducerStamp
from headrace.records.walk import finish
from headrace.sim.disk import LossyFiles
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, append, batch, memory_store, open_log, producer_batch


def sent(log: StoredLog, producer: int, sequence: int, *values: bytes) -> int | ErrorCode:
    """A batch of a producer: the offset of an earlier one that it repeats, -1 for a new one, or the error."""
    data = producer_batch(ProducerStamp(producer, 0, sequence), *values)
    done = log.append_as_leader(data, leader_epoch=0, now_ms=NOW_MS)
    if isinstance(done, AppendRefused):
        return done.error
    return done.first_offset if done.is_duplicate else -1


@pytest.mark.parametrize("between", [0, 40, 2_000])
def test_a_batch_that_is_sent_again_after_a_clean_stop_is_known(between: int) -> None:
    """inv:E2 PR4 B-K04: any of the last five, as before the stop; older ones are out of order. In between others wrote, over several segments."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    offsets = []
    for number in range(7):
        offsets.append(append(log, producer_batch(ProducerStamp(5, 0, 2 * number), b"a", b"b")).first_offset)
        append(log, producer_batch(ProducerStamp(6, 0, number), b"c"))
        for _ in range(between // 7):
            append(log, batch(b"x"))
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files))
    assert sent(log, 5, 4, b"a", b"b") == offsets[2]
    assert [sent(log, 5, 2 * each, b"a", b"b") for each in (2, 3, 4, 5, 6)] == offsets[2:]
    assert sent(log, 5, 2, b"a", b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sent(log, 5, 16, b"a", b"b") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sent(log, 5, 14, b"a", b"b") == -1
    assert sent(log, 6, 5, b"c") >= 0


def test_large_batches_that_are_sent_again_are_known() -> None:
    """inv:E2: nine hundred records of a kilobyte each; a look from far before them does not come to the last ones."""
    large = LogConfig(segment_bytes=1 << 30, index_interval_bytes=4096, retention_ms=-1)
    files = LossyFiles()
    log_values = [b"x" * 1_000] * 900
    store = memory_store(files, large)
    log = open_log(store, large)
    offsets = [append(log, producer_batch(ProducerStamp(5, 0, 900 * n), *log_values)).first_offset for n in range(9)]
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files, large), large)
    assert [sent(log, 5, 900 * each, *log_values) for each in range(4, 9)] == offsets[4:]


def test_large_batches_of_one_record_are_known() -> None:
    """inv:E2: sixty of a hundred kilobytes; a look from a thousand offsets before them ended long before the last ones."""
    large = LogConfig(segment_bytes=1 << 30, index_interval_bytes=4096, retention_ms=-1)
    files = LossyFiles()
    value = b"x" * 100_000
    store = memory_store(files, large)
    log = open_log(store, large)
    offsets = [append(log, producer_batch(ProducerStamp(5, 0, each), value)).first_offset for each in range(60)]
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files, large), large)
    assert [sent(log, 5, each, value) for each in range(55, 60)] == offsets[55:]


def looked_for(between: int) -> tuple[StoredLog, Opening]:
    """A log of a producer with two batches, others' between them, after a start; and the look for the first, not begun."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    append(log, producer_batch(ProducerStamp(5, 0, 0), b"a"))
    for _ in range(between):
        append(log, batch(b"x"))
    append(log, producer_batch(ProducerStamp(5, 0, 1), b"a"))
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files))
    look = log.append_client(producer_batch(ProducerStamp(5, 0, 0), b"a"), leader_epoch=0, now_ms=NOW_MS)
    assert not isinstance(look, Appended | AppendRefused)
    return log, look


def test_a_look_goes_in_short_steps() -> None:
    """PR8: a thousand offsets at a time, none in the request's own turn; twenty thousand took 30 ms of each partition that a request named."""
    log, look = looked_for(5_000)
    assert next(look) is None
    steps = [None]

    def counted() -> Opening:
        try:
            while True:
                steps.append(next(look))  # type: ignore[arg-type]  # there is nothing to open
                yield None
        except StopIteration as ended:
            done: CheckedBatch = ended.value
            return done

    checked = finish(counted())
    assert len(steps) > 8
    done = log.append_checked(checked, leader_epoch=0, now_ms=NOW_MS)
    assert isinstance(done, Appended)
    assert (done.first_offset, done.is_duplicate) == (0, True)


@pytest.mark.parametrize("what", ["epoch", "cut", "start", "four more"])
def test_the_log_may_change_while_it_is_looked_through(what: str) -> None:
    """inv:E2 inv:E3: what was found is of the producer as it was, and is not added to what it is now."""
    log, look = looked_for(3_000)
    next(look)
    next(look)
    if what == "epoch":
        append(log, producer_batch(ProducerStamp(5, 1, 0), b"b"))
    elif what == "cut":
        log.truncate_to(1_000)
    elif what == "start":
        log.truncate_fully_and_start_at(10_000)
    else:
        for each in (2, 3, 4, 5):
            append(log, producer_batch(ProducerStamp(5, 0, each), b"b"))
    before = [entry.state() for entry in log.producers]
    finish(look)
    assert [entry.state() for entry in log.producers] == before


def test_what_was_written_since_the_start_counts_among_the_five() -> None:
    """inv:E2: two batches after the start, three before it."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    offsets = [append(log, producer_batch(ProducerStamp(5, 0, each), b"a")).first_offset for each in range(6)]
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files))
    offsets += [append(log, producer_batch(ProducerStamp(5, 0, each), b"a")).first_offset for each in (6, 7)]
    assert [sent(log, 5, each, b"a") for each in (3, 4, 5, 6, 7)] == offsets[3:]
    assert sent(log, 5, 2, b"a") == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_in_the_log_ends_what_is_known() -> None:
    """inv:E2: of batches before the log's start, or of another epoch, nothing is known."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    append(log, producer_batch(ProducerStamp(5, 0, 0), b"a"))
    append(log, producer_batch(ProducerStamp(5, 1, 0), b"a"))
    second = append(log, producer_batch(ProducerStamp(5, 1, 1), b"a")).first_offset
    store.close(clean=True, broker_epoch=1)
    log = open_log(memory_store(files))
    again = producer_batch(ProducerStamp(5, 1, 0), b"a")
    assert append(log, again).first_offset == second - 1
    wrong = producer_batch(ProducerStamp(5, 1, MAX_SEQUENCE), b"a")
    assert isinstance(log.append_as_leader(wrong, leader_epoch=0, now_ms=NOW_MS), AppendRefused)
