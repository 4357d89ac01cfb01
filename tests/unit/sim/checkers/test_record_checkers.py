"""Made-up calls of producers and consumers: what breaks a promise is flagged, what only comes near is not."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.sim.checkers.records import ClientRecords
from headrace.sim.observation import CallEnded, CallStarted, Outcome
from headrace.sim.record_clients import is_synced
from headrace.wire.messages import fetch, produce
from tests.support.histories import Story, breaks

SYNCED, UNSYNCED = "records-0", "records-1"


class Calls:
    """Calls to node 1, one after the other."""

    def __init__(self, *, version: int = 12) -> None:
        self.story = Story(ClientRecords)
        self._version = version
        self._call = 0

    def begin(self, request: object) -> int:
        """A call begins."""
        self._call += 1
        self.story.called(CallStarted(call_id=self._call, client_id=1, request=request, api_version=self._version))
        return self._call

    def end(self, call_id: int, request: object, response: object) -> None:
        """Its response is there."""
        ended = CallEnded(call_id=call_id, client_id=1, request=request, response=response, outcome=Outcome.OK)
        self.story.called(ended)

    def produce(self, *values: bytes, at: int, topic: str = UNSYNCED, error: int = ErrorCode.NONE) -> None:
        """A batch is acknowledged at an offset."""
        request = written(topic, *values)
        self.end(self.begin(request), request, acknowledged(at, error))

    def fetch(
        self, *batches: bytes, offset: int = 0, high_watermark: int, topic: str = UNSYNCED, error: int = ErrorCode.NONE
    ) -> None:
        """A fetch shows batches."""
        request = asked(offset, topic)
        self.end(self.begin(request), request, shown(b"".join(batches), high_watermark, error))


def written(topic: str, *values: bytes) -> produce.ProduceRequest:
    data = produce.PartitionProduceData(index=0, records=batch(*values))
    return produce.ProduceRequest(acks=-1, topic_data=(produce.TopicProduceData(name=topic, partition_data=(data,)),))


def acknowledged(at: int, error: int = ErrorCode.NONE) -> produce.ProduceResponse:
    told = produce.PartitionProduceResponse(index=0, base_offset=at, error_code=error)
    return produce.ProduceResponse(responses=(produce.TopicProduceResponse(partition_responses=(told,)),))


def asked(offset: int, topic: str) -> fetch.FetchRequest:
    part = fetch.FetchPartition(partition=0, fetch_offset=offset)
    return fetch.FetchRequest(topics=(fetch.FetchTopic(topic=topic, partitions=(part,)),))


def shown(records: bytes, high_watermark: int, error: int = ErrorCode.NONE) -> fetch.FetchResponse:
    told = fetch.PartitionData(partition_index=0, high_watermark=high_watermark, records=records, error_code=error)
    return fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(partitions=(told,)),))


def batch(*values: bytes, at: int = 0) -> bytes:
    return bytes(build_batch([NewRecord(None, value) for value in values], placement=Placement(base_offset=at)))


def test_what_was_acknowledged_is_read_where_it_is() -> None:
    """inv:PR1 inv:PR2: nothing is wrong with batches that follow each other."""
    calls = Calls()
    calls.produce(b"a", b"b", at=0)
    calls.produce(b"c", at=2)
    calls.fetch(batch(b"a", b"b"), batch(b"c", at=2), high_watermark=3)
    calls.fetch(batch(b"a", b"b"), offset=1, high_watermark=3)


def test_one_offset_holds_one_record() -> None:
    """inv:P16: two acknowledged records at one offset, or another one where one was acknowledged."""
    calls = Calls()
    calls.produce(b"a", at=0)
    with breaks("P16"):
        calls.produce(b"b", at=0)


def test_a_batch_is_appended_once() -> None:
    """inv:PR4: the same record at two offsets."""
    calls = Calls()
    calls.produce(b"a", at=0)
    with breaks("PR4"):
        calls.fetch(batch(b"a"), batch(b"a", at=1), high_watermark=2)


def test_a_clock_a_day_ahead_may_have_made_a_broker_forget_its_producers() -> None:
    """KIP-98, fault:S41: what a producer sends again is stored again then, as by Kafka (`producer.id.expiration.ms`); an hour is not enough."""
    calls = Calls()
    calls.produce(b"a", at=0)
    calls.story.cluster.ahead_ms = {1: 3_600_000, 2: 10 * 86_400_000}
    with breaks("PR4"):
        calls.fetch(batch(b"a"), batch(b"a", at=1), high_watermark=2)
    calls.story.cluster.ahead_ms = {1: 86_400_000}
    calls.fetch(batch(b"a"), batch(b"a", at=1), high_watermark=2)
    with breaks("P16"):
        calls.produce(b"b", at=0)


def test_what_was_acknowledged_stays() -> None:
    """inv:PR1: the log ends below it."""
    calls = Calls()
    calls.produce(b"a", at=0)
    with breaks("PR1"):
        calls.fetch(high_watermark=-1, error=ErrorCode.OFFSET_OUT_OF_RANGE)


def test_a_high_watermark_does_not_fall() -> None:
    """inv:P7: below what was acknowledged, or what was shown."""
    calls = Calls(version=10)
    calls.fetch(high_watermark=3)
    with breaks("P7"):
        calls.fetch(high_watermark=2)


def test_a_broker_that_does_not_lead_may_know_less_of_what_is_committed() -> None:
    """KIP-392: from version 11 of Fetch on a copy may answer; its records are those of the leader all the same."""
    calls = Calls()
    calls.produce(b"a", b"b", at=0)
    calls.fetch(high_watermark=0)
    with breaks("P16"):
        calls.fetch(batch(b"b", b"a"), high_watermark=2)


def test_nothing_is_shown_above_the_high_watermark() -> None:
    """inv:P17: nor below the offset that was asked for."""
    calls = Calls()
    calls.begin(written(UNSYNCED, b"a", b"b"))
    with breaks("P17"):
        calls.fetch(batch(b"a", b"b"), high_watermark=1)
    with breaks("P17"):
        calls.fetch(batch(b"a", b"b"), offset=2, high_watermark=3)


def test_batches_follow_each_other() -> None:
    """inv:P16: no gap within a response."""
    calls = Calls()
    calls.begin(written(UNSYNCED, b"a", b"b"))
    with breaks("P16"):
        calls.fetch(batch(b"a"), batch(b"b", at=2), high_watermark=3)


def test_only_what_was_sent_is_read() -> None:
    """inv:PR2: a record that nobody wrote."""
    with breaks("PR2"):
        Calls().fetch(batch(b"never sent"), high_watermark=1)


def test_a_power_cut_takes_what_was_not_synced() -> None:
    """inv:PR1: from another topic, where each append is synced, it takes nothing that was acknowledged."""
    calls = Calls()
    calls.produce(b"a", at=0)
    calls.produce(b"b", at=0, topic=SYNCED)
    calls.story.crash(1, is_lossy=True)
    calls.story.start(1)
    calls.produce(b"c", at=0)
    with breaks("P16"):
        calls.produce(b"d", at=0, topic=SYNCED)


def test_topics_that_no_producer_made_are_taken_for_unsynced() -> None:
    """inv:PR1: a test of somebody else has names of its own; which of them are synced nobody knows here."""
    names = ("records-0", "records-1", "copied-2", "copied-3", "t", "orders-2", "records-of-2", "")
    assert [is_synced(name) for name in names] == [True, False, True, False, False, False, False, False]


def test_a_response_from_before_the_power_cut_says_nothing() -> None:
    """inv:PR1: but of a topic that is synced it still holds; a lost disk takes that, too."""
    calls = Calls()
    requests = [written(UNSYNCED, b"a"), written(SYNCED, b"b")]
    begun = [calls.begin(request) for request in requests]
    calls.story.crash(1, is_lossy=True)
    calls.story.start(1)
    for call_id, request in zip(begun, requests, strict=True):
        calls.end(call_id, request, acknowledged(0))
    calls.produce(b"c", at=0)
    with breaks("P16"):
        calls.produce(b"d", at=0, topic=SYNCED)
    calls.story.crash(1, is_disk_lost=True)
    calls.story.start(1)
    calls.produce(b"e", at=0, topic=SYNCED)
