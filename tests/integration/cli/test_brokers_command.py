"""One broker's life as `headrace brokers` shows it: not registered, fenced, serving, stopping; and a second process under its id."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.client.admin_quorum import METADATA_QUORUM
from headrace.server.formatting import FormatOrder
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.testing.node import Node
from headrace.wire.messages.describe_quorum import BrokerView, DescribeQuorumRequest
from tests.support.commands import headrace
from tests.support.copies import create, in_sync
from tests.support.roles import until

SETTINGS = {"headrace.fence.unreachable.brokers": "false", "broker.heartbeat.interval.ms": "300"}
"""So that a killed broker has its session, 9 s."""
ID = 103


def shown(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    """What the command shows of the broker, asked of brokers, or as `arguments` say."""
    where = arguments or ("-b", f"127.0.0.1:{cluster[101].port}")
    done = headrace("brokers", *where, "--id", str(ID), "--json")
    assert done.code == 0, done
    [found] = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def view(cluster: Cluster) -> BrokerView | None:
    """The same from one broker, without a process for each look."""
    request = DescribeQuorumRequest(topics=METADATA_QUORUM, wants_broker_views=True)
    answer = ask(cluster[101].place.host, cluster[101].port, request, 2)
    return next((each for each in answer.broker_views if each.broker_id == ID), None)


def is_waiting(found: BrokerView | None) -> bool:
    """It is stopping, and waits for the one that reads nothing."""
    return found is not None and found.state == 3 and found.waits_for_brokers == (102,)


def intruder(cluster: Cluster, directory: Path) -> Member:
    """Another process with the id of a broker: its own directory, its own port."""
    quorum = cluster.quorum_settings()
    made = Member(node_id=ID, roles=frozenset({"broker"}), directory=directory)
    made.properties["initial.broker.registration.timeout.ms"] = "3000"
    made.format(FormatOrder(cluster_id=cluster.cluster_id), quorum)
    made.launch(quorum)
    return made


def test_a_broker_is_seen_in_each_state_of_its_life(tmp_path: Path) -> None:
    """S0-28, S0-05, S0-06, S0-08, S1-29, S1-30: the numbers and Kafka's words, epoch, incarnation, metadata lag, what its shutdown waits for.

    A second process with a live id is kept out with 101 and the first goes on; after kill -9 the next one gets in when the session is over.
    """
    with Cluster(controllers=1, brokers=3, properties=SETTINGS) as cluster:
        cluster.stop(ID)
        controller = f"127.0.0.1:{cluster.controllers[0].controller_port}"
        assert headrace("cluster", "unregister", "-C", controller, "-i", str(ID)).code == 0
        assert (shown(cluster)["state"], shown(cluster)["stateName"]) == (0, "NOT_REGISTERED")
        cluster.start(ID)
        create(cluster, "t", [(ID, 101, 102), (101, ID, 102)])
        in_sync(cluster, "t")
        serving = shown(cluster)
        assert (serving["state"], serving["stateName"], serving["fenced"]) == (2, "UNFENCED", False)
        assert (serving["leaders"], serving["replicas"]) == (1, 2)
        assert serving["metadataLag"] >= 0
        assert serving["heardMsAgo"] < 60_000
        by_controller = shown(cluster, "-C", controller)
        same = ("state", "epoch", "incarnationId", "leaders", "replicas")
        assert [by_controller[key] for key in same] == [serving[key] for key in same]

        second = intruder(cluster, tmp_path)
        assert second.wait_until_ended() != 0
        assert f"another process that is alive is registered as broker {ID}" in second.log.read_text()
        after = shown(cluster)
        assert [after[key] for key in ("state", *same)] == [serving[key] for key in ("state", *same)]

        cluster[ID].kill()
        cluster.start(ID)  # it is let in when the session of the one before is over
        in_sync(cluster, "t")
        again = shown(cluster)
        assert again["state"] == 2
        assert again["epoch"] > serving["epoch"]
        assert again["incarnationId"] != serving["incarnationId"]

        create(cluster, "u", [(ID, 101)])
        cluster[102].pause()
        cluster[ID].terminate()
        stopping = until(lambda: view(cluster) if is_waiting(view(cluster)) else None)
        assert (stopping.in_controlled_shutdown, stopping.waits_for_brokers) == (True, (102,))
        cluster[102].resume()
        assert cluster[ID].wait_until_ended() == 0
        until(lambda: (found := view(cluster)) and found.state == 1)
        gone = shown(cluster)
        assert (gone["state"], gone["stateName"], gone["leaders"], gone["replicas"]) == (1, "FENCED", 0, 3)
        table = headrace("brokers", "-b", f"127.0.0.1:{cluster[101].port}").out.splitlines()
        assert [line.split("\t")[:2] for line in table] == [
            ["ID", "STATE"], ["101", "2 UNFENCED"], ["102", "2 UNFENCED"], ["103", "1 FENCED"],
        ]  # fmt: skip


def test_every_broker_tells_all_also_the_one_in_the_leader_of_the_quorum() -> None:
    """One node that is both, and each of three: the answer never leaves the process where the asked broker's own controller leads."""
    request = DescribeQuorumRequest(topics=METADATA_QUORUM, wants_node_view=True, wants_broker_views=True)
    with Node(in_process=True) as node:
        host, _, port = node.bootstrap_servers.rpartition(":")
        [found] = json.loads(headrace("brokers", "-b", node.bootstrap_servers, "--json").out)
        assert found["epoch"] >= 0
        assert found["heardMsAgo"] >= 0
        assert len(ask(host, int(port), request, 2).node_views) == 1
    with Cluster(nodes=3) as cluster:
        leader = cluster.leader().node_id
        for broker in cluster.brokers:
            answer = ask(broker.place.host, broker.port, request, 2)
            assert [each.broker_id for each in answer.broker_views] == [1, 2, 3], broker.node_id
            assert [each.node_id for each in answer.node_views] == [leader], broker.node_id
