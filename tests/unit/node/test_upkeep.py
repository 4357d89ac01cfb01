"""The upkeep of logs and the alarm of a node: who is looked at, and when does a node wake up?"""

from __future__ import annotations

from itertools import pairwise

import pytest

from headrace.log.ports import CompactionJob
from headrace.node.alarm import GRAIN_MS, NEVER_MS, Alarm
from headrace.node.jobs import LogWork
from headrace.node.upkeep import BUSY_LOOK_MS
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.storage.sweeping import LOGS_A_TURN
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.memory_node import MemoryNode


def idle_node(partitions: int = 20) -> MemoryNode:
    """A node whose new logs are flushed and checkpointed."""
    node = MemoryNode()
    node.start()
    topic = CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
    for _ in range(10):
        node.settle()
    return node


def done(node: MemoryNode) -> list[str]:
    """The lanes of what was ordered for the logs."""
    return [effect.job.lane.value for effect in node.done if isinstance(effect, LogWork)]


def test_logs_at_rest_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:M6: no file system call for a log with nothing on its way, however many there are; new ones were flushed first."""
    node = idle_node()
    assert 1 <= done(node).count("flushes") < 20, "those that are new at once are synced together"
    before, now_ms = len(node.files.ops), node.clock.wall_ms()
    asked: list[str] = []
    find = LossyFiles._find

    def noted(files: LossyFiles, path: str) -> object:
        asked.append(path)
        return find(files, path)

    monkeypatch.setattr(LossyFiles, "_find", noted)
    node.logs.maintain(now_ms)
    node.logs.maintain(now_ms + 1_000)
    assert (asked, len(node.files.ops)) == ([], before)
    assert node.logs.next_maintenance_ms() > now_ms + 1_000


def test_a_node_at_rest_sleeps_until_something_is_due() -> None:
    """inv:M6: with ten thousand ticks of a hundredth of a second nothing would happen; the alarm names the times at which something does."""
    node = idle_node()
    rings, end_ms = 0, node.clock.now_ms() + 10_000
    while node.clock.now < end_ms:
        due_ms = node.machine.next_deadline_ms()
        assert due_ms is not None
        node.clock.now = max(node.clock.now, due_ms)
        node.machine.alarm.ring(node.machine.tick)
        node.work()
        rings += 1
    assert rings <= 40


def test_logs_are_looked_at_for_compaction_once_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:M6: a pass over ten thousand logs takes a hundred turns; in each of them all logs were looked at, 8 ms of the turn."""
    node = idle_node(10 * LOGS_A_TURN)
    node.clock.now += 400_000  # the next pass over all logs is due
    looks: list[int] = []
    find = LogStore.next_compaction

    def noted(logs: LogStore, now_ms: int) -> CompactionJob | None:
        looks.append(node.clock.now_ms())
        return find(logs, now_ms)

    monkeypatch.setattr(LogStore, "next_compaction", noted)
    for _ in range(40):
        node.clock.now += 50
        node.machine.tick()
        node.work()
    assert 2 <= len(looks) <= 3
    assert all(later - before >= BUSY_LOOK_MS for before, later in pairwise(looks))


def test_the_alarm_rings_for_the_earliest_deadline() -> None:
    """One that comes later than what is planned plans nothing; while the node is awake nothing is planned at all."""
    planned: list[int] = []
    due: list[int | None] = [5_000]
    now = [1_000]
    alarm = Alarm(now_ms=lambda: now[0], next_deadline_ms=lambda: due[0])
    alarm.plan = planned.append
    alarm.rest()
    alarm.by(7_000)
    alarm.by(3_000)
    assert planned == [5_000, 3_000]
    now[0] = 3_000
    due[0] = 4_000

    def tick() -> None:
        alarm.by(3_500)
        alarm.changed()
        assert planned == [5_000, 3_000]

    alarm.ring(tick)
    assert (planned[2:], alarm.at_ms) == ([4_000], 4_000)
    due[0] = None
    alarm.ring(lambda: None)
    assert alarm.at_ms == NEVER_MS


def test_a_busy_node_is_asked_once_a_grain() -> None:
    """A thousand changes of deadlines in a moment cost one look now and one a hundredth of a second later."""
    planned: list[int] = []
    looks: list[int] = []
    now = [1_000]

    def next_deadline_ms() -> int:
        looks.append(now[0])
        return 9_000

    alarm = Alarm(now_ms=lambda: now[0], next_deadline_ms=next_deadline_ms)
    alarm.plan = planned.append
    for _ in range(1_000):
        alarm.changed()
    assert (looks, planned) == ([1_000], [9_000, 1_000 + GRAIN_MS])
    assert alarm.covers(1_000, 1_000)
