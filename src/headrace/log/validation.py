"""Checks of a client's batch, and what is set in it before it is appended. Source: KIP-98, KIP-467; B40-B51.

Only the header and the CRC are looked at, unless the topic demands more: compacted topics and `headrace.validate.records` check every
record, another `compression.type` rewrites the batch, and a timestamp out of bounds opens it to name the records at fault.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.log.config import LogConfig, TimestampType
from headrace.log.ports import AppendRefused, CheckedBatch, Opening
from headrace.records.batch import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    crc_is_right,
    read_header,
    set_crc,
    set_max_timestamp,
    whole_batch_size,
)
from headrace.records.compression import CODEC_NAMES, Codec, compress, unknown_codec
from headrace.records.walk import MIN_RECORD_BYTES, RecordWalk, Search, Span, Walk, finish

_CLIENT_ATTRIBUTES = COMPRESSION_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT
_NOT_CLIENT_ATTRIBUTES = ~_CLIENT_ATTRIBUTES
HIGHEST_CODEC = int(max(Codec))
HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a batch's header as they are unpacked, in the order of `BatchHeader`, which is one."""
_MOST_PACKED: Final = 32_768
"""No codec opens a byte to more: zstd has blocks of four bytes for 128 KiB of one value."""
MAX_RECORD_ERRORS: Final = 1_000
"""So many records at fault are named; Kafka names all, and would name millions."""


def check_client_batch(batches: memoryview, config: LogConfig, now_ms: int) -> CheckedBatch | AppendRefused:
    """As `begin_check`, to its end."""
    checked = begin_check(batches, config, now_ms)
    return finish(checked) if isinstance(checked, Generator) else checked


def begin_check(batches: memoryview, config: LogConfig, now_ms: int) -> CheckedBatch | AppendRefused | Opening:
    """The one batch of a produce request, checked as Kafka does: refused with Kafka's error, ready to be appended, or to be opened first."""
    size = len(batches)
    if size < HEADER_SIZE:
        return _refuse_bytes(batches)
    header = read_header(batches)
    if not is_sound_header(header, size):
        return _refuse_header(batches, header)
    if size > config.max_message_bytes:
        return too_large(size, config)
    if not crc_is_right(batches, header):
        return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message="The batch's CRC-32C does not fit its bytes.")
    if (
        not takes_batches_as_they_are(config)
        or header.is_log_append_time
        or _is_outside(header.max_timestamp, config, now_ms)
        or _is_outside(header.base_timestamp, config, now_ms)
    ):
        return _check_closely(batches, header, config, now_ms)
    return CheckedBatch(batches, header, NO_TIMESTAMP)


def is_sound_header(fields: HeaderFields, size: int) -> bool:
    """True if these are the header of one whole batch of `size` bytes that a client may write: the one place that says so, for the quick way and the thorough one. Hot path.

    `_refuse_header` says what is wrong.
    """
    base, length, _, magic, _, attributes, last_delta, _, _, producer_id, _, sequence, count = fields
    return (
        not base
        and length + LOG_OVERHEAD == size
        and magic == MAGIC
        and last_delta + 1 == count > 0
        and count * MIN_RECORD_BYTES <= (size - HEADER_SIZE) * (_MOST_PACKED if attributes & COMPRESSION_MASK else 1)
        and not attributes & _NOT_CLIENT_ATTRIBUTES
        and attributes & COMPRESSION_MASK <= HIGHEST_CODEC
        and (sequence >= 0 if producer_id >= 0 else not attributes & TRANSACTIONAL_BIT)
    )


def too_large(size: int, config: LogConfig) -> AppendRefused:
    """A batch of so many bytes is refused."""
    message = f"The batch has {size} bytes, which is above max.message.bytes={config.max_message_bytes}."
    return AppendRefused(error=ErrorCode.MESSAGE_TOO_LARGE, message=message)


def takes_batches_as_they_are(config: LogConfig) -> bool:
    """True if the topic's settings demand no look into a batch and no change of it but offset and epoch."""
    return (
        config.compression_type == "producer"
        and not config.is_compacted
        and not config.validate_records
        and config.message_timestamp_type is TimestampType.CREATE_TIME
    )


