"""Members that speak the consumer protocol of KIP-848, which is not supported yet: each is told so, and what to set."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError

from headrace.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.peers.kafka import run_tool
from tests.support.raw import RawConnection

Name = Callable[[str], str]
ASKS_FOR_S = 60.0


def test_librdkafka_stops(bootstrap: str, new_name: Name) -> None:
    """KIP-848: `poll` returns a fatal error with the API's name; a broker that does not know the API is asked again for ever, silently."""
    settings = {"bootstrap.servers": bootstrap, "group.id": new_name("group"), "log_level": 0}
    consumer = Consumer({**settings, "group.protocol": "consumer"})
    try:
        consumer.subscribe([new_name("topic")])
        message = consumer.poll(ASKS_FOR_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert (error.code(), "ConsumerGroupHeartbeat" in str(error)) == (KafkaError._FATAL, True)
    finally:
        consumer.close()


@pytest.mark.parametrize("version", [0, 1])
def test_the_response_says_what_to_set(bootstrap: str, version: int) -> None:
    """KIP-848: UNSUPPORTED_VERSION, as of Kafka with `group.version` 0, and a sentence for whoever shows it."""
    with RawConnection(int(bootstrap.rsplit(":", 1)[1])) as member:
        answer = member.ask(ConsumerGroupHeartbeatRequest(group_id="group", member_id="member"), version)
    assert (answer.error_code, answer.member_id, answer.assignment) == (35, None, None)
    assert answer.error_message == (
        "The consumer protocol is not supported by this cluster yet: set group.protocol=classic."
    )


@pytest.mark.java
def test_the_java_client_stops(bootstrap: str, new_name: Name) -> None:
    """kafka-console-consumer says which setting to change."""
    done = run_tool(
        "kafka-console-consumer",
        *("--bootstrap-server", bootstrap, "--topic", new_name("topic"), "--timeout-ms", str(int(ASKS_FOR_S * 1000))),
        *("--command-property", "group.protocol=consumer"),
    )
    assert "Set group.protocol=classic" in done.stdout + done.stderr
