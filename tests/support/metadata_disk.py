"""What does the metadata log of a stopped node hold on disk, and is it the same on another node?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.image import MetadataImage, MetadataProvenance
from headrace.metadata.loader import MetadataLoader
from headrace.raft.snapshots import read_snapshot
from headrace.records.batch import iter_batches
from headrace.records.record import read_all_records
from headrace.sim.checkers.committed_log import CommittedBatch


@dataclass(frozen=True)
class MetadataDisk:
    """The metadata directory of one node: its newest snapshot, and the batches of its log by base offset."""

    directory: Path
    snapshots: dict[OffsetAndEpoch, Path]
    batches: dict[int, bytes]
    end_offset: int

    @property
    def start_offset(self) -> int:
        """The first offset of the log."""
        return min(self.batches, default=self.end_offset)

    @property
    def records(self) -> int:
        """How many records the log holds."""
        return self.end_offset - self.start_offset


def read_disk(directory: Path) -> MetadataDisk:
    """Read the partition directory of the metadata log. Raises AssertionError when the log has a hole."""
    snapshots = {}
    for path in sorted(directory.glob("*.checkpoint")):
        end_offset, epoch = path.stem.split("-")
        snapshots[OffsetAndEpoch(int(end_offset), int(epoch))] = path
    batches: dict[int, bytes] = {}
    end = -1
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in iter_batches(data):
            assert end in (-1, header.base_offset), f"{path}: {header.base_offset} follows {end}"
            batches[header.base_offset] = data[position : position + header.size]
            end = header.next_offset
    if end == -1:
        end = max((each.offset for each in snapshots), default=0)
    return MetadataDisk(directory, snapshots, batches, end)


def batches_in(data: bytes) -> Iterator[CommittedBatch]:
    """The batches of a log file, or of a part of one, as the loader takes them."""
    for header, records in read_all_records(data):
        yield CommittedBatch(
            header.base_offset,
            header.last_offset,
            header.leader_epoch,
            header.max_timestamp,
            () if header.is_control else tuple(record.value or b"" for record in records),
        )


def image_of(disk: MetadataDisk, upto: int) -> MetadataImage:
    """Newest snapshot and log, replayed below `upto`."""
    loader = MetadataLoader()
    start = 0
    usable = [each for each in disk.snapshots if 0 < each.offset <= upto]
    if usable:
        newest = max(usable)
        content = read_snapshot(disk.snapshots[newest].read_bytes(), name=str(disk.snapshots[newest]))
        provenance = MetadataProvenance(
            last_contained_offset=newest.offset - 1,
            last_contained_epoch=newest.epoch,
            last_contained_log_time_ms=content.last_contained_log_timestamp,
        )
        loader.load_snapshot(content.records, provenance)
        start = newest.offset
    batches = [each for base, data in sorted(disk.batches.items()) if start <= base < upto for each in batches_in(data)]
    loader.load_batches(batches)
    return loader.image


def assert_equal_bytes(disks: dict[int, MetadataDisk], upto: int) -> int:
    """Every batch below `upto` is the same bytes on every node that has it; the number of offsets that two or more have."""
    shared: set[int] = set()
    for node_id, disk in disks.items():
        for other_id, other in disks.items():
            if other_id <= node_id:
                continue
            start = max(disk.start_offset, other.start_offset)
            ours = {base: data for base, data in disk.batches.items() if start <= base < upto}
            theirs = {base: data for base, data in other.batches.items() if start <= base < upto}
            assert list(ours) == list(theirs), f"nodes {node_id} and {other_id} have other batches below {upto}"
            different = [base for base in ours if ours[base] != theirs[base]]
            assert not different, f"nodes {node_id} and {other_id} differ at {different[:5]}"
            shared.update(range(start, min(upto, disk.end_offset, other.end_offset)))
    return len(shared)
