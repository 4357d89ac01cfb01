"""One partition log: what it holds, and whether batches may join it.

`PartitionLog` decides and keeps the offsets, epochs and producers; `headrace.storage.stored_log` moves the bytes. An append is two
steps: `plan_*` checks and changes nothing but the bytes it was given, and `written` takes the plan over once the bytes are in the file.
So a failed write leaves the log as it was (D10). Source: KIP-98, KIP-101; P6, P11, P16-P18, E1-E8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError, StorageFault
from headrace.core.ports import BytesLike
from headrace.log.config import LogConfig
from headrace.log.epochs import EpochTable
from headrace.log.ports import AbortedTransaction, Appended, AppendRefused, CheckedBatch, Opening, Origin
from headrace.log.producers import ProducerStates, aborted_entry
from headrace.log.segments import MAX_RELATIVE_OFFSET
from headrace.log.validation import begin_check, too_large
from headrace.records.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    batch_is_sound,
    iter_batches,
    set_offset_and_epoch,
)
from headrace.records.control import read_marker

_TRANSACTIONAL_CONTROL = 0x30


class PlannedBatch(NamedTuple):
    """One batch of a plan: where it lies in the plan's bytes, and the offset and epoch it gets."""

    position: int
    base_offset: int
    leader_epoch: int
    header: BatchHeader


class WritePlan(NamedTuple):
    """Batches that may be written at the log's end. `last_offset` is inclusive; times are ms."""

    data: memoryview
    batches: tuple[PlannedBatch, ...]
    first_offset: int
    last_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    log_append_time: int


_REFUSALS = {
    ErrorCode.INVALID_PRODUCER_EPOCH: "The producer's epoch is older than the one known here.",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "The batch does not follow the producer's last one.",
    ErrorCode.INVALID_TXN_STATE: "A plain batch inside the producer's open transaction.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "The marker is of an older epoch of its coordinator.",
}


