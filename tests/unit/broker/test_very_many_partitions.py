"""Produce and Fetch of very many partitions: read, done and answered in short turns, and answered as if they named few."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.holds import Hold
from headrace.replication import fetch_session_cache
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.reader import MAX_PARTITIONS
from tests.support.broker_bench import BrokerBench, Client, Turns
from tests.support.peer import batch
from tests.unit.broker.test_waiting_requests import calls_of, hosted_of

HERE = 700
"""Partitions that the broker leads: more than are looked at in one turn."""
MANY = 3_000
MOST_CALLS = 6_000
"""Functions of the project in one turn of three steps; a partition takes some tens."""


@pytest.fixture
def bench() -> BrokerBench:
    """A broker that leads all of a topic's partitions."""
    made = BrokerBench()
    made.topic("many", partitions=HERE)
    return made


def produce_of(*parts: tuple[str, int, bytearray | None], acks: int = 1, timeout_ms: int = 1_000) -> ProduceRequest:
    """A request with these batches, in their order."""
    topics = tuple(
        TopicProduceData(
            name=name,
            partition_data=(PartitionProduceData(index=index, records=None if records is None else bytes(records)),),
        )
        for name, index, records in parts
    )
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=topics)


def outcome(answer: Any) -> list[tuple[str, int, int, int]]:
    """Topic, partition, error and base offset of everything in a Produce response."""
    return [
        (topic.name, part.index, part.error_code, part.base_offset)
        for topic in answer.responses
        for part in topic.partition_responses
    ]


def fetch_of(
    *partitions: int,
    offset: int = 0,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
) -> FetchRequest:
    """A fetch of these partitions of the topic."""
    parts = tuple(
        FetchPartition(partition=each, fetch_offset=offset, partition_max_bytes=1 << 20) for each in partitions
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=50 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(topic="many", partitions=parts),) if parts else (),
        forgotten_topics_data=(ForgottenTopic(topic="many", partitions=forgotten),) if forgotten else (),
    )


def told(answer: Any) -> dict[int, tuple[int, int, int]]:
    """Error, high watermark and bytes by partition."""
    return {
        part.partition_index: (part.error_code, part.high_watermark, len(part.records or b""))
        for topic in answer.responses
        for part in topic.partitions
    }


def calls_by_turn(turns: Turns) -> Iterator[int]:
    """Run what is due, and say how much each turn was."""
    while turns.due:
        yield calls_of(turns.turn)


@pytest.mark.parametrize("version", [7, 9])
def test_very_many_batches_are_appended_and_answered_in_short_turns(bench: BrokerBench, version: int) -> None:
    """inv:M6: unknown partitions, repeated ones and ones without records among them; each is answered at its place, each is written once (input:B24)."""
    turns = Turns()
    client = Client(bench, turns=turns)
    small = batch(b"a")
    parts = [("many", index, small) for index in range(MANY)] + [
        ("many", 5, small),
        ("gone", 0, small),
        ("many", 1, None),
    ]
    client.send(produce_of(*parts), version)
    assert (client.answers(), Hold.REPLY in client.outbox.holds) == ([], True)
    assert max(calls_by_turn(turns)) < MOST_CALLS
    (answer,) = client.answers()
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert outcome(answer) == [
        *(("many", index, 0 if index < HERE else unknown, 0 if index < HERE else -1) for index in range(MANY)),
        ("many", 5, ErrorCode.INVALID_REQUEST, -1),
        ("gone", 0, unknown, -1),
        ("many", 1, ErrorCode.INVALID_REQUEST, -1),
    ]
    assert Hold.REPLY not in client.outbox.holds
    assert [hosted_of(bench, "many", index).log.log_end_offset for index in (0, 5, HERE - 1)] == [1, 1, 1]  # type: ignore[union-attr]


def test_very_many_batches_without_an_answer_are_all_appended(bench: BrokerBench) -> None:
    """KIP-1: acks=0 stays silent when all is well, and closes the connection when something failed."""
    client = Client(bench)
    client.send(produce_of(*(("many", index, batch(b"a")) for index in range(HERE)), acks=0), 9)
    assert (client.answers(), client.outbox.closed_because) == ([], None)
    assert hosted_of(bench, "many", HERE - 1).log.log_end_offset == 1  # type: ignore[union-attr]
    client.send(produce_of(*(("many", index, batch(b"a")) for index in range(HERE + 1)), acks=0), 9)
    assert client.outbox.closed_because is not None


