"""Do the quorum node, the controller and the broker of one process work together, without sockets, files or a clock?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.listener import QuorumVoter
from headrace.core.peers import SendFailure
from headrace.metadata.image import NO_LEADER
from headrace.node.broker_watch import Probe
from headrace.node.lifecycle import BrokerState
from headrace.node.machine import DirectoryFailed, MetadataFailed
from headrace.rpc.reply import Reply
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.wire.messages.vote import VoteResponse
from tests.support.broker_bench import Client
from tests.support.memory_node import METADATA, MemoryNode
from tests.support.peer import batch, fetch_request, produce_request


def topic_request(name: str) -> CreateTopicsRequest:
    """One topic with three partitions."""
    return CreateTopicsRequest(
        topics=(CreatableTopic(name=name, num_partitions=3, replication_factor=1),), timeout_ms=5_000
    )


def answer(reply: object) -> Any:
    """The response message."""
    assert isinstance(reply, Reply)
    return reply.message


def test_a_node_comes_up_and_goes_down_in_its_order() -> None:
    """B-K01, B-K02, B-K03, B-K12."""
    node = MemoryNode()
    node.start()
    assert node.states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]
    node.machine.begin_shutdown()
    node.settle()
    assert node.states[3:] == [BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN]


def test_a_stopping_broker_serves_what_it_still_leads() -> None:
    """S0-12: between its wish to stop and the controller's word nothing is closed and nothing refused."""
    node = MemoryNode()
    node.start()
    node.forward(topic_request("t"), 7)
    node.settle()
    assert node.machine.lifecycle is not None
    client = Client(node)
    node.machine.begin_shutdown()
    assert node.machine.lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
    written = client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    assert written.responses[0].partition_responses[0].error_code == 0
    assert client.ask(fetch_request("t"), 12).responses[0].partitions[0].error_code == 0
    node.settle()
    assert node.states[-1] is BrokerState.SHUTTING_DOWN


def test_a_broker_tells_which_epoch_it_stopped_in() -> None:
    """B-K04: the epoch of the mark goes with the next registration; without a mark, after a kill, it is -1."""
    first = MemoryNode()
    first.start()
    assert told_epoch(first) == -1
    first.stop()
    second = MemoryNode(after=first)
    second.start()
    assert told_epoch(second) == MemoryNode.STOPPED_IN_EPOCH
    second.disk.unlock()
    assert told_epoch(MemoryNode(after=second)) == -1


def told_epoch(node: MemoryNode) -> int:
    """The PreviousBrokerEpoch of the node's registration."""
    assert node.machine.lifecycle is not None
    return node.machine.lifecycle._identity.previous_broker_epoch


def test_a_topic_is_created_committed_and_hosted() -> None:
    """The way of a decision: answered only when its records are committed, then led here."""
    node = MemoryNode()
    node.start()
    created = node.forward(topic_request("flights"), 7)
    assert not created.is_done
    node.settle()
    assert answer(created.reply).topics[0].error_code == ErrorCode.NONE
    assert sorted(partition.partition for partition in node.broker.partitions) == [0, 1, 2]
    assert node.broker.leader_epoch("flights", 0) == 0
    node.forward(DeleteTopicsRequest(topics=(DeleteTopicState(name="flights"),), timeout_ms=5_000), 6)
    node.settle()
    assert len(node.broker.partitions) == 0
    assert not node.logs.logs()


def test_no_partition_is_touched_before_the_logs_are_loaded() -> None:
    """S1-40: metadata that comes before RECOVERY has ended is applied after it, all at once."""
    before = MemoryNode()
    before.start()
    before.forward(topic_request("early"), 7)
    before.settle()
    before.stop()
    node = MemoryNode(holds_recovery=True, after=before)
    node.start()
    assert "early" in node.broker.image.topics.by_name
    assert len(node.broker.partitions) == 0
    assert not node.logs.logs()
    node.recover()
    node.settle()
    assert len(node.broker.partitions) == 3
    assert node.states[-1] is BrokerState.RUNNING


def test_a_request_before_the_controller_is_active_waits_for_it() -> None:
    """B-K11: the broker need not know when its controller becomes active."""
    node = MemoryNode()
    created = node.forward(topic_request("first"), 7)
    node.start()
    assert answer(created.reply).topics[0].error_code in (ErrorCode.NONE, ErrorCode.INVALID_REPLICATION_FACTOR)


def test_a_request_that_no_controller_takes_is_refused_at_its_deadline() -> None:
    """B-C27: never left without an answer."""
    node = MemoryNode()
    created = node.forward(topic_request("never"), 7)
    node.clock.now += 5_000
    node.machine.tick()
    assert answer(created.reply).topics[0].error_code in (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT)


def test_a_metadata_log_that_cannot_be_written_stops_the_node() -> None:
    """A failing disk is never papered over: the process ends."""
    node = MemoryNode()
    node.start()
    node.files.broken = METADATA
    node.forward(topic_request("lost"), 7)
    node.settle()
    failed = [effect.reason for effect in node.done if isinstance(effect, MetadataFailed)]
    assert METADATA in failed[0]


def test_a_log_directory_that_fails_goes_offline_and_is_reported() -> None:
    """B-K08, D-disk: KAFKA_STORAGE_ERROR for its partitions, the rest of the node goes on, the heartbeat names the directory."""
    node = MemoryNode()
    node.start()
    node.forward(topic_request("lost"), 7)
    node.settle()
    client = Client(node)
    assert client.ask(produce_request("lost", batch(b"x")), 9).responses[0].partition_responses[0].error_code == 0
    node.files.broken = "/data/lost"
    refused = client.ask(produce_request("lost", batch(b"x")), 9).responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.settle()
    (failed,) = [effect for effect in node.done if isinstance(effect, DirectoryFailed)]
    assert failed.directory == "/data"
    for version, code in ((5, ErrorCode.NOT_LEADER_OR_FOLLOWER), (11, ErrorCode.KAFKA_STORAGE_ERROR)):
        shown = client.ask(fetch_request("lost"), version).responses[0].partitions[0]
        assert shown.error_code == code
    assert node.machine.lifecycle is not None
    assert node.machine.lifecycle.offline_directories == node.disk.directory_ids


