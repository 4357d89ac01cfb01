"""Do batches go out in order, once, and what becomes of those that fail?"""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from headrace.client.producer import MAX_FLYING_BATCHES, ProduceMachine, ProducerIdentity, SendProduce
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.records.batch import crc_is_right, read_header
from headrace.records.record import NewRecord, build_batch
from headrace.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.conversation import TOPIC_ID, knowing

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
SEVEN = ProducerIdentity(producer_id=7, producer_epoch=0)


def batch(count: int = 1) -> bytearray:
    return build_batch([NewRecord(None, b"v", 5)] * count)


def machine(*, leaders: tuple[int, ...] = (1,), is_idempotent: bool = True, acks: int = -1) -> ProduceMachine:
    made = ProduceMachine(knowing(leaders=leaders), acks=acks, is_idempotent=is_idempotent)
    if is_idempotent:
        assert made.needs_identity
        made.identified(SEVEN)
    return made


def known_machine(*, leaders: tuple[int, ...] = (1,)) -> ProduceMachine:
    """One whose first batch, of one record, is acknowledged in each partition: the brokers know its producer id."""
    made = machine(leaders=leaders)
    for partition in range(len(leaders)):
        made.add(TopicPartition("t", partition), batch())
    for send in sends(made):
        made.answered(send, answer(*(done(where.partition, 0) for where in send.batches)), 13)
    return made


def sends(made: ProduceMachine) -> list[SendProduce]:
    found: list[SendProduce] = []
    while new := made.sends(is_free=lambda leader: True):
        found += new
    return found


def answer(*parts: PartitionProduceResponse) -> ProduceResponse:
    return ProduceResponse(responses=(TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=parts),))


def done(index: int, offset: int, **more: Any) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, base_offset=offset, **more)


def stamp_of(send: SendProduce, partition: int = 0) -> tuple[int, int, int]:
    (data,) = [
        part.records
        for topic in send.request.build(13).topic_data
        for part in topic.partition_data
        if part.index == partition
    ]
    assert data is not None
    header = read_header(data)
    assert crc_is_right(data, header)
    return header.producer_id, header.producer_epoch, header.base_sequence


def test_kip_98_batches_carry_the_producers_id_and_rising_sequences() -> None:
    """KIP-98: the sequence of a batch is the count of records before it in its partition."""
    made = known_machine(leaders=(1, 1))
    for count in (3, 2):
        made.add(T0, batch(count))
    made.add(T1, batch())
    found = sends(made)
    assert [stamp_of(send) for send in found] == [(7, 0, 1), (7, 0, 4)]
    assert stamp_of(found[0], 1) == (7, 0, 1)


def test_the_first_batch_under_a_producer_id_flies_alone() -> None:
    """KIP-98: a broker without state of a producer takes any sequence, so a second batch could overtake a first one that must go again."""
    made = machine()
    for _ in range(3):
        made.add(T0, batch())
    (first,) = sends(made)
    made.answered(first, answer(done(0, -1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)), 13)
    made._session.now_ms += 10_000
    made._session.cluster.learn_leader(T0, leader=1, leader_epoch=2)
    (again,) = sends(made)
    assert stamp_of(again) == (7, 0, 0)
    made.answered(again, answer(done(0, 0)), 13)
    assert [stamp_of(send) for send in sends(made)] == [(7, 0, 1), (7, 0, 2)]


def test_sequences_wrap_after_the_last_positive_number() -> None:
    """KIP-98: sequences wrap from 2^31 - 1 to 0."""
    made = machine()
    made.add(T0, batch())
    (first,) = sends(made)
    made.answered(first, answer(done(0, 0)), 13)
    made._lanes[T0].next_sequence = 2**31 - 1
    made.add(T0, batch(2))
    made.add(T0, batch())
    assert [stamp_of(send) for send in sends(made)] == [(7, 0, 2**31 - 1), (7, 0, 1)]


