"""The place of an offset or a time in a segment: Kafka's sparse `.index` and `.timeindex`, and the list of `.txnindex`.

The first two are kept in memory once used and written behind: entries reach the file when the segment is flushed, rolled or closed.
They are caches (D7): after an unclean stop those of segments that may be unsynced are rebuilt from the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import le, lt
from struct import Struct, calcsize, unpack

from headrace.core.ports import Files
from headrace.log.ports import AbortedTransaction
from headrace.log.segments import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from headrace.records.batch import HEADER_SIZE
from headrace.storage.layout import TIME_INDEX, offset_file

_OFFSET_ENTRY = Struct(">iI")
_FIELD = Struct(">I").unpack_from
_POSITION = 4
_TIME_ENTRY = Struct(">qi")
_TXN_ENTRY = Struct(">hqqqq")
_TXN_VERSION = 0
_ENTRIES_A_PART = 1024


def _columns(data: bytearray, entry: str, before: tuple[int, int]) -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Both fields of all entries, many at once: the index of 1 GiB has a quarter of a million. Each part begins with the last entry of the one before, the first with `before`."""
    size = calcsize(">" + entry)
    part = Struct(">" + entry * _ENTRIES_A_PART)
    whole = len(data) - len(data) % part.size
    for at in range(0, len(data), part.size):
        fields = (
            part.unpack_from(data, at) if at < whole else unpack(">" + entry * ((len(data) - at) // size), data[at:])
        )
        yield (before[0], *fields[::2]), (before[1], *fields[1::2])
        before = fields[-2:]


def _all_pairs(holds: Callable[[int, int], bool], numbers: Sequence[int]) -> bool:
    """True if it holds of all neighbours; a loop in C."""
    return all(map(holds, numbers, islice(numbers, 1, None)))


def read_entries(files: Files, path: str, log_size: int) -> bytes | None:
    """The file of an index of a log of that size; None if there is none, or if it is larger than one with an entry for each batch would be."""
    found = files.stat(path)
    if found is None or found.size > (log_size // HEADER_SIZE + 2) * TIME_ENTRY_BYTES:
        return None
    return files.read_file(path)


class EntryFile:
    """Fixed-size entries in memory, and their file. `data` is everything; the file has the first `stored` bytes of it."""

    __slots__ = ("data", "files", "path", "stored")

    def __init__(self, files: Files, path: str, data: bytes = b"") -> None:
        self.files = files
        self.path = path
        self.data = bytearray(data)
        self.stored = len(data)

    def store(self) -> bool:
        """Write new entries to the page cache; creates the file. True if anything was written."""
        if self.stored == len(self.data) and self.files.exists(self.path):
            return False
        file = self.files.open(self.path, create=True)
        try:
            if file.size() != self.stored:
                file.truncate(self.stored)
            file.pwrite(memoryview(self.data)[self.stored :], self.stored)
        finally:
            file.close()
        self.stored = len(self.data)
        return True

    def cut(self, size: int) -> bool:
        """Keep the first `size` bytes. True if the file was cut: it must be synced then, for old entries would look as good as new ones."""
        if size >= len(self.data):
            return False
        del self.data[size:]
        if self.stored <= size:
            return False
        file = self.files.open(self.path, create=True)
        try:
            file.truncate(size)
        finally:
            file.close()
        self.stored = size
        return True

    def sync(self) -> None:
        """Return when the file is durable."""
        file = self.files.open(self.path)
        try:
            file.fsync()
        finally:
            file.close()


class OffsetIndex:
    """(last offset of a batch, position of that batch) about every `index.interval.bytes`.

    Where the batches of entries begin that this process has made, and that they are there, is known without a look into the log.
    """

    __slots__ = ("_base", "_deltas", "_known_from", "file")

    def __init__(self, file: EntryFile, base_offset: int) -> None:
        self.file = file
        self._base = base_offset
        self._known_from = len(file.data) // OFFSET_ENTRY_BYTES
        self._deltas = array("i")
        """Last offset deltas of the batches of the entries from number `_known_from` on."""

    def __len__(self) -> int:
        return len(self.file.data) // OFFSET_ENTRY_BYTES

    def append(self, last_offset: int, position: int, last_offset_delta: int) -> None:
        """The batch at `position` ends at `last_offset` (inclusive)."""
        self.file.data += _OFFSET_ENTRY.pack(last_offset - self._base, position)
        self._deltas.append(last_offset_delta)

    def last(self) -> tuple[int, int] | None:
        """(last offset, position) of the last entry, None if there is none."""
        data = self.file.data
        if not data:
            return None
        relative, position = _OFFSET_ENTRY.unpack_from(data, len(data) - OFFSET_ENTRY_BYTES)
        return self._base + relative, position

    def entry_for(self, offset: int) -> tuple[int, int] | None:
        """(last offset, position) of the last entry at or below `offset`: the batch that holds it begins there or later. None if no entry is that low."""
        slot = self._last_at_most(offset - self._base, 0)
        if slot < 0:
            return None
        relative, at = _OFFSET_ENTRY.unpack_from(self.file.data, slot * OFFSET_ENTRY_BYTES)
        return self._base + relative, at

    def batch_before(self, position: int) -> tuple[int, int, int] | None:
        """(base offset, last offset, position) of the batch of the last entry at or before `position`, None if there is none. A base offset of -1 is not known."""
        slot = self._last_at_most(position, _POSITION)
        if slot < 0:
            return None
        relative, at = _OFFSET_ENTRY.unpack_from(self.file.data, slot * OFFSET_ENTRY_BYTES)
        last, known = self._base + relative, slot - self._known_from
        return (last - self._deltas[known] if known >= 0 else -1), last, at

    def _last_at_most(self, target: int, field: int) -> int:
        """Number of the last entry whose field is at most `target`, -1 if there is none.

        Entries lie about evenly, so the search begins where `target` should be and widens from there.
        """
        data, entry = self.file.data, OFFSET_ENTRY_BYTES
        top = len(data) // entry - 1
        first: int
        if top < 0 or (first := _FIELD(data, field)[0]) > target:
            return -1
        last: int = _FIELD(data, top * entry + field)[0]
        if last <= target:
            return top
        low = high = (target - first) * top // (last - first)
        width = 1
        if _FIELD(data, low * entry + field)[0] <= target:
            while (high := min(low + width, top)) < top and _FIELD(data, high * entry + field)[0] <= target:
                low, width = high, width * 2
        else:
            while (low := max(high - width, 0)) > 0 and _FIELD(data, low * entry + field)[0] > target:
                high, width = low, width * 2
        while high - low > 1:
            middle = (low + high) // 2
            if _FIELD(data, middle * entry + field)[0] <= target:
                low = middle
            else:
                high = middle
        return low

    def cut_at(self, end_position: int) -> bool:
        """Drop entries of batches at or behind `end_position`. True if the file must be synced."""
        data = self.file.data
        size = len(data)
        while size and _OFFSET_ENTRY.unpack_from(data, size - OFFSET_ENTRY_BYTES)[1] >= end_position:
            size -= OFFSET_ENTRY_BYTES
        left = size // OFFSET_ENTRY_BYTES
        self._known_from = min(self._known_from, left)
        del self._deltas[left - self._known_from :]
        return self.file.cut(size)

    def is_sane(self, log_size: int) -> bool:
        """True if entries rise and point into a log of `log_size` bytes (K33)."""
        data = self.file.data
        if len(data) % OFFSET_ENTRY_BYTES:
            return False
        last = (-1, -1)
        for relatives, positions in _columns(data, "iI", last):
            if not (_all_pairs(lt, relatives) and _all_pairs(lt, positions)):
                return False
        return not data or _OFFSET_ENTRY.unpack_from(data, len(data) - OFFSET_ENTRY_BYTES)[1] < log_size


class TimeIndex:
    """(highest timestamp so far, last offset of the batch that had it first); both rise."""

    __slots__ = ("_base", "_highest", "file")

    def __init__(self, file: EntryFile, base_offset: int) -> None:
        self.file = file
        self._base = base_offset
        self._look()

    def _look(self) -> None:
        """Learn the timestamp of the last entry, -1 if there is none."""
        last = self.last() if len(self) else None
        self._highest = -1 if last is None else last[0]

    def __len__(self) -> int:
        return len(self.file.data) // TIME_ENTRY_BYTES

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Note the highest timestamp so far, if it is higher than the last one noted."""
        if timestamp > self._highest:
            self._highest = timestamp
            self.file.data += _TIME_ENTRY.pack(timestamp, offset - self._base)

    def last(self) -> tuple[int, int] | None:
        """(timestamp in ms, offset) of the last entry, None if there is none."""
        data = self.file.data
        if not data:
            return None
        timestamp, relative = _TIME_ENTRY.unpack_from(data, len(data) - TIME_ENTRY_BYTES)
        return timestamp, self._base + relative

    def entry_before(self, timestamp: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the last entry below `timestamp`: no record up to that offset has one so high. None if there is none."""
        data = self.file.data
        low, high = 0, len(data) // TIME_ENTRY_BYTES
        found = None
        while low < high:
            middle = (low + high) // 2
            at, relative = _TIME_ENTRY.unpack_from(data, middle * TIME_ENTRY_BYTES)
            if at < timestamp:
                low, found = middle + 1, (at, self._base + relative)
            else:
                high = middle
        return found

    def cut_at(self, end_offset: int) -> bool:
        """Drop entries of batches at or above `end_offset`. True if the file must be synced."""
        data = self.file.data
        size = len(data)
        while size and _TIME_ENTRY.unpack_from(data, size - TIME_ENTRY_BYTES)[1] + self._base >= end_offset:
            size -= TIME_ENTRY_BYTES
        is_cut = self.file.cut(size)
        self._look()
        return is_cut

    def is_sane(self) -> bool:
        """True if timestamps and offsets rise and no offset is below the segment's base."""
        data = self.file.data
        if len(data) % TIME_ENTRY_BYTES:
            return False
        return all(
            _all_pairs(lt, timestamps) and _all_pairs(le, relatives)
            for timestamps, relatives in _columns(data, "qi", (-1, 0))
        )


def last_time_entry(files: Files, path: str, base_offset: int) -> tuple[int, int] | None:
    """(timestamp, offset) of the last entry of a segment's time index, of which only the file's end is read: retention asks every segment. None if there is none, or it makes no sense."""
    name = offset_file(path, base_offset, TIME_INDEX)
    found = files.stat(name)
    if found is None or not found.size or found.size % TIME_ENTRY_BYTES:
        return None
    file = files.open(name, read_only=True)
    try:
        tail = file.pread(2 * TIME_ENTRY_BYTES, max(found.size - 2 * TIME_ENTRY_BYTES, 0))
    finally:
        file.close()
    last_two = TimeIndex(EntryFile(files, name, tail), base_offset)
    return last_two.last() if last_two.is_sane() else None


class TransactionIndex:
    """The aborted transactions whose marker lies in one segment. There is no file while there are none."""

    __slots__ = ("file",)

    def __init__(self, file: EntryFile) -> None:
        self.file = file

    def append(self, aborted: AbortedTransaction) -> None:
        """Note an aborted transaction; they come in the order of their markers."""
        self.file.data += _TXN_ENTRY.pack(_TXN_VERSION, *aborted)

    def __len__(self) -> int:
        return len(self.file.data) // _TXN_ENTRY.size

    def entries(self) -> list[AbortedTransaction]:
        """All of them, in the order of their markers."""
        return [AbortedTransaction(*fields) for _, *fields in _TXN_ENTRY.iter_unpack(self.file.data)]

    def entries_from(self, offset: int) -> Iterator[AbortedTransaction]:
        """Those whose marker is at or above `offset`, in order; nothing is looked at for the others."""
        for number in range(self._first_from(offset), len(self)):
            _, *fields = _TXN_ENTRY.unpack_from(self.file.data, number * _TXN_ENTRY.size)
            yield AbortedTransaction(*fields)

    def _first_from(self, offset: int) -> int:
        """Number of the first entry whose marker is at or above `offset`."""
        return bisect_left(range(len(self)), offset, key=self._marker_of)

    def _marker_of(self, number: int) -> int:
        last_offset: int = _TXN_ENTRY.unpack_from(self.file.data, number * _TXN_ENTRY.size)[3]
        return last_offset

    def copy(self) -> TransactionIndex:
        """What it holds now, for a thread."""
        return TransactionIndex(EntryFile(self.file.files, self.file.path, bytes(self.file.data)))

    def store(self) -> bool:
        """Write new entries to the page cache. True if there were any."""
        return bool(self.file.data or self.file.stored) and self.file.store()

    def cut_at(self, end_offset: int) -> bool:
        """Drop transactions whose marker is at or above `end_offset`. True if the file must be synced."""
        return self.file.cut(self._first_from(end_offset) * _TXN_ENTRY.size)

    def is_sane(self, base_offset: int) -> bool:
        """True if every entry is whole, of the known version, its marker lies in the segment, and markers rise."""
        data = self.file.data
        if len(data) % _TXN_ENTRY.size:
            return False
        before = base_offset - 1
        for version, _, first, last, _ in _TXN_ENTRY.iter_unpack(data):
            if version != _TXN_VERSION or first > last or last <= before:
                return False
            before = last
        return True
