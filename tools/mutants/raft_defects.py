"""Which mistakes can a node of the quorum make?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.core.error_code import ErrorCode
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.epochs import EpochTable
from headrace.node.metadata_plane import SnapshotJob
from headrace.raft import core, election, following, invariants, leading, quorum, voter_changes, voting
from headrace.raft.core import RaftCore
from headrace.raft.events import QuorumState
from headrace.raft.following import Following
from headrace.raft.outbox import Purpose
from headrace.raft.roles import Candidate, Follower, Role
from headrace.raft.voter_changes import VoterChanges
from headrace.sim.faults import FaultKind
from headrace.storage.snapshot_files import SnapshotFiles
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.core.ports import BytesLike
    from headrace.log.ports import PartitionLogPort
    from headrace.raft.outbox import Flight
    from headrace.raft.replicas import Replicas


def vote_not_durable(planting: Planting) -> None:
    """K1."""
    planting.replace(RaftCore, "reveal", lambda self, effect: self.out.append(effect))


def not_flushed_before_the_fetch(planting: Planting) -> None:
    """K2."""
    planting.replace(following, "must_flush_first", lambda core: False)


def leads_its_old_epoch_on(planting: Planting) -> None:
    """K3: what was stored as leader is taken for a won election."""
    honest_role = election.starting_role

    def starting_role(state: QuorumState, **known: Any) -> Role:
        is_over = state.leader_epoch < known["log_epoch"]
        if state.leader_id == known["node_id"] and known["is_voter"] and not is_over:
            return Candidate(epoch=state.leader_epoch, is_elected=True, election_deadline_ms=0)
        return honest_role(state, **known)

    def resume_candidacy(self: Any) -> None:
        if self._core.role.is_elected:
            self._on_elected(self._core.role)
        else:
            honest_resume(self)

    planting.replace_everywhere(honest_role, starting_role, *users("starting_role"))
    honest_resume = planting.replace(voting.Voting, "resume_candidacy", resume_candidacy)


def counting_is_enough(planting: Planting) -> None:
    """K4."""

    def next_high_watermark(*, current: int, end_offsets: Iterable[int], epoch_start_offset: int) -> int:
        return max(current, quorum.majority_end_offset(end_offsets))

    planting.replace_everywhere(quorum.next_high_watermark, next_high_watermark, *users("next_high_watermark"))


def leader_counts_itself(planting: Planting) -> None:
    """K5: in the place of a voter, so that the number stays."""
    honest = leading.voter_ends

    def voter_ends(core: RaftCore, replicas: Replicas) -> list[int]:
        ends = honest(core, replicas)
        return ends if core.is_voter else [*sorted(ends)[1:], core.durable_end]

    planting.replace(leading, "voter_ends", voter_ends)


def never_checks_its_quorum(planting: Planting) -> None:
    """K6."""
    planting.replace(leading, "check_quorum_ms", lambda fetch_timeout_ms: 1 << 40)


def observer_does_not_flush(planting: Planting) -> None:
    """K7."""
    honest = following.must_flush_first
    planting.replace(following, "must_flush_first", lambda core: core.is_voter and honest(core))


def cuts_below_the_high_watermark(planting: Planting) -> None:
    """K8: to where the last common epoch began, and nobody stops it."""
    honest = following.truncation_offset

    def truncation_offset(log: PartitionLogPort, leaders: OffsetAndEpoch) -> int:
        end = honest(log, leaders)
        epoch = log.epoch_at(end - 1) if end > 0 else None
        before = None if epoch is None else log.end_offset_for_epoch(epoch - 1)
        return log.log_start_offset if before is None else before.offset

    planting.replace(following, "truncation_offset", truncation_offset)
    planting.replace_everywhere(invariants.check_may_cut, lambda to, **known: None, *users("check_may_cut"))


def snapshot_is_named_too_low(planting: Planting) -> None:
    """K9."""

    def snapshot_id(self: SnapshotJob) -> OffsetAndEpoch:
        provenance = self.image.provenance
        return OffsetAndEpoch(provenance.last_contained_offset, provenance.last_contained_epoch)

    planting.replace(SnapshotJob, "snapshot_id", property(snapshot_id))


def snapshot_shows_too_early(planting: Planting) -> None:
    """K10: renamed before it is synced, and the name not made durable."""

    def write(self: Any, snapshot_id: OffsetAndEpoch, batches: Iterable[BytesLike]) -> int:
        file = self._files.open(self._part(snapshot_id), create=True, truncate=True)
        position = 0
        for batch in batches:
            file.pwrite(batch, position)
            position += len(batch)
        file.close()
        self._files.rename(self._part(snapshot_id), self._path(snapshot_id))
        return position

    planting.replace(SnapshotFiles, "write", write)


def two_voter_changes_at_once(planting: Planting) -> None:
    """K11: neither the one under way nor the one in the log holds up the next."""
    honest = VoterChanges.__dict__["_change_refusal"]

    def change_refusal(self: Any, doing: str) -> Any:
        pending, self.pending = self.pending, None
        refusal = honest(self, doing)
        if refusal[0] is not ErrorCode.NONE:
            self.pending = pending
        return refusal

    planting.replace(VoterChanges, "_change_refusal", change_refusal)
    planting.replace(voter_changes, "has_uncommitted_change", lambda core: False)
    planting.replace(voter_changes, "check_one_change", lambda core, voters: None)


def takes_answers_of_older_epochs(planting: Planting) -> None:
    """K12."""

    def is_answer_current(flight: Flight, role: Role) -> bool:
        return isinstance(role, Follower) and flight.purpose is Purpose.FETCH

    planting.replace(following, "is_answer_current", is_answer_current)


def epoch_stays_at_the_log_end(planting: Planting) -> None:
    """K13."""

    def truncate_from_end(self: Any, end_offset: int) -> None:
        starts = self._starts
        while starts and starts[-1] > end_offset:
            starts.pop()
            self._epochs.pop()
            self.version += 1

    planting.replace(EpochTable, "truncate_from_end", truncate_from_end)


def high_watermark_before_the_cut(planting: Planting) -> None:
    """K14: one answer's high watermark and its divergence are taken in the wrong order."""
    honest = Following.__dict__["_take"]

    def take(self: Any, partition: Any, flight: Flight) -> None:
        if flight.position == self._core.log.log_end_offset:
            self._take_high_watermark(partition.high_watermark)
        honest(self, partition, flight)

    planting.replace(Following, "_take", take)


