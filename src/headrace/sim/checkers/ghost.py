"""What happened in the cluster so far, as no node knows it: who led when, what each disk holds, what is committed.

`Ghost` is told of every step before the checkers are; it judges nothing but what would make it meaningless (a batch that two leaders named
alike: R6, R13).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.raft.quorum import majority_of
from headrace.raft.roles import Leader
from headrace.raft.voters import VoterSet
from headrace.sim.checkers.committed_log import CommittedPrefix, Replayed
from headrace.sim.checkers.logs import EMPTY_CHAIN, UNKNOWN_CHAIN, GhostLog
from headrace.sim.observation import InvariantBroken

if TYPE_CHECKING:
    from headrace.raft.events import QuorumState
    from headrace.raft.roles import Role
    from headrace.sim.observation import LogAppended, NodeView

DiskKey = tuple[int, Uuid]
"""A node's id and the id of its metadata directory: one disk."""


@dataclass(slots=True, eq=False)
class Disk:
    """One disk: the log on it, and the newest `quorum-state` it ever held durably."""

    key: DiskKey
    log: GhostLog
    stored: QuorumState | None = None
    stored_epoch: int = 0
    snapshots: dict[int, int] = field(default_factory=dict)
    """End offset -> epoch of each snapshot that is there."""
    is_lost: bool = False
    batches: dict[int, LogAppended] = field(default_factory=dict)
    """By base offset: those of `log`."""
    was_durable: tuple[int, int | None] = (0, None)
    """(durable end, chain there) of the log that the last process left."""


@dataclass(slots=True, eq=False)
class Life:
    """One run of one process, as the checkers know it; `role` and `high_watermark` are those after its last step.

    `role_before` is the role that the step at hand began with.
    """

    node_id: int
    disk: Disk
    run: int
    is_controller: bool
    role: Role | None = None
    role_before: Role | None = None
    high_watermark: int = -1
    applied: int = 0
    """The offset its loader goes on with."""
    controller_epoch: int = -1
    """The epoch its controller was told to lead, -1 when none."""
    epoch: int = 0


@dataclass(slots=True, eq=False)
class Term:
    """One epoch's leader. `acks`: how far each disk was seen to hold this leader's log durably, while in this epoch."""

    epoch: int
    life: Life
    start: int
    committed: int = 0
    is_live: bool = True
    acks: dict[DiskKey, int] = field(default_factory=dict)