def test_at_most_five_batches_of_a_partition_fly() -> None:
    """A broker remembers the last five batches of a producer."""
    made = known_machine()
    for _ in range(8):
        made.add(T0, batch())
    found = sends(made)
    assert len(found) == MAX_FLYING_BATCHES
    made.answered(found[0], answer(done(0, 0)), 13)
    assert len(sends(made)) == 1


def test_after_a_failure_everything_goes_again_in_order_with_the_same_sequences() -> None:
    """KIP-98: the broker drops what it has, so repeating in order neither loses nor doubles."""
    made = known_machine()
    deliveries = [made.add(T0, batch()) for _ in range(3)]
    first, second, third = sends(made)
    made.answered(first, answer(done(0, -1, error_code=ErrorCode.NOT_ENOUGH_REPLICAS)), 13)
    assert sends(made) == []
    made.answered(second, answer(done(0, -1, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)), 13)
    made.lost(third, "cut")
    made._session.now_ms += 10_000
    made._session.cluster.learn_leader(T0, leader=1, leader_epoch=2)
    again = sends(made)
    assert [stamp_of(send) for send in again] == [(7, 0, 1), (7, 0, 2), (7, 0, 3)]
    for offset, send in enumerate(again):
        made.answered(send, answer(done(0, offset)), 13)
    assert [(each.is_done, each.base_offset, each.error) for each in deliveries] == [
        (True, 0, None),
        (True, 1, None),
        (True, 2, None),
    ]
    assert not made.has_work


def test_a_duplicate_was_written_before_and_counts_as_delivered() -> None:
    """DUPLICATE_SEQUENCE_NUMBER: the broker has the batch."""
    made = machine()
    delivery = made.add(T0, batch())
    (send,) = sends(made)
    made.answered(send, answer(done(0, -1, error_code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER)), 13)
    assert (delivery.is_done, delivery.error) == (True, None)


def test_a_batch_refused_for_good_ends_the_identity_and_the_rest_goes_on_under_a_new_one() -> None:
    """Sequences behind a refused batch would be out of order for ever."""
    made = known_machine()
    refused, following = made.add(T0, batch()), made.add(T0, batch())
    first, second = sends(made)
    made.answered(first, answer(done(0, -1, error_code=ErrorCode.MESSAGE_TOO_LARGE)), 13)
    made.answered(second, answer(done(0, -1, error_code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)), 13)
    assert refused.error is not None
    assert refused.error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert made.needs_identity
    made.identified(ProducerIdentity(producer_id=8, producer_epoch=0))
    made._session.now_ms += 10_000
    (again,) = sends(made)
    assert stamp_of(again) == (8, 0, 0)
    made.answered(again, answer(done(0, 4)), 13)
    assert following.base_offset == 4
    assert made.first_error is refused.error


def test_a_producer_the_broker_forgot_starts_anew() -> None:
    """UNKNOWN_PRODUCER_ID: retention took all that the broker knew of the producer."""
    made = machine()
    delivery = made.add(T0, batch())
    (send,) = sends(made)
    made.answered(send, answer(done(0, -1, error_code=ErrorCode.UNKNOWN_PRODUCER_ID)), 13)
    assert (delivery.is_done, made.needs_identity) == (False, True)


def test_kip_951_the_new_leader_in_the_answer_is_used() -> None:
    """KIP-951: NOT_LEADER_OR_FOLLOWER names the leader, so no metadata request is needed."""
    made = machine(is_idempotent=False)
    made.add(T0, batch())
    (send,) = sends(made)
    hint = LeaderIdAndEpoch(leader_id=2, leader_epoch=7)
    made.answered(send, answer(done(0, -1, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint)), 13)
    assert made.topics_without_leader() == []
    made._session.now_ms += 10_000
    (again,) = sends(made)
    assert again.leader == 2


def test_acks_0_is_done_when_it_is_written() -> None:
    """There will be no answer."""
    made = machine(is_idempotent=False, acks=0)
    delivery = made.add(T0, batch())
    (send,) = sends(made)
    made.answered(send, None, 0)
    assert (delivery.is_done, delivery.base_offset) == (True, -1)


