"""Does `headrace quorum explain` name the real cause? Situations are staged outside of the processes; what it must say stands first."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.explain.causes import CauseKind
from headrace.server.formatting import FormatOrder
from headrace.testing.cluster import Cluster
from headrace.testing.member import lasting_ports
from tests.support import staging
from tests.support.commands import headrace
from tests.support.namespaces import Network
from tests.support.namespaces import missing as missing_namespaces

PATIENCE_S = 45.0
QUICK = {"controller.quorum.fetch.timeout.ms": "1000", "controller.quorum.election.timeout.ms": "500"}


class Expected(NamedTuple):
    """What must be the first cause, of which nodes, and how the quorum is."""

    kind: CauseKind
    nodes: set[int]
    states: tuple[str, ...]


def explain(cluster: Cluster, *arguments: str) -> tuple[int, Any]:
    """Exit code and diagnosis, asked of all controllers."""
    done = headrace(
        "quorum",
        "--bootstrap-controller",
        cluster.bootstrap_controllers,
        "explain",
        "--json",
        "--timeout-ms",
        "2000",
        *arguments,
    )
    assert "Traceback" not in done.err
    return done.code, json.loads(done.out)


def must_say(cluster: Cluster, expected: Expected) -> Any:
    """The diagnosis, once what was staged has had its effect: its only cause is the expected one, told with evidence and advice."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        code, found = explain(cluster)
        first = found["causes"][0] if found["causes"] else {"kind": "none", "nodes": []}
        said = (first["kind"], set(first["nodes"]), found["state"] in expected.states)
        if said == (expected.kind.value, expected.nodes, True) and len(found["causes"]) == 1:
            assert code == 1
            assert first["evidence"]
            assert first["advice"]
            return found
        assert time.monotonic() < deadline, json.dumps(found, indent=1)
        time.sleep(0.5)


def needs(lacking: str) -> None:
    """What a machine cannot do is skipped there, or fails where skips are forbidden."""
    if lacking:
        say = pytest.fail if os.environ.get("HEADRACE_NO_SKIP") == "1" else pytest.skip
        say(f"this situation needs {lacking}")


def followers(cluster: Cluster) -> list[int]:
    leader = cluster.leader().node_id
    return [each.node_id for each in cluster.controllers if each.node_id != leader]


@pytest.fixture
def shimmed(tmp_path: Path) -> Iterator[staging.ShimmedCluster]:
    """Three controllers whose syncs and clocks a test can change."""
    needs(staging.missing_compiler())
    with staging.ShimmedCluster(controllers=3, properties=QUICK) as cluster:
        cluster.leader()
        yield cluster


def test_a_healthy_quorum_is_called_healthy() -> None:
    """S4-54: no cause where there is none, whoever is asked; exit code 0."""
    with Cluster(controllers=3, brokers=1, properties=QUICK) as cluster:
        leader = cluster.leader().node_id
        deadline = time.monotonic() + PATIENCE_S
        while (found := explain(cluster))[1]["state"] != "healthy":
            assert time.monotonic() < deadline, found
            time.sleep(0.5)
        assert found[0] == 0
        assert found[1]["causes"] == []
        assert f"Node {leader} leads" in found[1]["summary"]
        through_broker = headrace("quorum", "--bootstrap-server", cluster.bootstrap_servers, "explain")
        assert (through_broker.code, "The quorum is healthy." in through_broker.out) == (0, True), through_broker.out
        assert "node 101 (observer)" in through_broker.out


def test_majority_down(tmp_path: Path) -> None:
    """fault:S4: two of three controllers are killed."""
    with Cluster(controllers=3, brokers=1, properties=QUICK) as cluster:
        killed = followers(cluster)
        expected = Expected(CauseKind.MAJORITY_DOWN, set(killed), ("leaderless",))
        cluster.kill(*killed)
        found = must_say(cluster, expected)
        assert any("connection refused" in line for line in found["causes"][0]["evidence"])
        through_broker = headrace("quorum", "--bootstrap-server", cluster.bootstrap_servers, "explain")
        assert through_broker.code == 1
        assert "The quorum has no leader: 2 of 3 voters are down" in through_broker.out
        hurry = tmp_path / "client.properties"
        hurry.write_text("default.api.timeout.ms=2000\n")
        where = ["--bootstrap-controller", cluster.bootstrap_controllers, "--command-config", str(hurry)]
        described = headrace("quorum", *where, "describe", "--status")
        assert (described.code, described.err.count("`headrace quorum explain`")) == (1, 1)
        cluster.start(killed[0])
        cluster.leader()


