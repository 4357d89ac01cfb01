"""Changes of the voters by a leader.

    AddRaftVoter     checks -> ApiVersions of the new voter -> it is caught up -> VotersRecord -> committed by the new majority -> answer
    RemoveRaftVoter  checks -> VotersRecord -> committed -> answer; a leader that removed itself then resigns
    UpdateRaftVoter  checks -> VotersRecord -> answer; with kraft.version 0 only noted, for the upgrade
    kraft.version    0 -> 1: every voter has told its end points and levels -> KRaftVersionRecord and VotersRecord in one batch

One change at a time: a change waits for the one before it to be committed, or is refused (R17, K11).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.core.peers import Destination
from headrace.raft.events import AnswerKRaftVersion, AnswerRaftRequest
from headrace.raft.invariants import RaftInvariantBroken
from headrace.raft.messages import end_points_of, own_voter
from headrace.raft.outbox import Flight, Purpose
from headrace.raft.roles import Leader
from headrace.raft.serving import leader_error
from headrace.raft.voters import SUPPORTED_KRAFT_VERSION, Voter, VoterSet
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from headrace.wire.messages.update_raft_voter import CurrentLeader, UpdateRaftVoterRequest, UpdateRaftVoterResponse

if TYPE_CHECKING:
    from headrace.raft.core import RaftCore
    from headrace.raft.events import KRaftVersionRequested, RaftRequestArrived
    from headrace.raft.leading import Leading

FEATURE = "kraft.version"

MOST_WAIT_MS = 60_000
"""However long who asks would wait: while a change is pending there can be no other. Kafka's clients give up after as long by default."""


@dataclass(slots=True, kw_only=True)
class PendingChange:
    """A change that somebody waits for. `offset` is that of its VotersRecord, -1 while it is not written."""

    token: int
    is_addition: bool
    deadline_ms: int
    voter: Voter
    to: Destination | None = None
    has_versions: bool = False
    offset: int = -1
    acks_early: bool = False
    is_answered: bool = False


