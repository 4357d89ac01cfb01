"""What becomes of a producer's batches behind one that was refused for the moment?"""

from __future__ import annotations

import pytest

from headrace.broker.refused_batches import REMEMBERED_MS, EarlyBatches, ProducerPlace
from headrace.broker.walks import MAX_WAITING_BYTES, WalkJob
from headrace.core.error_code import ErrorCode
from headrace.records.batch import set_offset_and_epoch
from headrace.records.compression import Codec
from headrace.records.record import ProducerStamp
from tests.support.broker_bench import BrokerBench, Client
from tests.support.filling_disk import FillingDisk
from tests.support.peer import batch, produce_request

NONE, TOO_FEW, ELSEWHERE, OUT_OF_ORDER, FULL, LATE = (
    ErrorCode.NONE,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
)
LARGE = b"x" * 300_000
"""Opened by a thread, where its topic wants another codec than the producer's."""


class Producer:
    """An idempotent producer, whose requests wait for all in-sync replicas."""

    def __init__(self, bench: BrokerBench, producer_id: int = 7) -> None:
        self._client = Client(bench)
        self._producer_id = producer_id

    def send(self, sequence: int, *, epoch: int = 0, acks: int = -1) -> int:
        """One record; the error."""
        self.begin(sequence, b"%d" % sequence, epoch=epoch, acks=acks)
        (error,) = self.errors()
        return error

    def begin(self, sequence: int, value: bytes, *, epoch: int = 0, acks: int = -1) -> None:
        """The same, whose answer may come later."""
        records = batch(value, codec=Codec.GZIP, producer=ProducerStamp(self._producer_id, epoch, sequence))
        self._client.send(produce_request("kept", records, acks=acks), 9)

    def errors(self) -> list[int]:
        """Of the answers that have come."""
        return [each.responses[0].partition_responses[0].error_code for each in self._client.answers()]


def alone(bench: BrokerBench) -> None:
    """This broker leads with a follower that is not in sync, and `min.insync.replicas` is 2."""
    bench.topic("kept", replicas=(1, 2), isr=(1,))
    bench.configure("kept", min_insync_replicas="2")


def enough(bench: BrokerBench) -> None:
    """One replica is enough from now on."""
    bench.configure("kept", min_insync_replicas="1")


@pytest.mark.parametrize("known", [True, False])
def test_what_was_in_flight_behind_a_refused_batch_is_refused_for_the_same_reason(*, known: bool) -> None:
    """inv:E1 inv:E2 PR4: the replicas are back between two requests of one client: the second is not out of order, nor taken before the first."""
    bench = BrokerBench()
    alone(bench)
    enough(bench)
    producer, other = Producer(bench), Producer(bench, 8)
    first = 0
    if known:
        assert [producer.send(each) for each in range(5)] == [NONE] * 5
        first = 5
    bench.configure("kept", min_insync_replicas="2")
    assert producer.send(first) == TOO_FEW
    enough(bench)
    assert [producer.send(first + each) for each in (1, 2, 3, 4)] == [TOO_FEW] * 4
    assert other.send(0) == NONE
    assert [producer.send(first + each) for each in range(5)] == [NONE] * 5
    assert bench.broker.partitions.by_name["kept", 0].refused is None
    assert producer.send(first + 6) == OUT_OF_ORDER


def test_a_batch_that_came_before_the_broker_led_holds_back_those_behind_it() -> None:
    """inv:E1: NOT_LEADER_OR_FOLLOWER for all that a client sent before it heard of the first."""
    bench = BrokerBench()
    bench.topic("kept", leader=2, replicas=(1, 2), isr=(1, 2))
    producer = Producer(bench)
    assert producer.send(0) == ELSEWHERE
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=1, partition_epoch=1)
    assert [producer.send(each) for each in (1, 2)] == [ELSEWHERE] * 2
    assert [producer.send(each) for each in range(3)] == [NONE] * 3


