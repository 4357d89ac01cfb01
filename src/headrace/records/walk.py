"""A walk over the records of one batch that collects nothing and holds nobody up.

A batch of 300 KB may open to hundreds of MB and tens of millions of records. So whoever needs to know something of its records walks them: `RecordWalk` gives them out a
few at a time, as places in the opened bytes, and `Walk` is the question that is asked of them, in turns. The first turns are taken where the question comes up; what is not
answered by then leaves the event loop (`broker.walks`). Source: M3, M6; B49, B51, B53.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, Generic, NamedTuple, TypeVar

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike
from headrace.records.batch import HEADER_SIZE, BatchHeader, read_header
from headrace.records.compression import decompress
from headrace.records.varint import read_varint, read_varlong

MAX_HEADERS: Final = 4_000_000
"""In all records of one batch; an uncompressed one of `max.message.bytes` has room for half a million."""
MIN_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, key, value and number of headers: a byte each at least."""
TURN_RECORDS: Final = 1_000
"""Records, and headers of records, that are walked in one turn: about a millisecond."""
INLINE_TURNS: Final = 4
INLINE_BYTES: Final = 256 * 1024
"""A batch that opens to more is not even opened on the event loop."""
INLINE_PACKED_BYTES: Final = 64 * 1024
"""Nor is one that has more compressed bytes: they may be very many small pieces."""
_WINDOW: Final = 64 * 1024
_MAX_HEAD: Final = 36
"""Bytes of the largest numbers before a record's key: length, attributes, timestamp, offset, size of the key; and some."""

T = TypeVar("T")
R = TypeVar("R")


class Span(NamedTuple):
    """Where one record lies in the opened bytes, `start` to `stop`. Key and value have size -1 for null; `headers` is where their number stands.

    A named tuple for its readers; the walk makes it as a plain one.
    """

    offset_delta: int
    timestamp_delta: int
    key: int
    key_size: int
    value: int
    value_size: int
    headers: int
    stop: int


_span = tuple.__new__


