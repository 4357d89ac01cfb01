"""Are dynamic settings taken and refused as Kafka's controller does it?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.config.dynamic import check_broker_settings, effective_config
from headrace.config.node_settings import parse_node_config
from headrace.config.rules import (
    Operation,
    ResourceType,
    apply_operation,
    check_resource_configs,
    check_topic_name,
)
from headrace.config.topic_config import topic_config, topic_defaults
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/config/kafka-4.3.1-outcomes.json").read_text())
THROTTLED = "leader.replication.throttled.replicas"
NODE = parse_node_config(GOLDEN["node"][0]["properties"])
TOPIC_CASES: list[dict[str, Any]] = [case for case in GOLDEN["topic"] if not case["existing"]]


@pytest.mark.parametrize("case", TOPIC_CASES, ids=[case["title"] for case in TOPIC_CASES])
def test_kafka_says_the_same_of_a_topics_settings(case: dict[str, Any]) -> None:
    """B70, B-C05: unknown keys, wrong types, values out of range, contradictions; the words are Kafka's."""
    if case["outcome"] is None:
        check_resource_configs(ResourceType.TOPIC, "t", case["configs"], node=NODE)
        return
    with pytest.raises(PeerError) as refused:
        check_resource_configs(ResourceType.TOPIC, "t", case["configs"], node=NODE)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message == case["outcome"].split(": ", 1)[1]


@pytest.mark.parametrize(
    ("current", "operation", "value", "expected"),
    [
        (None, Operation.APPEND, "compact", "delete,compact"),
        ("delete", Operation.APPEND, "compact", "delete,compact"),
        ("delete,compact", Operation.APPEND, "compact", "delete,compact"),
        ("delete,compact", Operation.SUBTRACT, "delete", "compact"),
        ("delete", Operation.SUBTRACT, "delete", ""),
        ("delete", Operation.SUBTRACT, "compact", "delete"),
        ("", Operation.APPEND, "compact", "compact"),
        ("delete", Operation.SET, "compact", "compact"),
        ("delete", Operation.DELETE, None, None),
    ],
)
def test_lists_grow_and_shrink(
    current: str | None, operation: Operation, value: str | None, expected: str | None
) -> None:
    """KIP-339: an append to what is not set starts from the default."""
    changed = apply_operation(ResourceType.TOPIC, "cleanup.policy", current, operation=operation, value=value)
    assert changed == expected


@pytest.mark.parametrize(
    ("current", "operation", "value", "expected"),
    [
        ("1:1,2:2,1:1,3:3", Operation.SUBTRACT, "1:1,9:9", "2:2,1:1,3:3"),
        ("1:1,2:2,1:1,3:3", Operation.SUBTRACT, "1:1,1:1", "2:2,3:3"),
        ("1:1,1:1", Operation.APPEND, "2:2,1:1,2:2", "1:1,1:1,2:2"),
    ],
)
def test_an_item_that_stands_twice_is_taken_away_once(
    current: str, operation: Operation, value: str, expected: str
) -> None:
    """KIP-339: as Kafka does it; what is appended is there once."""
    assert apply_operation(ResourceType.TOPIC, THROTTLED, current, operation=operation, value=value) == expected


def test_a_long_list_costs_its_length() -> None:
    """input:B25, input:B70: far longer than a request's 32,767 bytes, so that a cost of its square outlasts what the suite lets a test run."""
    items = [f"{number}:1" for number in range(300_000)]
    text = ",".join(items)

    def after(operation: Operation, current: str | None, value: str) -> str | None:
        return apply_operation(ResourceType.TOPIC, THROTTLED, current, operation=operation, value=value)

    assert after(Operation.APPEND, None, text) == text
    assert after(Operation.APPEND, text, text) == text
    assert after(Operation.SUBTRACT, text, text) == ""
    assert after(Operation.SUBTRACT, text, ",".join(items[1:])) == "0:1"


@pytest.mark.parametrize("operation", [Operation.APPEND, Operation.SUBTRACT])
@pytest.mark.parametrize("name", ["retention.ms", "nope"])
def test_only_lists_can_be_appended_to(name: str, operation: Operation) -> None:
    """B70: an incremental append on a non-list is INVALID_CONFIG."""
    with pytest.raises(
        PeerError, match=f"Can't {operation.name} to key {name} because its type is not LIST."
    ) as refused:
        apply_operation(ResourceType.TOPIC, name, None, operation=operation, value="1")
    assert refused.value.code is ErrorCode.INVALID_CONFIG


