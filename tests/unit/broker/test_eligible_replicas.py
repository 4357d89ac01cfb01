"""What a leader commits where those that leave the ISR stay eligible to lead (KIP-966)."""

from __future__ import annotations

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.wire.messages.alter_partition import AlterPartitionResponse, ResponsePartitionData, ResponseTopicData
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request

LAG_MS = 1_000


def errors(client: Client) -> list[int]:
    """Of the produces that were answered."""
    return [answer.responses[0].partition_responses[0].error_code for answer in client.answers()]


def lagging(levels: dict[str, int]) -> tuple[BrokerBench, Client, Uuid]:
    """Broker 2 has not fetched a record that a client waits for, and its leader asks for an ISR without it."""
    bench = BrokerBench(replica_lag_time_max_ms=LAG_MS)
    bench.features = levels
    topic_id = bench.topic("kept", replicas=(1, 2))
    client = Client(bench)
    client.send(produce_request("kept", batch(b"a")), 9)
    bench.clock.now += LAG_MS + 1
    bench.broker.shrink_isrs(bench.clock.now)
    part = ResponsePartitionData(partition_index=0, leader_id=1, isr=(1,), partition_epoch=1)
    bench.controller.answer(AlterPartitionResponse(topics=(ResponseTopicData(topic_id=topic_id, partitions=(part,)),)))
    return bench, client, topic_id


@pytest.mark.parametrize("min_isr", ["1", "2"])
def test_a_smaller_isr_counts_when_metadata_tell_of_it(min_isr: str) -> None:
    """P5, P6, inv:P3: the controller may have raised `min.insync.replicas` before, so that who left is eligible; what is acknowledged without it would be lost."""
    bench, client, _ = lagging({"eligible.leader.replicas.version": 1})
    assert errors(client) == []
    bench.configure("kept", min_insync_replicas=min_isr)
    bench.topic("kept", replicas=(1, 2), isr=(1,), partition_epoch=1)
    if min_isr == "1":
        assert errors(client) == [ErrorCode.NONE]
    else:
        assert errors(client) == []
        bench.advance(5_000)
        assert errors(client) == [ErrorCode.REQUEST_TIMED_OUT]
    hosted = bench.broker.partitions.get("kept", 0)
    assert hosted is not None
    assert hosted.leader is not None
    assert (hosted.leader.isr, hosted.leader.proposal) == ((1,), None)
    assert bench.broker.isr_changes.shrinks == 1


def test_without_eligible_replicas_it_counts_at_once() -> None:
    """S3-82: who left is never elected without loss."""
    _, client, _ = lagging({})
    assert errors(client) == [ErrorCode.NONE]
