"""Metrics of a controller and of the cluster, of nothing that is not committed (C3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from headrace.core.histogram import Histogram, merged
from headrace.server.metrics.families import Family, exported_name, gauge, labelled, meter, summary

if TYPE_CHECKING:
    from headrace.controller.machine import ControllerMachine
    from headrace.controller.statistics import ControllerStatistics
    from headrace.metadata.image import BrokerRegistration
    from headrace.node.machine import NodeMachine
    from headrace.node.partition_counts import ClusterCounts
    from headrace.server.metrics.window import Window

CONTROLLER: Final = "kafka.controller:KafkaController"
EVENTS: Final = "kafka.controller:ControllerEventManager"
FENCED, LEAVING, ACTIVE = 10, 20, 30


def cluster_families(machine: NodeMachine, counts: ClusterCounts) -> Iterator[Family]:
    """What is committed about the cluster, the same on every controller that has it (B-M02)."""
    for name, value, about in (
        ("ActiveBrokerCount", counts.active_brokers, "Brokers that are not fenced."),
        ("FencedBrokerCount", counts.fenced_brokers, "Brokers that are fenced."),
        ("ControlledShutdownBrokerCount", counts.leaving_brokers, "Brokers that are about to stop."),
        ("GlobalTopicCount", counts.topics, "Topics of the cluster."),
        ("GlobalPartitionCount", counts.partitions, "Partitions of the cluster."),
        ("OfflinePartitionsCount", counts.offline, "Partitions without a leader."),
        ("PreferredReplicaImbalanceCount", counts.not_preferred, "Partitions that their first replica does not lead."),
    ):
        yield gauge(CONTROLLER, name, value, about)
    brokers = machine.image.cluster.brokers
    states = [(str(broker_id), float(_state(brokers[broker_id]))) for broker_id in sorted(brokers)]
    about = "10 fenced, 20 about to stop, 30 active."
    yield labelled(CONTROLLER, "BrokerRegistrationState", "broker", states, about=about)
    bean, unclean, eligible = "kafka.controller:ControllerStats", counts.unclean_elections, counts.elr_elections
    yield meter(bean, "UncleanLeaderElectionsPerSec", unclean, "Leaders that were not in sync: records may be lost.")
    about = "Leaders that were out of sync and held every committed record (KIP-966)."
    yield meter(bean, "ElectionFromEligibleLeaderReplicasPerSec", eligible, about)


def _state(broker: BrokerRegistration) -> int:
    if broker.fenced:
        return FENCED
    return LEAVING if broker.in_controlled_shutdown else ACTIVE


def controller_families(
    machine: NodeMachine, controller: ControllerMachine, *, high_watermark: int, now_ms: int, ignored_voters: int
) -> Iterator[Family]:
    """The controller of this node (B-M02). Exactly one of the cluster is active (S4-14)."""
    statistics, progress = controller.statistics, machine.metadata_progress
    for name, value, about in (
        ("ActiveControllerCount", int(controller.is_active), "1 on the active controller."),
        ("NewActiveControllersCount", statistics.activations, "How often this controller became the active one."),
        ("MetadataErrorCount", _errors(machine, statistics), "Decisions and metadata that made no sense."),
        ("LastAppliedRecordOffset", progress.last_applied_record_offset, "The newest committed record: its offset."),
        ("LastAppliedRecordTimestamp", progress.last_applied_record_timestamp, "When it was written, ms since 1970."),
        ("LastAppliedRecordLagMs", progress.last_applied_record_lag_ms, "How long ago that was, in ms."),
        ("LastCommittedRecordOffset", high_watermark - 1, "The newest record that is known to be committed."),
        ("TimedOutBrokerHeartbeatCount", statistics.timed_out_heartbeats, "Heartbeats that waited too long."),
        ("EventQueueOperationsStartedCount", statistics.started, "Events that the controller began."),
        ("EventQueueOperationsTimedOutCount", statistics.timed_out, "Requests that waited past their deadline."),
        ("IgnoredStaticVoters", ignored_voters, "1 when the log, not controller.quorum.voters, says who votes."),
    ):
        yield gauge(CONTROLLER, name, value, about)
    silences = {} if controller.heartbeats is None else controller.heartbeats.silences_ms(now_ms)
    shown = [(str(broker_id), float(silences[broker_id])) for broker_id in sorted(silences)]
    about = "Milliseconds since the active controller heard a broker."
    yield labelled(CONTROLLER, "TimeSinceLastHeartbeatReceivedMs", "broker", shown, about=about)


def _errors(machine: NodeMachine, statistics: ControllerStatistics) -> int:
    return statistics.faults + machine.metadata_load_errors + machine.metadata_apply_errors


def event_families(
    controller: ControllerMachine, totals: Mapping[str, Histogram], window: Window, now_s: float
) -> Iterator[Family]:
    """The controller's events (B-M03, S2-33, S4-58, S4-61). `totals` are `event_histograms`."""
    yield gauge(EVENTS, "EventQueueSize", controller.queue_size, "Requests and slices of work that are not done.")
    busy_s = totals["processed"].total / 1_000
    about = "The part of its time that the controller decides nothing."
    yield gauge(EVENTS, "AvgIdleRatio", window.idle_ratio("controller_busy_s", busy_s, now_s), about)
    for name, key, about in (
        ("EventQueueTimeMs", "queued", "Milliseconds from the arrival of a request until the controller began."),
        ("EventQueueProcessingTimeMs", "processed", "Milliseconds that the controller took for an event."),
    ):
        histogram = totals[key]
        parts = (window.quantiles(key, histogram), (histogram.count, histogram.total))
        yield summary(exported_name(EVENTS, name), [({}, *parts)], about)
    yield latency_family("kafka.controller", controller.statistics.latencies, window)


def latency_family(domain: str, latencies: Mapping[str, Histogram], window: Window) -> Family:
    """ControllerRequestLatency: ms by the name of the event, at the controller (S4-58) or at the broker that asked (S4-59)."""
    about = "Milliseconds from the arrival of a request until its answer, what it changed being committed."
    parts = [
        ({"name": name}, window.quantiles(f"{domain}:{name}", each), (each.count, each.total))
        for name, each in sorted(latencies.items())
        if each.count
    ]
    return summary(exported_name(domain, "ControllerRequestLatency"), parts, about)


def event_histograms(controller: ControllerMachine) -> dict[str, Histogram]:
    """Of all events together. Cost: the names of events, of which there is a fixed number."""
    times = controller.statistics.by_name.values()
    return {"queued": merged([each.queued for each in times]), "processed": merged([each.processed for each in times])}
