"""Messages that are meant for somebody else, and change nothing.  R21"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.ids import ZERO_UUID
from headrace.raft.events import RaftRequestArrived
from headrace.raft.roles import Candidate, Prospective, Resigned
from headrace.sim.checkers.group import Group
from headrace.sim.checkers.messages import meant_for
from headrace.sim.observation import LogAppended, LogReset, LogTruncated, QuorumStateDurable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.raft.roles import Role
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import MachineStep

_CHANGES = (LogAppended, LogReset, LogTruncated, QuorumStateDurable)


class MisaddressedRequests(Group):
    """Requests with another cluster id, or to another node id or directory id than the receiver's."""

    def machine_events(self) -> Mapping[type, Handler]:
        """Every request of the quorum."""
        return {RaftRequestArrived: self._arrived}

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """A stranger may not change a role, an epoch or a vote; a time-out that was due when it came may."""
        received = self.scene.step.received
        if before is None or received is None or not received.is_request:
            return
        if after.epoch == before.epoch and isinstance(after, Prospective | Resigned):
            return
        if self._is_stranger(life, received.message) and _tells_something_new(life, before, after):
            raise self.broken(
                "R21",
                f"a {type(received.message).__name__} for somebody else changed the role of node {life.node_id}",
                life,
            )

    def _arrived(self, life: Life, step: MachineStep) -> None:
        event = step.event
        assert isinstance(event, RaftRequestArrived)
        if not self._is_stranger(life, event.request):
            return
        self.hit("message for somebody else")
        if any(isinstance(change, _CHANGES) for change in self.scene.step.changes):
            raise self.broken(
                "R21",
                f"a {type(event.request).__name__} for somebody else changed the disk of node {life.node_id}",
                life,
            )

    def _is_stranger(self, life: Life, message: object) -> bool:
        meant = meant_for(message)
        raft = self.scene.step.node.raft
        if meant is None or raft is None:
            return False
        if meant.cluster_id is not None and meant.cluster_id != raft.config.cluster_id:
            return True
        if meant.node_id not in (-1, life.node_id):
            return True
        return ZERO_UUID not in (meant.directory_id, life.disk.key[1]) and meant.directory_id != life.disk.key[1]


def _tells_something_new(life: Life, before: Role, after: Role) -> bool:
    """The new role knows an epoch, a leader or a vote that the node did not come to by itself: what is due by time may fall together."""
    if after.epoch > before.epoch:
        return not isinstance(after, Candidate)
    leader_id, voted_id = getattr(after, "leader_id", -1), getattr(after, "voted_id", -1)
    is_new_leader = leader_id >= 0 and leader_id != getattr(before, "leader_id", -1)
    is_new_vote = voted_id not in (-1, life.node_id, getattr(before, "voted_id", -1))
    return is_new_leader or is_new_vote
