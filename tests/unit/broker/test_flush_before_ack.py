"""`flush.messages`: is a record acknowledged, or shown, before it is synced?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headrace.broker.log_syncs import LogSync
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.broker.test_replicated_partitions import fetched, follower_fetch, produced


class Bench(BrokerBench):
    """Syncs are ordered and wait until `sync` does them."""

    def __init__(self, *, every: int, replicas: tuple[int, ...] = (1,)) -> None:
        super().__init__(log_flush_interval_messages=every)
        self.ordered: list[LogSync] = []
        self.broker.log_syncs.begin = self.ordered.append
        self.broker.log_syncs.on_fault = self._fail
        self.topic_id = self.topic("kept", replicas=replicas)

    def sync(self) -> None:
        """Do the oldest."""
        sync = self.ordered.pop(0)
        sync.prepare()
        sync.run()
        sync.finish()

    def _fail(self, fault: StorageFault) -> None:
        """As the node does it."""
        hosted = self.broker.partitions.get("kept", 0)
        assert hosted is not None
        self.broker.lost_log(hosted)


def offsets(answers: Sequence[Any]) -> list[tuple[int, int]]:
    """(error, base offset) each."""
    return [produced(answer) for answer in answers]


@pytest.mark.parametrize("acks", [1, -1])
def test_the_append_that_reaches_the_count_is_synced_before_it_is_acknowledged(acks: int) -> None:
    """As in Kafka, where the append itself flushes; neither the answer nor a consumer comes before."""
    bench = Bench(every=3)
    client = Client(bench)
    for number in range(2):
        assert produced(client.ask(produce_request("kept", batch(b"a"), acks=acks), 9)) == (0, number)
    assert bench.ordered == []
    client.send(produce_request("kept", batch(b"c"), acks=acks), 9)
    shown = fetched(Client(bench).ask(fetch_request("kept"), 11))
    assert (client.answers(), shown.high_watermark, len(bench.ordered)) == ([], 2, 1)
    bench.sync()
    assert offsets(client.answers()) == [(0, 2)]
    assert fetched(Client(bench).ask(fetch_request("kept"), 11)).high_watermark == 3


def test_all_that_wait_share_one_sync() -> None:
    """One sync for what was appended before it began, one more for all that came while it ran."""
    bench = Bench(every=1)
    clients = [Client(bench) for _ in range(4)]
    for client in clients[:2]:
        client.send(produce_request("kept", batch(b"a"), acks=1), 9)
    (sync,) = bench.ordered
    sync.prepare()
    for client in clients[2:]:
        client.send(produce_request("kept", batch(b"b"), acks=1), 9)
    sync.run()
    sync.finish()
    assert [offsets(client.answers()) for client in clients] == [[(0, 0)], [(0, 1)], [], []]
    assert len(bench.ordered) == 2
    bench.ordered.pop(0)
    bench.sync()
    assert [offsets(client.answers()) for client in clients[2:]] == [[(0, 2)], [(0, 3)]]
    assert bench.ordered == []


def test_several_batches_of_one_connection_are_answered_in_order_by_one_sync() -> None:
    """Ten in flight cost one sync."""
    bench = Bench(every=1)
    client = Client(bench)
    for _ in range(10):
        client.send(produce_request("kept", batch(b"a"), acks=1), 9)
    assert (client.answers(), len(bench.ordered)) == ([], 1)
    bench.sync()
    assert offsets(client.answers()) == [(0, number) for number in range(10)]


def test_a_sync_that_fails_fails_those_who_wait_for_it() -> None:
    """The directory goes offline and the write is answered with KAFKA_STORAGE_ERROR, never with success."""
    bench = Bench(every=1)
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a"), acks=1), 9)
    bench.ordered.pop().failed(StorageFault("no more", directory="/data"))
    assert [produced(answer)[0] for answer in client.answers()] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_followers_do_not_commit_what_the_leader_has_not_synced() -> None:
    """The leader counts for the high watermark with what it may acknowledge."""
    bench = Bench(every=1, replicas=(1, 2))
    client, follower = Client(bench), Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    assert fetched(follower.ask(follower_fetch(bench.topic_id, 1), 15)).high_watermark == 0
    assert client.answers() == []
    bench.sync()
    assert offsets(client.answers()) == [(0, 0)]


def test_the_flush_of_the_log_lane_acknowledges_too() -> None:
    """`flush.ms`, a roll or retention may sync first: who waits need not wait for a second sync."""
    bench = Bench(every=1)
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a"), acks=1), 9)
    ((log, job),) = bench.logs.flush_jobs_due(bench.clock.now)
    job.run()
    bench.broker.log_syncs.flushed(log, job)
    assert offsets(client.answers()) == [(0, 0)]


@pytest.mark.parametrize("is_prepared_first", [True, False])
def test_what_comes_between_two_syncs_that_overlap_is_synced_too(is_prepared_first: bool) -> None:
    """A flush of the log's lane may acknowledge first, while the ordered sync runs or just before: then that sync's end sees to what came since."""
    bench = Bench(every=3)
    clients = [Client(bench) for _ in range(4)]
    for client in clients[:3]:
        client.send(produce_request("kept", batch(b"a"), acks=1), 9)
    ((log, job),) = bench.logs.flush_jobs_due(bench.clock.now)
    (sync,) = bench.ordered
    job.run()
    if is_prepared_first:
        sync.prepare()
    else:
        bench.broker.log_syncs.flushed(log, job)
        sync.prepare()
    for client in (*clients[3:], *(Client(bench) for _ in range(2))):
        client.send(produce_request("kept", batch(b"b"), acks=1), 9)
    if is_prepared_first:
        bench.broker.log_syncs.flushed(log, job)
    sync.run()
    sync.finish()
    bench.ordered.pop(0)
    assert len(bench.ordered) == 1
    bench.sync()
    shown = fetched(Client(bench).ask(fetch_request("kept"), 11))
    assert (offsets(clients[3].answers()), shown.high_watermark, bench.ordered) == ([(0, 3)], 6, [])


def test_a_produce_without_an_answer_is_synced_and_then_shown() -> None:
    """acks=0 waits for nothing; consumers do."""
    bench = Bench(every=1)
    client, consumer = Client(bench), Client(bench)
    client.send(produce_request("kept", batch(b"a"), acks=0), 9)
    consumer.send(fetch_request("kept", max_wait_ms=5_000), 11)
    assert consumer.answers() == []
    bench.sync()
    (shown,) = consumer.answers()
    assert (client.outbox.closed_because, fetched(shown).high_watermark) == (None, 1)


def test_without_the_setting_nothing_waits() -> None:
    """Kafka's default: the page cache is enough, replication is the safety."""
    bench = Bench(every=2**63 - 1)
    assert produced(Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)) == (0, 0)
    assert bench.ordered == []