def _is_outside(timestamp: int, config: LogConfig, now_ms: int) -> bool:
    """True if the topic's limits forbid this timestamp; -1 (no timestamp) is always allowed."""
    return timestamp != NO_TIMESTAMP and (
        timestamp - now_ms > config.message_timestamp_after_max_ms
        or now_ms - timestamp > config.message_timestamp_before_max_ms
    )


def _refuse_bytes(batches: memoryview) -> AppendRefused:
    """Why bytes too short for a header are no batch."""
    try:
        size = whole_batch_size(batches, 0, len(batches))
    except PeerError as error:
        return AppendRefused(error=_magic_error(batches, error.code), message=error.message)
    if size:
        return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message="The batch is shorter than its header.")
    return AppendRefused(error=ErrorCode.INVALID_RECORD, message="There is no whole record batch.")


def _magic_error(batches: memoryview, code: ErrorCode) -> ErrorCode:
    """Message formats 0 and 1 existed once: Kafka 4 calls them invalid, others corrupt."""
    return ErrorCode.INVALID_RECORD if len(batches) > 16 and batches[16] in (0, 1) else code


def _refuse_header(batches: memoryview, header: BatchHeader) -> AppendRefused:
    """Why this header is refused; the order is Kafka's."""
    size = len(batches)
    invalid = ErrorCode.INVALID_RECORD
    try:
        whole = whole_batch_size(batches, 0, size)
    except PeerError as error:
        return AppendRefused(error=_magic_error(batches, error.code), message=error.message)
    if whole == 0:
        return AppendRefused(error=invalid, message="There is no whole record batch.")
    if whole != size:
        return AppendRefused(error=invalid, message="A produce request has exactly one record batch a partition.")
    if header.base_offset:
        return AppendRefused(error=invalid, message=f"The base offset should be 0, but it is {header.base_offset}.")
    if not crc_is_right(batches, header):
        return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message="The batch's CRC-32C does not fit its bytes.")
    return _refuse_fields(header)


def _refuse_fields(header: BatchHeader) -> AppendRefused:
    """Which field of a whole and undamaged batch is wrong."""
    invalid = ErrorCode.INVALID_RECORD
    codec = header.attributes & COMPRESSION_MASK
    if codec > HIGHEST_CODEC:
        refusal = unknown_codec(codec)
        return AppendRefused(error=refusal.code, message=refusal.message)
    if header.attributes & CONTROL_BIT:
        return AppendRefused(error=invalid, message="Clients may not write control records.")
    if header.attributes & ~_CLIENT_ATTRIBUTES:
        return AppendRefused(error=invalid, message=f"Unknown attribute bits in {header.attributes & 0xFFFF:#06x}.")
    if header.record_count <= 0 or header.last_offset_delta + 1 != header.record_count:
        count, delta = header.record_count, header.last_offset_delta
        return AppendRefused(error=invalid, message=f"Record count {count} and last offset delta {delta} disagree.")
    if header.record_count * MIN_RECORD_BYTES > (header.size - HEADER_SIZE) * (_MOST_PACKED if codec else 1):
        message = f"The batch cannot hold {header.record_count} records in {header.size - HEADER_SIZE} bytes."
        return AppendRefused(error=invalid, message=message)
    if header.producer_id >= 0:
        return AppendRefused(error=invalid, message=f"Sequence {header.base_sequence} with a producer id.")
    return AppendRefused(error=invalid, message="A transactional batch without a producer id.")


def _check_closely(
    batches: memoryview, header: BatchHeader, config: LogConfig, now_ms: int
) -> Search[CheckedBatch | AppendRefused]:
    """What only some topics, and suspicious batches, need: a look at the records, another time, another codec.

    A batch that is opened is copied first: its request's buffer is not kept for so long.
    """
    is_append_time = config.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    if header.is_log_append_time and (is_append_time or header.max_timestamp == NO_TIMESTAMP):
        message = "Producers should not set the timestamp type to LogAppendTime."
        return AppendRefused(error=ErrorCode.INVALID_TIMESTAMP, message=message)
    target = header.codec if config.compression_type == "producer" else CODEC_NAMES[config.compression_type]
    max_timestamp = header.max_timestamp
    data = batches
    if (
        config.is_compacted
        or config.validate_records
        or target != header.codec
        or (
            not is_append_time
            and (_is_outside(max_timestamp, config, now_ms) or _is_outside(header.base_timestamp, config, now_ms))
        )
    ):
        data = memoryview(bytearray(batches))
        records = _Records(config, now_ms, header, target)
        walk = Walk(data, records.look, max_bytes=config.max_decompressed_bytes)
        yield walk
        try:
            found = walk.outcome
        except PeerError as error:
            return AppendRefused(error=error.code, message=error.message)
        if isinstance(found, AppendRefused):
            return found
        max_timestamp = found.max_timestamp
        if found.recoded is not None:
            data, header = found.recoded, read_header(found.recoded)
    time = now_ms if is_append_time else NO_TIMESTAMP
    set_max_timestamp(data, header, now_ms if is_append_time else max_timestamp, is_append_time=is_append_time)
    return CheckedBatch(data, read_header(data), time)


