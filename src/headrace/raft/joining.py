"""What a follower tells the leader about itself: where it listens now, or that it wants to be a voter.

Once it followed a leader for the fetch timeout, a voter sends UpdateRaftVoter when what the log says of it is out of date (S4-15), and
with kraft.version 0 once an epoch, so that the leader can upgrade; a controller that is no voter and may join sends AddRaftVoter, or
first RemoveRaftVoter for the voter that had its id on another disk (KIP-853).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.peers import Destination
from headrace.raft.messages import join_request, own_voter, remove_former_request, update_voter_request
from headrace.raft.outbox import Flight, Purpose
from headrace.raft.roles import Follower
from headrace.raft.voters import VoterEndPoint
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterResponse

if TYPE_CHECKING:
    from headrace.raft.core import RaftCore


class Joining:
    """The requests of a follower about its own place in the quorum. Driven by `RaftNode`."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._due_ms = 0
        self._is_told = False

    def began(self) -> None:
        """A leader is followed."""
        self._due_ms = self._core.now_ms + self._core.config.fetch_timeout_ms
        self._is_told = False

    def poll(self) -> None:
        """Send what is due."""
        core = self._core
        if not isinstance(core.role, Follower) or not core.config.is_controller or core.is_shutting_down:
            return
        purpose = self._purpose()
        to = core.leader_destination()
        if purpose is None or to is None:
            return
        if core.now_ms < self._due_ms:
            core.wake_at(self._due_ms)
            return
        self._due_ms = core.now_ms + core.config.fetch_timeout_ms
        core.wake_at(self._due_ms)
        if not core.outbox.is_busy(purpose, to):
            self._send(purpose, to)

    def _purpose(self) -> Purpose | None:
        core, config = self._core, self._core.config
        if core.is_voter:
            if core.voters.kraft_version == 0:
                return None if self._is_told else Purpose.UPDATE_VOTER
            is_current = core.voters.find(config.node_id) == own_voter(config)
            return None if is_current or self._is_told else Purpose.UPDATE_VOTER
        may_join = config.auto_join and core.voters.kraft_version > 0 and core.role_has_fetched()
        return Purpose.JOIN if may_join else None

    def _send(self, purpose: Purpose, to: Destination) -> None:
        core, config = self._core, self._core.config
        epoch = core.role.epoch
        if purpose is Purpose.UPDATE_VOTER:
            request = update_voter_request(config, epoch=epoch)
            core.reveal(core.outbox.send(purpose, to, request, epoch=epoch))
            return
        former = core.voters.find(config.node_id)
        if former is None:
            core.reveal(core.outbox.send(purpose, to, join_request(config), epoch=epoch))
        else:
            core.reveal(core.outbox.send(purpose, to, remove_former_request(config, former), epoch=epoch))

    def updated(self, flight: Flight, response: UpdateRaftVoterResponse) -> None:
        """The leader took the update, or says who leads."""
        core = self._core
        leader = response.current_leader
        end_points: tuple[VoterEndPoint, ...] = ()
        if leader.leader_id >= 0 and leader.host:
            end_points = (VoterEndPoint(core.config.listener, leader.host, leader.port),)
        core.heed_response(flight.to, leader.leader_epoch, leader.leader_id, end_points)
        if response.error_code == ErrorCode.NONE and flight.epoch == core.role.epoch:
            self._is_told = True
