"""Where do partitions begin and end, and what did epochs and times leave in them?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.peer import Peer, batch, now_ms


def delete_records(peer: Peer, topic: str, offset: int, *, version: int = 2, partition: int = 0) -> tuple[int, int]:
    """(error, low watermark)."""
    asked = DeleteRecordsPartition(partition_index=partition, offset=offset)
    request = DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=(asked,)),), timeout_ms=5_000)
    one = peer.ask(request, version).topics[0].partitions[0]
    return one.error_code, one.low_watermark


@pytest.mark.parametrize("version", range(1, 12))
def test_every_version_tells_the_ends(peer: Peer, topic: str, version: int) -> None:
    """B-P10: -1 latest, -2 earliest."""
    peer.produce(topic, batch(b"a", b"b"))
    epoch = 0 if version >= 4 else -1
    assert peer.offset(topic, -1, version=version) == (0, 2, -1, epoch)
    assert peer.offset(topic, -2, version=version) == (0, 0, -1, epoch)
    assert peer.offset(topic, -1, version=version, isolation=1)[:2] == (0, 2)


def test_times_find_the_first_record_at_or_after_them(peer: Peer, topic: str) -> None:
    """B-P10: by timestamp; nothing at or after is offset -1."""
    start = now_ms() - 10_000
    for number in range(5):
        peer.produce(topic, batch(b"x", timestamp=start + 100 * number))
    assert peer.offset(topic, start) == (0, 0, start, 0)
    assert peer.offset(topic, start + 101) == (0, 2, start + 200, 0)
    assert peer.offset(topic, start + 401) == (0, -1, -1, -1)
    assert peer.offset(topic, 0) == (0, 0, start, 0)


def test_the_highest_timestamp_is_found_wherever_it_is(peer: Peer, topic: str) -> None:
    """B-P10, KIP-734: -3."""
    start = now_ms() - 10_000
    for shift in (0, 300, 100):
        peer.produce(topic, batch(b"x", timestamp=start + shift))
    assert peer.offset(topic, -3) == (0, 1, start + 300, 0)
    assert peer.offset(topic, -3, partition=1) == (0, -1, -1, -1)


@pytest.mark.parametrize(("timestamp", "first_version"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_need_their_version(peer: Peer, topic: str, timestamp: int, first_version: int) -> None:
    """B-P10: UNSUPPORTED_VERSION below, an answer from then on."""
    peer.produce(topic, batch(b"x"))
    assert peer.offset(topic, timestamp, version=first_version - 1)[0] == 35
    assert peer.offset(topic, timestamp, version=first_version)[0] == 0


def test_without_tiers_the_local_log_is_all_there_is(peer: Peer, topic: str) -> None:
    """KIP-405, KIP-1005: -4 is the log's start, -5 nothing."""
    peer.produce(topic, batch(b"x"))
    assert peer.offset(topic, -4, version=10)[:2] == (0, 0)
    assert peer.offset(topic, -5, version=10) == (0, -1, -1, -1)


@pytest.mark.parametrize(("epoch", "code"), [(-1, 0), (0, 0), (3, 75)])
def test_the_leader_epoch_is_checked(peer: Peer, topic: str, epoch: int, code: int) -> None:
    assert peer.offset(topic, -1, epoch=epoch)[0] == code


def test_unknown_partitions_and_repeated_ones_are_refused(peer: Peer, topic: str) -> None:
    """B24: INVALID_REQUEST for what is asked twice."""
    assert peer.offset(topic, -1, partition=9)[0] == 3
    assert peer.offset("nobody-made-this", -1)[0] == 3
    twice = (ListOffsetsPartition(partition_index=0, timestamp=-1),) * 2
    request = ListOffsetsRequest(replica_id=-1, topics=(ListOffsetsTopic(name=topic, partitions=twice),))
    assert {one.error_code for one in peer.ask(request, 7).topics[0].partitions} == {42}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_epochs_end_where_the_next_began(peer: Peer, topic: str, version: int) -> None:
    """KIP-101, KIP-279: the running epoch ends at the log end; a newer one is unknown."""
    peer.produce(topic, batch(b"a", b"b"))

    def end_of(epoch: int) -> tuple[int, int, int]:
        asked = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(
            replica_id=-1 if version >= 3 else -2, topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),)
        )
        one = peer.ask(request, version).topics[0].partitions[0]
        return one.error_code, one.leader_epoch, one.end_offset

    assert end_of(0) == (0, 0, 2)
    assert end_of(7) == (0, -1, -1)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_deleted_records_cannot_be_read(peer: Peer, topic: str, version: int) -> None:
    """B-P03: up to an offset, then up to the high watermark."""
    for _ in range(3):
        peer.produce(topic, batch(b"x"))
    assert delete_records(peer, topic, 2, version=version) == (0, 2)
    assert peer.offset(topic, -2)[:2] == (0, 2)
    assert delete_records(peer, topic, 1, version=version) == (0, 2)
    assert delete_records(peer, topic, 9, version=version) == (1, -1)
    assert delete_records(peer, topic, -1, version=version) == (0, 3)
    assert delete_records(peer, topic, 0, version=version, partition=9) == (3, -1)


def test_records_of_a_compacted_topic_are_not_deleted(peer: Peer) -> None:
    """POLICY_VIOLATION."""
    name = "only-compacted"
    peer.create(name, cleanup_policy="compact")
    try:
        assert delete_records(peer, name, 0) == (44, -1)
    finally:
        peer.delete(name)


def init_producer_id(peer: Peer, version: int) -> Any:
    """The answer, asked again while the broker still fetches a block of ids (COORDINATOR_LOAD_IN_PROGRESS)."""
    while True:
        answer = peer.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), version)
        if answer.error_code != 14:
            return answer


@pytest.mark.parametrize("version", range(6))
def test_producer_ids_are_never_given_twice(peer: Peer, version: int) -> None:
    """B-P04: InitProducerId without a transactional id."""
    answers = [init_producer_id(peer, version) for _ in "abc"]
    assert [(one.error_code, one.producer_epoch) for one in answers] == [(0, 0)] * 3
    assert len({one.producer_id for one in answers}) == 3


def test_a_producer_id_without_an_epoch_is_refused(peer: Peer) -> None:
    """KIP-360: both or none."""
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000, producer_id=5)
    assert peer.ask(request, 4).error_code == 42
    assert peer.ask(InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000), 4).error_code == 42


@pytest.mark.parametrize("version", range(1, 6))
def test_log_directories_tell_their_replicas(peer: Peer, topic: str, version: int) -> None:
    """KIP-113, KIP-827: sizes grow with what is written."""
    sent = batch(b"x" * 5000)
    peer.produce(topic, sent)
    asked = (DescribableLogDirTopic(topic=topic, partitions=(0,)),)
    (directory,) = peer.ask(DescribeLogDirsRequest(topics=asked), version).results
    assert directory.error_code == 0
    (shown,) = directory.topics
    assert {one.partition_index: one.partition_size for one in shown.partitions} == {0: len(sent)}
    if version >= 4:
        assert 0 < directory.usable_bytes <= directory.total_bytes
    everything = peer.ask(DescribeLogDirsRequest(topics=None), version).results[0]
    assert topic in [one.name for one in everything.topics]
