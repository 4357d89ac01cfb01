"""How is a whole node put together, over any disk, clock and chance, and which work do its effects give the disk?

The driver for processes (`server.node_server`) and the simulation use the very same code:

    disk = NodeDisk(config, files=files, clock=clock); disk.open()
    node = compose_node(config, disk=disk, bound=listeners, clock=disk.clock, rng=rng, do=do)
    node.machine.start()

`do` is given each effect in order. For those that are work for the disk, `ComposedNode.job` says what must be done in a thread and what
afterwards; jobs of one lane are done one at a time, in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from headrace.broker.log_syncs import LogSync
from headrace.broker.walks import WalkJob
from headrace.core.ids import random_uuid
from headrace.node.directories import refuse_unsupported_features
from headrace.node.jobs import DiskJob, Lane, LogWork
from headrace.node.lifecycle import BrokerIdentity, RecoverLogs
from headrace.node.machine import NodeEffect, NodeMachine
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
    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import Listener
    from headrace.core.ports import Rng
    from headrace.node.controller_side import ControllerSide
    from headrace.node.disk import NodeDisk
    from headrace.wire.messages.describe_quorum import NodeView


DiskEffect = StoreQuorumState | FlushLog | FinishSnapshot | WriteSnapshot | RecoverLogs | LogSync | LogWork | WalkJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposedNode:
    """A node's machine, its directories, and what the handlers of its controller listeners are given."""

    machine: NodeMachine
    disk: NodeDisk
    side: ControllerSide

    def job(self, effect: DiskEffect) -> DiskJob:
        """What the disk must do for an effect. Raises StorageFault (a sync failed before), OperatorError (RecoverLogs: the cluster needs more than this node can do)."""
        machine, now = self.machine, self.disk.clock.now_ms
        match effect:
            case StoreQuorumState():
                return DiskJob(
                    lane=Lane.QUORUM_STATE,
                    run=self.disk.quorum_state_job(effect),
                    finish=lambda: machine.step(QuorumStateStored(state=effect.state, now_ms=now())),
                )
            case FlushLog():
                return self._flush()
            case WriteSnapshot():
                name = effect.job.snapshot_id
                return DiskJob(
                    lane=Lane.SNAPSHOT,
                    run=self.disk.snapshot_job(effect.job),
                    finish=lambda: machine.step(
                        SnapshotCreated(end_offset=name.offset, epoch=name.epoch, now_ms=now())
                    ),
                    failed=self.disk.plane.snapshot_failed,
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
            case WalkJob():
                return DiskJob(
                    lane=Lane.LARGE_WALK if effect.is_large else Lane.WALK,
                    run=lambda: effect.run(self.disk.pace),
                    finish=effect.finish,
                )
            case _:
                assert_never(effect)

    def _flush(self) -> DiskJob:
        flush = self.disk.metadata_flush()

        def finish() -> None:
            flush.finish()
            self.machine.step(LogFlushed(upto=flush.upto, now_ms=self.disk.clock.now_ms()))

        return DiskJob(lane=Lane.METADATA_LOG, run=flush.run, finish=finish, is_sync=True)

    def _finish_snapshot(self, effect: FinishSnapshot) -> DiskJob:
        job = self.disk.download_job(effect.snapshot_id)

        def finish() -> None:
            stored = SnapshotStored(
                snapshot_id=effect.snapshot_id, is_sound=job.is_sound, now_ms=self.disk.clock.now_ms()
            )
            self.machine.step(stored)

        return DiskJob(lane=Lane.SNAPSHOT, run=job.run, finish=finish)


def compose_node(
    config: NodeConfig,
    *,
    disk: NodeDisk,
    bound: tuple[Listener, ...],
    rng: Rng,
    do: Callable[[NodeEffect], None],
    metadata_rng: Rng | None = None,
) -> ComposedNode:
    """A node on its opened disk, not started. `bound` are its listeners with the ports they really have.

    `metadata_rng` gives the metadata side a stream of chance of its own, so that a journal of it can be replayed.

    Raises OperatorError and StorageFault for what the disk holds.
    """
    plane = disk.open_metadata(bound, metadata_rng or rng)
    machine = NodeMachine(config=config, plane=plane, clock=disk.clock, rng=rng, do=do)
    if config.is_broker:
        identity = BrokerIdentity(
            cluster_id=disk.cluster_id,
            incarnation_id=random_uuid(rng),
            listeners=advertised(config, bound, disk.host_name),
            directory_ids=disk.directory_ids,
            previous_broker_epoch=disk.previous_broker_epoch,
        )
        machine.add_broker(identity=identity, logs=disk.logs)
    if config.is_controller:
        machine.add_registrar(incarnation_id=random_uuid(rng), end_points=disk.controller_end_points(bound))
    started_ms = disk.clock.now_ms()

    def view() -> NodeView:
        from headrace.node.self_view import SelfView  # a hundredth of the start-up time, and rarely asked for

        return SelfView(
            config=config,
            cluster_id=disk.cluster_id,
            raft=plane.raft,
            log=disk.metadata_log,
            witness=plane.witness,
            clock=disk.clock,
            bound=bound,
            disk_space=disk.metadata_space,
            started_ms=started_ms,
            progress=machine.metadata_progress,
        ).view()

    side = machine.controller_side(cluster_id=disk.cluster_id, bound=bound, view=view)
    return ComposedNode(machine=machine, disk=disk, side=side)


def advertised(config: NodeConfig, bound: tuple[Listener, ...], host_name: str) -> tuple[Listener, ...]:
    """The advertised broker listeners, with bound ports for 0 and this machine's name for an empty host."""
    ports = {one.name: one.port for one in bound}
    wanted = config.advertised_listeners or config.broker_listeners
    return tuple(
        one._replace(port=one.port or ports.get(one.name, 0), host=one.host or host_name)
        for one in wanted
        if one.name not in config.controller_listener_names
    )
