"""Does a running node describe and change settings with the answers that a real Kafka 4.3.1 gave?"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from headrace.config.project_keys import PROJECT_KEYS
from headrace.testing import Node
from headrace.wire.codec import decode, encode
from headrace.wire.messages import alter_configs, create_topics, describe_configs, incremental_alter_configs
from headrace.wire.protocols.request_header import RequestHeader
from headrace.wire.schema import Message

M = TypeVar("M", bound=Message)
ANSWERS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[2] / "golden/config/kafka-4.3.1-answers.json").read_text()
)
OURS = {key.name for key in PROJECT_KEYS}
STATIC = ("listeners", "advertised.listeners", "controller.quorum.voters", "log.dirs", "node.id", "broker.id")
BROKER_LOGGER, UNKNOWN_SERVER_ERROR = 8, -1


class Wire:
    """One connection, one request at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Message, version: int, response: type[M], *, flexible_from: int) -> M:
        is_flexible = version >= flexible_from
        header = RequestHeader(
            request_api_key=type(request).SCHEMA.api_key,
            request_api_version=version,
            correlation_id=1,
            client_id="test",
        )
        frame = encode(header, 2 if is_flexible else 1) + encode(request, version)
        self._socket.sendall(struct.pack(">i", len(frame)) + frame)
        (size,) = struct.unpack(">i", self._read(4))
        return decode(response, self._read(size)[5 if is_flexible else 4 :], version)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the node closed the connection"
            data += more
        return data


@pytest.fixture
def bootstrap() -> Iterator[str]:
    recorded_with = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
    with Node(properties=recorded_with) as node:
        yield node.bootstrap_servers


@pytest.fixture
def wire(bootstrap: str) -> Iterator[Wire]:
    connection = Wire(bootstrap)
    yield connection
    connection.close()


def create(wire: Wire) -> list[list[Any]]:
    topic = create_topics.CreatableTopic(
        name="t",
        num_partitions=1,
        replication_factor=1,
        configs=(create_topics.CreatableTopicConfig(name="retention.ms", value="1000"),),
    )
    answer = wire.ask(
        create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000),
        7,
        create_topics.CreateTopicsResponse,
        flexible_from=5,
    ).topics[0]
    assert answer.error_code == 0, answer.error_message
    return [[one.name, one.value, one.read_only, one.config_source, one.is_sensitive] for one in answer.configs or ()]


def describe(wire: Wire, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    version, documented = kwargs.get("version", 4), kwargs.get("doc", False)
    wanted = describe_configs.DescribeConfigsResource(
        resource_type=args[0], resource_name=args[1], configuration_keys=args[2] if len(args) > 2 else None
    )
    request = describe_configs.DescribeConfigsRequest(
        resources=(wanted,), include_synonyms=kwargs.get("syn", True), include_documentation=documented
    )
    (result,) = wire.ask(request, version, describe_configs.DescribeConfigsResponse, flexible_from=4).results
    configs = [
        {
            "name": one.name,
            "value": one.value,
            "read_only": one.read_only,
            "source": one.config_source,
            "sensitive": one.is_sensitive,
            "type": one.config_type,
            "documentation": one.documentation not in (None, "") if documented else one.documentation,
            "synonyms": [[other.name, other.value, other.source] for other in one.synonyms],
        }
        for one in result.configs
        if one.name not in OURS
    ]
    return {
        "error_code": result.error_code,
        "error_message": result.error_message,
        "configs": sorted(configs, key=lambda one: str(one["name"])),
    }


def change(wire: Wire, call: dict[str, Any]) -> list[list[Any]]:
    kind, name, rows = call["args"]
    validates = call["kwargs"].get("validate", False)
    if call["call"] == "incremental":
        changes = tuple(
            incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in rows
        )
        one = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
        asked = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(one,), validate_only=validates)
        told = wire.ask(asked, 1, incremental_alter_configs.IncrementalAlterConfigsResponse, flexible_from=1)
        return [[each.error_code, each.error_message] for each in told.responses]
    all_of_them = tuple(alter_configs.AlterableConfig(name=key, value=value) for key, value in rows)
    legacy = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=all_of_them)
    request = alter_configs.AlterConfigsRequest(resources=(legacy,), validate_only=validates)
    answer = wire.ask(request, 2, alter_configs.AlterConfigsResponse, flexible_from=2)
    return [[each.error_code, each.error_message] for each in answer.responses]


def test_a_running_node_gives_kafkas_answers(wire: Wire) -> None:
    """B-C05, B70, KIP-133, KIP-226, KIP-339: the recorded history, call by call; changes take effect before the next call."""
    compared = 0
    for call in ANSWERS:
        if call["call"] == "create":
            assert create(wire) == call["answer"]
        elif call["args"][0] == BROKER_LOGGER and not _is_refusal(call):
            continue
        elif call["call"] == "describe":
            found = describe(wire, call["args"], call["kwargs"])
            expected = call["answer"]
            assert found["error_code"] == expected["error_code"], call["args"]
            assert _without_places(found["configs"]) == _without_places(expected["configs"]), call["args"]
        else:
            codes = [code for code, _ in change(wire, call)]
            if call["answer"][0][0] != UNKNOWN_SERVER_ERROR:
                assert codes == [code for code, _ in call["answer"]], call
        compared += 1
    assert compared > 120


def _is_refusal(call: dict[str, Any]) -> bool:
    """Loggers differ in name; what is refused whatever the logger does not."""
    if call["call"] == "describe":
        return bool(call["answer"]["error_code"])
    return bool(call["answer"][0][0] == 42)


def _without_places(configs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Addresses and directories are the test's own."""
    return [one for one in configs if one["name"] not in STATIC]


def test_log_levels_are_described_and_changed(wire: Wire) -> None:
    """KIP-412: our loggers, Kafka's level names."""
    before = describe(wire, [BROKER_LOGGER, "1", ["headrace.server"]], {})["configs"]
    assert [one["name"] for one in before] == ["headrace.server"]
    assert before[0]["source"] == 6
    setting: dict[str, Any] = {
        "call": "incremental",
        "args": [BROKER_LOGGER, "1", [["headrace.server", 0, "ERROR"]]],
        "kwargs": {},
    }
    assert change(wire, setting) == [[0, None]]
    assert describe(wire, [BROKER_LOGGER, "1", ["headrace.server"]], {})["configs"][0]["value"] == "ERROR"
    setting["args"] = [BROKER_LOGGER, "1", [["headrace.server", 1, None]]]
    assert change(wire, setting) == [[0, None]]
    assert describe(wire, [BROKER_LOGGER, "1", ["headrace.server"]], {})["configs"] == before


def test_a_limit_of_connections_takes_effect_while_the_node_runs(wire: Wire, bootstrap: str) -> None:
    """KIP-226: max.connections.per.ip holds from the next connection on, and is lifted again."""

    def limit(operation: int, value: str | None) -> None:
        rows = [["max.connections.per.ip", operation, value]]
        assert change(wire, {"call": "incremental", "args": [4, "", rows], "kwargs": {}}) == [[0, None]]

    limit(0, "1")
    second = Wire(bootstrap)
    with pytest.raises((AssertionError, ConnectionError)):
        describe(second, [4, "", None], {})
    second.close()
    limit(1, None)
    third = Wire(bootstrap)
    assert [each["name"] for each in describe(third, [4, "", None], {})["configs"]] == ["min.insync.replicas"]
    third.close()
