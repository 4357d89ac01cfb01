"""Consumers that read from followers: what these show, and whom a leader sends to them (KIP-392)."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.ids import Uuid
from headrace.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.broker.test_replica_fetchers import Follower, records

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def fetched(answer: Any) -> Any:
    """The one partition."""
    return answer.responses[0].partitions[0]


class Copy:
    """Broker 1 with a copy of `t`: five records, of which its leader said that three are committed."""

    def __init__(self, **settings: Any) -> None:
        self.follower = Follower(**settings)
        self.topic = self.follower.follow()
        self.first, self.second = records(b"a", b"b", b"c"), records(b"d", b"e", offset=3)
        self.told(self.first, high_watermark=0)
        self.told(self.second, high_watermark=3)
        self.client = Client(self.follower.bench)

    def told(self, data: memoryview | None = None, *, high_watermark: int, log_start_offset: int = 0) -> None:
        """The leader answers the fetch that is under way."""
        told = PartitionData(
            partition_index=0, high_watermark=high_watermark, log_start_offset=log_start_offset, records=data
        )
        self.follower.answer(self.follower.sent(), told, topic=self.topic)

    def fetch(self, offset: int = 0, *, version: int = 12, epoch: int = -1, **fields: Any) -> Any:
        """A consumer's fetch."""
        partition = FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
        )
        return self.client.ask(fetch_request(self.topic if version >= 13 else "t", [partition], **fields), version)


@pytest.mark.parametrize("version", [4, 10, 11, 12, 13, 18])
def test_a_follower_shows_consumers_what_it_knows_to_be_committed(version: int) -> None:
    """inv:P17 S3-104, KIP-392: from version 11 on up to its own high watermark; older clients know nothing of that and are sent to the leader."""
    copy = Copy()
    one = fetched(copy.fetch(version=version))
    if version < 11:
        assert (one.error_code, one.high_watermark, one.records) == (6, -1, b"" if version > 3 else None)
        return
    assert (one.error_code, one.high_watermark, one.last_stable_offset, one.log_start_offset) == (0, 3, 3, 0)
    assert bytes(one.records) == bytes(copy.first)
    assert one.preferred_read_replica == -1


@pytest.mark.parametrize(("offset", "error"), [(3, 0), (4, 0), (5, 0), (6, 1), (-3, 1)])
def test_what_is_not_known_to_be_committed_is_empty_and_beyond_the_log_is_out_of_range(offset: int, error: int) -> None:
    """inv:P17, Kafka behaviour: between high watermark and log end a consumer waits; past the end it must ask the leader."""
    one = fetched(Copy().fetch(offset))
    assert (one.error_code, bytes(one.records or b"")) == (error, b"")


@pytest.mark.parametrize(("epoch", "error"), [(-1, 0), (5, 0), (4, 74), (6, 75)])
def test_a_follower_checks_the_epoch_that_a_consumer_knows(epoch: int, error: int) -> None:
    """inv:P14, KIP-320: by the epoch in which it follows."""
    assert fetched(Copy().fetch(epoch=epoch)).error_code == error


def test_an_old_epoch_at_a_follower_is_told_who_leads() -> None:
    """S3-42, KIP-951: from version 16, with the leader's address."""
    answer = Copy().fetch(epoch=4, version=16)
    one = fetched(answer)
    assert (one.error_code, one.current_leader.leader_id, one.current_leader.leader_epoch) == (74, 2, 5)
    assert [(each.node_id, each.port) for each in answer.node_endpoints] == [(2, 9002)]


def test_a_consumer_that_waits_at_a_follower_is_answered_when_that_hears_of_a_commit() -> None:
    """KIP-392: the leader's next response has the high watermark."""
    copy = Copy()
    copy.client.send(fetch_request("t", offset=3, max_wait_ms=5_000), 12)
    assert copy.client.answers() == []
    copy.told(high_watermark=5)
    (answer,) = copy.client.answers()
    assert (fetched(answer).high_watermark, bytes(fetched(answer).records)) == (5, bytes(copy.second))


def test_a_session_at_a_follower_tells_what_was_committed_since() -> None:
    """KIP-227, KIP-392: as at a leader."""
    copy = Copy()
    first = copy.fetch(session_epoch=0)
    session = {"session_id": first.session_id}
    ask = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)
    copy.client.send(fetch_request("t", [ask], session_epoch=1, max_wait_ms=5_000, **session), 12)
    assert copy.client.answers() == []
    copy.told(high_watermark=5)
    (second,) = copy.client.answers()
    assert (fetched(second).high_watermark, bytes(fetched(second).records)) == (5, bytes(copy.second))
    copy.client.send(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, session_epoch=2, **session), 12)
    assert [each.session_id for each in copy.client.answers()] == [first.session_id]


def test_records_that_the_leader_deleted_are_out_of_range_at_its_followers() -> None:
    """KIP-107, KIP-392: the log start is the leader's."""
    copy = Copy()
    copy.told(high_watermark=5, log_start_offset=3)
    assert fetched(copy.fetch(0)).error_code == 1
    assert (fetched(copy.fetch(3)).error_code, fetched(copy.fetch(3)).log_start_offset) == (0, 3)


