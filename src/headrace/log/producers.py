"""Producers of a log: whether a batch is new, a repeat, or out of order. Source: KIP-98, KIP-360, KIP-447; E1-E4.

Sequences wrap after 2^31-1 to 0. The last five batches of each producer are known, which is what a client may have in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.log.ports import AbortedTransaction, ActiveProducer, ProducerEnd
from headrace.records.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader
from headrace.records.control import TransactionMarker

REMEMBERED_BATCHES = 5
MOST_PRODUCERS = 1 << 13
"""Remembered of one log, those that wrote last. Anybody may take a new id for each batch, and each roll of a segment writes all of them down: 20 ms."""
_FORGOTTEN_AT_ONCE = MOST_PRODUCERS // 4
MAX_SEQUENCE = 2**31 - 1
NONE = -1


def next_sequence(last: int) -> int:
    """The sequence behind the last one; -1, where none is known, comes before 0."""
    return (last + 1) & MAX_SEQUENCE


def is_behind(sequence: int, other: int) -> bool:
    """Whether `sequence` comes later than `other`; none is further ahead than half of all."""
    return 0 < (sequence - other) & MAX_SEQUENCE < 1 << 30


class SequencedBatch(NamedTuple):
    """A batch of a producer: first and last sequence and offset (inclusive), and its highest timestamp in ms."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerEntry:
    """What the log knows of one producer id; `batches` holds its last five, oldest first.

    `is_shortened`: it came from a snapshot, which has room for the last batch only; those before it are looked for where they are missed.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "is_shortened",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
        "transaction_start",
    )

    def __init__(self, producer_id: int, producer_epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.is_shortened = False
        self.batches: list[SequencedBatch] = []
        self.coordinator_epoch = NONE
        self.last_timestamp = NO_TIMESTAMP
        self.transaction_start = NONE

    @property
    def last_sequence(self) -> int:
        """Sequence of the last known record, -1 if none is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last known record, -1 if none is known."""
        return self.batches[-1].last_offset if self.batches else NONE

    def add(self, first_sequence: int, last_delta: int, base_offset: int, timestamp: int) -> None:
        """Its next batch was written at `base_offset`. Hot path."""
        batches = self.batches
        if len(batches) == REMEMBERED_BATCHES:
            del batches[0]
        last_sequence = (first_sequence + last_delta) & MAX_SEQUENCE
        batches.append(SequencedBatch(first_sequence, last_sequence, base_offset, base_offset + last_delta, timestamp))
        self.last_timestamp = timestamp

    def state(self) -> tuple[object, ...]:
        """Everything, as a value to compare."""
        return (
            self.producer_id,
            self.producer_epoch,
            tuple(self.batches),
            self.coordinator_epoch,
            self.last_timestamp,
            self.transaction_start,
        )


class CompletedTransaction(NamedTuple):
    """A transaction that ended with the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


_LAST_OFFSET = attrgetter("last_offset")