def test_a_batch_that_came_by_another_leader_holds_nothing_back() -> None:
    """inv:E1: refused here, taken by the leader and copied from it; then this broker leads."""
    bench = BrokerBench()
    bench.topic("kept", leader=2, replicas=(1, 2), isr=(1, 2))
    producer = Producer(bench)
    assert producer.send(0) == ELSEWHERE
    log = bench.broker.partitions.by_name["kept", 0].log
    assert log is not None
    copied = batch(b"0", producer=ProducerStamp(7, 0, 0))
    log.append_as_follower(memoryview(copied), leader_epoch=0, now_ms=bench.clock.wall_ms())
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=1, partition_epoch=1)
    assert [producer.send(each) for each in (1, 2)] == [NONE] * 2


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_copy_that_is_behind_the_refused_batch_waits_for_it(epoch: int) -> None:
    """inv:E1: what came before it, perhaps the beginning of its epoch, is copied from the leader meanwhile; then this broker leads."""
    bench = BrokerBench()
    bench.topic("kept", leader=2, replicas=(1, 2), isr=(2,))
    producer = Producer(bench)
    log = bench.broker.partitions.by_name["kept", 0].log
    assert log is not None
    first = 2 - epoch
    for at, stamp in enumerate([ProducerStamp(7, 0, 0), ProducerStamp(7, epoch, first - 1)]):
        copied = batch(b"%d" % at, producer=stamp)
        set_offset_and_epoch(copied, 0, at, 0)
        log.append_as_follower(memoryview(copied), leader_epoch=0, now_ms=bench.clock.wall_ms())
        if not at:
            assert [producer.send(first + each, epoch=epoch) for each in (0, 1)] == [ELSEWHERE] * 2
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=1, partition_epoch=1)
    assert producer.send(first + 2, epoch=epoch) == ELSEWHERE
    assert [producer.send(first + each, epoch=epoch) for each in range(3)] == [NONE] * 3


def test_a_batch_that_never_comes_again_holds_others_back_for_a_while_only() -> None:
    """inv:E1: its client gave it up; a new epoch is a new beginning at once."""
    bench = BrokerBench()
    alone(bench)
    producer, other = Producer(bench), Producer(bench, 8)
    assert (producer.send(0), other.send(0)) == (TOO_FEW, TOO_FEW)
    enough(bench)
    assert producer.send(1) == TOO_FEW
    assert producer.send(0, epoch=1) == NONE
    bench.advance(REMEMBERED_MS - 1)
    assert other.send(1) == TOO_FEW
    bench.advance(1)
    assert other.send(1) == NONE


def test_a_partition_has_its_quick_way_back_when_the_time_is_over() -> None:
    """M5: those who write to it have no place in any order; the producer of the refused batch is gone."""
    bench = BrokerBench()
    bench.topic("kept", leader=2, replicas=(1, 2), isr=(1, 2))
    assert Producer(bench).send(0) == ELSEWHERE
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=1, partition_epoch=1)
    hosted = bench.broker.partitions.by_name["kept", 0]
    for waits_ms, is_remembered in ((REMEMBERED_MS - 1, True), (1, False)):
        bench.advance(waits_ms)
        Client(bench).send(produce_request("kept", batch(b"plain")), 9)
        assert (hosted.refused is not None) == is_remembered


def test_a_batch_that_is_repeated_from_before_the_refused_one_changes_nothing() -> None:
    """inv:E1 inv:E2: the client did not hear that it was written."""
    bench = BrokerBench()
    alone(bench)
    enough(bench)
    producer = Producer(bench)
    assert producer.send(0) == NONE
    bench.configure("kept", min_insync_replicas="2")
    assert producer.send(1) == TOO_FEW
    enough(bench)
    assert producer.send(0) == NONE
    assert producer.send(2) == TOO_FEW
    assert [producer.send(each) for each in (1, 2)] == [NONE] * 2


def test_a_former_epoch_changes_nothing() -> None:
    """inv:E1 inv:E3: a request of it that was late is neither held back nor remembered."""
    bench = BrokerBench()
    alone(bench)
    producer = Producer(bench)
    assert producer.send(0, epoch=2) == TOO_FEW
    assert producer.send(7, epoch=1) == TOO_FEW
    enough(bench)
    assert producer.send(9, epoch=1) == NONE
    assert producer.send(1, epoch=2) == TOO_FEW
    assert [producer.send(each, epoch=2) for each in (0, 1)] == [NONE] * 2


def test_few_producers_are_remembered() -> None:
    """M1: each of ten thousand has one batch refused."""
    bench = BrokerBench()
    alone(bench)
    for number in range(10_000):
        assert Producer(bench, number).send(0) == TOO_FEW
    refused = bench.broker.partitions.by_name["kept", 0].refused
    assert refused is not None
    assert len(refused) <= 16


