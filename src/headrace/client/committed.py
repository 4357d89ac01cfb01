"""Which batches of a fetch answer hold data that a reader may see?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.client.fetcher import AbortedRange
from headrace.records.batch import BatchHeader, iter_batches
from headrace.records.control import ControlType, control_type
from headrace.records.record import Record, iter_records


def data_batches(
    records: memoryview, aborted: Sequence[AbortedRange], *, is_read_committed: bool
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each batch with data: control batches never, batches of aborted transactions not for a committed reader (KIP-98)."""
    left = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    undone: set[int] = set()
    for position, header in iter_batches(records):
        if not is_read_committed:
            if not header.is_control:
                yield position, header
            continue
        while left and left[-1].first_offset <= header.last_offset:
            undone.add(left.pop().producer_id)
        if header.is_control:
            if header.producer_id in undone and _is_abort(records, position):
                undone.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in undone):
            yield position, header


def _is_abort(records: memoryview, position: int) -> bool:
    return any(control_type(record.key) is ControlType.ABORT for record in iter_records(records, position))


def data_records(
    records: memoryview, aborted: Sequence[AbortedRange], *, start: int, is_read_committed: bool
) -> Iterator[tuple[BatchHeader, Record]]:
    """Every record from offset `start` on that a reader may see, with its batch's header. Raises PeerError for records that cannot be read."""
    for position, header in data_batches(records, aborted, is_read_committed=is_read_committed):
        for record in iter_records(records, position):
            if record.offset >= start:
                yield header, record
