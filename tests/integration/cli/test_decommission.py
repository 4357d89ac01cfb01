"""Brokers that leave a cluster for good: drained, refused, forced, and merely unregistered, on one cluster from the first to the last."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.core.error_code import ErrorCode
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.commands import headrace
from tests.support.copies import create, in_sync, partitions
from tests.support.roles import until

RACKS = {101: "a", 102: "b", 103: "c", 104: "c", 105: "a"}
LINES = [f"line {number}" for number in range(200)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One controller and five brokers in three racks."""
    settings = {"offsets.topic.num.partitions": "1", "offsets.topic.replication.factor": "3"}
    made = Cluster(controllers=1, brokers=5, properties=settings).with_metrics()
    for broker in made.brokers:
        broker.properties["broker.rack"] = RACKS[broker.node_id]
    with made as running:
        yield running


def unregister(cluster: Cluster, broker_id: int, *, through: str, force: bool = False) -> Any:
    """The request with our fields, to a broker, which forwards it, or to the controller."""
    request = UnregisterBrokerRequest(broker_id=broker_id, remove_from_assignments=True, force=force)
    member = cluster.brokers[0] if through == "broker" else cluster.controllers[0]
    port = member.port if through == "broker" else member.controller_port
    return ask(member.place.host, port, request, 0)


def registered(cluster: Cluster) -> dict[int, bool]:
    """Who is registered, and whether it is fenced."""
    broker = cluster.brokers[0]
    answer = ask(broker.place.host, broker.port, DescribeClusterRequest(include_fenced_brokers=True), 2)
    return {each.broker_id: each.is_fenced for each in answer.brokers}


def replicas(cluster: Cluster, topic: str) -> list[tuple[int, ...]]:
    return [tuple(each.replica_nodes) for each in partitions(cluster.brokers[0], topic)]


def read(cluster: Cluster, count: int) -> list[str]:
    """So many records of topic `t`, by librdkafka."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "nobody", "enable.auto.commit": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("t", number, 0) for number in range(3)])
    found: list[str] = []
    try:
        for _ in range(200):
            found += [each.value().decode() for each in consumer.consume(count, 0.5) if each.error() is None]
            if len(found) >= count:
                break
    finally:
        consumer.close()
    return found


def while_it_is_needed_it_is_refused(cluster: Cluster, through: str) -> None:
    """S1-70, S1-67, D-02: by either listener, code 10001, with the partitions' names, and nothing is written."""
    name = f"needed-{through}"
    create(cluster, name, [(105,)])
    create(cluster, f"safe-{through}", [(101, 105)])
    answer = unregister(cluster, 105, through=through)
    assert answer.error_code == ErrorCode.BROKER_REQUIRED_FOR_PARTITIONS
    assert f"{name}-0" in answer.error_message
    assert f"safe-{through}" not in answer.error_message
    assert replicas(cluster, name) == [(105,)]
    assert replicas(cluster, f"safe-{through}") == [(101, 105)]
    assert registered(cluster)[105] is False


def a_broker_is_drained_and_retired(cluster: Cluster) -> None:
    """S1-66, S1-72, S1-76: replicas move to live brokers, where racks allow it to other racks; factors stay, records stay; then it is gone."""
    create(cluster, "t", [(104, 101), (101, 104), (104, 102)])
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True})
    for line in LINES:
        producer.produce("t", line.encode())
    assert producer.flush(60) == 0
    in_sync(cluster, "t")
    cluster[104].stop()
    cluster.start(104)
    in_sync(cluster, "t")
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "104", "--json")
    assert done.code == 0, done
    told = json.loads(done.out)
    assert (told["broker"], told["movedPartitions"], told["lostPartitions"]) == (104, 3, [])
    assert done.err == (
        "Broker 104 still runs and registers again in a moment, as a new broker that may get new replicas: stop it, then run "
        "`headrace cluster decommission --id 104` again.\n"
    )
    found = replicas(cluster, "t")
    assert all(len(each) == 2 and 104 not in each for each in found)
    assert all(len({RACKS[broker] for broker in each}) == 2 for each in found)
    in_sync(cluster, "t")
    assert sorted(read(cluster, len(LINES))) == sorted(LINES)


def a_live_broker_that_was_unregistered_comes_back_as_a_new_one(cluster: Cluster) -> None:
    """S1-73, S1-72, S0-19: its heartbeat gets 77; it registers again under another epoch, is unfenced, and holds nothing."""
    until(lambda: registered(cluster).get(104) is False)
    assert cluster[104].metrics()["kafka_server_kafkaserver_unregistrations"] == 1
    assert "this broker is no longer registered" in cluster[104].log.read_text()
    create(cluster, "again", [(104, 101)])
    in_sync(cluster, "again")


