"""A follower of the leader's log, and when it gives the leader up.

One fetch at a time. What it brought is written, and by a controller flushed, before the next one says that it is held (R12, B-R14). A
log that forked is cut where the leader's history left it (B-R11); one that is too far behind is replaced by a snapshot.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError, StorageFault
from headrace.core.ids import METADATA_TOPIC_ID
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import Destination, SendFailure
from headrace.log.ports import AppendRefused
from headrace.raft import serving
from headrace.raft.election import successor_backoff
from headrace.raft.events import HighWatermarkAdvanced
from headrace.raft.messages import end_points_of, fetch_request
from headrace.raft.outbox import Flight, Purpose
from headrace.raft.roles import Follower, Leader, Resigned, Role, Unattached
from headrace.raft.voters import VoterEndPoint
from headrace.records.batch import whole_batches
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from headrace.wire.messages.fetch import FetchResponse, PartitionData

if TYPE_CHECKING:
    from headrace.log.ports import PartitionLogPort
    from headrace.raft.core import RaftCore
    from headrace.raft.events import RaftRequestArrived
    from headrace.raft.snapshot_download import SnapshotDownload

MAX_SEARCH_WAIT_MS = 250
"""A node that follows nobody asks somebody at least so often who leads."""
MOST_BATCHES = 1_000
"""Of a response so many are written, in a few milliseconds; what is behind them is asked for again."""


class Following:
    """The follower's and the unattached node's side. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore, download: SnapshotDownload, *, on_leader_gone: Callable[[], None]) -> None:
        """`on_leader_gone` begins a pre-vote."""
        self._core = core
        self._download = download
        self._on_leader_gone = on_leader_gone
        self._fetch_deadline_ms = 0
        self._is_told_to_stand = False
        self._searches = 0
        self._search_at_ms = 0

    def began(self) -> None:
        """A new leader, or the same one found again: it has the fetch timeout to answer."""
        self._fetch_deadline_ms = self._core.now_ms + self._core.config.fetch_timeout_ms
        self._is_told_to_stand = False
        self._searches = 0
        self._search_at_ms = 0

    def poll(self) -> None:
        """Fetch, unless something must come first."""
        core = self._core
        match core.role:
            case Follower():
                self._poll_follower(core.role)
            case Unattached() | Resigned():
                if not core.is_shutting_down:
                    self._find_leader()
            case _:
                pass

    def _poll_follower(self, role: Follower) -> None:
        core = self._core
        if core.may_stand and not core.is_shutting_down:
            if core.now_ms >= self._fetch_deadline_ms and not self._download.is_finishing:
                self._on_leader_gone()
                return
            core.wake_at(self._fetch_deadline_ms)
        elif role.has_fetched:
            self._watch_as_observer(role)
        if must_flush_first(core):
            core.flush()
            return
        to = core.leader_destination()
        if to is None:
            self._find_leader()
            return
        ready = core.outbox.ready_at(to)
        if core.now_ms < ready:
            core.wake_at(ready)
            self._find_leader()
        elif self._download.is_active:
            self._download.poll(to)
        elif not core.outbox.is_busy(Purpose.FETCH, to) and not core.is_storing:
            # what is held back until then would name an end that a late answer may have cut meanwhile (R12)
            self._send(Purpose.FETCH, to)
        if ready > 0 and not core.is_voter:
            self._find_leader()  # a leader that was silent may be so again, and nobody tells an observer of the next one

    def _watch_as_observer(self, role: Follower) -> None:
        """Who is no voter elects nobody, but it may be asked to (KIP-853): it must know when the leader serves it no more."""
        core = self._core
        if core.now_ms >= self._fetch_deadline_ms:
            core.become(replace(role, has_fetched=False))
        else:
            core.wake_at(self._fetch_deadline_ms)

    def _send(self, purpose: Purpose, to: Destination) -> None:
        core = self._core
        at = fetch_position(core)
        high_watermark = core.log.high_watermark or -1
        request = fetch_request(core.config, epoch=core.role.epoch, at=at, high_watermark=high_watermark)
        core.reveal(core.outbox.send(purpose, to, request, epoch=core.role.epoch, position=at.offset))

    # Whom to ask when the leader is not known, or does not answer

    def _find_leader(self) -> None:
        """Ask a node that may know, one at a time, at random; again after the backoff (S4-20, S4-29..S4-34)."""
        core = self._core
        if must_flush_first(core):
            core.flush()
            return
        if core.is_storing:
            return  # as a fetch of the leader
        choices = leader_finders(core)
        silent = core.leader_destination()
        choices = [each for each in choices if silent is None or each[1:] != silent[1:]] or choices
        if not choices or any(core.outbox.is_busy(Purpose.FIND_LEADER, each) for each in choices):
            return
        if core.now_ms < self._search_at_ms:
            core.wake_at(self._search_at_ms)
            return
        ready = [each for each in choices if core.outbox.ready_at(each) <= core.now_ms]
        if ready:
            self._send(Purpose.FIND_LEADER, ready[core.rng.randrange(0, len(ready))])
        else:
            core.wake_at(min(core.outbox.ready_at(each) for each in choices))

    def _search_later(self) -> None:
        """Who was asked knows nobody: ask the next one after retry.backoff.ms, doubled each time up to a quarter of a second."""
        core = self._core
        wait = min(core.config.retry_backoff_ms << min(self._searches, 8), MAX_SEARCH_WAIT_MS)
        self._search_at_ms = core.now_ms + int(wait * (0.8 + 0.4 * core.rng.random()))
        self._searches += 1

    # Answers

    def answered(self, flight: Flight, response: FetchResponse) -> None:
        """The leader, or whoever was asked for it, answered a fetch."""
        core = self._core
        partition = _partition_of(response)
        if partition is None:
            core.outbox.leave_alone(flight.to, core.now_ms)
            return
        leader = partition.current_leader
        nodes = [each for each in response.node_endpoints if each.node_id == leader.leader_id]
        end_points = tuple(VoterEndPoint(core.config.listener, each.host, each.port) for each in nodes)
        core.heed_response(flight.to, leader.leader_epoch, leader.leader_id, end_points)
        if not is_answer_current(flight, core.role):
            if flight.purpose is Purpose.FIND_LEADER:
                self._searched(flight, partition)
            return
        if partition.error_code != ErrorCode.NONE:
            core.outbox.leave_alone(flight.to, core.now_ms)
            return
        self._take(partition, flight)

    def _searched(self, flight: Flight, partition: PartitionData) -> None:
        """Whom to follow is all that is taken; but a leader that answers well is alive, whatever it was asked for (KIP-996)."""
        if partition.error_code == ErrorCode.NONE and is_leaders(flight, self._core.role):
            self.leader_served()
        else:
            self._search_later()

    def _take(self, partition: PartitionData, flight: Flight) -> None:
        core = self._core
        if flight.position != core.log.log_end_offset:
            return  # what it answers is not where the log ends any more
        if partition.diverging_epoch.epoch >= 0:
            self._truncate(OffsetAndEpoch(partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch))
            if core.log.log_end_offset == flight.position:
                core.outbox.leave_alone(
                    flight.to, core.now_ms
                )  # nothing to cut: asked again at once it would say the same
                return
        elif partition.snapshot_id.epoch >= 0 or partition.snapshot_id.end_offset >= 0:
            wanted = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
            if min(wanted) < 0 or not self._download.begin(wanted):
                core.outbox.leave_alone(flight.to, core.now_ms)
                return
        else:
            if partition.records and not self._append(partition.records):
                core.outbox.leave_alone(flight.to, core.now_ms)
                return
            self._take_high_watermark(partition.high_watermark)
        self.leader_served()

    def leader_served(self) -> None:
        """The leader answered well: it is alive."""
        core = self._core
        if not self._is_told_to_stand:
            self._fetch_deadline_ms = core.now_ms + core.config.fetch_timeout_ms
        if isinstance(core.role, Follower) and not core.role.has_fetched:
            core.become(replace(core.role, has_fetched=True))

    def _append(self, records: bytes | memoryview) -> bool:
        """Write the leader's batches byte for byte; False when the first one does not fit and nothing was written (R20)."""
        core = self._core
        data = memoryview(records)
        with suppress(PeerError):  # the log says what is wrong with the first batch
            data = data[: whole_batches(data, most=MOST_BATCHES)[1]]
        before = core.log.log_end_offset
        appended = core.log.append_as_follower(data, leader_epoch=core.role.epoch, now_ms=core.now_ms)
        if isinstance(appended, AppendRefused):
            if appended.error is ErrorCode.KAFKA_STORAGE_ERROR:
                raise StorageFault(appended.message, directory=core.log.directory)
            return False
        if core.log.log_end_offset > before:
            core.voters_found(data, upto=core.log.log_end_offset)
        return True

    def _take_high_watermark(self, leaders: int) -> None:
        """What the leader has committed, as far as it is here; never back (R10; B-R12)."""
        core = self._core
        to = min(leaders, core.log.log_end_offset)
        if to > core.log.high_watermark:
            core.log.advance_high_watermark(to)
            core.emit(HighWatermarkAdvanced(to=to))

    def _truncate(self, leaders: OffsetAndEpoch) -> None:
        """Cut to where both logs agree, and fetch again; what the leader committed is not taken from this answer (K14; B-R11)."""
        core = self._core
        core.cut(truncation_offset(core.log, leaders))

    def failed(self, flight: Flight, failure: SendFailure) -> None:
        """A fetch had no answer. A host that refuses connections tells that the leader is gone (design: failure detection)."""
        role = self._core.role
        if (
            failure is SendFailure.REFUSED
            and isinstance(role, Follower)
            and flight.epoch == role.epoch
            and flight.to.node_id == role.leader_id
        ):
            self.leader_gone()

    def leader_gone(self) -> None:
        """The leader's process is dead for sure: a voter asks for votes at once."""
        core = self._core
        role = core.role
        if not core.config.elect_on_refused or core.is_shutting_down or not isinstance(role, Follower):
            return
        if core.may_stand:
            self._on_leader_gone()
        elif role.has_fetched:
            core.become(replace(role, has_fetched=False))

    # What leaders tell

    def epoch_begun(self, event: RaftRequestArrived, request: BeginQuorumEpochRequest) -> BeginQuorumEpochResponse:
        """Somebody says that it leads (B-R07)."""
        core = self._core
        error = serving.check_single_partition(core.config.cluster_id, request.cluster_id, request.topics)
        if error is not ErrorCode.NONE:
            return BeginQuorumEpochResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        error = self._leader_error(asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            error = serving.own_key_error(core.config, request.voter_id, asked.voter_directory_id)
        if error is ErrorCode.NONE:
            error = self._claim_error(asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            core.outbox.heard_from(asked.leader_id)
            core.heed(asked.leader_epoch, asked.leader_id, end_points_of(request.leader_endpoints))
        return serving.begin_epoch_answer(error, core.hint(event.listener), version=event.api_version)

    def epoch_ended(self, event: RaftRequestArrived, request: EndQuorumEpochRequest) -> EndQuorumEpochResponse:
        """The leader resigned; its first successor asks for votes at once, the others later and later (B-R08)."""
        core = self._core
        error = serving.check_single_partition(core.config.cluster_id, request.cluster_id, request.topics)
        if error is not ErrorCode.NONE:
            return EndQuorumEpochResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        error = self._leader_error(asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            error = self._claim_error(asked.leader_id, asked.leader_epoch)
        if error is ErrorCode.NONE:
            core.outbox.heard_from(asked.leader_id)
            core.heed(asked.leader_epoch, asked.leader_id, end_points_of(request.leader_endpoints))
            if isinstance(core.role, Follower) and core.role.leader_id == asked.leader_id:
                named: list[tuple[int, object]] = [
                    (each.candidate_id, each.candidate_directory_id) for each in asked.preferred_candidates
                ]
                self._stand_later(named or [(each, None) for each in asked.preferred_successors])
        return serving.end_epoch_answer(error, core.hint(event.listener), version=event.api_version)

    def _stand_later(self, successors: list[tuple[int, object]]) -> None:
        core = self._core
        if isinstance(core.role, Follower) and core.role.has_fetched:
            core.become(replace(core.role, has_fetched=False))
        if not core.may_stand:
            return
        position = serving.position_among(successors, core.config.node_id, core.config.directory_id)
        wait = successor_backoff(position, len(successors), max_ms=core.config.election_backoff_max_ms)
        self._fetch_deadline_ms = core.now_ms + wait
        self._is_told_to_stand = True

    def _leader_error(self, leader_id: int, epoch: int) -> ErrorCode:
        core = self._core
        if epoch < core.role.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        is_own_epoch = isinstance(core.role, Leader | Resigned) and epoch == core.role.epoch
        if leader_id < 0 or leader_id == core.config.node_id or is_own_epoch:
            return ErrorCode.INVALID_REQUEST
        return ErrorCode.NONE

    def _claim_error(self, leader_id: int, epoch: int) -> ErrorCode:
        """Why it is not believed that `leader_id` leads `epoch`, or led it."""
        core = self._core
        if epoch == core.role.epoch:
            return ErrorCode.INVALID_REQUEST if core.is_other_leader_certain(leader_id) else ErrorCode.NONE
        # Who is no voter for all that is known here may be one since records that this node lacks: without a leader it is heard.
        is_possible = core.may_be_voter(leader_id) or not core.is_led
        is_near = epoch <= core.furthest_epoch()
        return ErrorCode.NONE if is_possible and is_near else ErrorCode.UNKNOWN_LEADER_EPOCH


def is_answer_current(flight: Flight, role: Role) -> bool:
    """An answer counts only in the epoch it was asked in, from the leader it was asked of (R20, K12)."""
    return flight.purpose is Purpose.FETCH and is_leaders(flight, role)


def is_leaders(flight: Flight, role: Role) -> bool:
    """The leader was asked, in its epoch."""
    return isinstance(role, Follower) and flight.epoch == role.epoch and flight.to.node_id == role.leader_id


def must_flush_first(core: RaftCore) -> bool:
    """A controller, voter or not, asks for more only when all it has is on disk (R12, K2, K7)."""
    return core.config.is_controller and not core.is_log_synced


def fetch_position(core: RaftCore) -> OffsetAndEpoch:
    """Where the next fetch begins: the log's end (for a controller all of it is durable by then), and its last epoch."""
    return core.last()


def truncation_offset(log: PartitionLogPort, leaders: OffsetAndEpoch) -> int:
    """The end of what both logs may hold alike, given where the leader says that its epoch at or below ours ended (B-R11).

    From `leaders.offset` on the leader has later epochs, and behind the end of our own epochs up to that one we have others.
    """
    ours = log.end_offset_for_epoch(leaders.epoch)
    return min(log.log_start_offset if ours is None else ours.offset, leaders.offset)


def leader_finders(core: RaftCore) -> list[Destination]:
    """Who may know the leader: the bootstrap servers, and the voters other than this node, but for the leader where it does not answer.

    A request may have told another address of the leader than the log does; nobody may listen there.
    """
    silent = core.leader_destination()
    voters = [
        to
        for each in core.others
        if (to := core.destination(each.voter_id, each.end_points)) is not None and to != silent
    ]
    own = {(each.host, each.port) for each in core.config.end_points}
    servers = [Destination(-1, *each) for each in core.config.bootstrap_servers if tuple(each) not in own]
    return servers + voters


def _partition_of(response: FetchResponse) -> PartitionData | None:
    """The one partition of the answer, None when the answer is an error or about something else."""
    if response.error_code != ErrorCode.NONE or len(response.responses) != 1:
        return None
    topic = response.responses[0]
    is_ours = topic.topic == serving.METADATA_TOPIC or topic.topic_id == METADATA_TOPIC_ID
    return topic.partitions[0] if is_ours and len(topic.partitions) == 1 else None
