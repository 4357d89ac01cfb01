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
    assert hosted(bench) == ["first"] * AT_ONCE
    while bench.publisher.next_deadline_ms() == 0:
        bench.publisher.tick()
    assert hosted(bench) == ["second"] * 2
    assert sorted(bench.logs.logs()) == [TopicPartition("second", 0), TopicPartition("second", 1)]
