"""The compaction of one log, off the loop, unnoticed by its readers.

`CleaningJob.run` reads closed segments only, which nobody changes, and writes `.cleaned` files. `finish` swaps them in, on the loop,
unless the log was cut or trimmed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from headrace.core.errors import PeerError, StorageFault
from headrace.core.ports import DiskFull, Files
from headrace.log.compaction import (
    BatchCleaner,
    KeyMap,
    LastOfProducer,
    SegmentView,
    TransactionFilter,
    group_segments,
)
from headrace.log.ports import AbortedTransaction
from headrace.records.batch import BatchHeader, batch_is_sound
from headrace.storage.index_file import EntryFile, TransactionIndex
from headrace.storage.layout import CLEANED, INDEX, LOG, SEGMENT_SUFFIXES, SWAP, TIME_INDEX, TXN_INDEX, offset_file
from headrace.storage.segment_file import Segment
from headrace.storage.stored_log import StoredLog
from headrace.storage.swapping import apply_swaps

_SCAN_BYTES = 1024 * 1024
_WRITE_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024
"""So much is read between two rests: about a millisecond of work."""
_T = TypeVar("_T")


class CleaningJob:
    """One pass over one log; implements `headrace.log.ports.CompactionJob`. `finished` is told the new first dirty offset.

    A log with a damaged batch (`is_damaged`) is left as it is: cleaning would make the damage look like a decision. One for whose copy
    the disk has no room (`is_out_of_room`) is left as it is, too (D10).
    """

    def __init__(
        self,
        files: Files,
        log: StoredLog,
        *,
        dirty: tuple[int, int],
        views: Sequence[SegmentView],
        now_ms: int,
        finished: Callable[[int | None], None],
    ) -> None:
        self.pace: Callable[[Iterable[None]], Iterable[None]] = iter
        self._files = files
        self._log = log
        self._first_dirty, self._end = dirty
        self._now_ms = now_ms
        self._finished = finished
        self._config = log.config
        self._generation = log.generation
        by_base = {segment.base_offset: segment for segment in log.segments}
        self._segments = [by_base[view.base_offset] for view in views]
        self._views = views
        for segment in self._segments:
            segment.log.size()
        self._ended = [segment.txn_index.copy() for segment in log.segments]
        self._aborted: list[AbortedTransaction] = []
        self._producers = {
            entry.producer_id: LastOfProducer(entry.last_offset, entry.producer_epoch) for entry in log.producers
        }
        self._cleaned: list[tuple[list[Segment], Segment]] = []
        self._ends = {view.base_offset: view.end_offset for view in views}
        self._clean_end: int | None = None
        self._piece = 0
        self.is_damaged = False
        self.is_out_of_room = False

    def _is_void(self) -> bool:
        """The log was cut, trimmed or closed, so what was read may be gone; or it is damaged."""
        return self._log.is_closed or self._log.generation != self._generation or self.is_damaged

    # -- in a thread -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Write the cleaned segments, giving way to others; blocks. Ends quietly when the log was closed, cut or trimmed meanwhile, or the disk is full."""
        try:
            for _ in self.pace(self._steps()):
                pass
        except DiskFull:
            self._clean_end = None
            self.is_out_of_room = True
        except StorageFault:
            self._clean_end = None
            if not self._is_void():
                raise

    def _steps(self) -> Iterator[None]:
        """All of the work, in pieces of about a millisecond."""
        self._aborted = [  # a transaction that began in the part to clean may have ended behind it
            entry for index in self._ended for entry in index.entries() if entry.first_offset < self._end
        ]
        yield
        keys = yield from self._read_keys()
        if self._is_void():
            return
        transactions = TransactionFilter(self._aborted)
        cleaner = BatchCleaner(
            keys,
            self._config,
            now_ms=self._now_ms,
            transactions=transactions,
            producers=self._producers,
            round_end=self._end,
        )
        by_base = {segment.base_offset: segment for segment in self._segments}
        views = [view for view in self._views if view.base_offset < keys.end_offset]
        for group in group_segments(views, self._config):
            segments = [by_base[view.base_offset] for view in group]
            new = yield from self._write_cleaned(segments, cleaner, transactions)
            if self._is_void():
                new.close()
                return
            self._cleaned.append((segments, new))
        self._clean_end = keys.end_offset

    def _batches(self, segments: Sequence[Segment]) -> Iterator[tuple[Segment, int, BatchHeader]]:
        for segment in segments:
            end = 0
            for position, header in segment.batches(scan_bytes=_SCAN_BYTES):
                if self._is_void():
                    return
                yield segment, position, header
                end = position + header.size
            if end != segment.size:
                self.is_damaged = True
                return

    def _read_keys(self) -> Generator[None, None, KeyMap]:
        """Keys of the dirty part, as far as memory allows."""
        keys = KeyMap()
        keys.end_offset = self._first_dirty
        transactions = TransactionFilter(e for e in self._aborted if e.last_offset >= self._first_dirty)
        dirty = [segment for segment in self._segments if self._ends[segment.base_offset] > self._first_dirty]
        for segment, position, header in self._batches(dirty):
            if self._is_piece_done(header.size):
                yield
            if header.last_offset < self._first_dirty:
                continue
            if keys.is_full:
                return keys
            if header.is_control:
                transactions.ended(header)
            if header.is_control or transactions.is_aborted(header):
                keys.end_offset = header.next_offset
                continue
            try:
                data = segment.read_batch(position, header)
                yield from _after_first(keys.add_batch(header, data, max_bytes=self._config.max_decompressed_bytes))
            except PeerError:
                keys.end_offset = header.next_offset
        if not keys.is_full:
            keys.end_offset = self._end
        return keys

    def _is_piece_done(self, size: int) -> bool:
        """Count bytes; True when there were enough for one piece of work."""
        self._piece += size
        if self._piece < _PIECE_BYTES:
            return False
        self._piece = 0
        return True

    def _write_cleaned(
        self, segments: Sequence[Segment], cleaner: BatchCleaner, transactions: TransactionFilter
    ) -> Generator[None, None, Segment]:
        """Write one group's `.cleaned` files and sync them; the new segment, indexed."""
        path, base = self._log.path, segments[0].base_offset
        out = self._files.open(offset_file(path, base, LOG, CLEANED), create=True, truncate=True)
        pending = bytearray()
        written = 0
        for segment, position, header in self._batches(segments):
            data = segment.read_batch(position, header)
            if not batch_is_sound(data, header):
                self.is_damaged = True
                break
            left = yield from _after_first(cleaner.clean(header, data))
            if self._is_piece_done(header.size):
                yield
            if left is not None:
                pending += left
            if len(pending) >= _WRITE_BYTES:
                out.pwrite(pending, written)
                written += len(pending)
                pending = bytearray()
        out.pwrite(pending, written)
        out.fsync()
        kept, transactions.kept = transactions.kept, []
        self._write_aborted(base, kept)
        new = Segment.over(self._files, path, base, out)
        new.created_ms = segments[0].created_ms
        new.index_batches(self._config.index_interval_bytes)
        new.store_indexes_as(CLEANED)
        return new

    def _write_aborted(self, base: int, kept: Sequence[AbortedTransaction]) -> None:
        """The aborted transactions whose markers stay in this group."""
        name = offset_file(self._log.path, base, TXN_INDEX, CLEANED)
        if not kept:
            self._files.unlink(name)
            return
        index = TransactionIndex(EntryFile(self._files, name))
        for entry in kept:
            index.append(entry)
        self._files.unlink(name)
        index.store()
        file = self._files.open(name)
        try:
            file.fsync()
        finally:
            file.close()

    # -- on the loop -------------------------------------------------------------------------------------------

    def finish(self, now_ms: int) -> int:
        """Swap the cleaned segments in; the bytes saved. 0 and no change if `run` failed or the log changed meanwhile."""
        clean_end = None
        try:
            if self._clean_end is None or self._is_void() or not self._is_recovery_point_stored():
                self._discard()
                return 0
            self._swap()
            clean_end = self._clean_end
            return sum(self._replace(old, new) for old, new in self._cleaned)
        finally:
            self._finished(clean_end)

    def _is_recovery_point_stored(self) -> bool:
        """Recovery must not begin in what is about to be swapped. False if there is no room to note that."""
        try:
            self._log.owner.persist_recovery_point()
        except DiskFull:
            self.is_out_of_room = True
            return False
        return True

    def _swap(self) -> None:
        """The steps of `headrace.storage.swapping`, for all groups at once; then the cleaned indexes, which are synced, get their names."""
        files, path = self._files, self._log.path
        for _, new in self._cleaned:
            for suffix in (TXN_INDEX, LOG):
                name = offset_file(path, new.base_offset, suffix)
                if files.exists(name + CLEANED):
                    files.rename(name + CLEANED, name + SWAP)
        files.fsync_dir(path)
        apply_swaps(files, path, {new.base_offset: self._ends[old[-1].base_offset] for old, new in self._cleaned})
        for _, new in self._cleaned:
            for suffix in (INDEX, TIME_INDEX):
                name = offset_file(path, new.base_offset, suffix)
                files.rename(name + CLEANED, name)

    def _replace(self, old: Sequence[Segment], new: Segment) -> int:
        """The log goes on with `new`; the bytes saved."""
        new.forget_indexes()
        self._log.replace_segments(old, new)
        return sum(segment.size for segment in old) - new.size

    def _discard(self) -> None:
        """Remove files of a pass that came to nothing."""
        for _, new in self._cleaned:
            new.close()
        if self._log.is_closed or not self._files.exists(self._log.path):
            return
        for segment in self._segments:
            for suffix in SEGMENT_SUFFIXES:
                self._files.unlink(offset_file(self._log.path, segment.base_offset, suffix, CLEANED))


def _after_first(turns: Generator[None, None, _T]) -> Generator[None, None, _T]:
    """The same without a pause after the first turn: nearly every batch takes one only, and pieces are counted in bytes."""
    try:
        next(turns)
    except StopIteration as ended:
        only: _T = ended.value
        return only
    return (yield from turns)