class Ghost:
    """The onlooker's state."""

    def __init__(self) -> None:
        self.disks: dict[DiskKey, Disk] = {}
        self.lives: dict[int, Life] = {}
        """By node id: the run that is on, or was last."""
        self.terms: dict[int, Term] = {}
        self.term: Term | None = None
        """The live term of the highest epoch."""
        self.committed = CommittedPrefix()
        self.names: dict[tuple[int, int], tuple[int, int]] = {}
        """(epoch, base offset) -> (chain, CRC) of the batch that has this name for ever."""
        self.newly: list[Replayed] = []
        """What the step at hand committed."""
        self.number = 0

    # Processes

    def start(self, node: NodeView) -> Life:
        """A process begins; its changes tell what is on its disk."""
        key = (node.node_id, node.directory_id)
        disk = self.disks.get(key)
        if disk is None:
            disk = self.disks[key] = Disk(key=key, log=GhostLog())
        disk.snapshots.clear()
        disk.was_durable = (disk.log.durable, disk.log.chain_at(disk.log.durable))
        life = Life(node_id=node.node_id, disk=disk, run=node.run, is_controller=node.is_controller)
        self.end_term(node.node_id)
        self.lives[node.node_id] = life
        return life

    def found(self, life: Life) -> None:
        """All that is on the disk of a new process is told: what was synced before still is, whatever the node itself can know."""
        durable, chain = life.disk.was_durable
        log = life.disk.log
        if chain is not None and log.durable < durable and log.chain_at(durable) == chain:
            log.durable = durable

    def end_term(self, node_id: int) -> None:
        """The node does not lead any more, if it did."""
        for term in self.terms.values():
            if term.life.node_id == node_id:
                term.is_live = False
        if self.term is not None and not self.term.is_live:
            live = [each for each in self.terms.values() if each.is_live]
            self.term = max(live, key=lambda each: each.epoch, default=None)

    def begin_term(self, life: Life, role: Leader) -> Term:
        """The node leads from now on."""
        term = Term(epoch=role.epoch, life=life, start=role.epoch_start_offset, committed=self.committed.end)
        self.terms[role.epoch] = term
        if self.term is None or self.term.epoch <= role.epoch:
            self.term = term
        return term

    def committed_before(self, epoch: int) -> int:
        """The end of what leaders of earlier epochs have committed: a leader of `epoch` that comes late need not have more."""
        return max((term.committed for term in self.terms.values() if term.epoch < epoch), default=0)

    def leads(self, life: Life) -> Term | None:
        """The term that this very process leads now, None when it does not."""
        if not isinstance(life.role, Leader):
            return None
        term = self.terms.get(life.role.epoch)
        return term if term is not None and term.life is life else None

    # Logs

    def log_reset(self, disk: Disk, start: int, voters: VoterSet) -> None:
        """The log is empty and begins at `start`."""
        chain: int | None = EMPTY_CHAIN if start == 0 else self.committed.log.chain_at(start)
        below = voters if start == 0 or start > self.committed.end else self.committed.log.voters_before(start)
        disk.log.reset(start=start, start_chain=UNKNOWN_CHAIN if chain is None else chain, voters=below)
        disk.batches.clear()

    def log_appended(self, disk: Disk, batch: LogAppended) -> None:
        """One more batch. Raises InvariantBroken R13 or R6 when its name stands for something else elsewhere."""
        log = disk.log
        if not log.ends and batch.base_offset < log.start:
            self.log_reset(disk, batch.base_offset, log.voters)
        chain = log.append(batch)
        disk.batches[batch.base_offset] = batch
        name = (batch.epoch, batch.base_offset)
        known = self.names.setdefault(name, (chain, batch.crc))
        if known[1] != batch.crc:
            raise InvariantBroken("R13", f"offset {name[1]} of epoch {name[0]} names two batches", nodes=(disk.key[0],))
        if known[0] != chain and UNKNOWN_CHAIN not in (known[0], chain):
            raise InvariantBroken(
                "R6", f"logs with offset {name[1]} of epoch {name[0]} differ before it", nodes=(disk.key[0],)
            )

    def log_truncated(self, disk: Disk, to: int) -> None:
        """Everything from `to` on is gone."""
        for base in disk.log.bases[len(disk.log.ends) - _count_above(disk.log.ends, to) :]:
            disk.batches.pop(base, None)
        disk.log.truncate(to)

    def log_start_moved(self, disk: Disk, to: int) -> None:
        """Everything below `to` is gone."""
        for base, end in zip(disk.log.bases, disk.log.ends, strict=True):
            if end > to:
                break
            disk.batches.pop(base, None)
        disk.log.drop_below(to)

    # What is committed

    def count(self, life: Life) -> None:
        """Something that may commit changed on this node: its durable end, its epoch, or its role.

        A leader that does not know of a later epoch commits in its own what a majority held before they went on to that epoch.
        """
        term = self.terms.get(life.epoch)
        if term is None or not term.is_live:
            return
        leaders_log, log = term.life.disk.log, life.disk.log
        matched = log.matches(leaders_log, below=log.durable)
        key = life.disk.key
        if matched > term.acks.get(key, -1):
            term.acks[key] = matched
            self.advance(term)

    def advance(self, term: Term) -> None:
        """Commit what a majority of the voters in force holds, if it reaches into the leader's own epoch (R9)."""
        voters = term.life.disk.log.voters
        if not voters.voters:
            return
        held = sorted((self._held(term, voter.voter_id, voter.directory_id) for voter in voters.voters), reverse=True)
        to = held[majority_of(len(held)) - 1]
        if to <= term.start or to <= term.committed:
            return
        term.committed = to
        self._commit(term.life.disk, to)

    def _held(self, term: Term, voter_id: int, directory_id: Uuid) -> int:
        if directory_id != ZERO_UUID:
            return term.acks.get((voter_id, directory_id), -1)
        return max((end for key, end in term.acks.items() if key[0] == voter_id), default=-1)

    def _commit(self, disk: Disk, to: int) -> None:
        while self.committed.end < to:
            batch = disk.batches.get(self.committed.end)
            if batch is None:
                raise InvariantBroken(
                    "R7",
                    f"the leader's log has no batch at {self.committed.end}, where the committed prefix goes on",
                    nodes=(disk.key[0],),
                )
            self.newly.append(self.committed.extend(batch))
            self.committed.counted = disk.log.voters


def _count_above(ends: list[int], to: int) -> int:
    count = 0
    for end in reversed(ends):
        if end <= to:
            break
        count += 1
    return count
