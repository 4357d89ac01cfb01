"""Metrics of the partitions that a broker hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from headrace.node.partition_counts import AT_MIN_ISR, REASSIGNING, UNDER_MIN_ISR, UNDER_REPLICATED
from headrace.replication.traffic import TopicTraffic
from headrace.server.metrics.families import (
    GAUGE,
    NOTHING,
    Family,
    Sample,
    exported_name,
    gauge,
    labelled,
    meter,
    summary,
)

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.core.histogram import Histogram
    from headrace.node.machine import NodeMachine
    from headrace.node.partition_counts import BrokerCounts
    from headrace.server.metrics.window import Window

REPLICAS: Final = "kafka.server:ReplicaManager"
LOGS: Final = "kafka.log:LogManager"
TRAFFIC: Final = "kafka.server:BrokerTopicMetrics"
FOLLOWERS: Final = "kafka.server:ReplicaFetcherManager"


def replica_families(machine: NodeMachine, broker: Broker, counts: BrokerCounts) -> Iterator[Family]:
    """`kafka.server:type=ReplicaManager` (B-M06). Cost: the replicas in failed directories; the rest is counted from changes."""
    hosted = (broker.partitions.get(*name) for name in machine.offline_replicas)
    offline = sum(each is not None and each.log is None for each in hosted)
    marked = counts.marked
    for name, value, about in (
        ("LeaderCount", counts.leaders, "Partitions that this broker leads."),
        ("PartitionCount", len(broker.partitions), "Partitions that this broker has a replica of."),
        ("OfflineReplicaCount", offline, "Replicas in log directories that failed."),
        ("UnderReplicatedPartitions", marked[UNDER_REPLICATED], "Led partitions with a replica that is not in sync."),
        ("UnderMinIsrPartitionCount", marked[UNDER_MIN_ISR], "Led partitions that take no acks=all any more."),
        ("AtMinIsrPartitionCount", marked[AT_MIN_ISR], "Led partitions that may lose no replica more."),
        ("ReassigningPartitions", marked[REASSIGNING], "Led partitions that are being moved."),
    ):
        yield gauge(REPLICAS, name, value, about)
    changes = broker.isr_changes
    yield meter(REPLICAS, "IsrExpandsPerSec", changes.expands, "Replicas that came into sync.")
    yield meter(REPLICAS, "IsrShrinksPerSec", changes.shrinks, "Replicas that fell out of sync.")
    about = "Changes of who is in sync that the controller refused."
    yield meter(REPLICAS, "FailedIsrUpdatesPerSec", changes.failed, about)


def follower_families(broker: Broker) -> Iterator[Family]:
    """`kafka.server:type=ReplicaFetcherManager` (B-M06). Cost: the partitions that are followed."""
    fetchers = broker.replica_fetchers
    for name, value, about in (
        (
            "MaxLag",
            fetchers.max_lag,
            "Records that the furthest followed partition is behind what its leader had committed.",
        ),
        ("MinFetchRate", fetchers.min_fetch_rate, "Fetches a second of the fetcher that fetches least often, lately."),
        ("FailedPartitionsCount", fetchers.failed_partitions, "Followed partitions that wait for newer metadata."),
        ("DeadThreadCount", 0, "Fetchers have no threads here: none is ever dead."),
    ):
        yield labelled(FOLLOWERS, name, "clientId", [("Replica", float(value))], about=about)


def directory_families(broker: Broker) -> Iterator[Family]:
    """`kafka.log:type=LogManager` and what is on its way between directories (KIP-112, KIP-113, KIP-858)."""
    offline = [(info.path, float(not info.is_online)) for info in broker.logs.directories()]
    about = "Log directories that failed."
    yield gauge(LOGS, "OfflineLogDirectoryCount", sum(value for _, value in offline), about)
    cordoned = [(path, float(path in broker.cordoned_log_dirs)) for path, _ in offline]
    about = "Log directories that get no new replicas."
    yield gauge(LOGS, "CordonedLogDirectoryCount", sum(value for _, value in cordoned), about)
    yield labelled(LOGS, "LogDirectoryCordoned", "logDirectory", cordoned, about="1 for such a log directory.")
    about = "1 for a log directory that failed."
    yield labelled(LOGS, "LogDirectoryOffline", "logDirectory", offline, about=about)
    about = "Replicas whose directory the controller was not told yet."
    bean = "org.apache.kafka.server:AssignmentsManager"
    yield gauge(bean, "QueuedReplicaToDirAssignments", len(broker.assignments), about)
    moves = broker.logs.moves().values()
    lag = max((each.source.log_end_offset - each.future.log_end_offset for each in moves), default=0)
    about = "Records that the furthest future replica is behind."
    bean = "kafka.server:ReplicaAlterLogDirsManager"
    yield labelled(bean, "MaxLag", "clientId", [("ReplicaAlterLogDirs", float(max(lag, 0)))], about=about)
    about = "Copying between directories has no threads here: none is ever dead."
    yield labelled(bean, "DeadThreadCount", "clientId", [("ReplicaAlterLogDirs", 0.0)], about=about)


_PRODUCES: Final = "Partitions that were written to: one that two requests name counts twice."
_FETCHES: Final = "Partitions that were read, by consumers and by followers."


def traffic_families(broker: Broker, most: int) -> Iterator[Family]:
    """`kafka.server:type=BrokerTopicMetrics`: of all topics together, and of at most `most` one by one, once there was something. Cost: the hosted topics; three lines for each that is shown."""
    partitions = broker.partitions
    total = TopicTraffic()
    for each in (partitions.former_traffic, *partitions.traffic.values()):
        total.add(each)
    used = [each for each in partitions.traffic.items() if each[1].produces or each[1].fetches]
    shown = used[:most]
    for name, count, by_topic, about in (
        ("MessagesInPerSec", total.messages_in, [each.messages_in for _, each in shown], "Records that were appended."),
        ("BytesInPerSec", total.bytes_in, [each.bytes_in for _, each in shown], "Bytes that were appended."),
        ("BytesOutPerSec", total.bytes_out, [each.bytes_out for _, each in shown], "Bytes that consumers were sent."),
        ("TotalProduceRequestsPerSec", total.produces, [each.produces for _, each in shown], _PRODUCES),
        ("TotalFetchRequestsPerSec", total.fetches, [each.fetches for _, each in shown], _FETCHES),
    ):
        samples = [Sample("_total", NOTHING, count)]
        samples += [
            Sample("_total", {"topic": topic}, value) for (topic, _), value in zip(shown, by_topic, strict=True)
        ]
        yield meter(TRAFFIC, name, count, about)._replace(samples=samples)
    about = "Bytes that were copied from leaders."
    yield meter(TRAFFIC, "ReplicationBytesInPerSec", broker.replica_fetchers.bytes_in, about)
    yield meter(
        TRAFFIC, "ReplicationBytesOutPerSec", partitions.replication_bytes_out, "Bytes that followers were sent."
    )
    about = "Topics with records beyond headrace.metrics.topics.max, which are in the sums only."
    yield gauge("headrace:TopicMetrics", "LeftOut", len(used) - len(shown), about)


def throttle_families(broker: Broker) -> Iterator[Family]:
    """`kafka.server:type=LeaderReplication` and `FollowerReplication` (KIP-73), as in Kafka only where something is or was throttled."""
    now_ms = broker.now_ms()
    for bean, quota, about in (
        ("LeaderReplication", broker.leader_quota, "Bytes a second that throttled replicas were sent."),
        ("FollowerReplication", broker.replica_fetchers.quota, "Bytes a second that throttled replicas took."),
    ):
        if quota.is_used:
            yield gauge(f"kafka.server:{bean}", "byte-rate", quota.rate(now_ms), about)


def life_families(machine: NodeMachine, broker: Broker) -> Iterator[Family]:
    """The broker's state (B-K01), whether it serves (S0-17), and how many requests wait in it."""
    bean = "kafka.server:KafkaServer"
    if machine.lifecycle is not None:
        about = "0 not running, 1 starting, 2 recovery, 3 running, 6 about to stop, 7 stopping."
        yield gauge(bean, "BrokerState", machine.lifecycle.state, about)
        about = "How often this process learned that it is not registered any more."
        yield gauge(bean, "Unregistrations", machine.lifecycle.unregistrations, about)
    if machine.self_fencing is not None:
        about = "1 while it hears no controller and serves no client or not all of its partitions."
        yield gauge(bean, "SelfFenced", int(machine.self_fencing.is_alone), about)


