"""The quotas of a broker's replication (KIP-73), as its settings have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.replication.quota import UNBOUNDED, ReplicationQuota

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.broker.partitions import HostedPartition
    from headrace.config.node_config import NodeConfig

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
MOVES_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"


def replication_quota(config: NodeConfig) -> ReplicationQuota:
    """A quota without a bound, over the windows that the broker was started with."""
    samples, seconds = config.replication_quota_window_num, config.replication_quota_window_size_seconds
    return ReplicationQuota(samples=samples, sample_ms=seconds * 1_000)


def moves_quota(config: NodeConfig) -> ReplicationQuota:
    """The same for what is copied between log directories (KIP-113)."""
    samples = config.alter_log_dirs_replication_quota_window_num
    return ReplicationQuota(
        samples=samples, sample_ms=config.alter_log_dirs_replication_quota_window_size_seconds * 1_000
    )


def rate_bound(dynamic: Mapping[str, str], name: str) -> int:
    """The bytes a second that a dynamic setting says; what is no number was refused when it was made."""
    try:
        return int(dynamic[name])
    except (KeyError, ValueError):
        return UNBOUNDED


def must_wait(hosted: HostedPartition, replica_id: int, quota: ReplicationQuota, now_ms: int) -> bool:
    """Whether a follower gets no records of a partition now. One in sync always gets them, so that it does not fall out by it."""
    leader = hosted.leader
    if not hosted.is_throttled_leader or leader is None or replica_id in leader.isr:
        return False
    return quota.is_exceeded(now_ms)
