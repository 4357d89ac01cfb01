"""Who moved the leader of X? Changes that are staged from outside, on real processes, and the answers, written down before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.wire.messages import alter_partition_reassignments as moving
from tests.support.commands import Done, headrace, refusal
from tests.support.copies import create, in_sync, leader, partitions
from tests.support.roles import until

A, B, C = 101, 102, 103
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "300",
    "leader.imbalance.check.interval.seconds": "1",
    "offsets.topic.replication.factor": "1",
}


class Answer(NamedTuple):
    """One line of the history of a partition: leader before and after, and why."""

    before: int
    after: int
    kind: str
    about: Any
    says: str


ANSWERS: Final[dict[str, list[Answer]]] = {
    "killed": [
        Answer(A, B, "CONNECTION_REFUSED", A, "because broker 101 was fenced: its connections were refused"),
        Answer(B, A, "REQUEST", "ElectLeaders", "asked for a preferred election"),
    ],
    "stopped": [
        Answer(B, A, "CONTROLLED_SHUTDOWN", B, "because broker 102 is shutting down"),
        Answer(A, B, "BALANCING", None, "because it was time to bring leaders back"),
    ],
    "paused": [Answer(C, A, "SESSION_EXPIRED", C, "because broker 103 was fenced: it sent no heartbeat")],
    "moved": [Answer(A, B, "ISR_CHANGE", A, "reassignment of moved-0 is complete: replicas 102,101 -> 102")],
    "cancelled": [],
    "unclean": [
        Answer(A, -1, "CONNECTION_REFUSED", A, "leader of unclean-0: 101 -> none"),
        Answer(-1, B, "REQUEST", "ElectLeaders", "unclean: records may be lost"),
    ],
    "alone": [
        Answer(C, -1, "CONNECTION_REFUSED", C, "because broker 103 was fenced"),
        Answer(-1, C, "UNFENCED", C, "because broker 103 was unfenced: it has caught up"),
    ],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A controller and three brokers, on which everything of this file was staged."""
    with Cluster(controllers=1, brokers=3, properties=SETTINGS) as running:
        _stage(running)
        yield running


def history(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """The events, as a program reads them through a broker."""
    done = headrace("history", "--bootstrap-server", cluster.bootstrap_servers, "--json", *arguments)
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines()]


def reassign(cluster: Cluster, topic: str, replicas: tuple[int, ...] | None) -> None:
    part = moving.ReassignablePartition(partition_index=0, replicas=replicas)
    request = moving.AlterPartitionReassignmentsRequest(
        topics=(moving.ReassignableTopic(name=topic, partitions=(part,)),)
    )
    broker = cluster[A]
    answer = ask(broker.place.host, broker.port, request, 0)
    assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, 0)


def led_by(cluster: Cluster, topic: str, broker_id: int) -> None:
    """Wait until a broker that runs says so."""
    asked = next(each for each in cluster.brokers if each.is_running and not each.is_paused)
    until(lambda: partitions(asked, topic)[0].leader_id == broker_id or None)


def elect(cluster: Cluster, kind: str, topic: str) -> None:
    done = headrace(
        *("leader-election", "--bootstrap-server", cluster.bootstrap_servers),
        *("--election-type", kind, "--topic", topic, "--partition", "0"),
    )
    assert done.code == 0, done


def _stage(cluster: Cluster) -> None:
    """Each case has a topic of its own, which is gone before the next one breaks something."""
    for step in (_kill, _pause, _move, _lose_both, _come_back, _make_and_delete, _stop, _balance):
        step(cluster)


