"""What becomes of a partition that this broker is to lead while a thread still cuts its log?"""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition, Uuid
from headrace.log.ports import LogCut
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request


def produced(client: Client, topic_id: Uuid) -> int:
    """The error code of one produce."""
    answer = client.ask(produce_request("t", batch(b"x"), version=13, topic_id=topic_id), 13)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_it_is_led_when_the_log_was_cut_in_its_latest_terms() -> None:
    """KIP-101: its epoch begins where the cut log ends; until then nobody is served."""
    bench = BrokerBench()
    client = Client(bench)
    topic_id = bench.topic("t")
    assert [produced(client, topic_id) for _ in range(3)] == [ErrorCode.NONE] * 3
    bench.topic("t", leader=2, replicas=(1, 2), leader_epoch=1)
    (job,) = bench.logs.cut([LogCut(TopicPartition("t", 0), 1)])
    bench.topic("t", replicas=(1, 2), isr=(1, 2), leader_epoch=2)
    bench.topic("t", replicas=(1, 2), isr=(1,), leader_epoch=2, partition_epoch=1)
    for step in (job.look_up, job.lower, job.run):
        assert produced(client, topic_id) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        step()
    job.finish()
    assert produced(client, topic_id) == ErrorCode.NONE
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert hosted.leader is not None
    assert hosted.log is not None
    assert hosted.leader.isr == (1,)
    assert (hosted.log.epoch_at(0), hosted.log.epoch_at(1), hosted.log.log_end_offset) == (0, 2, 2)


def test_it_is_not_led_when_another_leads_it_by_then() -> None:
    """The change that waited is overtaken."""
    bench = BrokerBench()
    bench.topic("t")
    (job,) = bench.logs.cut([LogCut(TopicPartition("t", 0), 0)])
    bench.topic("t", replicas=(1, 2), leader_epoch=2)
    bench.topic("t", leader=2, replicas=(1, 2), leader_epoch=3)
    for step in (job.look_up, job.lower, job.run, job.finish):
        step()
    hosted = bench.broker.partitions.get("t", 0)
    assert hosted is not None
    assert (hosted.leader, hosted.leader_id, hosted.leader_epoch) == (None, 2, 3)
