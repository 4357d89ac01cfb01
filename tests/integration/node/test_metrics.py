"""Does a real node, and a real cluster, show what is the case?"""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from confluent_kafka import Producer
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from headrace.core.errors import OperatorError
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.testing.node import Node, free_ports
from tests.support.roles import create, until

ACTIVE = "kafka_controller_kafkacontroller_activecontrollercount"
BROKERS = "kafka_controller_kafkacontroller_activebrokercount"
FENCED = "kafka_controller_kafkacontroller_fencedbrokercount"
TOPICS = "kafka_controller_kafkacontroller_globaltopiccount"
PARTITIONS = "kafka_controller_kafkacontroller_globalpartitioncount"
QUEUE = "kafka_controller_controllereventmanager_eventqueuesize"
LAG = "kafka_server_broker_metadata_metrics_last_applied_record_lag_ms"
SELF_FENCED = "kafka_server_kafkaserver_selffenced"
DOMAINS = ("server", "controller")
EPOCH = "kafka_server_raft_metrics_current_epoch"
UNKNOWN = "kafka_server_raft_metrics_number_unknown_voter_connections"


def state_of(found: dict[str, float]) -> str:
    """current-state of a scrape."""
    begin = 'kafka_server_raft_metrics_current_state_info{state="'
    [state] = [name.removeprefix(begin).removesuffix('"}') for name in found if name.startswith(begin)]
    return state


def test_exactly_one_controller_is_active_and_a_broker_is_none() -> None:
    """B-M01, B-M02, B-M07, S4-14, S4-58, S4-59: before and after the active one is killed; all controllers count the same cluster; the broker has no controller's metrics."""
    with Cluster(controllers=3, brokers=1).with_metrics() as cluster:
        [broker] = cluster.brokers
        assert create(broker, "a", "b", partitions=3) == [0, 0]
        counted = (1, 0, 2, 6)

        def agreed() -> bool:
            found = [each.metrics() for each in cluster.controllers]
            return all((one[BROKERS], one[FENCED], one[TOPICS], one[PARTITIONS]) == counted for one in found)

        assert until(agreed)
        leader = cluster.leader()
        found = {each.node_id: each.metrics() for each in cluster.controllers}
        assert {node_id: one[ACTIVE] for node_id, one in found.items()} == {
            each.node_id: float(each is leader) for each in cluster.controllers
        }
        assert sorted(map(state_of, found.values())) == ["follower", "follower", "leader"]
        shown = broker.metrics()
        assert state_of(shown) == "observer"
        assert not [name for name in shown if name.startswith("kafka_controller_")]
        assert shown["kafka_server_replicamanager_leadercount"] == 6
        assert {one[EPOCH] for one in found.values()} == {shown[EPOCH]}
        asked, committed = (f'kafka_{who}_controllerrequestlatency_count{{name="createTopics"}}' for who in DOMAINS)
        assert (shown[asked], found[leader.node_id][committed]) == (1, 1)
        assert all(one["kafka_log_logflushstats_logflushrateandtimems_count"] > 0 for one in found.values())
        leader.kill()
        others = [each for each in cluster.controllers if each is not leader]
        until(lambda: [each.metrics()[ACTIVE] for each in others].count(1) == 1)
        assert max(each.metrics()[EPOCH] for each in others) > shown[EPOCH]
        assert sum(each.metrics()["kafka_controller_kafkacontroller_newactivecontrollerscount"] for each in others) >= 1


def test_a_broker_that_is_cut_off_falls_behind_and_says_so() -> None:
    """S4-56, S0-17, B-M04: the lag is below a second while idle, grows while no controller runs, and the broker fences itself; both end, each time."""
    properties = {
        "broker.session.timeout.ms": "1000",
        "broker.heartbeat.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "200",
    }
    with Cluster(controllers=1, brokers=1, properties=properties).with_metrics() as cluster:
        [broker], [controller] = cluster.brokers, cluster.controllers
        for _ in range(2):
            until(lambda: broker.metrics()[LAG] < 1_000)
            until(lambda: broker.metrics()[SELF_FENCED] == 0)
            controller.pause()
            until(lambda: broker.metrics()[LAG] > 1_500)
            until(lambda: broker.metrics()[LAG] > 2_500)
            until(lambda: broker.metrics()[SELF_FENCED] == 1)
            controller.resume()
        until(lambda: broker.metrics()[SELF_FENCED] == 0)


