"""The lines, or the JSON, that `headrace dump-log` makes of a log segment or a snapshot.

The lines are those of kafka-dump-log 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.cli.dump_decoders import Decoder, control_text
from headrace.core.errors import PeerError
from headrace.core.ports import BytesLike
from headrace.records.batch import BatchHeader, crc_is_right, iter_batches
from headrace.records.compression import CODEC_NAMES
from headrace.records.record import Record, iter_records

NO_LIMIT = 2**31 - 1
_CODECS = {number: name for name, number in CODEC_NAMES.items() if name != "uncompressed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What of the records is shown; `decoder` None shows no contents."""

    is_deep: bool = False
    decoder: Decoder | None = None
    skips_metadata: bool = False
    max_bytes: int = NO_LIMIT


@dataclass(slots=True)
class Findings:
    """What was wrong, for standard error: offsets that do not follow one another."""

    gaps: list[tuple[int, int]] = field(default_factory=list)
    last_offset: int | None = None

    def seen(self, offset: int) -> None:
        """The next offset of the file."""
        if self.last_offset is not None and offset != self.last_offset + 1:
            self.gaps.append((self.last_offset, offset))
        self.last_offset = offset


def dump_lines(data: BytesLike, options: DumpOptions, findings: Findings, *, name: str) -> Iterator[str]:
    """A line a batch, and with `is_deep` a line a record. `name` is for the line on trailing bytes."""
    end = 0
    try:
        for position, header in _batches(data, options.max_bytes):
            end = position + header.size
            yield _batch_line(data, position, header)
            if options.is_deep:
                for record in iter_records(data, position):
                    findings.seen(record.offset)
                    yield _record_line(record, header, options)
            else:
                findings.last_offset = header.last_offset
    except PeerError as error:
        yield f"Error at position {end}: {error.message}"
    left = len(data) - end
    if left > 0 and options.max_bytes == NO_LIMIT:
        yield f"Found {left} invalid bytes at the end of {name}"


def _batches(data: BytesLike, max_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """The batches that lie within the first `max_bytes` bytes."""
    for position, header in iter_batches(data):
        if position + header.size > max_bytes:
            return
        yield position, header


def _batch_line(data: BytesLike, position: int, header: BatchHeader) -> str:
    horizon = header.delete_horizon_ms
    pairs = (
        ("baseOffset", header.base_offset),
        ("lastOffset", header.last_offset),
        ("count", header.record_count),
        ("baseSequence", header.base_sequence),
        ("lastSequence", header.last_sequence),
        ("producerId", header.producer_id),
        ("producerEpoch", header.producer_epoch),
        ("partitionLeaderEpoch", header.leader_epoch),
        ("isTransactional", _boolean(header.is_transactional)),
        ("isControl", _boolean(header.is_control)),
        ("deleteHorizonMs", "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]"),
        ("position", position),
        (_timestamp_name(header), header.max_timestamp),
        ("size", header.size),
        ("magic", header.magic),
        ("compresscodec", _CODECS.get(header.codec, header.codec)),
        ("crc", header.crc),
        ("isvalid", _boolean(crc_is_right(data, header, position))),
    )
    return " ".join(f"{key}: {value}" for key, value in pairs)


def _boolean(claim: bool) -> str:
    return "true" if claim else "false"


def _timestamp_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.is_log_append_time else "CreateTime"


def _record_line(record: Record, header: BatchHeader, options: DumpOptions) -> str:
    parts: list[str] = []
    if not options.skips_metadata:
        headers = ",".join(name for name, _ in record.headers)
        sequence = -1 if header.is_control else record.sequence
        parts.append(
            f"offset: {record.offset} {_timestamp_name(header)}: {record.timestamp} keySize: {_size(record.key)} "
            f"valueSize: {_size(record.value)} sequence: {sequence} headerKeys: [{headers}]"
        )
        if header.is_control:
            parts.append(control_text(record))
    if options.decoder is not None and not header.is_control:
        key, payload = options.decoder(record)
        parts += [f"{label}: {text}" for label, text in (("key", key), ("payload", payload)) if text is not None]
    return f"| {' '.join(parts)}" if parts else ""


def _size(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def dump_json(data: BytesLike, options: DumpOptions) -> Iterator[dict[str, Any]]:
    """One object a batch; with `is_deep` with its records, contents shown as the decoder shows them."""
    for position, header in _batches(data, options.max_bytes):
        shown: dict[str, Any] = {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon_ms,
            "position": position,
            "timestampType": _timestamp_name(header),
            "maxTimestamp": header.max_timestamp,
            "size": header.size,
            "compression": _CODECS.get(header.codec, str(header.codec)),
            "crc": header.crc,
            "isValid": crc_is_right(data, header, position),
        }
        if options.is_deep:
            shown["records"] = [_record_json(record, header, options) for record in iter_records(data, position)]
        yield shown


def _record_json(record: Record, header: BatchHeader, options: DumpOptions) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    if not options.skips_metadata:
        shown = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "keySize": _size(record.key),
            "valueSize": _size(record.value),
            "sequence": -1 if header.is_control else record.sequence,
            "headerKeys": [name for name, _ in record.headers],
        }
        if header.is_control:
            shown["control"] = control_text(record)
    if options.decoder is not None and not header.is_control:
        shown["key"], shown["payload"] = options.decoder(record)
    return shown
