"""Brokers and partitions of the image, as a client on one listener sees them."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.core.error_code import ErrorCode
from headrace.core.ids import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from headrace.metadata.image import BrokerRegistration, EndPoint, MetadataImage, PartitionRegistration


def alive_end_points(image: MetadataImage, listener: str) -> dict[int, EndPoint]:
    """Where unfenced brokers are reached by clients of this listener, by id in ascending order."""
    found: dict[int, EndPoint] = {}
    for broker in image.cluster.alive_brokers():
        end_point = broker.end_point(listener)
        if end_point is not None:
            found[broker.broker_id] = end_point
    return found


def rack_of(image: MetadataImage, broker_id: int) -> str | None:
    """The broker's rack, if it is registered and has one."""
    broker: BrokerRegistration | None = image.cluster.brokers.get(broker_id)
    return None if broker is None else broker.rack


class Reachable:
    """What clients of one listener can reach, for one answer: brokers, and the replicas in their directories."""

    def __init__(self, image: MetadataImage, listener: str, gone: Iterable[int] = ()) -> None:
        """`gone` are brokers of which the metadata do not say so yet; `missed` are those of them that were looked for as leaders."""
        self.image = image
        self.missed: set[int] = set()
        self._gone = frozenset(gone)
        self.end_points = alive_end_points(image, listener)
        brokers = self._brokers = image.cluster.brokers
        self._directories = {
            broker_id: frozenset((*brokers[broker_id].log_dirs, UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY))
            for broker_id in self.end_points
            if brokers[broker_id].log_dirs
        }

    def leader_error(self, partition: PartitionRegistration) -> ErrorCode:
        """NONE when these clients can reach the leader, else why they cannot.

        A client that is told so asks again in a moment (librdkafka: 100 ms); who is told the old leader is content with it for a second.
        """
        leader = partition.leader
        if leader in self._gone:
            self.missed.add(leader)
            return ErrorCode.LEADER_NOT_AVAILABLE
        if leader in self.end_points:
            return ErrorCode.NONE
        broker = self._brokers.get(leader)
        if broker is None or broker.fenced:
            return ErrorCode.LEADER_NOT_AVAILABLE
        return ErrorCode.LISTENER_NOT_FOUND

    def offline_replicas(self, partition: PartitionRegistration) -> tuple[int, ...]:
        """The replicas that these clients cannot reach: of brokers that are away, or in a log directory that failed (KIP-112, KIP-858)."""
        directories = partition.directories or (MIGRATING_DIRECTORY,) * len(partition.replicas)
        return tuple(
            replica
            for replica, directory in zip(partition.replicas, directories, strict=False)
            if replica not in self.end_points
            or directory == LOST_DIRECTORY
            or directory not in self._directories.get(replica, (directory,))
        )
