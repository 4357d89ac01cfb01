"""The order in which the ghost and the groups hear of a step.

a step        role -> changes in order (each: before, ghost, after) -> high watermark -> machines' events -> what was committed
a start       changes first: they tell what is on the disk
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from headrace.raft.roles import Leader
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import (
    BatchApplied,
    Crash,
    LeadershipGone,
    LeadershipTaken,
    LogAppended,
    LogDurable,
    LogReset,
    LogStartMoved,
    LogTruncated,
    MachineStep,
    QuorumStateDurable,
    SnapshotAppeared,
    SnapshotApplied,
    SnapshotRemoved,
    Step,
    StepKind,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.markers import Markers
    from headrace.sim.observation import ClusterView


class Watcher:
    """The ghost and all groups as one checker."""

    def __init__(self, groups: Sequence[Callable[[Scene], Group]]) -> None:
        self.scene = Scene()
        self.ghost = self.scene.ghost
        self.groups = [make(self.scene) for make in groups]
        before: defaultdict[type, list[Handler]] = defaultdict(list)
        after: defaultdict[type, list[Handler]] = defaultdict(list)
        self._machine: defaultdict[type, list[Handler]] = defaultdict(list)
        self._effect: defaultdict[type, list[Handler]] = defaultdict(list)
        for group in self.groups:
            for table, wanted in (
                (before, group.before_changes()),
                (after, group.after_changes()),
                (self._machine, group.machine_events()),
                (self._effect, group.machine_effects()),
            ):
                for kind, handler in wanted.items():
                    table[kind].append(handler)
        self._role = _overriding(self.groups, "role_changed")
        self._high_watermark = _overriding(self.groups, "high_watermark_changed")
        self._committed = _overriding(self.groups, "committed")
        self._called = _overriding(self.groups, "called")
        take: dict[type, Handler] = {
            LogReset: self._log_reset,
            LogAppended: self._log_appended,
            LogTruncated: self._log_truncated,
            LogStartMoved: self._log_start_moved,
            LogDurable: self._log_durable,
            QuorumStateDurable: self._state_durable,
            SnapshotAppeared: self._snapshot_appeared,
            SnapshotRemoved: self._snapshot_removed,
            BatchApplied: self._batch_applied,
            SnapshotApplied: self._snapshot_applied,
            LeadershipTaken: self._leadership_taken,
            LeadershipGone: self._leadership_gone,
        }
        self._heard: dict[type, tuple[Handler, ...]] = {
            kind: (*before.get(kind, ()), *((take[kind],) if kind in take else ()), *after.get(kind, ()))
            for kind in {**before, **take, **after}
        }
        """Who hears of a change: those that compare, the ghost, those that judge."""

    # --- the checker's face ---

    def begin(self, cluster: ClusterView, markers: Markers) -> None:
        """Before the first step."""
        self.scene.cluster = cluster
        self.scene.markers = markers

    def on_step(self, step: Step) -> None:
        """After every step. Raises InvariantBroken."""
        self.scene.step = step
        self.ghost.number = step.number
        kind = step.kind
        if kind is StepKind.EVENT:
            life = self.ghost.lives[step.node.node_id]
            raft = step.node.raft
            life.role_before = life.role
            if raft is not None and raft.role is not life.role:
                self._role_changed(life, raft.role)
            if step.changes:
                self._changes(life, step.changes)
            if raft is not None and raft.high_watermark != life.high_watermark:
                self._high_watermark_changed(life, raft.high_watermark)
            if step.machines:
                self._machine_steps(life, step.machines)
        elif kind is StepKind.CALL:
            for handler in self._called:
                handler(step.event)
        elif kind is not StepKind.FAULT:
            self._life_step(step)
        if self.ghost.newly:
            self._tell_committed()

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every 1,000 steps and at the end."""
        for group in self.groups:
            group.now_and_then(cluster)

    def settled(self, cluster: ClusterView) -> None:
        """After healing, while partitions are still led."""
        for group in self.groups:
            group.settled(cluster)

    def at_end(self, cluster: ClusterView) -> None:
        """After healing."""
        for group in self.groups:
            group.at_end(cluster)

    def over(self, cluster: ClusterView) -> None:
        """The last look."""
        for group in self.groups:
            group.over(cluster)

    # --- steps ---

    def _started(self, step: Step) -> None:
        raft = step.node.raft
        if raft is None:  # the start was refused: nothing of the disk was looked at
            return
        life = self.ghost.start(step.node)
        self._changes(life, step.changes)
        self.ghost.found(life)
        if raft.high_watermark != life.high_watermark:
            self._high_watermark_changed(life, raft.high_watermark)
        self._role_changed(life, raft.role)
        for group in self.groups:
            group.began(life)
        self._machine_steps(life, step.machines)

    def _life_step(self, step: Step) -> None:
        if step.kind is StepKind.STARTED:
            self._started(step)
            return
        known = self.ghost.lives.get(step.node.node_id)
        if known is None:
            return
        if step.changes:
            self._changes(known, step.changes)
        if step.kind in (StepKind.CRASHED, StepKind.STOPPED):
            self.ghost.end_term(known.node_id)
            if isinstance(step.event, Crash) and (step.event.is_disk_lost or step.event.is_rotten):
                known.disk.is_lost = True
            for group in self.groups:
                group.ended(known, step.kind)

    def _machine_steps(self, life: Life, machines: Sequence[MachineStep]) -> None:
        for each in machines:
            handlers = self._machine.get(type(each.event))
            if handlers is not None:
                for handler in handlers:
                    handler(life, each)
            for effect in each.effects:
                handlers = self._effect.get(type(effect))
                if handlers is not None:
                    for handler in handlers:
                        handler(life, effect)

    def _role_changed(self, life: Life, after: Any) -> None:
        before = life.role
        for handler in self._role:
            handler(life, before, after)
        life.role = after
        life.epoch = after.epoch
        was_leader = isinstance(before, Leader)
        if isinstance(after, Leader):
            if not was_leader or before.epoch != after.epoch:  # type: ignore[union-attr]
                self.ghost.begin_term(life, after)
        elif was_leader:
            self.ghost.end_term(life.node_id)
        self.ghost.count(life)

    def _high_watermark_changed(self, life: Life, after: int) -> None:
        before = life.high_watermark
        life.high_watermark = after
        for handler in self._high_watermark:
            handler(life, before, after)

    def _changes(self, life: Life, changes: Sequence[object]) -> None:
        for change in changes:
            for handler in self._heard.get(type(change), ()):
                handler(life, change)

    def _tell_committed(self) -> None:
        newly, self.ghost.newly = self.ghost.newly, []
        for replayed in newly:
            for handler in self._committed:
                handler(replayed)

    # --- what the ghost takes in ---

    def _log_reset(self, life: Life, change: LogReset) -> None:
        raft = self.scene.step.node.raft
        assert raft is not None, "a log belongs to a running node"
        voters = raft.voters_at(0)
        self.ghost.committed.begin_with(voters)
        self.ghost.log_reset(life.disk, change.start, voters)

    def _log_appended(self, life: Life, change: LogAppended) -> None:
        self.ghost.log_appended(life.disk, change)
        if change.is_control:
            term = self.ghost.leads(life)
            if term is not None:
                self.ghost.advance(term)

    def _log_truncated(self, life: Life, change: LogTruncated) -> None:
        self.ghost.log_truncated(life.disk, change.to)

    def _log_start_moved(self, life: Life, change: LogStartMoved) -> None:
        self.ghost.log_start_moved(life.disk, change.to)

    def _log_durable(self, life: Life, change: LogDurable) -> None:
        life.disk.log.durable = max(life.disk.log.durable, change.upto)
        self.ghost.count(life)

    def _state_durable(self, life: Life, change: QuorumStateDurable) -> None:
        life.disk.stored = change.state
        life.disk.stored_epoch = max(life.disk.stored_epoch, change.state.leader_epoch)

    def _snapshot_appeared(self, life: Life, change: SnapshotAppeared) -> None:
        life.disk.snapshots[change.snapshot_id.offset] = change.snapshot_id.epoch

    def _snapshot_removed(self, life: Life, change: SnapshotRemoved) -> None:
        life.disk.snapshots.pop(change.snapshot_id.offset, None)

    def _batch_applied(self, life: Life, change: BatchApplied) -> None:
        life.applied = change.next_offset

    def _snapshot_applied(self, life: Life, change: SnapshotApplied) -> None:
        life.applied = change.snapshot_id.offset

    def _leadership_taken(self, life: Life, change: LeadershipTaken) -> None:
        life.controller_epoch = change.epoch

    def _leadership_gone(self, life: Life, change: LeadershipGone) -> None:
        life.controller_epoch = -1


def _overriding(groups: Sequence[Group], name: str) -> list[Callable[..., None]]:
    return [getattr(group, name) for group in groups if getattr(type(group), name) is not getattr(Group, name)]
