"""Requests that name very much, answered a few things at a time.

Such a request is cut into requests of the same kind that name little; the handler answers each of them, and the answers become one. What it is cut
along is in `SPLITS`, for every API whose parts are answered one by one in Kafka as well. Of the others no honest peer's request has more than
`MOST_PARTS_AT_ONCE` parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final

from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError
from headrace.core.values import value_class
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import AnyReply, Deferred, HotResult, InSteps, Reply
from headrace.wire.api_facts import ApiKey
from headrace.wire.schema import Message, Struct, fields_of
from headrace.wire.versions import response_class

Handler = Callable[[Any, RequestContext, Any], HotResult]

MOST_PARTS_AT_ONCE: Final = 10_000
"""Kafka's controllers refuse an operation of more than 10,000 records; what is handled in one turn, a topic with its settings for example, has no
more parts than that either."""
MOST_ANSWER_PARTS: Final = 2 << 20
"""In memory some 400 MB: the settings of twenty thousand topics with all that they could be. To name one thing a million times would take as much a million times."""
_REST_AFTER: Final = 256
_REPEATED: Final = "Each resource must appear at most once."
_ARRAYS: Final[dict[type[Any], tuple[str, ...]]] = {}
_IDENTITY: Final = ("group_id", "name", "topic", "topic_name", "topic_id", "id")


@value_class
class Split:
    """How a request is cut: the way to the things it names, the way to their answers, and how many are answered at once.

    `weight` says what a thing counts against Kafka's bound of 10,000 partitions in one request, for the APIs that have it.
    `only_once` are the fields that name a thing where one that is named twice is refused, with the words that `repeated` has for its names; of things
    that are mere names it is the field of their answers.
    """

    things: tuple[str, ...]
    answers: tuple[str, ...]
    at_once: int = 50
    weight: Callable[[Any], int] | None = None
    only_once: tuple[str, ...] = ()
    repeated: Callable[[dict[str, Any]], str] = lambda _: _REPEATED


_PARTITIONS = Split(things=("topics", "partitions"), answers=("topics", "partitions"))
_MANY_PARTITIONS = replace(_PARTITIONS, at_once=500)
_RESOURCES = Split(
    things=("resources",), answers=("responses",), at_once=20, only_once=("resource_type", "resource_name")
)

_TOPICS_TO_DELETE = Split(
    things=(),
    answers=("responses",),
    at_once=10,  # with all their partitions
    repeated=lambda names: f"Duplicate topic {'id' if names['name'] is None else 'name'}.",
)

SPLITS: Final[dict[int, tuple[Split, ...]]] = {
    ApiKey.LIST_OFFSETS: (_PARTITIONS,),
    ApiKey.OFFSET_COMMIT: (_MANY_PARTITIONS,),
    ApiKey.OFFSET_FETCH: (
        Split(
            things=("groups", "topics", "partition_indexes"), answers=("groups", "topics", "partitions"), at_once=200
        ),
        Split(things=("topics", "partition_indexes"), answers=("topics", "partitions"), at_once=200),
    ),
    ApiKey.FIND_COORDINATOR: (Split(things=("coordinator_keys",), answers=("coordinators",)),),
    ApiKey.DESCRIBE_GROUPS: (Split(things=("groups",), answers=("groups",), at_once=1),),
    ApiKey.CREATE_TOPICS: (
        Split(
            things=("topics",),
            answers=("topics",),
            at_once=100,
            weight=lambda topic: max(topic.num_partitions, len(topic.assignments), 1),
        ),
    ),
    ApiKey.DELETE_TOPICS: (
        replace(_TOPICS_TO_DELETE, things=("topics",), only_once=("name", "topic_id")),
        replace(_TOPICS_TO_DELETE, things=("topic_names",), only_once=("name",)),
    ),
    ApiKey.DELETE_RECORDS: (_PARTITIONS,),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (_PARTITIONS,),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (
        Split(things=("dirs", "topics", "partitions"), answers=("results", "partitions"), at_once=10),
    ),
    ApiKey.DESCRIBE_CONFIGS: (Split(things=("resources",), answers=("results",), at_once=1),),
    ApiKey.ALTER_CONFIGS: (_RESOURCES,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (_RESOURCES,),
    ApiKey.CREATE_PARTITIONS: (
        Split(
            things=("topics",),
            answers=("results",),
            at_once=100,
            weight=lambda topic: len(topic.assignments or ()) or 1,
        ),
    ),
    ApiKey.DELETE_GROUPS: (Split(things=("groups_names",), answers=("results",), at_once=10),),
    ApiKey.ALTER_PARTITION: (_MANY_PARTITIONS,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (
        Split(things=("topics", "partitions"), answers=("responses", "partitions"), at_once=200),
    ),
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: (
        Split(
            things=("directories", "topics", "partitions"), answers=("directories", "topics", "partitions"), at_once=100
        ),
    ),
    ApiKey.OFFSET_DELETE: (_MANY_PARTITIONS,),
}
"""By API key; the first whose things a request has."""

_STEPS_OF_THEIR_OWN: Final = frozenset({ApiKey.METADATA, ApiKey.ENVELOPE})
"""Their handlers give steps for what is long."""


def has_many_things(api_key: int, request: Any) -> bool:
    """Whether a request names more than is answered at once, however few bytes it has."""
    split = _split_of(api_key, request)
    return split is not None and _size(request, split.things, split.at_once) > split.at_once + 1


def _split_of(api_key: int, request: Any) -> Split | None:
    return next((one for one in SPLITS.get(api_key, ()) if getattr(request, one.things[0])), None)


def answer_in_parts(
    api_key: int,
    request: Any,
    context: RequestContext,
    handle: Handler,
    target: Any,
    *,
    answers: list[Any] | None = None,
) -> Steps[AnyReply | Deferred]:
    """The answer to a request that may be long; `answers` are those of its parts until they are one.

    Raises DecodeError for a request with more parts than are handled at once, and for an answer with more than MOST_ANSWER_PARTS.
    """
    split = _split_of(api_key, request)
    if split is None:
        if api_key not in _STEPS_OF_THEIR_OWN:
            yield from _check_parts(request)
        return (yield from settled(handle(request, context, target)))
    if (
        split.weight is not None
        and (yield from _total(getattr(request, split.things[0]), split.weight)) > MOST_PARTS_AT_ONCE
    ):
        return (yield from _too_large(api_key, request, split))
    repeated: dict[int, Any] = {}
    if split.only_once:
        request, repeated = yield from _without_repeated(api_key, request, split)
    answers = [] if answers is None else answers
    room = MOST_ANSWER_PARTS
    for piece in _cut(request, split.things, split.at_once):
        yield from _check_parts(piece)
        yield None
        reply = yield from settled(handle(piece, context, target))
        if isinstance(reply, Deferred):
            there = yield reply
            assert there is not None, "a deferred gives its reply"
            reply = yield from settled(there)
        if not isinstance(reply, Reply):
            return reply
        answers.append(reply.message)
        room -= _parts(reply.message, split.answers)
        if room < 0:
            raise DecodeError(f"an answer of more than {MOST_ANSWER_PARTS} parts to one request")
        if not getattr(reply.message, split.answers[0]):
            break  # refused as a whole
    joined = yield from _joined(answers, split.answers)
    return Reply((yield from _with_repeated(joined, repeated, split)) if repeated else joined)


def asks_for_all(request: Any) -> bool:
    """Whether a request has null for the things that it asks for, which stands for all of them."""
    return any(getattr(request, name) is None for name in _arrays_of(type(request)))


def answer_later(handle: Handler, request: Any, context: RequestContext, target: Any) -> Steps[AnyReply | Deferred]:
    """The answer to an ordinary request, when others had their turn."""
    return (yield from settled(handle(request, context, target)))


def settled(result: HotResult) -> Steps[AnyReply | Deferred]:
    """What a handler gave, its steps done."""
    if isinstance(result, InSteps):
        return (yield from result.steps)
    assert not isinstance(result, bytes | tuple), "hot handlers read raw bytes"
    return result


# --- cutting ---


def _parts(value: Any, way: tuple[str, ...]) -> int:
    """About how many parts an answer has: the things at the end of the way, and the elements of their arrays and of the first of these."""
    things = getattr(value, way[0]) or ()
    if len(way) > 1:
        return sum(_parts(thing, way[1:]) for thing in things)
    total = len(things)
    for thing in things:
        for name in _arrays_of(type(thing)):
            inner = getattr(thing, name)
            if inner:
                of_first = [len(getattr(inner[0], each) or ()) for each in _arrays_of(type(inner[0]))]
                total += len(inner) * (1 + sum(of_first))
    return total


def _arrays_of(cls: type[Any]) -> tuple[str, ...]:
    known = _ARRAYS.get(cls)
    if known is None:
        is_struct = issubclass(cls, Struct)
        known = _ARRAYS[cls] = tuple(spec.name for spec in fields_of(cls) if spec.is_array) if is_struct else ()
    return known


def _cut(value: Any, way: tuple[str, ...], at_once: int) -> Iterator[Any]:
    """The value again and again, with at most so many of the things at the end of the way each time."""
    things = getattr(value, way[0]) or ()
    if not things:
        yield value
    elif len(way) == 1:
        for at in range(0, len(things), at_once):
            yield replace(value, **{way[0]: things[at : at + at_once]}) if len(things) > at_once else value
    else:
        group: list[Any] = []
        room = at_once
        for part in (part for thing in things for part in _cut(thing, way[1:], at_once)):
            size = _size(part, way[1:], at_once)
            if group and size > room:
                yield replace(value, **{way[0]: tuple(group)})
                group, room = [], at_once
            group.append(part)
            room -= size
        yield replace(value, **{way[0]: tuple(group)})


def _size(value: Any, way: tuple[str, ...], at_once: int) -> int:
    """How many things there are at the end of the way, and 1 for the value itself. Null stands for all that there are, and is answered alone."""
    things = getattr(value, way[0])
    if not things:
        return 1 if things is not None else 1 + at_once
    return 1 + (len(things) if len(way) == 1 else sum(_size(thing, way[1:], at_once) for thing in things))


# --- joining ---


def _joined(values: list[Any], way: tuple[str, ...]) -> Generator[None, None, Any]:
    """One value of many: at each step of the way things that are the same are one, in the order in which they first came."""
    if len(values) == 1:
        return values[0]
    things: list[Any] = []
    known: dict[Any, list[Any]] = {}
    for number, thing in enumerate(thing for value in values for thing in getattr(value, way[0]) or ()):
        if not number % _REST_AFTER:
            yield None
        if len(way) == 1:
            things.append(thing)
        else:
            known.setdefault(_identity(thing), []).append(thing)
    for number, parts in enumerate(known.values()):
        if not number % _REST_AFTER:
            yield None
        things.append((yield from _joined(parts, way[1:])))
    return replace(values[-1], **{way[0]: tuple(things)})


def _identity(thing: Any) -> tuple[Any, ...]:
    return tuple(getattr(thing, name, None) for name in _IDENTITY)


# --- what is named twice ---


def _without_repeated(api_key: int, request: Any, split: Split) -> Generator[None, None, tuple[Any, dict[int, Any]]]:
    """The request without the things that it names more than once, and the refusals of these by their places."""
    things = getattr(request, split.things[0])
    name_of = attrgetter(*split.only_once) if not isinstance(things[0], str) else str
    counts: Counter[Any] = Counter()
    for number, thing in enumerate(things):
        if not number % _REST_AFTER:
            yield None
        counts[name_of(thing)] += 1
    if len(counts) == len(things):
        return request, {}
    result = _result_class(api_key, split)
    others, repeated = [], {}
    for number, thing in enumerate(things):
        if not number % _REST_AFTER:
            yield None
        if counts[name_of(thing)] == 1:
            others.append(thing)
        else:
            names = {name: thing if isinstance(thing, str) else getattr(thing, name) for name in split.only_once}
            message = split.repeated(names)
            repeated[number] = result(error_code=ErrorCode.INVALID_REQUEST, error_message=message, **names)
    return replace(request, **{split.things[0]: tuple(others)}), repeated


def _with_repeated(answer: Any, repeated: dict[int, Any], split: Split) -> Generator[None, None, Any]:
    """The refusals at their places among the other answers."""
    others = iter(getattr(answer, split.answers[0]))
    whole = []
    for place in range(len(repeated) + len(getattr(answer, split.answers[0]))):
        if not place % _REST_AFTER:
            yield None
        whole.append(repeated[place] if place in repeated else next(others))
    return replace(answer, **{split.answers[0]: tuple(whole)})


# --- bounds ---


def _total(things: Iterable[Any], weight: Callable[[Any], int]) -> Generator[None, None, int]:
    total = 0
    for number, thing in enumerate(things):
        if not number % _REST_AFTER:
            yield None
        total += weight(thing)
    return total


def _too_large(api_key: int, request: Any, split: Split) -> Generator[None, None, Reply]:
    """Kafka's refusal of what would be too many partitions at once."""
    answer, result = response_class(api_key), _result_class(api_key, split)
    refused = []
    for number, thing in enumerate(getattr(request, split.things[0])):
        if not number % _REST_AFTER:
            yield None
        refused.append(
            result(
                name=thing.name,
                error_code=ErrorCode.POLICY_VIOLATION,
                error_message="Excessively large number of partitions per request.",
            )
        )
    return Reply(answer(**{split.answers[0]: tuple(refused)}))


def _result_class(api_key: int, split: Split) -> Any:
    """The struct that answers one thing."""
    return next(spec.struct for spec in fields_of(response_class(api_key)) if spec.name == split.answers[0])


def _check_parts(message: Message) -> Generator[None, None, None]:
    """Raises DecodeError when there are more parts than are handled at once."""
    total = 0
    waiting: list[Any] = [message]
    while waiting:
        part = waiting.pop()
        for spec in fields_of(type(part)):
            value = getattr(part, spec.name)
            if spec.is_array and value:
                total += len(value)
                if total > MOST_PARTS_AT_ONCE:
                    raise DecodeError(f"{type(message).__name__}: more than {MOST_PARTS_AT_ONCE} parts")
            if spec.struct is not None and value is not None:
                waiting.extend(value if spec.is_array else (value,))
        if not len(waiting) % _REST_AFTER:
            yield None
