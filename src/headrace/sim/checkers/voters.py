"""Voters that change one at a time, and only under a leader that has committed.  R17 RL4, and R14: a leader without its voters steps down"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.raft.events import RaftRequestArrived, TimeAdvanced
from headrace.raft.quorum import majority_of
from headrace.raft.roles import Leader
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.logs import voters_in
from headrace.sim.observation import LogAppended, RequestSent, ResponseSent, StepKind
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.raft.roles import Role
    from headrace.raft.voters import VoterSet
    from headrace.sim.checkers.ghost import Life, Term
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView, MachineStep


class VoterChanges(Group):
    """Records that set the voters."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._open: dict[int, tuple[int, int]] = {}
        """Epoch -> (base offset, end) of the voter change that its leader has under way."""

    def before_changes(self) -> Mapping[type, Handler]:
        """A record of voters is compared with the one before."""
        return {LogAppended: self._appended}

    def after_changes(self) -> Mapping[type, Handler]:
        """What is told to a voter that says where it is now, and who asks to be one."""
        return {ResponseSent: self._told, RequestSent: self._asks}

    def _asks(self, life: Life, change: RequestSent) -> None:
        if isinstance(change.request, AddRaftVoterRequest):
            self.hit("controller asked to join the voters")

    def _told(self, life: Life, change: ResponseSent) -> None:
        """KIP-853 (B-R26): an update that is acknowledged stands in the leader's log."""
        request, response = change.request, change.response
        if not isinstance(request, UpdateRaftVoterRequest) or not isinstance(response, UpdateRaftVoterResponse):
            return
        voters = life.disk.log.voters
        if response.error_code != ErrorCode.NONE or voters.kraft_version == 0 or self.ghost.leads(life) is None:
            return
        told = {(each.name, each.host, each.port) for each in request.listeners}
        for voter in voters.voters:
            if (voter.voter_id, voter.directory_id) != (request.voter_id, request.voter_directory_id):
                continue
            known = {tuple(each) for each in voter.end_points}
            if known != told:
                raise self.broken(
                    "R17",
                    f"leader {life.node_id} took {told} as address of voter {voter.voter_id} and has {known}",
                    life,
                )
            self.hit("voter told its new address")

    def _appended(self, life: Life, batch: LogAppended) -> None:
        role = life.role
        if not batch.is_control or self.scene.step.kind is not StepKind.EVENT or not isinstance(role, Leader):
            return
        after = voters_in(batch.data)
        if after is None:
            return
        log = life.disk.log
        if batch.base_offset == role.epoch_start_offset and batch.base_offset == 0:
            return
        before = log.voters
        is_first = batch.base_offset == role.epoch_start_offset
        if is_first and _keys(before) == _keys(after) and before.kraft_version == after.kraft_version:
            self.hit("leader tells its own new address")  # nobody else votes because of it
            return
        self._check_moment(life, role, batch)
        self._check_difference(life, before, after)
        self._open[role.epoch] = (batch.base_offset, batch.next_offset)

    def _check_moment(self, life: Life, role: Leader, batch: LogAppended) -> None:
        high_watermark = self.ghost.committed.end
        log = life.disk.log
        if log.last_voters_end > high_watermark:
            raise self.broken(
                "R17",
                f"leader {life.node_id} changes the voters at {batch.base_offset}; the last change is not committed",
                life,
            )
        if high_watermark <= role.epoch_start_offset:
            raise self.broken(
                "R17",
                f"leader {life.node_id} changes the voters at {batch.base_offset} before it committed in epoch {role.epoch}",
                life,
            )

    def _check_difference(self, life: Life, before: VoterSet, after: VoterSet) -> None:
        old, new = _keys(before), _keys(after)
        if before.kraft_version == 0 and after.kraft_version > 0:
            old, new = {(each[0], ZERO_UUID) for each in old}, {(each[0], ZERO_UUID) for each in new}
            self.hit("kraft.version upgraded")
        if len(old ^ new) > 1:
            raise self.broken(
                "R17", f"leader {life.node_id} changes the voters from {sorted(old)} to {sorted(new)} at once", life
            )
        if len(new) > len(old):
            self.hit("voter added")
        elif len(new) < len(old):
            self.hit("voter removed")
            if life.disk.key not in new and (life.node_id, ZERO_UUID) not in new:
                self.hit("leader removed itself")

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """A voter change that its leader did not live to see committed."""
        if isinstance(before, Leader) and not isinstance(after, Leader):
            self._cut_short(before.epoch)

    def ended(self, life: Life, kind: StepKind) -> None:
        """A crash of the leader may cut it short too."""
        if isinstance(life.role, Leader):
            self._cut_short(life.role.epoch)

    def _cut_short(self, epoch: int) -> None:
        change = self._open.pop(epoch, None)
        if change is not None and change[1] > self.ghost.committed.end:
            self.hit("voter change cut short by a leader change")

    def at_end(self, cluster: ClusterView) -> None:
        """A change is committed everywhere or gone everywhere (RL4)."""
        truth, behind = _keys(self.ghost.committed.log.voters), cluster.left_behind
        for node in cluster.nodes.values():
            life = self.ghost.lives.get(node.node_id)
            if not node.is_up or life is None or node.raft is None or node.node_id in behind:
                continue
            if _keys(life.disk.log.voters) != truth or _keys(node.raft.voters) != truth:
                raise self.broken(
                    "RL4",
                    f"node {node.node_id} has the voters {sorted(_keys(node.raft.voters))}, committed are {sorted(truth)}",
                    life,
                )