def replicated(bench: BrokerBench) -> None:
    """A topic whose records wait for another replica."""
    bench.topic("kept", replicas=(1, 2), partitions=HERE)


def test_very_many_batches_wait_for_their_replicas_and_are_refused_in_time(bench: BrokerBench) -> None:
    """acks=all: REQUEST_TIMED_OUT for those that are not replicated at the deadline, said in short turns."""
    replicated(bench)
    turns = Turns()
    client = Client(bench, turns=turns)
    parts = [("kept", index, batch(b"a")) for index in range(HERE)] + [
        ("many", index, batch(b"a")) for index in range(HERE)
    ]
    client.send(produce_of(*parts, acks=-1, timeout_ms=500), 9)
    turns.run()
    assert client.answers() == []
    bench.advance(501)
    assert max(calls_by_turn(turns)) < MOST_CALLS
    (answer,) = client.answers()
    assert outcome(answer) == [
        *(("kept", index, ErrorCode.REQUEST_TIMED_OUT, 0) for index in range(HERE)),
        *(("many", index, 0, 0) for index in range(HERE)),
    ]


def test_a_producer_of_very_many_batches_that_goes_leaves_nothing_that_waits(bench: BrokerBench) -> None:
    """inv:M4: neither while they are appended nor while they wait for their replicas."""
    replicated(bench)
    parts = [("kept", index, batch(b"a")) for index in range(HERE)]
    for run in (1, 10_000):
        turns = Turns()
        client = Client(bench, turns=turns)
        client.send(produce_of(*parts, acks=-1), 9)
        for _ in range(run):
            turns.turn()
        client.connection.closed()
        turns.run()
        assert bench.broker.purgatory.next_deadline_ms() is None
    log = hosted_of(bench, "kept", HERE - 1).log
    assert log is not None
    assert log.log_end_offset == 2, "what came whole is appended, as by Kafka, though its sender has gone"


def test_a_large_request_of_very_many_batches_is_read_where_it_was_received(bench: BrokerBench) -> None:
    """B1: a smaller one is copied, because the buffer that it came in is for all."""
    for record_bytes, kept_frames in ((2_000, 1), (1_000, 0)):
        client = Client(bench)
        records = batch(b"a" * record_bytes)
        answer = client.ask(produce_of(*(("many", index, records) for index in range(HERE))), 9)
        assert {error for _, _, error, _ in outcome(answer)} == {0}
        assert client.outbox.kept_frames == kept_frames


