"""Do the server.properties, broker.properties and controller.properties that come with Apache Kafka work unchanged?

The lines are the settings of those files (Apache Kafka 4.x, config/), without their comments.
"""

from __future__ import annotations

import json
import re
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
from tests.support.commands import headrace

ROOT = Path(__file__).parents[3]

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


def blocks() -> list[list[str]]:
    """The lines of each block of docs/quorum.md about three nodes: a file, its commands, commands of a user, the file of a broker."""
    text = (ROOT / "docs" / "quorum.md").read_text()
    section = text.partition("\n## A cluster of three nodes\n")[2].partition("\n## ")[0]
    return [block.strip().splitlines() for block in re.findall(r"(?s)```\n(.*?)```", section)]


class Place:
    """Stands in for the hosts of the page: ports of 127.0.0.1, and a directory for each node."""

    def __init__(self, directory: Path) -> None:
        ports = free_ports(8)
        self._addresses = {
            f"10.0.0.{node}:{port}": f"127.0.0.1:{ports[2 * node - 2 + (port == 9093)]}"
            for node in (1, 2, 3, 4)
            for port in (9092, 9093)
        }
        self._directory = directory

    def here(self, line: str) -> str:
        """A line of the page with addresses of this machine."""
        return re.sub(r"10\.0\.0\.\d:909\d", lambda found: self._addresses[found[0]], line)

    def file_of(self, node_id: int, lines: list[str]) -> str:
        """The file of a node, made of that of node 1 as the page says."""
        own = [
            line.replace("10.0.0.1", f"10.0.0.{node_id}") if line.startswith("listeners=") else line for line in lines
        ]
        text = "\n".join(map(self.here, own)).replace("node.id=1", f"node.id={node_id}")
        file = self._directory / f"{node_id}.properties"
        file.write_text(text.replace("/var/lib/headrace", str(self._directory / str(node_id))))
        return str(file)


def test_the_cluster_of_the_page_about_the_quorum_works(tmp_path: Path) -> None:
    """B-T01, B-T03, B-T11: its files and commands as they stand there, but for addresses and directories; then a broker joins."""
    node, [form, start], [create, produce, consume], broker = blocks()
    place = Place(tmp_path)
    files = [place.file_of(node_id, node) for node_id in (1, 2, 3)]
    files.append(place.file_of(4, broker))
    running: list[subprocess.Popen[str]] = []
    try:
        for file in files:
            words = form.replace("CLUSTER-ID", "5L6g3nShT-eMCtK--X86sw").replace("node.properties", file).split()
            assert headrace(*words[1:]).code == 0
            command = [sys.executable, "-m", *start.replace("node.properties", file).split()]
            with Path(f"{file}.log").open("w") as log:
                running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True))
        for process in running:
            assert process.stdout is not None
            assert " ready in " in process.stdout.readline()
        assert headrace(*place.here(create).split()[1:]).out == "Created topic orders.\n"
        said, _, send = place.here(produce).partition(" | ")
        assert headrace(*send.split()[1:], stdin=f"{said.split()[1]}\n").code == 0
        assert headrace(*place.here(consume).split()[1:]).out == "hello\n"
        server = place.here(create).split()[-2:]
        shown = headrace("topics", "--describe", "--topic", "orders", *server, "--json")
        [topic] = json.loads(shown.out)
        assert [len(each["isr"]) for each in topic["partitions"]] == [3] * 6
        assert topic["configs"]["min.insync.replicas"] == "2"
    finally:
        for process in running:
            process.terminate()
        for process in running:
            try:
                assert process.wait(30) == 0
            finally:
                process.kill()
                process.communicate()
