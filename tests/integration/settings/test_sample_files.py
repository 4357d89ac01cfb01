"""Do the server.properties, broker.properties and controller.properties that come with Apache Kafka work unchanged?

The lines are the settings of those files (Apache Kafka 4.x, config/), without their comments.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.main import run
from headrace.client.blocking import BlockingClient
from headrace.config.node_settings import parse_node_config
from headrace.config.properties import parse_properties
from headrace.testing.node import free_ports

MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
COMMON = f"""
listener.security.protocol.map={MAP}
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""
SERVER = f"""{COMMON}
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-combined-logs
"""
BROKER = f"""{COMMON}
process.roles=broker
node.id=2
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://localhost:9092
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-broker-logs
"""
CONTROLLER = f"""{COMMON}
process.roles=controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=CONTROLLER://:9093
advertised.listeners=CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
log.dirs=/tmp/kraft-controller-logs
"""
IDLE = (
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads.per.data.dir",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
)


@pytest.mark.parametrize("text", [SERVER, BROKER, CONTROLLER], ids=["server", "broker", "controller"])
def test_kafkas_own_files_are_taken(text: str) -> None:
    """B75, S1-05: nothing is refused; of the keys only numbers of threads and those of share groups have no effect."""
    config = parse_node_config(parse_properties(text))
    assert config.without_effect == IDLE
    assert config.warnings == ()


def test_a_node_starts_with_kafkas_server_properties(tmp_path: Path) -> None:
    """B-T01, B-T03, KIP-853: formatted as the quorum of one, started, asked; only ports and directory are overridden."""
    client, controller = free_ports(2)
    file = tmp_path / "server.properties"
    ours = (
        SERVER.replace(":9092", f":{client}")
        .replace(":9093", f":{controller}")
        .replace("/tmp/kraft-combined-logs", str(tmp_path / "d"))
    )
    file.write_text(ours)
    assert run(["storage", "format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(file)]) == 0
    command = [sys.executable, "-m", "headrace", "start", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("headrace: without effect here: ")
        told: list[str] = []
        while "headrace node 1 ready in " not in (line := process.stdout.readline()):
            assert line, told
            told.append(line)
        with BlockingClient(f"localhost:{client}") as asked:
            assert asked.topics() is not None
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()
