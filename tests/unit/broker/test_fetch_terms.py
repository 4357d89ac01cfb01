"""Which bounds of a fetch count when they do not fit together, and how does a session or an epoch begin?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.ids import TopicPartition
from headrace.log.ports import Appended
from headrace.records.record import ProducerStamp
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request

READ_COMMITTED = 1


def test_a_fetch_does_not_wait_for_more_than_it_may_get() -> None:
    """B-P07: `min_bytes` above `max_bytes` means as much as `max_bytes`; such a consumer would wait in vain each time."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    for _ in range(3):
        client.ask(produce_request("t", batch(b"x" * 100), acks=1), 9)
    request = fetch_request("t", max_wait_ms=60_000, min_bytes=1 << 20, max_bytes=200)
    (answer,) = client.ask(request, 11).responses
    assert len(bytes(answer.partitions[0].records)) == 200


def test_a_partition_that_has_more_than_it_may_give_is_not_waited_for() -> None:
    """B-P07: waiting brings nothing; a slice that ends with a whole batch is a little shorter than what was asked for."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    record = batch(b"x" * 1000)
    for _ in range(30):
        client.ask(produce_request("t", record, acks=1), 9)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=20_000)
    for least in (20_000, 25_000):
        request = fetch_request("t", [partition], max_wait_ms=60_000, min_bytes=least, max_bytes=25_000)
        (answer,) = client.ask(request, 11).responses
        assert 17_000 < len(bytes(answer.partitions[0].records)) <= 20_000


def test_a_fetch_at_the_end_of_a_segment_does_not_wait() -> None:
    """B-P07: an answer holds bytes of one segment; what is in the next one comes with the next fetch."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    log = bench.logs.get(TopicPartition("t", 0))
    assert log is not None
    record = batch(b"x" * 100)
    client.ask(produce_request("t", record, acks=1), 9)
    log.roll(bench.clock.now)
    client.ask(produce_request("t", record, acks=1), 9)
    request = fetch_request("t", max_wait_ms=60_000, min_bytes=len(record) + 1)
    (answer,) = client.ask(request, 11).responses
    assert len(bytes(answer.partitions[0].records)) == len(record)


def test_a_fetch_waits_for_what_it_asks_for() -> None:
    """B-P07: as long as it may get that much."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    client.ask(produce_request("t", batch(b"x" * 100), acks=1), 9)
    client.send(fetch_request("t", max_wait_ms=60_000, min_bytes=200, max_bytes=1 << 20), 11)
    assert client.answers() == []
    Client(bench).ask(produce_request("t", batch(b"x" * 100), acks=1), 9)
    assert len(client.answers()) == 1


@pytest.mark.parametrize(("room", "second"), [(99, 0), (100, 1), (150, 1), (199, 1), (200, 2)])
def test_another_partition_has_whole_batches_or_nothing(room: int, second: int) -> None:
    """B-P07, KIP-74: only the first partition with data may exceed its limit; a Java consumer that gets a part of a batch and no more gives up."""
    bench = BrokerBench()
    client = Client(bench)
    record = batch(b"x" * 100)
    for name in ("a", "b"):
        bench.topic(name)
        for _ in range(3):
            client.ask(produce_request(name, record, acks=1), 9)
    limit = len(record) * room // 100
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=limit)
    request = FetchRequest(
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=tuple(FetchTopic(topic=name, partitions=(partition,)) for name in ("a", "b")),
    )
    sizes = [len(bytes(topic.partitions[0].records)) for topic in client.ask(request, 11).responses]
    assert sizes[0] == max(limit, len(record))
    assert sizes[1] // len(record) == second
    assert sizes[1] in (0, limit)


def test_a_session_may_begin_without_partitions() -> None:
    """B-P07, KIP-227: its first request only makes it, and later ones add what is read."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    begun = client.ask(fetch_request("t", [], session_epoch=0), 11)
    assert begun.session_id > 0
    asked = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)]
    added = client.ask(fetch_request("t", asked, session_id=begun.session_id, session_epoch=1), 11)
    assert [partition.high_watermark for partition in added.responses[0].partitions] == [0]


