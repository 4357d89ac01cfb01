"""The replica that a consumer should read from in place of the leader, because it is nearer (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.replication.leader import PartitionLeader

NO_OTHER: Final = -1


def preferred_read_replica(
    leader: PartitionLeader, broker: Broker, *, rack: str, fetch_offset: int, listener: str
) -> int:
    """The in-sync replica of the consumer's rack that has what it asks for and is furthest; -1 when it should stay with the leader.

    A leader of that rack is preferred to all, and a broker that the consumer's listener does not reach to none. Of equals the one that was caught up
    last, then the highest id. Source: Kafka behaviour (RackAwareReplicaSelector).
    """
    brokers = broker.image.cluster.brokers
    own = brokers.get(broker.node_id)
    if own is not None and own.rack == rack:
        return NO_OTHER
    best: tuple[int, int, int] | None = None
    for replica_id in leader.isr:
        progress, registered = leader.followers.get(replica_id), brokers.get(replica_id)
        if progress is None or registered is None or registered.rack != rack or registered.fenced:
            continue
        if not progress.log_start_offset <= fetch_offset <= progress.log_end_offset:
            continue
        if registered.end_point(listener) is None:
            continue
        rank = (progress.log_end_offset, progress.caught_up_ms, replica_id)
        if best is None or rank > best:
            best = rank
    return NO_OTHER if best is None else best[2]