def test_a_megabyte_and_a_null_are_refused() -> None:
    """B70: 1 MiB of value is no number; a null is no value."""
    with pytest.raises(PeerError) as refused:
        check_resource_configs(ResourceType.TOPIC, "t", {"retention.ms": "9" * 2**20}, node=NODE)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    with pytest.raises(PeerError, match=r"Null value not supported for topic configs: retention\.ms"):
        check_resource_configs(ResourceType.TOPIC, "t", {"retention.ms": None}, node=NODE)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "a" * 250, "a/b"])
def test_bad_topic_names(name: str) -> None:
    """B70: the code is INVALID_TOPIC_EXCEPTION."""
    with pytest.raises(PeerError) as refused:
        check_topic_name(name)
    assert refused.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_brokers_own_setting_wins_over_the_clusters_and_the_file() -> None:
    """KIP-226: own over cluster over file; a topic without its own gets the result."""
    cluster, own = {"log.retention.ms": "2000", "message.max.bytes": "9"}, {"log.retention.ms": "1000"}
    assert topic_defaults(effective_config(NODE, cluster, own)).retention_ms == 1000
    after = effective_config(NODE, cluster, {})
    assert (after.log_retention_ms, after.message_max_bytes) == (2000, 9)
    assert topic_config({"retention.ms": "5"}, topic_defaults(after)).retention_ms == 5


def test_stored_settings_that_cannot_be_applied_are_left_out() -> None:
    """B70: what a newer or older node wrote does not stop this one."""
    stored = {"nope": "1", "num.partitions": "7", "log.retention.ms": "x", "message.max.bytes": "9"}
    after = effective_config(NODE, stored, {})
    assert (after.num_partitions, after.log_retention_ms, after.message_max_bytes) == (1, 604_800_000, 9)
    assert effective_config(NODE, {"max.connections": "0"}, {}).max_connections == NODE.max_connections
    of_one = "listener.name.plaintext.max.connection"
    limits = {f"{of_one}s": "0", f"{of_one}.creation.rate": "5", "listener.name.nobodys.max.connections": "5"}
    after = effective_config(NODE, limits, {})
    assert (after.max_connections_of_listeners, after.creation_rates_of_listeners) == ({}, {"PLAINTEXT": 5})
    many = {f"listener.name.n{each}.max.connections": "5" for each in range(1_000)}
    assert effective_config(NODE, many, {}) is NODE
    contradiction = effective_config(NODE, {"message.max.bytes": "9"}, {"log.retention.ms": "0"})
    assert contradiction.message_max_bytes == 9


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"num.partitions": "5"}, "Cannot update these configs dynamically: [num.partitions]"),
        ({"log.retention.ms": "x"}, "Invalid value x for configuration log.retention.ms: Not a number of type LONG"),
        ({"log.retention.ms": "0"}, "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"),
        ({"num.io.threads": "100"}, "value should not be greater than double the current value 8"),
        ({"num.io.threads": "3"}, "value should be at least half the current value 8"),
        ({"ssl.keystore.type": "PEM"}, "only per-listener using the listener prefix: [ssl.keystore.type]"),
        ({"listener.name.b.max.connections": "0"}, "listener.name.b.max.connections: Value must be at least 1"),
        ({"listener.name.b.max.connections.per.ip": "x"}, "Invalid value x for configuration max.connections.per.ip"),
        ({"max.connections": "0"}, "Invalid max.connections 0"),
        ({"max.connection.creation.rate": "0"}, "Invalid max.connection.creation.rate 0"),
        ({"listeners": "PLAINTEXT://:1"}, "listeners cannot be changed while the broker runs"),
    ],
)
def test_a_broker_refuses_what_it_cannot_do(own: dict[str, str], said: str) -> None:
    """B70: read-only keys, wrong types, contradictions: INVALID_REQUEST, as Kafka's brokers answer."""
    with pytest.raises(PeerError) as refused:
        check_broker_settings(NODE, NODE, cluster={}, own=own, is_default=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert said in refused.value.message


def test_what_belongs_to_one_broker_cannot_be_set_for_all() -> None:
    """B70: per-broker keys need a broker id."""
    for name in ("ssl.client.auth", "listener.name.plaintext.ssl.keystore.type"):
        with pytest.raises(PeerError, match="broker id must be specified"):
            check_broker_settings(NODE, NODE, cluster={name: "required"}, own={}, is_default=True)
