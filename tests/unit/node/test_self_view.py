"""What does a node say of itself when it is asked about the quorum?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace import __version__
from headrace.broker.handlers import describe_quorum as on_broker
from headrace.client.admin_quorum import METADATA_QUORUM
from headrace.node.controller_handlers import describe_quorum as on_controller
from headrace.node.self_view import NEWEST_BATCHES, batch_digests, epoch_history
from headrace.node.witness import NEVER
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, Reply
from headrace.wire.codec import decode, encode
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.describe_quorum import (
    BatchDigest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EpochStart,
    NodeView,
    OwnEndPoint,
)
from tests.support.memory_log import MemoryLog
from tests.support.memory_node import DATA, MemoryNode
from tests.support.raft import CLUSTER_ID

ASKED = RequestContext(api_key=55, api_version=2, listener="CONTROLLER")


@pytest.fixture
def node() -> MemoryNode:
    made = MemoryNode()
    made.start()
    return made


def message(result: Deferred | Reply) -> DescribeQuorumResponse:
    reply = result.reply if isinstance(result, Deferred) else result
    assert isinstance(reply, Reply)
    found = reply.message
    assert isinstance(found, DescribeQuorumResponse)
    return found


def view_of(node: MemoryNode) -> NodeView:
    request = DescribeQuorumRequest(wants_node_view=True)
    (view,) = message(on_controller.handle(request, ASKED, node.node.controller_server)).node_views
    return view


def test_a_node_tells_its_role_its_log_and_its_voters(node: MemoryNode) -> None:
    """S4-13, S4-44, S4-45, S4-46: everything that an explanation goes by, leader or not."""
    view = view_of(node)
    raft = node.plane.raft
    assert (view.node_id, view.cluster_id, view.directory_id) == (1, CLUSTER_ID, raft.config.directory_id)
    assert (view.role, view.epoch, view.leader_id, view.software_version) == ("Leader", raft.epoch, 1, __version__)
    assert (view.process_roles, view.log_directory) == ("broker,controller", DATA)
    assert view.log_end_offset == view.durable_end_offset == view.high_watermark == raft.high_watermark > 0
    assert (view.uncommitted_for_ms, view.log_start_offset) == (0, 0)
    assert [voter.voter_id for voter in view.voters] == [1]
    assert (view.voter_set_offset, view.kraft_version) == (-1, 0)
    assert OwnEndPoint(name="PLAINTEXT", host="127.0.0.1", port=9092) in view.own_end_points
    assert OwnEndPoint(name="CONTROLLER", host="127.0.0.1", port=9093, is_for_controllers=True) in view.own_end_points
    assert view.epoch_history == (EpochStart(epoch=view.epoch, start_offset=0),)
    assert view.batches[-1].last_offset == view.high_watermark - 1
    assert view.flush_count > 0
    assert view.disk_total_bytes > 0
    assert view.wall_clock_ms == node.clock.wall_ms()


def test_a_view_survives_the_wire(node: MemoryNode) -> None:
    """B-W01: in every version of DescribeQuorum, and a reader that does not know it skips it."""
    view = view_of(node)
    for version in (0, 1, 2):
        answer = DescribeQuorumResponse(node_views=(view,))
        assert decode(DescribeQuorumResponse, encode(answer, version), version).node_views == (view,)


def test_the_broker_listener_tells_the_view_too(node: MemoryNode) -> None:
    """S4-41: an explanation can begin at a broker."""
    request = DescribeQuorumRequest(wants_node_view=True)
    answer = message(on_broker.handle(request, RequestContext(api_key=55, api_version=2), node.broker))
    assert answer.node_views[0].node_id == 1


def test_a_description_carries_the_view_only_when_it_is_wanted(node: MemoryNode) -> None:
    """S4-41, S4-47: what Kafka's clients ask is answered as ever."""
    plain = message(
        on_controller.handle(DescribeQuorumRequest(topics=METADATA_QUORUM), ASKED, node.node.controller_server)
    )
    assert plain.node_views == ()
    assert plain.topics[0].partitions[0].leader_id == 1
    both = message(
        on_controller.handle(
            DescribeQuorumRequest(topics=METADATA_QUORUM, wants_node_view=True), ASKED, node.node.controller_server
        )
    )
    assert (both.topics, len(both.node_views)) == (plain.topics, 1)


def test_last_words_of_a_peer_are_told(node: MemoryNode) -> None:
    """fault:S59: so that somebody knows why it is gone."""
    words = DescribeQuorumRequest(last_words_of=3, last_words="No space left on device")
    assert message(on_controller.handle(words, ASKED, node.node.controller_server)).error_code == 0
    node.clock.now += 250
    hearsay = DescribeQuorumRequest(last_words_of=4, last_words="what a client of a broker says")
    for context in (replace(ASKED, is_forwarded=True), replace(ASKED, is_internal=True)):
        on_controller.handle(hearsay, context, node.node.controller_server)
    assert [link.peer_id for link in view_of(node).links] == [3]
    (link,) = [link for link in view_of(node).links if link.peer_id == 3]
    assert (link.last_words, link.last_words_age_ms) == ("No space left on device", 250)
    assert link.answered_age_ms == NEVER


def test_every_change_is_in_the_newest_batches(node: MemoryNode) -> None:
    """inv:R1: the checksums of what is committed."""
    before = view_of(node).batches
    request = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=1),))
    node.broker.forward(request, RequestContext(api_key=19, api_version=7))
    node.settle()
    after = view_of(node).batches
    assert after[: len(before)] == before
    assert len(after) > len(before)


def filled(epochs: dict[int, int]) -> MemoryLog:
    """A log with so many one-record batches in each epoch, all committed."""
    log = MemoryLog()
    offset = 0
    for epoch, count in epochs.items():
        for _ in range(count):
            batch = build_batch(
                [NewRecord(None, str(offset).encode(), 0)], placement=Placement(base_offset=offset, leader_epoch=epoch)
            )
            log.append_as_follower(memoryview(batch), leader_epoch=epoch, now_ms=0)
            offset += 1
    log.advance_high_watermark(offset)
    return log


def test_epochs_are_told_with_where_they_began() -> None:
    """inv:R3."""
    assert epoch_history(filled({1: 2, 4: 3, 5: 1}).as_port()) == [
        EpochStart(epoch=1, start_offset=0), EpochStart(epoch=4, start_offset=2), EpochStart(epoch=5, start_offset=5),
    ]  # fmt: skip
    assert epoch_history(MemoryLog().as_port()) == []


def test_samples_lie_on_the_same_grid_on_every_node() -> None:
    """inv:R1: two nodes that are not equally far tell checksums of the same old offsets, and all of the newest."""
    one, other = filled({1: 1_000}), filled({1: 1_040})
    first = {each.base_offset: each for each in batch_digests(one.as_port(), 1_000)}
    second = {each.base_offset: each for each in batch_digests(other.as_port(), 1_040)}
    old = [offset for offset in first if offset < 1_000 - NEWEST_BATCHES]
    assert len(old) > 40
    assert all(first[offset] == second[offset] for offset in old if offset in second)
    assert len([offset for offset in old if offset in second]) > 40
    newest = {each for each in first if each >= 1_000 - NEWEST_BATCHES}
    assert len(newest) == NEWEST_BATCHES
    assert batch_digests(MemoryLog().as_port(), 0) == []
    assert batch_digests(filled({7: 1}).as_port(), 1) == [
        BatchDigest(base_offset=0, last_offset=0, epoch=7, crc=batch_digests(filled({7: 1}).as_port(), 1)[0].crc)
    ]
