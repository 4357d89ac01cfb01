"""Does a broker that stood still serve anything from before, when it goes on?"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.peer import batch, fetch_request, produce_request
from tests.support.raw import RawConnection, request_frame, row_of
from tests.support.roles import create, topics_of, unfenced, until

NOT_LEADER_OR_FOLLOWER = 6
QUICK = {
    "broker.heartbeat.interval.ms": "200",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.timeout.ms": "2000",
}


def leader_of(member: Member, topic: str) -> int:
    """Who leads the topic's only partition, as a broker says; -1 while nobody does."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    answer: Any = ask(member.place.host, member.port, request, 12)
    found: int = answer.topics[0].partitions[0].leader_id if answer.topics[0].partitions else -1
    return found


def create_led_by(leader: Member, other: Member, topic: str) -> int:
    """A partition with two replicas, the first of which leads; the error code."""
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(leader.node_id, other.node_id))
    made = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    request = CreateTopicsRequest(topics=(made,), timeout_ms=30_000)
    answer: Any = ask(other.place.host, other.port, request, 7, timeout_s=35)
    code: int = answer.topics[0].error_code
    return code


def test_a_broker_that_slept_past_its_session_serves_nothing_stale() -> None:
    """S2-29, S0-15, fault:S8: it is fenced and another one leads; what waited in its sockets when it wakes is refused, then it is well again."""
    with Cluster(controllers=1, brokers=2, properties=QUICK) as cluster:
        sleeper, other = cluster.brokers
        everybody = {sleeper.node_id, other.node_id}
        until(lambda: unfenced(other) == everybody)
        assert create_led_by(sleeper, other, "t") == 0
        until(lambda: leader_of(sleeper, "t") == sleeper.node_id)
        with RawConnection(sleeper.port) as writer, RawConnection(sleeper.port) as reader:
            write = produce_request("t", batch(b"late"), acks=1)
            assert writer.ask(write, 9).responses[0].partition_responses[0].error_code == 0
            assert reader.ask(fetch_request("t"), 12).responses[0].partitions[0].error_code == 0
            sleeper.pause()
            until(lambda: unfenced(other) == {other.node_id})
            until(lambda: leader_of(other, "t") == other.node_id)
            writer.send(request_frame(write, 9, 2))
            reader.send(request_frame(fetch_request("t"), 12, 2))
            time.sleep(2.5)  # broker.heartbeat.timeout.ms is over by the sleeper's clock too
            sleeper.resume()
            assert (
                writer.answer(row_of(write), 9, 2).responses[0].partition_responses[0].error_code
                == NOT_LEADER_OR_FOLLOWER
            )
            assert (
                reader.answer(row_of(fetch_request("t")), 12, 2).responses[0].partitions[0].error_code
                == NOT_LEADER_OR_FOLLOWER
            )
        until(lambda: unfenced(other) == everybody)
        until(lambda: leader_of(sleeper, "t") == other.node_id)


BLOCKED_S = 4.0
BLOCKABLE = f"""
import signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: time.sleep({BLOCKED_S}))
from headrace.cli.main import main
sys.exit(main())
"""


class Blockable(Member):
    """A node whose event loop stands still for a while when it is told to, as in a handler that sleeps; its threads go on."""

    def command(self) -> Sequence[str]:
        """As any node's, with a signal that blocks."""
        return [sys.executable, "-c", BLOCKABLE, "start", str(self.config)]

    def block(self) -> None:
        """Now."""
        os.kill(self.pid, signal.SIGUSR1)


class BlockableCluster(Cluster):
    """A cluster of such nodes."""

    def make(self, node_id: int, roles: frozenset[str], directory: Path) -> Member:
        """The node of an id."""
        return Blockable(node_id=node_id, roles=roles, directory=directory)


def test_a_broker_whose_loop_is_blocked_is_fenced_and_recovers_alone() -> None:
    """fault:S14, S2-29: for more than two sessions: another one leads meanwhile; it is the same process and the same epoch afterwards, and is in sync again."""
    with BlockableCluster(controllers=1, brokers=2, properties=QUICK) as cluster:
        blocked, other = cluster.brokers
        everybody = {blocked.node_id, other.node_id}
        until(lambda: unfenced(other) == everybody)
        assert create_led_by(blocked, other, "t") == 0
        until(lambda: leader_of(blocked, "t") == blocked.node_id)
        pid = blocked.pid
        assert isinstance(blocked, Blockable)
        blocked.block()
        until(lambda: leader_of(other, "t") == other.node_id)
        assert unfenced(other) == {other.node_id}
        assert error_of_produce(other, "t") == 0
        until(lambda: unfenced(other) == everybody)
        until(lambda: leader_of(blocked, "t") == other.node_id)
        assert error_of_produce(blocked, "t") == NOT_LEADER_OR_FOLLOWER
        assert (blocked.is_running, blocked.pid) == (True, pid)
        until(lambda: in_sync(other, "t") == everybody)


def in_sync(member: Member, topic: str) -> set[int]:
    """The in-sync replicas of the topic's only partition."""
    request = MetadataRequest(topics=(MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False)
    return set(ask(member.place.host, member.port, request, 12).topics[0].partitions[0].isr_nodes)


def error_of_produce(member: Member, topic: str) -> int | None:
    """The error of a produce on a new connection; None: the broker closed it."""
    try:
        answer: Any = ask(member.place.host, member.port, produce_request(topic, batch(b"x"), acks=1), 9)
    except ConnectionError:
        return None
    found: int = answer.responses[0].partition_responses[0].error_code
    return found


@pytest.mark.parametrize("mode", ["isolated", "always"])
def test_a_quorum_that_is_down_stops_only_who_wants_that(mode: str) -> None:
    """S0-15, S0-16, S0-17: past the timeout `always` closes clients' connections; by default the only in-sync replica goes on, as in Kafka."""
    with Cluster(controllers=1, brokers=1, properties={**QUICK, "headrace.self.fencing": mode}) as cluster:
        [controller], [broker] = cluster.controllers, cluster.brokers
        assert create(broker, "t") == [0]
        until(lambda: error_of_produce(broker, "t") == 0)
        controller.kill()
        if mode == "always":
            until(lambda: error_of_produce(broker, "t") is None)
        else:
            time.sleep(3)  # broker.heartbeat.timeout.ms is over
            assert error_of_produce(broker, "t") == 0
        cluster.start(controller.node_id)
        until(lambda: error_of_produce(broker, "t") == 0)
        assert topics_of(broker) == {"t"}
