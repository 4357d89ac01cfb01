"""The settings that shape the decisions of a group coordinator."""

from __future__ import annotations

from headrace.core.values import value_class

INT32_MAX = 2**31 - 1


@value_class
class GroupConfig:
    """The broker settings about classic groups, with Kafka 4.3.1's defaults. Times are milliseconds, sizes are counts.

    `new_member_join_timeout_ms` has no key in Kafka either: how long a member that never joined a generation is kept.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = INT32_MAX
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_size: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    commit_timeout_ms: int = 5_000
