"""Is the metadata log of a cluster there record by record, decoded, with what led to it, whether it is Headrace's or Apache Kafka's?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from headrace.client import admin_topics
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError
from headrace.core.offsets import OffsetAndEpoch
from headrace.spark.metadata_log import ARROW_SCHEMA, BEGINNING, MetadataLog
from headrace.testing import Node
from tests.peers.kafka import Kafka
from tests.support.metadata_load import wait_until


def all_rows(properties: Mapping[str, str], start: OffsetAndEpoch = BEGINNING) -> list[dict[str, Any]]:
    """Every record from a place on."""
    log = MetadataLog(properties)
    try:
        batches = list(log.rows(start, None))
    finally:
        log.close()
    assert all(each.schema == ARROW_SCHEMA for each in batches)
    return [row for each in batches for row in each.to_pylist()]


def make_topic(servers: str, name: str) -> None:
    """With two partitions."""
    with BlockingClient(servers) as client:
        made = client.run(
            admin_topics.create_topics, [admin_topics.NewTopic(name=name, partitions=2, replication_factor=1)]
        )
        assert not isinstance(made[name], Exception), made


def of_topic(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """The records that made a topic: those of one batch."""
    (topic,) = [row for row in rows if row["type"] == "TOPIC_RECORD" and json.loads(row["data"])["name"] == name]
    return [row for row in rows if row["batch"] == topic["batch"]]


def test_records_of_a_node_with_their_causes() -> None:
    """Through its brokers or its controllers; who leads the quorum is among them, what says nothing is not; a second read goes on behind the first."""
    with Node(in_process=True) as node:
        make_topic(node.bootstrap_servers, "orders")
        rows = all_rows({"bootstrap.servers": node.bootstrap_servers})
        made = of_topic(rows, "orders")
        assert [row["type"] for row in made] == ["TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_RECORD"]
        assert [row["offset"] for row in made] == [made[0]["batch"] + number for number in range(3)]
        assert [json.loads(row["data"]).get("leader") for row in made] == [None, 1, 1]
        assert {json.loads(row["cause"])["kind"] for row in made} == {"REQUEST"}
        leaders = [json.loads(row["data"])["leaderId"] for row in rows if row["type"] == "LEADER_CHANGE"]
        assert leaders == [1]
        assert not {"NO_OP_RECORD"} & {row["type"] for row in rows}
        controllers = {"bootstrap.controllers": f"127.0.0.1:{node.controller_port}"}
        last = rows[-1]
        make_topic(node.bootstrap_servers, "more")
        behind = all_rows(controllers, OffsetAndEpoch(last["offset"] + 1, last["epoch"]))
        assert behind[0]["offset"] > last["offset"]
        assert len(of_topic(behind, "more")) == 3
    with pytest.raises(OperatorError, match=r"say one of kafka\.bootstrap\.servers and"):
        all_rows({})


def test_where_the_log_begins_with_a_snapshot_its_records_come_first() -> None:
    """How things were at the snapshot, marked; the records behind it follow, each once."""
    small = "4000"
    settings = dict.fromkeys(
        (
            "metadata.log.max.record.bytes.between.snapshots",
            "metadata.max.retention.bytes",
            "internal.metadata.log.segment.bytes",
        ),
        small,
    )
    numbers = count()
    with Node(in_process=True, properties=settings) as node:
        log = node.data / "__cluster_metadata-0"

        def has_forgotten() -> bool:
            make_topic(node.bootstrap_servers, f"topic-{next(numbers)}")
            return min(int(each.stem) for each in log.glob("*.log")) > 0

        wait_until(has_forgotten)
        make_topic(node.bootstrap_servers, f"topic-{next(numbers)}")
        rows = all_rows({"bootstrap.servers": node.bootstrap_servers})
        names = [json.loads(row["data"])["name"] for row in rows if row["type"] == "TOPIC_RECORD"]
        assert sorted(names) == sorted(f"topic-{number}" for number in range(next(numbers)))
        marks = [row["is_snapshot"] for row in rows]
        assert marks == sorted(marks, reverse=True)
        assert set(marks) == {True, False}


@pytest.mark.java
def test_records_of_apache_kafka(shared_kafka: Kafka) -> None:
    """The same, without causes, which Kafka does not write."""
    servers = f"127.0.0.1:{shared_kafka.port}"
    make_topic(servers, "decoded-orders")
    made = of_topic(all_rows({"bootstrap.servers": servers}), "decoded-orders")
    assert [row["type"] for row in made] == ["TOPIC_RECORD", "PARTITION_RECORD", "PARTITION_RECORD"]
    assert {row["cause"] for row in made} == {None}