def big(partition: int = 0, offset: int = 0) -> FetchPartition:
    """What is asked of a partition."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)


def errors(answer: Any) -> list[tuple[int, int]]:
    """(partition, error) of each."""
    return [(one.partition_index, one.error_code) for topic in answer.responses for one in topic.partitions]


def test_a_session_in_which_nothing_is_left_is_over() -> None:
    """B-P07, KIP-227: it was begun without partitions and is asked for none, or all are forgotten; what that request asks for is answered as one without a session."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    begun = client.ask(fetch_request("t", [], session_epoch=0), 11)
    over = client.ask(fetch_request("t", [], session_id=begun.session_id, session_epoch=1, max_wait_ms=60_000), 11)
    assert (over.error_code, over.session_id, over.responses) == (0, 0, ())
    assert client.ask(fetch_request("t", [big()], session_id=begun.session_id, session_epoch=2), 11).error_code == 70
    session_id = client.ask(fetch_request("t", [big(offset=1)], session_epoch=0), 11).session_id
    gone = (ForgottenTopic(topic="t", partitions=(0,)),)
    last = client.ask(
        fetch_request("t", [big()], session_id=session_id, session_epoch=1, forgotten_topics_data=gone), 11
    )
    assert (last.session_id, errors(last)) == (0, [(0, 0)])
    assert last.responses[0].partitions[0].records
    assert client.ask(fetch_request("t", [], session_id=session_id, session_epoch=2), 11).error_code == 70


@pytest.mark.parametrize("version", [12, 13])
def test_what_is_not_there_is_told_with_the_others_and_waits_with_them(version: int) -> None:
    """B-P07: else a consumer of a deleted topic would ask again and again without a pause, for as long as it reads another one. Nothing else answers at once."""
    bench = BrokerBench()
    topic_id = bench.topic("t")
    name = topic_id if version >= 13 else "t"
    client, writer = Client(bench), Client(bench)
    client.send(fetch_request(name, [big(), big(9)], session_epoch=0, max_wait_ms=60_000), version)
    assert client.answers() == []
    bench.advance(60_000)
    (begun,) = client.answers()
    assert (begun.session_id > 0, sorted(errors(begun))) == (True, [(0, 0), (9, 3)])
    session: dict[str, Any] = {"session_id": begun.session_id, "max_wait_ms": 60_000}
    client.send(fetch_request(name, [], session_epoch=1, **session), version)
    bench.advance(59_000)
    assert client.answers() == []
    writer.ask(produce_request("t", batch(b"x"), acks=1), 9)
    (woken,) = client.answers()
    assert sorted(errors(woken)) == [(0, 0), (9, 3)]
    assert errors(client.ask(fetch_request(name, [big(9), big(-1)], max_wait_ms=60_000), version)) == [(9, 3), (-1, 3)]


def test_a_session_knows_topics_by_the_names_that_they_had() -> None:
    """S1-35, KIP-516: UNKNOWN_TOPIC_OR_PARTITION once the topic is deleted, INCONSISTENT_TOPIC_ID once another one has its name; who asks anew by the old id hears UNKNOWN_TOPIC_ID."""
    bench = BrokerBench()
    old = bench.topic("t")
    client = Client(bench)
    session_id = client.ask(fetch_request(old, [big()], session_epoch=0), 13).session_id
    bench.delete("t")
    assert errors(client.ask(fetch_request(old, [], session_id=session_id, session_epoch=1), 13)) == [(0, 3)]
    new = bench.topic("t", is_another=True)
    assert errors(client.ask(fetch_request(old, [big()], session_id=session_id, session_epoch=2), 13)) == [(0, 103)]
    added = client.ask(fetch_request(new, [big()], session_id=session_id, session_epoch=3), 13)
    assert sorted(errors(added)) == [(0, 0), (0, 103)]
    assert errors(client.ask(fetch_request(old, [big()]), 13)) == [(0, 100)]
    bench.topic("t", is_another=True, replicas=(2, 3), leader=2, leader_epoch=1, partition_epoch=1)
    assert errors(client.ask(fetch_request(old, [], session_id=session_id, session_epoch=4), 13)) == [(0, 6)] * 2