class ProducerStates:
    """All producers of one log, and its open transactions. The log drives it, batch by batch, in offset order.

    `end_offset` is where the state stands: every batch below it has been seen. `open` are the transactions without an end, as first offset and producer id, in order.
    """

    __slots__ = ("_by_id", "end_offset", "open", "unreplicated")

    def __init__(self, entries: Iterable[ProducerEntry] = (), *, end_offset: int = 0) -> None:
        self._by_id: dict[int, ProducerEntry] = {}
        self.open: dict[int, int] = {}
        self.unreplicated: dict[int, int] = {}
        self.end_offset = end_offset
        for entry in entries:
            self._by_id[entry.producer_id] = entry
            if entry.transaction_start >= 0:
                self.open[entry.transaction_start] = entry.producer_id
        self.open = dict(sorted(self.open.items()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._by_id.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """The entry of a producer, None if it is unknown here."""
        return self._by_id.get(producer_id)

    def end_of(self, producer_id: int) -> ProducerEnd | None:
        """Where a producer stands; None if it is unknown here."""
        entry = self._by_id.get(producer_id)
        return None if entry is None else ProducerEnd(entry.producer_epoch, entry.last_sequence)

    # -- checks ------------------------------------------------------------------------------------------------

    def awaiting(self, producer_id: int, epoch: int, sequence: int) -> ProducerEntry | None:
        """The producer, if a plain batch with this epoch and first sequence is the one that is next; else None. Hot path."""
        entry = self._by_id.get(producer_id)
        if entry is None or entry.producer_epoch != epoch or entry.transaction_start >= 0 or not entry.batches:
            return None
        return entry if sequence == (entry.batches[-1].last_sequence + 1) & MAX_SEQUENCE else None

    def check_client_batch(self, header: BatchHeader) -> SequencedBatch | ErrorCode | None:
        """The earlier batch that this one repeats, the error to refuse it with, or None if it may be appended."""
        entry = self._by_id.get(header.producer_id)
        epoch = header.producer_epoch
        if entry is None:
            return ErrorCode.INVALID_PRODUCER_EPOCH if epoch < NO_PRODUCER_EPOCH else None
        first = header.base_sequence
        if epoch != entry.producer_epoch:
            if epoch < entry.producer_epoch:
                return ErrorCode.INVALID_PRODUCER_EPOCH
            if first != 0 and entry.producer_epoch != NO_PRODUCER_EPOCH:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            return self._check_transaction(entry, header)
        last = header.last_sequence
        for batch in entry.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        if first != next_sequence(entry.last_sequence) and epoch != NO_PRODUCER_EPOCH:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return self._check_transaction(entry, header)

    @staticmethod
    def _check_transaction(entry: ProducerEntry, header: BatchHeader) -> ErrorCode | None:
        """A plain batch may not stand inside an open transaction of its producer."""
        if entry.transaction_start >= 0 and not header.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return None

    def check_marker(self, header: BatchHeader, marker: TransactionMarker) -> ErrorCode | None:
        """The error to refuse a transaction marker with, or None."""
        entry = self._by_id.get(header.producer_id)
        if entry is None:
            return None
        if header.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return None

    # -- updates -----------------------------------------------------------------------------------------------

    def appended(self, header: BatchHeader, base_offset: int) -> None:
        """A data batch with a producer id was written at `base_offset`."""
        producer_id = header.producer_id
        entry = self._by_id.get(producer_id)
        if entry is None:
            if len(self._by_id) >= MOST_PRODUCERS:
                self._forget_some()
            entry = self._by_id[producer_id] = ProducerEntry(producer_id, header.producer_epoch)
        elif header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches = []
        entry.add(header.base_sequence, header.last_offset_delta, base_offset, header.max_timestamp)
        if header.attributes & 0x10 and entry.transaction_start < 0:
            entry.transaction_start = base_offset
            self.open[base_offset] = producer_id

    def marker_appended(
        self, header: BatchHeader, marker: TransactionMarker, offset: int
    ) -> CompletedTransaction | None:
        """A marker was written at `offset`; the transaction it ended, if one was open."""
        entry = self._by_id.get(header.producer_id)
        if entry is None:
            entry = self._by_id[header.producer_id] = ProducerEntry(header.producer_id, header.producer_epoch)
        elif header.producer_epoch != entry.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches = []
        start = entry.transaction_start
        entry.transaction_start = NONE
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        if start < 0:
            return None
        self.open.pop(start, None)
        self.unreplicated[start] = offset
        return CompletedTransaction(header.producer_id, start, offset, not marker.is_commit)

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Transactions whose marker is committed no longer hold the last stable offset back."""
        if self.unreplicated:
            self.unreplicated = {s: end for s, end in self.unreplicated.items() if end >= high_watermark}

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open or whose end is not committed yet."""
        lowest = next(iter(self.open), None)
        if self.unreplicated:
            ended = min(self.unreplicated)
            return ended if lowest is None else min(lowest, ended)
        return lowest

    def stable_end_after(self, completed: CompletedTransaction) -> int:
        """The last stable offset once `completed` is replicated, as `.txnindex` notes it."""
        lowest = next(iter(self.open), None)
        return completed.last_offset + 1 if lowest is None else lowest

    def expire(self, now_ms: int, expiration_ms: int) -> bool:
        """Forget producers idle for `expiration_ms`, but none with an open transaction. True if any went."""
        gone = [
            entry.producer_id
            for entry in self._by_id.values()
            if entry.transaction_start < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in gone:
            del self._by_id[producer_id]
        return bool(gone)

    def _forget_some(self) -> None:
        """Those that wrote longest ago, but none with an open transaction. By offsets: clients choose their timestamps."""
        idle = [entry for entry in self._by_id.values() if entry.transaction_start < 0]
        idle.sort(key=_LAST_OFFSET)
        for entry in idle[:_FORGOTTEN_AT_ONCE]:
            del self._by_id[entry.producer_id]

    def clear(self, *, end_offset: int) -> None:
        """Know nothing, as a log that begins at `end_offset`."""
        self._by_id.clear()
        self.open.clear()
        self.unreplicated.clear()
        self.end_offset = end_offset

    def active(self) -> list[ActiveProducer]:
        """All producers by id, for DescribeProducers."""
        return [
            ActiveProducer(
                e.producer_id,
                e.producer_epoch,
                e.last_sequence,
                e.last_timestamp,
                e.coordinator_epoch,
                e.transaction_start,
            )
            for _, e in sorted(self._by_id.items())
        ]


def aborted_entry(states: ProducerStates, completed: CompletedTransaction) -> AbortedTransaction:
    """What `.txnindex` keeps of an aborted transaction."""
    return AbortedTransaction(
        completed.producer_id, completed.first_offset, completed.last_offset, states.stable_end_after(completed)
    )
