"""The codec of Produce: a request as batches without a copy, and its response in a few microseconds.

The usual request, one topic with one partition in a flexible version, has a path of its own; every other shape goes
through the compiled codec. So both refuse the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from headrace.core.errors import DecodeError
from headrace.core.ids import Uuid
from headrace.wire.codec import decode_in_steps, encode, in_few_steps
from headrace.wire.leader_hints import Endpoint, LeaderHint
from headrace.wire.messages import produce as messages
from headrace.wire.schema import Records
from headrace.wire.source import new_uuid
from headrace.wire.varint import Buffer, append_uvarint, continue_uvarint, read_uvarint

FIRST_VERSION: Final = 3
FIRST_FLEXIBLE: Final = 9
FIRST_WITH_HINTS: Final = 10
FIRST_WITH_TOPIC_IDS: Final = 13

TopicName = str | Uuid
"""A topic as the request's version names it: by its name, or from version 13 on by its id."""

AppendedBatch = tuple[TopicName, int, int, int, int]
"""Topic, partition, base offset, append time and log start of a batch that was appended."""

_HEAD = struct.Struct(">xhiBB")  # no transactional id, acks, timeout, topics, length of the name
_HEAD_BY_ID = struct.Struct(">xhiB16s")
_PART = struct.Struct(">BiB")  # partitions, index, length of the records
_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
_OLD_HEAD = struct.Struct(">hhiih")  # length of the transactional id, acks, timeout, topics, length of the name
_OLD_PART = struct.Struct(">iii")
_RESULT = struct.Struct(">BihqqqBBxxix")  # one partition up to the end of the answer
_RESULT_BY_ID = struct.Struct(">B16sBihqqqBBxxix")
_ONE_RESULT = struct.Struct(">ihqqqBBx")  # one partition among others
_TAIL = struct.Struct(">ix")  # throttle time, no tags
_TOPIC_OF = itemgetter(0)
_OLD_HEAD_OF_ONE = struct.Struct(">ih")
_OLD_RESULT = struct.Struct(">iihqqi")  # the same in versions that are not flexible
_OLD_RESULT_V5 = struct.Struct(">iihqqqi")
_OLD_RESULT_V8 = struct.Struct(">iihqqqihi")
_MOST_AT_ONCE = 500
"""Partitions that are read and appended to in one turn: a few milliseconds."""
_REST_AFTER = 256
_ONE = 2  # a count of one in a flexible version
_NOT_USUAL = None
_bytes = bytes.__new__


class ProduceBatch(NamedTuple):
    """What a request brings for one partition; `records` is a view onto the frame."""

    topic: TopicName
    partition: int
    records: memoryview | None


class ParsedProduce(NamedTuple):
    """A Produce request with its partitions in one list. A topic without partitions leaves no trace."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    batches: Sequence[ProduceBatch]


# Named tuples out of ready tuples: a quarter of the cost of their constructors.
_new_batch: Final[Callable[[tuple[Any, ...]], ProduceBatch]] = partial(tuple.__new__, ProduceBatch)
_parsed: Final[Callable[[tuple[Any, ...]], ParsedProduce]] = partial(tuple.__new__, ParsedProduce)


class ProduceResult(NamedTuple):
    """What became of one partition's batch. Offsets and times are -1 where there is none."""

    topic: TopicName
    partition: int
    error_code: int = 0
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    current_leader: LeaderHint | None = None


def parse_produce(frame: Buffer, pos: int, version: int) -> ParsedProduce:
    """The request whose message starts at `pos` of `frame` and fills it to its end. Raises DecodeError; LongMessage for one with very many partitions."""
    view = frame if type(frame) is memoryview else memoryview(frame)
    if len(view) - pos > _HEAD_BY_ID.size + _PART.size:
        if version >= FIRST_FLEXIBLE:
            by_id = version >= FIRST_WITH_TOPIC_IDS
            found = _parse_usual(view, pos, by_id=by_id) or _parse_many(view, pos, by_id=by_id)
        else:
            found = _parse_old_usual(view, pos) if version >= FIRST_VERSION else None
        if found is not None:
            return found
    return in_few_steps(parse_produce_in_steps(view[pos:], version))


