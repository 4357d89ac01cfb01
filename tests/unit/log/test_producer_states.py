"""New, repeated, or out of order?"""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.log.ports import AbortedTransaction
from headrace.log.producers import MAX_SEQUENCE, MOST_PRODUCERS, ProducerStates, SequencedBatch, aborted_entry
from headrace.records.batch import BatchHeader, read_header
from headrace.records.control import TransactionMarker
from headrace.records.record import NewRecord, ProducerStamp, build_batch


def header(
    sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, transactional: bool = False
) -> BatchHeader:
    """The header of a producer's batch."""
    stamp = ProducerStamp(producer_id, epoch, sequence, transactional)
    return read_header(build_batch([NewRecord(b"k", b"v", 50)] * count, producer=stamp))


def after(*batches: BatchHeader) -> ProducerStates:
    """The state after these batches, appended one behind the other."""
    states = ProducerStates()
    offset = 0
    for batch in batches:
        assert states.check_client_batch(batch) is None
        states.appended(batch, offset)
        offset += batch.record_count
    return states


def test_the_next_sequence_is_new_and_a_gap_is_refused() -> None:
    """inv:E1, B-P04: 45 for a gap and for an old batch that is not remembered."""
    states = after(header(0, 3))
    assert states.check_client_batch(header(3)) is None
    assert states.check_client_batch(header(4)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert states.check_client_batch(header(1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_last_five_batches_are_known_as_repeats() -> None:
    """inv:E2, defect:K34: each of the last five is answered with its offsets, the sixth is out of order."""
    batches = [header(2 * index, 2) for index in range(6)]
    states = after(*batches)
    for index in range(1, 6):
        found = states.check_client_batch(batches[index])
        assert found == SequencedBatch(2 * index, 2 * index + 1, 2 * index, 2 * index + 1, 50)
    assert states.check_client_batch(batches[0]) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_with_other_limits_is_no_repeat() -> None:
    """inv:E2: first and last sequence must both be equal."""
    assert after(header(0, 3)).check_client_batch(header(0, 2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_epochs_below_none_are_refused_and_without_one_any_sequence_is_next() -> None:
    """inv:E1: what no client sends, answered as Kafka does."""
    assert ProducerStates().check_client_batch(header(0, epoch=-2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    states = after(header(5, epoch=-1), header(9, epoch=-1), header(7, epoch=0))
    assert states.check_client_batch(header(20, epoch=0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap() -> None:
    """inv:E1, B46: after 2^31-1 comes 0; a batch may cross the limit."""
    states = after(header(MAX_SEQUENCE - 1, 2))
    assert states.check_client_batch(header(0)) is None
    crossing = header(MAX_SEQUENCE, 3)
    states = after(header(MAX_SEQUENCE - 1), crossing)
    assert states.check_client_batch(header(2)) is None
    found = states.check_client_batch(crossing)
    assert isinstance(found, SequencedBatch)
    assert (found.first_sequence, found.last_sequence) == (MAX_SEQUENCE, 1)


@pytest.mark.parametrize(
    ("epoch", "sequence", "verdict"),
    [
        (0, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (1, 1, None),
        (2, 0, None),
        (2, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ],
)
def test_epochs_rise_and_begin_with_zero(epoch: int, sequence: int, verdict: ErrorCode | None) -> None:
    """inv:E3, B-P04: 47 for an older epoch; a new one starts at sequence 0."""
    states = after(header(0, epoch=1))
    assert states.check_client_batch(header(sequence, epoch=epoch)) is verdict


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """KIP-360: after its state expired or was deleted, a producer goes on."""
    assert ProducerStates().check_client_batch(header(17)) is None


def test_idle_producers_expire_but_not_in_a_transaction() -> None:
    """producer.id.expiration.ms."""
    states = after(header(0), header(0, producer_id=8, transactional=True))
    assert not states.expire(now_ms=149, expiration_ms=100)
    assert states.expire(now_ms=150, expiration_ms=100)
    assert [entry.producer_id for entry in states] == [8]


def test_the_last_stable_offset_waits_for_the_oldest_transaction() -> None:
    """inv:E7: open transactions hold it back, ended ones until their marker is committed."""
    states = ProducerStates()
    states.appended(header(0, 2, transactional=True), 10)
    states.appended(header(0, producer_id=8, transactional=True), 12)
    assert states.first_unstable_offset == 10
    marker = TransactionMarker(is_commit=False, coordinator_epoch=1)
    ended = states.marker_appended(header(-1), marker, 13)
    assert ended is not None
    assert aborted_entry(states, ended) == AbortedTransaction(7, 10, 13, 12)
    assert states.first_unstable_offset == 10
    states.high_watermark_moved(13)
    assert states.first_unstable_offset == 10
    states.high_watermark_moved(14)
    assert states.first_unstable_offset == 12


def test_markers_of_older_epochs_are_refused() -> None:
    """inv:E3, inv:E6: of the producer and of its coordinator."""
    states = ProducerStates()
    states.appended(header(0, epoch=2, transactional=True), 0)
    states.marker_appended(header(-1, epoch=2), TransactionMarker(is_commit=True, coordinator_epoch=5), 1)
    check = states.check_marker
    assert (
        check(header(-1, epoch=1), TransactionMarker(is_commit=True, coordinator_epoch=5))
        is ErrorCode.INVALID_PRODUCER_EPOCH
    )
    older = TransactionMarker(is_commit=True, coordinator_epoch=4)
    assert check(header(-1, epoch=2), older) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert check(header(-1, epoch=2), TransactionMarker(is_commit=True, coordinator_epoch=5)) is None


def test_a_plain_batch_may_not_stand_inside_a_transaction() -> None:
    """inv:E5: E(INVALID_TXN_STATE)."""
    states = after(header(0, transactional=True))
    assert states.check_client_batch(header(1)) is ErrorCode.INVALID_TXN_STATE


def test_of_very_many_producers_those_that_wrote_last_are_remembered() -> None:
    """inv:M1: not by their timestamps, which are theirs to choose; one with an open transaction stays, and one that was forgotten begins anew."""
    states = ProducerStates()
    held = header(0, producer_id=1, transactional=True)
    states.appended(held, 0)
    plain = header(0, producer_id=2)
    for number in range(MOST_PRODUCERS):
        states.appended(plain._replace(producer_id=10 + number, max_timestamp=10_000_000 - number), 1 + number)
    assert MOST_PRODUCERS // 2 < len(states) <= MOST_PRODUCERS
    known = [entry.producer_id for entry in states]
    assert known == [1, *range(10 + MOST_PRODUCERS - len(states) + 1, 10 + MOST_PRODUCERS)]
    assert states.check_client_batch(plain._replace(producer_id=10, base_sequence=5)) is None
