"""The life of each change of a replica's state: requested, received, completed or failed.

*Requested* when the active controller has committed it, *received* when a broker that hosts the partition hears of it, *completed* when that
broker's log, leader or fetcher is in place, *failed* when it cannot be, with the cause. `StateChanges` observes: it decides nothing, and a
node has one only where metrics or a file of state changes are wanted. S3-08..S3-10, S3-37, S3-42, S3-43, B-M08, B-T13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from headrace.core.histogram import Histogram
from headrace.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.broker.partitions import HostedPartition
    from headrace.core.ids import Uuid
    from headrace.metadata.delta import LocalChanges, LocalPartition, MetadataDelta, PartitionDelta
    from headrace.metadata.image import PartitionRegistration

Phase = Literal["requested", "received", "completed", "failed"]
Action = Literal["start-replica", "close-replica", "become-leader", "become-follower"]
PHASES: Final[tuple[Phase, ...]] = ("requested", "received", "completed", "failed")
ACTIONS: Final[tuple[Action, ...]] = ("start-replica", "close-replica", "become-leader", "become-follower")
NOBODY: Final = -1


class StateChange(NamedTuple):
    """One phase of one change. `target` is the broker whose replica changes, `source` its counterpart: the leader that it follows or replaces, or -1.

    `metadata_offset` is how far the node had read the metadata log. `partition_epoch` names the decision: it is the same in all phases.
    """

    ts: int
    phase: Phase
    role: str
    node: int
    action: Action
    topic: str
    topic_id: Uuid
    partition: int
    target: int
    source: int
    leader_epoch: int
    partition_epoch: int
    metadata_offset: int
    cause: str = ""


class _Pending(NamedTuple):
    """What was received and is not done."""

    change: StateChange
    received_ms: int
    is_failed: bool


class StateChanges:
    """Counts, times and lines of one node. Driven by `node.machine` (controller) and the partition publisher (broker)."""

    def __init__(self, node_id: int, *, now_ms: Callable[[], int], wall_ms: Callable[[], int]) -> None:
        self._node_id = node_id
        self._now_ms = now_ms
        self._wall_ms = wall_ms
        self._pending: dict[tuple[Uuid, int], _Pending] = {}
        self.on_change: Callable[[StateChange], None] | None = None
        """Told each phase, where lines are wanted."""
        self.counts: dict[tuple[Phase, Action], int] = {(phase, action): 0 for phase in PHASES for action in ACTIONS}
        self.requested_to_received = Histogram()
        """From the time that the controller gave the records to the broker's looking at them, by the two nodes' clocks."""
        self.received_to_completed = Histogram()

    @property
    def pending(self) -> int:
        """Changes that were received and are not completed."""
        return len(self._pending)

    @property
    def pending_deletes(self) -> int:
        """Replicas that are to go and are not gone."""
        return sum(each.change.action == "close-replica" for each in self._pending.values())

    # --- the controller ---

    def requested(self, delta: MetadataDelta) -> None:
        """The active controller committed this. Cost: the replicas that change."""
        if delta.from_snapshot:
            return
        offset, ts = delta.image.provenance.last_contained_offset, self._wall_ms()
        for topic_id, topic in delta.deleted_topics.items():
            for partition, was in topic.partitions.items():
                for target in was.replicas:
                    self._note(_change("requested", ts, self._node_id, "close-replica", (topic.name, topic_id, partition), was, target, NOBODY, offset))  # fmt: skip
        for topic_id, change in delta.changed_topics.items():
            for partition, each in change.partitions.items():
                place = (change.after.name, topic_id, partition)
                for target, action in _requested(each):
                    source = _counterpart(each, target, action)
                    self._note(
                        _change("requested", ts, self._node_id, action, place, each.after, target, source, offset)
                    )

    # --- the broker ---

    def received(self, changes: LocalChanges, delta: MetadataDelta) -> None:
        """This broker heard of changes of its replicas. What changes no role, another ISR say, is none (S3-42)."""
        ts, now_ms = self._wall_ms(), self._now_ms()
        offset = delta.image.provenance.last_contained_offset
        waited_ms = max(0, ts - delta.image.provenance.last_contained_log_time_ms)
        for local in changes.removed:
            self._receive(local, "close-replica", ts, now_ms, offset)
            self.requested_to_received.add(waited_ms)
        for local in (*changes.leaders, *changes.followers):
            action = action_of(local.delta, self._node_id)
            if action is not None:
                self._receive(local, action, ts, now_ms, offset)
                self.requested_to_received.add(waited_ms)

    def ended(self, change: LocalPartition, hosted: HostedPartition | None) -> None:
        """A role was taken, or not: the replica is as `hosted` says."""
        key = (change.topic_id, change.partition)
        pending = self._pending.get(key)
        if pending is None or pending.change.partition_epoch > change.delta.after.partition_epoch:
            return
        if pending.change.action == "close-replica":
            self._finish(key, pending)
            return
        if hosted is None or hosted.log is None:
            if not pending.is_failed:
                self._pending[key] = pending._replace(is_failed=True)
                why = "there is no log: its directory is offline, or has no room"
                self._note(pending.change._replace(ts=self._wall_ms(), phase="failed", cause=why))
        elif hosted.leader is not None or pending.change.role != "leader":
            self._finish(key, pending)

    def _receive(self, local: LocalPartition, action: Action, ts: int, now_ms: int, offset: int) -> None:
        key = (local.topic_id, local.partition)
        overtaken = self._pending.get(key)
        if overtaken is not None:
            self._note(overtaken.change._replace(ts=ts, phase="failed", cause="a later change came before it was done"))
        place = (local.topic, local.topic_id, local.partition)
        source = _counterpart(local.delta, self._node_id, action)
        change = _change("received", ts, self._node_id, action, place, local.delta.after, self._node_id, source, offset)
        self._pending[key] = _Pending(change, now_ms, is_failed=False)
        self._note(change)

    def _finish(self, key: tuple[Uuid, int], pending: _Pending) -> None:
        del self._pending[key]
        self.received_to_completed.add(max(0, self._now_ms() - pending.received_ms))
        self._note(pending.change._replace(ts=self._wall_ms(), phase="completed"))

    def _note(self, change: StateChange) -> None:
        self.counts[change.phase, change.action] += 1
        if self.on_change is not None:
            self.on_change(change)


def action_of(delta: PartitionDelta, broker_id: int) -> Action | None:
    """What the change means for a broker that has a replica afterwards; None for no change of its role."""
    before, after = delta
    if before is None or broker_id not in before.replicas:
        return "start-replica"
    if before.leader_epoch == after.leader_epoch:
        return None
    return "become-leader" if after.leader == broker_id else "become-follower"


def _requested(delta: PartitionDelta) -> Iterator[tuple[int, Action]]:
    before, after = delta
    for target in after.replicas:
        action = action_of(delta, target)
        if action is not None:
            yield target, action
    for target in () if before is None else before.replicas:
        if target not in after.replicas:
            yield target, "close-replica"


def _counterpart(delta: PartitionDelta, target: int, action: Action) -> int:
    if action == "close-replica":
        return NOBODY
    if delta.after.leader != target:
        return delta.after.leader
    return NO_LEADER if delta.before is None else delta.before.leader


def _change(  # noqa: PLR0913 - a line of the file has so many facts
    phase: Phase,
    ts: int,
    node: int,
    action: Action,
    place: tuple[str, Uuid, int],
    after: PartitionRegistration,
    target: int,
    source: int,
    offset: int,
) -> StateChange:
    role = "" if action == "close-replica" else "leader" if after.leader == target else "follower"
    return StateChange(
        ts=ts,
        phase=phase,
        role="controller" if phase == "requested" else role,
        node=node,
        action=action,
        topic=place[0],
        topic_id=place[1],
        partition=place[2],
        target=target,
        source=source,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        metadata_offset=offset,
    )
