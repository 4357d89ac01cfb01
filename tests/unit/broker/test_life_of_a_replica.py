"""A replica of one broker from its first role to its last: what does it hold, whom does it count, and when does it open?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from headrace.log.ports import Appended
from headrace.node.jobs import DiskJob, Lane, LogWork
from headrace.node.upkeep import LogUpkeep
from headrace.records.record import NewRecord, Placement, build_batch
from headrace.replication.leader import PartitionLeader
from headrace.rpc.reply import Operation
from headrace.sim.disk import LossyFiles
from headrace.storage.checkpoints import read_offsets
from headrace.wire.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from headrace.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from headrace.wire.messages.fetch import FetchPartition, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, fetch_request, produce_request
from tests.unit.broker.test_replicated_partitions import fetched, follower_fetch, produced

ALL = (1, 2, 3)
LAG_MS = 30_000


def log_of(bench: BrokerBench) -> Any:
    """The log of partition t-0."""
    log = bench.logs.get(TopicPartition("t", 0))
    assert log is not None
    return log


def leader_of(bench: BrokerBench) -> PartitionLeader:
    """The leader's side of partition t-0."""
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.leader is not None
    return hosted.leader


def follow(bench: BrokerBench, *values: bytes, epoch: int, high_watermark: int) -> None:
    """Broker 2 leads and has given this one some records, of which so many are committed as far as this one knows."""
    bench.topic("t", leader=2, replicas=ALL, leader_epoch=epoch)
    log = log_of(bench)
    for value in values:
        placement = Placement(base_offset=log.log_end_offset, leader_epoch=epoch)
        data = build_batch([NewRecord(None, value)], placement=placement)
        assert isinstance(log.append_as_follower(memoryview(data), leader_epoch=epoch, now_ms=0), Appended)
    log.advance_high_watermark(high_watermark)


def copy(bench: BrokerBench, offset: int, *, replica: int = 2) -> Any:
    """What a replica is told that has everything below `offset` and knows who leads."""
    leader = leader_of(bench)
    partition = FetchPartition(
        partition=0, current_leader_epoch=leader.leader_epoch, fetch_offset=offset, partition_max_bytes=1 << 20
    )
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    request = replace(
        follower_fetch(hosted.topic_id, offset, replica=replica, epoch=10 + replica),
        topics=(FetchTopic(topic_id=hosted.topic_id, partitions=(partition,)),),
    )
    return fetched(Client(bench).ask(request, 15))


def end_told(bench: BrokerBench, version: int) -> tuple[int, int]:
    """(error, offset) of the log's end, as a consumer is told."""
    topic = ListOffsetsTopic(name="t", partitions=(ListOffsetsPartition(timestamp=-1),))
    answer = Client(bench).ask(ListOffsetsRequest(replica_id=-1, topics=(topic,)), version).topics[0].partitions[0]
    return answer.error_code, answer.offset


def shown(bench: BrokerBench) -> tuple[int, bytes]:
    """(high watermark, record bytes) that a consumer reads from the beginning."""
    found = fetched(Client(bench).ask(fetch_request("t"), 11))
    return found.high_watermark, bytes(found.records)


def test_writes_that_wait_are_kept_in_the_order_of_their_offsets() -> None:
    """S3-19: whoever comes to wait first; a commit releases those below it, and no other."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2))
    Client(bench).ask(produce_request("t", batch(b"a", b"b", b"c"), acks=1), 9)
    told: list[int] = []
    for end in (3, 1, 2):
        bench.broker.when_committed("t", 0, end, lambda error, end=end: told.append(end))  # type: ignore[misc]
    assert told == []
    copy(bench, 2)
    assert told == [1, 2]
    copy(bench, 3)
    assert told == [1, 2, 3]


def test_what_waits_is_counted_by_what_it_is_of() -> None:
    """S3-19: Kafka's DelayedOperationPurgatory, by `delayedOperation`; also of those who go before they are answered."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=(1, 2))
    waiting = bench.broker.purgatory.waiting
    first, second, consumer, follower, deleter = (Client(bench) for _ in range(5))
    first.send(produce_request("t", batch(b"a")), 9)
    second.send(produce_request("t", batch(b"b")), 9)
    consumer.send(fetch_request("t", max_wait_ms=500), 11)
    expected = {Operation.PRODUCE: 2, Operation.FETCH: 1, Operation.DELETE_RECORDS: 0, Operation.OTHER: 0}
    assert waiting == expected
    second.connection.closed()
    follower.send(follower_fetch(topic_id, 1), 15)
    assert waiting == expected | {Operation.PRODUCE: 0, Operation.FETCH: 0}
    asked = DeleteRecordsTopic(name="t", partitions=(DeleteRecordsPartition(partition_index=0, offset=1),))
    deleter.send(DeleteRecordsRequest(topics=(asked,), timeout_ms=500), 2)
    assert waiting[Operation.DELETE_RECORDS] == 1
    bench.advance(500)
    assert set(waiting.values()) == {0}


