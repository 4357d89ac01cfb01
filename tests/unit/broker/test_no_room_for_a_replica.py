"""What becomes of a replica that is assigned to a broker whose disk is full?"""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.sim.faulty_disk import SimDisk
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request


def produced(client: Client, topic: str, topic_id: Uuid) -> int:
    """The error code of one produce."""
    answer = client.ask(produce_request(topic, batch(b"x"), version=13, topic_id=topic_id), 13)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_it_waits_for_room_and_takes_no_other_along() -> None:
    """inv:D10, PR8: whoever may create a topic ends no directory by it; when there is room it is made, and led in its latest terms."""
    disk = SimDisk()
    bench = BrokerBench(disk=disk)
    client = Client(bench)
    kept = bench.topic("kept")
    disk.is_full = True
    late = bench.topic("late", replicas=(1, 2), isr=(1, 2))
    deleted = bench.topic("deleted")
    moved = bench.topic("moved", replicas=(1, 2))
    assert produced(client, "late", late) == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client, "kept", kept) == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left" in bench.logs.take_space_refusal()
    for _ in range(3):
        bench.advance(1000)
        bench.logs.maintain(bench.clock.now)
    bench.delete("deleted")
    bench.topic("moved", leader=2, replicas=(1, 2), leader_epoch=1)
    bench.topic("late", replicas=(1, 2), isr=(1,), partition_epoch=1)
    disk.is_full = False
    for _ in range(3):
        bench.logs.maintain(bench.clock.now)
    assert produced(client, "late", late) == ErrorCode.NONE
    assert produced(client, "kept", kept) == ErrorCode.NONE
    assert {partition.topic for partition in bench.logs.logs()} == {"kept", "late", "moved"}
    hosted = bench.broker.partitions.get("moved", 0)
    assert hosted is not None
    assert (hosted.leader, hosted.leader_id, hosted.log is None) == (None, 2, False)
    assert bench.broker.partitions.get("deleted", 0) is None
    leader = bench.broker.partitions.get("late", 0)
    assert leader is not None
    assert leader.leader is not None
    assert leader.leader.isr == (1,)
    assert deleted != moved