class RecordWalk:
    """The records of one opened batch, in order, a few at a time. Raises PeerError where they are damaged, or where an offset does not rise.

    That offsets rise is what Kafka demands of a compressed batch before it stores it; and a batch in which they do has some bytes for each record, however it is compressed.

    Small records are read out of a window of plain bytes, which is quick; those that do not fit in it, and those with many headers, from the opened bytes themselves.
    """

    __slots__ = (
        "_at",
        "_delta",
        "_end",
        "_headers",
        "_headers_at",
        "_headers_left",
        "_large",
        "_left",
        "_room",
        "header",
        "view",
    )

    def __init__(self, header: BatchHeader, opened: BytesLike) -> None:
        self.header = header
        self.view = memoryview(opened)
        self._at = 0
        self._end = len(self.view)
        self._left = header.record_count
        self._delta = -1
        self._headers = 0
        self._large: Span | None = None
        self._headers_at = self._headers_left = self._room = 0
        if not 0 <= self._left * MIN_RECORD_BYTES <= self._end:
            raise _invalid(f"record count {self._left} does not fit {self._end} bytes")

    @property
    def is_done(self) -> bool:
        """Every record was given out, and nothing stands behind the last one."""
        if self._left:
            return False
        if self._at != self._end:
            raise _invalid(f"{self._end - self._at} bytes after the last record of a batch")
        return True

    def take(self, most: int = TURN_RECORDS) -> list[Span]:
        """The next records, `most` together with their headers at most; perhaps none yet, while one record's headers are counted."""
        spans: list[Span] = []
        self._room = most
        while self._left and self._room > 0:
            if self._large is not None:
                self._go_on_with_large(spans)
            elif not self._take_small(spans):
                self._begin_large()
        return spans

    def timestamp(self, span: Span) -> int:
        """The record's time in ms since 1970: its own, or that of the append."""
        header = self.header
        return header.max_timestamp if header.is_log_append_time else header.base_timestamp + span.timestamp_delta

    def key(self, span: Span) -> bytes | None:
        """A copy of the key."""
        return None if span.key_size < 0 else bytes(self.view[span.key : span.key + span.key_size])

    def value(self, span: Span) -> bytes | None:
        """A copy of the value."""
        return None if span.value_size < 0 else bytes(self.view[span.value : span.value + span.value_size])

    def _take_small(self, spans: list[Span]) -> bool:  # noqa: C901, PLR0915 - hot path
        """Records that lie whole in the next window, with few headers. False if the next record is none of them. Hot."""
        base = self._at
        data = bytes(self.view[base : base + _WINDOW])
        size = len(data)
        at, left, room, before = 0, self._left, self._room, self._delta
        add = spans.append
        try:
            while left and room > 0:
                start = at
                if size - at < _MAX_HEAD and base + size < self._end:
                    break
                length, at = read_varint(data, at)
                stop = at + length
                if length <= 0 or stop > self._end - base:
                    raise _invalid("empty record" if not length else f"record length {length} does not fit its batch")
                if stop > size:
                    at = start
                    break
                timestamp_delta, at = read_varlong(data, at + 1)
                offset_delta, at = read_varint(data, at)
                key_size, at = read_varint(data, at)
                key = at
                if key_size > 0:
                    at += key_size
                value_size, at = read_varint(data, at)
                value = at
                if value_size > 0:
                    at += value_size
                headers = at
                count, at = read_varint(data, at)
                if count:
                    if count > room:
                        at = start
                        break
                    at = _behind_headers(data, at, stop, count)
                    room -= count
                    self._count_headers(count)
                if at != stop or key_size < -1 or value_size < -1:
                    raise _invalid("record length disagrees with its parts")
                if offset_delta <= before:
                    raise _fallen(offset_delta, before)
                before = offset_delta
                places = (base + key, key_size, base + value, value_size, base + headers, base + stop)
                add(_span(Span, (offset_delta, timestamp_delta, *places)))
                left -= 1
                room -= 1
        except IndexError:
            raise _invalid("record ends inside a number") from None
        is_any = left < self._left
        self._at, self._left, self._room, self._delta = base + at, left, room, before
        return is_any

    def _begin_large(self) -> None:
        """The next record does not fit a window, or has many headers."""
        view = self.view
        length, at = read_varint(view, self._at)
        stop = at + length
        if length <= 0 or stop > self._end:
            raise _invalid("empty record" if not length else f"record length {length} does not fit its batch")
        timestamp_delta, at = read_varlong(view, at + 1)
        offset_delta, at = read_varint(view, at)
        key_size, key = read_varint(view, at)
        value_size, value = read_varint(view, key + max(key_size, 0))
        headers = value + max(value_size, 0)
        count, at = read_varint(view, headers)
        if key_size < -1 or value_size < -1 or not 0 <= count <= max(stop - at, 0):
            raise _invalid("record length disagrees with its parts")
        if offset_delta <= self._delta:
            raise _fallen(offset_delta, self._delta)
        self._count_headers(count)
        self._delta = offset_delta
        self._large = Span(offset_delta, timestamp_delta, key, key_size, value, value_size, headers, stop)
        self._headers_at, self._headers_left = at, count

    def _count_headers(self, count: int) -> None:
        self._headers += count
        if self._headers > MAX_HEADERS:
            raise _invalid(f"more than {MAX_HEADERS} headers in one batch")

    def _go_on_with_large(self, spans: list[Span]) -> None:
        span = self._large
        assert span is not None, "called for one"
        count = min(self._headers_left, self._room)
        self._headers_at = _behind_headers(self.view, self._headers_at, span.stop, count)
        self._headers_left -= count
        self._room -= count + 1
        if not self._headers_left:
            if self._headers_at != span.stop:
                raise _invalid("record length disagrees with its parts")
            spans.append(span)
            self._at, self._large = span.stop, None
            self._left -= 1


def _behind_headers(data: BytesLike, at: int, stop: int, count: int) -> int:
    """Where `count` headers that begin at `at` end."""
    if not 0 < count <= stop - at:
        if count:
            raise _invalid(f"header count {count} does not fit its record")
        return at
    for _ in range(count):
        size, at = read_varint(data, at)
        if size < 0:
            raise _invalid("header without a name")
        size, at = read_varint(data, at + size)
        if size < -1:
            raise _invalid(f"negative size {size} in a record")
        if size > 0:
            at += size
        if at > stop:
            raise _invalid("key, value or header is longer than its record")
    return at


