"""Are requests counted, and is each stage of the timed ones what it took?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.core.holds import Hold
from headrace.core.ids import Uuid
from headrace.rpc.apis import API_TABLE, ApiRow, row_of
from headrace.rpc.connection import Connection
from headrace.rpc.context import RequestContext
from headrace.rpc.listener_service import ListenerService
from headrace.rpc.long_work import LongWork
from headrace.rpc.metering import MOST_UNTIMED, RequestMeter
from headrace.rpc.output import SendWatcher
from headrace.rpc.reply import NO_REPLY, Deferred, EncodedReply, HotResult, InSteps, Reply
from headrace.wire.codec import encode
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from headrace.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from headrace.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from headrace.wire.versions import ApiKey
from tests.support.broker_bench import Turns
from tests.support.raw import header

_BY_KEY = {api.key: api for api in API_TABLE}
PRODUCE = row_of(_BY_KEY[ApiKey.PRODUCE], "tests.support.answers", reads_raw=True)
FETCH = row_of(_BY_KEY[ApiKey.FETCH], "tests.support.answers", reads_raw=True)
METADATA = row_of(_BY_KEY[ApiKey.METADATA], "tests.support.answers")
VERSION = 12
BODY = {0: b"any", 3: encode(MetadataRequest(topics=()), VERSION)}


class Socket:
    """The socket side, on the test's clock: what is written leaves when the test says so."""

    def __init__(self) -> None:
        self.holds: set[Hold] = set()
        self.pieces: list[Any] = []
        self.stopwatch: Callable[[], float] | None = None
        self.turn_began = 0.0
        self.watchers: list[SendWatcher] = []

    def flush(self) -> None:
        """When the test says so."""

    def flush_soon(self) -> None:
        """When the test says so."""

    def keep_frame(self) -> None:
        """Views stay valid anyway."""

    def when_sent(self, watcher: SendWatcher) -> None:
        """Remember."""
        self.watchers.append(watcher)

    def hold(self, reason: Hold) -> None:
        """Deliver no more."""
        self.holds.add(reason)

    def release(self, reason: Hold) -> None:
        """Deliver again."""
        self.holds.discard(reason)

    def close(self, reason: str) -> None:
        """No test comes to this."""
        raise AssertionError(reason)

    abort = close


class Bench:
    """A measured connection; a handler takes `handling_s` and gives `answer`."""

    def __init__(self, turns: Turns | None = None) -> None:
        self.now_s = 100.0
        self.socket = Socket()
        self.meter = RequestMeter(lambda: self.now_s)
        self.handling_s = 0.003
        self.answer: Callable[[], HotResult] = lambda: EncodedReply((b"done",))
        self.connection = Connection(
            ListenerService(
                listener="L",
                rows={0: PRODUCE, 1: FETCH, 3: METADATA},
                target=self._answer,
                now_ms=lambda: 5,
                refuses={},
                meter=self.meter,
                long_work=LongWork(soon=None, clock=lambda: 0.0) if turns is None else turns.work,
            ),
            self.socket,
            client_host="h",
            connection_id=1,
        )

    def _answer(self, request: object, context: RequestContext) -> HotResult:
        self.now_s += self.handling_s
        return self.answer()

    def ask(self, row: ApiRow, *, body: bytes | None = None, version: int = VERSION) -> int:
        """A request arrives, and was read `turn_began`; its size."""
        frame = header(row, version, 7) + (BODY[row.key] if body is None else body)
        self.connection.frame(memoryview(frame))
        return len(frame)

    def send(self, took_s: float = 0.0) -> None:
        """What is written leaves."""
        watchers, self.socket.watchers = self.socket.watchers, []
        for each in watchers:
            each.sending()
        self.now_s += took_s
        for each in watchers:
            assert each.sent()

    def totals(self, request: str) -> dict[str, float]:
        """Milliseconds of each stage, of all that were timed."""
        times = self.meter.times[request]
        stages = ("total", "queued", "local", "remote", "response_queue", "sending")
        return {stage: round(getattr(times, stage).total, 6) for stage in stages}


def test_each_stage_is_what_it_took() -> None:
    """RequestMetrics: read, begun, handled, ready, sent: the stages, and the total is their sum."""
    bench = Bench()
    late = Deferred()
    bench.answer = lambda: late
    bench.socket.turn_began = bench.now_s - 0.001
    size = bench.ask(PRODUCE)
    bench.now_s += 0.020
    late.complete(EncodedReply((b"done",)))
    bench.now_s += 0.005
    bench.send(took_s=0.007)
    stages = {"queued": 1.0, "local": 3.0, "remote": 20.0, "response_queue": 5.0, "sending": 7.0}
    assert bench.totals("Produce") == {"total": sum(stages.values()), **stages}
    assert bench.meter.times["Produce"].bytes.total == size
    assert [(each.request, each.version, each.count) for each in bench.meter.counts.values()] == [
        ("Produce", VERSION, 1)
    ]


def test_an_answer_behind_a_late_one_waits_to_be_sent() -> None:
    """B-W07: it is ready at once, and leaves after the one before it."""
    bench = Bench()
    late = Deferred()
    bench.answer = lambda: late
    bench.socket.turn_began = bench.now_s
    bench.ask(PRODUCE)
    bench.answer = lambda: Reply(MetadataResponse(brokers=(), topics=()))
    bench.socket.turn_began = bench.now_s
    bench.ask(METADATA)
    bench.now_s += 0.050
    late.complete(EncodedReply((b"done",)))
    bench.send()
    assert bench.totals("Metadata")["response_queue"] == 50.0
    assert bench.totals("Metadata")["remote"] == 0.0
    assert bench.totals("Produce")["remote"] == 53.0


