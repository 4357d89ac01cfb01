"""Do the metrics of a node follow what happens to it?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.controller.events import RequestArrived, RequestCause
from headrace.core.errors import StorageFault
from headrace.core.listener import QuorumVoter
from headrace.core.peers import SendFailure
from headrace.raft.events import FlushLog
from headrace.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from headrace.server.metrics.quorum import state_name
from headrace.server.metrics.service import MetricsService
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.broker_bench import Client
from tests.support.memory_node import CONFIG, DATA, MemoryNode
from tests.support.metrics import families, shown, watched
from tests.support.peer import fetch_request

EVENTS = "kafka_controller_controllereventmanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
REPLICAS = "kafka_server_replicamanager_"


def create_request(name: str) -> CreateTopicsRequest:
    topics = (CreatableTopic(name=name, num_partitions=2, replication_factor=1),)
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000)


def started(**changes: Any) -> tuple[MemoryNode, MetricsService]:
    node = MemoryNode(**changes)
    service = watched(node)
    node.start()
    return node, service


def test_overload_shows() -> None:
    """S2-33, S2-30: of a hundred requests that came at once and take 5 ms each, those in the queue show in its size, their waits in the times, and those past their deadline are counted."""
    node, service = started()
    before = shown(service)
    came_ms = node.clock.now
    for number in range(100):
        node.machine.step(
            RequestArrived(
                token=10_000 + number,
                request=create_request(f"t{number}"),
                cause=RequestCause(api_version=7),
                now_ms=node.clock.now,
                deadline_ms=came_ms + 300,
                received_ms=came_ms,
            )
        )
        node.clock.now += 5
    after = shown(service)
    assert (before[f"{EVENTS}eventqueuesize"], after[f"{EVENTS}eventqueuesize"]) == (0, 60)
    assert before[f"{CONTROLLER}eventqueueoperationstimedoutcount"] == 0
    assert after[f"{CONTROLLER}eventqueueoperationstimedoutcount"] == 40
    assert (
        after[f"{CONTROLLER}eventqueueoperationsstartedcount"]
        >= before[f"{CONTROLLER}eventqueueoperationsstartedcount"] + 100
    )
    assert (
        before[f'{EVENTS}eventqueuetimems{{quantile="0.99"}}']
        < 50
        < after[f'{EVENTS}eventqueuetimems{{quantile="0.99"}}']
    )
    assert after[f"{EVENTS}eventqueuetimems_sum"] - before[f"{EVENTS}eventqueuetimems_sum"] == sum(range(0, 500, 5))
    node.settle()
    done = shown(service)
    assert done[f"{EVENTS}eventqueuesize"] == 0
    latency = "kafka_controller_controllerrequestlatency"
    assert done[f'{latency}_count{{name="createTopics"}}'] == 60
    assert done[f'{latency}{{name="createTopics",quantile="0.50"}}'] > 200


def test_what_is_not_committed_is_not_shown() -> None:
    """inv:C3: a topic that is decided and not on the disk yet is in no count."""
    node, service = started()
    node.forward(create_request("t"), 7)
    assert any(isinstance(effect, FlushLog) for effect in node.effects)
    found = shown(service)
    assert (found[f"{CONTROLLER}globaltopiccount"], found[f"{REPLICAS}leadercount"]) == (0, 0)
    node.settle()
    found = shown(service)
    assert (found[f"{CONTROLLER}globaltopiccount"], found[f"{REPLICAS}leadercount"]) == (1, 2)


def test_requests_that_wait_show_by_what_they_are_of() -> None:
    """S3-19: Kafka's names and label; a dashboard tells writes that wait for replicas from consumers that wait for records."""
    node, service = started()
    node.forward(create_request("t"), 7)
    node.settle()
    Client(node).send(fetch_request("t", max_wait_ms=60_000), 11)
    found = shown(service)
    for name in ("numdelayedoperations", "purgatorysize"):
        sizes = {
            of: found[f'kafka_server_delayedoperationpurgatory_{name}{{delayedOperation="{of}"}}']
            for of in ("Produce", "Fetch", "DeleteRecords", "Other")
        }
        assert sizes == {"Produce": 0, "Fetch": 1, "DeleteRecords": 0, "Other": 0}


def test_a_node_that_starts_again_counts_what_it_finds() -> None:
    """B-M02, B-M06: from the log of before."""
    node, _ = started()
    node.forward(create_request("t"), 7)
    node.settle()
    node.stop()
    again, service = started(after=node)
    found = shown(service)
    assert (found[f"{CONTROLLER}globalpartitioncount"], found[f"{REPLICAS}partitioncount"]) == (2, 2)
    assert found[f"{CONTROLLER}newactivecontrollerscount"] == 1
    again.stop()


