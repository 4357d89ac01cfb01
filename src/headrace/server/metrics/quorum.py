"""Metrics of a node's part in the metadata quorum, and of the metadata that it has."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headrace.core.ids import ZERO_UUID
from headrace.core.peers import SendFailure
from headrace.metadata.image import METADATA_VERSION
from headrace.metadata.versions import SUPPORTED_FEATURES
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from headrace.server.metrics.families import Family, exported_name, gauge, info, labelled, summary

if TYPE_CHECKING:
    from headrace.node.machine import NodeMachine
    from headrace.node.metadata_files import MetadataFiles
    from headrace.node.metadata_plane import MetadataPlane
    from headrace.node.quorum_statistics import QuorumStatistics
    from headrace.raft.machine import RaftNode
    from headrace.server.metrics.window import Window

RAFT: Final = "kafka.server:raft-metrics"
LOADER: Final = "kafka.server:MetadataLoader"
EMITTER: Final = "kafka.server:SnapshotEmitter"


def state_name(role: Role, *, is_voter: bool) -> str:
    """current-state, in the words of Kafka 4.3."""
    match role:
        case Leader():
            return "leader"
        case Candidate():
            return "candidate"
        case Prospective():
            return "prospective" if role.voted_id < 0 else "prospective-voted"
        case Follower():
            return "follower" if is_voter else "observer"
        case Unattached():
            return "unattached" if role.voted_id < 0 else "unattached-voted"
        case Resigned():
            return "unattached"


def unknown_voters(plane: MetadataPlane) -> int:
    """number-unknown-voter-connections: voters, or bootstrap servers while no voter is known, to which no connection can be made (S4-24).

    Such that never answered, and whose address leads nowhere: its name is not found, or there is no way to it. A host that refuses or is silent
    has an address.
    """
    names = SendFailure.DISCONNECTED.name
    return sum(
        link.answered_ms < 0 and link.failing_since_ms >= 0 and link.failure == names and bool(link.host)
        for link in plane.witness.links.values()
    )


def raft_families(
    plane: MetadataPlane, statistics: QuorumStatistics, window: Window, now_s: float, now_ms: int
) -> Iterator[Family]:
    """`kafka.server:type=raft-metrics`, of every node (B-M01)."""
    raft = plane.raft
    role = raft.role
    yield info(
        RAFT,
        "current-state",
        "state",
        state_name(role, is_voter=raft.is_voter),
        about="What this node is in the metadata quorum.",
    )
    yield from _vote(raft)
    yield gauge(RAFT, "current-leader", raft.leader_id, "Who leads the metadata quorum; -1 = unknown.")
    yield gauge(RAFT, "current-epoch", raft.epoch, "The epoch of the metadata quorum.")
    high_watermark = raft.high_watermark if raft.high_watermark > 0 else -1
    yield gauge(RAFT, "high-watermark", high_watermark, "Everything below this offset is committed; -1 = unknown.")
    yield gauge(RAFT, "log-end-offset", raft.log_end, "The offset of the next record of the metadata log.")
    yield gauge(RAFT, "log-end-epoch", raft.log_end_epoch, "The epoch of the newest record of the metadata log.")
    yield gauge(
        RAFT,
        "number-unknown-voter-connections",
        unknown_voters(plane),
        "Controllers whose address leads nowhere, and that never answered.",
    )
    yield gauge(RAFT, "number-of-voters", len(raft.voters.voters), "Voters of the metadata quorum.")
    replicas = raft.replicas
    if replicas is not None:
        yield gauge(
            RAFT, "number-of-observers", replicas.count_observers(now_ms), "Who follows the quorum without a vote."
        )
        changing = int(raft.voter_change is not None)
        yield gauge(RAFT, "uncommitted-voter-change", changing, "1 while a change of voters is not committed.")
    yield from _latencies(statistics, window)
    appended, fetched, busy_s = statistics.appended, statistics.fetched, statistics.busy_s
    about = "Records that this node appended each second as the leader."
    yield gauge(RAFT, "append-records-rate", window.rate("appended", appended, now_s), about)
    about = "Records that this node got each second from the leader."
    yield gauge(RAFT, "fetch-records-rate", window.rate("fetched", fetched, now_s), about)
    about = "The part of its time that the metadata side of this node does not work."
    yield gauge(RAFT, "poll-idle-ratio-avg", window.idle_ratio("busy_s", busy_s, now_s), about)


def _vote(raft: RaftNode) -> Iterator[Family]:
    role = raft.role
    voted, directory = getattr(role, "voted_id", -1), getattr(role, "voted_directory_id", None)
    if isinstance(role, Leader | Candidate):
        voted, directory = raft.config.node_id, raft.config.directory_id
    yield gauge(RAFT, "current-vote", voted, "Whom this node voted for in the epoch; -1 = nobody.")
    yield info(
        RAFT,
        "current-vote-directory-id",
        "directory_id",
        str(directory or ZERO_UUID),
        about="The directory id of whom it voted for; all zero = nobody, or not known.",
    )


_LATENCIES: Final = {
    "commit-latency": "from the append by this leader until a majority has it",
    "election-latency": "from the first request for votes until somebody leads",
    "raft-flush-latency": "to sync the metadata log",
    "raft-apply-latency": "from the news of a commit until this node works by it",
}


def _latencies(statistics: QuorumStatistics, window: Window) -> Iterator[Family]:
    for name, histogram in statistics.latencies.items():
        what = _LATENCIES[name]
        average = window.average(name, histogram)
        highest = histogram.recent_highest if window.has_happened(name, histogram) else math.nan
        yield gauge(RAFT, f"{name}-avg", average, f"Milliseconds {what}: the average of the last minute.")
        yield gauge(RAFT, f"{name}-max", highest, f"Milliseconds {what}: the longest of the last minute.")


def loader_families(
    machine: NodeMachine, statistics: QuorumStatistics, window: Window, now_s: float
) -> Iterator[Family]:
    """`kafka.server:type=MetadataLoader`, of every node (B-M05). Levels are those that are committed."""
    levels = machine.image.features.levels
    yield gauge(LOADER, "CurrentMetadataVersion", levels.get(METADATA_VERSION, -1), "The level of metadata.version.")
    yield gauge(LOADER, "CurrentControllerId", machine.leader_id, "The active controller; -1 = unknown.")
    yield gauge(LOADER, "HandleLoadSnapshotCount", statistics.snapshots_loaded, "Metadata snapshots that were loaded.")
    about = "The part of its time that this node does not spend on committed metadata."
    yield gauge(LOADER, "AvgIdleRatio", window.idle_ratio("apply_busy_s", statistics.apply_busy_s, now_s), about)
    shown = [(_feature_label(name), float(level)) for name, level in sorted(levels.items())]
    yield labelled(LOADER, "FinalizedLevel", "featureName", shown, about="The finalised level of each feature.")


def feature_families() -> Iterator[Family]:
    """`kafka.server:type=node-metrics`: the levels of features that this version of the node works with (KIP-1180)."""
    for attribute, which in (("maximum-supported-level", 1), ("minimum-supported-level", 0)):
        shown = [(name.replace(".", "-"), float(levels[which])) for name, levels in sorted(SUPPORTED_FEATURES.items())]
        about = f"The {attribute.split('-', 1)[0]} level of each feature that this node works with."
        yield labelled("kafka.server:node-metrics", attribute, "feature_name", shown, about=about)


def emitter_families(files: MetadataFiles, now_ms: int) -> Iterator[Family]:
    """`kafka.server:type=SnapshotEmitter`, of every node (B-M05)."""
    about = "Bytes of the newest metadata snapshot that this process wrote."
    yield gauge(EMITTER, "LatestSnapshotGeneratedBytes", files.snapshot_bytes, about)
    age = max(0, now_ms - files.snapshot_ms)
    about = "Milliseconds since it wrote one, or since its start."
    yield gauge(EMITTER, "LatestSnapshotGeneratedAgeMs", age, about)


def metadata_families(
    machine: NodeMachine, statistics: QuorumStatistics, window: Window, *, ignored_voters: int
) -> Iterator[Family]:
    """How far a broker is with the metadata (S4-56; B-M04)."""
    bean, progress = "kafka.server:broker-metadata-metrics", machine.metadata_progress
    about = "The newest metadata record that this broker works by: its offset."
    yield gauge(bean, "last-applied-record-offset", progress.last_applied_record_offset, about)
    about = "When the controller wrote it, in ms since 1970."
    yield gauge(bean, "last-applied-record-timestamp", progress.last_applied_record_timestamp, about)
    about = "How long ago that was, in ms."
    yield gauge(bean, "last-applied-record-lag-ms", progress.last_applied_record_lag_ms, about)
    about = "Metadata that could not be read or understood; the process stops."
    yield gauge(bean, "metadata-load-error-count", machine.metadata_load_errors, about)
    about = "Metadata that this broker could not follow; the process stops."
    yield gauge(bean, "metadata-apply-error-count", machine.metadata_apply_errors, about)
    about = "1 when controller.quorum.voters is set, and the log says who votes."
    yield gauge(bean, "ignored-static-voters", ignored_voters, about)
    for name, histogram, about in (
        (
            "MetadataBatchProcessingTimeUs",
            statistics.batch_times_us,
            "Microseconds to load a batch of the metadata log.",
        ),
        ("MetadataBatchSizes", statistics.batch_records, "Records of the batches that were loaded."),
    ):
        quantiles = window.quantiles(name, histogram)
        family = exported_name("kafka.server:BrokerMetadataListener", name)
        yield summary(family, [({}, quantiles, (histogram.count, histogram.total))], about)


def _feature_label(name: str) -> str:
    """`metadata.version` is metadataVersion."""
    first, *rest = name.split(".")
    return first + "".join(each.capitalize() for each in rest)
