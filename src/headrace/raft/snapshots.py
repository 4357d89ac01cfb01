"""Contents of a snapshot file, and which snapshots and log prefixes may go.

A snapshot is a row of record batches: a control batch with the header (and, with kraft.version 1, the level and the voters), the
metadata records, a control batch with the footer (KIP-630, B-S03). Its name says up to where it replaces the log (B-S02). A
`bootstrap.checkpoint` is the same at 0-0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Final

from headrace.core.errors import PeerError, StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class
from headrace.raft.voters import (
    VoterSet,
    decode_kraft_version,
    decode_voters,
    encode_kraft_version,
    encode_voters,
)
from headrace.records.batch import checked_batches
from headrace.records.control import ControlType, control_key, control_type
from headrace.records.record import (
    NewRecord,
    Placement,
    ProducerStamp,
    Record,
    build_batch,
    iter_records,
    read_all_records,
)
from headrace.wire.codec import decode, encode
from headrace.wire.raft_records.snapshot_footer_record import SnapshotFooterRecord
from headrace.wire.raft_records.snapshot_header_record import SnapshotHeaderRecord

if TYPE_CHECKING:
    from headrace.raft.replication import SnapshotsPort

MAX_RECORDS_A_BATCH: Final = 1024
MAX_BYTES_A_BATCH: Final = 1_048_576

BOOTSTRAP_ID: Final = OffsetAndEpoch(0, 0)
"""The name of a bootstrap snapshot."""


@value_class
class Snapshot:
    """A snapshot as read: framed metadata records, and what its control records say. Times in ms since 1970."""

    records: tuple[bytes, ...]
    last_contained_log_timestamp: int
    kraft_version: int = 0
    voters: VoterSet | None = None


def build_snapshot(
    records: Iterable[bytes],
    *,
    snapshot_id: OffsetAndEpoch,
    last_contained_log_timestamp: int,
    now_ms: int,
    voters: VoterSet | None = None,
) -> Iterator[bytearray]:
    """The batches of a snapshot file, in order. `records` are framed (B-C00); `voters` only with kraft.version 1."""
    offset = 0

    def batch(rows: Sequence[NewRecord], *, is_control: bool) -> bytearray:
        nonlocal offset
        placement = Placement(base_offset=offset, leader_epoch=snapshot_id.epoch)
        offset += len(rows)
        return build_batch(rows, producer=ProducerStamp(is_control=is_control), placement=placement)

    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_log_timestamp)
    first = [NewRecord(control_key(ControlType.SNAPSHOT_HEADER), encode(header, 0), now_ms)]
    if voters is not None and voters.kraft_version > 0:
        level = encode_kraft_version(voters.kraft_version)
        first.append(NewRecord(control_key(ControlType.KRAFT_VERSION), level, now_ms))
        first.append(NewRecord(control_key(ControlType.KRAFT_VOTERS), encode_voters(voters), now_ms))
    yield batch(first, is_control=True)
    rows: list[NewRecord] = []
    size = 0
    for record in records:
        if rows and (len(rows) == MAX_RECORDS_A_BATCH or size + len(record) > MAX_BYTES_A_BATCH):
            yield batch(rows, is_control=False)
            rows, size = [], 0
        rows.append(NewRecord(None, record, now_ms))
        size += len(record)
    if rows:
        yield batch(rows, is_control=False)
    footer = encode(SnapshotFooterRecord(version=0), 0)
    yield batch([NewRecord(control_key(ControlType.SNAPSHOT_FOOTER), footer, now_ms)], is_control=True)


class _Reader:
    """Gathers what the batches of one snapshot say; refuses them in a wrong order."""

    def __init__(self, name: str, directory: str) -> None:
        self._name = name
        self._directory = directory
        self.records: list[bytes] = []
        self.timestamp: int | None = None
        self.kraft_version = 0
        self.voters: VoterSet | None = None
        self.has_footer = False

    def take(self, row: Record, *, is_control: bool) -> None:
        """One record, in the file's order."""
        if self.has_footer:
            raise StorageFault(f"snapshot {self._name}: there are records behind its footer", directory=self._directory)
        value = row.value or b""
        if is_control:
            self._take_control(control_type(row.key), value)
        elif self.timestamp is None:
            raise StorageFault(f"snapshot {self._name} does not begin with a header", directory=self._directory)
        else:
            self.records.append(value)

    def _take_control(self, kind: ControlType, value: bytes) -> None:
        match kind:
            case ControlType.SNAPSHOT_HEADER:
                self.timestamp = decode(SnapshotHeaderRecord, value, 0).last_contained_log_timestamp
            case ControlType.KRAFT_VERSION:
                self.kraft_version = decode_kraft_version(value)
            case ControlType.KRAFT_VOTERS:
                self.voters = decode_voters(value)
            case ControlType.SNAPSHOT_FOOTER:
                self.has_footer = True
            case _:
                raise StorageFault(f"snapshot {self._name} holds an unknown control record", directory=self._directory)


