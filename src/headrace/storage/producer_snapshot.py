"""A log's memory of its producers across a restart: `<offset>.snapshot`, Kafka's format 1.

It holds the state of all producers after every batch below the offset in its name. Only the last batch of each producer is kept.
A snapshot is a cache (D7): a damaged or missing one means that more of the log is read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from struct import Struct

from headrace.core.ports import Files
from headrace.log.producers import MAX_SEQUENCE, ProducerEntry, SequencedBatch
from headrace.records.crc import crc32c
from headrace.storage.layout import SNAPSHOT, offset_file

_HEAD = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_VERSION = 1
_CRC_END = 6


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """The file's bytes: version, CRC-32C of what follows, count, entries."""
    body = bytearray()
    count = 0
    for entry in entries:
        count += 1
        last = entry.batches[-1] if entry.batches else None
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence if last else -1,
            last.last_offset if last else -1,
            last.last_offset - last.first_offset if last else 0,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_start,
        )
    head = _HEAD.pack(_VERSION, 0, count)
    crc = crc32c(head[_CRC_END:] + body)
    return _HEAD.pack(_VERSION, crc, count) + body


def decode_snapshot(data: bytes) -> list[ProducerEntry] | None:
    """The producers, or None if the bytes are damaged or of another version."""
    if data == _NOBODY:
        return []
    if len(data) < _HEAD.size:
        return None
    version, crc, count = _HEAD.unpack_from(data)
    if version != _VERSION or len(data) != _HEAD.size + count * _ENTRY.size or crc32c(data[_CRC_END:]) != crc:
        return None
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(data[_HEAD.size :])]


def _entry(*fields: int) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start = fields
    entry = ProducerEntry(producer_id, epoch)
    entry.last_timestamp = timestamp
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_start = transaction_start
    if last_offset >= 0:
        first_sequence = last_sequence - delta
        if first_sequence < 0:
            first_sequence += MAX_SEQUENCE + 1
        entry.is_shortened = True
        entry.batches.append(SequencedBatch(first_sequence, last_sequence, last_offset - delta, last_offset, timestamp))
    return entry


_NOBODY = encode_snapshot(())
"""Most are of partitions without producers that count their batches."""


def write_snapshot(files: Files, path: str, offset: int, entries: Iterable[ProducerEntry]) -> str:
    """Write the snapshot for `offset` to the page cache; returns its path, which is still to be synced."""
    name = offset_file(path, offset, SNAPSHOT)
    file = files.open(name, create=True, truncate=True)
    try:
        file.pwrite(encode_snapshot(entries), 0)
    finally:
        file.close()
    return name


def read_snapshot(files: Files, path: str, offset: int) -> list[ProducerEntry] | None:
    """The producers of the snapshot for `offset`, or None if it is missing or damaged."""
    data = files.read_file(offset_file(path, offset, SNAPSHOT))
    return None if data is None else decode_snapshot(data)


class ProducerSnapshots:
    """The snapshots that one log has on disk, by the offsets in their names, in order."""

    __slots__ = ("_files", "_offsets", "_path")

    def __init__(self, files: Files, path: str, offsets: Iterable[int]) -> None:
        self._files = files
        self._path = path
        self._offsets = list(offsets)

    @property
    def offsets(self) -> Sequence[int]:
        """For which offsets there are any."""
        return self._offsets

    def take(self, offset: int, entries: Iterable[ProducerEntry]) -> str | None:
        """Write one for `offset`; its path, which is still to be synced. None if the newest is that one."""
        if self._offsets and self._offsets[-1] == offset:
            return None
        name = write_snapshot(self._files, self._path, offset, entries)
        self._offsets.append(offset)
        return name

    def cut(self, offset: int) -> None:
        """Remove those above `offset`, durably."""
        if self.remove_above(offset):
            self._files.fsync_dir(self._path)

    def remove_above(self, offset: int) -> bool:
        """Remove those above `offset`. True if there were any."""
        stale = [at for at in self._offsets if at > offset]
        self._remove(stale)
        return bool(stale)

    def remove_below(self, offset: int) -> None:
        """Remove those below `offset` but the newest."""
        self._remove([at for at in self._offsets[:-1] if at < offset])

    def remove_at(self, offsets: Collection[int]) -> None:
        """Remove those for `offsets` but the newest."""
        self._remove([at for at in self._offsets[:-1] if at in offsets])

    def remove_all(self) -> None:
        """Remove every one."""
        self._remove(self._offsets)

    def _remove(self, gone: Sequence[int]) -> None:
        for at in gone:
            self._files.unlink(offset_file(self._path, at, SNAPSHOT))
        self._offsets = [at for at in self._offsets if at not in gone]
