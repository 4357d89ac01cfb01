"""Decisions of very many records: made in one step, replayed and appended in the next."""

from __future__ import annotations

from headrace.controller.events import Answer, AppendRecords, ControllerEffect, TimeAdvanced
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.controller import ControllerBench, active


def postponing() -> ControllerBench:
    """A controller with one broker that takes one record a step."""
    bench = active()
    bench.broker(1)
    bench.machine.most_at_once = 1
    return bench


def new(name: str) -> CreateTopicsRequest:
    """A topic of three partitions, which is four records."""
    return CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=3, replication_factor=1),))


def appended(effects: list[ControllerEffect]) -> list[int]:
    """How many records are to be appended."""
    return [len(each.records) for each in effects if isinstance(each, AppendRecords)]


def answers(effects: list[ControllerEffect]) -> list[tuple[str, int]]:
    """Topics and their errors, in the order of the answers."""
    found = [each.response for each in effects if isinstance(each, Answer)]
    return [(topic.name, topic.error_code) for response in found for topic in response.topics]


def test_time_is_due_at_once_and_takes_it_up() -> None:
    """B-C22 C3: nothing is decided until then, and the answer leaves when it is committed."""
    bench = postponing()
    assert bench.send(new("t")) == []
    assert "t" not in bench.machine.image.topics.by_name
    assert bench.machine.next_deadline_ms() == bench.now_ms
    effects = bench.take(bench.machine.step(TimeAdvanced(now_ms=bench.now_ms)))
    assert (appended(effects), answers(effects)) == ([4], [])
    assert bench.machine.next_deadline_ms() != bench.now_ms
    assert answers(bench.commit()) == [("t", 0)]


def test_the_next_request_finds_it_done() -> None:
    """C4 S2-12: decisions follow one another, whoever comes in between."""
    bench = postponing()
    bench.send(new("t"))
    effects = bench.send(new("t"))
    assert appended(effects) == [4]
    assert answers(effects) == []
    assert answers(bench.commit()) == [("t", 0), ("t", ErrorCode.TOPIC_ALREADY_EXISTS)]


def test_what_is_committed_meanwhile_does_not_take_it_up() -> None:
    """A commit decides nothing."""
    bench = postponing()
    bench.send(new("t"))
    assert appended(bench.commit()) == []
    assert appended(bench.send(new("u"))) == [4]


def test_who_loses_its_leadership_forgets_it() -> None:
    """B-C23: who asked is told to find the new controller."""
    bench = postponing()
    bench.send(new("t"))
    effects = bench.lose()
    assert answers(effects) == [("t", ErrorCode.NOT_CONTROLLER)]
    assert bench.machine.next_deadline_ms() is None


def test_too_much_for_one_batch_is_refused_at_once() -> None:
    """B-C22: whole or not at all."""
    bench = active(internal_metadata_max_batch_size_in_bytes=1_000)
    bench.broker(1)
    bench.machine.most_at_once = 1
    wide = CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=100, replication_factor=1),))
    assert answers(bench.send(wide)) == [("t", ErrorCode.POLICY_VIOLATION)]
    assert appended(bench.send(new("u"))) == []
    assert appended(bench.advance(1)) == [4]
