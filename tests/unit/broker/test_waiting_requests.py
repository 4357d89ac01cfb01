"""Who is looked at when something of a partition moves, and what does a request keep while it waits?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.partitions import HostedPartition
from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition, Uuid
from headrace.wire.headers import framed_request
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.broker.test_deleting_records import deletion

MANY = 1_000


def hosted_of(bench: BrokerBench, topic: str, partition: int = 0) -> HostedPartition:
    """The partition, which is there."""
    found = bench.broker.partitions.get(topic, partition)
    assert found is not None
    return found


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of this project `work` calls."""
    count = 0

    def count_call(frame: Any, event: str, _: object) -> None:
        nonlocal count
        if event == "call" and "headrace" in frame.f_code.co_filename:
            count += 1

    sys.setprofile(count_call)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def follower_fetch(topic_id: Uuid, offset: int, **fields: Any) -> FetchRequest:
    """What broker 2 asks, from version 15 on."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 20
    )
    settings: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
    settings["topics"] = (FetchTopic(topic_id=topic_id, partitions=(partition,)),)
    return FetchRequest(replica_state=ReplicaState(replica_id=2, replica_epoch=12), **{**settings, **fields})


def errors_of(answers: list[Any]) -> list[int]:
    """The error of each Produce response's one partition."""
    return [answer.responses[0].partition_responses[0].error_code for answer in answers]


# --- followers ---


def test_a_follower_that_is_silent_while_its_fetch_waits_is_not_heard_of() -> None:
    """KIP-16: what it holds and when it was heard is noted when its fetch arrives, not each time the waiting fetch is looked at."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    follower, client = Client(bench), Client(bench)
    follower.send(follower_fetch(topic_id, 0, min_bytes=1 << 20, max_wait_ms=600_000), 15)
    leader = hosted_of(bench, "kept").leader
    assert leader is not None
    heard = bench.clock.now
    for _ in range(3):
        bench.clock.now += 20_000
        client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    progress = leader.followers[2]
    assert (progress.heard_ms, progress.caught_up_ms, progress.log_end_offset) == (heard, heard, 0)
    proposal = leader.propose_shrink(bench.clock.now)
    assert proposal is not None
    assert proposal.isr == ((1, -1),)


def test_a_waiting_fetch_does_not_take_a_followers_progress_back() -> None:
    """An older fetch of the same follower lies on another connection; what it asked for then is not what it holds now."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    Client(bench).send(follower_fetch(topic_id, 0, min_bytes=1 << 20, max_wait_ms=600_000), 15)
    client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    Client(bench).ask(follower_fetch(topic_id, 1), 15)
    client.ask(produce_request("kept", batch(b"b"), acks=1), 9)
    leader = hosted_of(bench, "kept").leader
    assert leader is not None
    assert leader.followers[2].log_end_offset == 1


def test_every_fetch_of_a_followers_session_counts_for_the_partitions_that_it_does_not_name() -> None:
    """KIP-227, KIP-16: a quiet partition's follower that goes on fetching is in sync, and lags only from the next append on."""
    bench = BrokerBench(replica_lag_time_max_ms=30_000)
    topic_id = bench.topic("quiet", replicas=(1, 2))
    follower = Client(bench)
    begun = follower.ask(follower_fetch(topic_id, 0, session_epoch=0), 15)
    leader = hosted_of(bench, "quiet").leader
    assert leader is not None
    for epoch in range(1, 4):
        bench.clock.now += 20_000
        empty = follower_fetch(topic_id, 0, session_id=begun.session_id, session_epoch=epoch, topics=())
        follower.ask(empty, 15)
    last = bench.clock.now
    assert leader.peer_heard_ms == last
    bench.clock.now += 10_000
    Client(bench).ask(produce_request("quiet", batch(b"a"), acks=1), 9)
    assert leader.propose_shrink(last + 30_000) is None
    assert leader.propose_shrink(last + 30_001) is not None