def test_a_failed_directory_shows() -> None:
    """B-M06, B-K08: OfflineReplicaCount is of the replicas in it."""
    node, service = started()
    node.forward(create_request("t"), 7)
    node.settle()
    assert shown(service)[f"{REPLICAS}offlinereplicacount"] == 0
    node.machine._storage_fault(StorageFault("it is gone", directory=DATA))
    assert shown(service)[f"{REPLICAS}offlinereplicacount"] == 2


def test_a_broker_without_a_controller_shows_no_controller() -> None:
    """B-M02: none of the controller's metrics on a broker; every node has a raft log (B-M01)."""
    broker = MemoryNode(
        config=CONFIG,
        node_id=2,
        process_roles=("broker",),
        listeners=CONFIG.listeners[:1],
        controller_quorum_voters=(QuorumVoter(1, "127.0.0.1", 9093),),
    )
    service = watched(broker)
    broker.start()
    names = set(families(service))
    assert not {name for name in names if name.startswith("kafka_controller_")}
    assert "kafka_server_raft_metrics_current_state" in names
    assert shown(service)['kafka_server_raft_metrics_current_state_info{state="unattached"}'] == 1


def test_a_controller_without_a_broker_shows_no_broker() -> None:
    """B-M04, B-M06: a node that is a controller only hosts nothing."""
    controller = MemoryNode(config=CONFIG, process_roles=("controller",), listeners=CONFIG.listeners[1:])
    service = watched(controller)
    controller.start()
    names = set(families(service))
    assert f"{CONTROLLER}activecontrollercount" in names
    assert not {name for name in names if name.startswith(("kafka_server_replica", "kafka_server_broker"))}
    assert shown(service)[f"{CONTROLLER}activecontrollercount"] == 1


def test_no_metric_holds_a_secret_or_a_name(tmp_path: Path) -> None:
    """inv:A7, inv:M5, input:B79: no topic's name, no path, no setting is in the text, whatever they are; but that of each log directory, as Kafka's LogDirectoryOffline and LogDirectoryCordoned have it."""
    node, service = started()
    node.forward(create_request("secret-topic"), 7)
    node.settle()
    of_directories = ("kafka_log_logmanager_logdirectoryoffline", "kafka_log_logmanager_logdirectorycordoned")
    text = repr([each for each in service.families() if each.name not in of_directories])
    for word in ("secret-topic", DATA, "127.0.0.1", str(tmp_path)):
        assert word not in text


def test_controllers_whose_address_leads_nowhere_are_counted() -> None:
    """S4-24: names that nobody knows; a host that refuses or is silent has an address, and an answer ends it."""
    voters = tuple(QuorumVoter(number, f"host{number}", 9093) for number in (1, 2, 3, 4))
    node = MemoryNode(config=CONFIG, controller_quorum_voters=voters)
    service = watched(node)
    node.start()
    failures = {"host2": SendFailure.DISCONNECTED, "host3": SendFailure.REFUSED, "host4": SendFailure.TIMED_OUT}
    asked = {question.to.host: question for question in node.asked}
    assert set(asked) == set(failures)
    for host, question in asked.items():
        node.machine.failed(question.correlation, failures[host])
    assert shown(service)["kafka_server_raft_metrics_number_unknown_voter_connections"] == 1


@pytest.mark.parametrize(
    ("role", "is_voter", "name"),
    [
        (Leader(epoch=1, epoch_start_offset=0, granting_voters=()), True, "leader"),
        (Candidate(epoch=1, election_deadline_ms=0), True, "candidate"),
        (Prospective(epoch=1, election_deadline_ms=0), True, "prospective"),
        (Prospective(epoch=1, election_deadline_ms=0, voted_id=2), True, "prospective-voted"),
        (Follower(epoch=1, leader_id=2), True, "follower"),
        (Follower(epoch=1, leader_id=2), False, "observer"),
        (Unattached(epoch=1), True, "unattached"),
        (Unattached(epoch=1, voted_id=3), True, "unattached-voted"),
        (Resigned(epoch=1), True, "unattached"),
    ],
)
def test_states_have_kafkas_names(role: Role, is_voter: bool, name: str) -> None:
    """B-M01: current-state in the words of Kafka 4.3.1."""
    assert state_name(role, is_voter=is_voter) == name