def waiting_families(broker: Broker) -> Iterator[Family]:
    """`kafka.server:type=DelayedOperationPurgatory`, what waited for its whole time, and sessions of fetches (KIP-227). Cost: the requests that wait."""
    shown = [(operation.value, float(number)) for operation, number in broker.purgatory.waiting.items()]
    about = "Requests that wait for records, replicas or their deadline."
    bean = "kafka.server:DelayedOperationPurgatory"
    for name in ("NumDelayedOperations", "PurgatorySize"):
        yield labelled(bean, name, "delayedOperation", shown, about=about)
    expired = broker.expired
    about = "Partitions of Produce requests that were not replicated in time."
    yield meter("kafka.server:DelayedProduceMetrics", "ExpiresPerSec", expired.produces, about)
    about = "Fetches that waited for their whole time."
    kinds = (("follower", expired.follower_fetches), ("consumer", expired.consumer_fetches))
    samples = [Sample("_total", {"fetcherType": kind}, count) for kind, count in kinds]
    yield meter("kafka.server:DelayedFetchMetrics", "ExpiresPerSec", 0, about)._replace(samples=samples)
    sessions, bean = broker.fetch_sessions, "kafka.server:FetchSessionCache"
    yield gauge(bean, "NumIncrementalFetchSessions", len(sessions), "Fetch sessions.")
    about = "Partitions in fetch sessions, and of fetches that wait without one."
    yield gauge(bean, "NumIncrementalFetchPartitionsCached", sessions.held_partitions, about)
    about = "Fetch sessions that gave way to others."
    yield meter(bean, "IncrementalFetchSessionEvictionsPerSec", sessions.evictions, about)


