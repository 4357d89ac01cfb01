"""The same admin requests to Apache Kafka 4.3.1 and to Headrace: the same codes, messages and values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.ids import ZERO_UUID
from headrace.testing import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.schema import Struct
from tests.integration.metadata.admin_requests import questions
from tests.integration.metadata.leader_requests import leader_questions
from tests.peers import kafka
from tests.support.raw import RawConnection

pytestmark = pytest.mark.java


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[tuple[RawConnection, RawConnection]]:
    """A fresh Kafka and a fresh Headrace."""
    formatted = kafka.plain_features()
    with (
        kafka.Kafka(tmp_path / "kafka", format_arguments=formatted) as peer,
        Node(directory=tmp_path / "headrace", in_process=True) as node,
        RawConnection(peer.port) as theirs,
        RawConnection(node.port) as ours,
    ):
        yield theirs, ours


def normal(value: Any) -> Any:
    """An answer without what must differ: ids that are drawn, and the order of lists."""
    if isinstance(value, Struct):
        fields = {name: normal(getattr(value, name)) for name in type(value).__facts__}
        if "topic_id" in fields:
            fields["topic_id"] = fields["topic_id"] != ZERO_UUID
        return fields
    if isinstance(value, tuple):
        return sorted((normal(each) for each in value), key=repr)
    return value


def test_admin_requests_are_answered_as_kafka_does(peers: tuple[RawConnection, RawConnection]) -> None:
    """B26, B27, B70, B72, B24, B-U02, B-C22, B-C27, S1-36: some 180 requests in up to six versions, whole answers compared."""
    theirs, ours = peers
    different = []
    asked = 0
    for question in questions():
        expected = normal(theirs.ask(question.request, question.version))
        found = normal(ours.ask(question.request, question.version))
        asked += 1
        if found != expected:
            different.append((question.title, question.version, {"kafka": expected, "headrace": found}))
    assert different == []
    assert asked > 150


def test_requests_about_leaders_and_replicas_are_answered_as_kafka_does(
    peers: tuple[RawConnection, RawConnection],
) -> None:
    """S2-06, S2-07, B-C26, KIP-183, KIP-455, KIP-460, KIP-860: ElectLeaders, reassignments and UnregisterBroker, whole answers compared."""
    theirs, ours = peers
    create = CreateTopicsRequest(topics=(CreatableTopic(name="moved", num_partitions=3, replication_factor=1),))
    for peer in peers:
        assert peer.ask(create, 7).topics[0].error_code == 0
    different = []
    for title, request, version in leader_questions("moved"):
        expected, found = normal(theirs.ask(request, version)), normal(ours.ask(request, version))
        if found != expected:
            different.append((title, version, {"kafka": expected, "headrace": found}))
    assert different == []


def test_kafkas_own_tools_elect_and_reassign(tmp_path: Path) -> None:
    """S2-06, S2-07: kafka-leader-election and kafka-reassign-partitions against a Headrace node."""
    plan = tmp_path / "plan.json"
    with Node(directory=tmp_path / "headrace", in_process=True) as node:
        with RawConnection(node.port) as connection:
            create = CreateTopicsRequest(topics=(CreatableTopic(name="moved", num_partitions=3, replication_factor=1),))
            assert connection.ask(create, 7).topics[0].error_code == 0
        server = ("--bootstrap-server", node.bootstrap_servers)
        elected = kafka.run_tool(
            "kafka-leader-election", *server, "--election-type", "preferred", "--all-topic-partitions", check=True
        )
        assert "Valid replica already elected" in elected.stdout or elected.stdout.strip() == ""
        parts = [{"topic": "moved", "partition": number, "replicas": [1]} for number in range(3)]
        plan.write_text(json.dumps({"version": 1, "partitions": parts}))
        file = ("--reassignment-json-file", str(plan))
        executed = kafka.run_tool("kafka-reassign-partitions", *server, *file, "--execute", check=True)
        assert "Successfully started partition reassignments for moved-0,moved-1,moved-2" in executed.stdout
        verified = kafka.run_tool("kafka-reassign-partitions", *server, *file, "--verify", check=True)
        assert verified.stdout.count("is completed.") == 3
        listed = kafka.run_tool("kafka-reassign-partitions", *server, "--list", check=True)
        assert "No partition reassignments found." in listed.stdout
        unregistered = kafka.run_tool("kafka-cluster", "unregister", *server, "--id", "9")
        assert "BrokerIdNotRegisteredException" in unregistered.stdout + unregistered.stderr
