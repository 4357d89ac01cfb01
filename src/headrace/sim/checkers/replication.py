"""Logs that grow and shrink only as they may, and only what a disk holds is counted.  R5 R11 R12 R20 P11 (R6 and R13: `ghost`)"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.core.error_code import ErrorCode
from headrace.raft.events import RaftResponseArrived, SendRaftRequest
from headrace.raft.roles import Follower, Leader
from headrace.records.batch import batch_is_sound, read_header
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.observation import LogAppended, LogDurable, LogReset, LogTruncated, RequestSent, StepKind
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.vote import VoteRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.sim.checkers.ghost import Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import MachineStep


class _Asked(NamedTuple):
    """A fetch that was sent: in which epoch, where the log ended, and whether the leader was asked, or somebody who may know it."""

    epoch: int
    offset: int
    is_of_leader: bool


class Replication(Group):
    """Appending, truncating, fetching and flushing."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._fetches: dict[int, dict[int, _Asked]] = {}
        """Node -> correlation of a fetch that is under way."""
        self._cut_from: dict[int, int] = {}
        """Node -> where its log ended before it was cut, until it appends again: a leader has it cut before it sends a snapshot."""

    def before_changes(self) -> Mapping[type, Handler]:
        """What grows or shrinks is compared with what was."""
        return {LogAppended: self._appended, LogTruncated: self._truncated, LogReset: self._reset}

    def after_changes(self) -> Mapping[type, Handler]:
        """What is said about the log."""
        return {RequestSent: self._request_sent, LogDurable: self._durable, LogTruncated: self._epochs_follow}

    def machine_events(self) -> Mapping[type, Handler]:
        """Answers that nothing came of."""
        return {RaftResponseArrived: self._answer_came}

    def machine_effects(self) -> Mapping[type, Handler]:
        """In which epoch a fetch is sent."""
        return {SendRaftRequest: self._fetch_ordered}

    def began(self, life: Life) -> None:
        """What was durable must be there again, unless the disk is another one."""
        self._fetches[life.node_id] = {}
        self._cut_from.pop(life.node_id, None)
        durable, chain = life.disk.was_durable
        log = life.disk.log
        if life.disk.is_lost or chain is None or durable <= log.start:
            return
        if log.end < durable or log.chain_at(durable) != chain:
            raise self.broken(
                "D5", f"node {life.node_id} had its log on disk up to {durable}, after a restart it has not", life
            )

    # who may cut a log, and to where (R5, R11)

    def _appended(self, life: Life, batch: LogAppended) -> None:
        if self.scene.step.kind is not StepKind.EVENT:
            return
        log = life.disk.log
        self._cut_from.pop(life.node_id, None)
        if batch.base_offset != log.end:
            raise self.broken(
                "R20", f"node {life.node_id} appended at {batch.base_offset}, its log ended at {log.end}", life
            )
        led = [role.epoch for role in (life.role_before, life.role) if isinstance(role, Leader)]
        if led:
            if batch.epoch not in led:
                raise self.broken(
                    "R5", f"leader {life.node_id} of epoch {led[0]} appended a batch of epoch {batch.epoch}", life
                )
        else:
            self._follower_appended(life, batch)

    def _truncated(self, life: Life, change: LogTruncated) -> None:
        log = life.disk.log
        if change.to >= log.end:
            return
        if isinstance(life.role, Leader):
            raise self.broken("R5", f"leader {life.node_id} truncated its log to {change.to}", life)
        if change.to < life.high_watermark:
            raise self.broken(
                "R11",
                f"node {life.node_id} truncated to {change.to}, below its high watermark {life.high_watermark}",
                life,
            )
        newest = max(life.disk.snapshots, default=0)
        if change.to < newest:
            raise self.broken("R11", f"node {life.node_id} truncated to {change.to}, below its snapshot {newest}", life)
        self._judge_epoch(life, "cut its log by")
        self._cut_from[life.node_id] = log.end
        self._mark_divergence(life, change.to)

    def _epochs_follow(self, life: Life, change: LogTruncated) -> None:
        """The table of epochs ends with the log, also when it is cut to where an epoch began (K13; P11)."""
        step, ours = self.scene.step, life.disk.log
        if step.node.log is None or not ours.ends or isinstance(step.changes[-1], LogAppended) or not change.is_durable:
            return
        known = step.node.log.latest_epoch
        if known != ours.last_epoch:
            raise self.broken(
                "P11",
                f"node {life.node_id} cut its log to {change.to}, epoch {ours.last_epoch}, and knows {known}",
                life,
            )

    def _reset(self, life: Life, change: LogReset) -> None:
        if self.scene.step.kind is not StepKind.EVENT:
            return
        if isinstance(life.role, Leader):
            raise self.broken("R16", f"leader {life.node_id} replaced its log by a snapshot at {change.start}", life)
        if change.start < life.high_watermark:
            raise self.broken(
                "R11", f"node {life.node_id} began its log anew at {change.start}, below its high watermark", life
            )
        self._judge_epoch(life, "replaced its log by the snapshot of")
        self.hit("snapshot fetched")
        if max(life.disk.log.end, self._cut_from.pop(life.node_id, 0)) > change.start:
            self.hit("snapshot installed over a longer stale log")

    def _mark_divergence(self, life: Life, to: int) -> None:
        """Which kind of divergence this truncation heals (section 6, "must be reached")."""
        term = self.ghost.term
        if term is None:
            return
        ours, leaders = life.disk.log, term.life.disk.log
        if ours.end > leaders.end:
            self.hit("follower truncated: longer log")
        elif ours.end < leaders.end:
            self.hit("follower truncated: shorter log")
        else:
            self.hit("follower truncated: other epoch at the same length")
        gone = ours.epochs_between(to, ours.end)
        instead = leaders.epochs_between(to, leaders.end)
        if len(gone) > 1 or len(instead) > 1:
            self.hit("follower truncated: several epochs apart")
        if gone and instead and instead[0] - gone[-1] > 1:
            self.hit("follower truncated: an empty epoch in between")

    # only what is on disk counts (R12)

    def _request_sent(self, life: Life, change: RequestSent) -> None:
        """A fetch and a vote that is asked for say how long the log is; what they say must survive a power cut."""
        request = change.request
        if not isinstance(request, FetchRequest | VoteRequest) or not life.is_controller:
            return
        if not request.topics or not request.topics[0].partitions:
            return
        if isinstance(request, FetchRequest):
            what, offset = "fetches from", request.topics[0].partitions[0].fetch_offset
        else:
            asked = request.topics[0].partitions[0]
            what, offset = "asks for votes with a log up to", -1 if asked.pre_vote else asked.last_offset
        if offset > life.disk.log.durable:
            raise self.broken(
                "R12",
                f"node {life.node_id} {what} {offset}, its disk has the log up to {life.disk.log.durable}",
                life,
            )

    def _durable(self, life: Life, change: LogDurable) -> None:
        if change.upto > life.disk.log.end:
            raise self.broken(
                "R12", f"node {life.node_id} calls {change.upto} durable, its log ends at {life.disk.log.end}", life
            )

    # what a follower may append (R20)

    def _follower_appended(self, life: Life, batch: LogAppended) -> None:
        header = read_header(batch.data)
        if header.size != len(batch.data) or not batch_is_sound(batch.data, header):
            raise self.broken("R20", f"node {life.node_id} appended a damaged batch at {batch.base_offset}", life)
        asked = self._asked_in(life)
        if asked is None:
            raise self.broken("R20", f"node {life.node_id} appended at {batch.base_offset} without an answer", life)
        if batch.epoch > asked:
            raise self.broken(
                "R20", f"node {life.node_id} asked in epoch {asked} and appended a batch of epoch {batch.epoch}", life
            )
        role = life.role
        if not isinstance(role, Follower) or role.epoch != asked:
            raise self.broken(
                "R20", f"node {life.node_id} asked in epoch {asked} and appended the answer in epoch {life.epoch}", life
            )

    def _asked_in(self, life: Life) -> int | None:
        """The epoch in which the fetch was sent whose answer this step took in."""
        step = self.machine_step_of(RaftResponseArrived)
        if step is None:
            return None
        event = step.event
        assert isinstance(event, RaftResponseArrived)
        if not isinstance(event.response, FetchResponse):
            return None
        asked = self._fetches[life.node_id].get(event.correlation)
        return None if asked is None else asked.epoch

    def _judge_epoch(self, life: Life, what: str) -> None:
        """What a fetch's answer does to the log must be done in the epoch it was asked in (K12)."""
        asked = self._asked_in(life)
        if asked is not None and asked != life.epoch:
            raise self.broken(
                "R20",
                f"node {life.node_id} asked in epoch {asked} and {what} the answer in epoch {life.epoch}",
                life,
            )

    def _fetch_ordered(self, life: Life, effect: SendRaftRequest) -> None:
        if isinstance(effect.request, FetchRequest):
            partition = effect.request.topics[0].partitions[0]
            is_of_leader = isinstance(life.role, Follower) and life.role.leader_id == effect.to.node_id
            asked = _Asked(partition.current_leader_epoch, partition.fetch_offset, is_of_leader)
            self._fetches[life.node_id][effect.correlation] = asked

    def _answer_came(self, life: Life, step: MachineStep) -> None:
        """Nothing but its epoch tells that this answer must not be taken: the log ends where it ended, and a leader is followed."""
        event = step.event
        assert isinstance(event, RaftResponseArrived)
        asked = self._fetches[life.node_id].get(event.correlation)
        if asked is None or asked.epoch >= life.epoch or not isinstance(life.role, Follower):
            return
        if asked.is_of_leader and asked.offset == life.disk.log.end and _would_change_the_log(event.response):
            self.hit("late fetch answer of an older epoch dropped")


def _would_change_the_log(response: object) -> bool:
    """A good answer to a fetch, with batches or with where the log is to be cut."""
    if not isinstance(response, FetchResponse) or not response.responses or not response.responses[0].partitions:
        return False
    partition = response.responses[0].partitions[0]
    return partition.error_code == ErrorCode.NONE and bool(partition.records or partition.diverging_epoch.epoch >= 0)
