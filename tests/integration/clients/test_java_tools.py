"""Do Apache Kafka's own tools, and the Java client in them, find what they expect?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.records.compression import Codec
from tests.peers.kafka import run_tool
from tests.support.peer import Peer, batch

pytestmark = pytest.mark.java

Name = Callable[[str], str]


def tool(bootstrap: str, name: str, *arguments: str, stdin: str | None = None) -> str:
    """Run a tool that must succeed; its standard output."""
    return run_tool(name, "--bootstrap-server", bootstrap, *arguments, stdin=stdin, check=True).stdout


@pytest.fixture
def topic(bootstrap: str, new_name: Name) -> str:
    """A topic of three partitions made by kafka-topics."""
    name = new_name("java")
    tool(
        bootstrap, "kafka-topics", "--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=3600000"
    )
    return name


def test_topics_are_created_described_altered_and_deleted(bootstrap: str, topic: str) -> None:
    """B-T14, B-T11: kafka-topics, every sub-command."""
    described = tool(bootstrap, "kafka-topics", "--describe", "--topic", topic)
    assert re.search(
        rf"Topic: {topic}\tTopicId: \S{{22}}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: ", described
    )
    assert "retention.ms=3600000" in described
    assert described.count("Leader: 1\tReplicas: 1\tIsr: 1") == 3
    tool(bootstrap, "kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert tool(bootstrap, "kafka-topics", "--describe", "--topic", topic).count("\tPartition: ") == 5
    tool(bootstrap, "kafka-topics", "--delete", "--topic", topic)
    assert topic not in tool(bootstrap, "kafka-topics", "--list").split()


def test_console_producer_and_consumer_pass_lines_on(bootstrap: str, topic: str) -> None:
    """B-T14: the Java producer, idempotent by default, and the Java consumer in a classic group."""
    lines = "".join(f"k{index}:value {index}\n" for index in range(100))
    producer = ["--topic", topic, "--reader-property", "parse.key=true", "--reader-property", "key.separator=:"]
    tool(bootstrap, "kafka-console-producer", *producer, "--compression-codec", "zstd", stdin=lines)
    consumer = ["--topic", topic, "--from-beginning", "--max-messages", "100", "--timeout-ms", "20000"]
    out = tool(
        bootstrap,
        "kafka-console-consumer",
        *consumer,
        "--formatter-property",
        "print.key=true",
        "--formatter-property",
        "key.separator=:",
    )
    assert sorted(out.splitlines()) == sorted(lines.splitlines())


def test_a_consumer_with_small_limits_reads_batches_that_are_larger(bootstrap: str, topic: str) -> None:
    """B-P07, KIP-74: on three partitions with compressed and plain batches; a part of a batch and no more would end it."""
    peer = Peer("headrace", int(bootstrap.rpartition(":")[2]))
    expected = []
    for number in range(60):
        values = [b"%d-%d " % (number, place) + b"y" * 200 for place in range(20)]
        codec = (Codec.NONE, Codec.GZIP, Codec.LZ4)[number % 3]
        assert peer.produce(topic, batch(*values, codec=codec), partition=number // 3 % 3).error_code == 0
        expected += [value.decode() for value in values]
    limits = ["max.partition.fetch.bytes=1000", "fetch.max.bytes=9000", "isolation.level=read_committed"]
    given = [word for limit in limits for word in ("--command-property", limit)]
    consumer = ["--topic", topic, "--from-beginning", "--max-messages", "1200", "--timeout-ms", "20000"]
    out = tool(bootstrap, "kafka-console-consumer", *consumer, *given)
    assert sorted(out.splitlines()) == sorted(expected)


def test_verifiable_producer_and_consumer_agree(bootstrap: str, topic: str, new_name: Name) -> None:
    """B-W06: every acknowledged value is read once by a group member."""
    written = tool(bootstrap, "kafka-verifiable-producer", "--topic", topic, "--max-messages", "500", "--acks", "-1")
    acknowledged = {json.loads(line)["value"] for line in written.splitlines() if "producer_send_success" in line}
    assert len(acknowledged) == 500
    consumer = [
        "--topic",
        topic,
        "--group-id",
        new_name("verifiable"),
        "--max-messages",
        "500",
        "--reset-policy",
        "earliest",
        "--verbose",
    ]
    out = tool(bootstrap, "kafka-verifiable-consumer", *consumer)
    read = [json.loads(line)["value"] for line in out.splitlines() if '"record_data"' in line]
    assert sorted(read) == sorted(acknowledged)


def test_perf_tools_finish(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """B-T14: the producer's and the consumer's performance test."""
    common = ["--topic", topic, "--num-records", "20000", "--record-size", "100", "--throughput", "-1"]
    sent = run_tool(
        "kafka-producer-perf-test", *common, "--producer-props", f"bootstrap.servers={bootstrap}", check=True
    ).stdout
    assert "20000 records sent" in sent
    read = tool(bootstrap, "kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000", "--timeout", "20000")
    assert int(read.splitlines()[-1].split(",")[4]) >= 20000


def test_settings_are_altered_and_described(bootstrap: str, topic: str) -> None:
    """B-T14: kafka-configs on a topic and on a broker."""
    tool(
        bootstrap,
        "kafka-configs",
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--add-config",
        "segment.bytes=1048576",
    )
    described = tool(bootstrap, "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic)
    assert "segment.bytes=1048576 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=1048576" in described
    tool(
        bootstrap,
        "kafka-configs",
        "--alter",
        "--entity-type",
        "topics",
        "--entity-name",
        topic,
        "--delete-config",
        "segment.bytes",
    )
    assert "segment.bytes" not in tool(
        bootstrap, "kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic
    )
    broker = tool(bootstrap, "kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    assert "log.retention.hours=168 sensitive=false" in broker


def test_a_group_is_listed_described_reset_and_deleted(bootstrap: str, topic: str, new_name: Name) -> None:
    """B-T14: kafka-consumer-groups, and kafka-groups."""
    group = new_name("java-group")
    tool(bootstrap, "kafka-console-producer", "--topic", topic, stdin="a\nb\nc\n")
    tool(
        bootstrap,
        "kafka-console-consumer",
        "--topic",
        topic,
        "--group",
        group,
        "--from-beginning",
        "--max-messages",
        "3",
    )
    assert group in tool(bootstrap, "kafka-consumer-groups", "--list").split()
    assert re.search(rf"{group} +Classic +consumer", tool(bootstrap, "kafka-groups", "--list"))
    state = tool(bootstrap, "kafka-consumer-groups", "--describe", "--group", group, "--state")
    assert "Empty" in state
    reset = ["--group", group, "--reset-offsets", "--to-earliest", "--topic", topic, "--execute"]
    tool(bootstrap, "kafka-consumer-groups", *reset)
    lags = re.findall(
        rf"{topic} +\d+ +(\d+) +(\d+) +(\d+)", tool(bootstrap, "kafka-consumer-groups", "--describe", "--group", group)
    )
    assert sum(int(lag) for _, _, lag in lags) == 3
    tool(bootstrap, "kafka-consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
    tool(bootstrap, "kafka-consumer-groups", "--delete", "--group", group)
    assert group not in tool(bootstrap, "kafka-consumer-groups", "--list").split()


def test_offsets_are_got_and_records_deleted(bootstrap: str, topic: str, tmp_path: Path) -> None:
    """B-T14: kafka-get-offsets, kafka-delete-records, kafka-log-dirs."""
    tool(bootstrap, "kafka-verifiable-producer", "--topic", topic, "--max-messages", "30")
    ends = dict(line.rsplit(":", 1) for line in tool(bootstrap, "kafka-get-offsets", "--topic", topic).splitlines())
    assert sum(int(end) for end in ends.values()) == 30
    plan = tmp_path / "plan.json"
    fullest = max(range(3), key=lambda partition: int(ends[f"{topic}:{partition}"]))
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": fullest, "offset": 4}], "version": 1}))
    assert "low_watermark: 4" in tool(bootstrap, "kafka-delete-records", "--offset-json-file", str(plan))
    assert f"{topic}:{fullest}:4" in tool(bootstrap, "kafka-get-offsets", "--topic", topic, "--time", "earliest")
    listed = json.loads(tool(bootstrap, "kafka-log-dirs", "--describe", "--topic-list", topic).splitlines()[-1])
    partitions = listed["brokers"][0]["logDirs"][0]["partitions"]
    assert sorted(each["partition"] for each in partitions) == [f"{topic}-{number}" for number in range(3)]
    assert all(each["isFuture"] is False for each in partitions)


def test_the_cluster_its_apis_and_features_are_shown(bootstrap: str) -> None:
    """B-T14, B-T05, B-T08: kafka-cluster, kafka-broker-api-versions, kafka-features."""
    assert re.fullmatch(
        r"Cluster ID: \S{22}\n",
        run_tool("kafka-cluster", "cluster-id", "--bootstrap-server", bootstrap, check=True).stdout,
    )
    versions = tool(bootstrap, "kafka-broker-api-versions")
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", versions)
    assert re.search(r"InitProducerId\(22\): 0 to \d \[usable: \d\]", versions)
    features = tool(bootstrap, "kafka-features", "describe")
    assert re.search(
        r"Feature: metadata.version\s+SupportedMinVersion: 3.3-IV3\s+SupportedMaxVersion: 4.3-IV0", features
    )