def parse_produce_in_steps(body: memoryview, version: int) -> Generator[None, None, ParsedProduce]:
    """The same of a request of any length, with a yield after every few partitions. Raises DecodeError, also above `MAX_PARTITIONS` of them."""
    request = yield from decode_in_steps(messages.ProduceRequest, body, version)
    by_id = version >= FIRST_WITH_TOPIC_IDS
    batches: list[ProduceBatch] = []
    for topic in request.topic_data:
        name = topic.topic_id if by_id else topic.name
        for part in topic.partition_data:
            batches.append(ProduceBatch(name, part.index, _as_view(part.records)))
            if not len(batches) % _REST_AFTER:
                yield
    return ParsedProduce(request.transactional_id, request.acks, request.timeout_ms, batches)


def _as_view(records: Records | None) -> memoryview | None:
    return memoryview(records) if type(records) is bytes else records  # type: ignore[return-value]


def _parse_usual(view: memoryview, pos: int, *, by_id: bool) -> ParsedProduce | None:
    """One topic, one partition, no transaction, no tags; None for any other shape."""
    if view[pos]:
        return _NOT_USUAL
    topic: TopicName
    if by_id:
        acks, timeout_ms, topics, topic_id = _HEAD_BY_ID.unpack_from(view, pos)
        pos += _HEAD_BY_ID.size
        topic = _bytes(Uuid, topic_id)
    else:
        acks, timeout_ms, topics, length = _HEAD.unpack_from(view, pos)
        start = pos + _HEAD.size
        pos = start + length - 1
        if not 0 < length < 0x80 or pos + _PART.size > len(view):
            return _NOT_USUAL
        try:
            topic = str(view[start:pos], "utf-8")
        except UnicodeDecodeError:
            return _NOT_USUAL
    partitions, index, size = _PART.unpack_from(view, pos)
    pos += _PART.size
    if topics != _ONE or partitions != _ONE or not size:
        return _NOT_USUAL
    if size > 0x7F:
        second = view[pos] if pos < len(view) else 0
        if 0 < second < 0x80:
            size = size & 0x7F | second << 7
            pos += 1
        else:
            try:
                size, pos = continue_uvarint(view, pos, size)
            except (IndexError, DecodeError):
                return _NOT_USUAL
    end = pos + size - 1
    if end + 3 != len(view) or view[end] or view[end + 1] or view[end + 2]:
        return _NOT_USUAL
    return _parsed((None, acks, timeout_ms, [_new_batch((topic, index, view[pos:end]))]))


def _parse_many(view: memoryview, pos: int, *, by_id: bool) -> ParsedProduce | None:
    """Some topics and partitions, no transaction, no tags; None for any other shape, and for very many."""
    if view[pos]:
        return _NOT_USUAL
    batches: list[ProduceBatch] = []
    try:
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(view, pos + 1)
        topics, at = read_uvarint(view, pos + 1 + _ACKS_AND_TIMEOUT.size)
        if topics > _MOST_AT_ONCE:
            return _NOT_USUAL
        for _ in range(topics - 1):
            after = _parse_topic(view, at, batches, by_id=by_id)
            if after is None or len(batches) > _MOST_AT_ONCE:
                return _NOT_USUAL
            at = after
        is_whole = topics and not view[at] and at + 1 == len(view)
    except (struct.error, IndexError, DecodeError, UnicodeDecodeError):
        return _NOT_USUAL
    return _parsed((None, acks, timeout_ms, batches)) if is_whole else _NOT_USUAL


def _parse_topic(view: memoryview, pos: int, batches: list[ProduceBatch], *, by_id: bool) -> int | None:
    """The batches of a topic, and where the next one begins; None for an unusual one. Raises what reading behind the end raises."""
    topic: TopicName
    if by_id:
        end = pos + 16
        topic = new_uuid(bytes(view[pos:end]))
    else:
        length, pos = read_uvarint(view, pos)
        end = pos + length - 1
        if not length:
            return _NOT_USUAL
        topic = str(view[pos:end], "utf-8")
    partitions, pos = read_uvarint(view, end)
    if partitions > _MOST_AT_ONCE:
        return _NOT_USUAL
    for _ in range(partitions - 1):
        (index,) = _INDEX.unpack_from(view, pos)
        size, pos = read_uvarint(view, pos + 4)
        end = pos + size - 1
        if not size or view[end]:
            return _NOT_USUAL
        batches.append(_new_batch((topic, index, view[pos:end])))
        pos = end + 1
    return _NOT_USUAL if not partitions or view[pos] else pos + 1


