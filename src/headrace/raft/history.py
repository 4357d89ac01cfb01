"""Which voters do the node's own snapshot and log name?

With kraft.version 1 the voters stand in control records; the newest ones count, committed or not (KIP-853). Read once, at the start.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.core.errors import OperatorError, PeerError, StorageFault
from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import OutOfRange, PartitionLogPort
from headrace.raft.replication import SnapshotsPort
from headrace.raft.snapshots import Snapshot, read_snapshot
from headrace.raft.voters import VoterSet, decode_kraft_version, decode_voters
from headrace.records.batch import crc_is_right, iter_batches
from headrace.records.control import ControlType, control_type
from headrace.records.record import read_records

_CHUNK_BYTES = 4_194_304


class FoundVoters(NamedTuple):
    """The voters, and whether only the local 0-0 snapshot names them, so that the first leader must write them."""

    voters: VoterSet
    only_in_zero_snapshot: bool


def load_snapshot(snapshots: SnapshotsPort, snapshot_id: OffsetAndEpoch) -> Snapshot:
    """A whole snapshot. Raises StorageFault: damaged or gone (B-S11)."""
    data = snapshots.read(snapshot_id, 0, snapshots.size(snapshot_id) or 0)
    name = f"{snapshot_id.offset}-{snapshot_id.epoch}"
    if data is None:
        raise StorageFault(f"snapshot {name} is gone")
    return read_snapshot(data, name=name)


def find_voters(log: PartitionLogPort, snapshots: SnapshotsPort, static: VoterSet) -> FoundVoters:
    """The newest voters that snapshot and log name, or the static ones. Raises StorageFault for damage."""
    voters = static
    latest = snapshots.latest()
    start = log.log_start_offset
    only_in_zero = False
    if latest is not None:
        snapshot = load_snapshot(snapshots, latest)
        if snapshot.kraft_version > 0 and snapshot.voters is not None:
            voters = snapshot.voters
            only_in_zero = latest.offset == 0
        start = max(start, latest.offset)
    from_log = _voters_in_log(log, start)
    if from_log is not None:
        return FoundVoters(from_log, only_in_zero_snapshot=False)
    return FoundVoters(voters, only_in_zero_snapshot=only_in_zero)


def _voters_in_log(log: PartitionLogPort, start: int) -> VoterSet | None:
    found: VoterSet | None = None
    offset, end = start, log.log_end_offset
    while offset < end:
        data = log.read_bytes(offset, _CHUNK_BYTES, upper_offset=end, min_one_batch=True)
        if isinstance(data, OutOfRange) or not data:
            break
        try:
            for position, header in iter_batches(data):
                offset = header.next_offset
                if header.is_control and crc_is_right(data, header, position):
                    found = _voters_in_batch(data, position) or found
        except PeerError as error:
            raise StorageFault(f"the metadata log is damaged behind offset {offset}: {error.message}") from error
    return found


def _voters_in_batch(data: bytes, position: int) -> VoterSet | None:
    found: VoterSet | None = None
    for record in read_records(data, position):
        kind = control_type(record.key)
        if kind is ControlType.KRAFT_VOTERS:
            found = decode_voters(record.value or b"")
        elif kind is ControlType.KRAFT_VERSION and decode_kraft_version(record.value or b"") > 1:
            raise StorageFault("the metadata log is of a newer kraft.version than 1")
    return found


def check_single_voter(voters: VoterSet, *, node_id: int, directory_id: Uuid) -> None:
    """This version runs a quorum of one voter. Raises OperatorError: which voters there are, and what to do."""
    if voters.ids != (node_id,):
        raise OperatorError(
            f"the metadata quorum has the voters {list(voters.ids)}; this version runs a quorum of one voter, node.id "
            f"{node_id} itself: set controller.quorum.voters={node_id}@host:port, or format with --standalone"
        )
    if not voters.has(node_id, directory_id):
        raise OperatorError(
            f"voter {node_id} of the metadata quorum has another directory.id than this directory ({directory_id}): "
            "the directory was formatted anew or belongs to another node"
        )
