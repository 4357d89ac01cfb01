"""Records on their way into batches, each of one partition.

A machine driven by `RecordProducer`: records go in one by one, batches come out when they are full or have waited `linger_ms`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.client.partitioner import StickyChoice, partition_for_key
from headrace.client.session import Session
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition
from headrace.records.compression import Codec
from headrace.records.record import Headers, NewRecord, build_batch

CODECS = {"none": Codec.NONE, "gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}
_RECORD_OVERHEAD = 12
_HEADER_OVERHEAD = 6
BATCH_OVERHEAD = 61


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """When a batch is full: at `batch_bytes` before compression, or after `linger_ms`; a record may have `max_record_bytes`."""

    batch_bytes: int = 16_384
    linger_ms: int = 0
    max_record_bytes: int = 1 << 20
    codec: Codec = Codec.NONE


def codec_of(name: str) -> Codec:
    """The codec of a name as in `compression.type`. Raises OperatorError."""
    codec = CODECS.get(name.lower())
    if codec is None:
        raise OperatorError(f"compression codec {name}: must be one of {', '.join(CODECS)}")
    return codec


class ReadyBatch(NamedTuple):
    """A batch to be sent: its bytes, the timestamps of its records, and about how many bytes they had before compression."""

    where: TopicPartition
    data: bytearray
    timestamps_ms: list[int]
    size: int


class _Open:
    """A batch that still takes records."""

    __slots__ = ("due_ms", "records", "size")

    def __init__(self, due_ms: int) -> None:
        self.records: list[NewRecord] = []
        self.size = BATCH_OVERHEAD
        self.due_ms = due_ms


class Accumulator:
    """Collects records of one topic into batches."""

    def __init__(self, session: Session, topic: str, options: BatchOptions) -> None:
        self._session = session
        self._topic = topic
        self._options = options
        self._sticky = StickyChoice(batch_bytes=options.batch_bytes, rng=session.rng)
        self._open: dict[int, _Open] = {}

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        *,
        timestamp_ms: int,
        headers: Headers = (),
        partition: int | None = None,
    ) -> list[ReadyBatch]:
        """Take a record; the batches that became full. Metadata of the topic must be known. Raises PeerError(MESSAGE_TOO_LARGE)."""
        size = _RECORD_OVERHEAD + (len(key) if key else 0) + (len(value) if value else 0)
        if headers:
            size += sum(_HEADER_OVERHEAD + len(name) + (len(data) if data else 0) for name, data in headers)
        if size > self._options.max_record_bytes:
            limit = self._options.max_record_bytes
            raise PeerError(
                ErrorCode.MESSAGE_TOO_LARGE, f"a record of {size} bytes is larger than max.request.size={limit}"
            )
        number = self._partition(key, size) if partition is None else partition
        batch = self._open.get(number)
        full: list[ReadyBatch] = []
        if batch is not None and batch.size + size > self._options.batch_bytes:
            full.append(self._close(number))
            batch = None
        if batch is None:
            batch = self._open[number] = _Open(self._session.now_ms + self._options.linger_ms)
        batch.records.append(NewRecord(key, value, timestamp_ms, headers))
        batch.size += size
        if batch.size >= self._options.batch_bytes:
            full.append(self._close(number))
        return full

    def _partition(self, key: bytes | None, size: int) -> int:
        topic = self._session.cluster.topics[self._topic]
        if key is not None:
            return partition_for_key(key, len(topic.partitions))
        available: Sequence[int] = [part.partition for part in topic.partitions if part.leader >= 0]
        return self._sticky.choose(available or [part.partition for part in topic.partitions], size)

    def due(self, *, is_forced: bool = False) -> list[ReadyBatch]:
        """The batches that have waited long enough, or all of them."""
        ready = [number for number, batch in self._open.items() if is_forced or batch.due_ms <= self._session.now_ms]
        return [self._close(number) for number in ready]

    def next_due_ms(self) -> int | None:
        """When the oldest open batch must go; None if there is none."""
        return min((batch.due_ms for batch in self._open.values()), default=None)

    def _close(self, number: int) -> ReadyBatch:
        batch = self._open.pop(number)
        return ReadyBatch(
            where=TopicPartition(self._topic, number),
            data=build_batch(batch.records, codec=self._options.codec),
            timestamps_ms=[record.timestamp for record in batch.records],
            size=batch.size,
        )