def test_a_log_start_that_rises_while_a_followers_fetch_waits_is_told() -> None:
    """KIP-107: a deletion of records waits for every replica, and a replica hears of it from its fetch, which nearly always waits when it happens."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2))
    client, follower = Client(bench), Client(bench)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    follower.ask(follower_fetch(topic_id, 1), 15)
    begun = follower.ask(follower_fetch(topic_id, 1, session_epoch=0), 15)
    session = {"session_id": begun.session_id, "max_wait_ms": 500}
    follower.send(follower_fetch(topic_id, 1, session_epoch=1, **session), 15)
    client.send(deletion((0, 1)), 2)
    assert follower.answers() == []
    bench.advance(500)
    follower.send(follower_fetch(topic_id, 1, session_epoch=2, topics=(), **session), 15)
    bench.advance(500)
    told = [topic.partitions for answer in follower.answers() for topic in answer.responses]
    assert [one.log_start_offset for partitions in told for one in partitions] == [1]


def test_a_partition_that_a_followers_session_forgot_is_heard_of_no_more() -> None:
    """KIP-227: the session goes on for others."""
    bench = BrokerBench()
    quiet, other = bench.topic("quiet", replicas=(1, 2)), bench.topic("other", replicas=(1, 2))
    follower = Client(bench)
    begun = follower.ask(follower_fetch(quiet, 0, session_epoch=0), 15)
    heard = bench.clock.now
    follower.ask(
        follower_fetch(
            other,
            0,
            session_id=begun.session_id,
            session_epoch=1,
            forgotten_topics_data=(ForgottenTopic(topic_id=quiet, partitions=(0,)),),
        ),
        15,
    )
    bench.clock.now += 5_000
    follower.ask(follower_fetch(other, 0, session_id=begun.session_id, session_epoch=2), 15)
    heard_of = {}
    for topic in ("quiet", "other"):
        leader = hosted_of(bench, topic).leader
        assert leader is not None
        heard_of[topic] = leader.peer_heard_ms
    assert heard_of == {"quiet": heard, "other": heard + 5_000}


# --- produces ---


def test_a_produce_that_waits_keeps_nothing_of_its_frame() -> None:
    """The buffers of waiting requests are counted by nobody, so there must be none: a bytearray that is looked at cannot shrink."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    frame = framed_request(produce_request("kept", batch(b"x" * 1000)), 9, correlation_id=1, client_id="c")
    view = memoryview(frame)[4:]
    client.connection.frame(view)
    view.release()
    assert len(bench.broker.purgatory) == 1
    frame.clear()
    assert frame == b""


def test_lowering_min_insync_replicas_wakes_those_who_wait() -> None:
    """What was written is committed by that; nobody should wait for the timeout, or for the next append."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2, 3))
    bench.configure("kept", min_insync_replicas="2")
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    bench.topic("kept", replicas=(1, 2, 3), isr=(1,), partition_epoch=1)
    reader = Client(bench)
    reader.send(fetch_request("kept", max_wait_ms=5_000), 11)
    assert (client.answers(), reader.answers()) == ([], [])
    bench.configure("kept", min_insync_replicas="1")
    assert errors_of(client.answers()) == [ErrorCode.NONE]
    assert [answer.responses[0].partitions[0].high_watermark for answer in reader.answers()] == [1]


@pytest.mark.parametrize("waiting", [10, MANY])
def test_only_the_produces_whose_offset_is_reached_are_looked_at(waiting: int) -> None:
    """The high watermark moves by one: as much work with a thousand behind as with ten."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client, follower = Client(bench, max_in_flight=10_000), Client(bench)
    for _ in range(waiting):
        client.send(produce_request("kept", batch(b"a")), 9)
    follower.ask(follower_fetch(topic_id, 1), 15)
    assert errors_of(client.answers()) == [ErrorCode.NONE]
    work = calls_of(lambda: follower.ask(follower_fetch(topic_id, 2), 15))
    assert errors_of(client.answers()) == [ErrorCode.NONE]
    assert work < 400
    follower.ask(follower_fetch(topic_id, waiting), 15)
    assert errors_of(client.answers()) == [ErrorCode.NONE] * (waiting - 2)