def test_b29_an_answer_without_the_partition_is_an_error() -> None:
    """B29: the delivery must not wait for ever."""
    made = machine(is_idempotent=False)
    delivery = made.add(T0, batch())
    (send,) = sends(made)
    made.answered(send, answer(), 13)
    assert delivery.error is not None
    assert delivery.error.code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_batch_that_cannot_be_sent_in_time_fails() -> None:
    """`delivery.timeout.ms` ends the waiting for a leader."""
    made = machine(leaders=(-1,), is_idempotent=False)
    delivery = made.add(T0, batch())
    assert made.topics_without_leader() == ["t"]
    assert sends(made) == []
    made._session.now_ms += 200_000
    made.expire(PeerError(ErrorCode.REQUEST_TIMED_OUT))
    assert delivery.error is not None
    assert delivery.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert not made.has_work


def test_a_topic_that_may_not_be_seen_fails_its_batches_at_once() -> None:
    """An error of metadata that will not pass."""
    made = machine(is_idempotent=False)
    delivery = made.add(TopicPartition("secret", 0), batch())
    made.refused("secret", PeerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert delivery.error is not None
    assert not made.has_work


def test_topics_are_named_up_to_version_12_and_go_by_id_after_it() -> None:
    """KIP-516: Produce 13 names topics by id."""
    made = machine(is_idempotent=False)
    made.add(T0, batch())
    (send,) = sends(made)
    by_name, by_id = send.request.build(12).topic_data[0], send.request.build(13).topic_data[0]
    assert (by_name.name, by_name.topic_id) == ("t", bytes(16))
    assert (by_id.name, by_id.topic_id) == ("", TOPIC_ID)
    assert struct.unpack_from(">q", by_id.partition_data[0].records)[0] == 0


def test_an_answer_about_a_topic_that_was_forgotten_still_finds_its_batch() -> None:
    """A topic deleted and made again while batches fly: the first answer must not make the second one unreadable."""
    made = machine(is_idempotent=False)
    deliveries = [made.add(T0, batch()), made.add(T0, batch())]
    first, second = sends(made)
    made.answered(first, answer(done(0, -1, error_code=ErrorCode.UNKNOWN_TOPIC_ID)), 13)
    assert "t" not in made._session.cluster.topics
    made.answered(second, answer(done(0, 8)), 13)
    assert [(each.is_done, each.base_offset) for each in deliveries] == [(False, -1), (True, 8)]
    assert made.topics_without_leader() == []
    made._session.now_ms += 10_000
    assert made.topics_without_leader() == ["t"]
    assert made.queued_bytes == len(batch())


@pytest.mark.parametrize("is_idempotent", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_bytes_that_wait_are_counted_as_they_come_and_go(*, seed: int, is_idempotent: bool) -> None:
    """Asked before each send, whatever happens to batches in between; the slow way is to look at all of them, which costs the queue."""
    rng = random.Random(seed)
    made = machine(leaders=(1, 2), is_idempotent=is_idempotent)
    under_way: list[SendProduce] = []
    retriable = PeerError(ErrorCode.LEADER_NOT_AVAILABLE)
    for _ in range(300):
        match rng.randrange(7):
            case 0 | 1:
                made.add(rng.choice((T0, T1)), batch(rng.randrange(1, 5)))
            case 2:
                if not made.needs_identity:
                    under_way += made.sends(is_free=lambda leader: rng.random() < 0.7)
                else:
                    made.identified(SEVEN)
            case 3 if under_way:
                send = under_way.pop(0)
                made.answered(send, answer(*(done(where.partition, 0) for where in send.batches)), 13)
            case 4 if under_way:
                made.lost(under_way.pop(rng.randrange(len(under_way))), "gone")
                made._session.cluster.leaders.update({T0: (1, 0), T1: (2, 0)})
            case 5:
                made._session.now_ms += rng.choice((1, 1_000, 50_000))
                made.expire(PeerError(ErrorCode.REQUEST_TIMED_OUT))
            case _:
                error = rng.choice((retriable, PeerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
                made.refused("t", error)
        slow = sum(len(queued.batch) for lane in made._lanes.values() for queued in lane.waiting)
        assert made.queued_bytes == slow
