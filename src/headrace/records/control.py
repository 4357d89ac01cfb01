"""Control batches: transaction markers, and the records that the metadata quorum writes about itself.

A control record's key is (version int16, type int16). Source: KIP-98, KIP-595, KIP-630, KIP-853.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from headrace.core.ports import BytesLike
from headrace.records.batch import BatchHeader
from headrace.records.record import FRESH, NewRecord, Placement, ProducerStamp, build_batch, iter_records

CONTROL_KEY = Struct(">hh")
_MARKER = Struct(">hi")


class ControlType(IntEnum):
    """Types of control records; another number is `UNKNOWN`."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_BY_NUMBER = {int(kind): kind for kind in ControlType}


class TransactionMarker(NamedTuple):
    """The end of a transaction: whether it was committed, and by which epoch of its coordinator."""

    is_commit: bool
    coordinator_epoch: int


def control_key(kind: ControlType) -> bytes:
    """The key of a control record of this type."""
    return CONTROL_KEY.pack(0, kind)


def control_type(key: bytes | None) -> ControlType:
    """The type that a control record's key names; `UNKNOWN` for anything else."""
    if key is None or len(key) < CONTROL_KEY.size:
        return ControlType.UNKNOWN
    return _BY_NUMBER.get(CONTROL_KEY.unpack_from(key)[1], ControlType.UNKNOWN)


def build_control_batch(kind: ControlType, value: bytes, *, timestamp: int, placement: Placement = FRESH) -> bytearray:
    """A batch of one control record of the quorum; its `value` is an encoded message of that type."""
    record = NewRecord(key=control_key(kind), value=value, timestamp=timestamp)
    return build_batch([record], producer=ProducerStamp(is_control=True), placement=placement)


def build_marker_batch(
    marker: TransactionMarker, *, producer_id: int, producer_epoch: int, timestamp: int, placement: Placement = FRESH
) -> bytearray:
    """The control batch that ends a transaction on one partition (KIP-98)."""
    kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
    record = NewRecord(key=control_key(kind), value=_MARKER.pack(0, marker.coordinator_epoch), timestamp=timestamp)
    producer = ProducerStamp(
        producer_id=producer_id, producer_epoch=producer_epoch, is_transactional=True, is_control=True
    )
    return build_batch([record], producer=producer, placement=placement)


def read_marker(batch: BytesLike, header: BatchHeader, position: int = 0) -> TransactionMarker | None:
    """The marker of a control batch, or None if it is not a transaction's (or was emptied by compaction)."""
    if not header.is_control or not header.is_transactional or header.record_count < 1:
        return None
    record = next(iter_records(batch, position))
    kind = control_type(record.key)
    if kind not in (ControlType.ABORT, ControlType.COMMIT) or record.value is None or len(record.value) < _MARKER.size:
        return None
    return TransactionMarker(kind is ControlType.COMMIT, _MARKER.unpack_from(record.value)[1])
