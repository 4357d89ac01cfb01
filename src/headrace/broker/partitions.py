"""The partitions that this broker hosts, each in its role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from headrace.broker.refused_batches import EarlyBatches, RefusedBatches
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.log.ports import PartitionLogPort
from headrace.metadata.image import MetadataImage
from headrace.replication.leader import PartitionLeader
from headrace.replication.traffic import TopicTraffic
from headrace.replication.waiting import PartitionWaiters
from headrace.wire.produce import ParsedProduce, ProduceBatch
from headrace.wire.produce_heads import appended_form

_MOST_HEADS = 4_096
"""Of one version: a client can make one for each timeout that it names. Some hundred bytes each."""
_VERSIONS = 32


class HostedPartition:
    """A replica on this broker. With `leader` it leads; without, it follows or has no leader.

    `log` is None when its directory is offline. `is_withheld`: clients are not served, because another broker may lead it by now (S0-15).
    `refused` are batches that were refused for the moment, None where there are none.
    `is_throttled_leader` and `is_throttled_follower`: its topic's lists for either role name this replica (KIP-73).
    """

    __slots__ = (
        "first_leader_epoch",
        "is_throttled_follower",
        "is_throttled_leader",
        "is_withheld",
        "leader",
        "leader_epoch",
        "leader_id",
        "log",
        "partition",
        "refused",
        "topic",
        "topic_id",
        "traffic",
        "waiters",
    )

    def __init__(
        self,
        *,
        topic: str,
        topic_id: Uuid,
        partition: int,
        log: PartitionLogPort | None,
        first_leader_epoch: int = 0,
    ) -> None:
        self.topic = topic
        self.first_leader_epoch = first_leader_epoch
        self.topic_id = topic_id
        self.partition = partition
        self.log = log
        self.leader: PartitionLeader | None = None
        self.leader_id = -1
        self.leader_epoch = -1
        self.is_withheld = False
        self.is_throttled_leader = False
        self.is_throttled_follower = False
        self.refused: RefusedBatches | None = None
        self.waiters = PartitionWaiters()
        self.traffic = TopicTraffic()

    def copy_to_read(self, node_id: int) -> PartitionLogPort | None:
        """The log of a replica that follows, for consumers (KIP-392); None where it is not here, is just being cut, or is about to be led by this broker, `node_id`."""
        log = self.log
        return None if log is None or self.leader_id == node_id or log.is_being_cut else log

    def __repr__(self) -> str:
        return f"HostedPartition({self.topic}-{self.partition}, leader_epoch={self.leader_epoch})"


class LogStartOf(NamedTuple):
    """What waits in the purgatory for the log starts of a partition's followers."""

    hosted: HostedPartition


class ProduceRoute(NamedTuple):
    """A partition of this broker that clients may write to; `write` and `end` are `wire.produce_heads.AppendedForm`, `request` is what such a request says, without records."""

    hosted: HostedPartition
    request: ParsedProduce
    is_leader_enough: bool
    """Nobody else need have the records before they are acknowledged (acks=1)."""
    write: Callable[[int, int, int, bytes], bytes]
    end: bytes


class ProduceRoutes:
    """Where produce requests go that begin with bytes which were understood before, by version and bytes. Filled by the Produce handler.

    Each request of a producer to one partition begins with the same bytes (`wire.produce_heads`); what they mean does not change while the partition is here.
    """

    __slots__ = ("_is_empty", "by_head")

    def __init__(self) -> None:
        self._is_empty = True
        self.by_head: tuple[dict[bytes, ProduceRoute], ...] = tuple({} for _ in range(_VERSIONS))

    def remember(self, version: int, head: bytes, hosted: HostedPartition, request: ParsedProduce) -> None:
        """Requests with this head are for one partition, without a transaction, and `acks` is 1 or -1."""
        ((topic, partition, _),) = request.batches
        routes = self.by_head[version]
        if len(routes) >= _MOST_HEADS:
            routes.clear()
        self._is_empty = False
        write, end = appended_form(version, topic, hosted.partition)
        known = request._replace(batches=(ProduceBatch(topic, partition, None),))
        routes[head] = ProduceRoute(hosted, known, request.acks == 1, write, end)

    def forget(self) -> None:
        """Partitions have come or gone, perhaps thousands in one turn."""
        if self._is_empty:
            return
        self._is_empty = True
        for routes in self.by_head:
            routes.clear()