def test_one_way_cut(tmp_path: Path) -> None:
    """fault:S26: a firewall drops what a follower sends to the leader's controller port; what the leader sends it passes."""
    needs(missing_namespaces())
    with Network(range(1, 4)) as network:
        cluster = Cluster(controllers=3, properties=QUICK)
        for member in cluster.controllers:
            member.place = network.place(member.node_id)
        with cluster:
            leader = cluster.leader()
            follower = followers(cluster)[0]
            expected = Expected(CauseKind.ONE_WAY_CUT, {follower, leader.node_id}, ("degraded",))
            network.refuse_port(follower, leader.node_id, leader.controller_port)
            found = must_say(cluster, expected)
            assert f"node {follower} cannot reach node {leader.node_id}" in found["causes"][0]["headline"]


def test_stale_voter_set() -> None:
    """S4-12, S4-19: the configuration of one node lists voters of long ago."""
    expected = Expected(CauseKind.STALE_VOTER_SET, {3}, ("degraded",))
    with Cluster(controllers=3, properties=QUICK) as cluster:
        stale = cluster[3]
        stale.stop()
        fourth, fifth = lasting_ports(2)
        stale.properties["controller.quorum.voters"] = (
            f"3@127.0.0.1:{stale.controller_port},4@127.0.0.1:{fourth},5@127.0.0.1:{fifth}"
        )
        cluster.launch(3)
        must_say(cluster, expected)


def test_wrong_cluster_id() -> None:
    """S1-28: one node was formatted for another cluster."""
    expected = Expected(CauseKind.WRONG_CLUSTER_ID, {2}, ("degraded",))
    with Cluster(controllers=3, properties=QUICK) as cluster:
        cluster[2].stop()
        shutil.rmtree(cluster[2].data)
        cluster[2].format(FormatOrder(cluster_id="AAAAAAAAAAAAAAAAAAAAAQ"), cluster.quorum_settings())
        cluster.launch(2)
        must_say(cluster, expected)


def test_full_disk(tmp_path: Path) -> None:
    """fault:S59: somebody else's file takes the rest of a voter's disk; also after it stopped, which it told the others."""
    needs(staging.missing_mounts(tmp_path))
    expected = Expected(CauseKind.FULL_DISK, {2}, ("degraded", "stalled", "leaderless"))
    disk = tmp_path / "disk"
    with staging.small_disk(disk, 24 << 20):
        cluster = Cluster(controllers=3, brokers=1, properties=QUICK)
        cluster[2].properties["log.dirs"] = str(disk / "data")
        cluster[2].directory.joinpath("data").symlink_to(disk / "data")
        with cluster:
            cluster.leader()
            staging.fill(disk)
            for number in range(40):
                headrace(
                    "topics",
                    "--bootstrap-server",
                    cluster.bootstrap_servers,
                    "--create",
                    "--topic",
                    f"t{number}",
                    "--partitions",
                    "20",
                )
                if not cluster[2].is_running:
                    break
            found = must_say(cluster, expected)
            cluster[2].wait_until_ended()
            found = must_say(cluster, expected)
            assert "before it stopped" in str(found["causes"][0]["evidence"])
            assert "No space left" in str(found["causes"][0]["evidence"])


def test_slow_fsync(shimmed: staging.ShimmedCluster) -> None:
    """B-R14 fault:S60: every sync of the leader takes 1.2 s."""
    leader = shimmed.leader().node_id
    expected = Expected(CauseKind.SLOW_FSYNC, {leader}, ("degraded", "stalled"))
    shimmed.shim.slow_syncs(leader, 1_200)
    must_say(shimmed, expected)


def test_diverged_log() -> None:
    """inv:R1: the directory of one voter holds other bytes than the quorum committed, with checksums that fit."""
    with Cluster(controllers=3, brokers=1, properties=QUICK) as cluster:
        server = ["--bootstrap-server", cluster.bootstrap_servers]
        assert headrace("topics", *server, "--create", "--topic", "told-so").code == 0
        changed = followers(cluster)[0]
        expected = Expected(CauseKind.DIVERGED_LOG, {changed}, ("degraded",))
        cluster[changed].stop()
        staging.rewrite_history(cluster[changed], b"told-so", b"to-lose")
        cluster.start(changed)
        assert headrace("topics", *server, "--create", "--topic", "later").code == 0
        must_say(cluster, expected)