def test_what_is_answered_in_turns_is_work_of_the_node() -> None:
    """A long answer waits for nobody else: its turns count as local."""
    turns = Turns()
    bench = Bench(turns)

    def steps() -> Any:
        yield None
        bench.now_s += 0.004
        return Reply(MetadataResponse(brokers=(), topics=()))

    bench.answer = lambda: InSteps(steps())
    bench.socket.turn_began = bench.now_s
    bench.ask(METADATA)
    turns.run()
    bench.send()
    assert bench.totals("Metadata") == {
        "total": 7.0, "queued": 0.0, "local": 7.0, "remote": 0.0, "response_queue": 0.0, "sending": 0.0,
    }  # fmt: skip


def test_of_many_requests_some_are_timed_and_stand_for_the_others() -> None:
    """All are counted; at most MOST_UNTIMED in a row are not timed, and the weights add up."""
    bench = Bench()
    bench.handling_s = 0.000_010
    timed = 0
    for _ in range(10_000):
        bench.socket.turn_began = bench.now_s
        bench.ask(PRODUCE)
        timed += len(bench.socket.watchers)
        bench.send()
    [counts] = bench.meter.counts.values()
    assert counts.count == 10_000
    assert 10_000 - MOST_UNTIMED <= bench.meter.times["Produce"].total.count <= 10_000
    assert timed < 10_000 / MOST_UNTIMED + 10
    assert bench.totals("Produce")["local"] == pytest.approx(100.0, rel=0.01)


def test_requests_that_come_seldom_are_all_timed() -> None:
    """Also after a burst, at the latest from the second on."""
    bench = Bench()
    for gap_s in [0.0] * 1_000 + [1.0] * (MOST_UNTIMED + 100):
        bench.now_s += gap_s
        bench.ask(PRODUCE)
        bench.send()
    counted = bench.meter.times["Produce"].total
    before = counted.count
    bench.now_s += 1.0
    bench.ask(PRODUCE)
    bench.send()
    assert counted.count == before + 1 == 1_000 + MOST_UNTIMED + 101


def test_a_produce_without_an_answer_is_timed() -> None:
    """acks=0: nothing is sent, and the socket side says so."""
    bench = Bench()
    bench.answer = lambda: NO_REPLY
    bench.ask(PRODUCE)
    assert len(bench.socket.watchers) == 1
    assert bench.socket.pieces == []


def fetch_body(replica_id: int, version: int, partitions: int) -> bytes:
    """A Fetch of a replica, or of a consumer (-1)."""
    parts = tuple(FetchPartition(partition=number, partition_max_bytes=1) for number in range(partitions))
    state = ReplicaState(replica_id=replica_id, replica_epoch=-1 if replica_id < 0 else 3)
    is_new, name, topic_id = version >= 15, "t" if version < 13 else "", Uuid(b"t" * 16)
    request = FetchRequest(
        replica_id=-1 if is_new else replica_id,
        replica_state=state if is_new else ReplicaState(),
        max_wait_ms=1,
        topics=(FetchTopic(topic=name, topic_id=topic_id, partitions=parts),),
        forgotten_topics_data=() if version < 7 else (ForgottenTopic(topic=name, topic_id=topic_id),),
    )
    return encode(request, version)


@pytest.mark.parametrize("partitions", [1, 5_000])
@pytest.mark.parametrize("version", [4, 12, 14, 15, 17])
def test_fetches_are_told_apart(version: int, partitions: int) -> None:
    """Kafka's FetchConsumer and FetchFollower, and both together; also of so many partitions that a request is not read at once."""
    bench = Bench()
    for replica_id in (-1, 2):
        bench.connection._hot.clear()
        for _ in range(3):
            bench.ask(FETCH, body=fetch_body(replica_id, version, partitions), version=version)
            bench.send()
            bench.now_s += 1.0
    counted = {each.request: each.count for each in bench.meter.counts.values()}
    assert counted == {"FetchConsumer": 3, "FetchFollower": 3}
    assert bench.meter.shown_times()["Fetch"].total.count == 6


def test_errors_are_counted_by_request_and_code() -> None:
    """ErrorsPerSec: of what an answer names; what is well is not counted."""
    meter = RequestMeter(lambda: 0.0)
    topics = (CreatableTopicResult(name="a", error_code=36), CreatableTopicResult(name="b"))
    meter.answered(ApiKey.CREATE_TOPICS, CreateTopicsResponse(topics=topics))
    partitions = (MetadataResponsePartition(error_code=5), MetadataResponsePartition())
    named = (
        MetadataResponseTopic(name="a", partitions=partitions),
        MetadataResponseTopic(name="b", error_code=3),
    )
    meter.answered(ApiKey.METADATA, MetadataResponse(brokers=(), topics=named))
    meter.answered(ApiKey.METADATA, MetadataResponse(brokers=(), topics=named[1:]))
    assert meter.errors == {("CreateTopics", 36): 1, ("Metadata", 5): 1, ("Metadata", 3): 2}
