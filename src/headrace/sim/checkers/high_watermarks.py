"""What nodes call committed is so, stays, and is applied alike by all.  R7 R8 R9 R10 R18"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.ids import ZERO_UUID
from headrace.raft.quorum import majority_of
from headrace.raft.roles import Leader
from headrace.sim.checkers.group import Group, Scene
from headrace.sim.checkers.logs import UNKNOWN_CHAIN
from headrace.sim.observation import BatchApplied, ResponseSent, SnapshotApplied
from headrace.wire.messages.fetch import FetchResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.raft.roles import Role
    from headrace.raft.voters import VoterSet
    from headrace.sim.checkers.ghost import Disk, Life
    from headrace.sim.checkers.group import Handler
    from headrace.sim.observation import ClusterView


class HighWatermarks(Group):
    """The committed prefix: who may say what of it, who has it, and what is applied of it."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._has_stale_mark: set[int] = set()

    def before_changes(self) -> Mapping[type, Handler]:
        """What is applied must be what follows."""
        return {BatchApplied: self._applied, SnapshotApplied: self._snapshot_applied}

    def after_changes(self) -> Mapping[type, Handler]:
        """A leader's answers say a high watermark."""
        return {ResponseSent: self._response_sent}

    # a new leader has everything that is committed (R7)

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """A new leader has everything that was committed before its epoch, though a leader of a later one may have committed more by now."""
        if not isinstance(after, Leader) or (isinstance(before, Leader) and before.epoch == after.epoch):
            return
        prefix, log = self.ghost.committed, life.disk.log
        end = self.ghost.committed_before(after.epoch)
        if end < prefix.end:
            self.hit("leader of an epoch that is over")
        if log.end < end:
            raise self.broken(
                "R7",
                f"the log of leader {life.node_id} of epoch {after.epoch} ends at {log.end}, committed is {end}",
                life,
            )
        chain = log.chain_at(end)
        truth = prefix.log.chain_at(end)
        if log.start <= end and chain != truth and chain != UNKNOWN_CHAIN:
            raise self.broken(
                "R7",
                f"the log of leader {life.node_id} of epoch {after.epoch} is not the committed one below {end}",
                life,
            )
        if 0 <= life.high_watermark < end:
            self.hit("new leader with a lagging high watermark")

    # what is committed, and what a node takes for it (R9, R10)

    def high_watermark_changed(self, life: Life, before: int, after: int) -> None:
        """It rises, and never above what is committed."""
        if after < before:
            raise self.broken("R10", f"the high watermark of node {life.node_id} fell from {before} to {after}", life)
        end = self.ghost.committed.end
        if after <= end:
            return
        role = life.role
        if not isinstance(role, Leader):
            raise self.broken("R10", f"the high watermark of node {life.node_id} is {after}, committed is {end}", life)
        raise self.broken("R9", self._why_not_committed(life, role, after), life)

    def _why_not_committed(self, life: Life, role: Leader, to: int) -> str:
        what = f"leader {life.node_id} of epoch {role.epoch} raised its high watermark to {to}"
        if to <= role.epoch_start_offset:
            return f"{what}, its own epoch begins at {role.epoch_start_offset}"
        term = self.ghost.terms.get(role.epoch)
        voters = life.disk.log.voters.voters
        acks = {} if term is None else {f"{key[0]}": end for key, end in sorted(term.acks.items())}
        return f"{what}; on disk of the {len(voters)} voters {[each.voter_id for each in voters]} is {acks}"

    def _response_sent(self, life: Life, change: ResponseSent) -> None:
        response = change.response
        if not isinstance(response, FetchResponse) or not isinstance(life.role, Leader):
            return
        if not response.responses or not response.responses[0].partitions:
            return
        answer: Any = response.responses[0].partitions[0]
        if answer.error_code != 0 or answer.current_leader.leader_epoch not in (-1, life.role.epoch):
            return
        shown = answer.high_watermark
        if 0 <= shown <= life.role.epoch_start_offset and not self._is_metadata_empty(shown):
            raise self.broken(
                "R10",
                f"leader {life.node_id} of epoch {life.role.epoch} shows {shown}, its epoch begins at {life.role.epoch_start_offset}",
                life,
            )
        if shown > self.ghost.committed.end:
            raise self.broken(
                "R10", f"leader {life.node_id} shows {shown}, committed is {self.ghost.committed.end}", life
            )

    def _is_metadata_empty(self, shown: int) -> bool:
        return shown == 0

    # everybody applies the same (R8)

    def _applied(self, life: Life, change: BatchApplied) -> None:
        if change.base_offset != life.applied:
            raise self.broken(
                "R8", f"node {life.node_id} applied a batch at {change.base_offset} in place of {life.applied}", life
            )
        raft = self.scene.step.node.raft
        high_watermark = life.high_watermark if raft is None else max(life.high_watermark, raft.high_watermark)
        if change.next_offset > high_watermark:
            raise self.broken(
                "R8",
                f"node {life.node_id} applied up to {change.next_offset}, its high watermark is {high_watermark}",
                life,
            )
        prefix = self.ghost.committed
        index = prefix.index_ending_at(change.next_offset)
        if index is None:
            raise self.broken(
                "R8",
                f"node {life.node_id} applied a batch that ends at {change.next_offset}, which is not committed",
                life,
            )
        truth = prefix.replayed[index].batch
        if (truth.base_offset, truth.epoch, truth.records) != (change.base_offset, change.epoch, tuple(change.records)):
            raise self.broken("R8", f"node {life.node_id} applied another batch at {change.base_offset}", life)

    def _snapshot_applied(self, life: Life, change: SnapshotApplied) -> None:
        end = change.snapshot_id.offset
        if isinstance(life.role, Leader):
            raise self.broken("R16", f"leader {life.node_id} loaded the snapshot that ends at {end}", life)
        if end < life.applied:
            raise self.broken(
                "R8", f"node {life.node_id} applied the snapshot that ends at {end}, it was at {life.applied}", life
            )
        if end > self.ghost.committed.end:
            raise self.broken("R8", f"node {life.node_id} applied a snapshot beyond the committed end, {end}", life)

    # what is committed stays on a majority of disks (R18)

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every committed record is on the disks of a majority of the voters, but for those that faults destroyed.

        The voters are those that the committed prefix sets, those that were counted when it was committed, or those that the leader's log sets.
        """
        prefix, term = self.ghost.committed, self.ghost.term
        leaders = None if term is None else term.life.disk.log.voters
        sets = [each for each in (prefix.log.voters, prefix.counted, leaders) if each is not None]
        if prefix.end == 0 or any(self._is_held(voters) for voters in sets):
            return
        holders = sorted(disk.key[0] for disk in self.ghost.disks.values() if self._holds(disk))
        raise self.broken(
            "R18", f"the committed prefix up to {prefix.end} is on the disks of {holders}, the voters are {sets[0].ids}"
        )

    def _is_held(self, voters: VoterSet) -> bool:
        holding = sum(
            1
            for voter in voters.voters
            if any(
                disk.is_lost or self._holds(disk)
                for key, disk in self.ghost.disks.items()
                if key[0] == voter.voter_id and voter.directory_id in (ZERO_UUID, key[1])
            )
        )
        return holding >= majority_of(len(voters.voters))

    def _holds(self, disk: Disk) -> bool:
        prefix, log = self.ghost.committed, disk.log
        if max(disk.snapshots, default=0) >= prefix.end:
            return True
        return log.durable >= prefix.end and log.chain_at(prefix.end) in (
            prefix.log.chain_at(prefix.end),
            UNKNOWN_CHAIN,
        )
