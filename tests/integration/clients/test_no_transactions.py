"""Clients that want transactions, which are not supported yet: each stops at once, and says why."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaException, Producer
from kafka import KafkaProducer

from tests.peers.kafka import run_tool

Name = Callable[[str], str]
ASKS_FOR_S = 60.0
"""How long a client would go on asking; it must not come to that."""


def test_librdkafka_stops(bootstrap: str, new_name: Name) -> None:
    """A fatal error of init_transactions, with the error's name."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": new_name("tx")})
    with pytest.raises(KafkaException, match="Transactional Id authorization failed") as caught:
        producer.init_transactions(ASKS_FOR_S)
    assert caught.value.args[0].fatal()


def test_aiokafka_stops(bootstrap: str, new_name: Name) -> None:
    """`start` raises."""

    async def scenario() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=new_name("tx"))
        try:
            await asyncio.wait_for(producer.start(), ASKS_FOR_S)
        finally:
            await producer.stop()

    with pytest.raises(Exception, match=r"(?i)transactional.?id.?authorization"):
        asyncio.run(scenario())


def test_kafka_python_stops(bootstrap: str, new_name: Name) -> None:
    """`init_transactions` raises."""
    producer = KafkaProducer(
        bootstrap_servers=bootstrap, transactional_id=new_name("tx"), max_block_ms=int(ASKS_FOR_S * 1000)
    )
    began = time.monotonic()
    try:
        with pytest.raises(Exception, match=r"(?i)transactional.?id.?authorization"):
            producer.init_transactions()
    finally:
        producer.close(timeout=1)
    assert time.monotonic() - began < ASKS_FOR_S


@pytest.mark.java
def test_the_java_client_stops(bootstrap: str, new_name: Name) -> None:
    """kafka-producer-perf-test with a transactional id."""
    done = run_tool(
        "kafka-producer-perf-test",
        *("--bootstrap-server", bootstrap, "--topic", new_name("tx"), "--num-records", "1", "--record-size", "1"),
        *("--throughput", "-1", "--transactional-id", new_name("tx"), "--transaction-duration-ms", "100"),
    )
    assert done.returncode != 0
    assert "TransactionalIdAuthorizationException" in done.stdout + done.stderr
