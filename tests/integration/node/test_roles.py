"""Do processes with one role each make one cluster: found, followed, forwarded to, failed over, restarted, moved?"""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from headrace.testing.asking import ask, ask_quorum
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.copies import create as create_copies
from tests.support.copies import partitions
from tests.support.relay import Relay
from tests.support.roles import controllers_of, create, topics_of, unfenced, until

LEADER_NOT_AVAILABLE = 5


def test_three_controllers_and_two_brokers_make_a_cluster() -> None:
    """B-C28, B-C19, S4-13, S4-14, S4-22: brokers find the leader, forward to it, follow the log; every controller is registered; kill -9 of the leader and it goes on."""
    with Cluster(controllers=3, brokers=2) as cluster:
        first, second = cluster.brokers
        assert create(first, "before") == [0]
        until(lambda: "before" in topics_of(second))
        ports = {each.node_id: each.controller_port for each in cluster.controllers}
        for each in cluster.controllers:
            until(lambda each=each: controllers_of(each) == ports)  # type: ignore[misc]
        leader = cluster.leader()
        leader.kill()
        assert create(first, "after") == [0]
        until(lambda: {"before", "after"} <= topics_of(second))
        assert cluster.leader().node_id != leader.node_id
        cluster.start(leader.node_id)
        until(lambda: len(cluster.quorum().current_voters) == 3)
        assert unfenced(first) == {101, 102}


def test_a_broker_passes_questions_about_the_quorum_to_its_leader() -> None:
    """B-C28, B-K11: DescribeQuorum on a broker's listener is the leader's answer; brokers are its observers."""
    with Cluster(controllers=3, brokers=1) as cluster:
        [broker] = cluster.brokers

        def described() -> Any:
            partition = ask_quorum(broker.place.host, broker.port).topics[0].partitions[0]
            return partition if {each.replica_id for each in partition.observers} == {broker.node_id} else None

        found = until(described)
        assert found.leader_id == cluster.leader().node_id
        assert {each.replica_id for each in found.current_voters} == {1, 2, 3}


def test_combined_nodes_make_a_cluster() -> None:
    """B-K12, S1-12: broker and controller of one process, three of them, each under one id for both; the way to the active controller is the same for all."""
    with Cluster(controllers=3, combined=True) as cluster:
        ids = {each.node_id for each in cluster.brokers}
        for number, member in enumerate(cluster.brokers):
            assert create(member, f"t{number}") == [0]
        until(lambda: unfenced(cluster.brokers[0]) == set(controllers_of(cluster.brokers[0])) == ids)
        for member in cluster.brokers:
            until(lambda member=member: {"t0", "t1", "t2"} <= topics_of(member))  # type: ignore[misc]
        leader = cluster.leader()
        leader.kill()
        survivor = next(each for each in cluster.brokers if each.is_running)
        assert create(survivor, "later") == [0]


def test_a_killed_broker_is_fenced_before_its_session_ends() -> None:
    """C14's exception: with a session of an hour, only the refused connections can tell."""
    properties = {"broker.session.timeout.ms": "3600000", "broker.heartbeat.interval.ms": "100"}
    with Cluster(controllers=1, brokers=2, properties=properties) as cluster:
        first, second = cluster.brokers
        until(lambda: unfenced(first) == {101, 102})
        time.sleep(0.5)  # the listeners are probed once while the broker lives
        second.kill()
        until(lambda: unfenced(first) == {101})
        cluster.start(second.node_id)
        until(lambda: unfenced(first) == {101, 102})


def log_bytes(member: Member) -> int:
    """Bytes of the segments of a node's metadata log."""
    return sum(file.stat().st_size for file in member.metadata_log.glob("*.log"))


def test_a_restarted_broker_reads_only_what_is_new(tmp_path: Path) -> None:
    """B-K10: the metadata that it has on disk does not cross the network again."""
    with Relay() as relay, ExitStack() as stack:
        cluster = Cluster(controllers=1, brokers=1)
        [controller], [broker] = cluster.controllers, cluster.brokers
        relay.to(controller.place.host, controller.controller_port)
        controller.properties["advertised.listeners"] = f"CONTROLLER://127.0.0.1:{relay.port}"
        broker.properties["controller.quorum.voters"] = f"1@127.0.0.1:{relay.port}"
        stack.enter_context(cluster)
        for number in range(20):
            assert create(broker, *(f"topic-{number}-{each}" for each in range(20))) == [0] * 20
        until(lambda: len(topics_of(broker)) == 400)
        size, before = log_bytes(broker), relay.bytes_down
        assert before > size
        cluster.restart(broker.node_id)
        assert len(topics_of(broker)) == 400
        new = log_bytes(broker) - size  # its leaderships end and begin again: records of their own
        assert 0 < relay.bytes_down - before < new + size / 4


def begins_above_zero(member: Member) -> bool:
    """Whether its metadata log does not hold the first records any more."""
    names = sorted(file.name for file in member.metadata_log.glob("*.log"))
    return bool(names) and names[0] > f"{0:020d}.log"


