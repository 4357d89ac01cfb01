"""Are the metrics of a node those of Kafka, under the names that Prometheus knows them by?"""

from __future__ import annotations

import re
from pathlib import Path

from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.memory_node import MemoryNode
from tests.support.metrics import families, shown, shown_of_partitions, watched

GOLDEN = Path(__file__).with_name("kafka-4.3.1.txt")
_TRAFFIC = "kafka_server_brokertopicmetrics_"
_CHECKED = "it would be counted where records are checked"
MISSING = {
    f"{_TRAFFIC}bytesrejected_total": _CHECKED,
    f"{_TRAFFIC}invalidmagicnumberrecords_total": _CHECKED,
    f"{_TRAFFIC}invalidmessagecrcrecords_total": _CHECKED,
    f"{_TRAFFIC}invalidoffsetorsequencerecords_total": _CHECKED,
    f"{_TRAFFIC}nokeycompactedtopicrecords_total": _CHECKED,
    f"{_TRAFFIC}failedfetchrequests_total": "requests are not counted by their outcome",
    f"{_TRAFFIC}failedproducerequests_total": "requests are not counted by their outcome",
    f"{_TRAFFIC}totalfetchrequests_total": "requests are not counted by their outcome",
    f"{_TRAFFIC}totalproducerequests_total": "requests are not counted by their outcome",
    f"{_TRAFFIC}fetchmessageconversions_total": "nothing is converted",
    f"{_TRAFFIC}producemessageconversions_total": "nothing is converted",
    f"{_TRAFFIC}reassignmentbytesin_total": "what is copied for a reassignment is counted with all that is copied",
    f"{_TRAFFIC}reassignmentbytesout_total": "what is copied for a reassignment is counted with all that is copied",
    f"{_TRAFFIC}failedshareacknowledgementrequests_total": "there are no share groups",
    f"{_TRAFFIC}failedsharefetchrequests_total": "there are no share groups",
    f"{_TRAFFIC}totalshareacknowledgementrequests_total": "there are no share groups",
    f"{_TRAFFIC}totalsharefetchrequests_total": "there are no share groups",
    "kafka_server_kafkaserver_linux_disk_read_bytes": "the machine's, which node_exporter shows",
    "kafka_server_kafkaserver_linux_disk_write_bytes": "the machine's, which node_exporter shows",
    "kafka_server_kafkaserver_yammer_metrics_count": "how many metrics Kafka's library holds",
    "kafka_server_replicamanager_partitionswithlatetransactionscount": "there are no transactions",
    "kafka_server_replicamanager_produceridcount": "it would be counted where records are produced",
}
"""What Kafka has and Headrace has not."""
PROJECT = {
    "headrace_topicmetrics_leftout": "the labels have a bound",
    "kafka_controller_controllereventmanager_eventqueuesize": "S2-33: Kafka's name of the days of ZooKeeper",
    "kafka_controller_controllerrequestlatency": "S4-58",
    "kafka_log_logmanager_logdirectoryoffline": "KIP-112: Kafka has it, the record leaves out its log manager",
    "kafka_log_logmanager_offlinelogdirectorycount": "KIP-112: the same",
    "kafka_server_controllerrequestlatency": "S4-59",
    "kafka_server_kafkaserver_eventlooplagms": "S2-33: a node has one queue more, that of its event loop",
    "kafka_server_kafkaserver_selffenced": "S0-17",
    "kafka_server_kafkaserver_unregistrations": "S1-73",
    "kafka_server_replicaalterlogdirsmanager_maxlag": "KIP-113: Kafka has it once a replica was moved",
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
    "org_apache_kafka_server_assignmentsmanager_queuedreplicatodirassignments": "KIP-858: Kafka has it, the record leaves out that domain",
}
"""What Headrace has and Kafka, or the exporter, has not."""
OF_PARTITIONS = ("kafka_cluster_partition_", "kafka_log_log_")
TEXTS = {"kafka.server:type=KafkaServer,name=ClusterId:Value"}
LINES = GOLDEN.read_text().splitlines()
_BEAN = re.compile(r"kafka\.(\w+):type=([^,:]+)(?:,name=([^,:]+))?((?:,[^,:=]+=[^,:]+)*):([^:=]+)(?:=(.*))?")
_LABEL = re.compile(r",([^,=]+)=([^,]+)")


