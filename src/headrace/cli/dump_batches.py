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
from headrace.core.values import value_class
from headrace.records.batch import BatchHeader, crc_is_right, iter_batches
from headrace.records.compression import CODEC_NAMES
from headrace.records.record import Record, iter_records

NO_LIMIT = 2**31 - 1
_CODECS = {number: name for name, number in CODEC_NAMES.items() if name != "uncompressed"}


@value_class
class DumpOptions:
    """What of the records is shown; `decoder` None shows no contents."""

    is_deep: bool = False
    decoder: Decoder | None = None
    skips_metadata: bool = False
    max_bytes: int = NO_LIMIT


@dataclass(slots=True)
class Findings:
    """What was wrong: offsets that do not follow one another, and where the file is damaged (a position in bytes, and how)."""

    gaps: list[tuple[int, int]] = field(default_factory=list)
    last_offset: int | None = None
    damage: tuple[int, str] | None = None

    def seen(self, offset: int) -> None:
        """The next offset of the file."""
        if self.last_offset is not None and offset != self.last_offset + 1:
            self.gaps.append((self.last_offset, offset))
        self.last_offset = offset


def dump_lines(data: BytesLike, options: DumpOptions, findings: Findings, *, name: str) -> Iterator[str]:
    """A line a batch, and with `is_deep` a line a record. `name` is for the line on trailing bytes."""
    end = at = 0
    try:
        for position, header in _batches(data, options.max_bytes):
            at, end = position, position + header.size
            yield _batch_line(data, position, header)
            if options.is_deep:
                for record in iter_records(data, position, max_bytes=NO_LIMIT):
                    findings.seen(record.offset)
                    yield _record_line(record, header, options)
            else:
                findings.last_offset = header.last_offset
            at = end
    except PeerError as error:
        findings.damage = (at, error.message)
        yield f"Error at position {at}: {error.message}"
    if left := _left(data, end, options):
        yield f"Found {left} invalid bytes at the end of {name}"


def _left(data: BytesLike, end: int, options: DumpOptions) -> int:
    """How many bytes behind the last batch are none."""
    return len(data) - end if options.max_bytes == NO_LIMIT else 0


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


def dump_json(data: BytesLike, options: DumpOptions, findings: Findings) -> dict[str, Any]:
    """`batches`: one object each; with `is_deep` with its records, contents shown as the decoder shows them.

    In a damaged file they are those before the damage, which `error` tells (`position` is where the batch begins that cannot be read); `invalidBytes` at the end are no batch.
    """
    batches: list[dict[str, Any]] = []
    whole: dict[str, Any] = {"batches": batches}
    end = at = 0
    try:
        for position, header in _batches(data, options.max_bytes):
            at, end = position, position + header.size
            shown = _batch_json(data, position, header)
            batches.append(shown)
            if options.is_deep:
                records = shown["records"] = []
                for record in iter_records(data, position, max_bytes=NO_LIMIT):
                    records.append(_record_json(record, header, options))
            at = end
    except PeerError as error:
        findings.damage = (at, error.message)
        whole["error"] = {"position": at, "message": error.message}
    if left := _left(data, end, options):
        whole["invalidBytes"] = left
    return whole


def _batch_json(data: BytesLike, position: int, header: BatchHeader) -> dict[str, Any]:
    return {
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
