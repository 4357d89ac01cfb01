"""The cluster, the network, the disks and the clients of one run, as processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headrace.testing.asking import ask, describe_quorum
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.namespaces import Network
from tools.chaos.clients import TOPIC
from tools.chaos.disks import Disk
from tools.chaos.links import SlowLinks
from tools.chaos.plan import NEEDS_DISKS, NEEDS_NETWORK, Kind
from tools.chaos.recorder import Recorder

CLIENTS: Final = 200
"""The namespace of the clients."""
PARTITIONS: Final = 6
EXTRA_BROKER: Final = 104
"""The id of the broker that comes and goes."""
ROLES: Final = {"writer": 2, "reader": 1, "member": 2, "admin": 1}
CLIENT_END_S: Final = 150
SETTINGS: Final = {
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "min.insync.replicas": "2",
    "log.segment.bytes": "1048576",
    "metadata.log.max.record.bytes.between.snapshots": "40000",
}
BRISK: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
}
"""Time limits under which a minute holds many changes; every other seed has Kafka's own."""
_ROOT = Path(__file__).parents[2]
_ASK_S = 0.5
_POLL_S = 0.05


class Stage:
    """Nodes 1, 2, ... are broker and controller. As a context manager it is started, and nothing of it is left at the end."""

    def __init__(
        self, directory: Path, *, nodes: int, kinds: frozenset[Kind], seed: int, has_namespaces: bool = True
    ) -> None:
        self.directory = directory
        self.rng = random.Random(f"{seed} stage")
        self.network: Network | None = None
        self.links: SlowLinks | None = None
        self.disks: dict[int, Disk] = {}
        self.clients: list[subprocess.Popen[bytes]] = []
        self._kinds = kinds
        self._has_namespaces = has_namespaces
        self._seed = seed
        self._stack = ExitStack()
        self._nodes = nodes
        properties = {**SETTINGS, **(BRISK if seed % 2 else {})}
        self.cluster = Cluster(controllers=nodes, combined=True, properties=properties, directory=directory)
        self.recorder = Recorder(directory / "chaos.jsonl", "chaos")

    # -- start and end ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        """All is there, and the topic too; the clients are not started."""
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is left but files."""
        self._stack.close()

    def _build(self) -> None:
        self._stack.enter_context(self.recorder)
        numbers = (*range(1, self._nodes + 1), EXTRA_BROKER)
        if self._has_namespaces:
            self.network = self._stack.enter_context(Network((*numbers, CLIENTS)))
            for member in self.cluster.members.values():
                member.place = self.network.place(member.node_id)
            if Kind.SLOW in self._kinds:
                rng = random.Random(f"{self._seed} links")
                self.links = self._stack.enter_context(SlowLinks(self.network, numbers, rng))
        assert self.network is not None or not self._kinds & NEEDS_NETWORK
        if self._kinds & NEEDS_DISKS:
            for member in self.cluster.members.values():
                self.disks[member.node_id] = Disk(member.data)
                self._stack.callback(self.disks[member.node_id].remove)
        self._stack.callback(self.cluster.end)
        self._stack.callback(self._end_clients)
        self.cluster.start()
        self._create_topic()

    def _create_topic(self) -> None:
        topic = CreatableTopic(
            name=TOPIC,
            num_partitions=PARTITIONS,
            replication_factor=3,
            configs=(CreatableTopicConfig(name="min.insync.replicas", value="2"),),
        )
        answer = self.ask(self.cluster[1], CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 7, timeout_s=40)
        assert [each.error_code for each in answer.topics] == [0], answer
        self.until(lambda: all(len(self.partitions(each)) == PARTITIONS for each in self.cluster.members.values()))

    def start_node(self, node_id: int) -> None:
        """Start its process, noted for the judge; does not wait."""
        if not self.cluster[node_id].is_running:
            self.recorder.see("start", broker=node_id)
            self.cluster.launch(node_id)

    def start_clients(self) -> None:
        """All of them."""
        servers = ",".join(f"{each.place.host}:{each.port}" for each in self.core)
        brokers = ",".join(str(each.node_id) for each in self.core)
        prefix = self.network.place(CLIENTS).prefix if self.network is not None else ()
        for role, count in ROLES.items():
            for number in range(count):
                name = f"{role}{number}"
                command = [*prefix, sys.executable, "-m", "tools.chaos.clients", role, "--name", name]
                command += ["--bootstrap", servers, "--brokers", brokers, "--partitions", str(PARTITIONS)]
                command += ["--seed", str(self._seed), "--file", str(self.directory / f"{name}.jsonl")]
                with (self.directory / f"{name}.log").open("wb") as output:
                    self.clients.append(subprocess.Popen(command, stdout=output, stderr=output, cwd=_ROOT))

    def stop_clients(self) -> list[str]:
        """Let them end; what they must answer for: an exit code that is not 0."""
        for client in self.clients:
            client.send_signal(signal.SIGTERM)
        end = time.monotonic() + CLIENT_END_S
        wrong = []
        for client in self.clients:
            try:
                code: int | str = client.wait(max(end - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                code = "no end"
            if code != 0:
                wrong.append(f"client {client.args!r} ended with {code}")
        return wrong

    def _end_clients(self) -> None:
        for client in self.clients:
            if client.poll() is None:
                client.kill()
                client.wait()

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def core(self) -> list[Member]:
        """The nodes that are always members."""
        return [member for node_id, member in sorted(self.cluster.members.items()) if node_id != EXTRA_BROKER]

    def ask(self, member: Member, request: Any, version: int, *, timeout_s: float = _ASK_S) -> Any:
        """The answer of a broker. Raises OSError."""
        return ask(member.place.host, member.port, request, version, timeout_s=timeout_s)

    def partitions(self, member: Member, topic: str = TOPIC) -> list[Any]:
        """A topic's partitions as a broker tells of them; none where it does not answer."""
        return self._topics(member, (MetadataRequestTopic(name=topic),)).get(topic, [])

    def _topics(self, member: Member, wanted: tuple[MetadataRequestTopic, ...] | None) -> Mapping[str, list[Any]]:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        try:
            answer = self.ask(member, request, 12)
        except OSError:
            return {}
        return {
            each.name: sorted(each.partitions, key=lambda part: part.partition_index)
            for each in answer.topics
            if each.error_code == 0
        }

    def known_partitions(self, topic: str = TOPIC) -> list[Any]:
        """As the first broker tells that answers."""
        return next((found for each in self.core if (found := self.partitions(each, topic))), [])

    def controller(self) -> int:
        """The active controller; -1: nobody says so."""
        found = {-1: -1}
        for member in self.core:
            try:
                view = describe_quorum(member.place.host, member.controller_port, timeout_s=_ASK_S)
            except OSError:
                continue
            if view.error_code == 0:
                found[view.leader_epoch] = member.node_id
        return found[max(found)]

    def is_in_sync(self) -> bool:
        """Whether every replica of every partition of every topic is, as all nodes tell."""
        for member in self.core:
            topics = self._topics(member, None)
            parts = [part for each in topics.values() for part in each]
            if TOPIC not in topics or any(set(each.isr_nodes) != set(each.replica_nodes) for each in parts):
                return False
        return True

    def until(self, reached: Callable[[], bool], *, timeout_s: float = 120.0) -> float | None:
        """Seconds until it is so; None: it did not come to that."""
        began = time.monotonic()
        while time.monotonic() - began < timeout_s:
            if reached():
                return time.monotonic() - began
            time.sleep(_POLL_S)
        return None

    def different_copies(self) -> list[str]:
        """Partitions whose replicas are not the same bytes. All that is acknowledged has been written, and nobody writes: their ends are the high watermarks."""
        wrong: dict[int, str] = {}

        def compared() -> bool:
            wrong.clear()
            for part in self.known_partitions():
                copies = {each: self._log_bytes(each, part.partition_index) for each in part.replica_nodes}
                if len(set(copies.values())) > 1:
                    sizes = {each: len(copy) for each, copy in copies.items()}
                    wrong[part.partition_index] = f"{TOPIC}-{part.partition_index}: sizes {sizes}"
            return not wrong

        self.until(compared, timeout_s=30)
        return list(wrong.values())

    def _log_bytes(self, node_id: int, partition: int) -> bytes:
        directory = self.cluster[node_id].data / f"{TOPIC}-{partition}"
        return b"".join(each.read_bytes() for each in sorted(directory.glob("*.log")))

    def histories(self) -> list[str]:
        """All lines that anybody wrote."""
        return [line for path in sorted(self.directory.glob("*.jsonl")) for line in path.read_text().splitlines()]