def test_the_end_for_committed_reads_is_told_while_a_transaction_of_before_is_open() -> None:
    """B-P10, P7: only a high watermark below the epoch's start is kept back, not an older open transaction."""
    bench = BrokerBench()
    bench.topic("t")
    opened = batch(b"x", producer=ProducerStamp(7, 0, 0, is_transactional=True))
    log = bench.logs.get(TopicPartition("t", 0))
    assert log is not None
    assert isinstance(log.append_as_leader(memoryview(opened), leader_epoch=0, now_ms=bench.clock.now), Appended)
    bench.topic("t", leader_epoch=1, partition_epoch=1)
    asked = (ListOffsetsPartition(partition_index=0, timestamp=-1),)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=READ_COMMITTED, topics=(ListOffsetsTopic(name="t", partitions=asked),)
    )
    (told,) = Client(bench).ask(request, 7).topics[0].partitions
    assert (told.error_code, told.offset, told.leader_epoch) == (0, 0, 1)


def test_a_reader_before_the_logs_start_is_out_of_range_whatever_its_history() -> None:
    """KIP-595, B-P03: it cannot be told where to cut its log; at the log's start it can."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    for _ in range(2):
        client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    bench.topic("t", leader_epoch=2, partition_epoch=1)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    log = bench.logs.get(TopicPartition("t", 0))
    assert log is not None
    log.advance_log_start(1)
    told = []
    for offset in (0, 1):
        asked = FetchPartition(partition=0, fetch_offset=offset, last_fetched_epoch=1, partition_max_bytes=1 << 20)
        found = client.ask(fetch_request("t", [asked]), 12).responses[0].partitions[0]
        told.append((found.error_code, found.diverging_epoch.epoch, found.diverging_epoch.end_offset))
    assert told == [(1, -1, -1), (0, 0, 2)]


def test_a_replica_is_told_the_logs_end_while_clients_are_not_served() -> None:
    """S3-108, decision 19: a follower that lost its place asks for both ends; consumers are sent away (S0-15)."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2))
    client = Client(bench)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    hosted.is_withheld = True
    told = []
    for replica_id in (2, -1):
        asked = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(timestamp=-1),))
        answer = client.ask(ListOffsetsRequest(replica_id=replica_id, topics=(asked,)), 7).topics[0].partitions[0]
        told.append((answer.error_code, answer.offset))
    assert told == [(0, 1), (6, -1)]


def test_a_follower_that_begins_anew_is_told_the_high_watermark_again() -> None:
    """inv:P13, KIP-227: it took nothing of a response that came when it had another position, so the session may not take it for told."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2), isr=(1,))
    client = Client(bench)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)

    def fetch(session: int, session_epoch: int, offset: int, epoch: int = -1) -> tuple[int, list[int]]:
        """The session, and the high watermarks that a fetch of broker 2 is told."""
        asked = FetchPartition(
            partition=0, fetch_offset=offset, current_leader_epoch=epoch, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=2, replica_epoch=12),
            session_id=session,
            session_epoch=session_epoch,
            max_bytes=1 << 20,
            topics=(FetchTopic(topic_id=topic_id, partitions=(asked,)),),
        )
        answer = client.ask(request, 17)
        return answer.session_id, [one.high_watermark for each in answer.responses for one in each.partitions]

    session, told = fetch(0, 0, 1)
    assert told == [1]
    assert fetch(session, 1, 1)[1] == []
    assert fetch(session, 2, 1, 0)[1] == [1]
    assert fetch(session, 3, 1, 0)[1] == []
