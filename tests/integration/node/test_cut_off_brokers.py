"""What do brokers do, and what do clients see of them, while they hear neither controllers nor one another, though every client reaches them?"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.metadata import MetadataRequest
from tests.support.copies import create, in_sync, log_bytes, partitions, same_bytes
from tests.support.peer import batch, fetch_request, produce_request
from tests.support.raw import RawConnection, request_frame, row_of
from tests.support.roles import unfenced, until

WITNESS, ALWAYS, ISOLATED, OFF = 101, 102, 103, 104
"""One broker that is never cut off, and three, one for each mode of `headrace.self.fencing`."""
MODES = {ALWAYS: "always", ISOLATED: "isolated", OFF: "off"}
NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT = 6, 7
SELF_FENCED = "kafka_server_kafkaserver_selffenced"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.timeout.ms": "3000",
    "replica.lag.time.max.ms": "3000",
}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """One controller, four brokers; each of three leads a topic of its own that 101 has a copy of, and one that nobody else has."""
    made = Cluster(controllers=1, brokers=4, properties=QUICK).with_cuts().with_metrics()
    for broker_id, mode in MODES.items():
        made[broker_id].properties["headrace.self.fencing"] = mode
    with made as running:
        for broker_id in MODES:
            create(running, shared(broker_id), [(broker_id, WITNESS)])
            create(running, sole(broker_id), [(broker_id,)])
            in_sync(running, shared(broker_id))
        yield running


def shared(broker_id: int) -> str:
    """The topic that the broker leads and 101 follows."""
    return f"shared-{broker_id}"


def sole(broker_id: int) -> str:
    """The topic that only the broker has."""
    return f"sole-{broker_id}"


def produce(member: Member, topic: str, *, acks: int = 1, value: bytes = b"x") -> int | None:
    """The error of a produce on a new connection; None: it was closed."""
    request = replace(produce_request(topic, batch(value), acks=acks), timeout_ms=1_000)
    try:
        answer = ask(member.place.host, member.port, request, 9)
    except ConnectionError:
        return None
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def fetch(member: Member, topic: str) -> int | None:
    """The error of a fetch on a new connection; None: it was closed."""
    try:
        answer = ask(member.place.host, member.port, fetch_request(topic), 12)
    except ConnectionError:
        return None
    code: int = answer.responses[0].partitions[0].error_code
    return code


def tells_metadata(member: Member) -> bool:
    """It answers a client that asks who there is."""
    try:
        return bool(ask(member.place.host, member.port, MetadataRequest(topics=()), 12).brokers)
    except ConnectionError:
        return False


class Clients(threading.Thread):
    """A real producer that knows all brokers and writes to all shared topics with acks=all."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self.ended = threading.Event()
        self.delivered = dict.fromkeys(map(shared, MODES), 0)
        self.sent = dict(self.delivered)
        self.errors: list[str] = []
        self._servers = cluster.bootstrap_servers

    def run(self) -> None:
        """Write until told to end, then wait for all that is under way."""
        settings = {
            "bootstrap.servers": self._servers, "acks": "all", "enable.idempotence": True, "linger.ms": 5,
            "request.timeout.ms": 2_000, "socket.timeout.ms": 4_000, "message.timeout.ms": 300_000,
            "topic.metadata.refresh.interval.ms": 1_000, "reconnect.backoff.max.ms": 200, "log_level": 0,
        }  # fmt: skip
        producer = Producer(settings)
        while not self.ended.is_set():
            for topic in self.sent:
                number = self.sent[topic]
                producer.produce(topic, b"%d" % number, on_delivery=self._told)
                self.sent[topic] += 1
            producer.poll(0.02)
        self.errors += ["not everything was delivered"] * bool(producer.flush(120))

    def _told(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.delivered[message.topic()] += 1


def await_more(clients: Clients, *broker_ids: int) -> None:
    """The topics that these brokers led take records, whoever leads them now."""
    before = dict(clients.delivered)

    def stuck() -> list[str]:
        return [topic for topic in map(shared, broker_ids) if clients.delivered[topic] <= before[topic] + 20]

    try:
        until(lambda: not stuck(), timeout_s=60)
    except AssertionError:
        raise AssertionError(f"nothing is delivered to {stuck()}") from None


def cut_off(cluster: Cluster, broker_id: int) -> None:
    """It hears neither the controller nor another broker. When this returns it is fenced, and knows that it is alone (S0-21)."""
    cluster.partition(broker_id, [each for each in cluster.members if each != broker_id])
    until(lambda: cluster[broker_id].metrics()[SELF_FENCED] == 1)
    assert unfenced(cluster[WITNESS]) == {*MODES, WITNESS} - {broker_id}  # the controller was first
    assert partitions(cluster[WITNESS], shared(broker_id))[0].leader_id == WITNESS


def heal(cluster: Cluster, broker_id: int) -> None:
    """It serves again as the same process, and has a copy of what the others took meanwhile."""
    pid = cluster[broker_id].pid
    cluster.heal()
    in_sync(cluster, shared(broker_id))
    until(lambda: produce(cluster[broker_id], sole(broker_id)) == 0)
    until(lambda: cluster[broker_id].metrics()[SELF_FENCED] == 0)
    assert cluster[broker_id].pid == pid
    until(lambda: sum(each.metrics()[UNDER_REPLICATED] for each in cluster.brokers) == 0)


def who_serves_nobody(cluster: Cluster, clients: Clients) -> None:
    """`always`, twice: what was asked before is answered, what comes later closes the connection; real clients go on with another broker."""
    cut = cluster[ALWAYS]
    for _ in range(2):
        with RawConnection(cut.port) as waiting:
            request = fetch_request(shared(ALWAYS), offset=1 << 40, max_wait_ms=1)
            assert waiting.ask(request, 12).responses[0].partitions[0].error_code != NOT_LEADER_OR_FOLLOWER
            waits = fetch_request(sole(ALWAYS), offset=0, max_wait_ms=30_000, min_bytes=1_000_000)
            waiting.send(request_frame(waits, 12, 2))
            cut_off(cluster, ALWAYS)
            assert waiting.answer(row_of(waits), 12, 2).responses[0].partitions[0].error_code == NOT_LEADER_OR_FOLLOWER
            waiting.send(request_frame(fetch_request(sole(ALWAYS)), 12, 3))
            assert waiting.is_closed_by_node()
        assert not tells_metadata(cut)
        for topic in (shared(ALWAYS), sole(ALWAYS)):
            assert (produce(cut, topic), fetch(cut, topic)) == (None, None)
        await_more(clients, *MODES)  # whichever broker a client knows first
        heal(cluster, ALWAYS)


def who_serves_what_nobody_else_can_lead(cluster: Cluster, clients: Clients) -> None:
    """`isolated`: what another broker could lead is refused, what only this one has goes on."""
    cut = cluster[ISOLATED]
    cut_off(cluster, ISOLATED)
    until(lambda: fetch(cut, shared(ISOLATED)) == NOT_LEADER_OR_FOLLOWER)  # its replica may have been heard last
    assert produce(cut, shared(ISOLATED)) == NOT_LEADER_OR_FOLLOWER
    assert (produce(cut, sole(ISOLATED)), fetch(cut, sole(ISOLATED))) == (0, 0)
    heal(cluster, ISOLATED)
    await_more(clients, *MODES)


def who_serves_as_before(cluster: Cluster, clients: Clients) -> None:
    """`off`: it takes what it cannot keep, acknowledges none of it with acks=all, and cuts it when it is back."""
    cut = cluster[OFF]
    cluster.partition(OFF, [each for each in cluster.members if each != OFF])
    until(lambda: OFF not in unfenced(cluster[WITNESS]))
    assert produce(cut, shared(OFF), value=b"lonely") == 0
    assert produce(cut, shared(OFF), acks=-1) == REQUEST_TIMED_OUT
    assert b"lonely" in log_bytes(cut, shared(OFF), 0)
    heal(cluster, OFF)
    assert not any(b"lonely" in copy for copy in same_bytes(cluster, shared(OFF)))
    await_more(clients, *MODES)


def test_brokers_that_are_cut_off_lose_nothing_and_serve_nothing_old(cluster: Cluster) -> None:
    """S0-01, S0-02, S0-03, S0-04, S0-15, S0-16, S0-17, S0-21, D-05, fault:S24: in each of the three modes, under the load of a real client."""
    clients = Clients(cluster)
    clients.start()
    try:
        await_more(clients, *MODES)
        who_serves_nobody(cluster, clients)
        who_serves_what_nobody_else_can_lead(cluster, clients)
        who_serves_as_before(cluster, clients)
    finally:
        cluster.heal()
        clients.ended.set()
        clients.join()
    assert clients.errors == []
    assert clients.delivered == clients.sent
    for topic in map(shared, MODES):
        same_bytes(cluster, topic)