class VoterChanges:
    """The leader's handling of voter changes. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore, leading: Leading, *, resign: Callable[[], None]) -> None:
        """`resign` is called once the leader's own removal is committed."""
        self._core = core
        self._leading = leading
        self._resign = resign
        self.pending: PendingChange | None = None
        self._told: dict[int, Voter] = {}

    # Requests

    def add(self, event: RaftRequestArrived, request: AddRaftVoterRequest) -> AddRaftVoterResponse | None:
        """None: the answer comes later (B-R24)."""
        core = self._core
        error, message = self._refusal(request.cluster_id)
        voter = Voter(
            voter_id=request.voter_id,
            directory_id=request.voter_directory_id,
            end_points=end_points_of(request.listeners),
        )
        if error is ErrorCode.NONE:
            error, message = self._addition_refusal(voter)
        if error is not ErrorCode.NONE:
            return AddRaftVoterResponse(error_code=error, error_message=message)
        to = core.destination(voter.voter_id, voter.end_points)
        wait = max(1, request.timeout_ms or core.config.request_timeout_ms)
        self.pending = PendingChange(
            token=event.token,
            is_addition=True,
            deadline_ms=core.now_ms + min(wait, MOST_WAIT_MS),
            voter=voter,
            to=to,
            acks_early=not request.ack_when_committed,
        )
        self.poll()
        return None

    def _addition_refusal(self, voter: Voter) -> tuple[ErrorCode, str | None]:
        core = self._core
        if voter.voter_id < 0 or voter.directory_id == ZERO_UUID:
            return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
        if all(each.name != core.config.listener for each in voter.end_points):
            return ErrorCode.INVALID_REQUEST, (
                f"Add voter request didn't include the endpoint for the default listener {core.config.listener}"
            )
        error, message = self._change_refusal("adding")
        if error is ErrorCode.NONE and core.voters.find(voter.voter_id) is not None:
            return ErrorCode.DUPLICATE_VOTER, (
                f"The voter id for {_name(voter)} is already part of the set of voters {_names(core.voters)}."
            )
        return error, message

    def remove(self, event: RaftRequestArrived, request: RemoveRaftVoterRequest) -> RemoveRaftVoterResponse | None:
        """None: the answer comes later (B-R25)."""
        core = self._core
        error, message = self._refusal(request.cluster_id)
        if error is ErrorCode.NONE and (request.voter_id < 0 or request.voter_directory_id == ZERO_UUID):
            error, message = ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter"
        if error is ErrorCode.NONE:
            error, message = self._change_refusal("removing")
        voter = core.voters.find(request.voter_id)
        if error is ErrorCode.NONE and (
            voter is None or voter.directory_id != request.voter_directory_id or len(core.voters.voters) == 1
        ):
            error = ErrorCode.VOTER_NOT_FOUND
            message = (
                f"Cannot remove voter {request.voter_id} ({request.voter_directory_id}) from the set of voters "
                f"{_names(core.voters)}"
            )
        if error is not ErrorCode.NONE or voter is None:
            return RemoveRaftVoterResponse(error_code=error, error_message=message)
        self.pending = PendingChange(
            token=event.token,
            is_addition=False,
            deadline_ms=core.now_ms + core.config.request_timeout_ms,
            voter=voter,
        )
        self.pending.offset = self._write(core.voters.without(voter.voter_id))
        self._leading.advance()
        return None

    def update(self, event: RaftRequestArrived, request: UpdateRaftVoterRequest) -> UpdateRaftVoterResponse:
        """New end points or versions of a voter go into the voters' record (B-R26)."""
        error = self._update_error(request)
        if error is ErrorCode.NONE:
            levels = request.kraft_version_feature
            self._update(
                Voter(
                    voter_id=request.voter_id,
                    directory_id=request.voter_directory_id,
                    end_points=end_points_of(request.listeners),
                    min_kraft_version=levels.min_supported_version,
                    max_kraft_version=levels.max_supported_version,
                )
            )
        hint = self._core.hint(event.listener)
        leader = CurrentLeader(leader_id=hint.leader_id, leader_epoch=hint.leader_epoch)
        if hint.end_point is not None:
            leader = replace_leader(leader, hint.end_point.host, hint.end_point.port)
        return UpdateRaftVoterResponse(error_code=error, current_leader=leader)

    def _update_error(self, request: UpdateRaftVoterRequest) -> ErrorCode:
        core = self._core
        if request.cluster_id is not None and request.cluster_id != core.config.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        error = leader_error(core.role, request.current_leader_epoch, is_shutting_down=core.is_shutting_down)
        if error is not ErrorCode.NONE:
            return error
        levels = request.kraft_version_feature
        is_range = 0 <= levels.min_supported_version <= levels.max_supported_version
        is_listed = any(each.name == core.config.listener for each in request.listeners)
        if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID or not is_range or not is_listed:
            return ErrorCode.INVALID_REQUEST
        if core.voters.kraft_version == 0:
            is_known = core.voters.is_voter(request.voter_id, request.voter_directory_id)
            return ErrorCode.NONE if is_known else ErrorCode.VOTER_NOT_FOUND
        error, _ = self._change_refusal("updating")
        if error is not ErrorCode.NONE:
            return error
        if not levels.min_supported_version <= core.voters.kraft_version <= levels.max_supported_version:
            return ErrorCode.INVALID_REQUEST
        is_voter = core.voters.is_voter(request.voter_id, request.voter_directory_id)
        return ErrorCode.NONE if is_voter else ErrorCode.VOTER_NOT_FOUND

    def _update(self, voter: Voter) -> None:
        core = self._core
        if core.voters.kraft_version == 0:
            self._told[voter.voter_id] = voter
        elif core.voters.find(voter.voter_id) != voter:
            self._write(core.voters.with_voter(voter))

    def upgrade(self, event: KRaftVersionRequested) -> AnswerKRaftVersion:
        """UpdateFeatures asks for a level of kraft.version; 0 -> 1 is the only way there is."""
        error, message = self._upgrade_refusal(event.level)
        if error is ErrorCode.NONE and not event.validate_only and event.level > self._core.voters.kraft_version:
            known = {**self._told, self._core.config.node_id: own_voter(self._core.config)}
            voters = tuple(known[each.voter_id] for each in self._core.voters.voters)
            self._leading.write_voters(VoterSet(voters=voters, kraft_version=event.level), with_level=True)
        return AnswerKRaftVersion(token=event.token, error=error, message=message)

    def _upgrade_refusal(self, level: int) -> tuple[ErrorCode, str | None]:
        core = self._core
        role, current = core.role, core.voters.kraft_version
        if not isinstance(role, Leader):
            return ErrorCode.NOT_CONTROLLER, None
        if not SUPPORTED_KRAFT_VERSION[0] <= level <= SUPPORTED_KRAFT_VERSION[1]:
            return ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {FEATURE}."
        if level < current:
            return (
                ErrorCode.INVALID_UPDATE_VERSION,
                f"Downgrading the feature {FEATURE} from {current} to {level} is not possible.",
            )
        if level == current:
            return ErrorCode.NONE, None
        if not role.is_claimed:
            return ErrorCode.REQUEST_TIMED_OUT, "The leader has not committed a record in its epoch yet"
        known = {**self._told, core.config.node_id: own_voter(core.config)}
        for voter in core.voters.voters:
            told = known.get(voter.voter_id)
            if told is None or not told.supports(level):
                return (
                    ErrorCode.INVALID_UPDATE_VERSION,
                    f"Unable to upgrade {FEATURE} to {level}: voter {voter.voter_id} has not told this leader yet that it "
                    "supports it",
                )
        return ErrorCode.NONE, None

    # Checks

    def _refusal(self, cluster_id: str | None) -> tuple[ErrorCode, str | None]:
        """The request is of another cluster, or this node does not lead."""
        core = self._core
        if cluster_id is not None and cluster_id != core.config.cluster_id:
            return ErrorCode.INCONSISTENT_CLUSTER_ID, (
                f'The given id "{cluster_id}" doesn\'t match the cluster id "{core.config.cluster_id}"'
            )
        error = leader_error(core.role, core.role.epoch, is_shutting_down=core.is_shutting_down)
        return error, None

    def _change_refusal(self, doing: str) -> tuple[ErrorCode, str | None]:
        """The order of Kafka's checks (B-R24)."""
        core = self._core
        role = core.role
        if self.pending is not None:
            return (
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        if not isinstance(role, Leader) or not role.is_claimed:
            return (
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter changes",
            )
        if core.voters.kraft_version == 0:
            return (
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {doing} voter because the {FEATURE} feature is 0",
            )
        if has_uncommitted_change(core):
            return (
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for voters to commit the latest voter change at "
                f"{core.history.latest.offset} with HWM {core.log.high_watermark}",
            )
        return ErrorCode.NONE, None

    # Progress

    def poll(self) -> None:
        """Go on with an addition, and end what took too long."""
        core = self._core
        pending = self.pending
        if pending is None:
            return
        if core.now_ms >= pending.deadline_ms:
            self._finish(ErrorCode.REQUEST_TIMED_OUT, self._late(pending))
            return
        core.wake_at(pending.deadline_ms)
        if not pending.is_addition or pending.offset >= 0:
            return
        if not pending.has_versions:
            self._ask_versions(pending)
            return
        progress = self._leading.replicas.find(pending.voter.voter_id, pending.voter.directory_id, core.voters)
        if progress is not None and progress.is_caught_up(core.now_ms):
            pending.offset = self._write(core.voters.with_voter(pending.voter))
            if pending.acks_early:
                self._answer(pending, ErrorCode.NONE, None)

    def _ask_versions(self, pending: PendingChange) -> None:
        core = self._core
        to = pending.to
        assert to is not None, "an addition has the default listener's end point"
        if core.outbox.is_busy(Purpose.ASK_VERSIONS, to):
            return
        ready = core.outbox.ready_at(to)
        if core.now_ms < ready:
            core.wake_at(ready)
            return
        # Nameless software is refused with INVALID_REQUEST (KIP-511).
        request = ApiVersionsRequest(client_software_name="headrace", client_software_version="0.1.0")
        core.reveal(core.outbox.send(Purpose.ASK_VERSIONS, to, request, epoch=core.role.epoch))

    def versions_answered(self, flight: Flight, response: ApiVersionsResponse) -> None:
        """The new voter said what it can work with; it must know the level that is in force."""
        core = self._core
        pending = self.pending
        if pending is None or pending.to != flight.to or pending.has_versions or flight.epoch != core.role.epoch:
            return
        if response.error_code != ErrorCode.NONE:
            self._finish(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Aborted add voter operation for since API_VERSIONS returned an error {response.error_code}",
            )
            return
        found = next((each for each in response.supported_features if each.name == FEATURE), None)
        low, high = (0, 0) if found is None else (found.min_version, found.max_version)
        if not low <= core.voters.kraft_version <= high:
            self._finish(
                ErrorCode.INVALID_REQUEST,
                f"Aborted add voter operation for {_name(pending.voter)} since the {FEATURE} range (min: {low}, max: {high}) "
                f"doesn't support the finalized version {core.voters.kraft_version}",
            )
            return
        pending.voter = replace(pending.voter, min_kraft_version=low, max_kraft_version=high)
        pending.has_versions = True

    def committed(self) -> None:
        """The high watermark moved."""
        core = self._core
        pending = self.pending
        if pending is not None and 0 <= pending.offset < core.log.high_watermark:
            self._finish(ErrorCode.NONE, None)
        is_own_removal = isinstance(core.role, Leader) and not core.is_voter and not has_uncommitted_change(core)
        if is_own_removal:
            self._resign()

    def leadership_lost(self) -> None:
        """The change may or may not come to be: whoever waits is told to look elsewhere."""
        self._told.clear()
        if self.pending is not None:
            self._finish(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)

    def _write(self, voters: VoterSet) -> int:
        core = self._core
        check_one_change(core, voters)
        return self._leading.write_voters(voters)

    def _late(self, pending: PendingChange) -> str:
        if pending.offset >= 0:
            return "Request timed out waiting for the voters to commit the change"
        if not pending.has_versions:
            return f"New voter {_name(pending.voter)} is not ready to receive requests"
        return f"Aborted add voter operation for {_name(pending.voter)} since it is lagging behind"

    def _finish(self, error: ErrorCode, message: str | None) -> None:
        pending = self.pending
        assert pending is not None
        self.pending = None
        self._answer(pending, error, message)

    def _answer(self, pending: PendingChange, error: ErrorCode, message: str | None) -> None:
        if pending.is_answered:
            return
        pending.is_answered = True
        response: AddRaftVoterResponse | RemoveRaftVoterResponse
        if pending.is_addition:
            response = AddRaftVoterResponse(error_code=error, error_message=message)
        else:
            response = RemoveRaftVoterResponse(error_code=error, error_message=message)
        self._core.reveal(AnswerRaftRequest(token=pending.token, response=response))


def has_uncommitted_change(core: RaftCore) -> bool:
    """The newest voters are not committed yet (R17, K11)."""
    return core.history.uncommitted(core.log.high_watermark) is not None


def check_one_change(core: RaftCore, voters: VoterSet) -> None:
    """Old and new voters differ by one replica (R17). Raises RaftInvariantBroken."""
    if not voters.differs_by_one(core.voters):
        raise RaftInvariantBroken(f"voters {_names(core.voters)} may not become {_names(voters)} in one step (R17)")


def replace_leader(leader: CurrentLeader, host: str, port: int) -> CurrentLeader:
    """The same with an address."""
    return CurrentLeader(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch, host=host, port=port)


def _name(voter: Voter) -> str:
    return f"{voter.voter_id} ({voter.directory_id})"


def _names(voters: VoterSet) -> str:
    return f"[{', '.join(_name(each) for each in voters.voters)}]"
