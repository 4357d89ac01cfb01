"""Do our own commands for the quorum do their work on a quorum of ours: real processes, both doors?"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.client import admin_quorum
from headrace.client.blocking import BlockingClient
from headrace.testing.cluster import Cluster
from tests.support.commands import headrace

PATIENCE_S = 60.0
QUICK = {
    "controller.quorum.fetch.timeout.ms": "1000",
    "controller.quorum.election.timeout.ms": "500",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A dynamic quorum of two, a third controller that may join, and a broker; small snapshots."""
    made = Cluster(controllers=2, brokers=1, dynamic=True, properties=QUICK)
    made.add(3)
    with made:
        made.leader()
        for number in range(12):
            create(made, f"topic-{number}")
        yield made


def create(cluster: Cluster, topic: str) -> None:
    done = headrace(
        "topics", "--bootstrap-server", cluster.bootstrap_servers, "--create", "--topic", topic, "--partitions", "5"
    )
    assert done.code == 0, done.err


def doors(cluster: Cluster) -> list[list[str]]:
    return [
        ["--bootstrap-server", cluster.bootstrap_servers],
        ["--bootstrap-controller", cluster.bootstrap_controllers],
    ]


def status(door: list[str]) -> Any:
    done = headrace("quorum", *door, "describe", "--status", "--json")
    assert done.code == 0, done.err
    return json.loads(done.out)


def until(door: list[str], voters: set[int]) -> Any:
    """The status, once these are the voters."""
    deadline = time.monotonic() + PATIENCE_S
    found = status(door)
    while {each["id"] for each in found["currentVoters"]} != voters:
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
        found = status(door)
    return found


def test_the_quorum_is_described_at_both_doors(cluster: Cluster) -> None:
    """S4-41, S4-46, S4-48, S4-54, B-T06: voters with directories and end points, observers, lag."""
    for door in doors(cluster):
        found = until(door, {1, 2})
        assert found["clusterId"] == cluster.cluster_id
        assert found["leaderId"] == cluster.leader().node_id
        assert found["targetVoters"] == [1, 2]
        assert {each["id"] for each in found["currentObservers"]} == {3, 101}
        for each in found["currentVoters"]:
            member = cluster[each["id"]]
            assert each["directoryId"] == member.directory_id
            assert each["endpoints"] == [f"CONTROLLER://127.0.0.1:{member.controller_port}"]
        rows = json.loads(headrace("quorum", *door, "describe", "--replication", "--json").out)
        assert sorted(row["status"] for row in rows) == ["Follower", "Leader", "Observer", "Observer"]
        lines = headrace("quorum", *door, "describe", "--replication", "--human-readable").out.splitlines()
        assert lines[0].split("\t")[0].strip() == "NodeId"
        assert all("ms ago" in line for line in lines[1:])


def test_voters_are_added_and_removed(cluster: Cluster) -> None:
    """B-T07, S4-37, S4-52: a dry run changes nothing; the same key is not added twice; an unknown one is not removed."""
    newcomer = cluster[3]
    for door in doors(cluster):
        adding = [*door, "--command-config", str(newcomer.config), "add-controller"]
        assert headrace("quorum", *adding, "--dry-run").out.startswith("DRY RUN of adding controller 3")
        assert {each["id"] for each in status(door)["currentVoters"]} == {1, 2}
        done = headrace("quorum", *adding)
        assert (done.code, done.out) == (
            0,
            f"Added controller 3 with directory id {newcomer.directory_id} and endpoints: "
            f"CONTROLLER://127.0.0.1:{newcomer.controller_port}\n",
        ), done.err
        until(door, {1, 2, 3})
        again = headrace("quorum", *adding)
        assert (again.code, len(again.err.splitlines())) == (1, 1)
        removing = [*door, "remove-controller", "-i", "3", "-d", newcomer.directory_id]
        done = headrace("quorum", *removing)
        assert (done.code, done.out) == (0, f"Removed  KRaft controller 3 with directory id {newcomer.directory_id}\n")
        until(door, {1, 2})
        assert headrace("quorum", *removing).code == 1


def test_quorum_info_in_python(cluster: Cluster) -> None:
    """S4-52, S4-53: the object that programs get."""
    with BlockingClient(cluster.bootstrap_servers) as client:
        info = client.run(admin_quorum.describe_quorum)
    assert info.leader_id == cluster.leader().node_id
    assert info.target_voters == {each.replica_id for each in info.voters} == {1, 2}
    assert info.high_watermark > 0
    assert info.leader is not None
    assert info.leader.log_end_offset is not None
    assert info.leader.log_end_offset >= info.high_watermark


def snapshots(cluster: Cluster) -> list[Path]:
    """The leader's snapshots that hold metadata, oldest first."""
    return sorted(
        path for path in cluster.leader().metadata_log.glob("*.checkpoint") if not path.name.startswith("0" * 20)
    )


def test_the_shell_follows_our_quorum_through_its_snapshot(cluster: Cluster) -> None:
    """B-T10, B-S06: who has nothing is told the newest snapshot; what came later is read behind it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := snapshots(cluster)):
        assert time.monotonic() < deadline
        create(cluster, f"more-{time.monotonic_ns()}")
    create(cluster, "the-last-one")
    seen = headrace("metadata-shell", "--controllers", cluster.bootstrap_controllers, "ls", "/image/topics/byName")
    assert seen.code == 0, seen.err
    assert {"topic-0", "topic-11", "the-last-one"} <= set(seen.out.split())
    brokers = headrace(
        "metadata-shell", "--controllers", cluster.bootstrap_controllers, "cat", "/image/cluster/brokers/101"
    )
    assert "fenced=false" in brokers.out
    of_file = headrace("metadata-shell", "--snapshot", str(found[-1]), "ls", "/image/topics/byName")
    assert "topic-0" in of_file.out.split()


def test_features_are_described_at_both_doors(cluster: Cluster) -> None:
    """B-T08: the same levels at a broker, at a controller, and at each node."""
    shown = []
    for door in doors(cluster):
        done = headrace("features", *door, "describe")
        assert done.code == 0, done.err
        shown.append([line.split("Epoch:")[0] for line in done.out.splitlines()])
    assert shown[0] == shown[1]
    one = headrace("features", *doors(cluster)[1], "describe", "--node-id", "2")
    assert [line.split("Epoch:")[0] for line in one.out.splitlines()] == shown[0]
    refused = headrace("features", *doors(cluster)[0], "downgrade", "--feature", "kraft.version=0")
    assert (refused.code, "Could not downgrade kraft.version to 0" in refused.out) == (1, True)
