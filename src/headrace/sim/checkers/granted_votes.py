"""Votes, and promises of one, that a voter's own state allows.  R2 R22

KIP-996: a voter that was served by the leader of its epoch grants no pre-vote, nor does a leader; KIP-595: no vote goes to a log that is
behind the voter's own, nor in an epoch whose leader the voter knows. Who has the vote of an epoch is told so again, whatever is asked in its
name. What the voter's state is, is seen from outside: who led, whose answers it took, and where its log ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.core.peers import SendFailure
from headrace.raft.events import (
    AnswerRaftRequest,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    SendRaftRequest,
)
from headrace.raft.roles import Follower, Leader
from headrace.sim.checkers.group import Group, Scene
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.messages.vote import RequestPartitionData, VoteRequest, VoteResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.raft.roles import Role
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import MachineStep


class _Served(NamedTuple):
    """A follower whose leader answered its fetch since it began to follow, last at `at_ms` by the follower's clock."""

    run: int
    epoch: int
    leader_id: int
    at_ms: int


def _is_repeated(asked: RequestPartitionData, before: Role | None, after: Role | None) -> bool:
    """Is it the voter's vote of this epoch, given before, that is asked for again?"""
    if asked.pre_vote or before is None or after is None or not before.epoch == after.epoch == asked.replica_epoch:
        return False
    return getattr(before, "voted_id", -1) == asked.replica_id


class GrantedVotes(Group):
    """Each vote request against the state of the voter when it came."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._served: dict[int, _Served] = {}
        self._against: dict[int, dict[int, str]] = {}
        """Node -> token of a vote request -> what spoke against it, "" = nothing."""
        self._fetches: dict[int, dict[int, int]] = {}
        """Node -> correlation of a fetch, of records or of a snapshot, that is under way -> the epoch in which a follower sent it."""

    def machine_events(self) -> Mapping[type, Handler]:
        """Requests for votes, answers of leaders, and that there will be none."""
        return {
            RaftRequestArrived: self._asked,
            RaftResponseArrived: self._answer_came,
            RaftRequestFailed: self._failed,
        }

    def machine_effects(self) -> Mapping[type, Handler]:
        """What was told, and fetches that are sent."""
        return {AnswerRaftRequest: self._told, SendRaftRequest: self._fetches_sent}

    def began(self, life: Life) -> None:
        """A process that starts was served by nobody, and owes no answer."""
        self._served.pop(life.node_id, None)
        self._against[life.node_id] = {}
        self._fetches[life.node_id] = {}

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """Who stops following, or follows another, was not served yet."""
        served = self._served.get(life.node_id)
        if served is None:
            return
        is_same = isinstance(after, Follower) and (after.epoch, after.leader_id) == (served.epoch, served.leader_id)
        if not is_same:
            del self._served[life.node_id]

    def _fetches_sent(self, life: Life, effect: SendRaftRequest) -> None:
        request = effect.request
        if isinstance(request, FetchRequest | FetchSnapshotRequest) and isinstance(life.role, Follower):
            epoch = request.topics[0].partitions[0].current_leader_epoch
            self._fetches[life.node_id][effect.correlation] = epoch

    def _answer_came(self, life: Life, step: MachineStep) -> None:
        """The leader that was followed when it answered; who only learns from an answer whom to follow takes nothing else from it."""
        event = step.event
        assert isinstance(event, RaftResponseArrived)
        role, received, response = life.role, self.scene.step.received, event.response
        epoch = self._fetches[life.node_id].pop(event.correlation, -1)
        if not isinstance(role, Follower) or received is None or not isinstance(response, FetchResponse):
            return
        before = life.role_before
        was_followed = isinstance(before, Follower) and (before.epoch, before.leader_id) == (
            role.epoch,
            received.source,
        )
        if not was_followed or received.source != role.leader_id or epoch != role.epoch or not response.responses:
            return
        if response.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._served.pop(life.node_id, None)  # it gave up leadership
        if ErrorCode.NONE == response.error_code == response.responses[0].partitions[0].error_code:
            self._served[life.node_id] = _Served(life.run, role.epoch, role.leader_id, self._now_ms(life))

    def _failed(self, life: Life, step: MachineStep) -> None:
        """The host of the leader says that no process listens there: the leader is dead, and serves nobody."""
        event = step.event
        assert isinstance(event, RaftRequestFailed)
        is_fetch = self._fetches[life.node_id].pop(event.correlation, -1) >= 0
        if is_fetch and event.failure is SendFailure.REFUSED:
            self._served.pop(life.node_id, None)

    def _now_ms(self, life: Life) -> int:
        assert self.scene.cluster is not None
        return self.scene.cluster.local_ms(life.node_id)

    def _asked(self, life: Life, step: MachineStep) -> None:
        event = step.event
        assert isinstance(event, RaftRequestArrived)
        request = event.request
        served = self._served.get(life.node_id)
        is_end = isinstance(request, EndQuorumEpochRequest) and bool(request.topics)
        if is_end and served is not None and request.topics[0].partitions[0].leader_epoch == served.epoch:  # type: ignore[union-attr]
            del self._served[life.node_id]  # its leader says that it gives up
        if isinstance(request, VoteRequest) and request.topics and request.topics[0].partitions:
            self._against[life.node_id][event.token] = self._spoke_against(life, request)

    def _spoke_against(self, life: Life, request: VoteRequest) -> str:
        """The role before and after: what became of it because time had passed speaks against nothing any more."""
        asked = request.topics[0].partitions[0]
        before, after, log = life.role_before, life.role, life.disk.log
        is_behind = (asked.last_offset_epoch, asked.last_offset) < (log.last_epoch, log.end) and bool(log.ends)
        if is_behind and not _is_repeated(asked, before, after):
            return f"its log ends at {log.end} of epoch {log.last_epoch}"
        if after is None or asked.replica_epoch != after.epoch:
            return ""
        if isinstance(after, Leader):
            return f"it leads epoch {after.epoch}"
        served = self._served.get(life.node_id)
        if asked.pre_vote:
            assert self.scene.cluster is not None
            is_heard = served is not None and self._now_ms(life) - served.at_ms < self.scene.cluster.fetch_timeout_ms
            if is_heard and served is not None and served.leader_id != asked.replica_id:
                return f"leader {served.leader_id} of epoch {served.epoch} serves it"
            return ""
        leader_id = getattr(before, "leader_id", -1) if before is not None and before.epoch == after.epoch else -1
        if leader_id >= 0 and getattr(after, "leader_id", -1) == leader_id:
            return f"it knows {leader_id} as leader of epoch {after.epoch}"
        voted_id = getattr(before, "voted_id", -1) if before is not None and before.epoch == after.epoch else -1
        return f"it voted for {voted_id}" if voted_id not in (-1, asked.replica_id) else ""

    def _told(self, life: Life, effect: AnswerRaftRequest) -> None:
        against = self._against[life.node_id].pop(effect.token, "")
        response = effect.response
        if not isinstance(response, VoteResponse) or not response.topics or not response.topics[0].partitions:
            return
        if not response.topics[0].partitions[0].vote_granted:
            if "serves it" in against:
                self.hit("pre-vote refused: served by a leader")
            return
        if against:
            raise self.broken("R22", f"node {life.node_id} granted a vote or a pre-vote, and {against}", life)