def test_a_produce_that_nobody_waits_for_leaves_nothing_behind() -> None:
    """Timed out or with its connection gone, while the high watermark stands still for good."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    for _ in range(MANY // 100):
        clients = [Client(bench) for _ in range(100)]
        for client in clients:
            client.send(produce_request("kept", batch(b"a")), 9)
        for client in clients[::2]:
            client.connection.closed()
        bench.advance(5_000)
    queue = hosted_of(bench, "kept").waiters.committed
    assert queue is not None
    assert len(queue) < 200
    assert len(bench.broker.purgatory) == 0


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [8, 9, 13])
def test_a_produce_of_several_partitions_is_answered_by_each(version: int, acks: int) -> None:
    """Appended, refused by the log, repeated in the request, led elsewhere; in the order asked."""
    bench = BrokerBench()
    ids = {"here": bench.topic("here", partitions=3), "far": bench.topic("far", leader=2, replicas=(2,))}
    sound, damaged = bytes(batch(b"a")), bytearray(batch(b"a"))
    damaged[-1] ^= 1

    def asked(*wanted: tuple[str, int, bytes]) -> ProduceRequest:
        topics = tuple(
            TopicProduceData(
                name="" if version >= 13 else topic,
                topic_id=ids[topic] if version >= 13 else Uuid(bytes(16)),
                partition_data=(PartitionProduceData(index=index, records=records),),
            )
            for topic, index, records in wanted
        )
        return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=topics)

    def told(answer: Any) -> list[tuple[int, int, int]]:
        return [
            (part.index, part.error_code, part.base_offset)
            for topic in answer.responses
            for part in topic.partition_responses
        ]

    client = Client(bench)
    usual = asked(("here", 0, sound), ("here", 2, sound), ("here", 1, sound))
    assert told(client.ask(usual, version)) == [(0, 0, 0), (2, 0, 0), (1, 0, 0)]
    mixed = asked(("here", 0, sound), ("here", 1, bytes(damaged)), ("far", 0, sound), ("here", 2, sound))
    assert told(client.ask(mixed, version)) == [
        (0, 0, 1),
        (1, ErrorCode.CORRUPT_MESSAGE, -1),
        (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1),
        (2, 0, 1),
    ]
    twice = asked(("here", 0, sound), ("here", 0, sound))
    assert told(client.ask(twice, version)) == [(0, 0, 2), (0, ErrorCode.INVALID_REQUEST, -1)]


# --- sessions ---


class Consumer:
    """A consumer's session over all partitions of topic `t`."""

    def __init__(self, bench: BrokerBench, partitions: int, *, version: int = 12, topic_id: Uuid | None = None) -> None:
        self.client = Client(bench)
        self.version = version
        self.topic_id = topic_id
        self.epoch = 0
        self.session_id = 0
        self.ask({index: 0 for index in range(partitions)})

    def request(self, offsets: dict[int, int], **fields: Any) -> FetchRequest:
        """The session's next request; `offsets` are those that it changes."""
        asked = tuple(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
            for index, offset in offsets.items()
        )
        topic = FetchTopic(topic="t") if self.topic_id is None else FetchTopic(topic_id=self.topic_id)
        topic = FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=asked)
        settings = {"min_bytes": 1, "max_bytes": 1 << 20, "max_wait_ms": 0, **fields}
        epoch, self.epoch = self.epoch, self.epoch + 1
        topics = (topic,) if asked else ()
        return FetchRequest(session_id=self.session_id, session_epoch=epoch, topics=topics, **settings)

    def ask(self, offsets: dict[int, int], **fields: Any) -> dict[int, tuple[int, int]]:
        """(high watermark, bytes of records) of each partition that is told."""
        return self.told(self.client.ask(self.request(offsets, **fields), self.version))

    def told(self, answer: Any) -> dict[int, tuple[int, int]]:
        """The same of a response."""
        assert answer.error_code == 0
        self.session_id = answer.session_id
        return {
            part.partition_index: (part.high_watermark, len(part.records or b""))
            for topic in answer.responses
            for part in topic.partitions
        }


