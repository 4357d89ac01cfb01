"""What do clients see of partitions with several replicas, and of partitions that are led elsewhere?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.broker.ports import InternalAppend
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsResponse
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    ResponsePartitionData,
    ResponseTopicData,
)
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from headrace.wire.messages.init_producer_id import InitProducerIdRequest
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request


def follower_fetch(topic_id: Uuid, offset: int, *, replica: int = 2, epoch: int = 12, wait_ms: int = 0) -> FetchRequest:
    """A replica's fetch (version 15 and later)."""
    partition = FetchPartition(
        partition=0, current_leader_epoch=0, fetch_offset=offset, log_start_offset=0, partition_max_bytes=1 << 20
    )
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch),
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_epoch=-1,
        topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),),
    )


def produced(answer: Any) -> tuple[int, int]:
    """(error, base offset)."""
    one = answer.responses[0].partition_responses[0]
    return one.error_code, one.base_offset


def fetched(answer: Any) -> Any:
    """The one partition."""
    return answer.responses[0].partitions[0]


@pytest.mark.parametrize("version", [9, 10, 12, 13])
def test_a_produce_at_the_wrong_broker_is_told_the_right_one(version: int) -> None:
    """S3-79, KIP-951: NOT_LEADER_OR_FOLLOWER, from version 10 with leader and address."""
    bench = BrokerBench()
    topic_id = bench.topic("far", leader=2, replicas=(2, 3), leader_epoch=7)
    answer = Client(bench).ask(produce_request("far", batch(b"x"), version=version, topic_id=topic_id), version)
    one = answer.responses[0].partition_responses[0]
    assert one.error_code == 6
    hint = (one.current_leader.leader_id, one.current_leader.leader_epoch)
    nodes = [(node.node_id, node.host, node.port) for node in answer.node_endpoints]
    assert (hint, nodes) == (((2, 7), [(2, "host-2", 9002)]) if version >= 10 else ((-1, -1), []))


@pytest.mark.parametrize("version", [12, 15, 16, 18])
def test_a_fetch_at_the_wrong_broker_is_told_the_right_one(version: int) -> None:
    """S3-104, KIP-951: from version 16 with leader and address."""
    bench = BrokerBench()
    topic_id = bench.topic("far", leader=2, replicas=(2, 3), leader_epoch=7)
    answer = Client(bench).ask(fetch_request(topic_id if version >= 13 else "far"), version)
    assert fetched(answer).error_code == 6
    hint = (fetched(answer).current_leader.leader_id, fetched(answer).current_leader.leader_epoch)
    nodes = [(node.node_id, node.port) for node in answer.node_endpoints]
    assert (hint, nodes) == (((2, 7), [(2, 9002)]) if version >= 16 else ((-1, -1), []))


def test_acks_all_waits_for_the_in_sync_replicas() -> None:
    """S3-81, S3-85: acks=1 is answered at once, acks=all when the follower's fetch says that it has the record."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client, follower = Client(bench), Client(bench)
    assert produced(client.ask(produce_request("kept", batch(b"a"), acks=1), 9)) == (0, 0)
    client.send(produce_request("kept", batch(b"b")), 9)
    assert client.answers() == []
    assert fetched(follower.ask(follower_fetch(topic_id, 0), 15)).high_watermark == 0
    assert client.answers() == []
    follower.send(follower_fetch(topic_id, 2, wait_ms=500), 15)
    assert [produced(answer) for answer in client.answers()] == [(0, 1)]


def test_consumers_see_nothing_above_the_high_watermark() -> None:
    """P17: written, but not on every in-sync replica."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    shown = fetched(client.ask(fetch_request("kept"), 11))
    assert (shown.high_watermark, bytes(shown.records)) == (0, b"")
    client.send(fetch_request("kept", max_wait_ms=5_000), 11)
    Client(bench).ask(follower_fetch(topic_id, 1), 15)
    (woken,) = client.answers()
    assert fetched(woken).high_watermark == 1
    assert bytes(fetched(woken).records)


