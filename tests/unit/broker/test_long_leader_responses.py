"""Responses of leaders that hold very many batches: appended a turn's share at a time, whoever sent them."""

from __future__ import annotations

from headrace.broker.replica_fetchers import FetcherId
from headrace.core.ids import TopicPartition, Uuid
from headrace.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tests.unit.broker.test_replica_fetchers import Follower, asked, records

TURN = 1_000
MANY = 2_500


def small_batches(count: int, *, offset: int = 0) -> memoryview:
    """Batches of one empty record."""
    return memoryview(b"".join(bytes(records(b"", offset=offset + number)) for number in range(count)))


def response(*partitions: tuple[Uuid, PartitionData]) -> FetchResponse:
    """What a leader says of partitions."""
    told = tuple(FetchableTopicResponse(topic_id=topic, partitions=(data,)) for topic, data in partitions)
    return FetchResponse(session_id=77, responses=told)


def data(count: int) -> PartitionData:
    """Of partition 0."""
    return PartitionData(partition_index=0, high_watermark=count, log_start_offset=0, records=small_batches(count))


def ends(follower: Follower, *names: str) -> list[int]:
    """Where the logs end."""
    return [follower.bench.logs.get(TopicPartition(name, 0)).log_end_offset for name in names]  # type: ignore[union-attr]


def test_very_many_batches_of_one_response_are_appended_in_short_turns() -> None:
    """PR8: a megabyte of empty records is 15,000 batches; the next fetch, which acknowledges them, waits for the last."""
    follower = Follower()
    topic = follower.follow()
    told: list[int] = []
    follower.fetchers.on_deadline = told.append
    sent = follower.sent()
    sent.then(response((topic, data(MANY))))
    ended = [*ends(follower, "t")]
    while follower.fetchers.next_deadline_ms() == 0:
        assert not follower.links.fetches
        assert follower.log().high_watermark == 0
        follower.fetchers.tick(follower.bench.clock.now)
        ended += ends(follower, "t")
    assert told[0] == 0, "the node is told at once that it must not sleep"
    assert ended[-1] == MANY == follower.log().high_watermark
    assert all(after - before <= TURN for before, after in zip([0, *ended], ended, strict=False))
    assert asked(follower.sent()) == {(topic, 0): (5, MANY, 5, 0)}


def test_the_responses_of_many_leaders_share_one_turn() -> None:
    """PR8: however many of them arrive in it; each goes on in its turn."""
    follower = Follower()
    names = [f"t{leader}" for leader in (2, 3)]
    topics = [follower.follow(f"t{leader}", leader=leader) for leader in (2, 3)]
    for sent, topic in zip(list(follower.links.fetches), topics, strict=True):
        sent.then(response((topic, data(MANY))))
    follower.links.fetches.clear()
    before = ends(follower, *names)
    assert 0 < sum(before) <= TURN
    turns = 0
    while follower.fetchers.next_deadline_ms() == 0:
        follower.fetchers.tick(follower.bench.clock.now)
        after = ends(follower, *names)
        assert 0 < sum(after) - sum(before) <= TURN
        before, turns = after, turns + 1
    assert before == [MANY, MANY]
    assert turns >= 2 * MANY // TURN - 1
    assert len(follower.links.fetches) == 2


def test_a_partition_that_is_left_or_led_anew_takes_no_more_of_an_old_response() -> None:
    """inv:P13, defect:K12: what was not appended yet belongs to the leader epoch in which it was asked for."""
    follower = Follower()
    topic = follower.follow()
    follower.follow("u")
    sent = follower.links.fetches[0]
    follower.links.fetches.clear()
    sent.then(response((topic, data(MANY))))
    (before,) = ends(follower, "t")
    assert before < MANY
    follower.follow(leader=3, leader_epoch=6, partition_epoch=1)
    while follower.fetchers.next_deadline_ms() == 0:
        follower.fetchers.tick(follower.bench.clock.now)
    assert ends(follower, "t") == [before]
    assert {source for source, _ in follower.fetchers} == {FetcherId(2, 0), FetcherId(3, 0)}
    assert len(follower.links.fetches) == 2
