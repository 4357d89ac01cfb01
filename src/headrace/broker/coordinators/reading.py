"""The reader of a coordinator's log, a little at a time.

A turn reads about SLICE_BYTES or a thousand records, so that nobody waits for a long log or a big batch (M6): records are walked, and a batch that opens to much is opened elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Final

from headrace.broker.ports import BrokerServices
from headrace.coordinator.runtime.contract import NO_PRODUCER
from headrace.coordinator.runtime.events import LoadedRecord, LoadFailed, RecordsLoaded, TransactionEnded
from headrace.core.errors import PeerError, StorageFault
from headrace.records.batch import BatchHeader, checked_batches
from headrace.records.control import read_marker
from headrace.records.walk import TURN_RECORDS, RecordWalk, Walk

SLICE_BYTES: Final = 64 * 1024

ReadEvent = RecordsLoaded | TransactionEnded | LoadFailed


class LogReader:
    """Reads one partition from `start` to `until`, which may be moved on. `turn` is called as long as `is_reading`; `opened` is told when that is so again after a batch was opened elsewhere."""

    def __init__(
        self,
        services: BrokerServices,
        partition: tuple[str, int],
        *,
        start: int,
        until: int,
        opened: Callable[[], None],
    ) -> None:
        self._services = services
        self._topic, self._partition = partition
        self._start = self._offset = start
        self.until = until
        self._opened = opened
        self._data = b""
        self._batches: Iterator[tuple[int, BatchHeader]] = iter(())
        self._walk: RecordWalk | None = None
        self._is_opening = False

    @property
    def is_done(self) -> bool:
        """Everything was read."""
        return self._offset >= self.until and self._walk is None

    @property
    def is_reading(self) -> bool:
        """Whether a turn would bring something."""
        return not (self._is_opening or self.is_done)

    def turn(self) -> list[ReadEvent]:
        """What the next bytes say, in the order of the log; LoadFailed comes last."""
        events: list[ReadEvent] = []
        room = TURN_RECORDS
        is_read = False
        try:
            while room > 0 and self.is_reading:
                if self._walk is not None:
                    room -= self._take(self._walk, room, events)
                    continue
                batch = next(self._batches, None)
                if batch is not None:
                    self._begin(*batch, events)
                elif is_read:
                    break
                else:
                    self._read_slice()
                    is_read = True
        except (PeerError, StorageFault) as error:
            events.append(LoadFailed(reason=f"from offset {self._offset}: {error}"))
        return events

    def _read_slice(self) -> None:
        self._data = self._services.read_internal(
            self._topic, self._partition, self._offset, max_bytes=SLICE_BYTES, upper_offset=self.until
        )
        self._batches = checked_batches(self._data)
        if not self._data:
            self._offset = self.until

    def _begin(self, position: int, header: BatchHeader, events: list[ReadEvent]) -> None:
        """Take a marker, or open a batch of records."""
        if header.is_control:
            marker = read_marker(self._data, header, position)
            if marker is not None:
                events.append(TransactionEnded(producer_id=header.producer_id, is_committed=marker.is_commit))
            self._offset = max(self._offset, header.next_offset)
            return
        batch = memoryview(self._data)[position : position + header.size]
        walk = Walk(batch, _itself, max_bytes=self._services.config.headrace_max_decompressed_bytes)
        if walk.begin():
            self._walk = walk.outcome
            return
        self._is_opening = True
        self._services.walks.follow(_outcome_of(walk), self._go_on, in_place=False)

    def _go_on(self, walk: Walk[RecordWalk]) -> None:
        """The batch is open; what is wrong with it is said in the next turn."""
        self._is_opening = False
        try:
            self._walk = walk.outcome
        except PeerError as error:
            self._batches = _failing(error)
        self._opened()

    def _take(self, walk: RecordWalk, most: int, events: list[ReadEvent]) -> int:
        """The next records of the open batch: how much of a turn that was."""
        header = walk.header
        spans = walk.take(most)
        first = header.base_offset
        records = [
            LoadedRecord(first + span.offset_delta, walk.key(span), walk.value(span))
            for span in spans
            if first + span.offset_delta >= self._start
        ]
        if records:
            producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
            events.append(RecordsLoaded(records=records, producer_id=producer_id))
        if walk.is_done:
            self._walk = None
            self._offset = max(self._offset, header.next_offset)
        return max(len(spans), 1)


def _itself(walk: RecordWalk) -> Generator[None, None, RecordWalk]:
    """All that is wanted is an opened batch."""
    yield from ()
    return walk


def _outcome_of(walk: Walk[RecordWalk]) -> Generator[Walk[RecordWalk], None, Walk[RecordWalk]]:
    yield walk
    return walk


def _failing(error: PeerError) -> Iterator[tuple[int, BatchHeader]]:
    yield from ()
    raise error
