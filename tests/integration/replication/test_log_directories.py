"""Brokers with several log directories: replicas move between them while they are written, and one that is gone is not the broker (KIP-112, KIP-113, KIP-858)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headrace.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.peers import kafka
from tests.support.commands import headrace
from tests.support.copies import FAST, create, in_sync, partitions
from tests.support.numbered_load import PARTITIONS, Load, judge, read_all
from tests.support.roles import until

BOTH = [(101, 102), (102, 101)] * PARTITIONS


def second(broker: Member) -> Path:
    """The broker's directory without the metadata log."""
    return broker.data.with_name("second")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """One controller, two brokers with two log directories each."""
    made = Cluster(
        controllers=1, brokers=2, properties={**FAST, "offsets.topic.replication.factor": "2"}
    ).with_metrics()
    for broker in made.brokers:
        broker.properties["log.dirs"] = f"{broker.data},{second(broker)}"
        broker.properties["replica.high.watermark.checkpoint.interval.ms"] = "500"
    with made as running:
        yield running


def places(broker: Member, topic: str) -> dict[int, list[tuple[str, bool]]]:
    """(directory, is it the future replica) by partition, as the broker tells."""
    found: dict[int, list[tuple[str, bool]]] = {}
    answer: Any = ask(broker.place.host, broker.port, DescribeLogDirsRequest(topics=None), 5)
    for each in answer.results:
        for row in (row for one in each.topics if one.name == topic for row in one.partitions):
            found.setdefault(row.partition_index, []).append((each.log_dir, row.is_future_key))
    return found


def alter(broker: Member, path: Path, topic: str, partition: int) -> int:
    """Ask for another directory; the error code."""
    topics = (AlterReplicaLogDirTopic(name=topic, partitions=(partition,)),)
    request = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=str(path), topics=topics),))
    answer: Any = ask(broker.place.host, broker.port, request, 2)
    code: int = answer.results[0].partitions[0].error_code
    return code


def stored(broker: Member, topic: str, partition: int) -> bytes:
    """What lies in the segments of a copy, wherever it is."""
    (found,) = [path for path in (broker.data, second(broker)) if (path / f"{topic}-{partition}").is_dir()]
    return b"".join(each.read_bytes() for each in sorted((found / f"{topic}-{partition}").glob("*.log")))


def same_bytes(cluster: Cluster, topic: str) -> bool:
    """Both copies of each partition are the same."""
    return all(
        stored(cluster[101], topic, each.partition_index) == stored(cluster[102], topic, each.partition_index)
        for each in partitions(cluster[101], topic)
    )


def test_replicas_move_under_load_and_a_directory_that_is_gone_is_not_the_broker(cluster: Cluster) -> None:
    """B-K08, inv:P20, fault:S63, fault:S66: all copies of both brokers change their directory while producers write; then one directory goes, as one
    that is unmounted: its partitions are led elsewhere, the broker goes on with the other, and nobody's write fails. When it is back all is in sync again."""
    create(cluster, "numbers", BOTH[:PARTITIONS])
    load = Load(cluster.bootstrap_servers, "numbers")
    thread = threading.Thread(target=load.run)
    thread.start()
    try:
        broker = cluster[101]
        for member in cluster.brokers:
            began = {number: Path(where[0][0]) for number, where in places(member, "numbers").items()}
            assert len(set(began.values())) == 2
            for number, path in began.items():
                assert alter(member, second(member) if path == member.data else member.data, "numbers", number) == 0
            wanted = {
                number: [(str(second(member) if path == member.data else member.data), False)]
                for number, path in began.items()
            }
            until(lambda at=member, there=wanted: places(at, "numbers") == there)  # type: ignore[misc]
        lost = {number for number, where in places(broker, "numbers").items() if where[0][0] == str(second(broker))}
        second(broker).rename(away := second(broker).with_name("away"))
        until(lambda: broker.metrics()["kafka_log_logmanager_offlinelogdirectorycount"] == 1)
        until(
            lambda: (
                {each.leader_id for each in partitions(cluster[102], "numbers") if each.partition_index in lost}
                == {102}
            )
        )
        leaders = {each.partition_index: each.leader_id for each in partitions(cluster[102], "numbers")}
        assert broker.is_running
        assert {number for number, one in leaders.items() if one == 101}.isdisjoint(lost)
        assert alter(broker, second(broker), "numbers", next(iter(set(leaders) - lost))) == 56
        away.rename(second(broker))
        cluster.restart(101)
        in_sync(cluster, "numbers")
    finally:
        load.stopped.set()
        thread.join()
    assert load.failed == []
    judge(load, read_all(cluster.bootstrap_servers, "numbers"), told="moved between directories")
    until(lambda: same_bytes(cluster, "numbers"))


@pytest.mark.java
def test_kafkas_tools_move_and_describe(cluster: Cluster, tmp_path: Path) -> None:
    """B-T12, S3-17: kafka-reassign-partitions with `log_dirs` moves a replica to the directory that it names, and says so; kafka-log-dirs and ours say the same."""
    create(cluster, "named", [(101, 102)])
    broker = cluster[101]
    target = str(broker.data if places(broker, "named")[0][0][0] == str(second(broker)) else second(broker))
    plan = tmp_path / "plan.json"
    row = {"topic": "named", "partition": 0, "replicas": [101, 102], "log_dirs": [target, "any"]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    file = ["--reassignment-json-file", str(plan)]
    executed = kafka.run_tool("kafka-reassign-partitions", *server, *file, "--execute", check=True)
    assert (
        f"Successfully started moving log directory to {target} for replica named-0 with broker 101" in executed.stdout
    )
    until(lambda: places(broker, "named") == {0: [(target, False)]})
    verified = kafka.run_tool("kafka-reassign-partitions", *server, *file, "--verify", check=True)
    assert "Reassignment of replica named-0-101 completed successfully" in verified.stdout, verified.stdout
    asked = [*server, "--describe", "--broker-list", "101", "--topic-list", "named"]
    theirs = kafka.run_tool("kafka-log-dirs", *asked, check=True).stdout
    ours = headrace("log-dirs", *asked)
    assert directories(ours.out) == directories(theirs)


def directories(printed: str) -> list[Any]:
    """The log directories in a document of kafka-log-dirs, which has them in no order."""
    document = json.loads(printed.splitlines()[-1])
    return sorted(document["brokers"][0]["logDirs"], key=lambda each: str(each["logDir"]))
