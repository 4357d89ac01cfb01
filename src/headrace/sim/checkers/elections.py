"""One leader an epoch, one vote a voter, and nobody says what its disk does not.  R1 R2 R3 R4 R13 R19 R22"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.peers import SendFailure
from headrace.raft.events import RaftRequestFailed, RaftResponseArrived, SendRaftRequest
from headrace.raft.quorum import majority_of
from headrace.raft.roles import Candidate, Follower, Leader, Prospective
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.messages import Revealed, revealed
from headrace.sim.observation import QuorumStateDurable, RequestSent, ResponseSent
from headrace.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.raft.roles import Role
    from headrace.sim.checkers.ghost import DiskKey, Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import MachineStep

_Choice = tuple[int, Uuid]


class Elections(Group):
    """Leaders, votes, epochs and roles."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.leaders: dict[int, Life] = {}
        self.votes: dict[tuple[DiskKey, int], _Choice] = {}
        self._granted: dict[int, set[int]] = {}
        """Node -> voters that granted its pre-vote since it last became prospective."""
        self._asked: dict[int, dict[int, int]] = {}
        """Node -> correlation of a pre-vote request -> the voter it went to."""

    def before_changes(self) -> Mapping[type, Handler]:
        """The state on disk may not go back."""
        return {QuorumStateDurable: self._stored}

    def after_changes(self) -> Mapping[type, Handler]:
        """A message may say only what is on disk."""
        return {RequestSent: self._request_sent, ResponseSent: self._response_sent}

    def machine_events(self) -> Mapping[type, Handler]:
        """Answers to pre-votes, and that there will be none."""
        return {RaftResponseArrived: self._answered, RaftRequestFailed: self._answered}

    def machine_effects(self) -> Mapping[type, Handler]:
        """Whom a node asks for a pre-vote."""
        return {SendRaftRequest: self._asks}

    def began(self, life: Life) -> None:
        """A process starts with no request sent."""
        self._asked[life.node_id] = {}
        self._granted[life.node_id] = set()

    # Roles

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """The role, its epoch and its vote."""
        if before is None:
            self._started(life, after)
        elif after.epoch < before.epoch:
            raise self.broken("R3", f"the epoch of node {life.node_id} fell from {before.epoch} to {after.epoch}", life)
        if isinstance(after, Leader):
            self._leads(life, after)
        elif isinstance(after, Candidate):
            self._votes_for_itself(life, before, after)
            if before is None or before.epoch != after.epoch:
                self._stands(life, before, after)
        elif isinstance(after, Prospective):
            self._asks_first(life, before, after)
        elif isinstance(after, Follower) and after.leader_id == life.node_id:
            raise self.broken("R19", f"node {life.node_id} follows itself", life)

    def _started(self, life: Life, role: Role) -> None:
        if role.epoch < life.disk.stored_epoch:
            raise self.broken(
                "R3", f"node {life.node_id} starts in epoch {role.epoch}, its disk said {life.disk.stored_epoch}", life
            )
        stored = life.disk.stored
        if stored is None or stored.leader_epoch != role.epoch or stored.voted_id in (-1, life.node_id):
            return
        if getattr(role, "voted_id", stored.voted_id) != stored.voted_id:
            raise self.broken(
                "R2", f"node {life.node_id} starts in epoch {role.epoch} without its vote for {stored.voted_id}", life
            )

    def _leads(self, life: Life, role: Leader) -> None:
        known = self.leaders.setdefault(role.epoch, life)
        if known is life:
            return
        if known.disk is life.disk:
            raise self.broken("R13", f"node {life.node_id} leads epoch {role.epoch} again after a restart", life)
        raise self.broken(
            "R1", f"nodes {known.node_id} and {life.node_id} are both leaders of epoch {role.epoch}", known, life
        )

    def _stands(self, life: Life, before: Role | None, role: Candidate) -> None:
        self._must_be_voter(life, "a candidate")
        voters = life.disk.log.voters.voters
        granted = self._granted.get(life.node_id, set()) | {life.node_id}
        source = self._granting(life)
        if source is not None:
            granted.add(source)
        counted = sum(1 for voter in voters if voter.voter_id in granted)
        if before is not None and counted < majority_of(len(voters)):
            raise self.broken(
                "R22",
                f"node {life.node_id} raised the epoch to {role.epoch} with {counted} of {len(voters)} pre-votes",
                life,
            )
        self._granted[life.node_id] = set()

    def _votes_for_itself(self, life: Life, before: Role | None, role: Candidate) -> None:
        """Who voted for another in an epoch is no candidate in it, whether that is on disk yet or not (R19)."""
        stored = life.disk.stored
        votes = [getattr(before, "voted_id", -1)] if before is not None and before.epoch == role.epoch else []
        votes += [stored.voted_id] if stored is not None and stored.leader_epoch == role.epoch else []
        if any(vote not in (-1, life.node_id) for vote in votes):
            raise self.broken(
                "R19", f"node {life.node_id} stands in epoch {role.epoch} and voted for {max(votes)} in it", life
            )

    def _asks_first(self, life: Life, before: Role | None, role: Prospective) -> None:
        if not isinstance(before, Prospective):
            self._must_be_voter(life, "prospective")
            self._granted[life.node_id] = set()

    def _must_be_voter(self, life: Life, what: str) -> None:
        """Whom only an uncommitted change leaves out may be the only one that can commit it (Raft 4.2.2) (R19)."""
        node_id, directory_id = life.disk.key
        log = life.disk.log
        voters = log.voters
        former = log.voters_before(log.last_voters_end - 1)
        if voters.voters and not voters.is_voter(node_id, directory_id) and not former.is_voter(node_id, directory_id):
            raise self.broken("R19", f"node {node_id} is {what} and no voter", life)

    # What R22 counts

    def _answered(self, life: Life, step: MachineStep) -> None:
        source = self._granting(life)
        if source is not None and isinstance(life.role, Prospective):
            self._granted[life.node_id].add(source)

    def _granting(self, life: Life) -> int | None:
        """Who grants a vote with what this step took in; None when nobody does.

        A voter of an older release knows no pre-votes and is taken to agree (KIP-996).
        """
        failed = self.machine_step_of(RaftRequestFailed)
        if failed is not None:
            event = failed.event
            assert isinstance(event, RaftRequestFailed)
            is_old = event.failure is SendFailure.UNSUPPORTED_VERSION
            return self._asked.get(life.node_id, {}).get(event.correlation) if is_old else None
        received = self.scene.step.received
        if received is None or received.is_request or not isinstance(received.message, VoteResponse):
            return None
        topics = received.message.topics
        if not topics or not topics[0].partitions or not topics[0].partitions[0].vote_granted:
            return None
        return received.source

    def _asks(self, life: Life, effect: SendRaftRequest) -> None:
        if isinstance(effect.request, VoteRequest) and effect.request.topics[0].partitions[0].pre_vote:
            self._asked[life.node_id][effect.correlation] = effect.to.node_id

    # What is on disk, and what is said

    def _stored(self, life: Life, change: QuorumStateDurable) -> None:
        state, disk = change.state, life.disk
        if state.leader_epoch < disk.stored_epoch:
            raise self.broken(
                "R3",
                f"quorum-state of node {life.node_id} fell from epoch {disk.stored_epoch} to {state.leader_epoch}",
                life,
            )
        old = disk.stored
        if old is None or old.leader_epoch != state.leader_epoch:
            return
        if -1 not in (old.voted_id, state.voted_id) and old.voted_id != state.voted_id:
            raise self.broken("R2", f"node {life.node_id} stored a second vote in epoch {state.leader_epoch}", life)

    def _request_sent(self, life: Life, change: RequestSent) -> None:
        said = revealed(life.node_id, change.request)
        if said.epoch >= 0:
            self._check_said(life, said, change.request)

    def _response_sent(self, life: Life, change: ResponseSent) -> None:
        said = revealed(life.node_id, change.response, change.request)
        if said.epoch >= 0:
            self._check_said(life, said, change.response)

    def _check_said(self, life: Life, said: Revealed, message: object) -> None:
        state = life.disk.stored
        stored_epoch = -1 if state is None else state.leader_epoch
        what = type(message).__name__
        if said.epoch > max(stored_epoch, 0) and not life.disk.is_lost:  # rot may have hit the epoch of a batch
            raise self.broken(
                "R4", f"node {life.node_id} says epoch {said.epoch} in {what}, its disk says {stored_epoch}", life
            )
        if said.candidate is not None:
            self._check_vote(life, said.epoch, said.candidate, what)
        says_leading = said.leader_id == life.node_id and state is not None and said.epoch == state.leader_epoch
        if says_leading and state is not None and life.node_id not in (state.leader_id, state.voted_id):
            raise self.broken("R4", f"node {life.node_id} says that it leads epoch {said.epoch} in {what}", life)

    def _check_vote(self, life: Life, epoch: int, candidate: _Choice, what: str) -> None:
        state = life.disk.stored
        if state is not None and state.leader_epoch == epoch and candidate[0] not in (state.voted_id, state.leader_id):
            raise self.broken(
                "R4", f"node {life.node_id} says in {what} that it voted for {candidate[0]}; its disk does not", life
            )
        known = self.votes.setdefault((life.disk.key, epoch), candidate)
        if known[0] != candidate[0] or (known[1] != candidate[1] and ZERO_UUID not in (known[1], candidate[1])):
            raise self.broken(
                "R2", f"node {life.node_id} votes for {known[0]} and {candidate[0]} in epoch {epoch}", life
            )