@pytest.mark.parametrize("version", [12, 13])
def test_a_session_tells_what_changed_and_nothing_else(version: int) -> None:
    """KIP-227: records until the consumer asks behind them, then nothing; the offsets when they moved; an error each time."""
    bench = BrokerBench()
    topic_id = bench.topic("t", partitions=3)
    consumer = Consumer(bench, 3, version=version, topic_id=topic_id if version >= 13 else None)
    producer = Client(bench)
    record = batch(b"x" * 100)
    assert consumer.ask({}) == {}
    producer.ask(produce_request("t", record, partition=1, acks=1), 9)
    assert consumer.ask({}) == {1: (1, len(record))}
    assert consumer.ask({}) == {1: (1, len(record))}
    assert consumer.ask({1: 1}) == {}
    for index in (2, 0, 1):
        producer.ask(produce_request("t", record, partition=index, acks=1), 9)
    size = len(record)
    assert list(consumer.ask({}).items()) == [(0, (1, size)), (2, (1, size)), (1, (2, size))]
    assert consumer.ask({0: 1, 2: 1, 1: 2}) == {}
    hosted_of(bench, "t", 2).log.advance_log_start(1)  # type: ignore[union-attr]
    assert consumer.ask({}) == {2: (1, 0)}
    assert consumer.ask({}) == {}
    bench.topic("t", partitions=3, leader=2, replicas=(2,), leader_epoch=1, partition_epoch=1)
    assert set(consumer.ask({})) == set(consumer.ask({})) == {0, 1, 2}


def test_a_waiting_session_fetch_is_answered_by_what_moved() -> None:
    """With enough of several partitions together; and at its time with what there is."""
    bench = BrokerBench()
    bench.topic("t", partitions=3)
    consumer, producer = Consumer(bench, 3), Client(bench)
    record = batch(b"x" * 100)
    size = len(record)
    consumer.client.send(consumer.request({}, max_wait_ms=500, min_bytes=2 * size), 12)
    producer.ask(produce_request("t", record, partition=2, acks=1), 9)
    assert consumer.client.answers() == []
    producer.ask(produce_request("t", record, partition=1, acks=1), 9)
    (answer,) = consumer.client.answers()
    assert consumer.told(answer) == {1: (1, size), 2: (1, size)}
    consumer.client.send(consumer.request({1: 1, 2: 1}, max_wait_ms=500, min_bytes=2 * size), 12)
    producer.ask(produce_request("t", record, partition=0, acks=1), 9)
    assert consumer.client.answers() == []
    bench.advance(500)
    (answer,) = consumer.client.answers()
    assert consumer.told(answer) == {0: (1, size)}


def test_what_the_bounds_of_a_fetch_kept_back_comes_with_the_next() -> None:
    """KIP-74: a partition behind one that filled the answer has records still, though none were given and nothing moves there any more."""
    bench = BrokerBench()
    bench.topic("t", partitions=3)
    consumer, producer = Consumer(bench, 3), Client(bench)
    record = batch(b"x" * 100)
    size = len(record)
    for index in range(3):
        producer.ask(produce_request("t", record, partition=index, acks=1), 9)
    told = [consumer.ask({}, max_bytes=1), consumer.ask({0: 1}, max_bytes=1), consumer.ask({1: 1}, max_bytes=1)]
    assert [{index: read for index, (_, read) in each.items() if read} for each in told] == [
        {0: size},
        {1: size},
        {2: size},
    ]
    assert consumer.ask({2: 1}, max_bytes=1) == {}


