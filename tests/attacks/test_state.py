"""Peers that make a node remember things: groups, producers, sessions, waiting requests."""

from __future__ import annotations

import time
from contextlib import ExitStack

from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    RequestPartitionSnapshot,
    RequestSnapshotId,
    RequestTopicSnapshot,
)
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headrace.wire.messages.metadata import MetadataRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.vote import RequestPartitionData, RequestTopicData, VoteRequest
from tests.support.attacks import MIB, POLITE_TOPIC, Target
from tests.support.raw import RawConnection, request_frame, row_of


def fetch(*, max_wait_ms: int = 0, session_epoch: int = -1, min_bytes: int = 0) -> FetchRequest:
    """A fetch at an offset that nobody has reached, of as much as there is."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=2**31 - 1)
    topics = (FetchTopic(topic=POLITE_TOPIC, partitions=(part,)),)
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=2**31 - 1, session_epoch=session_epoch, topics=topics
    )


def test_fetch_sessions_are_as_many_as_their_slots(target: Target) -> None:
    """KIP-227: 5,000 new sessions, of which `max.incremental.fetch.session.cache.slots` are kept."""
    with target.attacked(memory=32 * MIB), RawConnection(target.node.port) as peer:
        for number in range(5_000):
            assert peer.ask(fetch(session_epoch=0), 12, number).error_code == 0


def test_fetches_that_wait_are_one_a_connection(target: Target) -> None:
    """Purgatory: 100 connections with 100 long polls each, pipelined; one of each waits, the others are not read."""
    with target.attacked(memory=64 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(100)]
        data = b"".join(request_frame(fetch(max_wait_ms=60_000, min_bytes=2**31 - 1), 12, each) for each in range(100))
        for peer in peers:
            peer.send(data)
        time.sleep(1.0)


def test_members_that_join_and_vanish_are_forgotten(target: Target) -> None:
    """1,000 groups of one member with 64 KB of metadata each, whose connections close at once."""
    with RawConnection(target.node.port) as peer:
        peer.ask(FindCoordinatorRequest(key="g"), 2)
    protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(64 << 10))
    with target.attacked(memory=192 * MIB):
        for number in range(1_000):
            request = JoinGroupRequest(
                group_id=f"flood-{number}", session_timeout_ms=6_000, protocol_type="consumer", protocols=(protocol,)
            )
            with RawConnection(target.node.port) as peer:
                peer.send(request_frame(request, 2))


def test_positions_with_great_metadata_are_refused(target: Target) -> None:
    """`offset.metadata.max.bytes`: 500 commits with 30 KB each."""
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="x" * 30_000)
    topics = (OffsetCommitRequestTopic(name=POLITE_TOPIC, partitions=(part,)),)
    with target.attacked(memory=48 * MIB), RawConnection(target.node.port) as peer:
        for number in range(500):
            request = OffsetCommitRequest(group_id=f"great-{number}", topics=topics)
            found = peer.ask(request, 7, number)
            assert found.topics[0].partitions[0].error_code != 0


def test_producer_ids_are_given_from_blocks(target: Target) -> None:
    """KIP-98: 5,000 ids at once cost a few records of metadata and no memory."""
    with target.attacked(memory=32 * MIB), RawConnection(target.node.port) as peer:
        data = b"".join(request_frame(InitProducerIdRequest(transactional_id=None), 2, each) for each in range(5_000))
        peer.send(data)
        row = row_of(InitProducerIdRequest())
        ids = [peer.answer(row, 2, each).producer_id for each in range(5_000)]
    assert len(set(ids)) == 5_000


def test_deletions_beyond_the_end_are_refused(target: Target) -> None:
    """2,000 times the largest offset that there is."""
    part = DeleteRecordsPartition(partition_index=0, offset=2**63 - 1)
    topics = (DeleteRecordsTopic(name=POLITE_TOPIC, partitions=(part,)),)
    with target.attacked(memory=16 * MIB), RawConnection(target.node.port) as peer:
        for number in range(2_000):
            found = peer.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1_000), 1, number)
            assert found.topics[0].partitions[0].error_code == 1


def test_correlation_ids_may_be_anything(target: Target) -> None:
    """Repeated, negative, extreme: each answer carries its request's."""
    request = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    with target.attacked(memory=16 * MIB), RawConnection(target.node.port) as peer:
        for number in (0, 0, -1, 2**31 - 1, -(2**31), 7, 7):
            peer.ask(request, 9, number)


def test_a_piece_of_a_snapshot_is_as_large_as_the_node_likes(target: Target) -> None:
    """KIP-630: FetchSnapshot with the largest `max_bytes` there is, of a snapshot that there is not."""
    part = RequestPartitionSnapshot(
        partition=0, current_leader_epoch=-1, snapshot_id=RequestSnapshotId(end_offset=2**62, epoch=1)
    )
    request = FetchSnapshotRequest(
        max_bytes=2**31 - 1, topics=(RequestTopicSnapshot(name="__cluster_metadata", partitions=(part,)),)
    )
    with target.attacked(memory=16 * MIB), RawConnection(target.node.controller_port) as peer:
        for number in range(500):
            peer.ask(request, 0, number)


def test_votes_of_strangers_do_not_end_the_quorum(target: Target) -> None:
    """KIP-595: 1,000 requests for votes in ever later epochs, by a candidate that is no voter."""
    with target.attacked(memory=16 * MIB), RawConnection(target.node.controller_port) as peer:
        for number in range(1_000):
            part = RequestPartitionData(replica_epoch=number + 2, replica_id=77, last_offset_epoch=1, last_offset=2**62)
            request = VoteRequest(topics=(RequestTopicData(topic_name="__cluster_metadata", partitions=(part,)),))
            peer.ask(request, 0, number)
    target.create_topic("made-after-the-votes")