def _parse_old_usual(view: memoryview, pos: int) -> ParsedProduce | None:
    """One topic, one partition, no transaction, in a version that is not flexible; None for any other shape."""
    no_id, acks, timeout_ms, topics, length = _OLD_HEAD.unpack_from(view, pos)
    start = pos + _OLD_HEAD.size
    pos = start + length
    if no_id != -1 or topics != 1 or length < 0 or pos + _OLD_PART.size > len(view):
        return _NOT_USUAL
    partitions, index, size = _OLD_PART.unpack_from(view, pos)
    pos += _OLD_PART.size
    if partitions != 1 or size < 0 or pos + size != len(view):
        return _NOT_USUAL
    try:
        topic = str(view[start : start + length], "utf-8")
    except UnicodeDecodeError:
        return _NOT_USUAL
    return _parsed((None, acks, timeout_ms, [_new_batch((topic, index, view[pos:]))]))


def encode_produce_response(
    version: int,
    results: Sequence[ProduceResult],
    *,
    throttle_time_ms: int = 0,
    endpoints: Iterable[Endpoint] = (),
) -> bytes:
    """The message of an answer, without header. What the version cannot say (hints, messages) is left out.

    Results of one topic that follow each other are written under one topic.
    """
    response = messages.ProduceResponse(
        responses=tuple(_topic(version, topic, list(parts)) for topic, parts in groupby(results, _TOPIC_OF)),
        throttle_time_ms=throttle_time_ms,
        node_endpoints=_endpoints(version, endpoints),
    )
    return encode(response, version)


def produce_response_in_steps(
    version: int, results: Sequence[ProduceResult], *, endpoints: Iterable[Endpoint] = ()
) -> Generator[None, None, messages.ProduceResponse]:
    """The message of the same answer, made with a yield after every few partitions."""
    topics = []
    for topic, parts in groupby(results, _TOPIC_OF):
        made = []
        for number, result in enumerate(parts):
            if not number % _REST_AFTER:
                yield
            made.append(_partition(version, result))
        topics.append(_of_topic(topic, tuple(made)))
    return messages.ProduceResponse(responses=tuple(topics), node_endpoints=_endpoints(version, endpoints))


def encode_appended(version: int, batch: AppendedBatch, throttle_time_ms: int = 0) -> bytes:
    """The answer to a request with one batch that was appended, without header. Hot path."""
    topic, partition, base_offset, append_time_ms, log_start_offset = batch
    if version >= FIRST_WITH_TOPIC_IDS:
        # one topic, one partition ... no record errors (an empty array), no message (null)
        return _RESULT_BY_ID.pack(
            _ONE, topic, _ONE, partition, 0, base_offset, append_time_ms, log_start_offset, 1, 0, throttle_time_ms
        )
    name = topic.encode()  # type: ignore[union-attr] # a name before version 13
    if version >= FIRST_FLEXIBLE:
        out = bytearray(b"\x02")
        append_uvarint(out, len(name) + 1)
        fields = _RESULT.pack(_ONE, partition, 0, base_offset, append_time_ms, log_start_offset, 1, 0, throttle_time_ms)
        return bytes(out + name + fields)
    head = _OLD_HEAD_OF_ONE.pack(1, len(name)) + name
    fixed = (1, partition, 0, base_offset, append_time_ms)
    if version >= 8:
        return head + _OLD_RESULT_V8.pack(*fixed, log_start_offset, 0, -1, throttle_time_ms)
    if version >= 5:
        return head + _OLD_RESULT_V5.pack(*fixed, log_start_offset, throttle_time_ms)
    return head + _OLD_RESULT.pack(*fixed, throttle_time_ms)


