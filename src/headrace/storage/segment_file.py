"""One segment of a log on disk: batches from a base offset on, with its indexes."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from headrace.core.errors import StorageFault
from headrace.core.ports import BytesLike, File, Files
from headrace.log.partition_log import PlannedBatch
from headrace.records.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    BatchHeader,
    read_header,
)
from headrace.storage.descriptors import opened_again
from headrace.storage.index_file import (
    EntryFile,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    last_time_entry,
    read_entries,
)
from headrace.storage.layout import INDEX, LOG, TIME_INDEX, TXN_INDEX, log_directory_of, offset_file

SCAN_BYTES = 16 * 1024
_FIND_BYTES = 4 * 1024 + HEADER_SIZE
_PLACE = Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta out of a batch header."""
_UNKNOWN = -2
_KNOWN_STARTS = 128
"""Of the readers of one segment: the places where the last so many reads ended."""
_IDLE_ROUNDS = 3
_HEADERS_A_TURN = 1_000


class Segment:
    """The file of one segment and its indexes; `headrace.storage.stored_log.StoredLog` drives it.

    Indexes are read on first use; one that does not fit its log is built anew (K33). `size` is bytes in the log file.
    `max_timestamp` is ms since 1970, -1 if no record has one, and `offset_of_max_timestamp` the last offset of its batch. `starts` are positions
    where readers are expected to go on, by the offset that they will ask for.
    """

    __slots__ = (
        "__weakref__",
        "_files",
        "_first_timestamp",
        "_index",
        "_log",
        "_max_timestamp",
        "_offset_of_max_timestamp",
        "_time_index",
        "_txn_index",
        "base_offset",
        "bytes_since_entry",
        "created_ms",
        "idle_rounds",
        "is_resting",
        "jitter_ms",
        "names_changed",
        "path",
        "size",
        "starts",
    )

    def __init__(self, files: Files, path: str, base_offset: int, *, size: int = 0) -> None:
        self._files = files
        self.path, self.base_offset, self.size = path, base_offset, size
        self.created_ms = self.jitter_ms = 0
        self.idle_rounds = self.bytes_since_entry = 0
        self.names_changed = self.is_resting = False
        self._log: File | None = None
        self.starts: dict[int, int] = {}
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self._max_timestamp = _UNKNOWN if size else NO_TIMESTAMP
        self._offset_of_max_timestamp = -1
        self._first_timestamp = _UNKNOWN if size else NO_TIMESTAMP

    @classmethod
    def create(cls, files: Files, path: str, base_offset: int, *, now_ms: int, jitter_ms: int = 0) -> Segment:
        """A new, empty segment; leftovers of an abandoned one are emptied."""
        segment = cls(files, path, base_offset)
        segment._log = files.open(offset_file(path, base_offset, LOG), create=True, truncate=True)
        segment.created_ms = now_ms
        segment.jitter_ms = jitter_ms
        segment.names_changed = True
        segment._start_indexes()
        return segment

    @classmethod
    def over(cls, files: Files, path: str, base_offset: int, file: File) -> Segment:
        """A segment for reading batches out of `file`, whatever its name."""
        segment = cls(files, path, base_offset, size=file.size())
        segment._log = file
        return segment

    def _start_indexes(self) -> None:
        """Begin with empty indexes; files of the same names are removed."""
        names = [offset_file(self.path, self.base_offset, suffix) for suffix in (INDEX, TIME_INDEX, TXN_INDEX)]
        for name in names:
            self._files.unlink(name)
        index, time_index, aborted = (EntryFile(self._files, name) for name in names)
        self._index, self._time_index = OffsetIndex(index, self.base_offset), TimeIndex(time_index, self.base_offset)
        self._txn_index = TransactionIndex(aborted)
        self.names_changed = True

    # -- files -------------------------------------------------------------------------------------------------

    @property
    def log(self) -> File:
        """The log file, opened on first use."""
        log = self._log  # another thread may let go of it meanwhile
        if log is None:
            log = self._log = self._files.open(offset_file(self.path, self.base_offset, LOG))
            if self.is_resting:
                opened_again(self)
        return log

    @property
    def index(self) -> OffsetIndex:
        """The offset index; rebuilt if it is missing or does not fit the log."""
        if self._index is None:
            self._load_indexes()
        assert self._index is not None
        return self._index

    @property
    def time_index(self) -> TimeIndex:
        """The time index, likewise."""
        if self._time_index is None:
            self._load_indexes()
        assert self._time_index is not None
        return self._time_index

    @property
    def txn_index(self) -> TransactionIndex:
        """The aborted transactions that end in this segment."""
        if self._txn_index is None and not self.load_txn_index():
            raise StorageFault(
                f"{offset_file(self.path, self.base_offset, TXN_INDEX)} is damaged",
                directory=log_directory_of(self.path),
            )
        assert self._txn_index is not None
        return self._txn_index

    @property
    def has_aborted(self) -> bool:
        """Some transaction that ends in this segment was aborted. False before `load_txn_index` where a start found no file of them."""
        return bool(self._txn_index)

    def load_txn_index(self) -> bool:
        """Read the aborted transactions; False if the file is damaged."""
        name = offset_file(self.path, self.base_offset, TXN_INDEX)
        loaded = TransactionIndex(EntryFile(self._files, name, self._files.read_file(name) or b""))
        if not loaded.is_sane(self.base_offset):
            return False
        self._txn_index = loaded
        return True

    def clear_txn_index(self) -> None:
        """Begin with no aborted transactions; their file goes."""
        name = offset_file(self.path, self.base_offset, TXN_INDEX)
        self._files.unlink(name)
        self._txn_index = TransactionIndex(EntryFile(self._files, name))

    def _load_indexes(self) -> None:
        names = [offset_file(self.path, self.base_offset, suffix) for suffix in (INDEX, TIME_INDEX)]
        data = [read_entries(self._files, name, self.size) for name in names]
        if data[0] is not None and data[1] is not None:
            index = OffsetIndex(EntryFile(self._files, names[0], data[0]), self.base_offset)
            time_index = TimeIndex(EntryFile(self._files, names[1], data[1]), self.base_offset)
            if index.is_sane(self.size) and time_index.is_sane() and (len(time_index) or not self.size):
                self._index, self._time_index = index, time_index
                self.idle_rounds = 0
                return
        self.rebuild_indexes()

    def rebuild_indexes(self, index_interval_bytes: int = 4096) -> None:
        """Make the offset and time index anew from the batch headers."""
        for suffix in (INDEX, TIME_INDEX):
            self._files.unlink(offset_file(self.path, self.base_offset, suffix))
        self.index_batches(index_interval_bytes)

    def index_batches(self, index_interval_bytes: int) -> None:
        """Fill offset and time index in memory from the batch headers."""
        names = [offset_file(self.path, self.base_offset, suffix) for suffix in (INDEX, TIME_INDEX)]
        self._index = OffsetIndex(EntryFile(self._files, names[0]), self.base_offset)
        self._time_index = TimeIndex(EntryFile(self._files, names[1]), self.base_offset)
        self._max_timestamp = self._first_timestamp = NO_TIMESTAMP
        self._offset_of_max_timestamp = -1
        self.bytes_since_entry = 0
        self.names_changed = True
        for position, header in self.batches():
            self.note_batch(position, header.base_offset, header, index_interval_bytes)
        self._time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, data: BytesLike, batches: tuple[PlannedBatch, ...], index_interval_bytes: int) -> None:
        """Write batches at the end. On a fault the file is cut back to what it was (D10)."""
        start = self.size
        self._write_at_end(data)
        for position, base, _, header in batches:
            self.note_batch(start + position, base, header, index_interval_bytes)
        self.size = start + len(data)

    def append_one(
        self, data: BytesLike, base_offset: int, last_offset: int, max_timestamp: int, index_interval_bytes: int
    ) -> None:
        """`append` of one batch, for a segment that has some. Hot path."""
        start, size = self.size, len(data)
        log = self._log or self.log
        try:
            log.pwrite(data, start)
        except StorageFault:
            log.truncate(start)
            raise
        if self._index is None or self._max_timestamp == _UNKNOWN:
            self._learn_tail()
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._offset_of_max_timestamp = last_offset
        if self.bytes_since_entry > index_interval_bytes:
            self.index.append(last_offset, start, last_offset - base_offset)
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self.bytes_since_entry = size
        else:
            self.bytes_since_entry += size
        self.size = start + size

    def _write_at_end(self, data: BytesLike) -> None:
        start = self.size
        log = self._log or self.log
        try:
            log.pwrite(data, start)
        except StorageFault:
            log.truncate(start)
            raise
        if self._index is None or self._max_timestamp == _UNKNOWN:
            self._learn_tail()

    def note_batch(self, position: int, base_offset: int, header: BatchHeader, index_interval_bytes: int) -> None:
        """Keep indexes and timestamps in step with a batch that is in the file at `position`. Hot path."""
        delta, timestamp = header[6], header[8]
        last_offset = base_offset + delta
        if timestamp > self._max_timestamp:
            self._max_timestamp = timestamp
            self._offset_of_max_timestamp = last_offset
        if position == 0:
            self._first_timestamp = timestamp
        elif self.bytes_since_entry > index_interval_bytes:
            self.index.append(last_offset, position, delta)
            self.time_index.maybe_append(self._max_timestamp, self._offset_of_max_timestamp)
            self.bytes_since_entry = 0
        self.bytes_since_entry += header[1] + LOG_OVERHEAD

    def _learn_tail(self) -> None:
        """Load what an append needs to know about batches written before this process started."""
        last = self.time_index.last()
        if self._max_timestamp == _UNKNOWN:
            self._max_timestamp, self._offset_of_max_timestamp = last or (NO_TIMESTAMP, -1)
        entry = self.index.last()
        self.bytes_since_entry = self.size - (entry[1] if entry else 0)

    def become_inactive(self) -> bool:
        """No more batches come: note the highest timestamp and write the indexes to the page cache. True if they changed."""
        if self._index is None and self._time_index is None:
            return False  # never used since they were read from the disk
        if self.size:
            self.time_index.maybe_append(self.max_timestamp, self.offset_of_max_timestamp)
        return self.store_indexes()

    def store_indexes(self) -> bool:
        """Write new index entries to the page cache. True if there were any."""
        changed = False
        if self._index is not None and self._index.file.store():
            self.names_changed = changed = True
        if self._time_index is not None and self._time_index.file.store():
            changed = True
        if self._txn_index is not None and self._txn_index.store():
            changed = True
        return changed

    def cut(self, position: int, end_offset: int) -> list[EntryFile]:
        """Drop everything from `position` on, which is where offset `end_offset` would be; the indexes that were cut with it.

        The caller syncs these and the log before the next append: a cut that a crash undoes could let old batches stand between new ones.
        """
        indexes = (self.index, self.time_index)
        self.starts.clear()
        self.log.truncate(position)
        self.size = position
        cut = [
            *([indexes[0].file] if indexes[0].cut_at(position) else ()),
            *([indexes[1].file] if indexes[1].cut_at(end_offset) else ()),
            *([self.txn_index.file] if self.txn_index.cut_at(end_offset) else ()),
        ]
        self._max_timestamp, self._offset_of_max_timestamp = indexes[1].last() or (NO_TIMESTAMP, -1)
        start = (indexes[0].last() or (0, 0))[1]
        self.bytes_since_entry = position - start
        if position == 0:
            self._first_timestamp = NO_TIMESTAMP
        for _, header in self.batches(start):
            if header.max_timestamp > self._max_timestamp:
                self._max_timestamp, self._offset_of_max_timestamp = header.max_timestamp, header.last_offset
        return cut

    # -- reading -----------------------------------------------------------------------------------------------

    def batches(self, position: int = 0, *, scan_bytes: int = SCAN_BYTES) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from `position` on; ends before the first that is cut off or is none."""
        log, size = self.log, self.size
        chunk, start = b"", 0
        while position + HEADER_SIZE <= size:
            if position < start or position + HEADER_SIZE > start + len(chunk):
                chunk, start = log.pread(min(scan_bytes, size - position), position), position
                if len(chunk) < HEADER_SIZE:
                    return
            header = read_header(chunk, position - start)
            total = header.length + LOG_OVERHEAD
            if header.magic != MAGIC or total < HEADER_SIZE or position + total > size:
                return
            yield position, header
            position += total

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch that holds `offset`, or of the next one; None if the segment ends before."""
        for position, header in self.batches(self.place_before(offset)):
            if header.base_offset + header.last_offset_delta >= offset:
                return position, header
        return None

    def position_of(self, offset: int) -> int:
        """Position of the batch that holds `offset`, or of the next one; the segment's size if it ends before. Hot path."""
        known = self.starts.get(offset)
        if known is not None:
            return known
        entry = self.index.entry_for(offset)
        named, position = entry or (offset, 0)
        log, size, unpack = self.log, self.size, _PLACE.unpack_from
        chunk, start, end = b"", 0, 0
        while position + HEADER_SIZE <= size:
            if position + HEADER_SIZE > end:
                chunk, start = log.pread(min(_FIND_BYTES, size - position), position), position
                end = start + len(chunk)
                if position + HEADER_SIZE > end:
                    break
            base, length, magic, last_offset_delta = unpack(chunk, position - start)
            if entry is not None:  # the first batch: is it one that the index may name for this offset?
                if magic != MAGIC or not 0 <= base <= base + last_offset_delta <= named:
                    break
                entry = None
            if base + last_offset_delta >= offset:
                return position
            if magic != MAGIC or length < HEADER_SIZE - LOG_OVERHEAD:
                return size
            position += length + LOG_OVERHEAD
        if entry is None:
            return size
        self.rebuild_indexes()  # it named no batch: it is damaged (S61)
        return next((at for at, header in self.batches() if header.last_offset >= offset), size)

    def place_before(self, offset: int) -> int:
        """Position of a batch at or before the one that holds `offset`, 0 if the index names none so low."""
        return self._checked(self.index.entry_for(offset)) or 0

    def last_place(self) -> int:
        """Position of the last batch that the index names, 0 if it names none."""
        return self._checked(self.index.last()) or 0

    def _checked(self, entry: tuple[int, int] | None) -> int | None:
        """The position that an entry names if a batch begins there that it may name; else the index is damaged, is built anew, and names none (S61)."""
        if entry is None:
            return None
        named, position = entry
        head = self.log.pread(_PLACE.size, position)
        if len(head) == _PLACE.size:
            base, _, magic, last_offset_delta = _PLACE.unpack(head)
            if magic == MAGIC and 0 <= base <= base + last_offset_delta <= named:
                return position
        self.rebuild_indexes()
        return None

    def boundary_before(self, position: int, start: int) -> int:
        """The last start of a batch between `start` and `position` that the index names, 0 if it names none. Hot path.

        The batch's offset is remembered: a reader that got everything before it asks for it next. An entry that came from a file is held against the log.
        """
        index = self._index
        batch = (self.index if index is None else index).batch_before(position)
        if batch is None or batch[2] <= start:
            return 0
        base, last_offset, found = batch
        if base < 0:
            head = self.log.pread(_PLACE.size, found)
            if len(head) < _PLACE.size:
                return 0
            base, _, magic, last_offset_delta = _PLACE.unpack(head)
            if magic != MAGIC or base + last_offset_delta != last_offset:
                return 0
        self.expect_reader(base, found)
        return found

    def expect_reader(self, offset: int, position: int) -> None:
        """Somebody is about to ask for `offset`, for which the batch at `position` comes next. Hot path."""
        starts = self.starts
        if len(starts) >= _KNOWN_STARTS and offset not in starts:
            del starts[next(iter(starts))]
        starts[offset] = position

    def read_batch(self, position: int, header: BatchHeader) -> bytes:
        """The bytes of a batch."""
        return self.log.pread(header.length + LOG_OVERHEAD, position)

    def batches_with_time(self, timestamp: int, start_offset: int) -> Iterator[tuple[BatchHeader, bytes] | None]:
        """Batches that may hold a record from `start_offset` on with at least this timestamp, by their headers; None after so many that others should have a turn."""
        entry = self.time_index.entry_before(timestamp)
        if entry is not None and not self._has_time(*entry):
            self.rebuild_indexes()
            entry = None
        low = start_offset if entry is None else max(entry[1], start_offset)
        for number, (position, header) in enumerate(self.batches(self.place_before(low)), 1):
            if header.max_timestamp >= timestamp and header.last_offset >= start_offset and header.record_count > 0:
                yield header, self.read_batch(position, header)
            elif number % _HEADERS_A_TURN == 0:
                yield None

    def _has_time(self, timestamp: int, offset: int) -> bool:
        """True if the batch that holds `offset` has this highest timestamp, as the time index says."""
        found = self.find(offset)
        return found is not None and found[1].max_timestamp == timestamp

    @property
    def max_timestamp(self) -> int:
        """Highest timestamp in ms, -1 if there is none."""
        if self._max_timestamp == _UNKNOWN:
            last = None if self._time_index is not None else last_time_entry(self._files, self.path, self.base_offset)
            self._max_timestamp, self._offset_of_max_timestamp = last or self.time_index.last() or (NO_TIMESTAMP, -1)
        return self._max_timestamp

    @property
    def offset_of_max_timestamp(self) -> int:
        """Last offset of the first batch with the highest timestamp."""
        return self._offset_of_max_timestamp if self.max_timestamp >= 0 else -1

    @property
    def first_timestamp(self) -> int:
        """Highest timestamp of the first batch, -1 if there is none: the time since then decides when to roll."""
        if self._first_timestamp == _UNKNOWN:
            first = next(self.batches(scan_bytes=HEADER_SIZE), None)
            self._first_timestamp = first[1].max_timestamp if first else NO_TIMESTAMP
        return self._first_timestamp

    def largest_timestamp(self) -> int:
        """For retention: the highest timestamp, or the file's time of change if no record has one."""
        if self.max_timestamp >= 0:
            return self.max_timestamp
        found = self._files.stat(offset_file(self.path, self.base_offset, LOG))
        return found.mtime_ms if found else self.created_ms

    def forget_indexes(self) -> None:
        """Give memory back; they are read again on the next use. For segments that are no longer written."""
        self.store_indexes()
        self._index = self._time_index = None

    def grow_idle(self) -> None:
        """Called now and then: indexes that were read a few rounds ago go, if their files hold all of them."""
        if self._index is None or self._time_index is None:
            return
        self.idle_rounds += 1
        files = (self._index.file, self._time_index.file)
        if self.idle_rounds > _IDLE_ROUNDS and all(file.stored == len(file.data) for file in files):
            self._index = self._time_index = None

    def store_indexes_as(self, state: str) -> None:
        """Write both indexes whole, under their names with `state` behind, and sync them; they count as stored. Blocks."""
        for entries in (self.index.file, self.time_index.file):
            file = self._files.open(entries.path + state, create=True, truncate=True)
            try:
                file.pwrite(entries.data, 0)
                file.fsync()
            finally:
                file.close()
            entries.stored = len(entries.data)

    def let_go_of_file(self) -> None:
        """Close the log's file as soon as nobody reads it any more; it is opened again when it is needed."""
        self._log = None

    def close(self) -> None:
        """Give the file back."""
        if self._log is not None:
            self._log.close()
