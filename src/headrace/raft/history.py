"""The voters that the log names, now and at an earlier offset.

With kraft.version 1 the voters stand in control records; the newest ones count, committed or not (KIP-853). A truncation takes them
back, and a snapshot carries those in force at its end. What nobody wrote yet comes from the settings, or from the local 0-0 snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.core.errors import PeerError, StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import OutOfRange, PartitionLogPort
from headrace.raft.replication import SnapshotsPort
from headrace.raft.snapshots import MAX_BYTES_A_BATCH, Snapshot, read_snapshot
from headrace.raft.voters import SUPPORTED_KRAFT_VERSION, VoterSet, decode_kraft_version, decode_voters
from headrace.records.batch import crc_is_right, iter_batches
from headrace.records.control import ControlType, control_type
from headrace.records.record import iter_records

_CHUNK_BYTES = 4_194_304
NOT_IN_LOG = -1
"""The offset of voters that no record of the replicated log names."""


class VotersAt(NamedTuple):
    """The voters from the record at `offset` on."""

    offset: int
    voters: VoterSet


class VoterHistory:
    """The voter sets that count for some part of the log, oldest first. Never empty."""

    def __init__(self, static: VoterSet) -> None:
        """`static` are the voters of the settings; they count until a record or a snapshot names others."""
        self._static = VotersAt(NOT_IN_LOG, static)
        self._entries = [self._static]

    @property
    def latest(self) -> VotersAt:
        """The voters in force, committed or not."""
        return self._entries[-1]

    def at(self, end_offset: int) -> VoterSet:
        """The voters that records below `end_offset` name."""
        for entry in reversed(self._entries):
            if entry.offset < end_offset:
                return entry.voters
        return self._entries[0].voters

    def uncommitted(self, high_watermark: int) -> VotersAt | None:
        """The newest change, unless it is below the high watermark."""
        latest = self._entries[-1]
        return latest if latest.offset >= high_watermark else None

    def replaced(self, high_watermark: int) -> VoterSet | None:
        """The voters that the newest, uncommitted change replaces; None when it is committed."""
        if len(self._entries) < 2 or self._entries[-1].offset < high_watermark:
            return None
        return self._entries[-2].voters

    def voter_sets(self) -> Iterator[VoterSet]:
        """The voters in force, and those before them, the newest first."""
        return (entry.voters for entry in reversed(self._entries))

    def named(self, offset: int, voters: VoterSet) -> None:
        """The record at `offset` of the log names the voters."""
        self._entries.append(VotersAt(offset, voters))

    def loaded(self, snapshot_id: OffsetAndEpoch, voters: VoterSet | None) -> None:
        """The log begins anew at the snapshot's end: only its voters count, named somewhere below. Without any it is of kraft.version 0.

        What the former log named behind that end was of another history.
        """
        self._entries = [self._static if voters is None else VotersAt(snapshot_id.offset - 1, voters)]

    def truncated(self, end_offset: int) -> bool:
        """The log was cut to `end_offset`: later voters never were. True when others are in force now."""
        before = self._entries[-1]
        self._entries = [each for each in self._entries if each.offset < end_offset] or self._entries[:1]
        return self._entries[-1] is not before

    def forget_below(self, start_offset: int) -> None:
        """Nobody asks for what counted before the record that counts at `start_offset`."""
        later = [each for each in self._entries if each.offset >= start_offset]
        earlier = [each for each in self._entries if each.offset < start_offset]
        self._entries = earlier[-1:] + later


def load_snapshot(snapshots: SnapshotsPort, snapshot_id: OffsetAndEpoch, *, directory: str) -> Snapshot:
    """A whole snapshot. Raises StorageFault: damaged or gone (B-S11)."""
    data = snapshots.read(snapshot_id, 0, snapshots.size(snapshot_id) or 0)
    name = f"{snapshot_id.offset}-{snapshot_id.epoch}"
    if data is None:
        raise StorageFault(f"snapshot {name} is gone", directory=directory)
    return read_snapshot(data, name=name, directory=directory)


def read_history(log: PartitionLogPort, snapshots: SnapshotsPort, static: VoterSet) -> VoterHistory:
    """What snapshot and log of a node that starts say (S4-25). Raises StorageFault for damage, or a newer kraft.version."""
    history = VoterHistory(static)
    latest = snapshots.latest()
    start = log.log_start_offset
    if latest is not None:
        history.loaded(latest, voters_of_snapshot(snapshots, latest, directory=log.directory))
        start = max(start, latest.offset)
    offset, end = start, log.log_end_offset
    while offset < end:
        data = log.read_bytes(offset, _CHUNK_BYTES, upper_offset=end, min_one_batch=True)
        if isinstance(data, OutOfRange) or not data:
            break
        before = offset
        for found in voters_in_batches(data, f"the metadata log behind offset {offset}", directory=log.directory):
            if found.voters is not None and found.offset >= start:
                history.named(found.offset, found.voters)
            offset = found.next_offset
        if offset == before:
            raise StorageFault(f"the metadata log has no batch at offset {offset}", directory=log.directory)
    return history


class BatchVoters(NamedTuple):
    """What one batch says: the voters named in it (at `offset`), or None; where the next batch begins."""

    offset: int
    voters: VoterSet | None
    next_offset: int


def voters_in_batches(data: bytes | bytearray | memoryview, where: str, *, directory: str) -> Iterator[BatchVoters]:
    """Each batch of `data` in turn; only control batches are read. Raises StorageFault for damage, or a newer kraft.version."""
    try:
        for position, header in iter_batches(data):
            found: VoterSet | None = None
            offset = header.base_offset
            if header.is_control and crc_is_right(data, header, position):
                for record in iter_records(data, position):
                    kind = control_type(record.key)
                    if kind is ControlType.KRAFT_VOTERS:
                        found, offset = decode_voters(record.value or b""), record.offset
                    elif kind is ControlType.KRAFT_VERSION:
                        _check_level(decode_kraft_version(record.value or b""), directory)
            yield BatchVoters(offset, found, header.next_offset)
    except PeerError as error:
        raise StorageFault(f"{where} is damaged: {error.message}", directory=directory) from error


def voters_of_snapshot(snapshots: SnapshotsPort, snapshot_id: OffsetAndEpoch, *, directory: str) -> VoterSet | None:
    """The voters that a whole snapshot names, None when it names none. Reads its leading control batches only."""
    name = f"snapshot {snapshot_id.offset}-{snapshot_id.epoch}"
    data = snapshots.read(snapshot_id, 0, 2 * MAX_BYTES_A_BATCH)
    if data is None:
        raise StorageFault(f"{name} is gone", directory=directory)
    voters: VoterSet | None = None
    try:
        for position, header in iter_batches(data):
            if not header.is_control:
                break
            for record in iter_records(data, position):
                kind = control_type(record.key)
                if kind is ControlType.KRAFT_VOTERS:
                    voters = decode_voters(record.value or b"")
                elif kind is ControlType.KRAFT_VERSION:
                    _check_level(decode_kraft_version(record.value or b""), directory)
    except PeerError as error:
        raise StorageFault(f"{name} is damaged: {error.message}", directory=directory) from error
    return voters


def _check_level(level: int, directory: str) -> None:
    if level > SUPPORTED_KRAFT_VERSION[1]:
        raise StorageFault(
            f"the metadata log is of kraft.version {level}; this node knows {SUPPORTED_KRAFT_VERSION[1]}",
            directory=directory,
        )
