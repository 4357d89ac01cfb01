"""What is counted of groups: does it follow what happens to them, and stay when their coordinator goes?"""

from __future__ import annotations

from tests.unit.broker.test_group_service import MemoryLogs, commit, service


def test_positions_are_counted_as_they_come_and_go() -> None:
    """NumOffsets, offset-commit-count: a second commit of a position is one more commit and no more position; a new coordinator finds the positions."""
    logs = MemoryLogs()
    groups = service(logs)
    for offset in (5, 6):
        commit(groups, offset)
    assert (groups.position_count(), groups.counts().commits) == (1, 2)
    assert dict(groups.states()) == {"Empty": 1}
    assert groups.partition_states == {"loading": 0, "active": 1, "failed": 0}
    assert groups.loads.count == 1
    assert service(logs).position_count() == 1


def test_what_was_counted_stays_when_the_coordinator_goes() -> None:
    """A counter never falls; what is there now does."""
    logs = MemoryLogs()
    groups = service(logs)
    commit(groups, 5)
    groups.resigned(0, 1)
    assert (groups.position_count(), groups.counts().commits, dict(groups.states())) == (0, 1, {})
    assert groups.partition_states == {"loading": 0, "active": 0, "failed": 0}
    groups.elected(0, 2)
    assert groups.partition_states == {"loading": 1, "active": 0, "failed": 0}
    for _ in range(100):
        groups.tick(logs.now_ms())
    assert (groups.position_count(), groups.counts().commits, groups.loads.count) == (1, 1, 2)
