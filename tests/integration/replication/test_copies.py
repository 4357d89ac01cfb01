"""Partitions with three copies on real brokers: killed, stopped, left behind, and brought together again.

``HEADRACE_LEADER_KILLS`` sets how many leaders are killed under load (4; in CI 12), ``HEADRACE_KILL_SEED`` the random moments.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.peers import kafka
from tests.support.commands import headrace
from tests.support.copies import FAST, create, in_sync, leader, log_bytes, read_lines, same_bytes, write_lines
from tests.support.numbered_load import PARTITIONS, Load, judge, read_all
from tests.support.peer import batch
from tests.support.roles import until
from tests.support.volumes import seed, volume

KILLS = volume("HEADRACE_LEADER_KILLS", quick=4, ci=12)
SEED = seed("HEADRACE_KILL_SEED", otherwise=20)
BROKERS = (101, 102, 103)
THREE = [BROKERS, (102, 103, 101), (103, 101, 102)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One controller, three brokers."""
    with Cluster(controllers=1, brokers=3, properties=FAST) as running:
        yield running


def produce(cluster: Cluster, broker_id: int, *values: bytes, acks: int = -1) -> int:
    """One batch to a broker for partition 0 of topic `t`; its error."""
    data = PartitionProduceData(index=0, records=bytes(batch(*values)))
    topic = TopicProduceData(name="t", partition_data=(data,))
    broker = cluster[broker_id]
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=(topic,))
    answer = ask(broker.place.host, broker.port, request, 9, timeout_s=15)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_nothing_acknowledged_is_lost_when_leaders_are_killed_under_load(cluster: Cluster) -> None:
    """inv:PR1 inv:PR4 S3-52 S3-108: kill -9 of whoever leads, at random moments; the others go on, and the killed one comes back and copies what it missed."""
    rng = random.Random(SEED)
    create(cluster, "numbers", THREE, min_insync_replicas="2")
    load = Load(cluster.bootstrap_servers, "numbers")
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        for number in range(KILLS):
            time.sleep(rng.uniform(0.2, 1.0))
            victim = leader(cluster, "numbers", number % PARTITIONS)
            victim.kill()
            leader(cluster, "numbers", number % PARTITIONS, other_than=victim.node_id)
            cluster.start(victim.node_id)
            in_sync(cluster, "numbers")
    finally:
        load.stopped.set()
        thread.join()
    assert load.failed == [], f"seed {SEED}"
    judge(load, read_all(cluster.bootstrap_servers, "numbers"), told=f"seed {SEED}")
    assert all(same_bytes(cluster, "numbers"))


def test_a_broker_that_stops_hands_over_first() -> None:
    """B-K03 B-K12 S3-57 S0-45: its leaderships are elsewhere before it goes, and nobody's write fails; when it is back it is in sync again.

    Once all have been started anew the level of metadata.version is raised, under the same load: the two steps of an upgrade.
    """
    made = Cluster(controllers=1, brokers=3, properties=FAST)
    made.metadata_version = 25
    with made as cluster:
        create(cluster, "numbers", THREE, min_insync_replicas="2")
        load = Load(cluster.bootstrap_servers, "numbers")
        thread = threading.Thread(target=load.run)
        thread.start()
        try:
            for broker_id in BROKERS:
                cluster.restart(broker_id)
                in_sync(cluster, "numbers")
            upgrade = ("upgrade", "--feature", "metadata.version=30")
            done = headrace("features", "--bootstrap-server", cluster.bootstrap_servers, *upgrade)
            assert done.code == 0, done
            before = len(load.acknowledged)
            until(lambda: len(load.acknowledged) > before + 100)
        finally:
            load.stopped.set()
            thread.join()
        assert load.failed == []
        judge(load, read_all(cluster.bootstrap_servers, "numbers"), told="stopped in turns")


def test_a_copy_that_was_away_cuts_what_only_it_had(cluster: Cluster) -> None:
    """KIP-101, B-P02, S3-52: a leader writes what its paused followers never see, and is killed; the next leader writes something else."""
    create(cluster, "t", [BROKERS])
    assert produce(cluster, 101, b"everywhere") == 0
    same_bytes(cluster, "t")
    for broker_id in (102, 103):
        cluster[broker_id].pause()
    for value in (b"in a response that waits for whoever wakes up", b"only here", b"and gone"):
        assert produce(cluster, 101, value, acks=1) == 0
    before = log_bytes(cluster[101], "t", 0)
    cluster[101].kill()
    for broker_id in (102, 103):
        cluster[broker_id].resume()
    successor = leader(cluster, "t", other_than=101)
    assert until(lambda: produce(cluster, successor.node_id, b"instead") == 0 or None)
    cluster.start(101)
    in_sync(cluster, "t")
    (after,) = same_bytes(cluster, "t")
    assert b"only here" in before
    assert b"only here" not in after
    assert b"everywhere" in after
    assert b"instead" in after


def test_acks_all_waits_for_every_copy_in_sync_and_is_refused_with_too_few(cluster: Cluster) -> None:
    """S3-88, inv:P10: with `min.insync.replicas` 3 and a killed follower NOT_ENOUGH_REPLICAS(19), until it is back."""
    create(cluster, "t", [BROKERS], min_insync_replicas="3")
    assert produce(cluster, 101, b"a") == 0
    cluster[103].kill()
    until(lambda: produce(cluster, 101, b"b") == 19 or None)
    cluster.start(103)
    until(lambda: produce(cluster, 101, b"c") == 0 or None)
    assert all(same_bytes(cluster, "t"))


def test_a_topic_that_is_deleted_and_made_again_is_copied_anew(cluster: Cluster) -> None:
    """KIP-516, S3-51: no fetcher goes on with the old one."""
    from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

    broker = cluster[101]
    for round_number in range(3):
        create(cluster, "t", [BROKERS])
        assert produce(cluster, 101, b"round %d" % round_number) == 0
        (copy,) = same_bytes(cluster, "t")
        assert b"round %d" % round_number in copy
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=20_000)
        assert [each.error_code for each in ask(broker.place.host, broker.port, request, 6).responses] == [0]
        for each in cluster.brokers:
            until(lambda at=each: not (at.data / "t-0").exists() or None)  # type: ignore[misc]


@pytest.mark.kcat
def test_kcat_writes_and_reads_with_three_copies(cluster: Cluster) -> None:
    """S3-106: librdkafka, acks=all and idempotent, through a killed leader."""
    create(cluster, "t", THREE)
    sent = [f"line {number}" for number in range(2_000)]
    write_lines(cluster, sent[:1_000])
    cluster[102].kill()
    write_lines(cluster, sent[1_000:])
    # a new leader learns the high watermark from its followers' next fetches, and `-e` ends at what it knows
    until(lambda: read_lines(cluster) == sorted(sent) or None)


@pytest.mark.java
def test_kafkas_console_tools_write_and_read_with_three_copies(cluster: Cluster) -> None:
    """B-P04 B-P06: Kafka's own producer and consumer, whose group's positions have three copies too."""
    create(cluster, "t", THREE, min_insync_replicas="2")
    sent = [f"line {number}" for number in range(500)]
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--topic", "t")
    kafka.run_tool("kafka-console-producer", *where, stdin="\n".join(sent) + "\n", check=True)
    found: list[str] = []
    for count in (100, 400):
        ends = ("--from-beginning", "--group", "g", "--max-messages", str(count), "--timeout-ms", "60000")
        found += kafka.run_tool("kafka-console-consumer", *where, *ends, check=True).stdout.split("\n")[:-1]
        leader(cluster, "t").kill()
    assert sorted(found) == sorted(sent)