def test_a_write_that_is_not_replicated_in_time_times_out() -> None:
    """REQUEST_TIMED_OUT after the request's own `timeout_ms` (5,000 here); the record stays."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    bench.advance(4_999)
    assert client.answers() == []
    bench.advance(1)
    assert [produced(answer)[0] for answer in client.answers()] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_write_is_answered_when_its_leader_has_gone() -> None:
    """P15, S3-90: the old leader acknowledges nothing after the new epoch."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    bench.topic("kept", leader=2, replicas=(1, 2), leader_epoch=1, partition_epoch=1)
    assert [produced(answer)[0] for answer in client.answers()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_too_few_in_sync_replicas_refuse_a_write() -> None:
    """S3-88: NOT_ENOUGH_REPLICAS before the append, nothing is written; acks=1 is not asked."""
    bench = BrokerBench(min_insync_replicas=2)
    bench.topic("kept", replicas=(1, 2), isr=(1,))
    client = Client(bench)
    refused = client.ask(produce_request("kept", batch(b"a")), 9)
    assert produced(refused) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    assert refused.responses[0].partition_responses[0].log_start_offset == 0
    assert produced(client.ask(produce_request("kept", batch(b"a"), acks=1), 9)) == (0, 0)


def test_a_coordinators_append_counts_when_the_high_watermark_has_passed_it() -> None:
    """G4, S3-88: it waits while the ISR is too small; NOT_ENOUGH_REPLICAS is told only where nothing was written."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    bench.configure("kept", min_insync_replicas="2")
    outcomes: list[InternalAppend] = []
    bench.broker.append_internal("kept", 0, batch(b"a"), outcomes.append)
    bench.topic("kept", replicas=(1, 2), isr=(1,), partition_epoch=1)
    assert outcomes == []
    bench.broker.append_internal("kept", 0, batch(b"b"), outcomes.append)
    assert (outcomes.pop().error, bench.broker.log_bounds("kept", 0)) == (ErrorCode.NOT_ENOUGH_REPLICAS, (0, 0, 1))
    bench.configure("kept", min_insync_replicas="1")
    assert outcomes == [InternalAppend(ErrorCode.NONE, 0, 0)]


def test_who_waits_for_a_commit_hears_that_the_leadership_ended() -> None:
    """B28: once, NOT_LEADER_OR_FOLLOWER; a partition that is not led here says so at once."""
    bench = BrokerBench()
    bench.topic("kept", replicas=(1, 2))
    outcomes: list[InternalAppend] = []
    waits: list[ErrorCode] = []
    bench.broker.append_internal("kept", 0, batch(b"a"), outcomes.append)
    bench.broker.when_committed("kept", 0, 1, waits.append)
    bench.topic("kept", leader=2, replicas=(1, 2), leader_epoch=1)
    bench.broker.when_committed("kept", 0, 1, waits.append)
    assert [each.error for each in outcomes] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert waits == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2


def test_replies_keep_the_order_of_pipelined_requests() -> None:
    """B-W07: an acks=1 produce behind an acks=all one is done at once and answered after it."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    client.send(produce_request("kept", batch(b"b"), acks=1), 9)
    assert client.answers() == []
    assert not client.outbox.holds
    Client(bench).ask(follower_fetch(topic_id, 1), 15)
    assert [produced(answer) for answer in client.answers()] == [(0, 0), (0, 1)]


def test_the_number_of_waiting_produces_is_bounded() -> None:
    """M4: `headrace.max.requests.in.flight`; then the listener delivers no more until some are answered."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench, max_in_flight=3)
    for number in range(3):
        assert not client.outbox.holds
        client.send(produce_request("kept", batch(b"%d" % number)), 9)
    assert client.outbox.holds
    Client(bench).ask(follower_fetch(topic_id, 3), 15)
    assert len(client.answers()) == 3
    assert not client.outbox.holds


def test_a_waiting_fetch_holds_back_the_next_request() -> None:
    """One request at a time, as Kafka: the listener delivers the next when the first is answered."""
    bench = BrokerBench()
    bench.topic("quiet")
    client = Client(bench)
    client.send(fetch_request("quiet", max_wait_ms=500), 11)
    assert client.outbox.holds
    bench.advance(500)
    assert len(client.answers()) == 1
    assert client.outbox.resumed == 1


def test_a_connection_that_goes_leaves_nothing_waiting() -> None:
    """M5."""
    bench = BrokerBench()
    bench.topic("quiet")
    client = Client(bench)
    client.send(fetch_request("quiet", max_wait_ms=500), 11)
    assert len(bench.broker.purgatory) == 1
    client.connection.closed()
    assert len(bench.broker.purgatory) == 0


def test_a_stranger_does_not_pass_for_a_replica() -> None:
    """K47: a replica id that the partition does not have is UNKNOWN_LEADER_EPOCH and moves nothing."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    assert fetched(client.ask(follower_fetch(topic_id, 1, replica=3), 15)).error_code == 75
    hosted = bench.broker.partitions.get("kept", 0)
    assert hosted is not None
    assert hosted.log is not None
    assert hosted.log.high_watermark == 0


def high_watermark(bench: BrokerBench, topic: str) -> int:
    hosted = bench.broker.partitions.get(topic, 0)
    assert hosted is not None
    assert hosted.log is not None
    return hosted.log.high_watermark


@pytest.mark.parametrize("epoch", [13, (1 << 63) - 1])
def test_an_incarnation_that_nobody_registered_counts_for_nothing_and_bars_nobody(epoch: int) -> None:
    """B-P08, KIP-903: one forged fetch in a later epoch must not make the real follower, whose epoch is 12, a thing of the past."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    forged = fetched(client.ask(follower_fetch(topic_id, 1, epoch=epoch), 15))
    assert (forged.error_code, high_watermark(bench, "kept")) == (0, 0)
    client.ask(follower_fetch(topic_id, 1), 15)
    assert high_watermark(bench, "kept") == 1


@pytest.mark.parametrize("epoch", [0, 11])
def test_a_former_incarnation_is_told_at_once_that_it_follows_nobody(epoch: int) -> None:
    """P14, KIP-903: NOT_LEADER_OR_FOLLOWER from a leader that knows of the later epoch, 12, whatever its fetch would have brought; it counts for nothing."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.ask(produce_request("kept", batch(b"a"), acks=1), 9)
    for offset in (0, 1):
        former = replace(follower_fetch(topic_id, offset, epoch=epoch), max_wait_ms=60_000)
        answer = fetched(client.ask(former, 16))
        assert (answer.error_code, answer.records, answer.current_leader.leader_id) == (6, b"", 1)
    assert high_watermark(bench, "kept") == 0
    assert fetched(client.ask(follower_fetch(topic_id, 2, epoch=epoch), 16)).error_code == 1
    bench.register(2, fenced=True)
    assert fetched(client.ask(follower_fetch(topic_id, 1, epoch=epoch), 16)).error_code == 0


def test_an_incarnation_counts_as_soon_as_metadata_know_it() -> None:
    """KIP-903, KIP-227: also where its fetch session had nothing more to say of the partition."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2))
    Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)
    follower = Client(bench)
    first = replace(follower_fetch(topic_id, 1, epoch=13), session_epoch=0)
    session = follower.ask(first, 15).session_id
    assert session
    assert follower.ask(replace(first, session_id=session, session_epoch=1, topics=()), 15).error_code == 0
    assert high_watermark(bench, "kept") == 0
    bench.register(2, broker_epoch=13)
    assert follower.ask(replace(first, session_id=session, session_epoch=2, topics=()), 15).error_code == 0
    assert high_watermark(bench, "kept") == 1


def test_a_caught_up_follower_is_proposed_to_the_controller_and_counts_when_that_agrees() -> None:
    """S3-86, S3-87, B-P08: AlterPartition with broker epochs."""
    bench = BrokerBench()
    bench.broker.isr_changes.broker_epoch = 11
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    Client(bench).ask(follower_fetch(topic_id, 0), 15)
    answer = AlterPartitionResponse(
        topics=(
            ResponseTopicData(
                topic_id=topic_id,
                partitions=(ResponsePartitionData(partition_index=0, leader_id=1, isr=(1, 2), partition_epoch=1),),
            ),
        )
    )
    request = bench.controller.answer(answer)
    assert isinstance(request, AlterPartitionRequest)
    wanted = request.topics[0].partitions[0].new_isr_with_epochs
    assert [(one.broker_id, one.broker_epoch) for one in wanted] == [(1, 11), (2, 12)]
    hosted = bench.broker.partitions.get("kept", 0)
    assert hosted is not None
    assert hosted.leader is not None
    assert hosted.leader.isr == (1, 2)
    assert (bench.broker.isr_changes.expands, bench.broker.isr_changes.shrinks) == (1, 0)


def kept_up(bench: BrokerBench, topic_id: Uuid, *, rounds: int) -> None:
    """A record is written before each fetch of broker 2 arrives, so that this never has all; up to `rounds` records."""
    hosted = bench.broker.partitions.by_id[topic_id, 0]
    assert hosted.log is not None
    for _ in range(rounds):
        had = hosted.log.log_end_offset
        Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)
        Client(bench).ask(follower_fetch(topic_id, had), 15)


def committed(bench: BrokerBench, topic_id: Uuid) -> tuple[int, int]:
    """That of the partition, and its log's end."""
    log = bench.broker.partitions.by_id[topic_id, 0].log
    assert log is not None
    return log.high_watermark, log.log_end_offset


def test_a_follower_is_let_in_though_writes_never_pause() -> None:
    """S3-86, P8: what is committed waits for one that keeps up; a leader that is alone would run away from it with each write."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    kept_up(bench, topic_id, rounds=5)
    ((request, _, _),) = bench.controller.asked
    assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1, 2]


@pytest.mark.parametrize("how", ["fenced", "silent", "stopping"])
def test_what_is_committed_waits_no_longer_for_a_follower_that_has_gone(how: str) -> None:
    """P8, KIP-841: before it was in the ISR, nobody needs it."""
    bench = BrokerBench(replica_lag_time_max_ms=1_000)
    topic_id = bench.topic("kept", replicas=(1, 2, 3), isr=(1,))
    kept_up(bench, topic_id, rounds=2)
    client = Client(bench)
    client.send(produce_request("kept", batch(b"b")), 9)
    assert client.answers() == []
    if how == "silent":
        bench.clock.now += 1_001
        bench.broker.shrink_isrs(bench.clock.now)
    else:
        bench.register(2, **({"fenced": True} if how == "fenced" else {"in_controlled_shutdown": True}))
    assert [produced(answer) for answer in client.answers()] == [(0, 2)]
    assert committed(bench, topic_id) == (3, 3)


def test_what_is_committed_waits_for_no_follower_that_is_far_behind() -> None:
    """P8: not for one that has not had everything yet, though the leader has only begun; nor for the next process of one that had."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    for _ in range(3):
        Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)
        Client(bench).ask(follower_fetch(topic_id, 0), 15)
    assert committed(bench, topic_id) == (3, 3)
    kept_up(bench, topic_id, rounds=1)
    Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)
    assert committed(bench, topic_id) == (4, 5)
    bench.register(2, broker_epoch=13)
    Client(bench).ask(follower_fetch(topic_id, 0, epoch=13), 15)
    assert committed(bench, topic_id) == (5, 5)
    Client(bench).ask(produce_request("kept", batch(b"a"), acks=1), 9)
    assert committed(bench, topic_id) == (6, 6)


