"""Java consumers in one group: they join, leave and are killed."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Node
from tests.integration.groups.group_of_children import GroupUnderTest
from tests.peers import kafka

pytestmark = pytest.mark.java

PROPERTIES = {"group.min.session.timeout.ms": "1000", "group.initial.rebalance.delay.ms": "200"}
TOPIC = "java-group"


class JavaMember:
    """A VerifiableConsumer process and the events it printed."""

    def __init__(self, bootstrap: str, assignor: str, log: Path) -> None:
        command = kafka.java_command(
            kafka.TOOLS["kafka-verifiable-consumer"],
            *("--bootstrap-server", bootstrap, "--topic", TOPIC, "--group-id", TOPIC, "--verbose"),
            *("--session-timeout", "4000", "--reset-policy", "earliest", "--assignment-strategy", assignor),
        )
        with log.open("ab") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.events.append(json.loads(line))

    def owns(self) -> frozenset[int]:
        """The partitions it has."""
        owned: set[int] = set()
        for event in list(self.events):
            partitions = {each["partition"] for each in event.get("partitions", ())}
            if event["name"] == "partitions_assigned":
                owned |= partitions
            elif event["name"] == "partitions_revoked":
                owned -= partitions
        return frozenset(owned)

    def values(self) -> set[str]:
        """What it read."""
        return {event["value"] for event in list(self.events) if event["name"] == "record_data"}

    def end(self, number: signal.Signals) -> None:
        """Kill it, or let it leave."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(30)
        self._reader.join(30)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.mark.parametrize("assignor", ["RangeAssignor", "CooperativeStickyAssignor"])
def test_java_members_join_leave_and_are_killed(tmp_path: Path, assignor: str) -> None:
    """B-W06, B-T14, S86, G1, GL1: eager and cooperative; every value is read."""
    with Node(properties=PROPERTIES) as node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 4, 1)])[TOPIC].result(30)
        producer = Producer({"bootstrap.servers": node.bootstrap_servers})
        sent: set[str] = set()

        def send() -> None:
            for _ in range(40):
                sent.add(f"v{len(sent)}")
                producer.produce(TOPIC, value=f"v{len(sent) - 1}".encode(), partition=len(sent) % 4)
            assert producer.flush(30) == 0

        members: list[JavaMember] = []

        def start() -> JavaMember:
            members.append(
                JavaMember(
                    node.bootstrap_servers, f"org.apache.kafka.clients.consumer.{assignor}", tmp_path / "java.log"
                )
            )
            return members[-1]

        def settle(*alive: JavaMember) -> None:
            def is_settled() -> bool:
                owned = sorted(partition for member in alive for partition in member.owns())
                return owned == list(range(4)) and all(member.owns() for member in alive)

            GroupUnderTest.wait(is_settled, lambda: str([member.owns() for member in alive]))

        try:
            send()
            one = start()
            settle(one)
            two = start()
            settle(one, two)
            send()
            one.end(signal.SIGKILL)
            settle(two)
            send()
            three = start()
            settle(two, three)
            two.end(signal.SIGTERM)
            settle(three)
            GroupUnderTest.wait(
                lambda: sent <= set[str]().union(*(member.values() for member in members)), lambda: "values are missing"
            )
        finally:
            for member in members:
                member.end(signal.SIGKILL)