def exported(line: str) -> tuple[str, str, frozenset[str]] | None:
    """Name, kind and labels that the JMX exporter's rules for KRaft make of a bean's attribute; None: it shows nothing."""
    found = _BEAN.fullmatch(line)
    assert found is not None, line
    domain, kind, name, labels, attribute, _ = found.groups()
    keys = frozenset(key for key, _ in _LABEL.findall(labels or ""))
    if name is None:
        if attribute == "current-state":
            return _named("gauge", f"kafka_{domain}_{kind}_{attribute}_info", frozenset({"state"}))
        return None if attribute.endswith("-id") else _named("gauge", f"kafka_{domain}_{kind}_{attribute}", keys)
    if attribute == "Value":
        return _named("gauge", f"kafka_{domain}_{kind}_{name}", keys)
    if attribute == "Count" and name.endswith("PerSec"):
        return _named("counter", f"kafka_{domain}_{kind}_{name.removesuffix('PerSec')}_total", keys)
    if attribute == "Count":
        return _named("counter", f"kafka_{domain}_{kind}_{name}_count", keys)
    if attribute.endswith("thPercentile"):
        return _named("gauge", f"kafka_{domain}_{kind}_{name}", keys | {"quantile"})
    return None


def _named(kind: str, name: str, labels: frozenset[str]) -> tuple[str, str, frozenset[str]]:
    return re.sub(r"[^a-z0-9_]", "_", name.lower()), kind, labels


def create(node: MemoryNode, name: str, partitions: int) -> None:
    """A topic with one replica."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000), 7)
    node.settle()


def _parsed(sample: str) -> tuple[str, frozenset[str]]:
    name, _, labels = sample.partition("{")
    return name, frozenset(re.findall(r'(\w+)="', labels))


def test_a_node_shows_what_kafka_shows() -> None:
    """B-M01..B-M08, S4-24, S2-33, S4-56, S4-58..S4-62: names and labels of a combined node are those of Kafka's, but for what is named here with its reason."""
    kafka = {exported(line) for line in LINES if line not in TEXTS}
    wanted = {(name, labels) for name, _, labels in filter(None, kafka) if name not in MISSING}
    node = MemoryNode()
    service = watched(node)
    node.start()
    create(node, "a", 3)
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
    kafka = {found[0] for line in LINES if (found := exported(line)) is not None}
    assert set(MISSING) <= kafka
    assert not set(PROJECT) & kafka


def test_counters_are_counters() -> None:
    """B-M06: what Kafka counts up is a counter, so that rates can be made of it; what it shows as a value is a gauge, as the exporter has it."""
    kafka = {found[0]: found[1] for line in LINES if (found := exported(line)) is not None}
    node = MemoryNode()
    service = watched(node)
    node.start()
    for family in families(service).values():
        for sample in family.samples:
            kind = kafka.get(family.name + sample.suffix)
            if kind == "counter":
                assert family.kind in ("counter", "summary"), family.name
            elif kind == "gauge" and "quantile" not in sample.labels:
                assert family.kind in ("gauge", "info"), family.name


def test_every_metric_says_what_it_is() -> None:
    """B-M08: a help text in one line; no family twice."""
    node = MemoryNode()
    service = watched(node)
    node.start()
    all_families = list(service.families())
    assert len({family.name for family in all_families}) == len(all_families)
    assert all(family.about.endswith(".") and "\n" not in family.about for family in all_families)


def test_values_are_those_of_a_kafka_that_was_asked_the_same() -> None:
    """B-M01..B-M06: after one topic of three partitions was made: counts, states and ids are equal, sample by sample."""
    node = MemoryNode()
    service = watched(node)
    node.start()
    create(node, "a", 3)
    ours, kafkas = shown(service) | shown_of_partitions(service), dict(filter(None, map(valued, LINES)))
    for name in [name for name in kafkas if "delayedOperation" in name]:
        kafkas[re.sub('"\\w+"', '"All"', name)] = kafkas.pop(name)
    assert len([name for name in kafkas if name.startswith(OF_PARTITIONS)]) == 3 * (6 + 5)
    assert len(kafkas) > 40 + 33
    assert {name: ours[name] for name in kafkas} == kafkas


def valued(line: str) -> tuple[str, float] | None:
    """The sample and its value, as the exporter has it; None where no value was recorded, or it is not shown."""
    found, what = _BEAN.fullmatch(line), exported(line)
    if found is None or what is None or what[0] in MISSING or found[6] is None:
        return None
    if found[5] == "current-state":
        return f'{what[0]}{{state="{found[6]}"}}', 1.0
    labels = ",".join(f'{key}="{value}"' for key, value in _LABEL.findall(found[4] or ""))
    return what[0] + (f"{{{labels}}}" if labels else ""), float(found[6])
