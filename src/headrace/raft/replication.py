"""The log of the quorum: what is in it, who has how much of it, and whether a fetcher's history fits ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from headrace.core.errors import PeerError, StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import BytesLike
from headrace.log.ports import OutOfRange, PartitionLogPort
from headrace.raft.voters import VoterSet, encode_kraft_version, encode_voters
from headrace.records.batch import BatchHeader, checked_batches
from headrace.records.compression import Codec
from headrace.records.control import ControlType, control_key
from headrace.records.record import (
    NO_PRODUCER,
    NewRecord,
    Placement,
    ProducerStamp,
    WrittenRecords,
    build_batch,
    build_written_batch,
    iter_records,
    written_values,
)
from headrace.wire.codec import encode
from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage
from headrace.wire.raft_records.leader_change_message import Voter as LeaderChangeVoter

_READ_CHUNK_BYTES = 1_048_576


class LoggedBatch:
    """A batch of the metadata log. Its records are read when they are asked for: the node that wrote them knows them already."""

    __slots__ = ("_data", "_directory", "_header", "_position")

    def __init__(self, header: BatchHeader, data: BytesLike, position: int, directory: str) -> None:
        """The whole batch is in `data` at `position`; `directory` is named in faults."""
        self._header = header
        self._data = data
        self._position = position
        self._directory = directory

    @property
    def base_offset(self) -> int:
        """Offset of the first record."""
        return self._header.base_offset

    @property
    def last_offset(self) -> int:
        """Offset of the last record (inclusive)."""
        return self._header.last_offset

    @property
    def epoch(self) -> int:
        """The leader epoch it was written in."""
        return self._header.leader_epoch

    @property
    def timestamp(self) -> int:
        """When it was written, by the leader's clock: ms since 1970."""
        return self._header.max_timestamp

    @property
    def size(self) -> int:
        """Bytes in the log."""
        return self._header.size

    @property
    def count(self) -> int:
        """How many `records` there are."""
        return 0 if self._header.is_control else self._header.record_count

    @property
    def records(self) -> tuple[bytes, ...]:
        """The framed metadata records, none for a control batch. Raises StorageFault for damage (B-S11)."""
        if self._header.is_control:
            return ()
        try:
            return tuple(record.value or b"" for record in iter_records(self._data, self._position))
        except PeerError as error:
            raise _damaged(self._directory, self._header.base_offset, error) from error


class SnapshotsPort(Protocol):
    """The snapshots beside the log; `headrace.storage.snapshot_files.SnapshotFiles` is the real one."""

    def ids(self) -> list[OffsetAndEpoch]:
        """The whole snapshots, oldest first."""

    def latest(self) -> OffsetAndEpoch | None:
        """The newest whole snapshot."""

    def size(self, snapshot_id: OffsetAndEpoch, /) -> int | None:
        """Bytes, None when there is no such snapshot."""

    def mtime_ms(self, snapshot_id: OffsetAndEpoch, /) -> int | None:
        """When it was written (ms since 1970), None when there is no such snapshot."""

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, /) -> bytes | None:
        """Bytes from `position` on, None when there is no such snapshot. Raises StorageFault."""

    def delete_below(self, end_offset: int, /) -> int:
        """Remove the snapshots that end below `end_offset`, never the newest."""

    # A snapshot that is being fetched grows in a part that no other call sees until `finish_part`.

    def part_size(self, snapshot_id: OffsetAndEpoch, /) -> int:
        """Bytes fetched so far, 0 when there is no part."""

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes, /) -> None:
        """Put bytes at `position`, at most the part's size (0 begins a new part). Raises StorageFault."""

    def read_part(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, /) -> bytes:
        """Bytes of the part from `position` on. Raises StorageFault."""

    def finish_part(self, snapshot_id: OffsetAndEpoch, /) -> None:
        """Sync the part, give it the snapshot's name, sync the directory: now it is whole. Blocks. Raises StorageFault."""

    def drop_part(self, snapshot_id: OffsetAndEpoch, /) -> None:
        """Remove the part, if there is one."""


def read_batches(log: PartitionLogPort, start: int, end: int) -> Iterator[LoggedBatch]:
    """The batches of the log in [start, end), both batch boundaries. Raises StorageFault for damage (B-S11)."""
    offset = start
    while offset < end:
        data = log.read_bytes(offset, _READ_CHUNK_BYTES, upper_offset=end, min_one_batch=True)
        if isinstance(data, OutOfRange):
            raise StorageFault(
                f"the metadata log has offsets {data.log_start_offset} to {data.log_end_offset}; {offset} is needed",
                directory=log.directory,
            )
        before = offset
        try:
            for position, header in checked_batches(data):
                if header.base_offset < offset:
                    continue
                offset = header.next_offset
                yield LoggedBatch(header, data, position, log.directory)
        except PeerError as error:
            raise _damaged(log.directory, offset, error) from error
        if offset == before:
            raise StorageFault(f"the metadata log has no batch at offset {offset}", directory=log.directory)