def test_what_cannot_be_committed_queues_up() -> None:
    """S2-33, B-M03: without a majority the requests of a client wait in the controller, and its queue says so."""
    properties = {"controller.quorum.fetch.timeout.ms": "20000"}
    with Cluster(controllers=3, brokers=1, properties=properties).with_metrics() as cluster:
        [broker], leader = cluster.brokers, cluster.leader()
        assert create(broker, "before") == [0]
        until(lambda: leader.metrics()[QUEUE] == 0)
        for each in cluster.controllers:
            if each is not leader:
                each.pause()
        asking = [threading.Thread(target=create, args=(broker, f"t{number}")) for number in range(5)]
        for thread in asking:
            thread.start()
        until(lambda: leader.metrics()[QUEUE] >= 5)
        for each in cluster.controllers:
            each.resume()
        for thread in asking:
            thread.join()
        until(lambda: leader.metrics()[QUEUE] == 0)
        assert leader.metrics()[TOPICS] == 6


def test_a_node_that_finds_no_other_voter_shows_it() -> None:
    """S4-24: before it is ready: it has no leader, and the addresses of the others lead nowhere."""
    with Cluster(controllers=1).with_metrics() as cluster:
        [member] = cluster.controllers
        member.stop()
        nowhere = ",".join(f"{number}@nobody-{number}.invalid:9093" for number in (2, 3))
        member.properties["controller.quorum.voters"] = f"1@127.0.0.1:{member.controller_port},{nowhere}"
        cluster.launch(1)
        until(lambda: _shows(member, 2))
        found = member.metrics()
        assert (found[ACTIVE], found["kafka_server_raft_metrics_current_leader"]) == (0, -1)
        assert not member.is_ready()


def _shows(member: Member, unknown: int) -> bool:
    try:
        return member.metrics()[UNKNOWN] == unknown
    except OSError:
        return False


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """One combined node with metrics, for tests that leave it as it is."""
    with Node(metrics=True, in_process=True) as node:
        yield node


def test_the_texts_are_prometheus_own_and_openmetrics(node: Node) -> None:
    """B-M08: both parse with prometheus-client's parsers, say what they are, and hold the same names."""
    found: dict[str, set[str]] = {}
    for accept, kind in (
        ("", "text/plain"),
        ("application/openmetrics-text; version=1.0.0", "application/openmetrics-text"),
    ):
        connection = http.client.HTTPConnection("127.0.0.1", node.metrics_port, timeout=10)
        connection.request("GET", "/metrics", headers={"Accept": accept})
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith(kind)
        text = answer.read().decode()
        parse = parse_openmetrics if "openmetrics" in kind else parse_text
        found[kind] = {sample.name for family in parse(text) for sample in family.samples}
        connection.close()
    assert found["text/plain"] == found["application/openmetrics-text"]
    assert len(found["text/plain"]) > 70


def test_whoever_asks_for_something_else_gets_nothing(node: Node) -> None:
    """input:B79: other paths and methods, a header of 1 MiB, another protocol; and the node answers the next one."""
    for method, path, status in (("GET", "/", 404), ("GET", "/health", 404), ("POST", "/metrics", 405)):
        connection = http.client.HTTPConnection("127.0.0.1", node.metrics_port, timeout=10)
        connection.request(method, path, body=b"x" if method == "POST" else None)
        assert connection.getresponse().status == status
        connection.close()
    for data in (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (1 << 20) + b"\r\n\r\n", b"\x16\x03\x01\r\n\r\n"):
        answer = said_to(node, data)
        assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        assert b"kafka_" not in answer
    assert node.metrics()[ACTIVE] == 1