class PartitionLog:
    """The offsets, epochs and producers of one partition log; `headrace.storage.stored_log.StoredLog` drives it.

    log start <= high watermark <= log end, and durable end <= log end, always. `is_contiguous` logs (the metadata log) take no
    batch that leaves a gap; others do, because compaction on the leader made gaps.
    """

    __slots__ = (
        "_is_contiguous",
        "config",
        "durable_end_offset",
        "epochs",
        "high_watermark",
        "log_end_offset",
        "log_start_offset",
        "on_start_moved",
        "producers",
        "recall",
    )

    def __init__(self, config: LogConfig, *, is_contiguous: bool = False) -> None:
        self.config = config
        self._is_contiguous = is_contiguous
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.durable_end_offset = 0
        self.epochs = EpochTable()
        self.producers = ProducerStates()
        self.on_start_moved: Callable[[], None] | None = None
        self.recall: Callable[[BatchHeader], Iterator[None] | None] = _nothing_to_recall
        """The steps of a look in the log for batches of a producer that its snapshot left out; None where there are none to look for."""

    # -- planning ----------------------------------------------------------------------------------------------

    def plan_client(
        self, batches: memoryview, *, leader_epoch: int, now_ms: int
    ) -> WritePlan | AppendRefused | Appended | Opening:
        """A client's one batch, with offset and epoch set in place; `Appended` for a repeat of an earlier one (E2), `Opening` if something must be looked at first.

        That is its records, or what the log has of its producer.
        """
        checked = begin_check(batches, self.config, now_ms)
        if isinstance(checked, AppendRefused):
            return checked
        if not isinstance(checked, CheckedBatch):
            return self._opened(checked)
        steps = self._missing(checked.header)
        if steps is None:
            return self.plan_checked(checked, leader_epoch=leader_epoch)
        return _recalled(checked, steps)

    def _opened(self, opening: Opening) -> Opening:
        checked = yield from opening
        steps = self._missing(checked.header) if isinstance(checked, CheckedBatch) else None
        if steps is None or isinstance(checked, AppendRefused):
            return checked
        return (yield from _recalled(checked, steps))

    def _missing(self, header: BatchHeader) -> Iterator[None] | None:
        """The steps of a look for the batch that this one may repeat, where it seems out of order."""
        if header.producer_id < 0:
            return None
        is_out_of_order = self.producers.check_client_batch(header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return self.recall(header) if is_out_of_order else None

    def plan_checked(self, checked: CheckedBatch, *, leader_epoch: int) -> WritePlan | AppendRefused | Appended:
        """As `plan_client`, for a batch that was checked."""
        data, header, append_time = checked
        if len(data) > self.config.segment_bytes:
            return self._refuse_oversized(len(data))
        if header.producer_id >= 0:
            verdict = self.producers.check_client_batch(header)
            if verdict is not None:
                if isinstance(verdict, ErrorCode):
                    return self._refuse(verdict)
                return Appended(
                    verdict.first_offset,
                    verdict.last_offset,
                    verdict.timestamp,
                    self.log_start_offset,
                    0,
                    is_duplicate=True,
                )
        first = self.log_end_offset
        last = first + header.last_offset_delta
        set_offset_and_epoch(data, 0, first, leader_epoch)
        return WritePlan(
            data,
            (PlannedBatch(0, first, leader_epoch, header),),
            first,
            last,
            header.max_timestamp,
            last,
            append_time,
        )

    def _refuse(self, code: ErrorCode) -> AppendRefused:
        return AppendRefused(error=code, message=_REFUSALS[code], log_start_offset=self.log_start_offset)

    def _refuse_oversized(self, size: int) -> AppendRefused:
        message = f"{size} bytes do not fit into one segment of segment.bytes={self.config.segment_bytes}."
        return AppendRefused(error=ErrorCode.RECORD_LIST_TOO_LARGE, message=message)

    def plan_internal(self, batches: memoryview, *, leader_epoch: int, origin: Origin) -> WritePlan | AppendRefused:
        """Batches of our own: a coordinator's get offsets in place, the quorum leader's have theirs already.

        They may be larger than `segment.bytes`: what was decided must be written, in a segment of its own. A coordinator's may not be larger than the
        topic's `max.message.bytes`: what a client says of itself is in them, and they must be read again at the next start.
        """
        found = list(iter_batches(batches))
        if not found:
            return AppendRefused(error=ErrorCode.INVALID_RECORD, message="There is no whole record batch.")
        planned = []
        next_offset = self.log_end_offset
        for position, header in found:
            if not batch_is_sound(batches, header, position):
                return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message="A batch is damaged.")
            if origin is Origin.RAFT_LEADER:
                if header.base_offset != next_offset or header.leader_epoch > leader_epoch:
                    message = f"Batch at offset {header.base_offset} does not follow the log's end {next_offset}."
                    return AppendRefused(error=ErrorCode.INVALID_RECORD, message=message)
                epoch = header.leader_epoch
            elif header.size > self.config.max_message_bytes:
                return too_large(header.size, self.config)
            else:
                epoch = leader_epoch
            if header.producer_id >= 0:
                code = self._check_own_producer(batches, header, position)
                if code is not None:
                    return self._refuse(code)
            planned.append(PlannedBatch(position, next_offset, epoch, header))
            next_offset += header.last_offset_delta + 1
        for batch in planned:
            set_offset_and_epoch(batches, batch.position, batch.base_offset, batch.leader_epoch)
        return _plan(batches, planned)

    def _check_own_producer(self, batches: memoryview, header: BatchHeader, position: int) -> ErrorCode | None:
        marker = read_marker(batches, header, position)
        if marker is not None:
            return self.producers.check_marker(header, marker)
        verdict = self.producers.check_client_batch(header)
        return verdict if isinstance(verdict, ErrorCode) else None

    def plan_follower(self, batches: memoryview, *, leader_epoch: int) -> WritePlan | AppendRefused:
        """The leader's batches, up to the first bad one (R20, P16, B52); refused if that is the first."""
        planned: list[PlannedBatch] = []
        next_offset = self.log_end_offset
        end = 0
        reason = "There is no whole record batch."
        try:
            for position, header in iter_batches(batches):
                reason = self._follower_reason(batches, position, header, (next_offset, leader_epoch))
                if reason or (planned and not self._fits_one_segment(planned[0], position + header.size, header)):
                    break
                planned.append(PlannedBatch(position, header.base_offset, header.leader_epoch, header))
                next_offset = header.next_offset
                end = position + header.size
        except PeerError as error:
            reason = error.message
        if not planned:
            return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message=reason)
        return _plan(batches[:end], planned)

    def _fits_one_segment(self, first: PlannedBatch, size: int, header: BatchHeader) -> bool:
        """True if batches from `first` on to the one of `header`, `size` bytes together, may stand in one segment."""
        return size <= self.config.segment_bytes and header.last_offset - first.base_offset <= MAX_RELATIVE_OFFSET

    def _follower_reason(self, batches: memoryview, position: int, header: BatchHeader, at: tuple[int, int]) -> str:
        """Why this batch of a leader may not be appended; empty if it may."""
        next_offset, leader_epoch = at
        if header.base_offset < next_offset or (self._is_contiguous and header.base_offset > next_offset):
            return f"Batch at offset {header.base_offset} does not follow the log's end {next_offset}."
        if header.leader_epoch > leader_epoch:
            return f"Batch of epoch {header.leader_epoch} in an answer of epoch {leader_epoch}."
        return "" if batch_is_sound(batches, header, position) else f"Batch at {header.base_offset} is damaged."

    # -- taking over -------------------------------------------------------------------------------------------

    def written(self, plan: WritePlan) -> list[AbortedTransaction] | None:
        """The plan's bytes are in the file. Returns the transactions that its markers aborted, None if there are none."""
        aborted: list[AbortedTransaction] | None = None
        for position, base_offset, leader_epoch, header in plan.batches:
            if leader_epoch != self.epochs.latest:
                self.epochs.assign(leader_epoch, base_offset)
            if header.producer_id >= 0:
                ended = self._note_producer(plan.data, position, base_offset, header)
                if ended is not None:
                    aborted = [*(aborted or ()), ended]
        self.log_end_offset = self.producers.end_offset = plan.last_offset + 1
        return aborted

    def _note_producer(
        self, data: BytesLike, position: int, base_offset: int, header: BatchHeader
    ) -> AbortedTransaction | None:
        if not header.attributes & 0x20:
            self.producers.appended(header, base_offset)
            return None
        marker = read_marker(data, header, position)
        if marker is None:
            return None
        completed = self.producers.marker_appended(header, marker, base_offset)
        if completed is None or not completed.is_aborted:
            return None
        return aborted_entry(self.producers, completed)

    def replay_producer(self, data: BytesLike, position: int, header: BatchHeader) -> AbortedTransaction | None:
        """A batch that was in the file already, while producer state is rebuilt from the log (E4).

        `data` need only hold the batch's bytes if it is a control batch.
        """
        ended = None
        if header.producer_id >= 0 and (header.record_count > 0 or not header.is_control):
            ended = self._note_producer(data, position, header.base_offset, header)
        self.producers.end_offset = header.next_offset
        return ended

    # -- offsets -----------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> int:
        """What read-committed readers may see: from one reading of the high watermark (K36)."""
        high_watermark, producers = self.high_watermark, self.producers
        if not producers.open and not producers.unreplicated:
            return high_watermark
        unstable = producers.first_unstable_offset
        return high_watermark if unstable is None or unstable > high_watermark else unstable

    def set_high_watermark(self, to: int) -> int:
        """Set it within [log start, log end]."""
        to = min(max(to, self.log_start_offset), self.log_end_offset)
        self.high_watermark = to
        self.producers.high_watermark_moved(to)
        return to

    def raise_log_start(self, to: int) -> None:
        """Nothing below `to` may be read any more; at most to the log's end."""
        if to > self.log_end_offset:
            raise ValueError(f"log start {to} is above the log's end {self.log_end_offset}")
        if to > self.log_start_offset:
            self.log_start_offset = to
            self.high_watermark = max(self.high_watermark, to)
            self.epochs.truncate_from_start(to)
            if self.on_start_moved is not None:
                self.on_start_moved()

    def cut(self, end_offset: int) -> None:
        """The log now ends at `end_offset`. Producer state is the caller's: it is rebuilt from the log (K35).

        A cut at the batch that holds the log start moves the log start down to the batch's first offset, as in Kafka.
        """
        self.log_end_offset = end_offset
        self.log_start_offset = min(self.log_start_offset, end_offset)
        self.durable_end_offset = min(self.durable_end_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self.epochs.truncate_from_end(end_offset)

    def restart_at(self, end_offset: int, log_start_offset: int) -> None:
        """The log is empty and its next record gets `end_offset`."""
        self.epochs.clear()
        self.producers.clear(end_offset=end_offset)
        self.log_end_offset = self.durable_end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.high_watermark = min(max(self.high_watermark, log_start_offset), end_offset)


def _recalled(checked: CheckedBatch, steps: Iterator[None]) -> Opening:
    """The batch, when what the log has of its producer was looked through. Its request's buffer is not kept for so long."""
    kept = checked._replace(data=memoryview(bytearray(checked.data)))
    del checked
    try:
        for _ in steps:
            yield None
    except StorageFault as fault:
        return AppendRefused(error=ErrorCode.KAFKA_STORAGE_ERROR, message=str(fault))
    return kept


def _nothing_to_recall(_: BatchHeader) -> None:
    """A log that is no file has all that it knows."""


def _plan(data: memoryview, planned: Iterable[PlannedBatch]) -> WritePlan:
    batches = tuple(planned)
    best = max(batches, key=lambda batch: batch.header.max_timestamp)
    last = batches[-1]
    return WritePlan(
        data,
        batches,
        batches[0].base_offset,
        last.base_offset + last.header.last_offset_delta,
        best.header.max_timestamp,
        best.base_offset + best.header.last_offset_delta,
        NO_TIMESTAMP,
    )
