"""How does a client on one listener see the brokers and partitions of the image?"""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
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


def leader_error(partition: PartitionRegistration, image: MetadataImage, alive: dict[int, EndPoint]) -> ErrorCode:
    """NONE when clients of the listener can reach the leader, else why they cannot."""
    leader = partition.leader
    if leader in alive:
        return ErrorCode.NONE
    broker = image.cluster.brokers.get(leader)
    if broker is None or broker.fenced:
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.LISTENER_NOT_FOUND


def offline_replicas(partition: PartitionRegistration, alive: dict[int, EndPoint]) -> tuple[int, ...]:
    """The replicas that clients of the listener cannot reach."""
    return tuple(replica for replica in partition.replicas if replica not in alive)