def test_an_isr_that_metadata_told_first_is_counted_as_a_change_too() -> None:
    """IsrExpandsPerSec: the metadata log may be quicker than the response to AlterPartition."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    Client(bench).ask(follower_fetch(topic_id, 0), 15)
    bench.topic("kept", replicas=(1, 2), isr=(1, 2), partition_epoch=1)
    part = ResponsePartitionData(partition_index=0, leader_id=1, isr=(1, 2), partition_epoch=1)
    topic = ResponseTopicData(topic_id=topic_id, partitions=(part,))
    bench.controller.answer(AlterPartitionResponse(topics=(topic,)))
    assert (bench.broker.isr_changes.expands, bench.broker.isr_changes.shrinks) == (1, 0)


def test_an_older_incarnation_of_a_follower_is_not_proposed() -> None:
    """KIP-903, K19."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    Client(bench).ask(follower_fetch(topic_id, 0, epoch=5), 15)
    assert bench.controller.asked == []


def test_laggards_are_proposed_to_leave_and_a_failed_proposal_is_repeated() -> None:
    """S3-82: the high watermark waits until the controller has agreed."""
    bench = BrokerBench(replica_lag_time_max_ms=1_000)
    bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    bench.clock.now += 1_001
    bench.broker.shrink_isrs(bench.clock.now)
    bench.controller.answer(AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER))
    assert client.answers() == []
    bench.advance(100)
    hosted = bench.broker.partitions.get("kept", 0)
    assert hosted is not None
    topic = ResponseTopicData(
        topic_id=hosted.topic_id,
        partitions=(ResponsePartitionData(partition_index=0, leader_id=1, isr=(1,), partition_epoch=1),),
    )
    bench.controller.answer(AlterPartitionResponse(topics=(topic,)))
    assert [produced(answer) for answer in client.answers()] == [(0, 0)]