def encode_all_appended(version: int, batches: Sequence[AppendedBatch], throttle_time_ms: int = 0) -> bytes:
    """The answer to a request whose batches were all appended, without header. Hot path."""
    if version < FIRST_FLEXIBLE:
        results = [
            ProduceResult(topic, index, 0, base_offset, append_time_ms, log_start_offset)
            for topic, index, base_offset, append_time_ms, log_start_offset in batches
        ]
        return encode_produce_response(version, results, throttle_time_ms=throttle_time_ms)
    by_id = version >= FIRST_WITH_TOPIC_IDS
    topics = [(topic, list(parts)) for topic, parts in groupby(batches, _TOPIC_OF)]
    out = bytearray()
    append_uvarint(out, len(topics) + 1)
    for topic, parts in topics:
        if by_id:
            out += topic
        else:
            name = topic.encode()
            append_uvarint(out, len(name) + 1)
            out += name
        append_uvarint(out, len(parts) + 1)
        for _, index, base_offset, append_time_ms, log_start_offset in parts:
            out += _ONE_RESULT.pack(index, 0, base_offset, append_time_ms, log_start_offset, 1, 0)
        out.append(0)
    out += _TAIL.pack(throttle_time_ms)
    return bytes(out)


def _topic(version: int, topic: TopicName, results: list[ProduceResult]) -> messages.TopicProduceResponse:
    return _of_topic(topic, tuple(_partition(version, result) for result in results))


def _of_topic(topic: TopicName, parts: tuple[messages.PartitionProduceResponse, ...]) -> messages.TopicProduceResponse:
    if isinstance(topic, Uuid):
        return messages.TopicProduceResponse(topic_id=topic, partition_responses=parts)
    return messages.TopicProduceResponse(name=topic, partition_responses=parts)


def _endpoints(version: int, endpoints: Iterable[Endpoint]) -> tuple[messages.NodeEndpoint, ...]:
    if version < FIRST_WITH_HINTS:
        return ()
    return tuple(messages.NodeEndpoint(node_id=e.node_id, host=e.host, port=e.port, rack=e.rack) for e in endpoints)


def _partition(version: int, result: ProduceResult) -> messages.PartitionProduceResponse:
    hint = result.current_leader if version >= FIRST_WITH_HINTS else None
    leader_id, leader_epoch = hint or (-1, -1)
    return messages.PartitionProduceResponse(
        index=result.partition,
        error_code=result.error_code,
        base_offset=result.base_offset,
        log_append_time_ms=result.log_append_time_ms,
        log_start_offset=result.log_start_offset,
        record_errors=tuple(
            messages.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        ),
        error_message=result.error_message,
        current_leader=messages.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch),
    )


def encode_produce_request(
    version: int,
    batches: Sequence[tuple[TopicName, int, Records]],
    *,
    transactional_id: str | None = None,
    acks: int = -1,
    timeout_ms: int = 30_000,
) -> list[Records]:
    """The message of a request, without header, in pieces: the batches are among them as they are, not copied."""
    by_id, flexible = version >= FIRST_WITH_TOPIC_IDS, version >= FIRST_FLEXIBLE
    topics = [(topic, list(parts)) for topic, parts in groupby(batches, lambda batch: batch[0])]
    start = messages.ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms)
    out = bytearray(encode(start, version))
    del out[-2 if flexible else -4 :]  # the empty array of topics, and the tags behind it
    pieces: list[Records] = []
    _append_count(out, len(topics), flexible=flexible)
    for topic, parts in topics:
        if by_id:
            assert isinstance(topic, Uuid)
            out += topic
        else:
            assert isinstance(topic, str)
            name = topic.encode()
            _append_count(out, len(name), flexible=flexible, width=2)
            out += name
        _append_count(out, len(parts), flexible=flexible)
        for _, partition, records in parts:
            out += partition.to_bytes(4, "big")
            _append_count(out, len(records), flexible=flexible)
            pieces += (bytes(out), records)
            out = bytearray(b"\0" if flexible else b"")
        out += b"\0" if flexible else b""
    out += b"\0" if flexible else b""
    pieces.append(bytes(out))
    return pieces


def _append_count(out: bytearray, count: int, *, flexible: bool, width: int = 4) -> None:
    if flexible:
        append_uvarint(out, count + 1)
    else:
        out += count.to_bytes(width, "big")