def _damaged(directory: str, offset: int, error: PeerError) -> StorageFault:
    return StorageFault(f"the metadata log is damaged behind offset {offset}: {error.message}", directory=directory)


def record_batch(records: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """One data batch of framed metadata records."""
    placement = Placement(base_offset=base_offset, leader_epoch=epoch, last_offset=base_offset + len(records) - 1)
    written = WrittenRecords(written_values(records), len(records), now_ms, now_ms)
    return build_written_batch(written, codec=Codec.NONE, producer=NO_PRODUCER, placement=placement)


def epoch_start_batch(
    *, leader_id: int, granting: Sequence[int], voters: VoterSet, write_voters: bool, placement: Placement, now_ms: int
) -> bytearray:
    """The first batch of an epoch: LeaderChange (B-R15), and the voters when only the local 0-0 snapshot has them (KIP-853).

    LeaderChange is written in version 0 also with directory ids: Kafka 4.3.1 does so, and its readers take nothing else.
    """
    message = LeaderChangeMessage(
        version=0,
        leader_id=leader_id,
        voters=tuple(LeaderChangeVoter(voter_id=voter_id) for voter_id in voters.ids),
        granting_voters=tuple(LeaderChangeVoter(voter_id=voter_id) for voter_id in granting),
    )
    rows = [NewRecord(control_key(ControlType.LEADER_CHANGE), encode(message, 0), now_ms)]
    if write_voters:
        level = encode_kraft_version(voters.kraft_version)
        rows.append(NewRecord(control_key(ControlType.KRAFT_VERSION), level, now_ms))
        rows.append(NewRecord(control_key(ControlType.KRAFT_VOTERS), encode_voters(voters), now_ms))
    return build_batch(rows, producer=ProducerStamp(is_control=True), placement=placement)


def voters_batch(voters: VoterSet, *, with_level: bool, placement: Placement, now_ms: int) -> bytearray:
    """A control batch that names the voters, and with `with_level` first the kraft.version they are the first of (B-R15)."""
    rows = []
    if with_level:
        level = encode_kraft_version(voters.kraft_version)
        rows.append(NewRecord(control_key(ControlType.KRAFT_VERSION), level, now_ms))
    rows.append(NewRecord(control_key(ControlType.KRAFT_VOTERS), encode_voters(voters), now_ms))
    return build_batch(rows, producer=ProducerStamp(is_control=True), placement=placement)


class ValidPosition(NamedTuple):
    """The fetcher's history is a prefix of ours."""


class Diverging(NamedTuple):
    """It is not: the fetcher must truncate to where `epoch` ended."""

    end: OffsetAndEpoch


class NeedsSnapshot(NamedTuple):
    """What the fetcher needs is no longer in the log, or a snapshot is the shorter way (B-S05)."""

    snapshot_id: OffsetAndEpoch


Position = ValidPosition | Diverging | NeedsSnapshot


def check_position(log: PartitionLogPort, snapshots: SnapshotsPort, asked: OffsetAndEpoch) -> Position:
    """Does a fetch at `asked.offset` by somebody whose last record is of `asked.epoch` continue our log?

    The 0-0 snapshot is never sent (B-S10). Source: KIP-595, KIP-630.
    """
    if asked.offset > log.log_start_offset:
        ours = log.end_offset_for_epoch(asked.epoch)
        if ours is not None and ours.epoch == asked.epoch and ours.offset >= asked.offset:
            return ValidPosition()  # what nearly every fetch is: the snapshots need not be looked up
    return _check_with_snapshots(log, snapshots.ids(), asked)


def _check_with_snapshots(
    log: PartitionLogPort, snapshots: Sequence[OffsetAndEpoch], asked: OffsetAndEpoch
) -> Position:
    latest = snapshots[-1] if snapshots and snapshots[-1].offset > 0 else None
    if asked.offset == 0 and (latest is None or log.log_start_offset == 0 == log.log_end_offset):
        return ValidPosition()
    if asked.offset >= log.log_start_offset and asked.offset > 0 and asked in snapshots:
        return ValidPosition()
    if latest is not None and (asked.offset <= log.log_start_offset or asked.offset == 0):
        return NeedsSnapshot(latest)
    ours = log.end_offset_for_epoch(asked.epoch)
    if ours is None:
        return _below_first_epoch(log, snapshots, asked, latest)
    if ours.epoch != asked.epoch or ours.offset < asked.offset:
        return Diverging(OffsetAndEpoch(ours.offset, ours.epoch))
    return ValidPosition()


def _below_first_epoch(
    log: PartitionLogPort, snapshots: Sequence[OffsetAndEpoch], asked: OffsetAndEpoch, latest: OffsetAndEpoch | None
) -> Position:
    """The fetcher's last epoch is older than all in the log: it may still be that of the snapshot where the log begins."""
    first = next((each for each in snapshots if each.offset == log.log_start_offset), None)
    if first is not None and first.offset > 0 and first.epoch == asked.epoch:
        return Diverging(first)
    if latest is not None:
        return NeedsSnapshot(latest)
    return Diverging(OffsetAndEpoch(log.log_start_offset, 0))
