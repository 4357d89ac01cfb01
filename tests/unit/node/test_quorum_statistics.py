"""Is what the quorum node does counted, and timed as long as it takes?"""

from __future__ import annotations

from headrace.core.histogram import RecentHistogram
from headrace.node.quorum_statistics import MAX_UNCOMMITTED, QuorumStatistics
from headrace.raft.events import FlushLog, StoreQuorumState
from headrace.server.metrics.service import MetricsService
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.memory_node import MemoryNode
from tests.support.metrics import shown, watched

RAFT = "kafka_server_raft_metrics_"


def started() -> tuple[MemoryNode, MetricsService]:
    """A node that leads a quorum of one, with metrics on its own clock."""
    node = MemoryNode()
    service = watched(node)
    node.start()
    return node, service


def statistics_of(node: MemoryNode) -> QuorumStatistics:
    """The node's."""
    found = node.plane.statistics
    assert found is not None
    return found


def create(node: MemoryNode, name: str) -> None:
    """Ask for a topic; nothing is done about it yet."""
    topics = (CreatableTopic(name=name, num_partitions=2, replication_factor=1),)
    node.forward(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)


def test_a_sync_takes_as_long_as_the_disk_does() -> None:
    """S4-60, S4-62: a disk that needs 250 ms is seen in raft-flush-latency, and by the leader in commit-latency; both to the millisecond."""
    node, service = started()
    before = statistics_of(node)
    flushes, commits = before.flushes.count, before.commits.count
    flushed, committed = before.flushes.total, before.commits.total
    create(node, "slow")
    assert any(isinstance(effect, FlushLog) for effect in node.effects)
    node.clock.now += 250
    node.work()
    assert (before.flushes.count - flushes, round(before.flushes.total - flushed)) == (1, 250)
    assert (before.commits.count - commits, round(before.commits.total - committed)) == (1, 250)
    found = shown(service)
    assert found[f"{RAFT}raft_flush_latency_max"] == 250
    assert found[f"{RAFT}commit_latency_max"] == 250
    assert found[f"{RAFT}raft_apply_latency_max"] < 250


def test_records_are_counted_where_they_come_from() -> None:
    """B-M01: append-records of the leader; the rate spreads a young process's over half a minute, as Kafka's does."""
    node, service = started()
    seen = statistics_of(node)
    assert seen.appended == node.plane.raft.log_end
    assert seen.fetched == 0
    assert shown(service)[f"{RAFT}append_records_rate"] == seen.appended / 30


def test_what_the_node_is_shows() -> None:
    """B-M01: a leader voted for itself; offsets and epochs are those of its log."""
    node, service = started()
    found, raft = shown(service), node.plane.raft
    assert found[f'{RAFT}current_state_info{{state="leader"}}'] == 1
    wanted = {
        "current_leader": 1,
        "current_vote": 1,
        "current_epoch": raft.epoch,
        "high_watermark": raft.high_watermark,
        "log_end_offset": raft.log_end,
        "log_end_epoch": raft.epoch,
        "number_of_voters": 1,
        "number_of_observers": 0,
        "uncommitted_voter_change": 0,
        "number_unknown_voter_connections": 0,
    }
    assert {name: found[RAFT + name] for name in wanted} == wanted
    assert found[f'{RAFT}current_vote_directory_id_info{{directory_id="{raft.config.directory_id}"}}'] == 1


def test_an_election_takes_from_the_first_question_until_somebody_leads() -> None:
    """B-M01: election-latency, with a disk that needs 40 ms for the vote."""
    node = MemoryNode()
    service = watched(node)
    node.machine.start()
    while not any(isinstance(effect, StoreQuorumState) for effect in node.effects):
        node.clock.now += 10
        node.machine.tick()
    node.clock.now += 40
    node.settle()
    assert statistics_of(node).elections.count == 1
    assert 40 <= shown(service)[f"{RAFT}election_latency_max"] <= 60


def test_batches_are_counted_with_their_records() -> None:
    """B-M04: MetadataBatchSizes: a control batch has none; a snapshot that is loaded is counted too (B-M05)."""
    node, service = started()
    seen = statistics_of(node)
    before, records = seen.batch_records.count, seen.batch_records.total
    create(node, "one")
    node.settle()
    assert seen.batch_records.count == before + 1
    assert seen.batch_records.total == records + 3, "a topic and its two partitions"
    assert shown(service)["kafka_server_metadataloader_handleloadsnapshotcount"] == 0


def test_without_metrics_nothing_is_counted() -> None:
    """B-M09: a node that nobody looks at has no such counters."""
    node = MemoryNode()
    node.start()
    assert node.plane.statistics is None
    assert node.machine.on_metadata is None


def test_the_highest_is_that_of_the_last_windows() -> None:
    """B-M01: -max forgets what is older than two windows."""
    times = RecentHistogram()
    times.add(9)
    times.turn()
    times.add(3)
    assert times.recent_highest == 9
    times.turn()
    assert times.recent_highest == 3
    times.turn()
    assert (times.recent_highest, times.highest) == (0, 9)


def test_appends_that_are_never_committed_do_not_pile_up() -> None:
    """inv:M5: a leader that nobody follows keeps the times of so many appends."""
    node, _ = started()
    raft = node.plane.raft
    seen = QuorumStatistics(raft, stopwatch=lambda: 0.0)
    for end in range(1, MAX_UNCOMMITTED + 100):
        seen._log_moved(raft.log_end + end)
    assert len(seen._uncommitted) == MAX_UNCOMMITTED
    assert seen.appended == MAX_UNCOMMITTED + 99
