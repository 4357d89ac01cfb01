"""Snapshots that are what they say, whole, on disk, and what they replace is gone only then.  R15"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.errors import StorageFault
from headrace.metadata.image import MetadataProvenance
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.raft.snapshots import read_snapshot
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.images import images_differ
from headrace.sim.observation import LogReset, LogStartMoved, SnapshotAppeared, SnapshotRemoved, StepKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.offsets import OffsetAndEpoch
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler


class Snapshots(Group):
    """Name, content, durability and the log below."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._sound: set[tuple[OffsetAndEpoch, bytes]] = set()
        """Names and files that were compared with what is committed, which never changes: a process that starts finds them again."""
        self._meant: set[tuple[OffsetAndEpoch, int, tuple[bytes, ...]]] = set()
        """Names and what such files said, their log's time and their records: those of other nodes, written at another time, say the same."""

    def after_changes(self) -> Mapping[type, Handler]:
        """Snapshots that come and go, and the log's start."""
        return {
            SnapshotAppeared: self._appeared,
            SnapshotRemoved: self._removed,
            LogStartMoved: self._start_is_covered,
            LogReset: self._reset,
        }

    def began(self, life: Life) -> None:
        """What is found on a disk is covered too."""
        self._start_is_covered(life, None)

    def _removed(self, life: Life, change: SnapshotRemoved) -> None:
        self._start_is_covered(life, change)
        self.hit("snapshot removed")

    def _appeared(self, life: Life, change: SnapshotAppeared) -> None:
        snapshot_id = change.snapshot_id
        if snapshot_id.offset == 0 or life.disk.is_lost:  # rot may have hit it
            return
        if not change.is_durable:
            raise self.broken("R15", f"node {life.node_id} shows the snapshot {snapshot_id} before it is on disk", life)
        self._check_name(life, snapshot_id)
        self._check_content(life, snapshot_id, change.data)

    def _check_name(self, life: Life, snapshot_id: OffsetAndEpoch) -> None:
        prefix = self.ghost.committed
        if snapshot_id.offset > prefix.end:
            raise self.broken(
                "R15",
                f"node {life.node_id} has a snapshot that ends at {snapshot_id.offset}, committed is {prefix.end}",
                life,
            )
        epoch = prefix.log.epoch_below(snapshot_id.offset)
        if epoch != snapshot_id.epoch:
            raise self.broken(
                "R15", f"node {life.node_id} names a snapshot {snapshot_id}, the record below has epoch {epoch}", life
            )

    def _check_content(self, life: Life, snapshot_id: OffsetAndEpoch, data: bytes) -> None:
        if (snapshot_id, data) in self._sound:
            return
        truth = self.ghost.committed.image_at(snapshot_id.offset)
        if truth is None:
            raise self.broken(
                "R15", f"node {life.node_id} ends a snapshot inside a batch, at {snapshot_id.offset}", life
            )
        try:
            snapshot = read_snapshot(data, name=str(snapshot_id))
            meant = (snapshot_id, snapshot.last_contained_log_timestamp, snapshot.records)
            if meant in self._meant:
                self._sound.add((snapshot_id, data))
                return
            loader = MetadataLoader()
            provenance = MetadataProvenance(
                last_contained_offset=snapshot_id.offset - 1,
                last_contained_epoch=snapshot_id.epoch,
                last_contained_log_time_ms=snapshot.last_contained_log_timestamp,
            )
            loader.load_snapshot(snapshot.records, provenance)
        except (StorageFault, MetadataFault) as fault:
            raise self.broken(
                "R15", f"the snapshot {snapshot_id} of node {life.node_id} is broken: {fault}", life
            ) from fault
        if loader.image.provenance != truth.provenance or images_differ(loader.image, truth):
            raise self.broken(
                "R15", f"the snapshot {snapshot_id} of node {life.node_id} is not what the log says up to there", life
            )
        self._sound.add((snapshot_id, data))
        self._meant.add(meant)

    def _reset(self, life: Life, change: LogReset) -> None:
        if self.scene.step.kind is StepKind.EVENT:
            self._start_is_covered(life, change)

    def _start_is_covered(self, life: Life, change: object) -> None:
        disk = life.disk
        if disk.is_lost:
            return
        if self.scene.step.kind is StepKind.STARTED and change is not None:
            return
        if disk.log.start > 0 and disk.log.start not in disk.snapshots:
            raise self.broken(
                "R15", f"the log of node {life.node_id} begins at {disk.log.start}, and no snapshot ends there", life
            )
