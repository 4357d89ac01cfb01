"""How do nodes of Apache Kafka and of Headrace run in one cluster, and what is the same about them?"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from headrace.server.formatting import FormatOrder
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from tests.peers import kafka

HEAP: Final = ("-Xms64m", "-Xmx384m")


class KafkaMember(Member):
    """A node of Apache Kafka as a child process. Its metadata log says on INFO what it decides."""

    log_level = "info"
    quick = True
    """Whether its JVM is set for a short start-up, not as Kafka's own scripts set it."""
    heap: Sequence[str] = HEAP
    is_plain = True
    """Formatted without the features that Headrace has not built."""

    def settings(self, quorum: Mapping[str, str]) -> dict[str, str]:
        """Kafka's own defaults for a cluster with few brokers, and this node's lines."""
        few = {"transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1"}
        return {**few, **super().settings(quorum)}

    def format(self, order: FormatOrder, quorum: Mapping[str, str]) -> None:
        """By kafka-storage."""
        self.write_config(quorum)
        arguments = ["format", "-t", order.cluster_id, "-c", str(self.config)]
        if order.initial_controllers:
            founders = [
                f"{each.node_id}@{each.host}:{each.port}:{each.directory_id}" for each in order.initial_controllers
            ]
            arguments += ["--initial-controllers", ",".join(founders)]
        elif order.has_no_initial_controllers:
            arguments += ["--no-initial-controllers"]
        if self.is_plain and not order.has_no_initial_controllers:
            arguments += kafka.plain_features()
        kafka.run_tool("kafka-storage", *arguments, check=True)

    def command(self) -> Sequence[str]:
        """The JVM's."""
        return kafka.java_command("kafka.Kafka", str(self.config), heap=self.heap, quick=self.quick)

    def environment(self) -> dict[str, str] | None:
        """With the wanted log level; without a heap meant for others."""
        return {**os.environ, "KAFKA_LOG_LEVEL": self.log_level}

    def is_ready(self) -> bool:
        """Whether its listener takes connections."""
        return self.is_listening()


class MixedCluster(Cluster):
    """A cluster in which the nodes with the ids `kafkas` are Apache Kafka's, `quick` to start or as its own scripts run them; the others are ours."""

    def __init__(
        self, *, kafkas: Collection[int] = (), quick: bool = True, heap: Sequence[str] = HEAP, **settings: Any
    ) -> None:
        self._kafkas = frozenset(kafkas)
        self._quick = quick
        self._heap = heap
        super().__init__(**settings)

    def is_kafka(self, node_id: int) -> bool:
        """Whether the node is Apache Kafka's."""
        return node_id in self._kafkas

    def hand_over(self, node_id: int) -> None:
        """Stop a node cleanly and start the other program on its directory, its ports and its properties."""
        old = self.members[node_id]
        old.stop()
        self._kafkas ^= {node_id}
        new = self.add(node_id, old.roles)
        new.port, new.controller_port = old.port, old.controller_port
        self.start(node_id)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ours end cleanly, then Kafka's are killed: a combined one may wait minutes for a controller that has stopped before it."""
        ours = [each for each in self.members if not self.is_kafka(each)]
        try:
            if error is None and ours:
                self.stop(*ours)
        finally:
            self.kill()
            super().__exit__(kind, error, trace)

    def make(self, node_id: int, roles: frozenset[str], directory: Path) -> Member:
        """The node of an id."""
        if node_id not in self._kafkas:
            return Member(node_id=node_id, roles=roles, directory=directory)
        member = KafkaMember(node_id=node_id, roles=roles, directory=directory)
        member.quick = self._quick
        member.heap = self._heap
        return member