def test_who_waits_at_a_follower_hears_of_another_leader() -> None:
    """inv:P14, KIP-320: with the epoch that it named the consumer is fenced at once; without one it waits on."""
    copy = Copy()
    waiting = Client(copy.follower.bench)
    waiting.send(fetch_request("t", offset=3, max_wait_ms=5_000), 12)
    ask = FetchPartition(partition=0, fetch_offset=3, current_leader_epoch=5, partition_max_bytes=1 << 20)
    copy.client.send(fetch_request("t", [ask], max_wait_ms=5_000), 12)
    copy.follower.follow(leader=3, leader_epoch=6)
    assert [fetched(each).error_code for each in copy.client.answers()] == [74]
    assert waiting.answers() == []
    copy.follower.bench.topic("t", leader=1, replicas=(2, 1), leader_epoch=7)
    copy.follower.bench.advance(5_000)
    answered = waiting.answers()
    assert [fetched(each).error_code for each in answered] == [0]


def test_a_log_that_is_being_cut_is_not_read() -> None:
    """KIP-101: its bytes are about to go; the consumer looks for the leader again."""
    copy = Copy()
    cuts: list[Any] = []
    copy.follower.fetchers.cut_logs = lambda logs, then: cuts.append((copy.follower.bench.logs.cut(logs), then))
    told = PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch=4, end_offset=3))
    copy.follower.answer(copy.follower.sent(), told, topic=copy.topic)
    assert fetched(copy.fetch(0)).error_code == 6
    ((jobs, then),) = cuts
    for job in jobs:
        job.look_up()
        job.lower()
        job.run()
        job.finish()
    then()
    assert fetched(copy.fetch(0)).error_code == 0


def test_only_leaders_tell_offsets_and_ends_of_epochs() -> None:
    """S3-104, KIP-320, Kafka behaviour: ListOffsets and OffsetForLeaderEpoch are NOT_LEADER_OR_FOLLOWER at a follower."""
    client = Copy().client
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    listed = client.ask(ListOffsetsRequest(topics=(ListOffsetsTopic(name="t", partitions=(asked,)),)), 7)
    assert listed.topics[0].partitions[0].error_code == 6
    wanted = OffsetForLeaderPartition(partition=0, leader_epoch=5)
    ends = client.ask(
        OffsetForLeaderEpochRequest(replica_id=-1, topics=(OffsetForLeaderTopic(topic="t", partitions=(wanted,)),)), 4
    )
    assert ends.topics[0].partitions[0].error_code == 6


# --- whom a leader sends elsewhere ---


class Leading:
    """Broker 1, in rack `a`, leads `t`; 2 and 3 are followers in `b`."""

    def __init__(self, *, selector: str | None = SELECTOR) -> None:
        self.bench = BrokerBench(replica_selector_class=selector)
        self.bench.register(1, rack="a")
        for node in (2, 3):
            self.bench.register(node, rack="b")
        self.topic = self.bench.topic("t", replicas=(1, 2, 3))
        self.client = Client(self.bench)
        self.peers = {node: Client(self.bench) for node in (2, 3)}
        self.client.ask(produce_request("t", batch(b"a", b"b", b"c"), version=9, acks=1), 9)

    def copied(self, *, by: int, to: int = 3, log_start: int = 0) -> None:
        """A follower has everything below an offset."""
        partition = FetchPartition(
            partition=0, current_leader_epoch=0, fetch_offset=to, log_start_offset=log_start, partition_max_bytes=1
        )
        state = ReplicaState(replica_id=by, replica_epoch=10 + by)
        topics = (FetchTopic(topic_id=self.topic, partitions=(partition,)),)
        self.peers[by].ask(FetchRequest(replica_state=state, max_wait_ms=0, session_epoch=-1, topics=topics), 17)

    def preferred(self, *, rack: str = "b", offset: int = 0, version: int = 12, **fields: Any) -> tuple[int, int]:
        """The replica that a consumer is sent to, and how many bytes it gets here."""
        topic: str | Uuid = self.topic if version >= 13 else "t"
        answer = self.client.ask(fetch_request(topic, offset=offset, rack_id=rack, **fields), version)
        one = fetched(answer)
        assert one.error_code == 0
        return one.preferred_read_replica, len(one.records or b"")


SIZE = len(batch(b"a", b"b", b"c"))


@pytest.mark.parametrize("version", [11, 12, 13, 17])
@pytest.mark.parametrize("selector", [SELECTOR, "rack-aware"])
def test_a_consumer_is_sent_to_the_replica_of_its_rack(version: int, selector: str) -> None:
    """KIP-392: and gets nothing here; of two equals the one that was caught up last."""
    leading = Leading(selector=selector)
    leading.copied(by=3)
    leading.bench.advance(5)
    leading.copied(by=2)
    assert leading.preferred(version=version) == (2, 0)
    leading.bench.advance(5)
    leading.copied(by=3)
    assert leading.preferred(version=version) == (3, 0)