def one_that_is_to_end_when_unregistered_ends(cluster: Cluster) -> None:
    """S1-73, S1-66: `headrace.when.unregistered` = exit; a plain `unregister` leaves the assignments alone; through the controllers."""
    cluster[104].stop()
    cluster[104].properties["headrace.when.unregistered"] = "exit"
    cluster.start(104)
    in_sync(cluster, "again")
    controller = f"127.0.0.1:{cluster.controllers[0].controller_port}"
    done = headrace("cluster", "unregister", "-C", controller, "-i", "104")
    assert (done.code, done.out) == (0, "Broker 104 is no longer registered.\n")
    assert done.err.startswith(
        "1 partition(s) still list broker 104, and wait for it: it still runs and registers again"
    )
    assert cluster[104].wait_until_ended() != 0
    assert 104 not in registered(cluster)
    assert replicas(cluster, "again") == [(104, 101)]


def what_it_left_behind_is_moved_though_it_is_not_registered(cluster: Cluster) -> None:
    """S1-66, S1-76: the partitions that still list it; a second time there is nothing to do, and the line names who there is."""
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "104")
    assert (done.code, done.err) == (0, "")
    assert "partition(s) were moved away" in done.out
    assert 104 not in replicas(cluster, "again")[0]
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "104")
    assert (done.code, done.out) == (1, "")
    assert done.err == "Broker 104 was not decommissioned: it is not registered; registered are 101, 102, 103, 105\n"


def without_enough_brokers_it_is_left_as_it_is(cluster: Cluster) -> None:
    """S1-76: one line that says what to do, exit code 1."""
    create(cluster, "wide", [(101, 102, 103, 105)])
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "103")
    assert (done.code, done.out, len(done.err.splitlines())) == (1, "", 1)
    assert "Broker 103 was left as it is: there is no other live broker for the replicas of wide-0" in done.err
    assert registered(cluster)[103] is False


def through_the_controllers_it_is_drained_too(cluster: Cluster) -> None:
    """S1-67, S1-66: `-C` asks nobody else; partitions that moved keep their factor."""
    create(cluster, "two", [(105, 101)])
    cluster.start(104)  # a fresh registration
    until(lambda: registered(cluster).get(104) is False)
    controller = f"127.0.0.1:{cluster.controllers[0].controller_port}"
    done = headrace("cluster", "decommission", "-C", controller, "-i", "105")
    assert done.code == 0, done
    assert done.out.startswith("Broker 105 is decommissioned: ")
    for name in ("two", "wide", "needed-broker", "needed-controller", "safe-broker"):
        assert all(105 not in each for each in replicas(cluster, name))
    assert [len(each) for each in replicas(cluster, "wide")] == [4]
    stop(cluster, 105)


def stop(cluster: Cluster, broker_id: int) -> Member:
    """It registered again; it ends for good."""
    member = cluster[broker_id]
    if member.is_running:
        member.stop()
    return member


def by_force_it_goes_at_once_and_tells_what_was_lost(cluster: Cluster) -> None:
    """S1-71, S1-76, D-01: a dead broker's only replicas go on, empty, on another broker; counted as unclean; the report names them."""
    create(cluster, "sole", [(103,)])
    create(cluster, "pair", [(102, 103)])
    cluster[103].kill()
    until(lambda: registered(cluster)[103])
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "103")
    assert done.code == 1
    assert "sole-0 cannot be copied, as nobody leads" in done.err
    unclean = "kafka_controller_controllerstats_uncleanleaderelections_total"
    before = cluster.controllers[0].metrics()[unclean]
    done = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "103", "--force")
    assert done.code == 0, done
    assert done.out == "Broker 103 is decommissioned by force: 1 partition(s) lost their only replica in sync: sole-0\n"
    assert "partition(s) have one replica fewer now: give them another one by" in done.err
    assert 103 not in registered(cluster)
    [only] = replicas(cluster, "sole")
    assert (len(only), replicas(cluster, "pair")) == (1, [(102,)])
    assert cluster.controllers[0].metrics()[unclean] == before + 1
    until(lambda: partitions(cluster.brokers[0], "sole")[0].leader_id == only[0])
    assert (
        headrace("get-offsets", "--bootstrap-server", cluster.bootstrap_servers, "--topic", "sole").out == "sole:0:0\n"
    )
    again = headrace("cluster", "decommission", "-b", cluster.bootstrap_servers, "-i", "103", "-f")
    assert (again.code, again.err.strip()) == (
        1,
        f"Broker 103 was not decommissioned: it is not registered; registered are {', '.join(map(str, sorted(registered(cluster))))}",
    )


def test_brokers_leave_a_cluster_for_good(cluster: Cluster) -> None:
    """S1-63, S1-66, S1-67, S1-70, S1-71, S1-72, S1-73, S1-76, D-01, D-02: one cluster on which they leave in all ways, one after the other."""
    for through in ("broker", "controller"):
        while_it_is_needed_it_is_refused(cluster, through)
    a_broker_is_drained_and_retired(cluster)
    a_live_broker_that_was_unregistered_comes_back_as_a_new_one(cluster)
    one_that_is_to_end_when_unregistered_ends(cluster)
    what_it_left_behind_is_moved_though_it_is_not_registered(cluster)
    without_enough_brokers_it_is_left_as_it_is(cluster)
    through_the_controllers_it_is_drained_too(cluster)
    by_force_it_goes_at_once_and_tells_what_was_lost(cluster)