def read_snapshot(data: bytes | memoryview, *, name: str, directory: str = "") -> Snapshot:
    """A snapshot's records; `directory` is the log directory it lies in, empty if none. Raises StorageFault when a batch is damaged, cut, or header or footer are missing (B-S11)."""
    reader = _Reader(name, directory)
    end = 0
    try:
        for header, rows in read_all_records(data):
            end += header.size
            for row in rows:
                reader.take(row, is_control=header.is_control)
    except PeerError as error:
        raise StorageFault(f"snapshot {name} is damaged: {error.message}", directory=directory) from error
    if reader.timestamp is None or not reader.has_footer or end != len(data):
        raise StorageFault(
            f"snapshot {name} is cut off: its header, footer or last batch is missing", directory=directory
        )
    return Snapshot(
        records=tuple(reader.records),
        last_contained_log_timestamp=reader.timestamp,
        kraft_version=reader.kraft_version,
        voters=reader.voters,
    )


def is_snapshot_due(*, bytes_since: int, max_bytes: int, ms_since: int, max_ms: int, has_new_records: bool) -> bool:
    """Enough bytes since the last one, or enough time with new records in it (0 = never by time) (B-S01)."""
    return has_new_records and (bytes_since >= max_bytes or (max_ms > 0 and ms_since >= max_ms))


@value_class
class StoredSnapshot:
    """A whole snapshot on disk: bytes, and when it was written (ms since 1970)."""

    snapshot_id: OffsetAndEpoch
    size: int
    mtime_ms: int


def log_start_after_cleaning(
    snapshots: Sequence[StoredSnapshot], *, log_size: int, max_bytes: int, max_ms: int
) -> int | None:
    """Up to where the log may be cut, always the end of a snapshot that stays; None when nothing need go (B-S04).

    From the oldest snapshot on, one goes while the next one is there to replace it, and log and snapshots together exceed `max_bytes`
    or it is older than `max_ms` (-1 = no limit). Limits are soft: what the newest snapshot does not cover stays.

    A snapshot's age is by how much it was written before the newest one. Times of files follow the wall clock, which may jump, or be wrong when
    a process starts; no other clock can be compared with them.
    """
    newest_ms = max((each.mtime_ms for each in snapshots), default=0)
    total = log_size + sum(each.size for each in snapshots)
    start: int | None = None
    for oldest, following in pairwise(snapshots):
        is_too_big = 0 <= max_bytes < total
        is_too_old = 0 <= max_ms < newest_ms - oldest.mtime_ms
        if not (is_too_big or is_too_old):
            break
        total -= oldest.size
        start = following.snapshot_id.offset
    return start


def is_replaced_by(log_end: OffsetAndEpoch, snapshot_id: OffsetAndEpoch) -> bool:
    """Whether a log that ends there is not what leads to the snapshot's end: it is shorter, or all of it is of earlier epochs (KIP-630).

    A crash can leave it so, after a fetched snapshot got its name and before the log began anew.
    """
    return snapshot_id.epoch > log_end.epoch or snapshot_id.offset > log_end.offset


def finish_download(snapshots: SnapshotsPort, snapshot_id: OffsetAndEpoch) -> bool:
    """Check a fetched snapshot, and if it is sound make it whole and durable (B-S06); False: it is not, and it was dropped.

    For a thread. It checks each batch's CRC and order, the header and the footer, without reading records. Raises StorageFault.
    """
    if not _is_sound_part(snapshots, snapshot_id):
        snapshots.drop_part(snapshot_id)
        return False
    snapshots.finish_part(snapshot_id)
    return True


def _is_sound_part(snapshots: SnapshotsPort, snapshot_id: OffsetAndEpoch) -> bool:
    size, position, chunk_bytes = snapshots.part_size(snapshot_id), 0, MAX_BYTES_A_BATCH
    kinds: list[ControlType | None] = []
    while position < size:
        data = snapshots.read_part(snapshot_id, position, chunk_bytes)
        taken = 0
        try:
            for at, header in checked_batches(data):
                taken = at + header.size
                if header.is_control:
                    kinds += [control_type(row.key) for row in islice(iter_records(data, at), MAX_RECORDS_A_BATCH)]
                elif not kinds or ControlType.SNAPSHOT_FOOTER in kinds:
                    return False
        except PeerError:
            return False
        if taken == 0:
            if position + chunk_bytes >= size:
                return False
            chunk_bytes *= 2
        position += taken
    return len(kinds) > 1 and kinds[0] is ControlType.SNAPSHOT_HEADER and kinds[-1] is ControlType.SNAPSHOT_FOOTER
