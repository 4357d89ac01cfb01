"""Are settings described and changed with the answers of a real Kafka 4.3.1?

The recorded requests are played in their order to the rules of ours, with a plain map in the controller's place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from immutables import Map

from headrace.broker.config_changes import BrokerSettings, Change, change_log_levels, check_change
from headrace.config.dynamic import effective_config
from headrace.config.node_settings import parse_node_config
from headrace.config.project_keys import PROJECT_KEYS
from headrace.config.rules import Operation, ResourceType, apply_operation, check_resource_configs
from headrace.controller.elr import check_min_isr_changes
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.metadata.config_view import ConfigView
from headrace.metadata.image import ConfigResource, ConfigsImage
from headrace.wire.messages.describe_configs import DescribeConfigsResourceResult

ANSWERS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden/config/kafka-4.3.1-answers.json").read_text()
)
RECORDED_WITH = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.voters": "1@127.0.0.1:19293",
    "listeners": "PLAINTEXT://127.0.0.1:19292,CONTROLLER://127.0.0.1:19293",
    "advertised.listeners": "PLAINTEXT://127.0.0.1:19292",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
OURS = {key.name for key in PROJECT_KEYS}
# Kafka's own words that name its exceptions or its arithmetic; the codes are compared.
OTHER_WORDS = ("requirement failed", "org.apache.kafka", "/ by zero", "This most likely occurs")


class Levels:
    """The loggers of a test."""

    def __init__(self) -> None:
        self.known = {"root": "INFO", "kafka.server.ReplicaManager": "INFO"}

    def levels(self) -> Mapping[str, str]:
        return self.known

    def set_level(self, logger: str, level: str | None) -> None:
        self.known[logger] = level or self.known["root"]


class Settings:
    """All stored settings and the node that reads them."""

    def __init__(self) -> None:
        self.node = parse_node_config(RECORDED_WITH)
        self.stored: dict[tuple[int, str], dict[str, str]] = {
            (2, "t"): {"retention.ms": "1000"},
            (4, ""): {"min.insync.replicas": "1"},  # a new cluster has it, because it keeps ELRs
        }
        self.levels = Levels()

    def configs(self) -> ConfigsImage:
        return ConfigsImage(
            by_resource=Map({ConfigResource(*key): Map(values) for key, values in self.stored.items() if values})
        )

    def view(self, *, documented: bool = False, synonyms: bool = True) -> ConfigView:
        configs = self.configs()
        current = effective_config(self.node, configs.of_all_brokers(), configs.of_broker(1))
        return ConfigView(
            started_with=self.node,
            current=current,
            configs=configs,
            shows_synonyms=synonyms,
            shows_documentation=documented,
        )

    def alter(self, kind: int, name: str, changes: list[Change], *, is_legacy: bool, validates: bool) -> None:
        view = self.view()
        settings = BrokerSettings(
            node_id=1, started_with=self.node, current=view.current, configs=view.configs, log_levels=self.levels
        )
        if kind == ResourceType.BROKER_LOGGER and not is_legacy:
            change_log_levels(name, changes, node_id=1, levels=self.levels, is_validation=validates)
            return
        check_change(kind, name, changes, settings=settings, is_legacy=is_legacy)
        before = {} if is_legacy else dict(self.stored.get((kind, name), {}))
        after: dict[str, str | None] = dict(before)
        for change in changes:
            after[change.name] = apply_operation(
                kind, change.name, before.get(change.name), operation=change.operation, value=change.value
            )
        check_min_isr_changes(ConfigResource(kind, name), after.items())
        kept = {key: text for key, text in after.items() if text is not None}
        check_resource_configs(kind, name, kept, node=view.current)
        if kind == ResourceType.TOPIC and name != "t":
            raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if not validates:
            self.stored[kind, name] = kept


def shown(entry: DescribeConfigsResourceResult, *, documented: bool) -> dict[str, Any]:
    return {
        "name": entry.name,
        "value": entry.value,
        "read_only": entry.read_only,
        "source": entry.config_source,
        "sensitive": entry.is_sensitive,
        "type": entry.config_type,
        "documentation": bool(entry.documentation) if documented else None,
        "synonyms": [[one.name, one.value, one.source] for one in entry.synonyms],
    }


def described(settings: Settings, call: dict[str, Any]) -> list[dict[str, Any]]:
    kind, name, *rest = call["args"]
    documented = call["kwargs"].get("doc", False)
    view = settings.view(documented=documented, synonyms=call["kwargs"].get("syn", True))
    wanted = rest[0] if rest else None
    match kind:
        case ResourceType.TOPIC:
            entries = view.topic(name, wanted)
        case ResourceType.BROKER:
            entries = view.broker(wanted) if name else view.all_brokers(wanted)
        case ResourceType.GROUP:
            entries = view.group(name, wanted)
        case _:
            entries = view.client_metrics(name, wanted)
    found = [shown(entry, documented=documented) for entry in entries if entry.name not in OURS]
    if call["kwargs"].get("version", 4) < 3:
        for entry in found:
            entry |= {"type": 0, "documentation": ""}
    return sorted(found, key=lambda entry: str(entry["name"]))


def altered(settings: Settings, call: dict[str, Any]) -> tuple[int, str | None]:
    kind, name, rows = call["args"]
    is_legacy = call["call"] == "alter"
    changes = [Change(row[0], Operation.SET, row[1]) if is_legacy else Change(*row) for row in rows]
    try:
        settings.alter(kind, name, changes, is_legacy=is_legacy, validates=call["kwargs"].get("validate", False))
    except PeerError as refusal:
        return refusal.code, refusal.message
    return 0, None


def test_every_recorded_answer_is_given_again() -> None:
    """B-C05, B70, KIP-226, KIP-339, KIP-412: values, sources, synonyms, types, codes and words, in one history."""
    settings = Settings()
    compared = 0
    for call in ANSWERS:
        if call["call"] == "describe":
            answer = call["answer"]
            if answer["error_code"] or call["args"][0] == ResourceType.BROKER_LOGGER:
                continue
            assert described(settings, call) == answer["configs"], call["args"]
        elif call["call"] in ("incremental", "alter"):
            code, message = altered(settings, call)
            ((kafkas_code, kafkas_message),) = call["answer"]
            if kafkas_code == ErrorCode.UNKNOWN_SERVER_ERROR:
                assert code == ErrorCode.INVALID_REQUEST, "an operation that does not exist"
                continue
            assert (code, call["args"]) == (kafkas_code, call["args"]), message
            if kafkas_message is None or not any(words in kafkas_message for words in OTHER_WORDS):
                assert message == kafkas_message
        compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", ["log.retention.ms", "retention.ms"])
def test_a_setting_of_the_file_is_static(name: str) -> None:
    """KIP-226: source 4, and the topic's value behind it."""
    settings = Settings()
    settings.node = parse_node_config({**RECORDED_WITH, "log.retention.hours": "1"})
    settings.stored = {}
    view = settings.view()
    (entry,) = view.broker(["log.retention.hours"]) if name.startswith("log.") else view.topic("t", [name])
    if name == "log.retention.ms":
        assert (entry.value, entry.config_source, entry.read_only) == ("1", 4, True)
    else:
        assert (entry.value, entry.synonyms) == ("3600000", ())


def test_secrets_are_never_described() -> None:
    """B70: sensitive values stay hidden, in value and synonyms."""
    settings = Settings()
    settings.node = parse_node_config(
        {**RECORDED_WITH, "ssl.key.password": "s3cret", "unknown.plugin": "s3cret"} | _PLUGIN
    )
    for name in ("ssl.key.password", "unknown.plugin"):
        (entry,) = settings.view().broker([name])
        assert entry.is_sensitive
        assert "s3cret" not in repr(entry)


_PLUGIN = {"client.quota.callback.class": "org.example.Quotas"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([("root", "DEBUG"), ("root", "WARN")], "Error due to duplicate config keys"),
        ([("root", None)], "Null value not supported for : root"),
    ],
)
def test_keys_of_loggers_are_checked_as_those_of_others(changes: list[tuple[str, str | None]], words: str) -> None:
    """input:B24, KIP-412: INVALID_REQUEST, and no level changes."""
    settings = Settings()
    before = dict(settings.levels.known)
    asked = [Change(name, Operation.SET, value) for name, value in changes]
    with pytest.raises(PeerError, match=words) as refused:
        settings.alter(ResourceType.BROKER_LOGGER, "1", asked, is_legacy=False, validates=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert settings.levels.known == before