def test_a_batch_for_which_there_was_no_room_holds_back_those_behind_it() -> None:
    """fault:S59 inv:E1: there is room again before the next batch."""
    disk = FillingDisk()
    bench = BrokerBench(disk=disk)
    alone(bench)
    enough(bench)
    producer = Producer(bench)
    assert producer.send(0) == NONE
    disk.is_full = True
    assert producer.send(1) == FULL
    disk.is_full = False
    assert [producer.send(each) for each in (2, 3)] == [FULL] * 2
    assert [producer.send(each) for each in (1, 2, 3)] == [NONE] * 3


def test_a_batch_that_is_refused_when_it_was_opened_holds_back_those_behind_it() -> None:
    """inv:E1 inv:E2: meanwhile another broker led for a moment; what comes behind it is not out of order, nor taken before it."""
    bench = BrokerBench()
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,))
    bench.configure("kept", compression_type="zstd")
    opened: list[WalkJob] = []
    bench.broker.walks.begin = opened.append
    producer = Producer(bench)
    producer.begin(0, LARGE)
    bench.topic("kept", leader=2, replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1)
    (job,) = opened
    job.run(iter)
    job.finish()
    assert producer.errors() == [ELSEWHERE]
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=2, partition_epoch=2)
    assert [producer.send(each) for each in (1, 2)] == [ELSEWHERE] * 2
    assert [producer.send(each) for each in range(3)] == [NONE] * 3


def test_a_batch_that_comes_again_and_is_being_opened_holds_back_those_behind_it() -> None:
    """inv:E1: on another connection, say; it is not taken yet."""
    bench = BrokerBench()
    alone(bench)
    bench.configure("kept", compression_type="zstd", min_insync_replicas="2")
    opened: list[WalkJob] = []
    bench.broker.walks.begin = opened.append
    producer, again = Producer(bench), Producer(bench)
    assert producer.send(0) == TOO_FEW
    bench.configure("kept", compression_type="zstd")
    again.begin(0, LARGE)
    assert producer.send(1) == TOO_FEW
    (job,) = opened
    job.run(iter)
    job.finish()
    assert again.errors() == [NONE]
    assert producer.send(1) == NONE


def test_a_batch_that_is_one_too_many_to_be_opened_holds_back_those_behind_it() -> None:
    """inv:E1 inv:E2: others have so much opened that it is told to come later; the next one would be the first that the log knows of its producer."""
    bench = BrokerBench()
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,))
    bench.configure("kept", compression_type="zstd")
    producer = Producer(bench)
    bench.broker.walks.waiting_bytes = MAX_WAITING_BYTES
    assert producer.send(0) == LATE
    bench.broker.walks.waiting_bytes = 0
    assert producer.send(1) == LATE
    assert [producer.send(each) for each in (0, 1)] == [NONE] * 2


def test_a_batch_that_came_before_its_partition_holds_back_those_behind_it() -> None:
    """inv:E1 inv:E2: a new topic, of which another broker told first; the second batch was taken, and the first never."""
    bench = BrokerBench()
    producer = Producer(bench)
    assert producer.send(0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,))
    assert [producer.send(each) for each in (1, 2)] == [ELSEWHERE] * 2
    assert [producer.send(each) for each in range(3)] == [NONE] * 3
    assert bench.broker.partitions.by_name["kept", 0].refused is None


def test_what_was_refused_long_ago_hides_no_other_batch() -> None:
    """inv:E1: the first was written elsewhere meanwhile; what is behind another one now is held back."""
    bench = BrokerBench()
    producer = Producer(bench)
    assert producer.send(0) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.advance(REMEMBERED_MS)
    assert producer.send(5) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    bench.topic("kept", leader=1, replicas=(1, 2), isr=(1,))
    assert [producer.send(each) for each in (6, 7)] == [ELSEWHERE] * 2
    assert [producer.send(each) for each in (5, 6, 7)] == [NONE] * 3


def test_few_partitions_that_are_not_here_are_remembered() -> None:
    """M1: ten thousand names that no topic has, one of them too long to be one; by name and by id the partition is the same."""
    early = EarlyBatches()
    for number in range(10_000):
        early.note(f"none-{number}", 0, ProducerPlace(7, 0, 0), 0)
    early.note("x" * 250, 0, ProducerPlace(7, 0, 0), 0)
    assert len(early) <= 256
    assert early.take("none-1", bytes(16), 0) is None
    early.note(b"id-of-a-topic..1", 0, ProducerPlace(7, 0, 0), 0)
    assert early.take("none-9999", b"id-of-a-topic..1", 0) is not None
    assert early.take("none-9999", b"id-of-a-topic..1", 0) is None
