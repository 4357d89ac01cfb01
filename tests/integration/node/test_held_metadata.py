"""What does a broker do whose heartbeats pass while the metadata log does not reach it, and what do the others wait for?"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.gate import Gate, fetches_of
from tests.support.peer import batch, produce_request
from tests.support.roles import topics_of, unfenced, until

QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.timeout.ms": "3000",
    "headrace.self.fencing": "always",
}


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Stands before the controller."""
    with Gate() as made:
        yield made


def behind(gate: Gate, *, brokers: int, properties: dict[str, str]) -> Cluster:
    """A controller that tells everybody to come through the gate, and brokers; not started."""
    cluster = Cluster(controllers=1, brokers=brokers, properties=properties)
    [controller] = cluster.controllers
    gate.to(controller.place.host, controller.controller_port)
    controller.properties["advertised.listeners"] = f"CONTROLLER://127.0.0.1:{gate.port}"
    for broker in cluster.brokers:
        broker.properties["controller.quorum.voters"] = f"1@127.0.0.1:{gate.port}"
    return cluster


def create(through: Member, topic: str, *replicas: int) -> None:
    """A partition that the first of the replicas leads."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)
    made = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    request = CreateTopicsRequest(topics=(made,), timeout_ms=30_000)
    answer: Any = ask(through.place.host, through.port, request, 7, timeout_s=35)
    assert answer.topics[0].error_code == 0


def leader_of(member: Member, topic: str) -> int:
    """Who leads the topic's only partition, as a broker says."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    answer: Any = ask(member.place.host, member.port, request, 12)
    found: int = answer.topics[0].partitions[0].leader_id if answer.topics[0].partitions else -1
    return found


def error_of_produce(member: Member, topic: str) -> int | None:
    """The error of a produce on a new connection; None: the broker closed it."""
    try:
        answer: Any = ask(member.place.host, member.port, produce_request(topic, batch(b"x"), acks=1), 9)
    except ConnectionError:
        return None
    found: int = answer.responses[0].partition_responses[0].error_code
    return found


def test_heartbeats_alone_do_not_keep_a_broker_serving(gate: Gate) -> None:
    """S4-57, S0-15, S0-16: its heartbeats pass, so nobody fences it; its metadata fetches do not, so it stops by itself, until they do."""
    with behind(gate, brokers=2, properties=QUICK) as cluster:
        cut, other = cluster.brokers
        everybody = {cut.node_id, other.node_id}
        until(lambda: unfenced(other) == everybody)
        create(other, "t", cut.node_id)
        until(lambda: error_of_produce(cut, "t") == 0)
        gate.shut(fetches_of(cut.node_id))
        until(lambda: error_of_produce(cut, "t") is None)
        assert gate.held > 0
        assert unfenced(other) == everybody
        assert "t" in topics_of(other)
        gate.open()
        until(lambda: error_of_produce(cut, "t") == 0)
        assert unfenced(other) == everybody


def test_a_broker_may_stop_when_the_others_know_who_leads_now(gate: Gate) -> None:
    """S2-20, S2-19, inv:C15: while one active broker's metadata are held back there is no grant, though it heartbeats; with them there is."""
    with behind(gate, brokers=3, properties={"broker.heartbeat.interval.ms": "200"}) as cluster:
        stopping, behind_it, looker = cluster.brokers
        until(lambda: len(unfenced(looker)) == 3)
        create(looker, "t", stopping.node_id, behind_it.node_id)
        until(lambda: leader_of(behind_it, "t") == stopping.node_id)
        gate.shut(fetches_of(behind_it.node_id))
        until(lambda: gate.held > 0)
        stopping.terminate()
        until(lambda: leader_of(looker, "t") == behind_it.node_id)
        time.sleep(2)  # ten heartbeats of each
        assert stopping.is_running
        assert unfenced(looker) == {stopping.node_id, behind_it.node_id, looker.node_id}
        gate.open()
        assert stopping.wait_until_ended() == 0