def test_a_proposal_whose_response_is_lost_is_repeated_before_replicas_must_be_in_sync_again() -> None:
    """inv:PL1: all replicas are in sync within 15 s once the network is whole; a response that was lost just before must not take twice as long."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    Client(bench).ask(follower_fetch(topic_id, 0), 15)
    assert bench.controller.last_deadline_ms - bench.clock.now <= 10_000
    first = bench.controller.answer(AlterPartitionResponse(error_code=ErrorCode.REQUEST_TIMED_OUT))
    bench.advance(100)
    ((again, _, _),) = bench.controller.asked
    assert again.topics == first.topics


def test_a_proposal_that_failed_for_its_partition_alone_is_repeated() -> None:
    """S3-82, inv:P5: the request as a whole was answered; this change may have been taken or not."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2), isr=(1,))
    Client(bench).ask(follower_fetch(topic_id, 0), 15)
    failed = ResponsePartitionData(partition_index=0, error_code=ErrorCode.NOT_CONTROLLER)
    topics = (ResponseTopicData(topic_id=topic_id, partitions=(failed,)),)
    first = bench.controller.answer(AlterPartitionResponse(topics=topics))
    assert bench.controller.asked == []
    bench.advance(100)
    ((again, _, _),) = bench.controller.asked
    assert again.topics == first.topics