def test_a_leader_knows_who_is_assigned_and_who_of_them_is_in_sync() -> None:
    """S3-22: only the ISR is waited for; who is assigned and catches up may fetch, and counts when the controller says so."""
    bench = BrokerBench()
    topic_id = bench.topic("t", replicas=ALL, isr=(1, 2))
    leader = leader_of(bench)
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert (hosted.topic, hosted.topic_id, hosted.partition, hosted.leader_id) == ("t", topic_id, 0, 1)
    assert (leader.replicas, leader.isr, sorted(leader.followers)) == (ALL, (1, 2), [2, 3])
    client = Client(bench)
    client.send(produce_request("t", batch(b"a")), 9)
    copy(bench, 1)
    assert [produced(answer) for answer in client.answers()] == [(0, 0)]
    assert copy(bench, 0, replica=3).error_code == 0


def test_the_leader_sees_a_reassignment_in_its_metadata() -> None:
    """S3-23: the replica that comes is served from then on, and proposed once it has everything."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2))
    Client(bench).ask(produce_request("t", batch(b"a"), acks=1), 9)
    refused = copy(bench, 0, replica=3)
    assert refused.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    copy(bench, 1)
    bench.topic("t", replicas=ALL, isr=(1, 2), partition_epoch=1)
    served = copy(bench, 0, replica=3)
    assert (served.error_code, bool(bytes(served.records))) == (0, True)
    assert bench.controller.asked == []
    copy(bench, 1, replica=3)
    ((request, _, _),) = bench.controller.asked
    wanted = request.topics[0].partitions[0].new_isr_with_epochs
    assert [each.broker_id for each in wanted] == [1, 2, 3]


def test_each_leadership_begins_with_its_own_epoch() -> None:
    """S3-53: what a leader writes is in its epoch, which the log notes with the offset at which it began."""
    bench = BrokerBench()
    bench.topic("t", replicas=(1, 2), isr=(1,), leader_epoch=3)
    Client(bench).ask(produce_request("t", batch(b"a", b"b"), acks=1), 9)
    bench.topic("t", leader=2, replicas=(1, 2), leader_epoch=4, partition_epoch=1)
    bench.topic("t", replicas=(1, 2), isr=(1,), leader_epoch=5, partition_epoch=2)
    assert (leader_of(bench).leader_epoch, leader_of(bench).epoch_start) == (5, 2)
    assert log_of(bench).latest_epoch == 5
    Client(bench).ask(produce_request("t", batch(b"c"), acks=1), 9)
    log = log_of(bench)
    assert [log.epoch_at(offset) for offset in range(3)] == [3, 3, 5]
    assert [log.end_offset_for_epoch(epoch) for epoch in (3, 5)] == [(2, 3), (3, 5)]


def test_a_leader_that_stays_goes_on_in_its_new_epoch() -> None:
    """S3-95, S3-53: replicas went, so the epoch rose: whoever asks in the old one is fenced, and the ISR is the new one."""
    bench = BrokerBench()
    bench.topic("t", replicas=ALL)
    Client(bench).ask(produce_request("t", batch(b"a"), acks=1), 9)
    copy(bench, 1)
    before = leader_of(bench)
    bench.topic("t", replicas=(1, 2), leader_epoch=1, partition_epoch=1)
    after = leader_of(bench)
    assert (after.leader_epoch, after.epoch_start, after.replicas, after.isr) == (1, 1, (1, 2), (1, 2))
    assert after is not before
    Client(bench).ask(produce_request("t", batch(b"b"), acks=1), 9)
    assert log_of(bench).epoch_at(1) == 1
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    late = fetched(Client(bench).ask(follower_fetch(hosted.topic_id, 1), 15))
    assert late.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert copy(bench, 1).error_code == 0


def test_a_new_leader_opens_at_once_and_shows_nothing_that_may_be_lost() -> None:
    """S3-54, S3-57: its high watermark stays where it knew it, though its log goes further, and moves by commits alone."""
    bench = BrokerBench()
    follow(bench, b"a", b"b", b"c", epoch=4, high_watermark=1)
    bench.topic("t", replicas=ALL, leader_epoch=5, partition_epoch=1)
    assert log_of(bench).high_watermark == 1
    assert shown(bench)[1].count(b"c") == 0
    assert produced(Client(bench).ask(produce_request("t", batch(b"d"), acks=1), 9)) == (0, 3)
    copy(bench, 4)
    assert log_of(bench).high_watermark == 1
    copy(bench, 2, replica=3)
    assert shown(bench)[0] == 2
    copy(bench, 4, replica=3)
    assert shown(bench)[0] == 4


def test_a_new_leader_waits_for_the_in_sync_replicas_no_longer_than_the_lag_time() -> None:
    """S3-26, S3-54, S3-55: the ISR is that of its metadata; who has not come by then is proposed to leave, and the write is committed when that is stored."""
    bench = BrokerBench(replica_lag_time_max_ms=LAG_MS)
    follow(bench, b"a", epoch=4, high_watermark=1)
    topic_id = bench.topic("t", replicas=ALL, leader_epoch=5, partition_epoch=1)
    client = Client(bench)
    client.send(produce_request("t", batch(b"d")), 9)
    copy(bench, 2)
    bench.clock.now += LAG_MS
    bench.broker.shrink_isrs(bench.clock.now)
    assert (leader_of(bench).isr, bench.controller.asked) == (ALL, [])
    bench.clock.now += 1
    bench.broker.shrink_isrs(bench.clock.now)
    assert leader_of(bench).isr == ALL
    ((request, _, _),) = bench.controller.asked
    assert [each.broker_id for each in request.topics[0].partitions[0].new_isr_with_epochs] == [1, 2]
    assert client.answers() == []
    stored = ResponsePartitionData(partition_index=0, leader_id=1, leader_epoch=5, isr=(1, 2), partition_epoch=2)
    bench.controller.answer(
        AlterPartitionResponse(topics=(ResponseTopicData(topic_id=topic_id, partitions=(stored,)),))
    )
    assert leader_of(bench).isr == (1, 2)
    assert [produced(answer) for answer in client.answers()] == [(0, 1)]


@pytest.mark.parametrize(
    ("version", "error"),
    [(4, ErrorCode.LEADER_NOT_AVAILABLE), (5, ErrorCode.OFFSET_NOT_AVAILABLE), (9, ErrorCode.OFFSET_NOT_AVAILABLE)],
)
def test_a_new_leader_tells_no_end_before_it_has_committed_in_its_epoch(version: int, error: ErrorCode) -> None:
    """S3-59, inv:P7, KIP-207: another leader may have told a later one; older versions know only of a leader that is not there."""
    bench = BrokerBench()
    follow(bench, b"a", b"b", epoch=4, high_watermark=1)
    assert end_told(bench, version)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    bench.topic("t", replicas=(1, 2), leader_epoch=5, partition_epoch=1)
    assert end_told(bench, version) == (error, -1)
    copy(bench, 1)
    assert end_told(bench, version) == (error, -1)
    copy(bench, 2)
    assert end_told(bench, version) == (0, 2)


def test_a_leaders_high_watermark_goes_to_its_checkpoint_in_time() -> None:
    """S3-20, S3-58: with each turn of `replica.high.watermark.checkpoint.interval.ms`, while it leads and while it follows."""
    disk = LossyFiles()
    bench = BrokerBench(disk=disk, replica_high_watermark_checkpoint_interval_ms=5_000)
    bench.topic("t", replicas=(1, 2))
    jobs: list[DiskJob] = []

    def take(work: LogWork) -> None:
        jobs.append(work.job)

    upkeep = LogUpkeep(bench.broker, clock=bench.clock, do=take, woken=lambda: None)
    upkeep.begin()

    def kept(after_ms: int) -> int | None:
        """What the file says after that time."""
        bench.clock.now += after_ms
        upkeep.tick(bench.clock.now)
        for job in [each for each in jobs if each.lane is Lane.CHECKPOINTS]:
            job.run()
            job.finish()
        jobs.clear()
        found = read_offsets(disk, "/data", "replication-offset-checkpoint")
        return None if found is None else found.get(TopicPartition("t", 0))

    kept(0)
    Client(bench).ask(produce_request("t", batch(b"a", b"b"), acks=1), 9)
    copy(bench, 2)
    assert (kept(4_999), kept(1)) == (0, 2)
    bench.topic("t", leader=2, replicas=(1, 2), leader_epoch=1, partition_epoch=1)
    placement = Placement(base_offset=2, leader_epoch=1)
    log_of(bench).append_as_follower(
        memoryview(build_batch([NewRecord(None, b"c")], placement=placement)), leader_epoch=1, now_ms=0
    )
    log_of(bench).advance_high_watermark(3)
    assert kept(5_000) == 3
