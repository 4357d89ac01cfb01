"""Is a request that is answered in parts answered as if it were whole?"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import Deferred, HotResult, Reply
from headrace.rpc.splitting import MOST_PARTS_AT_ONCE, SPLITS, Split, answer_in_parts
from headrace.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from headrace.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headrace.wire.schema import fields_of
from headrace.wire.versions import ApiKey, request_class, response_class

CASES = [(key, split) for key, splits in SPLITS.items() for split in splits]


def struct_of(owner: Any, name: str) -> Any:
    """The struct of a field, None where it holds plain values."""
    return next(spec.struct for spec in fields_of(owner) if spec.name == name)


def made(owner: Any, way: tuple[str, ...], counts: tuple[int, ...]) -> Any:
    """A value with so many things at each step of the way, each with a name or number of its own."""
    inner = struct_of(owner, way[0])
    things = []
    for number in range(counts[0]):
        if inner is None:
            is_number = next(spec.kind for spec in fields_of(owner) if spec.name == way[0]) == "int32"
            things.append(number if is_number else f"n{number}")
            continue
        thing = made(inner, way[1:], counts[1:]) if len(way) > 1 else inner()
        names = {spec.name for spec in fields_of(inner)}
        for name in ("name", "group_id", "topic", "resource_name", "path"):
            if name in names:
                thing = replace(thing, **{name: f"n{number}"})
        if "id" in names:
            thing = replace(thing, id=Uuid((number + 1).to_bytes(16, "big")))
        if "topic_id" in names:
            thing = replace(thing, topic_id=Uuid((number + 1).to_bytes(16, "big")))
        for name in ("partition_index", "partition", "partition_id"):
            if name in names:
                thing = replace(thing, **{name: number})
        things.append(thing)
    return owner(**{way[0]: tuple(things)})


def echo(request: Any, answer: Any, split: Split) -> Any:
    """An answer with one thing for each thing of the request, and the same names."""

    def answered(value: Any, owner: Any, way: tuple[str, ...], back: tuple[str, ...]) -> Any:
        things = []
        for thing in getattr(value, way[0]) or ():
            struct = struct_of(owner, back[0])
            one = answered(thing, struct, way[1:], back[1:]) if len(way) > 1 else struct()
            for spec in fields_of(struct):
                if hasattr(thing, spec.name) and spec.name not in back:
                    one = replace(one, **{spec.name: getattr(thing, spec.name)})
                elif spec.name in ("partition_index", "key", "group_id", "name") and isinstance(thing, int | str):
                    one = (
                        replace(one, **{spec.name: thing}) if isinstance(getattr(one, spec.name), type(thing)) else one
                    )
            things.append(one)
        return owner(**{back[0]: tuple(things)})

    if len(split.answers) < len(split.things):  # log directories are asked, topics answered
        return by_topic(request)
    return answered(request, answer, split.things, split.answers)


def by_topic(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """What is asked of a topic in several log directories is one answer."""
    answers: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for topic in (topic for directory in request.dirs for topic in directory.topics):
        answers.setdefault(topic.name, []).extend(
            AlterReplicaLogDirPartitionResult(partition_index=each) for each in topic.partitions
        )
    return AlterReplicaLogDirsResponse(
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=name, partitions=tuple(each)) for name, each in answers.items()
        )
    )


def done(steps: Generator[Deferred | None, Any, Any]) -> Any:
    """What the steps come to; each deferred is answered with what it holds."""
    reply = None
    while True:
        try:
            waits_for = steps.send(reply)
        except StopIteration as end:
            return end.value
        reply = None if waits_for is None else waits_for.reply


@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize(("key", "split"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_what_is_answered_in_parts_is_answered_whole(key: ApiKey, split: Split, *, is_late: bool) -> None:
    """Every API that is cut: no part is lost or doubled, each piece is small, and the answer is that to the whole."""
    counts = {1: (1_234,), 2: (7, 333), 3: (3, 5, 99)}[len(split.things)]
    request = made(request_class(key), split.things, counts)
    pieces: list[Any] = []

    def handle(piece: Any, _context: RequestContext, _target: Any) -> HotResult:
        pieces.append(piece)
        reply = Reply(echo(piece, response_class(key), split))
        if not is_late:
            return reply
        deferred = Deferred()
        deferred.complete(reply)
        return deferred

    found = done(answer_in_parts(key, request, RequestContext(api_key=key, api_version=0), handle, None))
    assert found == Reply(echo(request, response_class(key), split))
    assert len(pieces) > 1
    assert all(len(getattr(piece, split.things[0])) <= split.at_once for piece in pieces)


@pytest.mark.parametrize("things", [(5_000, 1), (5_000,)])
def test_many_answers_become_one_in_short_steps(things: tuple[int, ...]) -> None:
    """inv:M6: of 20,000 topics with a partition each, or resources of which one is named twice, the answers were joined in one turn."""
    key = ApiKey.ALTER_PARTITION_REASSIGNMENTS if len(things) == 2 else ApiKey.ALTER_CONFIGS
    (split,) = SPLITS[key]
    request = made(request_class(key), split.things, things)
    if len(things) == 1:
        request = replace(request, resources=(*request.resources, request.resources[0]))
    pieces: list[Any] = []

    def handle(piece: Any, _context: RequestContext, _target: Any) -> HotResult:
        pieces.append(piece)
        return Reply(echo(piece, response_class(key), split))

    steps = answer_in_parts(key, request, RequestContext(api_key=key, api_version=0), handle, None)
    rests_behind_the_last_piece = 0
    known = -1
    for _ in steps:
        rests_behind_the_last_piece = rests_behind_the_last_piece + 1 if len(pieces) == known else 0
        known = len(pieces)
    assert rests_behind_the_last_piece > 5_000 // 256


def test_all_topics_of_a_group_stay_all() -> None:
    """OffsetFetch: null means all topics, beside other groups with few. It may be very many, and is answered alone."""
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    groups = (OffsetFetchRequestGroup(group_id="a", topics=None), OffsetFetchRequestGroup(group_id="b", topics=topics))
    request = OffsetFetchRequest(groups=groups)
    seen: list[Any] = []

    def handle(piece: Any, _context: RequestContext, _target: Any) -> HotResult:
        seen.append(piece)
        return Reply(echo(piece, response_class(ApiKey.OFFSET_FETCH), SPLITS[ApiKey.OFFSET_FETCH][0]))

    done(answer_in_parts(ApiKey.OFFSET_FETCH, request, RequestContext(api_key=9, api_version=8), handle, None))
    assert seen == [replace(request, groups=(group,)) for group in groups]


def test_a_resource_that_is_named_twice_is_refused_wherever_it_stands() -> None:
    """input:B24: also when a thousand others lie between."""
    names = [*(f"t{number}" for number in range(1_000)), "t0"]
    request = AlterConfigsRequest(resources=tuple(AlterConfigsResource(resource_name=name) for name in names))
    seen: list[str] = []

    def handle(piece: Any, _context: RequestContext, _target: Any) -> HotResult:
        seen.extend(one.resource_name for one in piece.resources)
        return Reply(echo(piece, response_class(ApiKey.ALTER_CONFIGS), SPLITS[ApiKey.ALTER_CONFIGS][0]))

    context = RequestContext(api_key=ApiKey.ALTER_CONFIGS, api_version=0)
    found = done(answer_in_parts(ApiKey.ALTER_CONFIGS, request, context, handle, None)).message.responses
    assert seen == names[1:-1]
    assert [one.resource_name for one in found] == names
    assert [one.error_code for one in found] == [ErrorCode.INVALID_REQUEST, *[0] * 999, ErrorCode.INVALID_REQUEST]


def test_kafkas_bound_on_the_partitions_of_one_request_holds_for_all_pieces() -> None:
    """POLICY_VIOLATION for each topic, and the controller is not asked."""
    topics = tuple(CreatableTopic(name=f"t{number}", num_partitions=101) for number in range(100))
    context = RequestContext(api_key=ApiKey.CREATE_TOPICS, api_version=5)
    steps = answer_in_parts(
        ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=topics), context, lambda *_: pytest.fail("asked"), None
    )
    found = done(steps).message.topics
    assert {(one.error_code, one.error_message) for one in found} == {
        (ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    }
    assert [one.name for one in found] == [one.name for one in topics]


def test_of_what_is_handled_whole_there_may_be_so_much_and_no_more() -> None:
    """Nobody who is honest names more states of groups, or replicas of one voter, than ten thousand."""
    context = RequestContext(api_key=ApiKey.LIST_GROUPS, api_version=5)

    def ask(count: int) -> Any:
        request = ListGroupsRequest(states_filter=("x",) * count)
        return done(answer_in_parts(ApiKey.LIST_GROUPS, request, context, lambda *_: Reply("answer"), None))

    assert ask(MOST_PARTS_AT_ONCE) == Reply("answer")
    with pytest.raises(DecodeError, match="more than 10000 parts"):
        ask(MOST_PARTS_AT_ONCE + 1)
