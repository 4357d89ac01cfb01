"""Are rebalances, expirations and deletions of positions counted once each?"""

from __future__ import annotations

from headrace.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.unit.coordinator.group_bench import GROUP, Bench


def counted(bench: Bench) -> dict[str, int]:
    counts = bench.machine.shard.counts
    return {name: getattr(counts, name) for name in ("rebalances", "commits", "deletions", "expirations")}


def test_a_rebalance_counts_when_it_is_complete() -> None:
    """group-completed-rebalance-count: once its assignment is handed out, not when a member joins."""
    bench = Bench()
    members = bench.stable_group(size=2)
    before = counted(bench)["rebalances"]
    assert before >= 1
    bench.leave(members[1])
    assert counted(bench)["rebalances"] == before


def test_positions_that_are_deleted_or_expire_are_counted() -> None:
    """offset-deletion-count, offset-expiration-count: by request, and by age."""
    bench = Bench()
    for partition in (0, 1):
        bench.commit(5, partition=partition)
    part = OffsetDeleteRequestPartition(partition_index=0)
    topic = OffsetDeleteRequestTopic(name="t", partitions=(part,))
    bench.ask(OffsetDeleteRequest(group_id=GROUP, topics=(topic,)), version=0)
    assert counted(bench) == {"rebalances": 0, "commits": 2, "deletions": 1, "expirations": 0}
    assert bench.machine.shard.state.position_count == 1
    bench.pass_time(bench.config.offsets_retention_ms + bench.config.offsets_retention_check_interval_ms)
    assert counted(bench)["expirations"] == 1
    assert bench.machine.shard.state.position_count == 0
