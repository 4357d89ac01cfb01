"""Are the metrics of a node those of Kafka, under the names that Prometheus knows them by?"""

from __future__ import annotations

import re
from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.server.metrics.service import MetricsService
from headrace.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headrace.wire.versions import ApiKey
from tests.golden.metrics.names import LINES, MISSING, PAGE, exported, page, reason_of, value_of
from tests.support.memory_node import MemoryNode
from tests.support.metrics import families, shown, shown_of_partitions, watched

PROJECT = {
    "headrace_topicmetrics_leftout": "the labels have a bound",
    "kafka_controller_controllereventmanager_eventqueuesize": "S2-33: Kafka's name of the days of ZooKeeper",
    "kafka_controller_controllerrequestlatency": "S4-58",
    "kafka_server_controllerrequestlatency": "S4-59",
    "kafka_server_delayedfetchmetrics_expires": "Kafka has it once a fetch waited for its whole time",
    "kafka_server_delayedproducemetrics_expires": "Kafka has it once a produce was not replicated in time",
    "kafka_server_kafkaserver_eventlooplagms": "S2-33: a node has one queue more, that of its event loop",
    "kafka_server_kafkaserver_selffenced": "S0-17",
    "kafka_server_kafkaserver_unregistrations": "S1-73",
    "kafka_server_statechange_requested": "S3-09",
    "kafka_server_statechange_received": "S3-09",
    "kafka_server_statechange_completed": "S3-09",
    "kafka_server_statechange_failed": "S3-09",
    "kafka_server_statechange_requestedtoreceivedms": "S3-09",
    "kafka_server_statechange_receivedtocompletedms": "S3-09",
    "kafka_server_statechange_pending": "S3-10",
    "kafka_server_statechange_pendingdeletes": "S3-10",
    "kafka_server_statechangebacklog_value": "S3-10",
    "kafka_server_raft_metrics_current_vote_directory_id": "a text, which the exporter leaves out",
    "kafka_server_raft_metrics_raft_apply_latency_avg": "S4-61",
    "kafka_server_raft_metrics_raft_apply_latency_max": "S4-61",
    "kafka_server_raft_metrics_raft_flush_latency_avg": "S4-60",
    "kafka_server_raft_metrics_raft_flush_latency_max": "S4-60",
}
"""What Headrace has and Kafka, or the exporter, has not."""
OF_PARTITIONS = ("kafka_cluster_partition_", "kafka_log_log_")


def asked(**changes: Any) -> tuple[MemoryNode, MetricsService]:
    """A combined node that was asked for one topic of three partitions, by a client with one connection, and refused it another time."""
    node = MemoryNode(**changes)
    service = watched(node)
    node.start()
    service.connections = lambda: [("PLAINTEXT", 1, 1)]
    topic = CreatableTopic(name="a", num_partitions=3, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
    node.settle()
    meter = service.requests
    counts = meter.counts_of(ApiKey.CREATE_TOPICS, 7)
    counts.count += 1
    timing = meter.begin(counts, 100, 0.0)
    timing.handled()
    timing.sending()
    assert timing.sent()
    refused = CreatableTopicResult(name="a", error_code=ErrorCode.TOPIC_ALREADY_EXISTS)
    meter.answered(ApiKey.CREATE_TOPICS, CreateTopicsResponse(topics=(refused,)))
    return node, service


def _parsed(sample: str) -> tuple[str, frozenset[str]]:
    name, _, labels = sample.partition("{")
    return name, frozenset(re.findall(r'(\w+)="', labels))


def test_a_node_shows_what_kafka_shows() -> None:
    """B-M01..B-M08, S4-24, S2-33, S4-56, S4-58..S4-62: names and labels of a combined node are those of Kafka's, but for what `MISSING` and PROJECT name with their reasons."""
    wanted = {
        (found.name, frozenset(found.labels))
        for line in LINES
        if reason_of(line) is None and (found := exported(line)) is not None
    }
    _, service = asked()
    ours = {
        (family.name + sample.suffix, frozenset(sample.labels))
        for family in families(service).values()
        for sample in family.samples
        if family.name not in PROJECT and sample.suffix != "_sum"
    }
    of_partitions = {_parsed(sample) for sample in shown_of_partitions(service)}
    assert of_partitions - {("headrace_partitionmetrics_leftout", frozenset())} == {
        each for each in wanted if each[0].startswith(OF_PARTITIONS)
    }
    assert ours | of_partitions - {("headrace_partitionmetrics_leftout", frozenset())} == wanted
    assert {each for each in families(service) if each in PROJECT} == set(PROJECT)


def test_what_is_missing_is_missed() -> None:
    """B-M06: every exception is one, so that a list that is too long shows."""
    matched = [[pattern for pattern in MISSING if re.fullmatch(pattern, line)] for line in LINES]
    assert {pattern for patterns in matched for pattern in patterns} == set(MISSING)
    assert max(map(len, matched)) == 1
    assert not set(PROJECT) & {found.name for line in LINES if (found := exported(line)) is not None}


def test_the_page_of_kafkas_metrics_is_up_to_date() -> None:
    """`python -m tests.golden.metrics.names` makes it: each type of Kafka's, what is here, and why something is not."""
    assert PAGE.read_text() == page()


def test_counters_are_counters() -> None:
    """B-M06: what Kafka counts up is a counter, so that rates can be made of it; what it shows as a value is a gauge, as the exporter has it."""
    kafka = {found.name: found.kind for line in LINES if (found := exported(line)) is not None}
    _, service = asked()
    for family in families(service).values():
        for sample in family.samples:
            kind = kafka.get(family.name + sample.suffix)
            if kind == "counter":
                assert family.kind in ("counter", "summary"), family.name
            elif kind == "gauge" and "quantile" not in sample.labels:
                assert family.kind in ("gauge", "info"), family.name


def test_every_metric_says_what_it_is() -> None:
    """B-M08: a help text in one line; no family twice."""
    _, service = asked()
    all_families = list(service.families())
    assert len({family.name for family in all_families}) == len(all_families)
    assert all(family.about.endswith(".") and "\n" not in family.about for family in all_families)


def test_values_are_those_of_a_kafka_that_was_asked_the_same() -> None:
    """B-M01..B-M06: after one topic of three partitions was made: counts, states and ids are equal, sample by sample."""
    _, service = asked()
    ours, kafkas = shown(service) | shown_of_partitions(service), dict(filter(None, map(valued, LINES)))
    assert len([name for name in kafkas if name.startswith(OF_PARTITIONS)]) == 3 * (6 + 5)
    assert len(kafkas) > 50 + 33
    assert {name: ours[name] for name in kafkas} == kafkas


def valued(line: str) -> tuple[str, float] | None:
    """The sample and its value, as the exporter has it; None where no value was recorded, or it is not shown. How many requests came depends on Kafka's own."""
    found, value = exported(line), value_of(line)
    if found is None or reason_of(line) is not None or "type=RequestMetrics" in line:
        return None
    if value is None:
        return (f'{found.name}{{state="{found.labels["state"]}"}}', 1.0) if "current-state" in line else None
    labels = ",".join(f'{key}="{text}"' for key, text in found.labels.items())
    return found.name + (f"{{{labels}}}" if labels else ""), value