@pytest.mark.parametrize("rack", ["", "a", "elsewhere"])
def test_a_consumer_stays_where_nobody_is_nearer(rack: str) -> None:
    """KIP-392: no rack, the leader's own, or one without a replica."""
    leading = Leading()
    for node in (2, 3):
        leading.copied(by=node)
    assert leading.preferred(rack=rack) == (-1, SIZE)


def test_without_a_selector_nobody_is_sent_elsewhere() -> None:
    """KIP-392: `replica.selector.class` is not set by default."""
    leading = Leading(selector=None)
    for node in (2, 3):
        leading.copied(by=node)
    assert leading.preferred() == (-1, SIZE)


def test_a_replica_is_preferred_only_with_what_the_consumer_asks_for() -> None:
    """KIP-392: in sync, log start at or below the offset, log end at or above it; the furthest of them."""
    leading = Leading()
    leading.copied(by=2, to=1)
    leading.copied(by=3, to=3)
    assert leading.preferred(offset=0) == (3, 0)
    leading.copied(by=3, to=3, log_start=1)
    assert leading.preferred(offset=0) == (2, 0)
    leading.bench.topic("t", replicas=(1, 2, 3), isr=(1, 3), partition_epoch=1)
    assert leading.preferred(offset=0)[0] == -1
    leading.bench.register(3, end_points=())
    assert leading.preferred(offset=1)[0] == -1


def test_a_session_hears_of_the_nearer_replica_when_there_is_one() -> None:
    """KIP-227, KIP-392: at the next records, though nothing else is told; a fetch that waits is not kept waiting by it."""
    leading = Leading()
    first = leading.client.ask(fetch_request("t", offset=3, rack_id="b", session_epoch=0), 12)
    assert fetched(first).preferred_read_replica == -1
    for node in (2, 3):
        leading.copied(by=node)
    leading.client.ask(produce_request("t", batch(b"d"), version=9, acks=1), 9)
    for node in (2, 3):
        leading.copied(by=node, to=4)
    second = leading.client.ask(
        FetchRequest(
            max_wait_ms=5_000,
            min_bytes=1 << 20,
            max_bytes=1 << 20,
            session_id=first.session_id,
            session_epoch=1,
            rack_id="b",
        ),
        12,
    )
    assert (fetched(second).preferred_read_replica, len(fetched(second).records or b"")) == (3, 0)


@pytest.mark.parametrize(("selector", "rounds"), [(SELECTOR, 1), (None, 0)])
def test_followers_hear_of_a_commit_at_once_where_consumers_are_sent_to_them(selector: str | None, rounds: int) -> None:
    """KIP-392: else the leader tells it with the next records, or at the end of the wait, as Kafka does."""
    leading = Leading(selector=selector)
    partition = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=3, log_start_offset=0, partition_max_bytes=1
    )
    topics = (FetchTopic(topic_id=leading.topic, partitions=(partition,)),)
    state, peer = ReplicaState(replica_id=2, replica_epoch=12), leading.peers[2]
    first = peer.ask(FetchRequest(replica_state=state, max_wait_ms=0, session_epoch=0, topics=topics), 17)
    peer.send(
        FetchRequest(replica_state=state, max_wait_ms=5_000, min_bytes=1, session_id=first.session_id, session_epoch=1),
        17,
    )
    assert peer.answers() == []
    leading.copied(by=3)
    told: list[FetchResponse] = peer.answers()
    assert [fetched(each).high_watermark for each in told] == [3] * rounds
    if told:
        again = {"session_id": first.session_id, "session_epoch": 2}
        peer.send(FetchRequest(replica_state=state, max_wait_ms=5_000, min_bytes=1, **again), 17)
        assert peer.answers() == [], "it knows"


def test_a_follower_without_a_session_is_not_answered_again_and_again() -> None:
    """KIP-392: nobody remembers what it was told."""
    leading = Leading()
    leading.copied(by=3)
    leading.copied(by=2)
    partition = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=3, log_start_offset=0, partition_max_bytes=1
    )
    topics = (FetchTopic(topic_id=leading.topic, partitions=(partition,)),)
    state, peer = ReplicaState(replica_id=2, replica_epoch=12), leading.peers[2]
    peer.send(FetchRequest(replica_state=state, max_wait_ms=5_000, min_bytes=1, session_epoch=-1, topics=topics), 17)
    assert peer.answers() == []


def test_the_answer_is_one_of_kafkas_kind() -> None:
    """KIP-392: offsets are told with the replica."""
    leading = Leading()
    for node in (2, 3):
        leading.copied(by=node)
    answer = leading.client.ask(fetch_request("t", rack_id="b"), 12)
    told = FetchableTopicResponse(
        topic="t",
        partitions=(
            PartitionData(
                partition_index=0,
                high_watermark=3,
                last_stable_offset=3,
                log_start_offset=0,
                preferred_read_replica=3,
                records=b"",
                aborted_transactions=None,
            ),
        ),
    )
    assert answer.responses == (told,)