def delete(cluster: Cluster, *topics: str) -> None:
    """By librdkafka, with a name of its own."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster[B].port}", "client.id": "the-owner"})
    for future in admin.delete_topics(list(topics)).values():
        future.result(30)


def _kill(cluster: Cluster) -> None:
    create(cluster, "killed", [(A, B, C)])
    cluster[A].kill()
    led_by(cluster, "killed", B)
    cluster.start(A)
    in_sync(cluster, "killed")
    elect(cluster, "preferred", "killed")
    led_by(cluster, "killed", A)
    setting = ("--entity-type", "topics", "--entity-name", "killed", "--add-config", "retention.ms=4711")
    assert headrace("configs", "--bootstrap-server", cluster.bootstrap_servers, "--alter", *setting).code == 0
    delete(cluster, "killed")


def _stop(cluster: Cluster) -> None:
    create(cluster, "stopped", [(B, A)])
    cluster[B].stop()  # one signal: a second one would end it at once
    led_by(cluster, "stopped", A)
    cluster.start(B)
    in_sync(cluster, "stopped")


def _pause(cluster: Cluster) -> None:
    """While broker 103 stands still, a reassignment to it cannot end: it is cancelled."""
    create(cluster, "paused", [(C, A)])
    create(cluster, "cancelled", [(A,)])
    cluster.pause(C)
    led_by(cluster, "paused", A)
    reassign(cluster, "cancelled", (C,))
    reassign(cluster, "cancelled", None)
    cluster.resume(C)
    in_sync(cluster, "paused")
    delete(cluster, "paused", "cancelled")


def _move(cluster: Cluster) -> None:
    create(cluster, "moved", [(A,)])
    reassign(cluster, "moved", (B,))
    led_by(cluster, "moved", B)
    delete(cluster, "moved")


def _lose_both(cluster: Cluster) -> None:
    """The last in-sync replica goes; the other one comes back and is made leader by hand."""
    create(cluster, "unclean", [(A, B)])
    cluster[B].kill()
    until(lambda: list(partitions(cluster[A], "unclean")[0].isr_nodes) == [A] or None)
    cluster[A].kill()
    led_by(cluster, "unclean", -1)
    cluster.start(B)
    led_by(cluster, "unclean", -1)
    elect(cluster, "unclean", "unclean")
    led_by(cluster, "unclean", B)
    delete(cluster, "unclean")
    cluster.start(A)


def _come_back(cluster: Cluster) -> None:
    create(cluster, "alone", [(C,)])
    cluster[C].kill()
    led_by(cluster, "alone", -1)
    cluster.start(C)
    assert leader(cluster, "alone").node_id == C
    delete(cluster, "alone")


def _make_and_delete(cluster: Cluster) -> None:
    """By librdkafka, with a name of its own."""
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{cluster[B].port}", "client.id": "the-owner"})
    admin.create_topics([NewTopic("short", num_partitions=2, replication_factor=1)])["short"].result(30)
    delete(cluster, "short")


def _balance(cluster: Cluster) -> None:
    """The controller is started anew, and brings leaders back from now on."""
    in_sync(cluster, "stopped")
    assert leader(cluster, "stopped").node_id == A
    controller = cluster.controllers[0]
    cluster.stop(controller.node_id)
    controller.properties["auto.leader.rebalance.enable"] = "true"
    cluster.start(controller.node_id)
    led_by(cluster, "stopped", B)


@pytest.mark.parametrize("topic", sorted(ANSWERS))
def test_history_knows_who_moved_the_leader(cluster: Cluster, topic: str) -> None:
    """S3-01, S3-02, S3-08: kill, stop, pause, move, unclean and preferred election, balancing, return: the answers are those of ANSWERS."""
    events = history(cluster, "--topic", topic, "--partition", "0", "--leaders")
    assert events[0]["event"] == "partition-created"
    told = events[1:]
    assert len(told) == len(ANSWERS[topic]), told
    for event, answer in zip(told, ANSWERS[topic], strict=True):
        assert (event["before"]["leader"], event["after"]["leader"]) == (answer.before, answer.after)
        assert event["after"]["leader_epoch"] == event["before"]["leader_epoch"] + 1
        assert event["cause"]["kind"] == answer.kind
        about = event["cause"].get("api", event["cause"].get("broker"))
        assert about == answer.about
        assert answer.says in event["text"], event["text"]


def test_requests_are_told_with_client_and_broker(cluster: Cluster) -> None:
    """S3-08: a reassignment that was cancelled, a topic that was made and deleted, a setting, an election: who asked, through whom."""
    cancelled = [each["text"] for each in history(cluster, "--topic", "cancelled")]
    assert any("reassignment of cancelled-0 begins: adding 103, removing 101" in each for each in cancelled)
    assert any("reassignment of cancelled-0 is cancelled" in each for each in cancelled)
    assert sum("asked for AlterPartitionReassignments" in each for each in cancelled) == 2

    short = history(cluster, "--topic", "short")
    assert [each["event"] for each in short] == [
        "topic-created", "partition-created", "partition-created", "topic-deleted",
    ]  # fmt: skip
    asked = [(each["cause"]["api"], each["cause"]["client_id"], each["cause"]["through"]) for each in short]
    assert [each[0] for each in asked] == ["CreateTopics"] * 3 + ["DeleteTopics"]
    assert {each[1:] for each in asked} <= {("the-owner", broker) for broker in (A, B, C)}
    assert {each["cause"]["client_host"] for each in short} == {"127.0.0.1"}

    settings = [each for each in history(cluster, "--topic", "killed") if each["event"] == "config"]
    assert [each["text"].partition(" because")[0] for each in settings] == [
        "setting retention.ms of topic killed: not set -> 4711"
    ]
    assert settings[0]["cause"]["api"] == "IncrementalAlterConfigs"
    [election] = [each for each in history(cluster, "--topic", "killed") if each["cause"].get("election") == 0]
    assert election["cause"]["principal"] == "User:ANONYMOUS"


def test_the_life_of_a_broker_is_told(cluster: Cluster) -> None:
    """S1-57, S1-42: registered, unfenced, about to stop, fenced: each with its own cause."""
    events = [
        (each["event"], each["cause"]["kind"])
        for each in history(cluster, "--broker", str(B))
        if each["event"].startswith("broker-") and each["event"] != "broker-directories"
    ]
    stop = events.index(("broker-stopping", "CONTROLLED_SHUTDOWN"))
    assert events[:2] == [("broker-registered", "REGISTERED"), ("broker-unfenced", "UNFENCED")]
    assert events[stop + 1 : stop + 4] == [
        ("broker-fenced", "SHUT_DOWN"), ("broker-registered", "REGISTERED"), ("broker-unfenced", "UNFENCED"),
    ]  # fmt: skip


def test_the_order_is_that_of_the_log_and_every_change_has_a_cause(cluster: Cluster) -> None:
    """S3-38: offsets ascend, also across leaders of the quorum, and nothing but the quorum's own is without a cause."""
    events = history(cluster)
    offsets = [each["offset"] for each in events]
    assert offsets == sorted(offsets)
    assert [each["event"] for each in events if each["cause"] is None] == ["quorum-leader"] * 2
    assert len({each["epoch"] for each in events if each["event"] == "quorum-leader"}) == 2