def test_a_broker_names_its_directories_when_the_cluster_comes_to_note_them() -> None:
    """B-K09, KIP-858: with the metadata.version raised from 3.6 it registers once more, so that what is in a directory that fails gets another leader."""
    node = MemoryNode(metadata_version=14, log_dirs=("/data", "/more"))
    node.start()
    node.forward(topic_request("kept"), 7)
    node.settle()
    [before] = node.machine.image.cluster.brokers.values()
    assert (before.log_dirs, before.fenced) == ((), False)
    raised = FeatureUpdateKey(feature="metadata.version", max_version_level=30, upgrade_type=1)
    answered = node.forward(UpdateFeaturesRequest(feature_updates=(raised,), timeout_ms=5_000), 2)
    node.settle()
    assert answer(answered.reply).error_code == ErrorCode.NONE
    [after] = node.machine.image.cluster.brokers.values()
    assert after.log_dirs == tuple(sorted(node.disk.directory_ids))
    assert (after.broker_epoch, after.fenced) == (before.broker_epoch, False)
    failed = node.broker.partitions.get("kept", 0)
    assert failed is not None
    assert failed.log is not None
    node.files.broken = f"{failed.log.directory}/kept-0"
    Client(node).ask(produce_request("kept", batch(b"x")), 9)
    node.settle()
    [left] = node.machine.image.cluster.brokers.values()
    [offline] = [effect.directory for effect in node.done if isinstance(effect, DirectoryFailed)]
    gone = node.broker.replica_moves.directory_ids[offline]
    assert left.log_dirs == tuple(each for each in after.log_dirs if each != gone)
    partition = node.machine.image.topics.partition("kept", 0)
    assert partition is not None
    assert partition.leader == NO_LEADER


def test_the_controller_of_a_node_is_registered() -> None:
    """B-C19, KIP-919: once the metadata.version has the record, with the addresses the node announces; anew after a restart."""
    node = MemoryNode()
    node.start()
    [first] = node.machine.image.cluster.controllers.values()
    assert [(one.name, one.host, one.port) for one in first.end_points] == [("CONTROLLER", "127.0.0.1", 9093)]
    node.machine.resign()
    node.settle()
    node.stop()
    again = MemoryNode(after=node)
    again.machine.start()
    again.settle()
    [second] = again.machine.image.cluster.controllers.values()
    assert again.machine.registrar is not None
    assert second.incarnation_id == again.machine.registrar.incarnation_id != first.incarnation_id


@pytest.mark.parametrize(("is_wanted", "probes"), [(True, 1), (False, 0)])
def test_brokers_are_watched_where_that_is_wanted(is_wanted: bool, probes: int) -> None:
    """C14's exception has a switch, headrace.fence.unreachable.brokers: without it nobody probes, and the session timeout decides alone."""
    node = MemoryNode(headrace_fence_unreachable_brokers=is_wanted)
    node.start()
    assert node.machine.lifecycle is not None
    node.machine.watch.heard(1, node.machine.lifecycle.broker_epoch, ("CONTROLLER", 4), 0)
    node.settle()
    asked = [effect for effect in node.done if isinstance(effect, Probe)]
    assert len(asked) == probes
    if asked:
        node.machine.probed(asked[0].correlation, None)
        node.machine.connection_closed("CONTROLLER", 4)
        node.work()
        for _ in range(2):
            probe = [effect for effect in node.done if isinstance(effect, Probe)][-1]
            node.machine.probed(probe.correlation, SendFailure.REFUSED)
            node.work()
        assert node.machine.image.cluster.brokers[1].fenced


def test_a_node_says_what_keeps_it_from_the_quorum() -> None:
    """S4-24: whom it asked, and how each of them failed."""
    voters = (QuorumVoter(1, "127.0.0.1", 9093), QuorumVoter(2, "other", 9093), QuorumVoter(3, "third", 9093))
    node = MemoryNode(controller_quorum_voters=voters)
    node.start()
    assert node.machine.quorum_trouble().startswith("no leader of the metadata quorum is reached")
    for each in list(node.asked):
        failure = SendFailure.REFUSED if each.to.node_id == 2 else SendFailure.TIMED_OUT
        node.machine.failed(each.correlation, failure)
    assert "other:9093 refused, third:9093 timed out" in node.machine.quorum_trouble()


def test_a_node_says_which_controllers_refuse_it() -> None:
    """S4-24, S1-28: they answer, and what they answer is what keeps this node away."""
    voters = (QuorumVoter(1, "127.0.0.1", 9093), QuorumVoter(2, "other", 9093), QuorumVoter(3, "third", 9093))
    node = MemoryNode(controller_quorum_voters=voters)
    node.start()
    for each in list(node.asked):
        code = ErrorCode.INCONSISTENT_CLUSTER_ID if each.to.node_id == 2 else ErrorCode.INVALID_REQUEST
        node.machine.answered(each.correlation, VoteResponse(error_code=code))
    assert (
        "(other:9093 is of another cluster than this node's directory (INCONSISTENT_CLUSTER_ID), "
        "third:9093 answered INVALID_REQUEST)" in node.machine.quorum_trouble()
    )
