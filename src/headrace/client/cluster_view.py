"""The client's view of the cluster: its nodes, who leads which partition, and which node to ask next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.client.talk import Address
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition, Uuid


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as metadata described it."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionView:
    """A partition as metadata described it; `leader` is -1 when there is none."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicView:
    """A topic as metadata described it, its partitions by rising number."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[PartitionView, ...]
    authorized_operations: int = -2147483648


@dataclass(slots=True)
class ClusterView:
    """What this client has heard of the cluster; a cache that every answer may correct.

    `names` keeps the ids of topics that are gone, because answers about them may still be on their way.
    """

    bootstrap: tuple[Address, ...]
    nodes: dict[int, NodeView] = field(default_factory=dict)
    topics: dict[str, TopicView] = field(default_factory=dict)
    leaders: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    near: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    """The copy that a leader named for reading from this client's rack, and until when (`now_ms`) it is asked."""
    names: dict[Uuid, str] = field(default_factory=dict)
    cluster_id: str | None = None
    controller_id: int = -1
    is_met: bool = False
    """Whether somebody at one of the addresses spoke our protocol."""
    _failures: dict[Address, int] = field(default_factory=dict)
    _turn: int = 0

    def candidates(self) -> list[Address]:
        """Every address worth asking, the ones that failed least and longest unused first; bootstrap addresses come last."""
        known = [node.address for node in self.nodes.values()]
        every = list(
            dict.fromkeys([*known[self._turn % len(known) :], *known[: self._turn % len(known)]] if known else [])
        )
        every += [address for address in self.bootstrap if address not in every]
        self._turn += 1
        return sorted(every, key=lambda address: self._failures.get(address, 0))

    def failed(self, address: Address) -> None:
        """The node at `address` did not answer: ask others first."""
        self._failures[address] = self._failures.get(address, 0) + 1

    def answered(self, address: Address) -> None:
        """The node at `address` answered."""
        self._failures.pop(address, None)

    def address_of(self, node_id: int) -> Address | None:
        """Where `node_id` listens, as far as known."""
        node = self.nodes.get(node_id)
        return None if node is None else node.address

    def learn_nodes(self, nodes: Iterable[NodeView]) -> None:
        """Replace the known nodes by those of a full answer; an empty answer is not believed."""
        found = {node.node_id: node for node in nodes}
        if found:
            self.nodes = found
            self._failures = {node.address: self._failures.get(node.address, 0) for node in found.values()}

    def learn_topic(self, topic: TopicView) -> None:
        """Believe a fresh description, but not an older leader epoch than the one known (of the same topic id)."""
        before = self.topics.get(topic.name)
        is_same = before is not None and before.topic_id == topic.topic_id
        self.topics[topic.name] = topic
        self.names[topic.topic_id] = topic.name
        for part in topic.partitions:
            where = TopicPartition(topic.name, part.partition)
            known = self.leaders.get(where)
            if is_same and known is not None and known[1] > part.leader_epoch >= 0:
                continue
            self.leaders[where] = (part.leader, part.leader_epoch)

    def learn_leader(self, where: TopicPartition, *, leader: int, leader_epoch: int) -> None:
        """Take a hint from a Produce or Fetch answer (KIP-951)."""
        known = self.leaders.get(where)
        if leader >= 0 and (known is None or leader_epoch > known[1]):
            self.leaders[where] = (leader, leader_epoch)

    def learn_node(self, node: NodeView) -> None:
        """Take one node's end point from an answer (KIP-951)."""
        self.nodes[node.node_id] = node

    def forget_topic(self, name: str) -> None:
        """The topic is gone."""
        topic = self.topics.pop(name, None)
        for part in topic.partitions if topic else ():
            self.leaders.pop(TopicPartition(name, part.partition), None)

    def forget_leader(self, where: TopicPartition) -> None:
        """The node believed to lead `where` does not, and what it said of copies is not believed either."""
        self.leaders.pop(where, None)
        self.near.pop(where, None)

    def reads_from(self, where: TopicPartition, now_ms: int) -> int:
        """The node to read `where` from: the near copy, else the leader believed in; -1 where none is known. Source: KIP-392."""
        node, until_ms = self.near.get(where, (-1, 0))
        if node in self.nodes and now_ms < until_ms:
            return node
        self.near.pop(where, None)
        return self.leaders.get(where, (-1, -1))[0]
