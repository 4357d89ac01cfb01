"""A metadata log and its snapshots in memory: the ports that raft leans on, with real batches and no files."""

from __future__ import annotations

from typing import cast

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import Appended, AppendRefused, Origin, OutOfRange, PartitionLogPort
from headrace.raft.replication import SnapshotsPort
from headrace.records.batch import batch_is_sound, iter_batches


class MemoryLog:
    """Batches in a list. What was appended and not flushed is lost by `crash`."""

    directory = "/memory"

    def __init__(self) -> None:
        self.batches: list[tuple[int, int, int, bytes]] = []  # base offset, next offset, epoch, bytes
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.high_watermark = 0
        self.durable_end_offset = 0

    def as_port(self) -> PartitionLogPort:
        """Itself, as the port that the code under test takes."""
        return cast("PartitionLogPort", self)

    def crash(self) -> MemoryLog:
        """The log as it is found after a power cut: only what was flushed."""
        found = MemoryLog()
        found.batches = [each for each in self.batches if each[1] <= self.durable_end_offset]
        found.log_start_offset = found.high_watermark = self.log_start_offset
        found.log_end_offset = found.durable_end_offset = self.durable_end_offset
        return found

    @property
    def latest_epoch(self) -> int | None:
        """As the port's."""
        return self.batches[-1][2] if self.batches else None

    @property
    def segment_count(self) -> int:
        """As the port's."""
        return 1

    @property
    def size_bytes(self) -> int:
        """As the port's."""
        return sum(len(data) for _, _, _, data in self.batches)

    def append_as_leader(
        self, batches: memoryview, *, leader_epoch: int, now_ms: int, origin: Origin = Origin.CLIENT
    ) -> Appended:
        """As the port's, for batches whose offsets are set."""
        assert origin is Origin.RAFT_LEADER
        first = self.log_end_offset
        for position, header in iter_batches(batches):
            assert header.base_offset == self.log_end_offset
            assert header.leader_epoch == leader_epoch
            data = bytes(batches[position : position + header.size])
            self.batches.append((header.base_offset, header.next_offset, header.leader_epoch, data))
            self.log_end_offset = header.next_offset
        return Appended(first, self.log_end_offset - 1, -1, self.log_start_offset, len(batches))

    def append_as_follower(self, batches: memoryview, *, leader_epoch: int, now_ms: int) -> Appended | AppendRefused:
        """As the port's."""
        first = self.log_end_offset
        for position, header in iter_batches(batches):
            is_fitting = header.base_offset == self.log_end_offset and header.leader_epoch <= leader_epoch
            if not is_fitting or not batch_is_sound(batches, header, position):
                if self.log_end_offset == first:
                    return AppendRefused(error=ErrorCode.CORRUPT_MESSAGE, message="the batch does not fit")
                break
            data = bytes(batches[position : position + header.size])
            self.batches.append((header.base_offset, header.next_offset, header.leader_epoch, data))
            self.log_end_offset = header.next_offset
        return Appended(first, self.log_end_offset - 1, -1, self.log_start_offset, len(batches))

    def truncate_to(self, offset: int) -> bool:
        """As the port's."""
        before = self.log_end_offset
        self.batches = [each for each in self.batches if each[1] <= offset]
        self.log_end_offset = self.batches[-1][1] if self.batches else self.log_start_offset
        self.durable_end_offset = min(self.durable_end_offset, self.log_end_offset)
        return self.log_end_offset < before

    def set_high_watermark(self, to: int) -> int:
        """As the port's."""
        self.high_watermark = max(self.log_start_offset, min(to, self.log_end_offset))
        return self.high_watermark

    def flush(self) -> int:
        """Make everything durable; what a driver's flush job does."""
        self.durable_end_offset = self.log_end_offset
        return self.log_end_offset

    def read_bytes(self, offset: int, max_bytes: int, *, upper_offset: int, min_one_batch: bool) -> bytes | OutOfRange:
        """As the port's."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            return OutOfRange(log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)
        found = b""
        for _, end, _, data in self.batches:
            if end <= offset or end > upper_offset:
                continue
            if len(found) + len(data) > max_bytes and (found or not min_one_batch):
                break
            found += data
        return found

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch | None:
        """As the port's."""
        known = [each for each in self.batches if each[2] <= epoch]
        return OffsetAndEpoch(known[-1][1], known[-1][2]) if known else None

    def advance_high_watermark(self, to: int) -> int:
        """As the port's."""
        self.high_watermark = max(self.high_watermark, min(to, self.log_end_offset))
        return self.high_watermark

    def truncate_fully_and_start_at(self, offset: int, *, log_start_offset: int | None = None) -> None:
        """As the port's."""
        self.batches.clear()
        self.log_start_offset = self.log_end_offset = self.high_watermark = self.durable_end_offset = offset

    def delete_segments_below(self, offset: int) -> int:
        """As the port's, a segment a batch."""
        kept = [each for each in self.batches if each[1] > offset]
        removed = len(self.batches) - len(kept)
        self.batches = kept
        self.log_start_offset = max(self.log_start_offset, offset)
        return removed


class MemorySnapshots:
    """Snapshots by id."""

    def __init__(self) -> None:
        self.files: dict[OffsetAndEpoch, tuple[bytes, int]] = {}
        self.parts: dict[OffsetAndEpoch, bytearray] = {}

    def as_port(self) -> SnapshotsPort:
        """Itself, as the port that the code under test takes."""
        return self

    def put(self, snapshot_id: OffsetAndEpoch, data: bytes, *, mtime_ms: int = 0) -> None:
        """A whole snapshot appears."""
        self.files[snapshot_id] = (data, mtime_ms)

    def ids(self) -> list[OffsetAndEpoch]:
        """As the port's."""
        return sorted(self.files)

    def latest(self) -> OffsetAndEpoch | None:
        """As the port's."""
        return self.ids()[-1] if self.files else None

    def size(self, snapshot_id: OffsetAndEpoch, /) -> int | None:
        """As the port's."""
        found = self.files.get(snapshot_id)
        return None if found is None else len(found[0])

    def mtime_ms(self, snapshot_id: OffsetAndEpoch, /) -> int | None:
        """As the port's."""
        found = self.files.get(snapshot_id)
        return None if found is None else found[1]

    def read(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, /) -> bytes | None:
        """As the port's."""
        found = self.files.get(snapshot_id)
        if found is None:
            return None
        if found[0] == b"fault":
            raise StorageFault("the disk failed", directory="")
        return found[0][position : position + max_bytes]

    def delete_below(self, end_offset: int, /) -> int:
        """As the port's."""
        going = [each for each in self.ids()[:-1] if each.offset < end_offset]
        for each in going:
            del self.files[each]
        return len(going)

    def part_size(self, snapshot_id: OffsetAndEpoch, /) -> int:
        """As the port's."""
        return len(self.parts.get(snapshot_id, b""))

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: bytes, /) -> None:
        """As the port's."""
        part = self.parts.setdefault(snapshot_id, bytearray())
        del part[position:]
        part += data

    def read_part(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int, /) -> bytes:
        """As the port's."""
        return bytes(self.parts[snapshot_id][position : position + max_bytes])

    def finish_part(self, snapshot_id: OffsetAndEpoch, /) -> None:
        """As the port's."""
        self.put(snapshot_id, bytes(self.parts.pop(snapshot_id)))

    def drop_part(self, snapshot_id: OffsetAndEpoch, /) -> None:
        """As the port's."""
        self.parts.pop(snapshot_id, None)