class PartitionTable:
    """The hosted partitions by name and by topic id. Filled by `publishers.partitions`, read by handlers."""

    def __init__(self) -> None:
        self.by_name: dict[tuple[str, int], HostedPartition] = {}
        self.by_id: dict[tuple[bytes, int], HostedPartition] = {}
        self.produce_routes = ProduceRoutes()
        self.early = EarlyBatches()
        self.traffic: dict[str, TopicTraffic] = {}
        """Of each topic of which a partition is here."""
        self.former_traffic = TopicTraffic()
        """Of those that are here no more."""
        self.replication_bytes_out = 0
        """What followers were sent, of all topics."""

    def __len__(self) -> int:
        return len(self.by_name)

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(self.by_name.values())

    def get(self, topic: str, partition: int) -> HostedPartition | None:
        """The hosted partition, or None when it is not here."""
        return self.by_name.get((topic, partition))

    def add(self, hosted: HostedPartition) -> None:
        """Host one more, in place of one with the same name."""
        self.remove(hosted.topic, hosted.partition)
        self.by_name[hosted.topic, hosted.partition] = hosted
        hosted.refused = self.early.take(hosted.topic, hosted.topic_id, hosted.partition)
        self.produce_routes.forget()
        traffic = hosted.traffic = self.traffic.setdefault(hosted.topic, hosted.traffic)
        traffic.partitions += 1
        self.by_id[hosted.topic_id, hosted.partition] = hosted

    def remove(self, topic: str, partition: int) -> HostedPartition | None:
        """Host it no more."""
        hosted = self.by_name.pop((topic, partition), None)
        if hosted is not None:
            self.produce_routes.forget()
            self.by_id.pop((hosted.topic_id, partition), None)
            hosted.traffic.partitions -= 1
            if not hosted.traffic.partitions:
                self.former_traffic.add(self.traffic.pop(topic))
        return hosted

    def leading(
        self, topic: str, partition: int, image: MetadataImage, *, current_leader_epoch: int = -1
    ) -> HostedPartition | ErrorCode:
        """The partition if this broker leads it, else the error that sends a client to the right place.

        A `current_leader_epoch` that is wrong counts before who leads, also where a copy is (KIP-320).
        """
        hosted = self.by_name.get((topic, partition))
        if hosted is None:
            known = image.topics.partition(topic, partition) is not None
            return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if hosted.log is not None:
            error = check_leader_epoch(current_leader_epoch, hosted.leader_epoch)
            if error:
                return error
        if hosted.leader is None:
            return ErrorCode.KAFKA_STORAGE_ERROR if hosted.log is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if hosted.is_withheld else hosted

    def leading_by_id(
        self,
        topic_id: Uuid,
        partition: int,
        image: MetadataImage,
        *,
        current_leader_epoch: int = -1,
        known_as: str | None = None,
    ) -> HostedPartition | ErrorCode:
        """As `leading`, by topic id: an unknown id is UNKNOWN_TOPIC_ID.

        One that was the id of topic `known_as` is answered by that name: where another topic has it by now and is here, with INCONSISTENT_TOPIC_ID (KIP-516).
        """
        topic = image.topics.by_id.get(topic_id)
        if topic is not None:
            return self.leading(topic.name, partition, image, current_leader_epoch=current_leader_epoch)
        if known_as is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        other = self.by_name.get((known_as, partition))
        if other is None or other.log is None or other.topic_id == topic_id:
            return self.leading(known_as, partition, image)
        return ErrorCode.INCONSISTENT_TOPIC_ID


def check_leader_epoch(asked: int, known: int) -> ErrorCode:
    """-1 asks for no check; older is fenced (74), newer is not known yet (75) (P14, KIP-320)."""
    if asked in (-1, known):
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < known else ErrorCode.UNKNOWN_LEADER_EPOCH
