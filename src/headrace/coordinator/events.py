"""What can happen to a group coordinator, and what can it order?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReceived:
    """A client asked for something that may change a group. `token` comes back in its one `Answer`.

    `request` is a JoinGroup, SyncGroup, Heartbeat, LeaveGroup (members listed, whatever the version), OffsetCommit (topics with names that exist)
    or OffsetDelete request, or one of `DeleteGroups` and `FetchStableOffsets`. `fresh_id` is the text of a new uuid, for a member id.
    """

    token: int
    request: Any
    api_version: int
    client_id: str
    client_host: str
    fresh_id: str
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroups:
    """The groups of a DeleteGroups request that this coordinator owns."""

    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchStableOffsets:
    """One group of an OffsetFetch with `require_stable`: answered after everything appended before it is committed.

    `topics` holds (name, topic id, partitions), or is None for all. The answer is an `OffsetFetchResponseGroup`.
    """

    group_id: str
    topics: tuple[tuple[str, Uuid, tuple[int, ...]], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordLoaded:
    """A record of the offsets topic, read while the coordinator loads. `value` is None for a tombstone.

    `producer_id` is -1 outside transactions.
    """

    key: bytes
    value: bytes | None
    offset: int
    producer_id: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionEnded:
    """A marker in the offsets topic: the open offsets of `producer_id` count from now on, or never."""

    producer_id: int
    is_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFinished:
    """Every record of the partition was given; from now on requests are served."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsCommitted:
    """The records of an append are below the high watermark."""

    append_id: int
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailed:
    """The records of an append are not in the log, or will never be committed by this leader."""

    append_id: int
    error: ErrorCode
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsDeleted:
    """Topics are gone: (name, topic id) of each."""

    topics: tuple[tuple[str, Uuid], ...]
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """A deadline may have come."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClockMoved:
    """The wall clock is now `ahead_ms` ahead of the clock that events and deadlines go by.

    Timestamps of records and the age of offsets go by the wall clock: they must still mean something after a restart.
    """

    ahead_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resigned:
    """This broker leads the partition no longer; the machine is of no use after this."""


LoadEvent = RecordLoaded | TransactionEnded | LoadFinished
GroupEvent = (
    RequestReceived
    | RecordLoaded
    | TransactionEnded
    | LoadFinished
    | RecordsCommitted
    | AppendFailed
    | TopicsDeleted
    | TimePassed
    | WallClockMoved
    | Resigned
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """One record for the offsets topic; a value of None deletes the key."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendRecords:
    """Append to the partition, in one batch when `is_atomic`; tell the outcome as RecordsCommitted or AppendFailed with `append_id`."""

    append_id: int
    records: tuple[GroupRecord, ...]
    is_atomic: bool
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Send this response (or part of one) to who asked with `token`."""

    token: int
    response: Any


GroupEffect = AppendRecords | Answer