def test_a_deleted_topic_answers_those_who_wait_for_it() -> None:
    """S1-37: at once, not at the end of their wait."""
    bench = BrokerBench()
    topic_id = bench.topic("going")
    by_name, by_id = Client(bench), Client(bench)
    by_name.send(fetch_request("going", max_wait_ms=60_000), 11)
    by_id.send(fetch_request(topic_id, max_wait_ms=60_000), 13)
    bench.delete("going")
    assert [fetched(answer).error_code for answer in by_name.answers()] == [3]
    assert [fetched(answer).error_code for answer in by_id.answers()] == [3]
    assert bench.logs.get(("going", 0)) is None  # type: ignore[arg-type]


def test_a_producer_waits_for_a_block_of_ids() -> None:
    """B-P04, KIP-730: one question for a block, however many wait."""
    bench = BrokerBench()
    clients = [Client(bench) for _ in range(3)]
    for client in clients:
        client.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 4)
    assert len(bench.controller.asked) == 1
    bench.controller.answer(AllocateProducerIdsResponse(producer_id_start=1000, producer_id_len=2))
    bench.controller.answer(AllocateProducerIdsResponse(producer_id_start=5000, producer_id_len=1000))
    ids = [answer.producer_id for client in clients for answer in client.answers()]
    assert ids == [1000, 1001, 5000]


def test_a_proposed_member_counts_though_the_answer_to_an_older_proposal_comes_late() -> None:
    """P9, P5, S3-81: the metadata tell that 2 joined before the controller's answer does; by then 3 is proposed."""
    bench = BrokerBench()
    topic_id = bench.topic("kept", replicas=(1, 2, 3), isr=(1,))
    client, second, third = Client(bench), Client(bench), Client(bench)
    second.ask(follower_fetch(topic_id, 0), 15)
    bench.topic("kept", replicas=(1, 2, 3), isr=(1, 2), partition_epoch=1)
    third.ask(follower_fetch(topic_id, 0, replica=3, epoch=13), 15)
    taken = ResponsePartitionData(partition_index=0, leader_id=1, isr=(1, 2), partition_epoch=1)
    bench.controller.answer(AlterPartitionResponse(topics=(ResponseTopicData(topic_id=topic_id, partitions=(taken,)),)))
    ((request, _, _),) = bench.controller.asked
    wanted = request.topics[0].partitions[0].new_isr_with_epochs
    assert [one.broker_id for one in wanted] == [1, 2, 3]
    client.send(produce_request("kept", batch(b"a")), 9)
    second.ask(follower_fetch(topic_id, 1), 15)
    assert client.answers() == []
    third.ask(follower_fetch(topic_id, 1, replica=3, epoch=13), 15)
    assert [produced(answer) for answer in client.answers()] == [(0, 0)]


