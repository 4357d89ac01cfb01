"""A request that begins as an earlier one did: whatever has changed between the two, it is answered as if it were the first."""

from __future__ import annotations

import pytest

from headrace.broker import partitions
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.produce import PartitionProduceResponse
from tests.support.broker_bench import BrokerBench, Client
from tests.support.filling_disk import FillingDisk
from tests.support.peer import batch, produce_request

ATTRIBUTES, TRANSACTIONAL = 22, 0x10
VERSIONS = (7, 8, 9, 12, 13)


class Producer:
    """Sends batches to one partition, always with the same bytes before them."""

    def __init__(self, bench: BrokerBench, topic_id: Uuid, version: int, *, acks: int = 1) -> None:
        self.client = Client(bench)
        self.topic_id = topic_id
        self.version = version
        self.acks = acks

    def send(self, records: bytes | bytearray | None = None) -> PartitionProduceResponse:
        by_id = self.version >= 13
        request = produce_request(
            "" if by_id else "t",
            batch(b"x") if records is None else records,
            version=self.version,
            acks=self.acks,
            topic_id=self.topic_id if by_id else ZERO_UUID,
        )
        answer: PartitionProduceResponse = self.client.ask(request, self.version).responses[0].partition_responses[0]
        return answer


@pytest.mark.parametrize("version", VERSIONS)
def test_offsets_go_on_and_each_answer_is_whole(version: int) -> None:
    """B-W01: the second request and those after it say the same as the first, but for the offset."""
    bench = BrokerBench()
    producer = Producer(bench, bench.topic("t"), version)
    answers = [producer.send() for _ in range(4)]
    assert [each.base_offset for each in answers] == [0, 1, 2, 3]
    assert [each.error_code for each in answers] == [ErrorCode.NONE] * 4
    assert len(bench.broker.partitions.produce_routes.by_head[version]) == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_gone_is_gone(version: int) -> None:
    """P14, B-K01: a route ends with its partition; one of the same name that comes later is another one."""
    bench = BrokerBench()
    producer = Producer(bench, bench.topic("t"), version)
    producer.send()
    producer.send()
    bench.delete("t")
    gone = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert producer.send().error_code == gone
    bench.topic("t")
    assert [producer.send().base_offset for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_that_is_led_elsewhere_refuses(version: int) -> None:
    """P14: leadership is asked for each request; it may come back."""
    bench = BrokerBench()
    producer = Producer(bench, bench.topic("t", replicas=(1, 2), isr=(1,)), version)
    producer.send()
    producer.send()
    bench.topic("t", leader=2, replicas=(1, 2), isr=(1, 2), leader_epoch=1, partition_epoch=1)
    assert producer.send().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.topic("t", leader=1, replicas=(1, 2), isr=(1,), leader_epoch=2, partition_epoch=2)
    assert producer.send().base_offset == 2


def test_a_withheld_partition_refuses() -> None:
    """S0-15: another broker may lead it by now."""
    bench = BrokerBench()
    producer = Producer(bench, bench.topic("t"), 9)
    producer.send()
    hosted = bench.broker.partitions.by_name["t", 0]
    hosted.is_withheld = True
    assert producer.send().error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    hosted.is_withheld = False
    assert producer.send().base_offset == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_all_replicas_are_waited_for_as_soon_as_there_are_some(version: int) -> None:
    """P10: acks=all, first with the leader alone in sync, then not."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2), isr=(1,))
    producer = Producer(bench, topic_id, version, acks=-1)
    assert [producer.send().base_offset for _ in range(2)] == [0, 1]
    bench.topic("t", replicas=(1, 2), isr=(1, 2), partition_epoch=1)
    by_id = version >= 13
    request = produce_request(
        "" if by_id else "t", batch(b"x"), version=version, topic_id=topic_id if by_id else ZERO_UUID
    )
    producer.client.send(request, version)
    assert producer.client.answers() == []


def test_what_is_wrong_with_a_batch_is_said() -> None:
    """B41, B45, B50: too short, of a transaction, damaged; the log stays as it is."""
    bench = BrokerBench()
    producer = Producer(bench, bench.topic("t"), 9)
    producer.send()
    damaged = batch(b"x")
    damaged[-1] ^= 1
    of_a_transaction = batch(b"x")
    of_a_transaction[ATTRIBUTES] |= TRANSACTIONAL
    assert producer.send(damaged).error_code == ErrorCode.CORRUPT_MESSAGE
    assert producer.send(of_a_transaction).error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    first = Producer(bench, producer.topic_id, 8).send(b"too short")
    assert producer.send(b"too short").error_code == first.error_code != ErrorCode.NONE
    assert producer.send().base_offset == 1


def test_a_full_disk_refuses_and_is_not_remembered() -> None:
    """D10: the error is said each time, and when there is room again the next batch follows the last one."""
    disk = FillingDisk()
    bench = BrokerBench(disk=disk)
    producer = Producer(bench, bench.topic("t"), 9)
    producer.send()
    disk.is_full = True
    assert [producer.send().error_code for _ in range(2)] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    disk.is_full = False
    assert producer.send().base_offset == 1


def test_heads_take_a_bounded_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """M5: a client can name another timeout each time."""
    monkeypatch.setattr(partitions, "_MOST_HEADS", 8)
    bench = BrokerBench()
    client = Client(bench)
    bench.topic("t")
    for timeout_ms in range(50):
        request = produce_request("t", batch(b"x"), acks=1)
        object.__setattr__(request, "timeout_ms", timeout_ms)
        (answer,) = client.ask(request, 9).responses[0].partition_responses
        assert answer.base_offset == timeout_ms
        assert len(bench.broker.partitions.produce_routes.by_head[9]) <= 8