def connection_families(listeners: Sequence[tuple[str, int, int]]) -> Iterator[Family]:
    """`kafka.server:type=socket-server-metrics` of each listener; a node has one network processor."""
    if not listeners:
        return
    labels = [{"listener": name, "networkProcessor": "0"} for name, _, _ in listeners]
    for name, values, about in (
        ("connection-count", [now for _, now, _ in listeners], "Connections of the listener."),
        (
            "connection-creation-total",
            [taken for _, _, taken in listeners],
            "Connections that it took since the start.",
        ),
        (
            "connection-close-total",
            [taken - now for _, now, taken in listeners],
            "Connections that ended since the start.",
        ),
    ):
        samples = [Sample("", of, value) for of, value in zip(labels, values, strict=True)]
        yield Family(exported_name("kafka.server:socket-server-metrics", name), GAUGE, about, samples)


def flush_family(flushes: Histogram, window: Window) -> Family:
    """`kafka.log:type=LogFlushStats`, of topics' logs and of the metadata log (B-M07)."""
    name = exported_name("kafka.log:LogFlushStats", "LogFlushRateAndTimeMs")
    about = "Milliseconds to sync a log."
    return summary(name, [({}, window.quantiles("log-flush", flushes), (flushes.count, flushes.total))], about)


def lag_family(lags: Histogram, window: Window) -> Family:
    """How busy the node is as a whole: it has one event loop."""
    name = exported_name("kafka.server:KafkaServer", "EventLoopLagMs")
    about = "Milliseconds that whatever comes to this node waits until it is looked at."
    return summary(name, [({}, window.quantiles("loop-lag", lags), (lags.count, lags.total))], about)
