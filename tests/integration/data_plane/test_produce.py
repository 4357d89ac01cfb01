"""What does Produce answer, in every version, for good and for bad batches?"""

from __future__ import annotations

import struct
import time

import pytest

from headrace.core.ids import Uuid
from headrace.records.compression import Codec
from headrace.records.record import ProducerStamp
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.peer import Peer, batch, fetch_request, now_ms, produce_request
from tests.support.raw import request_frame


@pytest.mark.parametrize("version", range(3, 14))
def test_every_version_appends_and_tells_the_offset(peer: Peer, topic: str, version: int) -> None:
    """S3-80, S3-85: acks 1 and all; from version 13 by topic id."""
    topic_id = peer.metadata(topic).topic_id
    for number, acks in enumerate((1, -1)):
        answer = peer.produce(topic, batch(b"a"), version=version, acks=acks, topic_id=topic_id)
        assert (answer.error_code, answer.base_offset, answer.log_append_time_ms) == (0, number, -1)
        assert answer.log_start_offset == (0 if version >= 5 else -1)


def test_acks_0_has_no_answer(peer: Peer, topic: str) -> None:
    """S3-85: the next request's answer is the next thing on the connection."""
    with peer.connect() as connection:
        connection.send(request_frame(produce_request(topic, batch(b"quiet"), acks=0), 9, 5))
        answer = connection.ask(produce_request(topic, batch(b"loud")), 9, 6)
    assert answer.responses[0].partition_responses[0].base_offset == 1


def test_an_error_with_acks_0_closes_the_connection(peer: Peer) -> None:
    """The client has no other way to learn that it must look for the leader again."""
    with peer.connect() as connection:
        connection.send(request_frame(produce_request("nobody-made-this", batch(b"x"), acks=0), 9))
        assert connection.is_closed_by_node()


@pytest.mark.parametrize("acks", [2, -2])
def test_other_acks_are_refused(peer: Peer, topic: str, acks: int) -> None:
    """S3-85: INVALID_REQUIRED_ACKS."""
    assert peer.produce(topic, batch(b"x"), acks=acks).error_code == 21


@pytest.mark.parametrize(("partition", "code"), [(9, 3), (-1, 3)])
def test_an_unknown_partition_is_refused(peer: Peer, topic: str, partition: int, code: int) -> None:
    assert peer.produce(topic, batch(b"x"), partition=partition).error_code == code


def test_an_unknown_topic_is_refused(peer: Peer) -> None:
    """B27: by name and by id."""
    assert peer.produce("nobody-made-this", batch(b"x")).error_code == 3
    assert peer.produce("", batch(b"x"), version=13, topic_id=Uuid(b"0123456789abcdef")).error_code == 100


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressed_batches_come_back_as_they_were_sent(peer: Peer, topic: str, codec: int) -> None:
    sent = batch(*(b"%03d" % number for number in range(100)), codec=codec)
    assert peer.produce(topic, sent).error_code == 0
    found = peer.ask(fetch_request(topic), 11).responses[0].partitions[0]
    assert bytes(found.records)[16:] == bytes(sent)[16:]


def test_zstd_needs_version_7(peer: Peer, topic: str) -> None:
    """KIP-110: UNSUPPORTED_COMPRESSION_TYPE below."""
    assert peer.produce(topic, batch(b"x", codec=Codec.ZSTD), version=6).error_code == 76


def spoilt(**changes: tuple[str, int, int]) -> bytearray:
    """A batch with fields overwritten (format, position, value); without a new CRC."""
    data = batch(b"x")
    for code, position, value in changes.values():
        struct.pack_into(code, data, position, value)
    return data


@pytest.mark.parametrize(
    ("records", "codes"),
    [
        (spoilt(crc=(">I", 17, 1)), {2}),
        (spoilt(magic=(">b", 16, 0)), {87, 2}),
        (spoilt(magic=(">b", 16, 3)), {87, 2}),
        (batch(b"x") + batch(b"y"), {87}),
        (bytearray(), {87}),
        (batch(b"x")[:30], {87, 2}),
        (spoilt(length=(">i", 8, 10)), {2, 87}),
    ],
    ids=["crc", "magic 0", "magic 3", "two batches", "none", "cut", "short length"],
)
def test_bad_batches_are_refused_and_nothing_is_appended(
    peer: Peer, topic: str, records: bytearray, codes: set[int]
) -> None:
    """B40, B41, B42, B44."""
    assert peer.produce(topic, records).error_code in codes
    assert peer.offset(topic, -1)[:2] == (0, 0)


def test_a_batch_above_the_topics_limit_is_refused(peer: Peer) -> None:
    """B49: MESSAGE_TOO_LARGE."""
    name = "small-batches"
    peer.create(name, max_message_bytes="1000")
    try:
        assert peer.produce(name, batch(b"x" * 2000)).error_code == 10
        assert peer.produce(name, batch(b"x" * 200)).error_code == 0
    finally:
        peer.delete(name)