def diverge(cluster: Cluster) -> tuple[int, list[str]]:
    """A topic is made, the history of one follower is rewritten; which one, and what the operator is advised."""
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    assert headrace("topics", *server, "--create", "--topic", "told-so").code == 0
    changed = followers(cluster)[0]
    cluster[changed].stop()
    staging.rewrite_history(cluster[changed], b"told-so", b"to-lose")
    cluster.start(changed)
    assert headrace("topics", *server, "--create", "--topic", "later").code == 0
    found = must_say(cluster, Expected(CauseKind.DIVERGED_LOG, {changed}, ("degraded",)))
    return changed, found["causes"][0]["advice"]


def must_be_mended(cluster: Cluster, mended: int) -> None:
    """The quorum is healthy; the mended voter and one other go on alone, and know every topic that was acknowledged."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := explain(cluster))[1]["state"] != "healthy":
        assert time.monotonic() < deadline, json.dumps(found[1], indent=1)
        time.sleep(0.5)
    away = next(each.node_id for each in cluster.controllers if each.node_id != mended)
    cluster.kill(away)
    assert cluster.leader().node_id != away
    server = ["--bootstrap-server", cluster.bootstrap_servers]
    assert headrace("topics", *server, "--create", "--topic", "last").code == 0
    listed = headrace("topics", *server, "--list")
    assert listed.out.split() == ["last", "later", "told-so"]


def test_a_static_voter_is_mended_as_advised() -> None:
    """inv:R2, R18: emptied while all others are up and hold everything, as the advice says of now."""
    with Cluster(controllers=3, brokers=1, properties=QUICK) as cluster:
        changed, advice = diverge(cluster)
        assert any(line.endswith("That is so now.") for line in advice), advice
        cluster[changed].stop()
        cluster[changed].data.rename(cluster[changed].data.with_name("aside"))
        cluster[changed].format(FormatOrder(cluster_id=cluster.cluster_id), cluster.quorum_settings())
        cluster.start(changed)
        must_be_mended(cluster, changed)


def test_a_dynamic_voter_is_mended_as_advised() -> None:
    """inv:R2, R18, KIP-853: removed by the very command of the advice, formatted with a new directory id, added again."""
    with Cluster(controllers=3, brokers=1, dynamic=True, properties=QUICK) as cluster:
        changed, advice = diverge(cluster)
        [command] = [part for line in advice for part in line.split("`") if "remove-controller" in part]
        cluster[changed].stop()
        done = headrace("quorum", "--bootstrap-controller", cluster.bootstrap_controllers, *command.split()[2:])
        assert done.code == 0, done.err
        cluster[changed].data.rename(cluster[changed].data.with_name("aside"))
        order = FormatOrder(cluster_id=cluster.cluster_id, has_no_initial_controllers=True)
        cluster[changed].format(order, cluster.quorum_settings())
        cluster.start(changed)
        cluster.add_voter(changed)
        must_be_mended(cluster, changed)


def test_wrong_listener() -> None:
    """S4-13: one node looks for a voter at the port that is for that voter's clients."""
    expected = Expected(CauseKind.WRONG_LISTENER, {1, 3}, ("degraded",))
    with Cluster(controllers=3, combined=True, properties=QUICK) as cluster:
        first, second, third = cluster.controllers
        third.stop()
        third.properties["controller.quorum.voters"] = (
            f"1@127.0.0.1:{first.port},2@127.0.0.1:{second.controller_port},3@127.0.0.1:{third.controller_port}"
        )
        cluster.launch(3)
        must_say(cluster, expected)


def test_expired_voter_key() -> None:
    """B-R24: a voter comes back with a new disk, formatted anew; the voter set still has the key of the old one."""
    expected = Expected(CauseKind.EXPIRED_VOTER_KEY, {3}, ("degraded",))
    with Cluster(controllers=3, dynamic=True, properties=QUICK) as cluster:
        cluster[3].stop()
        shutil.rmtree(cluster[3].data)
        order = FormatOrder(cluster_id=cluster.cluster_id, has_no_initial_controllers=True)
        cluster[3].format(order, cluster.quorum_settings())
        cluster.launch(3)
        found = must_say(cluster, expected)
        old = found["causes"][0]["advice"][0]
        assert f"-i 3 -d {cluster[3].directory_id}" not in old


def test_clock_jump(shimmed: staging.ShimmedCluster) -> None:
    """fault:S40: the wall clock of one node jumps an hour ahead while it runs."""
    expected = Expected(CauseKind.CLOCK_JUMP, {2}, ("degraded",))
    shimmed.shim.move_clock(2, 3_600_000)
    must_say(shimmed, expected)
