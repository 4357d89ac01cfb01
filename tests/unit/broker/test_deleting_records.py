"""When is a deletion of records answered, and what is refused? (DeleteRecords, KIP-107)"""

from __future__ import annotations

from typing import Any

from headrace.core.ids import Uuid
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request


def deletion(*partitions: tuple[int, int], topic: str = "t", timeout_ms: int = 30_000) -> DeleteRecordsRequest:
    """Of (partition, offset)."""
    asked = tuple(DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in partitions)
    return DeleteRecordsRequest(topics=(DeleteRecordsTopic(name=topic, partitions=asked),), timeout_ms=timeout_ms)


def outcomes(answer: Any) -> list[tuple[int, int, int]]:
    """(partition, error, low watermark) of each."""
    return [(one.partition_index, one.error_code, one.low_watermark) for one in answer.topics[0].partitions]


class Replicated:
    """A topic on three brokers that holds one record everywhere."""

    def __init__(self) -> None:
        self.bench = BrokerBench()
        self.topic_id = self.bench.topic("t", replicas=(1, 2, 3))
        self.client = Client(self.bench)
        self._replicas = {number: Client(self.bench) for number in (2, 3)}
        self.client.ask(produce_request("t", batch(b"x"), acks=1), 9)
        for number in self._replicas:
            self.follow(number, log_start=0)

    def follow(self, number: int, *, log_start: int) -> None:
        """A replica asks for what comes behind the record, and says where its own log begins."""
        partition = FetchPartition(
            partition=0, fetch_offset=1, log_start_offset=log_start, current_leader_epoch=0, partition_max_bytes=1 << 20
        )
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=number, replica_epoch=10 + number),
            max_bytes=1 << 20,
            session_epoch=-1,
            topics=(FetchTopic(topic_id=Uuid(self.topic_id), partitions=(partition,)),),
        )
        answer = self._replicas[number].ask(request, 15)
        assert answer.responses[0].partitions[0].error_code == 0


def test_the_answer_leaves_as_soon_as_every_replica_begins_there() -> None:
    """KIP-107, B-P03: the fetch that tells of the later beginning wakes it, though no high watermark moves."""
    cluster = Replicated()
    cluster.client.send(deletion((0, 1)), 2)
    assert cluster.client.answers() == []
    cluster.follow(2, log_start=1)
    assert cluster.client.answers() == []
    cluster.follow(3, log_start=1)
    assert [outcomes(answer) for answer in cluster.client.answers()] == [[(0, 0, 1)]]


def test_a_replica_on_a_fenced_broker_is_not_waited_for() -> None:
    """KIP-107, B-P03: what comes back later takes over the leader's beginning with its first fetch."""
    cluster = Replicated()
    cluster.bench.register(3, fenced=True)
    cluster.client.send(deletion((0, 1)), 2)
    cluster.follow(2, log_start=1)
    assert [outcomes(answer) for answer in cluster.client.answers()] == [[(0, 0, 1)]]


def test_at_the_deadline_the_replicas_that_are_behind_are_an_error() -> None:
    """KIP-107: REQUEST_TIMED_OUT, with where the last of them began; the records are gone from the leader all the same."""
    cluster = Replicated()
    cluster.client.send(deletion((0, 1), timeout_ms=1_000), 2)
    cluster.bench.advance(1_000)
    assert [outcomes(answer) for answer in cluster.client.answers()] == [[(0, 7, 0)]]
    assert cluster.bench.broker.log_bounds("t", 0) == (1, 1, 1)


def test_a_partition_that_comes_twice_is_answered_once() -> None:
    """input:B24: the last one counts, as in Kafka."""
    bench = BrokerBench()
    bench.topic("t")
    client = Client(bench)
    client.ask(produce_request("t", batch(b"x"), acks=1), 9)
    assert outcomes(client.ask(deletion((0, 99), (0, 1)), 2)) == [(0, 0, 1)]


def test_internal_topics_are_refused_wherever_they_are_led() -> None:
    """input:B26: INVALID_TOPIC_EXCEPTION; a partition that does not exist is unknown first."""
    bench = BrokerBench()
    bench.topic("__consumer_offsets", leader=2, replicas=(2,))
    client = Client(bench)
    answer = client.ask(deletion((0, 0), (9, 0), topic="__consumer_offsets"), 2)
    assert outcomes(answer) == [(0, 17, -1), (9, 3, -1)]
