"""Do the quorum's settings of a server.properties reach the quorum node, and does that ask in the node's own name?"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headrace.config.node_config import NodeConfig
from headrace.config.node_rules import QUORUM_FETCH_MAX_WAIT_MS
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.core.ids import Uuid
from headrace.core.listener import QuorumVoter
from headrace.node.outbound import SendRequest
from headrace.node.witness import asker_of
from headrace.raft.config import RaftConfig
from headrace.raft.events import NodeStarted, QuorumState, SendRaftRequest
from headrace.raft.machine import RaftNode
from headrace.raft.voters import Voter, VoterEndPoint, VoterSet
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.vote import VoteRequest
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.memory_node import CONFIG, DATA, MemoryNode

TIMES = (
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.election.timeout.ms",
    "controller.quorum.election.backoff.max.ms",
    "controller.quorum.request.timeout.ms",
    "controller.quorum.retry.backoff.ms",
    "controller.quorum.retry.backoff.max.ms",
)
PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": DATA,
}
THREE = tuple(QuorumVoter(node_id, "127.0.0.1", 9_090 + node_id) for node_id in (7, 8, 9))


def parsed(**changes: str) -> NodeConfig:
    """A configuration of one node; `__` stands for a dot."""
    return parse_node_config({**PROPERTIES, **{name.replace("__", "."): text for name, text in changes.items()}})


def raft_config(config: NodeConfig) -> RaftConfig:
    """What the quorum node of such a node works with."""
    return MemoryNode(config=config).plane.raft.config


def asked(config: NodeConfig) -> list[SendRequest]:
    """What a node asks its peers, which never answer, in its first seconds."""
    node = MemoryNode(config=config)
    node.start()
    for _ in range(4):
        node.settle()
    return [each for each in node.asked if isinstance(each.request, VoteRequest | FetchRequest)]


@pytest.mark.parametrize("name", TIMES)
def test_each_setting_reaches_the_quorum_node(name: str) -> None:
    """S4-03, S4-04, S4-05, S4-06, S4-07, S4-08, S1-17..S1-22: it is one field of the quorum node's, and no other one changes with it."""
    field = name.removeprefix("controller.quorum.").replace(".", "_")
    plain = raft_config(parsed())
    changed = raft_config(parsed(**{name.replace(".", "__"): "777"}))
    assert getattr(changed, field) == 777
    assert replace(changed, **{field: getattr(plain, field)}) == plain


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("text", ["0", "-1", "2147483648", "1.5", "soon", ""])
def test_a_time_of_the_quorum_is_a_positive_number(name: str, text: str) -> None:
    """S4-10: whoever is refused reads which key has which value, and the range that is allowed; 0 too, which Kafka takes."""
    with pytest.raises(
        OperatorError, match=rf"Invalid value {text} for configuration {name}: .*\[[01],\.\.\."
    ) as refusal:
        parsed(**{name.replace(".", "__"): text})
    if text in ("0", "-1"):
        assert "at least" in str(refusal.value)


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("value", [1, 2**31 - 1])
def test_the_bounds_of_a_time_of_the_quorum_are_taken(name: str, value: int) -> None:
    """S4-10."""
    assert parsed(**{name.replace(".", "__"): str(value)}).values[name] == value


@pytest.mark.parametrize(("timeout_ms", "is_remarked"), [(1, True), (500, True), (501, False), (2_000, False)])
def test_a_fetch_timeout_within_an_idle_fetch_is_remarked(timeout_ms: int, *, is_remarked: bool) -> None:
    """S4-03, S4-10: allowed, but an idle leader answers only after that time."""
    found = parsed(controller__quorum__fetch__timeout__ms=str(timeout_ms)).warnings
    assert len(found) == is_remarked
    assert all(f"controller.quorum.fetch.timeout.ms ({timeout_ms} ms) should be longer" in each for each in found)


def test_the_remark_is_about_the_wait_that_the_quorum_node_asks_for() -> None:
    """S4-10."""
    assert raft_config(parsed()).fetch_max_wait_ms == QUORUM_FETCH_MAX_WAIT_MS


def test_a_voter_asks_for_votes_in_the_name_of_its_node_id() -> None:
    """S4-06, S4-09: node.id is the replica id; every request has the request timeout that is set."""
    config = replace(
        CONFIG, node_id=7, process_roles=("controller",), listeners=CONFIG.listeners[1:], controller_quorum_voters=THREE
    )
    sent = asked(replace(config, controller_quorum_request_timeout_ms=321))
    assert VoteRequest in {type(each.request) for each in sent}
    assert {asker_of(each.request) for each in sent} == {7}
    assert {each.timeout_ms for each in sent} == {321}


def test_a_broker_fetches_in_the_name_of_its_node_id() -> None:
    """S4-09: an observer's replica id is its node.id too."""
    config = replace(
        CONFIG, node_id=12, process_roles=("broker",), listeners=CONFIG.listeners[:1], controller_quorum_voters=THREE
    )
    sent = asked(config)
    assert {type(each.request) for each in sent} == {FetchRequest}
    assert {asker_of(each.request) for each in sent} == {12}


TWO_NAMES = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,CTRL1://127.0.0.1:9093,CTRL2://127.0.0.1:9094",
    "controller.listener.names": "CTRL2,CTRL1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CTRL1:PLAINTEXT,CTRL2:PLAINTEXT",
}


def test_the_first_controller_listener_is_the_one_that_peers_are_dialled_on() -> None:
    """S1-06: of all that a voter listens on; voters of controller.quorum.voters are taken to listen there."""
    found = raft_config(parse_node_config({**PROPERTIES, **TWO_NAMES}))
    assert found.listener == "CTRL2"
    assert [voter.end_points for voter in found.voters.voters] == [(VoterEndPoint("CTRL2", "127.0.0.1", 9093),)]
    assert [(each.name, each.port) for each in found.end_points] == [("CTRL2", 9094), ("CTRL1", 9093)]
    leader = Voter(
        voter_id=2,
        directory_id=Uuid(b"d" * 16),
        end_points=(VoterEndPoint("CTRL1", "peer", 1), VoterEndPoint("CTRL2", "peer", 2)),
    )
    for listener, port in (("CTRL1", 1), ("CTRL2", 2)):
        node = RaftNode(
            config=replace(found, voters=VoterSet(voters=(leader,), kraft_version=1), listener=listener),
            log=MemoryLog().as_port(),
            snapshots=MemorySnapshots().as_port(),
            state=QuorumState(leader_epoch=5, leader_id=2),
            rng=random.Random(1),
        )
        [sent] = [each for each in node.step(NodeStarted(now_ms=1_000)) if isinstance(each, SendRaftRequest)]
        assert sent.to == (2, "peer", port)