def test_a_follower_that_asks_in_another_session_is_known_by_that() -> None:
    """S3-82, KIP-16: a follower's former session, which forgets the partition later, takes nothing from the one that has it now."""
    bench = BrokerBench(replica_lag_time_max_ms=1_000)
    topic_id = bench.topic("t", replicas=(1, 2))
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.leader is not None
    follower = Client(bench)

    def fetch(session_id: int, epoch: int, *, asks: bool = False, forgets: bool = False) -> int:
        full = follower_fetch(topic_id, 0)
        request = replace(
            full,
            session_id=session_id,
            session_epoch=epoch,
            topics=full.topics if asks else (),
            forgotten_topics_data=(ForgottenTopic(topic_id=topic_id, partitions=(0,)),) if forgets else (),
        )
        told: int = follower.ask(request, 17).session_id
        return told

    first, second = fetch(0, 0, asks=True), fetch(0, 0, asks=True)
    bench.advance(60_000)
    fetch(first, 1, forgets=True)
    bench.advance(100)
    fetch(second, 1)
    Client(bench).ask(produce_request("t", batch(b"x"), version=9, acks=1), 9)
    bench.broker.shrink_isrs(bench.clock.now)
    assert bench.controller.asked == []


@pytest.mark.parametrize(("epoch", "error"), [(-1, 6), (0, 75), (1, 75)])
def test_a_replica_that_the_leader_does_not_know_yet_asks_again(epoch: int, error: int) -> None:
    """S3-42, Kafka behaviour: in the leader's own epoch UNKNOWN_LEADER_EPOCH, as the leader's metadata are behind; without one NOT_LEADER_OR_FOLLOWER."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2))
    partition = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1)
    request = replace(
        follower_fetch(topic_id, 0, replica=3, epoch=13),
        topics=(FetchTopic(topic_id=topic_id, partitions=(partition,)),),
    )
    assert fetched(Client(bench).ask(request, 17)).error_code == error


def test_a_session_that_began_before_the_topic_was_known_is_told_who_leads() -> None:
    """KIP-951, KIP-516: its id says which topic it is by now."""
    bench = BrokerBench()
    topic_id = Uuid(b"far".ljust(16, b"-"))
    client = Client(bench)
    first = client.ask(fetch_request(topic_id, session_epoch=0), 16)
    assert fetched(first).error_code == 100
    assert bench.topic("far", leader=2, replicas=(2, 3), leader_epoch=7) == topic_id
    again = client.ask(
        FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1, session_id=first.session_id, session_epoch=1), 16
    )
    told = fetched(again)
    assert (told.error_code, told.current_leader.leader_id, told.current_leader.leader_epoch) == (6, 2, 7)
    assert [each.node_id for each in again.node_endpoints] == [2]


def test_a_replica_is_told_of_epochs_while_clients_are_not_served() -> None:
    """S0-15, KIP-101: a leader that may be replaced tells consumers nothing; its followers go on."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2), leader_epoch=4)
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    hosted.is_withheld = True
    asked = OffsetForLeaderTopic(
        topic="t", partitions=(OffsetForLeaderPartition(partition=0, current_leader_epoch=4, leader_epoch=4),)
    )
    told = [
        Client(bench).ask(OffsetForLeaderEpochRequest(replica_id=replica, topics=(asked,)), 4).topics[0].partitions[0]
        for replica in (-1, 2)
    ]
    assert [(each.error_code, each.leader_epoch, each.end_offset) for each in told] == [(6, -1, -1), (0, 4, 0)]
