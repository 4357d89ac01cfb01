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

_SPANS: Final = (1_000, 20_000)
"""Offsets before the last known batch that are looked through: few, then more."""
_MOST_BYTES: Final = 4 << 20
"""Of a look; it takes some milliseconds, once for each producer after a start."""


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
    for span in _SPANS:
        begin = max(log.log_start_offset, first.first_offset - span)
        earlier = _chain(first, _batches_of(log, entry, begin, first.first_offset))
        if len(earlier) >= room or begin == log.log_start_offset:
            break
    entry.batches[:0] = earlier[-room:]
    return bool(earlier)


def _batches_of(log: ReadableLog, entry: ProducerEntry, begin: int, end: int) -> list[SequencedBatch]:
    """The producer's batches of this epoch between two offsets, as far as they are found, in order."""
    found: list[SequencedBatch] = []
    left = _MOST_BYTES
    while begin < end and left > 0:
        data = log.read_bytes(begin, left, upper_offset=end, min_one_batch=True)
        if isinstance(data, OutOfRange) or not data:
            break
        left -= len(data)
        try:
            for _, header in iter_batches(memoryview(data)):
                begin = header.next_offset
                if header.producer_id == entry.producer_id and header.producer_epoch == entry.producer_epoch:
                    sequences = (header.base_sequence, header.last_sequence)
                    found.append(
                        SequencedBatch(*sequences, header.base_offset, header.last_offset, header.max_timestamp)
                    )
        except PeerError:
            break
    return found


def _chain(first: SequencedBatch, found: list[SequencedBatch]) -> list[SequencedBatch]:
    """Those that lead up to `first` without a gap in their sequences, in order."""
    chain: list[SequencedBatch] = []
    for batch in reversed(found):
        if next_sequence(batch.last_sequence) != first.first_sequence:
            break
        chain.insert(0, batch)
        first = batch
    return chain