def _keys(voters: VoterSet) -> set[tuple[int, Uuid]]:
    return {(voter.voter_id, voter.directory_id) for voter in voters.voters}


@dataclass(slots=True, eq=False)
class _Watch:
    """What one leader heard of its voters, by its own clock."""

    since_ms: int
    heard: dict[tuple[int, Uuid], int] = field(default_factory=dict)
    voters: frozenset[tuple[int, Uuid]] | None = None
    """Those that counted when it was last looked at."""
    in_force: VoterSet | None = None
    """What named them."""
    overdue_since_ms: int | None = None


class CheckQuorum(Group):
    """A leader that no majority of voters fetched from for 1.5 fetch timeouts steps down, by its own clock (R14)."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._watches: dict[int, _Watch] = {}

    def machine_events(self) -> Mapping[type, Handler]:
        """Fetches that the leader hears, and its sense of time."""
        return {RaftRequestArrived: self._asked, TimeAdvanced: self._time}

    def began(self, life: Life) -> None:
        """A new process leads nothing."""
        self._watches.pop(life.node_id, None)

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """Leadership begins or ends."""
        if not isinstance(after, Leader):
            watch = self._watches.pop(life.node_id, None)
            term = self.ghost.leads(life)
            if watch is not None and term is not None:
                now_ms = self._now_ms(life)
                if now_ms - self._heard_ms(life, watch, term, now_ms) >= self._bound_ms():
                    self.hit("leader resigned: check quorum")
            return
        if isinstance(before, Leader) and before.epoch == after.epoch:
            return
        self._watches[life.node_id] = _Watch(since_ms=self._now_ms(life))

    def _now_ms(self, life: Life) -> int:
        assert self.scene.cluster is not None
        return self.scene.cluster.local_ms(life.node_id)

    def _asked(self, life: Life, step: MachineStep) -> None:
        watch = self._watches.get(life.node_id)
        event = step.event
        assert isinstance(event, RaftRequestArrived)
        request = event.request
        if watch is None or not isinstance(request, FetchRequest | FetchSnapshotRequest):
            return
        if not request.topics or not request.topics[0].partitions:
            return
        part = request.topics[0].partitions[0]
        if part.current_leader_epoch == life.epoch:
            if isinstance(request, FetchRequest):
                key = (request.replica_state.replica_id, part.replica_directory_id)
            else:
                key = (request.replica_id, part.replica_directory_id)
            watch.heard[key] = self._now_ms(life)
        self._judge(life, watch, self._now_ms(life))

    def _time(self, life: Life, step: MachineStep) -> None:
        watch = self._watches.get(life.node_id)
        if watch is not None:
            self._judge(life, watch, self._now_ms(life))

    def _judge(self, life: Life, watch: _Watch, now_ms: int) -> None:
        term = self.ghost.leads(life)
        if term is None:
            return
        bound = self._bound_ms()
        heard = self._heard_ms(life, watch, term, now_ms)
        if now_ms - heard <= bound:
            watch.overdue_since_ms = None
            return
        if watch.overdue_since_ms is None:
            watch.overdue_since_ms = now_ms
        if now_ms - watch.overdue_since_ms > bound // 3:
            raise self.broken(
                "R14", f"leader {life.node_id} of epoch {term.epoch} heard no majority for {now_ms - heard} ms", life
            )

    def _bound_ms(self) -> int:
        assert self.scene.cluster is not None
        return self.scene.cluster.fetch_timeout_ms * 3 // 2

    def _heard_ms(self, life: Life, watch: _Watch, term: Term, now_ms: int) -> int:
        """Since when a majority of the voters is unheard: the time at which the slowest member of the best majority spoke."""
        in_force = life.disk.log.voters
        voters = in_force.voters
        if not voters:
            return now_ms
        if watch.in_force is not in_force:
            watch.in_force = in_force
            self._note_voters(watch, frozenset((each.voter_id, each.directory_id) for each in voters), now_ms)
        times = [self._last(life, watch, each.voter_id, each.directory_id, now_ms) for each in voters]
        times.sort(reverse=True)
        return times[majority_of(len(times)) - 1]

    def _note_voters(self, watch: _Watch, voters: frozenset[tuple[int, Uuid]], now_ms: int) -> None:
        """A new voter has the whole time from when it counts: until then nobody missed it."""
        if watch.voters is not None:
            watch.heard.update(dict.fromkeys(voters - watch.voters, now_ms))
        watch.voters = voters

    def _last(self, life: Life, watch: _Watch, voter_id: int, directory_id: Uuid, now_ms: int) -> int:
        if voter_id == life.node_id and directory_id in (ZERO_UUID, life.disk.key[1]):
            return now_ms
        last: int | None = None
        for (asker_id, its_directory), at in watch.heard.items():
            if (
                asker_id == voter_id
                and (last is None or at > last)
                and (its_directory == directory_id or ZERO_UUID in (its_directory, directory_id))
            ):
                last = at
        return watch.since_ms if last is None else last