def test_a_new_broker_takes_a_snapshot(tmp_path: Path) -> None:
    """B-S01, B-S04, B-S05: every node makes its own, and drops the log below it; who comes late is given one, because that log is gone."""
    properties = {
        "metadata.log.max.record.bytes.between.snapshots": "20000",
        "metadata.max.retention.bytes": "20000",
        "internal.metadata.log.segment.bytes": "20000",
    }
    with Cluster(controllers=3, brokers=1, properties=properties) as cluster:
        [broker] = cluster.brokers
        for number in range(20):
            assert create(broker, *(f"topic-{number}-{each}" for each in range(20))) == [0] * 20
        for member in (*cluster.controllers, broker):
            until(lambda member=member: list(member.metadata_log.glob("*[1-9]*.checkpoint")))  # type: ignore[misc]
        for member in (*cluster.controllers, broker):
            until(lambda member=member: begins_above_zero(member))  # type: ignore[misc]
        late = cluster.add(102, {"broker"})
        cluster.start(102)
        until(lambda: len(topics_of(late)) == 400)
        assert begins_above_zero(late)
        assert create(late, "more") == [0]


def test_a_broker_that_moves_is_found_again() -> None:
    """S4-15: another port at the next start; the controllers and the other broker tell the new one."""
    with Cluster(controllers=1, brokers=2) as cluster:
        first, second = cluster.brokers
        second.stop()
        second.move()
        cluster.start(second.node_id)

        def port_of_second() -> int:
            answer = ask(first.place.host, first.port, MetadataRequest(topics=()), 12)
            return next((each.port for each in answer.brokers if each.node_id == 102), 0)

        until(lambda: port_of_second() == second.port)


def test_everybody_is_killed_and_comes_back_in_any_order() -> None:
    """S4-11, S4-16: founding again is not needed; what was acknowledged is there."""
    with Cluster(controllers=3, brokers=1) as cluster:
        [broker] = cluster.brokers
        assert create(broker, "kept") == [0]
        cluster.kill()
        for node_id in (101, 3, 1, 2):
            cluster.launch(node_id)
        cluster.start()
        until(lambda: "kept" in topics_of(broker))
        assert create(broker, "new") == [0]


def test_a_node_without_a_quorum_waits_says_so_and_stops() -> None:
    """S4-24, B-K03: it keeps trying and tells whom it asked; a broker and a controller stop when they are told to."""
    with Cluster(controllers=2, brokers=1, properties={"broker.session.timeout.ms": "2000"}) as cluster:
        two = cluster.leader()
        one = next(each for each in cluster.controllers if each is not two)
        [broker] = cluster.brokers
        two.kill()
        until(lambda: "no leader of the metadata quorum is reached" in one.log_tail())
        assert f"127.0.0.1:{two.controller_port} refused" in one.log_tail()
        assert (broker.stop(), one.stop()) == (0, 0)


def test_clients_work_while_controllers_come_and_go() -> None:
    """B-C28, B-K11: an idempotent producer and a group on brokers without a controller of their own; every controller is killed once."""
    with Cluster(controllers=3, brokers=2) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        sent = 0
        for member in cluster.controllers:
            for number in range(sent, sent + 50):
                producer.produce("flights", str(number).encode())
            sent += 50
            assert producer.flush(60) == 0
            member.kill()
            cluster.start(member.node_id)
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        try:
            consumer.subscribe(["flights"])
            values: list[int] = []

            def all_read() -> bool:
                values.extend(_values(consumer))
                return len(values) >= sent

            until(all_read)
            assert values == list(range(sent))
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()


def _values(consumer: Consumer) -> list[int]:
    found = consumer.consume(100, timeout=1.0)
    return [int(each.value() or b"") for each in found if each.error() is None]


def test_a_paused_broker_is_fenced_by_time_and_comes_back() -> None:
    """S0-18, S0-19, S0-09, S3-29, C14: silence is not refusal; its session decides, and a heartbeat is enough to take part again.

    Meanwhile it is in no answer of the others, its replicas are offline, and what only it could lead has no leader.
    """
    properties = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
    with Cluster(controllers=3, brokers=2, properties=properties) as cluster:
        first, second = cluster.brokers
        until(lambda: unfenced(first) == {101, 102})
        create_copies(cluster, "t", [(102,)])
        second.pause()
        until(lambda: unfenced(first) == {101})
        described = ask(first.place.host, first.port, DescribeClusterRequest(), 1)
        assert {each.broker_id for each in described.brokers} == {101}
        [part] = partitions(first, "t")
        assert (part.error_code, part.leader_id, list(part.offline_replicas)) == (LEADER_NOT_AVAILABLE, -1, [102])
        second.resume()
        until(lambda: unfenced(first) == {101, 102})
        until(lambda: partitions(first, "t")[0].leader_id == 102)
        assert second.is_running
