"""The jobs that a node's effects give its disk: what runs in a thread, and which event follows.

Jobs of one lane are done one at a time, in order; `node.jobs` has the lanes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from headrace.broker.log_syncs import LogSync
from headrace.broker.replica_moves import CopyPiece
from headrace.broker.walks import WalkJob
from headrace.core.values import value_class
from headrace.node.directories import refuse_unsupported_features
from headrace.node.jobs import DiskJob, Lane, LogWork
from headrace.node.lifecycle import RecoverLogs
from headrace.node.metadata_plane import WriteSnapshot
from headrace.raft.events import (
    FinishSnapshot,
    FlushLog,
    LogFlushed,
    QuorumStateStored,
    SnapshotCreated,
    SnapshotStored,
    StoreQuorumState,
)

if TYPE_CHECKING:
    from headrace.broker.ports import Clock
    from headrace.node.disk import NodeDisk
    from headrace.node.machine import NodeMachine

DiskEffect = (
    StoreQuorumState | FlushLog | FinishSnapshot | WriteSnapshot | RecoverLogs | LogSync | LogWork | WalkJob | CopyPiece
)


@value_class
class DiskJobs:
    """Makes the job of each effect that is work for the disk. Used by the drivers."""

    machine: NodeMachine
    disk: NodeDisk
    clock: Clock

    def job(self, effect: DiskEffect) -> DiskJob:
        """What the disk must do for an effect. Raises StorageFault (a sync failed before), OperatorError (RecoverLogs: the cluster needs more than this node can do)."""
        machine, now = self.machine, self.clock.now_ms
        match effect:
            case StoreQuorumState():
                return DiskJob(
                    lane=Lane.QUORUM_STATE,
                    run=self.disk.metadata.store_quorum_state(effect),
                    finish=lambda: machine.step(QuorumStateStored(state=effect.state, now_ms=now())),
                )
            case FlushLog():
                return self._flush()
            case WriteSnapshot():
                name = effect.job.snapshot_id
                return DiskJob(
                    lane=Lane.SNAPSHOT,
                    run=self.disk.metadata.write_snapshot(effect.job),
                    finish=lambda: machine.step(
                        SnapshotCreated(end_offset=name.offset, epoch=name.epoch, now_ms=now())
                    ),
                    failed=machine.snapshot_failed,
                )
            case FinishSnapshot():
                return self._finish_snapshot(effect)
            case RecoverLogs():
                image = machine.image
                refuse_unsupported_features(dict(image.features.levels), "the cluster has")
                return DiskJob(lane=Lane.LOGS, run=lambda: self.disk.recover(image), finish=machine.recovered)
            case LogSync():
                return DiskJob(
                    lane=Lane.SYNC,
                    prepare=effect.prepare,
                    run=effect.run,
                    finish=effect.finish,
                    failed=effect.failed,
                    is_sync=True,
                )
            case LogWork():
                return effect.job
            case WalkJob() | CopyPiece():
                return self._reading(effect)
            case _:
                assert_never(effect)

    def _reading(self, effect: WalkJob | CopyPiece) -> DiskJob:
        if isinstance(effect, CopyPiece):
            return DiskJob(lane=Lane.MOVES, run=effect.run, finish=effect.finish, failed=effect.failed)
        lane = Lane.LARGE_WALK if effect.is_large else Lane.WALK
        return DiskJob(lane=lane, run=lambda: effect.run(self.disk.pace), finish=effect.finish)

    def _flush(self) -> DiskJob:
        flush = self.disk.metadata.flush()

        def finish() -> None:
            flush.finish()
            self.machine.step(LogFlushed(upto=flush.upto, now_ms=self.clock.now_ms()))

        return DiskJob(lane=Lane.METADATA_LOG, run=flush.run, finish=finish, is_sync=True)

    def _finish_snapshot(self, effect: FinishSnapshot) -> DiskJob:
        download = self.disk.metadata.finish_download(effect.snapshot_id)

        def finish() -> None:
            stored = SnapshotStored(
                snapshot_id=effect.snapshot_id, is_sound=download.is_sound, now_ms=self.clock.now_ms()
            )
            self.machine.step(stored)

        return DiskJob(lane=Lane.SNAPSHOT, run=download.run, finish=finish)