def test_a_timestamp_far_in_the_future_is_refused(peer: Peer, topic: str) -> None:
    """B48: INVALID_TIMESTAMP; an hour ahead is the default limit."""
    assert peer.produce(topic, batch(b"x", timestamp=now_ms() + 2 * 3_600_000)).error_code == 32
    assert peer.produce(topic, batch(b"x", timestamp=-1)).error_code == 0


def test_log_append_time_is_told_and_stored(peer: Peer) -> None:
    """B47: the topic's clock wins over the client's."""
    name = "append-time"
    peer.create(name, message_timestamp_type="LogAppendTime")
    try:
        before = now_ms()
        answer = peer.produce(name, batch(b"x", timestamp=12345))
        assert answer.error_code == 0
        assert before - 1000 <= answer.log_append_time_ms <= now_ms() + 1000
        assert peer.offset(name, -3)[:3] == (0, 0, answer.log_append_time_ms)
    finally:
        peer.delete(name)


def test_too_few_in_sync_replicas_refuse_acks_all_only(peer: Peer) -> None:
    """S3-88: `min.insync.replicas` above the number of replicas counts as that number, so one replica is enough."""
    name = "min-isr"
    peer.create(name, min_insync_replicas="2")
    try:
        assert peer.produce(name, batch(b"x"), acks=1).error_code == 0
        assert peer.produce(name, batch(b"x"), acks=-1).error_code == 0
    finally:
        peer.delete(name)


def test_a_duplicate_is_answered_as_the_first_and_a_gap_refused(peer: Peer, topic: str) -> None:
    """B-P04: sequences of an idempotent producer. The answer to a repeated batch tells its highest timestamp as if the broker had set it."""
    first_ms = now_ms()

    def stamped(sequence: int) -> bytearray:
        producer = ProducerStamp(producer_id=777, producer_epoch=0, base_sequence=sequence)
        return batch(b"x", timestamp=first_ms + sequence, producer=producer)

    for sequence in (0, 1):
        answer = peer.produce(topic, stamped(sequence))
        assert (answer.base_offset, answer.log_append_time_ms) == (sequence, -1)
    for sequence in (0, 1):
        again = peer.produce(topic, stamped(sequence))
        assert (again.error_code, again.base_offset, again.log_append_time_ms) == (0, sequence, first_ms + sequence)
    assert peer.produce(topic, stamped(5)).error_code == 45
    assert peer.offset(topic, -1)[1] == 2


def test_a_producer_id_without_an_epoch_is_no_reason_to_refuse(peer: Peer, topic: str) -> None:
    """B46: epoch -1 is taken as any other first epoch; a sequence of -1 with a producer id is INVALID_RECORD."""

    def stamped(epoch: int, sequence: int) -> bytearray:
        return batch(b"x", producer=ProducerStamp(producer_id=778, producer_epoch=epoch, base_sequence=sequence))

    assert peer.produce(topic, stamped(-1, 0)).error_code == 0
    assert peer.produce(topic, stamped(0, -1)).error_code == 87
    assert peer.offset(topic, -1)[1] == 1


def test_a_partition_that_is_named_twice_is_written_once(peer: Peer, topic: str) -> None:
    """B24."""
    data = tuple(PartitionProduceData(index=0, records=bytes(batch(value))) for value in (b"first", b"second"))
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=(TopicProduceData(name=topic, partition_data=data),))
    answers = peer.ask(request, 9).responses[0].partition_responses
    assert [one.error_code for one in answers if not one.error_code] == [0]
    assert peer.offset(topic, -1)[:2] == (0, 1)


def test_a_transactional_batch_without_a_transactional_id_is_refused(peer: Peer, topic: str) -> None:
    """B45."""
    producer = ProducerStamp(producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    assert peer.produce(topic, batch(b"x", producer=producer)).error_code == 53


def test_internal_topics_are_closed_to_clients(peer: Peer) -> None:
    """B26: INVALID_TOPIC_EXCEPTION for `__consumer_offsets`."""
    name = "__consumer_offsets"
    deadline = time.monotonic() + 30
    while peer.metadata(name).error_code and time.monotonic() < deadline:
        peer.ask(FindCoordinatorRequest(key="a-group"), 3)  # the broker makes the topic, as wide as its settings say
    assert peer.produce(name, batch(b"x")).error_code == 17


def test_several_partitions_are_answered_each(peer: Peer, topic: str) -> None:
    """One bad partition does not hold back the others."""
    data = tuple(PartitionProduceData(index=index, records=bytes(batch(b"x"))) for index in (0, 1, 7))
    request = ProduceRequest(acks=1, timeout_ms=5_000, topic_data=(TopicProduceData(name=topic, partition_data=data),))
    answers = peer.ask(request, 9).responses[0].partition_responses
    assert {one.index: one.error_code for one in answers} == {0: 0, 1: 0, 7: 3}