def test_the_files_of_a_node_tell_the_same_and_an_object_is_shown_as_it_was(cluster: Cluster) -> None:
    """S3-08: `--directory` needs no running node; `--at` is the state behind an offset; what is later does not count."""
    wire = history(cluster, "--topic", "stopped")
    done = headrace("history", "--directory", str(cluster.controllers[0].data), "--topic", "stopped", "--json")
    assert [json.loads(line) for line in done.out.splitlines()] == wire
    moved = [each for each in wire if each["event"] == "leader"]
    for event, leader_id in ((moved[0]["before"], B), (moved[0]["after"], A)):
        assert event["leader"] == leader_id
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    for offset, leader_id in ((moved[0]["offset"] - 1, B), (moved[0]["offset"], A)):
        shown = _at(servers, offset, "--topic", "stopped", "--partition", "0")
        assert shown["partitions"][0]["leader"] == leader_id
    assert _at(servers, moved[0]["offset"], "--broker", str(B))["state"] == "unfenced"
    created = history(cluster, "--topic", "short")[0]["offset"]
    assert _at(servers, created + 2, "--topic", "short")["last_change"]["event"] == "partition-created"
    gone = refusal("history", *servers, "--at", "0s", "--topic", "short")
    assert gone.startswith("there was no topic short: ")
    assert "topic short deleted because a client asked for DeleteTopics" in gone
    for option in ("--at", "--since"):
        assert "is not there yet: the log ends at offset" in refusal(
            "history", *servers, option, str(created + 10_000_000)
        )
    told = headrace("history", *servers, "--topic", "stopped", "--since", str(moved[0]["offset"])).out.splitlines()
    assert told[0].split(" ", 2)[2].startswith(f"offset {moved[0]['offset']}: leader of stopped-0: 102 -> 101")


def _at(servers: tuple[str, ...], offset: int, *arguments: str) -> Any:
    done: Done = headrace("history", *servers, "--at", str(offset), "--json", *arguments)
    assert done.code == 0, done
    return json.loads(done.out)
