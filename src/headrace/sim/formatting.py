"""The contents of a simulated disk before its node starts for the first time: what `headrace storage format` would write."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final

from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.values import value_class
from headrace.metadata.bootstrap import bootstrap_records
from headrace.metadata.versions import LATEST_METADATA_VERSION
from headrace.raft.snapshots import BOOTSTRAP_ID, build_snapshot
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet
from headrace.sim.clock import WALL_START_MS
from headrace.sim.rare_records import rare_records
from headrace.storage.meta_properties import MetaProperties, write_meta_properties
from headrace.storage.snapshot_files import write_bootstrap_checkpoint, write_zero_checkpoint
from headrace.wire.metadata_records.frame import encode_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.core.ports import Files

CLUSTER_ID: Final = "5L6g3nShT-eMCtK--X86sw"
CONTROLLER_LISTENER: Final = "CONTROLLER"


@value_class
class FirstDisk:
    """What a node is formatted with. `voters` are those of a dynamic quorum, None for a static one or a node that joins later."""

    node_id: int
    directory_id: Uuid
    voters: VoterSet | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    metadata_version: int = LATEST_METADATA_VERSION
    has_all_records: bool = False
    """ACLs, credentials, quotas and tokens are there from the beginning: no request of this version writes them."""


def dynamic_voters(directory_ids: Mapping[int, Uuid], port: int) -> VoterSet:
    """The first voters of a dynamic quorum; node n is host `n<id>`."""
    return VoterSet(
        voters=tuple(
            Voter(
                voter_id=node_id,
                directory_id=directory_ids[node_id],
                end_points=(VoterEndPoint(CONTROLLER_LISTENER, f"n{node_id}", port),),
            )
            for node_id in sorted(directory_ids)
        ),
        kraft_version=1,
    )


def format_more(files: Files, directory: str, first: FirstDisk, number: int) -> None:
    """Format a log directory beside the one of the metadata log."""
    files.mkdir(directory)
    files.fsync_dir("/")
    own_id = Uuid(bytes((first.directory_id[0] ^ number,)) + first.directory_id[1:])
    properties = MetaProperties(cluster_id=CLUSTER_ID, node_id=first.node_id, directory_id=own_id)
    write_meta_properties(files, directory, properties, date="formatted")


def format_disk(files: Files, directory: str, first: FirstDisk) -> None:
    """Format a log directory durably."""
    files.mkdir(directory)
    files.fsync_dir("/")
    records = bootstrap_records(metadata_version=first.metadata_version, features=dict(first.features))
    if first.has_all_records:
        records += tuple(encode_record(each, each.SCHEMA.versions.first) for each in rare_records())
    batches = build_snapshot(
        records, snapshot_id=OffsetAndEpoch(0, 0), last_contained_log_timestamp=0, now_ms=WALL_START_MS
    )
    write_bootstrap_checkpoint(files, directory, batches)
    if first.voters is not None:
        zero = build_snapshot(
            (), snapshot_id=BOOTSTRAP_ID, last_contained_log_timestamp=0, now_ms=WALL_START_MS, voters=first.voters
        )
        write_zero_checkpoint(files, directory, zero)
    properties = MetaProperties(cluster_id=CLUSTER_ID, node_id=first.node_id, directory_id=first.directory_id)
    write_meta_properties(files, directory, properties, date="formatted")
