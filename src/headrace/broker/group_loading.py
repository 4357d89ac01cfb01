"""What do the next bytes of a partition of `__consumer_offsets` tell its coordinator?"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.broker.internal_topics import OFFSETS_TOPIC
from headrace.broker.ports import BrokerServices
from headrace.coordinator.events import LoadEvent, RecordLoaded, TransactionEnded
from headrace.core.errors import PeerError, StorageFault
from headrace.records.batch import checked_batches
from headrace.records.control import read_marker
from headrace.records.record import iter_records

SLICE_BYTES = 64 * 1024
NO_PRODUCER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The events of some batches, and the offset behind the last of them."""

    events: list[LoadEvent]
    next_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailed:
    """The log cannot be read: why."""

    reason: str


def load_slice(
    services: BrokerServices, partition: int, offset: int, *, until: int, now_ms: int
) -> Loaded | LoadFailed:
    """Read about SLICE_BYTES from `offset`, below `until`. A slice is small enough that nobody waits for it (M6)."""
    try:
        data = services.read_internal(OFFSETS_TOPIC, partition, offset, max_bytes=SLICE_BYTES, upper_offset=until)
        if not data:
            return Loaded(events=[], next_offset=until)
        return _events(data, offset, now_ms=now_ms)
    except (PeerError, StorageFault) as error:
        return LoadFailed(reason=f"{OFFSETS_TOPIC}-{partition} from offset {offset}: {error}")


def _events(data: bytes, offset: int, *, now_ms: int) -> Loaded:
    """Records outside and inside transactions in their order, and the markers between them. Raises PeerError on damage."""
    events: list[LoadEvent] = []
    next_offset = offset
    for position, header in checked_batches(data):
        next_offset = max(next_offset, header.next_offset)
        if header.is_control:
            marker = read_marker(data, header, position)
            if marker is not None:
                events.append(TransactionEnded(producer_id=header.producer_id, is_committed=marker.is_commit))
            continue
        producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
        for record in iter_records(data, position):
            if record.offset >= offset and record.key is not None:
                events.append(
                    RecordLoaded(
                        key=record.key, value=record.value, offset=record.offset, producer_id=producer_id, now_ms=now_ms
                    )
                )
    return Loaded(events=events, next_offset=next_offset)