def test_a_request_of_more_partitions_than_any_node_has_is_refused(bench: BrokerBench) -> None:
    """inv:M2: a few bytes on the wire would be a kilobyte in memory."""
    for request, version in (
        (produce_of(*(("t", index, None) for index in range(MAX_PARTITIONS // 2 + 1))), 9),
        (fetch_of(*range(MAX_PARTITIONS + 1)), 12),
    ):
        client = Client(bench)
        client.send(request, version)
        assert client.outbox.closed_because is not None
        assert "more than 65536 parts" in client.outbox.closed_because


@pytest.mark.parametrize("version", [11, 12])
def test_very_many_partitions_are_fetched_in_short_turns(bench: BrokerBench, version: int) -> None:
    """inv:M6: with and without records, unknown ones too."""
    client = Client(bench)
    client.ask(produce_of(*(("many", index, batch(b"a")) for index in range(10))), 9)
    turns = Turns()
    client = Client(bench, turns=turns)
    client.send(fetch_of(*range(MANY)), version)
    assert max(calls_by_turn(turns)) < MOST_CALLS
    (answer,) = client.answers()
    size = len(batch(b"a"))
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert told(answer) == {
        index: (0, 1, size) if index < 10 else (0, 0, 0) if index < HERE else (unknown, -1, 0) for index in range(MANY)
    }


def test_a_fetch_of_very_many_partitions_waits_for_any_of_them(bench: BrokerBench) -> None:
    """KIP-227: without a session; everything is told again, in short turns, when one of them has records or the time is up."""
    for moves in (True, False):
        turns = Turns()
        client = Client(bench, turns=turns)
        client.send(fetch_of(*range(HERE), offset=int(not moves), max_wait_ms=500), 12)
        if not moves:
            Client(bench).ask(produce_of(*(("many", index, batch(b"a")) for index in range(1, HERE))), 9)
        turns.run()
        assert client.answers() == []
        if moves:
            Client(bench).ask(produce_of(("many", 0, batch(b"a"))), 9)
        else:
            bench.advance(501)
        assert client.answers() == []
        assert max(calls_by_turn(turns)) < MOST_CALLS
        (answer,) = client.answers()
        size = len(batch(b"a"))
        assert told(answer) == {
            index: (0, int(not moves or not index), size * (moves and not index)) for index in range(HERE)
        }


def test_a_session_of_very_many_partitions_begins_goes_on_and_shrinks(bench: BrokerBench) -> None:
    """KIP-227: an incremental fetch looks at what changed, in short turns if that is very much."""
    turns = Turns()
    client = Client(bench, turns=turns)

    def asked(request: FetchRequest) -> Any:
        client.send(request, 12)
        assert max(calls_by_turn(turns), default=0) < MOST_CALLS
        (answer,) = client.answers()
        assert answer.error_code == 0
        return answer

    first = asked(fetch_of(*range(HERE), session=(0, 0)))
    session = first.session_id
    assert (session != 0, len(told(first))) == (True, HERE)
    Client(bench).ask(produce_of(*(("many", index, batch(b"a")) for index in range(HERE))), 9)
    second = asked(fetch_of(session=(session, 1)))
    assert told(second) == {index: (0, 1, len(batch(b"a"))) for index in range(HERE)}
    third = asked(fetch_of(*range(HERE), offset=1, session=(session, 2)))
    assert told(third) == {}
    last = asked(fetch_of(session=(session, 3), forgotten=tuple(range(HERE))))
    assert (last.session_id, told(last), len(bench.broker.fetch_sessions)) == (0, {}, 0)


def test_partitions_of_all_sessions_are_bounded(bench: BrokerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """KIP-227: as when all slots are taken, a fetch goes without a session; one that grows beyond the bound loses its own."""
    monkeypatch.setattr(fetch_session_cache, "MOST_PARTITIONS", 2 * HERE - 1)
    client = Client(bench)
    small = client.ask(fetch_of(1, session=(0, 0)), 12).session_id
    large = client.ask(fetch_of(*range(HERE), session=(0, 0)), 12).session_id
    none = client.ask(fetch_of(*range(HERE), session=(0, 0)), 12)
    assert (none.session_id, len(told(none))) == (0, HERE)
    grown = client.ask(fetch_of(*range(HERE), session=(small, 1)), 12)
    assert grown.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    sessions = bench.broker.fetch_sessions
    assert ([each.id for each in sessions], sessions.held_partitions) == ([large], HERE)
    bench.advance(fetch_session_cache.EVICTION_MS + 1)
    client.ask(fetch_of(*range(HERE), session=(0, 0)), 12)
    assert client.ask(fetch_of(*range(HERE), session=(0, 0)), 12).session_id == 0
    assert (len(sessions), sessions.held_partitions) == (1, HERE)


def test_what_waits_without_a_session_is_bounded_too(bench: BrokerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:M4: a fetch beyond the bound is answered at once; when a client goes, what it kept is free again."""
    monkeypatch.setattr(fetch_session_cache, "MOST_PARTITIONS", HERE)
    waiting, other = Client(bench), Client(bench)
    waiting.send(fetch_of(*range(HERE), max_wait_ms=500), 12)
    assert waiting.answers() == []
    assert len(told(other.ask(fetch_of(1, max_wait_ms=500), 12))) == 1
    waiting.connection.closed()
    other.send(fetch_of(1, max_wait_ms=500), 12)
    assert other.answers() == []
    assert bench.broker.fetch_sessions.held_partitions == 1


@pytest.mark.parametrize("turns_before", [0, 1, 5, 12, 10_000])
def test_a_fetcher_that_goes_in_between_leaves_nothing_behind(bench: BrokerBench, turns_before: int) -> None:
    """inv:M4: whether its partitions are being looked at, or wait."""
    turns = Turns()
    client = Client(bench, turns=turns)
    client.send(fetch_of(*range(HERE), max_wait_ms=60_000), 12)
    for _ in range(turns_before):
        turns.turn()
    client.connection.closed()
    turns.run()
    assert not any(len(hosted_of(bench, "many", index).waiters) for index in range(HERE))
    assert bench.broker.fetch_sessions.held_partitions == 0