def users(name: str) -> list[Any]:
    """The modules of raft that hold this function, their own or another's."""
    import headrace.raft.machine
    import headrace.raft.snapshot_download

    known = [core, election, following, invariants, leading, quorum, voter_changes, voting]
    known += [headrace.raft.machine, headrace.raft.snapshot_download]
    return [module for module in known if name in vars(module)]


_DEATHS = frozenset(
    {FaultKind.KILL, FaultKind.KILL_ALL, FaultKind.HUNT, FaultKind.LOOP, FaultKind.BLACKOUT, FaultKind.POWER}
)
_FORKS = frozenset({FaultKind.HUNT, FaultKind.FLAP, FaultKind.ISOLATE, FaultKind.SPLIT, FaultKind.PAUSE})

DEFECTS = (
    Defect(id="K1", what="a vote is answered before it is on disk", plant=vote_not_durable),
    Defect(id="K2", what="the log is not flushed before the next fetch", plant=not_flushed_before_the_fetch, voters=2),
    Defect(id="K3", what="a leader that restarts leads its old epoch on", plant=leads_its_old_epoch_on, faults=_DEATHS),
    Defect(
        id="K4",
        what="counting commits without a record of the own epoch",
        plant=counting_is_enough,
        faults=_FORKS,
        voters=3,
    ),
    Defect(
        id="K5",
        what="a leader counts itself though it is no voter",
        plant=leader_counts_itself,
        changes_voters=True,
        voters=3,
    ),
    Defect(
        id="K6",
        what="a leader stays without hearing a majority",
        plant=never_checks_its_quorum,
        faults=_FORKS,
        voters=2,
    ),
    Defect(id="K7", what="a controller that is no voter does not flush", plant=observer_does_not_flush),
    Defect(
        id="K8",
        what="a log is cut below the high watermark",
        plant=cuts_below_the_high_watermark,
        faults=_FORKS,
        voters=3,
    ),
    Defect(id="K9", what="a snapshot's name is one too low", plant=snapshot_is_named_too_low),
    Defect(id="K10", what="a snapshot shows before it is on disk", plant=snapshot_shows_too_early),
    Defect(
        id="K11", what="two changes of voters at once", plant=two_voter_changes_at_once, changes_voters=True, voters=3
    ),
    Defect(
        id="K12",
        what="a follower appends the answer of an older epoch",
        plant=takes_answers_of_older_epochs,
        faults=frozenset({FaultKind.LATE_ANSWERS}),
        voters=3,
    ),
    Defect(
        id="K13",
        what="the epoch table is not cut at the log end",
        plant=epoch_stays_at_the_log_end,
        faults=_FORKS,
        voters=3,
    ),
    Defect(
        id="K14",
        what="the high watermark is taken before the truncation",
        plant=high_watermark_before_the_cut,
        faults=_FORKS,
        voters=3,
    ),
)
