"""The download of the leader's snapshot by a follower that is too far behind.

    begin -> pieces, one request at a time, appended to a part -> FinishSnapshot (checked, synced, named) -> the log begins at its end

A piece that got lost is asked for again where the part ends. Another leader, another epoch, a snapshot that is gone, or a part that
turns out to be damaged: the part is dropped, and the next fetch says what to do (B-S06..B-S08).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.core.error_code import ErrorCode
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import Destination
from headrace.raft.events import FinishSnapshot, LoadSnapshot
from headrace.raft.history import voters_of_snapshot
from headrace.raft.messages import fetch_snapshot_request
from headrace.raft.outbox import Flight, Purpose
from headrace.raft.roles import Follower, Leader
from headrace.raft.voters import VoterEndPoint
from headrace.wire.messages.fetch_snapshot import FetchSnapshotResponse, ResponsePartitionSnapshot

if TYPE_CHECKING:
    from headrace.raft.core import RaftCore
    from headrace.raft.events import SnapshotStored


class SnapshotDownload:
    """The one snapshot that is being fetched. Driven by `RaftNode` and `Following`."""

    def __init__(self, core: RaftCore) -> None:
        self._core = core
        self._wanted: OffsetAndEpoch | None = None
        self.is_finishing = False
        """All bytes are here; the driver checks and syncs them."""

    @property
    def is_active(self) -> bool:
        """A snapshot is being fetched, or finished."""
        return self._wanted is not None

    def begin(self, snapshot_id: OffsetAndEpoch) -> bool:
        """The leader says that this snapshot is what this node needs. False when it is here already and of no use."""
        core = self._core
        if core.snapshots.size(snapshot_id) is not None:
            return self._replace_log(snapshot_id)  # it is here already, whole
        core.snapshots.drop_part(snapshot_id)
        self._wanted = snapshot_id
        return True

    def stop(self) -> None:
        """Leader or epoch changed: start over cleanly (B-S08). A snapshot that is being finished stays, it is whole."""
        if self._wanted is not None and not self.is_finishing:
            self._core.snapshots.drop_part(self._wanted)
            self._wanted = None

    def poll(self, leader: Destination) -> None:
        """Ask for the next piece."""
        core = self._core
        wanted = self._wanted
        if wanted is None or self.is_finishing or core.outbox.is_busy(Purpose.FETCH_SNAPSHOT, leader):
            return
        position = core.snapshots.part_size(wanted)
        epoch = core.role.epoch
        request = fetch_snapshot_request(core.config, epoch=epoch, snapshot_id=wanted, position=position)
        core.reveal(core.outbox.send(Purpose.FETCH_SNAPSHOT, leader, request, epoch=epoch, position=position))

    def answered(self, flight: Flight, response: FetchSnapshotResponse) -> bool:
        """A piece, or why there is none. True when the leader served us."""
        core = self._core
        if response.error_code != ErrorCode.NONE or not response.topics or not response.topics[0].partitions:
            core.outbox.leave_alone(flight.to, core.now_ms)
            return False
        piece = response.topics[0].partitions[0]
        leader = piece.current_leader
        nodes = [each for each in response.node_endpoints if each.node_id == leader.leader_id]
        core.heed_response(
            flight.to,
            leader.leader_epoch,
            leader.leader_id,
            tuple(VoterEndPoint(core.config.listener, each.host, each.port) for each in nodes),
        )
        role = core.role
        if not isinstance(role, Follower) or flight.epoch != role.epoch or flight.to.node_id != role.leader_id:
            return False
        if self._wanted is None or self.is_finishing:
            return False
        return self._take(self._wanted, flight, piece)

    def _take(self, wanted: OffsetAndEpoch, flight: Flight, piece: ResponsePartitionSnapshot) -> bool:
        core = self._core
        snapshot_id = OffsetAndEpoch(piece.snapshot_id.end_offset, piece.snapshot_id.epoch)
        data = bytes(piece.unaligned_records or b"")
        is_fitting = snapshot_id == wanted and piece.position == flight.position == core.snapshots.part_size(wanted)
        if piece.error_code != ErrorCode.NONE or not is_fitting or not data:
            self.stop()
            core.outbox.leave_alone(flight.to, core.now_ms)
            return False
        core.snapshots.write_part(wanted, piece.position, data)
        if piece.position + len(data) >= piece.size:
            self.is_finishing = True
            core.emit(FinishSnapshot(snapshot_id=wanted))
        return True

    def stored(self, event: SnapshotStored) -> None:
        """The driver finished the part, or found it damaged."""
        self.is_finishing = False
        self._wanted = None
        if event.is_sound:
            self._replace_log(event.snapshot_id)

    def _replace_log(self, snapshot_id: OffsetAndEpoch) -> bool:
        """The log begins anew at the snapshot's end, unless this node leads (R16) or has come further meanwhile."""
        core = self._core
        if isinstance(core.role, Leader) or snapshot_id.offset <= core.log.high_watermark:
            return False
        voters = voters_of_snapshot(core.snapshots, snapshot_id, directory=core.log.directory)
        core.start_log_at(snapshot_id)
        core.voters_loaded(snapshot_id, voters)
        core.log.advance_high_watermark(snapshot_id.offset)
        core.emit(LoadSnapshot(snapshot_id=snapshot_id))
        return True
