"""Batches of a producer that the log holds and its snapshot does not tell.

A producer snapshot, whose form is Kafka's, has room for the last batch of each producer; a client may send any of its last five again, when it heard
no answer before the broker stopped. They are looked for when one is missed, so that a start reads nothing more; in short steps, as one request may name
very many partitions in each of which one is missed.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from typing import Final, Protocol

from headrace.log.ports import OutOfRange
from headrace.log.producers import (
    REMEMBERED_BATCHES,
    ProducerEntry,
    ProducerStates,
    SequencedBatch,
    is_behind,
    next_sequence,
)
from headrace.records.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, read_header

_FIRST_SPAN: Final = 10
_SPAN: Final = 1_000
"""Offsets that are looked through at once, going back from the last known batch: few, then twice as many each time, for batches may be large."""
_MOST_OFFSETS: Final = 20_000
_MOST_BYTES: Final = 4 << 20
"""Of all steps, once for each producer after a start."""
_STEP_BYTES: Final = 128 << 10
"""So much is read in one step, or one batch: half a millisecond of the smallest."""
_ROOM: Final = REMEMBERED_BATCHES - 1
_LENGTH = Struct(">i").unpack_from
_LENGTH_POSITION: Final = 8
_PRODUCER = Struct(">qh").pack
_PRODUCER_POSITION: Final = 43
_PRODUCER_END: Final = 53


class ReadableLog(Protocol):
    """What is needed of a log; `headrace.storage.stored_log.StoredLog` is the real one."""

    is_closed: bool

    @property
    def producers(self) -> ProducerStates: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def is_being_cut(self) -> bool: ...

    def read_bytes(
        self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool
    ) -> bytes | OutOfRange: ...


def recall_batches(log: ReadableLog, header: BatchHeader) -> Generator[None, None, None] | None:
    """The steps of a look for batches before those that are known of the header's producer, which are known at its end; None: there is nothing to look for.

    Others may use the log between two steps. They raise StorageFault.
    """
    entry = log.producers.get(header.producer_id)
    if entry is None or not entry.is_shortened or entry.producer_epoch != header.producer_epoch:
        return None
    if not 0 < len(entry.batches) < REMEMBERED_BATCHES:
        return None
    return _recalled(log, entry) if is_behind(entry.batches[0].first_sequence, header.base_sequence) else None


def _recalled(log: ReadableLog, entry: ProducerEntry) -> Generator[None, None, None]:
    first = entry.batches[0]
    earlier: list[SequencedBatch] = []
    span, left, end = _FIRST_SPAN, _MOST_BYTES, first.first_offset
    lowest = max(log.log_start_offset, end - _MOST_OFFSETS)
    while len(earlier) < _ROOM and end > lowest and left > 0:
        at = begin = max(lowest, end - span)
        span = min(2 * span, _SPAN)
        found: list[SequencedBatch] = []
        while at < end and left > 0:
            yield
            if not _is_first(first, entry, log):
                return  # whatever became of it, it is not what was looked for
            data = log.read_bytes(at, min(left, _STEP_BYTES), upper_offset=end, min_one_batch=True)
            offsets = None if isinstance(data, OutOfRange) else _looked_through(data, entry, found)
            if isinstance(data, OutOfRange) or offsets is None:
                break
            left -= len(data)
            begin, at = min(begin, offsets[0]), offsets[1]
        end = begin
        earlier = _chain(earlier[0] if earlier else first, found) + earlier
    entry.is_shortened = False
    for batch in reversed(earlier[-_ROOM:]):
        if len(entry.batches) < REMEMBERED_BATCHES:
            entry.batches.insert(0, batch)


def _is_first(first: SequencedBatch, entry: ProducerEntry, log: ReadableLog) -> bool:
    """Whether this is still the first batch that is known of the producer, whatever was done with the log meanwhile."""
    return (
        not log.is_closed
        and not log.is_being_cut
        and log.producers.get(entry.producer_id) is entry
        and len(entry.batches) > 0
        and entry.batches[0] is first
    )


def _looked_through(data: bytes, entry: ProducerEntry, found: list[SequencedBatch]) -> tuple[int, int] | None:
    """Adds the batches of the producer in its epoch to `found`. The first offset, and the one behind the last batch; None: there is no whole batch."""
    wanted = _PRODUCER(entry.producer_id, entry.producer_epoch)
    position, last, room = 0, -1, len(data) - HEADER_SIZE
    while position <= room:
        (length,) = _LENGTH(data, position + _LENGTH_POSITION)
        following = position + LOG_OVERHEAD + length
        if length < HEADER_SIZE - LOG_OVERHEAD or following > len(data):
            break
        if data[position + _PRODUCER_POSITION : position + _PRODUCER_END] == wanted:
            each = read_header(data, position)
            found.append(
                SequencedBatch(
                    each.base_sequence, each.last_sequence, each.base_offset, each.last_offset, each.max_timestamp
                )
            )
        last, position = position, following
    return None if last < 0 else (read_header(data).base_offset, read_header(data, last).next_offset)


def _chain(first: SequencedBatch, found: list[SequencedBatch]) -> list[SequencedBatch]:
    """Those that lead up to `first` without a gap in their sequences, in order."""
    chain: list[SequencedBatch] = []
    for batch in reversed(found):
        if next_sequence(batch.last_sequence) != first.first_sequence:
            break
        chain.insert(0, batch)
        first = batch
    return chain