def said_to(node: Node, data: bytes) -> bytes:
    """What comes back until the node hangs up; a reset in the middle of what is sent is one too."""
    answer = b""
    with socket.create_connection(("127.0.0.1", node.metrics_port), 10) as connection:
        with suppress(OSError):
            connection.sendall(data)
        with suppress(ConnectionResetError):
            while more := connection.recv(65_536):
                answer += more
    return answer or b"HTTP/1.1 431 "


def test_many_connections_keep_nobody_out(node: Node) -> None:
    """input:B79, inv:M5: two hundred that say nothing, and a scraper is still answered."""
    silent = [socket.create_connection(("127.0.0.1", node.metrics_port), 10) for _ in range(200)]
    try:
        assert node.metrics()[ACTIVE] == 1
    finally:
        for each in silent:
            each.close()


def test_connections_are_counted_by_listener() -> None:
    """B-M08: those that are open, and all that were taken; other listeners have their own. A new node: clients of other tests may be hanging up."""
    count, total = ("kafka_server_socket_server_metrics_connection_" + name for name in ("count", "creation_total"))
    of_clients, of_quorum = (f'{{listener="{name}",networkProcessor="0"}}' for name in ("PLAINTEXT", "CONTROLLER"))
    with Node(metrics=True) as node:
        until(lambda: node.metrics()[count + of_clients] == 0)
        before = node.metrics()
        with ExitStack() as held:
            for _ in range(3):
                held.enter_context(socket.create_connection(("127.0.0.1", node.port)))
            until(lambda: node.metrics()[count + of_clients] == 3)
        until(lambda: node.metrics()[count + of_clients] == 0)
        after = node.metrics()
    assert after[total + of_clients] >= before[total + of_clients] + 3
    assert after[total + of_quorum] - before[total + of_quorum] < 3


def test_ten_scrapes_a_second_under_load(node: Node) -> None:
    """B-M09: a node that takes records and makes topics answers scrapes meanwhile, and everything else as ever; no lock, no event of the controller."""
    producer = Producer({"bootstrap.servers": node.bootstrap_servers, "linger.ms": 5})
    stop, scrapes = threading.Event(), list[dict[str, float]]()

    def scrape() -> None:
        while not stop.wait(0.1):
            scrapes.append(node.metrics())

    scraper = threading.Thread(target=scrape)
    scraper.start()
    failed: list[object] = []
    try:
        end = time.monotonic() + 3
        while time.monotonic() < end or len(scrapes) < 10:
            for _ in range(200):
                producer.produce(
                    "load", b"x" * 500, on_delivery=lambda error, _: failed.append(error) if error else None
                )
            producer.flush(30)
    finally:
        stop.set()
        scraper.join()
    assert failed == []
    started = [one["kafka_controller_kafkacontroller_eventqueueoperationsstartedcount"] for one in scrapes]
    assert started == sorted(started)
    assert all(one[ACTIVE] == 1 for one in scrapes)


def test_an_address_that_is_taken_or_wrong_stops_the_start() -> None:
    """B75: the setting is checked before anything is made; a port that somebody has is refused by its name."""
    with pytest.raises(OperatorError, match=r"headrace\.metrics\.listener"):
        Node(properties={"headrace.metrics.listener": "nonsense"}, in_process=True).start()
    [port] = free_ports(1)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(
            OperatorError,
            match=f"cannot listen on 127.0.0.1:{port}: .*: stop what listens there, or give it another port",
        ),
    ):
        Node(properties={"headrace.metrics.listener": f"127.0.0.1:{port}"}, in_process=True).start()


def test_without_the_setting_there_is_no_listener() -> None:
    """B-M09: off by default."""
    with Node(in_process=True) as node, pytest.raises(OSError, match=r"refused|assign"):
        node.metrics()
