"""Eligible leader replicas on real brokers (KIP-966): killed and stopped in turns, and brought back."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.commands import headrace
from tests.support.copies import FAST, create, in_sync, running, same_bytes
from tests.support.peer import batch
from tests.support.roles import until

BROKERS = (101, 102, 103)

State = tuple[int, set[int], set[int], set[int]]


def state(cluster: Cluster, topic: str) -> State:
    """(leader, ISR, ELR, LastKnownElr) of the topic's one partition, as a broker that runs tells it."""
    place = running(cluster)[-1]
    request = DescribeTopicPartitionsRequest(topics=(TopicRequest(name=topic),))
    (found,) = ask(place.place.host, place.port, request, 0).topics[0].partitions
    elr, known = found.eligible_leader_replicas or (), found.last_known_elr or ()
    return found.leader_id, set(found.isr_nodes), set(elr), set(known)


def becomes(cluster: Cluster, topic: str, expected: State) -> None:
    """Wait until it is so."""
    until(lambda: state(cluster, topic) == expected or None)


def produce(cluster: Cluster, broker_id: int, value: bytes) -> int:
    """One batch with acks=all for partition 0 of topic `t`; its error."""
    data = PartitionProduceData(index=0, records=bytes(batch(value)))
    broker = cluster[broker_id]
    request = ProduceRequest(
        acks=-1, timeout_ms=10_000, topic_data=(TopicProduceData(name="t", partition_data=(data,)),)
    )
    answer = ask(broker.place.host, broker.port, request, 9, timeout_s=15)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def test_replicas_that_go_in_turns_lose_nothing_and_lead_when_they_are_back() -> None:
    """B-C31, inv:C7, inv:C10, inv:PR1, B-K04: RF 3, min ISR 2. Who was killed is not eligible when it is back, who stopped cleanly leads."""
    with Cluster(controllers=1, brokers=4, properties=FAST) as cluster:  # 104 is asked
        create(cluster, "t", [BROKERS], min_insync_replicas="2")
        assert produce(cluster, 101, b"with three") == 0
        cluster[103].kill()
        becomes(cluster, "t", (101, {101, 102}, set(), set()))
        assert produce(cluster, 101, b"with two") == 0
        cluster[102].kill()
        becomes(cluster, "t", (101, {101}, {102}, set()))
        assert produce(cluster, 101, b"with too few") == ErrorCode.NOT_ENOUGH_REPLICAS
        cluster[101].stop()
        becomes(cluster, "t", (-1, set(), {101, 102}, {101}))
        shown = headrace(
            "topics",
            "--bootstrap-server",
            f"{cluster[104].place.host}:{cluster[104].port}",
            "--describe",
            "--topic",
            "t",
        ).out
        assert "Elr: 101,102\tLastKnownElr: 101" in shown
        cluster.start(102)
        becomes(cluster, "t", (-1, set(), {101}, {101}))
        cluster.start(101)
        becomes(cluster, "t", (101, {101, 102}, set(), set()))
        cluster.start(103)
        in_sync(cluster, "t")
        (copy,) = same_bytes(cluster, "t")
        assert b"with three" in copy
        assert b"with two" in copy
        assert b"with too few" not in copy


def test_all_that_are_killed_come_back_and_the_last_leader_leads() -> None:
    """B-C31, inv:C11: nobody has the proof of a clean stop; nothing was lost but what was not on disk, and a process that is killed loses none of that."""
    with Cluster(controllers=1, brokers=3, properties=FAST) as cluster:
        create(cluster, "t", [(102, 103)], min_insync_replicas="2")
        assert produce(cluster, 102, b"kept") == 0
        cluster[103].kill()
        becomes(cluster, "t", (102, {102}, {103}, set()))
        cluster[102].kill()
        becomes(cluster, "t", (-1, set(), {102, 103}, {102}))
        cluster.start(103)
        becomes(cluster, "t", (-1, set(), {102}, {102}))
        cluster.start(102)
        becomes(cluster, "t", (102, {102, 103}, set(), set()))
        (copy,) = same_bytes(cluster, "t")
        assert b"kept" in copy
