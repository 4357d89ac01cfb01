"""The limits within which a simulated cluster works: small ones, so that rare paths become common ones."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from headrace.core.values import value_class

if TYPE_CHECKING:
    import random


@value_class
class Limits:
    """Settings of every node of a run, under the names they have in `NodeConfig`. Times in ms, sizes in bytes."""

    controller_quorum_election_timeout_ms: int = 1_000
    controller_quorum_election_backoff_max_ms: int = 1_000
    controller_quorum_fetch_timeout_ms: int = 2_000
    controller_quorum_request_timeout_ms: int = 2_000
    controller_quorum_append_linger_ms: int = 25
    controller_quorum_fetch_max_bytes: int = 1_048_576
    metadata_log_segment_bytes: int = 1_073_741_824
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000
    metadata_max_idle_interval_ms: int = 500
    internal_metadata_max_batch_size_in_bytes: int = 8_388_608
    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    group_initial_rebalance_delay_ms: int = 100
    group_min_session_timeout_ms: int = 100
    num_replica_fetchers: int = 1
    offsets_topic_num_partitions: int = 2
    offsets_topic_replication_factor: int = 1
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_wait_max_ms: int = 500
    replica_lag_time_max_ms: int = 30_000
    replica_socket_timeout_ms: int = 2_000
    controller_slice_size: int = 9_990
    """Partitions that one step of a broker's moves looks at (`ControllerMachine.slice_size`); no setting of a node."""

    def settings(self, names: frozenset[str]) -> dict[str, Any]:
        """Those that a `NodeConfig` has."""
        return {name: getattr(self, name) for name in (each.name for each in fields(self)) if name in names}


def draw_replication(chance: random.Random, limits: Limits) -> Limits:
    """The same with limits of replication by chance."""
    return replace(
        limits,
        replica_fetch_backoff_ms=chance.choice((50, 300, 1_000)),
        replica_fetch_max_bytes=chance.choice((1, 300, 4_096, 1_048_576)),
        replica_fetch_response_max_bytes=chance.choice((300, 4_096, 10_485_760)),
        replica_fetch_wait_max_ms=chance.choice((20, 100, 500)),
        replica_lag_time_max_ms=chance.choice((600, 2_000, 10_000)),
        replica_socket_timeout_ms=chance.choice((600, 2_000)),
        num_replica_fetchers=chance.choice((1, 1, 2, 3)),
    )


def draw_groups(chance: random.Random, limits: Limits, copies: int) -> Limits:
    """The same with limits of groups by chance."""
    return replace(
        limits,
        group_initial_rebalance_delay_ms=chance.choice((0, 100, 400)),
        offsets_topic_num_partitions=chance.choice((1, 2)),
        offsets_topic_replication_factor=copies,
    )


def draw_limits(chance: random.Random) -> Limits:
    """Limits by chance: each at its default or small."""
    timeout = chance.choice((200, 500, 1_000))
    session = chance.choice((1_500, 3_000, 9_000))
    return Limits(
        controller_quorum_election_timeout_ms=timeout,
        controller_quorum_election_backoff_max_ms=timeout,
        controller_quorum_fetch_timeout_ms=timeout * 2,
        controller_quorum_request_timeout_ms=timeout * 2,
        controller_quorum_append_linger_ms=chance.choice((0, 1, 5, 25)),
        controller_quorum_fetch_max_bytes=chance.choice((300, 1_000, 8_192, 1_048_576)),
        metadata_log_segment_bytes=chance.choice((400, 1_500, 8_192, 1_073_741_824)),
        metadata_log_max_record_bytes_between_snapshots=chance.choice((400, 1_500, 6_000, 20_971_520)),
        metadata_log_max_snapshot_interval_ms=chance.choice((3_000, 20_000, 3_600_000)),
        metadata_max_retention_bytes=chance.choice((500, 2_000, 10_000, 104_857_600)),
        metadata_max_idle_interval_ms=chance.choice((100, 500, 2_000)),
        internal_metadata_max_batch_size_in_bytes=chance.choice((2_048, 8_388_608)),
        broker_heartbeat_interval_ms=session // 5,
        broker_session_timeout_ms=session,
        controller_slice_size=chance.choice((1, 2, 9_990)),
    )