def test_what_an_abandoned_fetch_would_have_told_is_told_to_the_next() -> None:
    """The connection is gone, the session is not: another connection goes on with it."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2))
    consumer = Consumer(bench, 1)
    Client(bench).ask(produce_request("t", batch(b"x"), acks=1), 9)
    consumer.client.send(consumer.request({}, max_wait_ms=500, min_bytes=1 << 20), 12)
    Client(bench).ask(follower_fetch(topic_id, 1), 15)
    consumer.client.connection.closed()
    consumer.client = Client(bench)
    assert [high_watermark for high_watermark, _ in consumer.ask({0: 1}).values()] == [1]


@pytest.mark.parametrize("partitions", [10, MANY])
@pytest.mark.parametrize("is_waiting", [False, True])
def test_a_session_of_which_one_partition_changes_costs_what_that_one_costs(
    *, partitions: int, is_waiting: bool
) -> None:
    """A thousand partitions, or ten: nothing is looked at because something else moved."""
    bench = BrokerBench()
    bench.topic("t", partitions=partitions)
    consumer, producer = Consumer(bench, partitions), Client(bench)
    record = batch(b"x" * 100)
    produce = produce_request("t", record, partition=7, acks=1)
    work = 0
    for _ in range(2):  # the first of each kind compiles its codecs

        def turn() -> None:
            if is_waiting:
                consumer.client.send(consumer.request({}, max_wait_ms=500), 12)
                producer.ask(produce, 9)
            else:
                producer.ask(produce, 9)
                consumer.client.send(consumer.request({}), 12)

        work = calls_of(turn)
        (answer,) = consumer.client.answers()
        assert set(consumer.told(answer)) == {7}
        end = hosted_of(bench, "t", 7).log.log_end_offset  # type: ignore[union-attr]
        assert consumer.ask({7: end}) == {}
    assert work < 300


def test_a_session_that_ends_is_heard_of_by_no_partition() -> None:
    """Forgotten partitions, ended and thrown-out sessions, fetches without a session: nothing stays subscribed."""
    bench = BrokerBench(max_incremental_fetch_session_cache_slots=2)
    bench.topic("t", partitions=3)
    first, second = Consumer(bench, 3), Consumer(bench, 3)
    client = Client(bench)
    client.send(fetch_request("t", max_wait_ms=100), 12)
    bench.advance(100)
    assert len(client.answers()) == 1
    first.client.ask(first.request({}, forgotten_topics_data=(ForgottenTopic(topic="t", partitions=(0, 1)),)), 12)
    first.epoch = -1
    first.client.ask(first.request({}), 12)
    bench.clock.now += 121_000
    Consumer(bench, 3)
    third = Consumer(bench, 3)
    assert second.client.ask(second.request({}), 12).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert third.session_id
    assert [len(hosted_of(bench, "t", index).waiters) for index in range(3)] == [2, 2, 2]
    assert bench.logs.get(TopicPartition("t", 0)) is not None


# --- what the usual request costs ---


def test_the_usual_requests_call_few_functions() -> None:
    """Work is counted, not time: a produce of one batch, and a session's fetch of one partition. The numbers only go down."""
    bench = BrokerBench()
    topic_id = bench.topic("t")
    consumer = Consumer(bench, 1, version=13, topic_id=topic_id)
    client = Client(bench)
    requests = [
        memoryview(
            framed_request(
                produce_request("t", batch(b"x" * 100), version=13, topic_id=topic_id),
                13,
                correlation_id=number,
                client_id="c",
            )
        )[4:]
        for number in range(60)
    ]
    costs = [calls_of(lambda each=each: client.connection.frame(each)) for each in requests]  # type: ignore[misc]
    assert min(costs[10:]) <= 12
    for offset in range(3):
        consumer.client.send(consumer.request({0: offset}), 13)
        assert consumer.told(consumer.client.answers()[0])[0][0] == 60
    fetch = memoryview(
        framed_request(consumer.request({0: 3}), 13, correlation_id=9, client_id="raw")  # as the bench's client does
    )[4:]
    assert calls_of(lambda: consumer.client.connection.frame(fetch)) <= 34
