"""Batches of a leader that are simply added to a follower's log, as nearly all are: whole, next in order, of the epoch that the log's newest batch has, and no markers. Hot path.

Whatever is unusual about one of them sends all of them the long way (`PartitionLog.plan_follower`), which says what is wrong, if anything is.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.log.partition_log import PlannedBatch
from headrace.records.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
)
from headrace.records.crc import crc32c

if TYPE_CHECKING:
    from headrace.log.partition_log import PartitionLog
    from headrace.storage.append_limits import AppendLimits

_fields = HEADER.unpack_from
_header: Callable[[tuple[object, ...]], BatchHeader] = partial(tuple.__new__, BatchHeader)
_planned: Callable[[tuple[object, ...]], PlannedBatch] = partial(tuple.__new__, PlannedBatch)


def add_usual(data: memoryview, state: PartitionLog, limits: AppendLimits, leader_epoch: int) -> int:
    """Add all batches of `data` to the log's active segment; the offset of the last record, or -1 and nothing was done. Raises StorageFault."""
    size, segment = len(data), limits.segment
    epoch, latest = limits.leader_epoch, limits.latest
    if (
        epoch > leader_epoch
        or segment.size + size > limits.end_position
        or state.log_start_offset == state.log_end_offset
    ):
        return -1
    batches: list[PlannedBatch] = []
    has_producers = False
    position, following, until = 0, state.log_end_offset, 0
    while position < size:
        if size - position < HEADER_SIZE:
            return -1
        fields = _fields(data, position)
        base, length, its_epoch, magic, crc, attributes, delta, _, until, producer_id, _, _, _ = fields
        end = position + LOG_OVERHEAD + length
        if (
            base != following
            or its_epoch != epoch
            or magic != MAGIC
            or delta < 0
            or end > size
            or end - position < HEADER_SIZE
            or attributes & CONTROL_BIT
            or not 0 <= until <= latest
            or crc32c(data[position + ATTRIBUTES_POSITION : end]) != crc
        ):
            return -1
        following = base + delta + 1
        if producer_id >= 0 or end - position != size:
            batches.append(_planned((position, base, epoch, _header(fields))))
            has_producers = has_producers or producer_id >= 0
        position = end
    if following - 1 > limits.last_offset or not position:
        return -1
    if len(batches) < 2:
        segment.append_one(data, state.log_end_offset, following - 1, until, limits.index_interval_bytes)
    else:
        segment.append(data, tuple(batches), limits.index_interval_bytes)
    if has_producers:
        _note_producers(batches, state)
    state.log_end_offset = state.producers.end_offset = following
    return following - 1


def _note_producers(batches: list[PlannedBatch], state: PartitionLog) -> None:
    """They are written: what their producers sent last is known."""
    for _, base, _, header in batches:
        if header.producer_id >= 0:
            state.producers.appended(header, base)
