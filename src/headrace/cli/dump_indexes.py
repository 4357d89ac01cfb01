"""Contents of index files, transaction indexes and producer snapshots, and whether the indexes fit their log."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from headrace.cli.dump_batches import NO_LIMIT
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ports import BytesLike
from headrace.records.batch import HEADER_SIZE, read_header, whole_batch_size
from headrace.records.record import iter_records
from headrace.storage.producer_snapshot import decode_snapshot

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TXN_ENTRY = Struct(">hqqqq")


def offset_entries(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """Absolute offset and position of each entry; the zeros that a crash may leave at the end are left out."""
    whole = len(data) - len(data) % _OFFSET_ENTRY.size
    for place, (relative, position) in enumerate(_OFFSET_ENTRY.iter_unpack(data[:whole])):
        if relative == 0 and place > 0:
            return
        yield relative + base_offset, position


def time_entries(data: bytes, base_offset: int) -> Iterator[tuple[int, int]]:
    """Timestamp (ms since 1970) and absolute offset of each entry, without the zeros that a crash may leave."""
    whole = len(data) - len(data) % _TIME_ENTRY.size
    for place, (timestamp, relative) in enumerate(_TIME_ENTRY.iter_unpack(data[:whole])):
        if relative == 0 and place > 0:
            return
        yield timestamp, relative + base_offset


def sanity_of(data: bytes, path: str, base_offset: int, *, is_time_index: bool) -> str:
    """The line that the index is sane. Raises OperatorError: its size or its last entry cannot be."""
    entry = _TIME_ENTRY if is_time_index else _OFFSET_ENTRY
    if len(data) % entry.size:
        raise OperatorError(
            f"Index file {path} is corrupt, found {len(data)} bytes which is not a multiple of {entry.size}"
        )
    if data:
        last = entry.unpack_from(data, len(data) - entry.size)
        relative = last[1] if is_time_index else last[0]
        first_timestamp = entry.unpack_from(data, 0)[0] if is_time_index else 0
        if relative < 0 or (is_time_index and last[0] < first_timestamp):
            raise OperatorError(
                f"Corrupt index found, index file ({path}) has non-zero size but the last offset is {relative + base_offset} "
                f"which is less than the base offset {base_offset}"
            )
    return f"{path} passed sanity check."


def offset_mismatches(entries: list[tuple[int, int]], log: BytesLike) -> list[tuple[int, int]]:
    """(indexed offset, last offset of the batch there) where they differ; -1 where the log has no batch."""
    found = []
    for offset, position in entries:
        there = _last_offset_at(log, position)
        if there != offset:
            found.append((offset, there))
    return found


def _last_offset_at(log: BytesLike, position: int) -> int:
    try:
        if position < 0 or position + HEADER_SIZE > len(log) or not whole_batch_size(log, position, len(log)):
            return -1
    except PeerError:
        return -1
    return read_header(log, position).last_offset


def time_mismatches(
    entries: list[tuple[int, int]], positions: list[tuple[int, int]], log: BytesLike
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What is wrong in a time index: (indexed, real) timestamps that differ, and (timestamp, one before) out of order.

    `positions` are the entries of the offset index, from which the log is searched.
    """
    wrong: list[tuple[int, int]] = []
    unordered: list[tuple[int, int]] = []
    previous = -1
    for timestamp, offset in entries:
        start = max((position for indexed, position in positions if indexed <= offset), default=0)
        largest = _largest_timestamp(log, start, offset)
        if largest != timestamp:
            wrong.append((timestamp, largest))
        if timestamp < previous:
            unordered.append((timestamp, previous))
        previous = timestamp
    return wrong, unordered


def _largest_timestamp(log: BytesLike, start: int, offset: int) -> int:
    """The largest timestamp of the batch that holds `offset`; -1 where there is none."""
    position = start
    try:
        while size := whole_batch_size(log, position, len(log)):
            header = read_header(log, position)
            if header.last_offset >= offset:
                return max((record.timestamp for record in iter_records(log, position, max_bytes=NO_LIMIT)), default=-1)
            position += size
    except PeerError:
        return -1
    return -1


def transaction_lines(data: bytes) -> Iterator[str]:
    """A line for each aborted transaction."""
    whole = len(data) - len(data) % _TXN_ENTRY.size
    for version, producer_id, first, last, stable in _TXN_ENTRY.iter_unpack(data[:whole]):
        yield f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} lastStableOffset: {stable}"


def producer_lines(data: bytes, path: str) -> Iterator[str]:
    """A line for each producer of a producer snapshot. Raises OperatorError: the file is damaged."""
    entries = decode_snapshot(data)
    if entries is None:
        raise OperatorError(f"Snapshot {path} is corrupt: its checksum, its version or its size is wrong")
    for entry in entries:
        started = "OptionalLong.empty" if entry.transaction_start < 0 else f"OptionalLong[{entry.transaction_start}]"
        line = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch: "
            f"{entry.coordinator_epoch} currentTxnFirstOffset: {started} lastTimestamp: {entry.last_timestamp} "
        )
        for batch in entry.batches[:1]:
            line += (
                f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset: {batch.last_offset} "
                f"offsetDelta: {batch.last_offset - batch.first_offset} timestamp: {entry.last_timestamp}"
            )
        yield line
