"""Batches of a producer that the log holds and its snapshot does not tell.

A producer snapshot, whose form is Kafka's, has room for the last batch of each producer; a client may send any of its last five again, when it heard
no answer before the broker stopped. They are looked for when one is missed, so that a start reads nothing more.
"""

from __future__ import annotations

from typing import Final, Protocol

from headrace.core.errors import PeerError
from headrace.log.ports import OutOfRange
from headrace.log.producers import (
    REMEMBERED_BATCHES,
    ProducerEntry,
    ProducerStates,
    SequencedBatch,
    is_behind,
    next_sequence,
)
from headrace.records.batch import BatchHeader, iter_batches

_STEP: Final = 1_000
"""Offsets that are looked through at once, going back from the last known batch."""
_MOST_OFFSETS: Final = 20_000
_MOST_BYTES: Final = 4 << 20
"""Of all steps; they take some milliseconds, once for each producer after a start."""


class ReadableLog(Protocol):
    """What is needed of a log; `headrace.storage.stored_log.StoredLog` is the real one."""

    @property
    def producers(self) -> ProducerStates: ...

    @property
    def log_start_offset(self) -> int: ...

    def read_bytes(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> bytes | OutOfRange: ...


def recall_batches(log: ReadableLog, header: BatchHeader) -> bool:
    """Whether batches were found before those that are known of the header's producer; they are known from now on. Raises StorageFault."""
    entry = log.producers.get(header.producer_id)
    if entry is None or not entry.is_shortened or entry.producer_epoch != header.producer_epoch:
        return False
    room = REMEMBERED_BATCHES - len(entry.batches)
    if not entry.batches or not room:
        return False
    first = entry.batches[0]
    if not is_behind(first.first_sequence, header.base_sequence):
        return False
    entry.is_shortened = False
    earlier: list[SequencedBatch] = []
    end, left = first.first_offset, _MOST_BYTES
    lowest = max(log.log_start_offset, end - _MOST_OFFSETS)
    while len(earlier) < room and end > lowest and left > 0:
        begin = max(lowest, end - _STEP)
        headers = _headers(log, begin, end, left)
        left -= sum(header.size for header in headers)
        end = min(begin, headers[0].base_offset) if headers else begin
        earlier = _chain(earlier[0] if earlier else first, _batches_of(entry, headers)) + earlier
    entry.batches[:0] = earlier[-room:]
    return bool(earlier)


def _headers(log: ReadableLog, begin: int, end: int, max_bytes: int) -> list[BatchHeader]:
    """Of the batches between two offsets, from the one on that holds the first, in order; as many as `max_bytes` have."""
    found: list[BatchHeader] = []
    while begin < end and max_bytes > 0:
        data = log.read_bytes(begin, max_bytes, upper_offset=end, min_one_batch=True)
        if isinstance(data, OutOfRange) or not data:
            break
        max_bytes -= len(data)
        try:
            for _, header in iter_batches(memoryview(data)):
                found.append(header)
                begin = header.next_offset
        except PeerError:
            break
    return found


def _batches_of(entry: ProducerEntry, headers: list[BatchHeader]) -> list[SequencedBatch]:
    """Those of the producer in its epoch."""
    return [
        SequencedBatch(each.base_sequence, each.last_sequence, each.base_offset, each.last_offset, each.max_timestamp)
        for each in headers
        if (each.producer_id, each.producer_epoch) == (entry.producer_id, entry.producer_epoch)
    ]


def _chain(first: SequencedBatch, found: list[SequencedBatch]) -> list[SequencedBatch]:
    """Those that lead up to `first` without a gap in their sequences, in order."""
    chain: list[SequencedBatch] = []
    for batch in reversed(found):
        if next_sequence(batch.last_sequence) != first.first_sequence:
            break
        chain.insert(0, batch)
        first = batch
    return chain
