"""Events that reach the coordinator of one partition, and the effects that it orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.values import value_class


class LogRecord(NamedTuple):
    """Key and value of a record as they lie in the log; a value of None deletes the key."""

    key: bytes
    value: bytes | None


class LoadedRecord(NamedTuple):
    """A record that was read from the log, and where it lay."""

    offset: int
    key: bytes | None
    value: bytes | None


@value_class
class RecordsLoaded:
    """Some records of one batch, read while the coordinator loads. `producer_id` is -1 outside transactions."""

    records: Sequence[LoadedRecord]
    producer_id: int


@value_class
class TransactionEnded:
    """A marker in the log: what the producer wrote in its transaction counts from now on, or never."""

    producer_id: int
    is_committed: bool


@value_class
class LoadFinished:
    """Every record below `next_offset` was given and is committed. Requests are served when the shard is ACTIVE: at once, or after some TimePassed."""

    next_offset: int
    now_ms: int


@value_class
class LoadFailed:
    """The log cannot be read: why."""

    reason: str


@value_class
class RequestReceived:
    """A client asked for something that may change the state. `token` comes back in its one `Answer`.

    `request` is a message, or what the coordinator's handlers made of one. `fresh_id` is the text of a new uuid.
    """

    token: int
    request: Any
    api_version: int
    client_id: str
    client_host: str
    fresh_id: str
    now_ms: int


@value_class
class RecordsCommitted:
    """The records of an append are below the high watermark; the first lies at `base_offset`."""

    append_id: int
    base_offset: int
    now_ms: int


@value_class
class AppendFailed:
    """The records of an append are not in the log, or will never be committed by this leader."""

    append_id: int
    error: ErrorCode
    now_ms: int


@value_class
class ImageChanged:
    """Something changed in the metadata that the coordinator keeps in step with, such as topics that are gone.

    While it loads, changes are kept and made when it has loaded.
    """

    change: Any
    now_ms: int


@value_class
class TimePassed:
    """A deadline may have come."""

    now_ms: int


@value_class
class WallClockMoved:
    """The wall clock is now `ahead_ms` ahead of the clock that events and deadlines go by.

    Timestamps of records and ages go by the wall clock: they must still mean something after a restart.
    """

    ahead_ms: int


@value_class
class Resigned:
    """This broker leads the partition no longer, or must read its log anew; the shard is of no use after this."""


CoordinatorEvent = (
    RecordsLoaded
    | TransactionEnded
    | LoadFinished
    | LoadFailed
    | RequestReceived
    | RecordsCommitted
    | AppendFailed
    | ImageChanged
    | TimePassed
    | WallClockMoved
    | Resigned
)


@value_class
class AppendRecords:
    """Append one batch to the partition; tell the outcome as RecordsCommitted or AppendFailed with `append_id`."""

    append_id: int
    records: tuple[LogRecord, ...]
    timestamp_ms: int


@value_class
class Answer:
    """Send this response (or part of one) to who asked with `token`."""

    token: int
    response: Any


@value_class
class Reload:
    """The log holds records that this coordinator did not write: what it knows may be wrong, so the log is read anew by another shard."""

    expected_offset: int
    found_offset: int


CoordinatorEffect = AppendRecords | Answer | Reload
