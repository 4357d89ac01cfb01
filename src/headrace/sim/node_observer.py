"""What an onlooker notes of a node's machines, of its metadata log and of its snapshots, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.core.offsets import OffsetAndEpoch
from headrace.raft import events as raft_events
from headrace.raft.quorum_state import decode_quorum_state
from headrace.sim.observation import (
    BatchApplied,
    DeltaPublished,
    HighWatermarkMoved,
    LeadershipGone,
    LeadershipTaken,
    LogDurable,
    MachineStep,
    QuorumStateDurable,
    SnapshotAppeared,
    SnapshotApplied,
    SnapshotRemoved,
    Step,
)
from headrace.sim.observed_log import ObservedLog
from headrace.storage.snapshot_files import METADATA_PARTITION_DIRECTORY, QUORUM_STATE_FILE_NAME, parse_snapshot_name

if TYPE_CHECKING:
    from headrace.node.machine import NodeMachine
    from headrace.node.metadata_plane import MetadataPlane
    from headrace.sim.faulty_disk import SimDisk

DATA: Final = "/data"
METADATA_DIRECTORY: Final = f"{DATA}/{METADATA_PARTITION_DIRECTORY}"


def note_found(step: Step, disk: SimDisk, log: ObservedLog) -> raft_events.QuorumState | None:
    """What a start found on the disk, as changes; the election state that is durable there."""
    changes = step.changes
    failing, disk.fail_reads = disk.fail_reads, 0  # an onlooker sees what is there
    log.observe(changes)
    disk.fail_reads = failing
    changes.append(LogDurable(log.durable_end_offset))
    for name in disk.listdir(METADATA_DIRECTORY):
        note_snapshot(step, disk, name)
    stored = disk.durable_bytes(f"{METADATA_DIRECTORY}/{QUORUM_STATE_FILE_NAME}")
    if not stored:
        return None
    state = decode_quorum_state(stored, path="quorum-state")
    changes.append(QuorumStateDurable(state))
    return state


def note_snapshot(step: Step, disk: SimDisk, name: str) -> None:
    """A whole snapshot is there under its name."""
    parsed = parse_snapshot_name(name)
    if parsed is None or parsed[1]:
        return
    path = f"{METADATA_DIRECTORY}/{name}"
    step.changes.append(SnapshotAppeared(parsed[0], disk.is_durable(path), disk.read_file(path) or b""))


class SnapshotNames:
    """Snapshots that get their names, and lose them, on a disk: told once the names are durable, as far as the process can know."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk
        self._renamed: list[str] = []

    def changed(self, step: Step, kind: str, name: str, target: str) -> None:
        """A rename or a removal of a file."""
        if kind == "rename" and target.endswith(".checkpoint"):
            self._renamed.append(target)
        elif name.endswith(".checkpoint"):
            parsed = parse_snapshot_name(name)
            if parsed is not None:
                step.changes.append(SnapshotRemoved(parsed[0]))

    def named(self, step: Step) -> None:
        """The work that gave names is done."""
        for name in self._renamed:
            note_snapshot(step, self._disk, name)
        self._renamed.clear()

    def forget(self) -> None:
        """Another process begins."""
        self._renamed.clear()


def observe_node(
    step: Step, node: NodeMachine, plane: MetadataPlane, *, on_leadership_lost: Callable[[], None]
) -> None:
    """Note every step of the plane's machines, every batch and snapshot that is applied, and every delta that is published."""
    loader = plane.loader
    load_batches, load_snapshot = loader.load_batches, loader.load_snapshot

    def batches_loaded(batches: Any, decided: Any = ()) -> Any:
        for each in batches:
            step.changes.append(BatchApplied(each.base_offset, each.last_offset + 1, each.epoch, each.records))
        return load_batches(batches, decided)

    def snapshot_loaded(records: Any, provenance: Any) -> Any:
        end = OffsetAndEpoch(provenance.last_contained_offset + 1, provenance.last_contained_epoch)
        step.changes.append(SnapshotApplied(end))
        return load_snapshot(records, provenance)

    def machine_stepped(machine: str, event: object, effects: Any) -> None:
        step.machines.append(MachineStep(machine, event, effects))
        if machine == "raft":
            for effect in effects:
                kind = type(effect)
                if kind is raft_events.HighWatermarkAdvanced:
                    step.changes.append(HighWatermarkMoved(effect.to))
                elif kind is raft_events.LeadershipClaimed:
                    step.changes.append(LeadershipTaken(effect.epoch, effect.next_offset))
                elif kind is raft_events.LeadershipLost:
                    on_leadership_lost()
                    step.changes.append(LeadershipGone(effect.epoch))

    node.on_metadata = lambda delta: step.changes.append(DeltaPublished(delta))
    loader.load_batches = batches_loaded  # type: ignore[method-assign]
    loader.load_snapshot = snapshot_loaded  # type: ignore[method-assign]
    plane.on_machine_step = machine_stepped