def _fallen(delta: int, before: int) -> PeerError:
    return _invalid(f"a record with offset delta {delta} behind one with {before}")


def _invalid(message: str) -> PeerError:
    return PeerError(ErrorCode.INVALID_RECORD, message)


def _bare(error: PeerError) -> PeerError:
    """The same without its frames, which hold the opened bytes."""
    return PeerError(error.code, error.message)


def open_records(batch: BytesLike, header: BatchHeader, *, max_bytes: int) -> RecordWalk:
    """A walk over a whole batch. Raises PeerError if it cannot be opened, or opens to more than `max_bytes`."""
    packed = memoryview(batch)[HEADER_SIZE : header.size]
    return RecordWalk(header, decompress(header.codec, packed, max_bytes=max_bytes))


Look = Callable[[RecordWalk], Generator[None, None, T]]
"""What is asked of the records: a generator that stops after each turn, and returns the outcome."""


class Walk(Generic[T]):
    """A question about the records of one batch. `begin` answers it if that is quick; else `go_on` may be called anywhere, and `outcome` gives what came out.

    It holds the batch's bytes and nothing else, so a thread may have it. `max_bytes` bounds what the batch may open to.
    """

    __slots__ = ("_batch", "_error", "_look", "_max_bytes", "_outcome", "_turns")

    def __init__(self, batch: BytesLike, look: Look[T], *, max_bytes: int) -> None:
        self._batch = batch
        self._look = look
        self._max_bytes = max_bytes
        self._turns: Generator[None, None, T] | None = None
        self._outcome: list[T] = []
        self._error: PeerError | None = None

    @property
    def is_done(self) -> bool:
        """There is an outcome."""
        return bool(self._outcome) or self._error is not None

    @property
    def outcome(self) -> T:
        """What came out. Raises PeerError for a batch that cannot be opened, or is damaged."""
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def begin(self) -> bool:
        """Open the batch if it is small, and take the first turns. True if that was all."""
        header = read_header(self._batch)
        is_packed = header.codec and len(self._batch) > INLINE_PACKED_BYTES
        if not is_packed and self._open(min(INLINE_BYTES, self._max_bytes), is_last=self._max_bytes <= INLINE_BYTES):
            for _ in range(INLINE_TURNS):
                if self.turn():
                    break
        return self.is_done

    def open(self, max_bytes: int) -> bool:
        """Open the batch; False if it opens to more than `max_bytes` and may."""
        return self._open(min(max_bytes, self._max_bytes), is_last=max_bytes >= self._max_bytes)

    def _open(self, max_bytes: int, *, is_last: bool) -> bool:
        if self._turns is not None or self.is_done:
            return True
        header = read_header(self._batch)
        try:
            self._turns = self._look(open_records(self._batch, header, max_bytes=max_bytes))
        except PeerError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE and not is_last:
                return False
            self._error = _bare(error)
        return True

    def turn(self) -> bool:
        """A turn, of an opened batch. True if that was the last one."""
        if self._turns is None:
            return True
        try:
            next(self._turns)
        except StopIteration as ended:
            self._outcome.append(ended.value)
            self._turns = None
        except PeerError as error:
            self._error = _bare(error)
            self._turns = None
        return self._turns is None

    def take_all_turns(self) -> None:
        """For programs of their own, and where nobody waits."""
        self.open(self._max_bytes)
        while not self.turn():
            pass


Search = Generator[Walk[Any] | None, None, R]
"""Something that must be found in one batch or in several: gives out a walk at a time, and goes on when it is done.

What it does between walks, it does on the event loop; where that takes long it gives out None, and others have their turn.
"""


def finish(search: Search[R]) -> R:
    """Do all walks of a search now."""
    try:
        while True:
            walk = next(search)
            if walk is not None:
                walk.take_all_turns()
    except StopIteration as ended:
        found: R = ended.value
        return found
