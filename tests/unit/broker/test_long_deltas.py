"""Metadata that changes very many partitions at once: done in short turns, in the order in which it was committed."""

from __future__ import annotations

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicPartition
from tests.support.broker_bench import BrokerBench, Client
from tests.support.peer import batch, produce_request

MANY = 100
AT_ONCE = 4
"""Logs that are made in one turn."""


def hosted(bench: BrokerBench) -> list[str]:
    """The partitions that are led here, by topic."""
    return [each.topic for each in bench.broker.partitions if each.leader is not None]


def test_very_many_new_partitions_take_their_roles_in_short_turns() -> None:
    """inv:M6: a directory and files for each; a client that comes before its partition's turn looks for the leader again, and finds it."""
    bench = BrokerBench()
    bench.publishes_in_turns = True
    bench.topic("new", partitions=MANY)
    assert hosted(bench) == ["new"] * AT_ONCE
    client, request = Client(bench), produce_request("new", batch(b"a"), acks=1, partition=MANY - 1)
    early = client.ask(request, 9).responses[0].partition_responses[0].error_code
    assert early == ErrorCode.NOT_LEADER_OR_FOLLOWER
    turns = 0
    while bench.publisher.next_deadline_ms() == 0:
        before = len(hosted(bench))
        bench.publisher.tick()
        assert len(hosted(bench)) - before <= AT_ONCE
        turns += 1
    assert (turns, hosted(bench)) == (MANY // AT_ONCE - 1, ["new"] * MANY)
    assert client.ask(request, 9).responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_deltas_are_applied_in_their_order_however_long_the_first_takes() -> None:
    """KIP-631: a topic that is deleted while it is being made leaves nothing; the one that follows it has its name and its own log."""
    bench = BrokerBench()
    bench.publishes_in_turns = True
    bench.topic("first", partitions=MANY)
    bench.delete("first")
    bench.topic("second", partitions=2)
    assert hosted(bench) == []
    while bench.publisher.next_deadline_ms() == 0:
        bench.publisher.tick()
    assert hosted(bench) == ["second"] * 2
    assert sorted(bench.logs.logs()) == [TopicPartition("second", 0), TopicPartition("second", 1)]


def test_a_change_of_leader_waits_for_no_logs_that_are_made_or_removed() -> None:
    """S3-07: it is served in the turn in which it was heard of; what comes for a partition whose log is still to be made stays behind that."""
    bench = BrokerBench()
    bench.topic("old", partitions=MANY)
    bench.topic("kept", replicas=(1, 2), leader=2)
    bench.publishes_in_turns = True
    bench.topic("new", partitions=MANY, replicas=(1, 2))
    bench.delete("old")
    assert "kept" not in hosted(bench)
    bench.topic("kept", replicas=(1, 2), leader=1, leader_epoch=1, partition_epoch=1)
    bench.publisher.tick()
    assert "kept" in hosted(bench)
    assert bench.publisher.next_deadline_ms() == 0
    bench.topic("new", partitions=MANY, replicas=(1, 2), leader=2, leader_epoch=1, partition_epoch=1)
    while bench.publisher.next_deadline_ms() == 0:
        bench.publisher.tick()
    assert hosted(bench) == ["kept"]
    assert sorted({each.topic for each in bench.logs.logs()}) == ["kept", "new"]


def test_partitions_to_lead_come_before_those_to_follow() -> None:
    """S3-07: of one delta, whatever their names: clients wait for a leader, and nobody waits for a follower."""
    bench = BrokerBench()
    for name in ("a", "b"):
        bench.topic(name, replicas=(1, 2, 3), leader=2, partitions=1_000)
    bench.publishes_in_turns = True
    bench.topic(
        "a", replicas=(1, 2, 3), leader=3, leader_epoch=1, partition_epoch=1, partitions=1_000, is_published=False
    )
    bench.topic("b", replicas=(1, 2, 3), leader=1, leader_epoch=1, partition_epoch=1, partitions=1_000)
    turns = 1
    while len(hosted(bench)) < 1_000:
        assert {each.leader_id for each in bench.broker.partitions if each.topic == "a"} == {2}
        bench.publisher.tick()
        turns += 1
    assert turns > 2
    while bench.publisher.next_deadline_ms() == 0:
        bench.publisher.tick()
    assert {each.leader_id for each in bench.broker.partitions if each.topic == "a"} == {3}


def test_who_writes_to_a_topic_made_anew_never_writes_into_the_old_ones_log() -> None:
    """PR1: its name and its id are known at once, its log is made in a later turn; what was acknowledged by the old log would go with it."""
    for is_old_hosted in (True, False):
        bench = BrokerBench()
        bench.publishes_in_turns = True
        if is_old_hosted:
            bench.topic("again")
        bench.topic("many", partitions=MANY)
        if not is_old_hosted:
            bench.topic("again")
        bench.delete("again")
        bench.topic("again")
        client, request = Client(bench), produce_request("again", batch(b"a"), acks=1)
        acknowledged = 0
        while bench.publisher.next_deadline_ms() == 0:
            code = client.ask(request, 9).responses[0].partition_responses[0].error_code
            assert code in (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            acknowledged += code == ErrorCode.NONE
            bench.publisher.tick()
        log = bench.broker.partitions.get("again", 0)
        assert log is not None
        assert log.log is not None
        assert log.log.log_end_offset == acknowledged
        assert log.topic_id == bench.broker.image.topics.by_name["again"].id
