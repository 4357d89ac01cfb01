"""Are the tables of configuration keys those of Apache Kafka 4.3.1?"""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.config.broker_keys import KAFKA_KEYS
from headrace.config.docs import documentation_of
from headrace.config.group_keys import CLIENT_METRICS_KEYS, GROUP_KEYS, GROUP_SYNONYMS
from headrace.config.key import ConfigKey, InvalidConfigValue, Type, Update, double_text, value_text
from headrace.config.node_config import NodeConfig
from headrace.config.project_keys import ALIASES, FORMER_KEYS, PROJECT_KEYS
from headrace.config.topic_config import TopicConfig, topic_defaults
from headrace.config.topic_keys import BROKER_SYNONYMS, TOPIC_KEYS

FACTS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "golden/config/kafka-4.3.1-keys.json").read_text())
TABLES = {"broker": KAFKA_KEYS, "topic": TOPIC_KEYS, "group": GROUP_KEYS, "client_metrics": CLIENT_METRICS_KEYS}
UPDATE = {"read-only": Update.READ_ONLY, "per-broker": Update.PER_BROKER, "cluster-wide": Update.CLUSTER_WIDE}
ROWS = [(table, fact) for table in TABLES for fact in FACTS[table]]


def find(table: str, name: str) -> ConfigKey:
    return next(key for key in TABLES[table] if key.name == name)


@pytest.mark.parametrize(("table", "fact"), ROWS, ids=[f"{table}:{fact['name']}" for table, fact in ROWS])
def test_a_key_is_kafkas(table: str, fact: dict[str, Any]) -> None:
    """B75, B-C05: name, type, default, valid values and when it may change are Kafka's."""
    key = find(table, fact["name"])
    assert key.type is Type[fact["type"]]
    assert value_text(key, key.default) == (None if fact["required"] else fact["default"])
    assert key.required == fact["required"]
    assert key.internal == fact["internal"]
    assert key.update is UPDATE[fact["mode"] or "read-only"]
    assert key.is_sensitive == (fact["type"] == "PASSWORD")
    if fact["valid"] is not None and not fact["valid"].startswith(("list ", "non-empty list")):
        assert key.valid == fact["valid"]


@pytest.mark.parametrize("table", TABLES)
def test_no_key_is_missing_or_made_up(table: str) -> None:
    """B75: the tables are complete, in order, and hold nothing that Kafka does not know."""
    assert [key.name for key in TABLES[table]] == [fact["name"] for fact in FACTS[table]]


def test_list_keys_know_when_they_may_be_empty_or_null() -> None:
    """B75: `isEmptyAllowed` and `isNullAllowed` of Kafka's lists."""
    for table, fact in ROWS:
        if fact["valid"] is None or not fact["valid"].startswith("list "):
            continue
        check = find(table, fact["name"]).check
        assert check is not None
        if "isEmptyAllowed=false" in fact["valid"]:
            with pytest.raises(InvalidConfigValue):
                check(fact["name"], ())
        else:
            check(fact["name"], ())
        if "isNullAllowed=false" in fact["valid"]:
            with pytest.raises(InvalidConfigValue):
                check(fact["name"], None)
        else:
            check(fact["name"], None)


def test_synonyms_are_kafkas() -> None:
    """KIP-226: which key of the broker gives the default of a topic's or group's key."""
    assert {name: list(names) for name, names in BROKER_SYNONYMS.items()} == FACTS["topic_synonyms"]
    assert {name: key for name, key in FACTS["group_synonyms"].items() if key is not None} == GROUP_SYNONYMS


@pytest.mark.parametrize("key", [*KAFKA_KEYS, *PROJECT_KEYS, *TOPIC_KEYS, *GROUP_KEYS], ids=lambda key: key.name)
def test_every_default_is_valid_and_documented(key: ConfigKey) -> None:
    """B75: a default is never refused by its own check."""
    text = value_text(key, key.default)
    if text is not None and key.type is not Type.PASSWORD:
        assert key.parse(text) == key.default
    assert documentation_of(key).startswith("A value of type ")


def test_fields_of_the_configurations_have_kafkas_defaults() -> None:
    """B75: a NodeConfig made in code is the one of an empty file."""
    node, topic = NodeConfig(node_id=1), TopicConfig()
    for key in (*KAFKA_KEYS, *PROJECT_KEYS):
        derived = ("listeners", "node.id", "process.roles", "controller.listener.names", "inter.broker.listener.name")
        field = key.name.replace(".", "_")
        if key.name in derived or not hasattr(node, field) or key.default is None or key.name.endswith(".map"):
            continue
        assert getattr(node, field) == key.default, key.name
    for key in TOPIC_KEYS:
        if not key.internal:
            assert getattr(topic, key.name.replace(".", "_")) == key.default, key.name
    assert topic_defaults(node) == topic


def test_names_of_the_project_do_not_hide_kafkas() -> None:
    """Ledger section 2: an alias is no key of Kafka's but `broker.id`; a former key is none of today's."""
    kafka = {key.name for key in KAFKA_KEYS}
    assert {alias for alias in ALIASES if alias in kafka} == {"broker.id"}
    assert not {key.name for key in PROJECT_KEYS} & kafka
    assert not FORMER_KEYS & kafka
    assert set(ALIASES.values()) <= kafka | {key.name for key in PROJECT_KEYS}


def test_every_setting_of_a_node_is_read_by_somebody() -> None:
    """B75: a key that nothing reads has no field, so that it is listed as without effect."""
    sources = Path(headrace.__file__).parent
    code = "\n".join(file.read_text() for file in sources.rglob("*.py") if file.name != "node_config.py")
    unread = [one.name for one in fields(NodeConfig) if not re.search(rf"\.{one.name}\b", code)]
    assert unread == []


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.5, "0.5"),
        (1.0, "1.0"),
        (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e7, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.0005, "5.0E-4"),
        (-2.5e-10, "-2.5E-10"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_doubles_are_shown_as_java_shows_them(number: float, text: str) -> None:
    """DescribeConfigs: `Double.toString`."""
    assert double_text(number) == text