class _Fit(NamedTuple):
    """Records that the topic takes: their highest timestamp, and their batch in the topic's codec if that is another one."""

    max_timestamp: int
    recoded: memoryview | None


class _Records:
    """What is asked of a batch's records before it is appended."""

    __slots__ = ("_config", "_errors", "_header", "_is_time_wrong", "_now_ms", "_target")

    def __init__(self, config: LogConfig, now_ms: int, header: BatchHeader, target: int) -> None:
        self._config = config
        self._now_ms = now_ms
        self._header = header
        self._target = target
        self._errors: list[tuple[int, str | None]] = []
        self._is_time_wrong = False

    def look(self, records: RecordWalk) -> Generator[None, None, _Fit | AppendRefused]:
        """The records that the topic's settings forbid, named by their index in the batch (KIP-467), the first thousand; else what is appended."""
        index, max_timestamp = 0, NO_TIMESTAMP
        while not records.is_done and len(self._errors) < MAX_RECORD_ERRORS:
            for span in records.take():
                if span.offset_delta != index:
                    message = f"Record {index} of the batch has offset delta {span.offset_delta}."
                    return AppendRefused(error=ErrorCode.INVALID_RECORD, message=message)
                timestamp = records.timestamp(span)
                max_timestamp = max(max_timestamp, timestamp)
                self._check(index, span, timestamp)
                index += 1
            yield
        if self._errors:
            return self._refusal()
        if self._target == self._header.codec:
            return _Fit(max_timestamp, None)
        return self._recoded(records, max_timestamp)

    def _check(self, index: int, span: Span, timestamp: int) -> None:
        config, now_ms = self._config, self._now_ms
        if config.is_compacted and span.key_size < 0:
            self._errors.append((index, "A compacted topic takes no record without a key."))
        elif config.message_timestamp_type is TimestampType.CREATE_TIME and _is_outside(timestamp, config, now_ms):
            self._is_time_wrong = True
            earliest = max(now_ms - config.message_timestamp_before_max_ms, 0)
            latest = now_ms + config.message_timestamp_after_max_ms
            self._errors.append((index, f"Timestamp {timestamp} is outside [{earliest}, {latest}]."))

    def _refusal(self) -> AppendRefused:
        errors = tuple(self._errors[:MAX_RECORD_ERRORS])
        if self._is_time_wrong:
            code, message = ErrorCode.INVALID_TIMESTAMP, "Records have timestamps that are out of range."
        else:
            code, message = ErrorCode.INVALID_RECORD, f"{len(errors)} records are not allowed in this topic."
        return AppendRefused(error=code, message=message, record_errors=errors)

    def _recoded(self, records: RecordWalk, max_timestamp: int) -> _Fit | AppendRefused:
        """The same batch, its records packed by the topic's codec. Raises PeerError if it would be too large then."""
        header, config, codec = self._header, self._config, self._target
        levels = {
            Codec.GZIP: config.compression_gzip_level,
            Codec.LZ4: config.compression_lz4_level,
            Codec.ZSTD: config.compression_zstd_level,
        }
        opened = records.view
        packed = opened if codec == Codec.NONE else compress(codec, opened, level=levels.get(Codec(codec)))
        size = HEADER_SIZE + len(packed)
        if size > config.max_message_bytes:
            return too_large(size, config)
        data = bytearray(HEADER_SIZE)
        attributes = header.attributes & ~COMPRESSION_MASK | codec
        recoded = header._replace(length=size - LOG_OVERHEAD, attributes=attributes, max_timestamp=max_timestamp)
        HEADER.pack_into(data, 0, *recoded)
        data += packed
        set_crc(data, 0, size)
        return _Fit(max_timestamp, memoryview(data))
