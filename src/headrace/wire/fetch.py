"""The codec of Fetch: a request read, and its response written, in a few microseconds and without a copy of the records.

Requests of flexible versions without tagged fields (a consumer's, in most cases) have a path of their own, as have a follower's; every other
shape goes through the compiled codec. So both refuse the same bytes. The answer is a list of buffers with the slices of
files between them as they are: whoever sends it reads them on the way to the socket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, Final, NamedTuple, Protocol

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.codec import decode_in_steps, in_few_steps
from headrace.wire.leader_hints import Endpoint, LeaderHint, append_last_tags, append_leader_tag
from headrace.wire.messages import fetch as messages
from headrace.wire.produce import TopicName
from headrace.wire.schema import Records
from headrace.wire.varint import Buffer, append_uvarint

FIRST_WITH_LOG_START: Final = 5
FIRST_WITH_SESSIONS: Final = 7
FIRST_WITH_PREFERRED_REPLICA: Final = 11
FIRST_FLEXIBLE: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
FIRST_WITH_REPLICA_STATE: Final = 15
FIRST_WITH_ENDPOINTS: Final = 16

NO_HIGH_WATERMARK: Final = (1 << 63) - 1
"""What a request says of the high watermark that the fetcher knows, when it says nothing (KIP-1166)."""

_HEAD = struct.Struct(">iiiibiiB")  # replica id, waits and sizes, isolation level, session id and epoch, topics
_HEAD_NO_REPLICA = struct.Struct(">iiibiiB")
_PARTITION = struct.Struct(">iiqiqiB")  # the fields of a partition and a count of no tags
_REPLICA_TAIL = struct.Struct(">5siqB")  # what stands before the replica's id and epoch, these, no tags
_REPLICA_TAG: Final = b"\x01\x01\x01\x01\x0d"  # nothing forgotten, an empty rack, one tag: number 1 of 13 bytes
_OLD_HEAD = struct.Struct(">iiiibiii")
_OLD_PARTITION = struct.Struct(">iiqqi")
_OLD_END = struct.Struct(">ih")  # nothing forgotten, and the length of the rack
_TOPIC_ID = struct.Struct(">16sB")
_FIXED_RESULT = struct.Struct(">ihqqq")
_INT32 = struct.Struct(">i")
_ERROR_AND_SESSION = struct.Struct(">hi")
_ABORTED = struct.Struct(">qq")
_DIVERGING = struct.Struct(">BBiqx")  # tag, size, epoch, end offset, no tags
_SNAPSHOT = struct.Struct(">BBqix")  # tag, size, end offset, epoch, no tags
_V11_START = struct.Struct(">ihiih")  # throttle time, error, session, topics, length of the name
_V11_ONE = struct.Struct(">iihqqqiii")  # partitions, one of them up to the length of its records
_START = struct.Struct(">ihiB")  # the same in flexible versions
_START_BY_ID = struct.Struct(">ihiB16s")
_ONE = struct.Struct(">BihqqqBi")
_V11_OF_ONE = struct.Struct(">iiiibiiih")  # a request for one partition up to its topic's name
_V11_ASK = struct.Struct(">iiiqqiih")  # and behind it: partitions, the fields of one, nothing forgotten, an empty rack
_SMALL = 0x80
_MOST_AT_ONCE = 500
"""Partitions of a request that are read in one turn: a millisecond."""
_REST_AFTER = 256
_bytes = bytes.__new__
_NOT_USUAL = None


class FetchAsk(NamedTuple):
    """One partition that a request wants. Epochs and offsets are -1 where the fetcher does not say."""

    topic: TopicName
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: Uuid = ZERO_UUID
    high_watermark: int = NO_HIGH_WATERMARK


class ParsedFetch(NamedTuple):
    """A Fetch request with its partitions in one list. `replica_id` is -1 for a consumer."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    asks: Sequence[FetchAsk]
    forgotten: Sequence[tuple[TopicName, int]] = ()
    rack_id: str = ""
    cluster_id: str | None = None


# Named tuples out of ready tuples: a quarter of the cost of their constructors.
_new_ask: Final[Callable[[tuple[Any, ...]], FetchAsk]] = partial(tuple.__new__, FetchAsk)
_parsed: Final[Callable[[tuple[Any, ...]], ParsedFetch]] = partial(tuple.__new__, ParsedFetch)


class Sized(Protocol):
    """Bytes that lie in a file: only their number is needed here."""

    @property
    def size(self) -> int:
        """Length in bytes."""


Piece = bytes | bytearray | memoryview | Sized
"""A part of an answer: bytes, or a slice of a file."""


class FetchResult(NamedTuple):
    """What one partition answers. `records` is bytes, or a slice of a file that the sender reads.

    `aborted_transactions` are (producer id, first offset); None says that the fetcher did not ask for them.
    `diverging_epoch` is (epoch, end offset), `snapshot_id` is (end offset, epoch).
    """

    topic: TopicName
    partition: int
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: Records | Sized = b""
    aborted_transactions: Sequence[tuple[int, int]] | None = None
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None
    current_leader: LeaderHint | None = None
    snapshot_id: tuple[int, int] | None = None


def parse_fetch(frame: Buffer, pos: int, version: int) -> ParsedFetch:
    """The request whose message starts at `pos` of `frame` and fills it to its end. Raises DecodeError; LongMessage for one with very many partitions."""
    if version >= FIRST_WITH_PREFERRED_REPLICA:
        try:
            found = _parse_usual(frame, pos, version) if version >= FIRST_FLEXIBLE else _parse_v11_usual(frame, pos)
        except (struct.error, IndexError, UnicodeDecodeError):
            found = None
        if found is not None:
            return found
    return in_few_steps(parse_fetch_in_steps(frame[pos:], version))


def parse_fetch_in_steps(body: Buffer, version: int) -> Generator[None, None, ParsedFetch]:
    """The same of a request of any length, with a yield after every few partitions. Raises DecodeError, also above `MAX_PARTITIONS` of them."""
    request = yield from decode_in_steps(messages.FetchRequest, body, version)
    parsed = flatten(request, version, asks=())
    asks: list[FetchAsk] = []
    by_id = version >= FIRST_WITH_TOPIC_IDS
    for topic in request.topics:
        name = topic.topic_id if by_id else topic.topic
        for part in topic.partitions:
            asks.append(_ask(name, part))
            if not len(asks) % _REST_AFTER:
                yield
    return parsed._replace(asks=asks)


def flatten(request: messages.FetchRequest, version: int, *, asks: Sequence[FetchAsk] | None = None) -> ParsedFetch:
    """A request with its partitions in one list, unless there is one. The replica is in its own field before version 15."""
    by_id = version >= FIRST_WITH_TOPIC_IDS
    state = request.replica_state
    in_state = version >= FIRST_WITH_REPLICA_STATE
    return ParsedFetch(
        state.replica_id if in_state else request.replica_id,
        state.replica_epoch if in_state else -1,
        request.max_wait_ms,
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
        [_ask(topic.topic_id if by_id else topic.topic, part) for topic in request.topics for part in topic.partitions]
        if asks is None
        else asks,
        tuple(
            (topic.topic_id if by_id else topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ),
        request.rack_id,
        request.cluster_id,
    )


def _ask(topic: TopicName, part: messages.FetchPartition) -> FetchAsk:
    return FetchAsk(
        topic,
        part.partition,
        part.current_leader_epoch,
        part.fetch_offset,
        part.last_fetched_epoch,
        part.log_start_offset,
        part.partition_max_bytes,
        part.replica_directory_id,
        part.high_watermark,
    )


def _parse_usual(frame: Buffer, pos: int, version: int) -> ParsedFetch | None:
    """No tagged fields but a replica's state, nothing forgotten, a short rack if any, small counts; None for any other shape."""
    if version < FIRST_WITH_REPLICA_STATE:
        replica_id, *head, topics = _HEAD.unpack_from(frame, pos)
        pos += _HEAD.size
    else:
        replica_id = -1
        *head, topics = _HEAD_NO_REPLICA.unpack_from(frame, pos)
        pos += _HEAD_NO_REPLICA.size
    if not 0 < topics < _SMALL:
        return _NOT_USUAL
    asks: list[FetchAsk] = []
    for _ in range(topics - 1):
        after = _parse_topic(frame, pos, asks, by_id=version >= FIRST_WITH_TOPIC_IDS)
        if after is None or len(asks) > _MOST_AT_ONCE:
            return _NOT_USUAL
        pos = after
    # nothing forgotten (an empty array), an empty rack, no tags
    if pos + 3 == len(frame) and frame[pos:] == b"\x01\x01\x00":
        return _parsed((replica_id, -1, *head, asks, (), "", None))
    # the same with a rack
    length = frame[pos + 1]
    if 1 < length < _SMALL and pos + length + 2 == len(frame) and frame[pos] == 1 and not frame[-1]:
        return _parsed((replica_id, -1, *head, asks, (), str(frame[pos + 2 : -1], "utf-8"), None))
    # no rack, and one tag: the replica's state
    if (
        pos + _REPLICA_TAIL.size != len(frame)
        or frame[pos : pos + 5] != _REPLICA_TAG
        or frame[-1]
        or version < FIRST_WITH_REPLICA_STATE
    ):
        return _NOT_USUAL
    _, replica_id, replica_epoch, _ = _REPLICA_TAIL.unpack_from(frame, pos)
    return _parsed((replica_id, replica_epoch, *head, asks, (), "", None))


def _parse_topic(frame: Buffer, pos: int, asks: list[FetchAsk], *, by_id: bool) -> int | None:
    topic: TopicName
    if by_id:
        topic_id, partitions = _TOPIC_ID.unpack_from(frame, pos)
        topic = _bytes(Uuid, topic_id)
        pos += _TOPIC_ID.size
    else:
        length = frame[pos]
        end = pos + length
        if not 0 < length < _SMALL or end >= len(frame):
            return _NOT_USUAL
        topic = str(frame[pos + 1 : end], "utf-8")
        partitions = frame[end]
        pos = end + 1
    if not 0 < partitions < _SMALL:
        return _NOT_USUAL
    for _ in range(partitions - 1):
        *fields, tags = _PARTITION.unpack_from(frame, pos)
        if tags:
            return _NOT_USUAL
        pos += _PARTITION.size
        asks.append(_new_ask((topic, *fields, ZERO_UUID, NO_HIGH_WATERMARK)))
    return pos + 1 if frame[pos] == 0 else _NOT_USUAL


def _parse_v11_usual(frame: Buffer, pos: int) -> ParsedFetch | None:
    """As `_parse_usual`, of the last version that is not flexible, which many clients still speak."""
    replica_id, wait, least, most, isolation, session, epoch, topics, length = _V11_OF_ONE.unpack_from(frame, pos)
    start = pos + _V11_OF_ONE.size
    end = start + length
    if topics == 1 and length >= 0 and end + _V11_ASK.size == len(frame):
        partitions, partition, leader_epoch, offset, log_start, max_bytes, forgotten, rack = _V11_ASK.unpack_from(
            frame, end
        )
        if partitions == 1 and not forgotten and not rack:
            topic = str(frame[start:end], "utf-8")
            ask = (topic, partition, leader_epoch, offset, -1, log_start, max_bytes, ZERO_UUID, NO_HIGH_WATERMARK)
            asks = [_new_ask(ask)]
            return _parsed((replica_id, -1, wait, least, most, isolation, session, epoch, asks, (), "", None))
    return _parse_v11_many(frame, pos)


def _parse_v11_many(frame: Buffer, pos: int) -> ParsedFetch | None:
    """As `_parse_v11_usual`, of any number of topics and partitions."""
    replica_id, *head, topics = _OLD_HEAD.unpack_from(frame, pos)
    pos += _OLD_HEAD.size
    if not 0 <= topics <= _MOST_AT_ONCE:
        return _NOT_USUAL
    asks: list[FetchAsk] = []
    for _ in range(topics):
        length = (frame[pos] << 8) + frame[pos + 1]
        end = pos + 2 + length
        if end > len(frame):
            return _NOT_USUAL
        topic = str(frame[pos + 2 : end], "utf-8")
        partitions = _INT32.unpack_from(frame, end)[0]
        pos = end + 4
        if partitions < 0 or len(asks) + partitions > _MOST_AT_ONCE:
            return _NOT_USUAL
        for _ in range(partitions):
            partition, leader_epoch, offset, log_start, max_bytes = _OLD_PARTITION.unpack_from(frame, pos)
            pos += _OLD_PARTITION.size
            fields = (topic, partition, leader_epoch, offset, -1, log_start, max_bytes, ZERO_UUID, NO_HIGH_WATERMARK)
            asks.append(_new_ask(fields))
    forgotten, length = _OLD_END.unpack_from(frame, pos)
    pos += _OLD_END.size
    if forgotten or length < 0 or pos + length != len(frame):
        return _NOT_USUAL
    return _parsed((replica_id, -1, *head, asks, (), str(frame[pos:], "utf-8"), None))


def encode_fetch_response(
    version: int,
    results: Sequence[FetchResult],
    *,
    session_id: int = 0,
    error_code: int = 0,
    throttle_time_ms: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> list[Piece]:
    """The message of an answer, without header, in pieces: record buffers and file slices stand in it as they are.

    Results of one topic that follow each other are written under one topic. What the version cannot say (leaders,
    diverging epochs, endpoints, a preferred replica) is left out.
    """
    flexible = version >= FIRST_FLEXIBLE
    out = _start(version, throttle_time_ms, error_code, session_id)
    topics = (
        [(results[0].topic, results)]
        if len(results) == 1
        else [(topic, list(parts)) for topic, parts in groupby(results, lambda result: result.topic)]
    )
    pieces: list[Piece] = []
    _append_count(out, len(topics), flexible=flexible)
    for topic, parts in topics:
        _append_topic(out, topic, version)
        _append_count(out, len(parts), flexible=flexible)
        for result in parts:
            out = _append_result(pieces, out, result, version)
        if flexible:
            out.append(0)
    if flexible:
        append_last_tags(out, endpoints if version >= FIRST_WITH_ENDPOINTS else ())
    if out:
        pieces.append(out)
    return pieces


def encode_fetch_in_steps(
    version: int,
    topics: Sequence[tuple[TopicName, Sequence[FetchResult]]],
    *,
    session_id: int = 0,
    endpoints: Sequence[Endpoint] = (),
) -> Generator[None, None, list[Piece]]:
    """The same message of results by topic, with a yield after every few of them."""
    flexible = version >= FIRST_FLEXIBLE
    out = _start(version, 0, 0, session_id)
    pieces: list[Piece] = []
    done = 0
    _append_count(out, len(topics), flexible=flexible)
    for topic, results in topics:
        _append_topic(out, topic, version)
        _append_count(out, len(results), flexible=flexible)
        for result in results:
            out = _append_result(pieces, out, result, version)
            done += 1
            if not done % _REST_AFTER:
                yield
        if flexible:
            out.append(0)
    if flexible:
        append_last_tags(out, endpoints if version >= FIRST_WITH_ENDPOINTS else ())
    if out:
        pieces.append(out)
    return pieces


def _start(version: int, throttle_time_ms: int, error_code: int, session_id: int) -> bytearray:
    out = bytearray(_INT32.pack(throttle_time_ms))
    if version >= FIRST_WITH_SESSIONS:
        out += _ERROR_AND_SESSION.pack(error_code, session_id)
    return out


def encode_one_slice(
    version: int,
    topic: TopicName,
    partition: int,
    offsets: tuple[int, int, int],
    records: Sized,
    begin: tuple[int, int] = (0, 0),
) -> tuple[bytes, Sized, bytes] | tuple[bytes, Sized]:
    """The message of an answer with records of one partition, from version 11 on, in pieces: `records` stands in it as it is.

    `offsets` are (high watermark, last stable offset, log start), `begin` is (throttle time in ms, session id). Hot path.
    """
    throttle_time_ms, session_id = begin
    high_watermark, last_stable, log_start = offsets
    size = records.size
    if version < FIRST_FLEXIBLE:
        name = topic.encode()  # type: ignore[union-attr] # a name before version 13
        fixed = _V11_ONE.pack(1, partition, 0, high_watermark, last_stable, log_start, -1, -1, size)
        return _V11_START.pack(throttle_time_ms, 0, session_id, 1, len(name)) + name + fixed, records
    if version >= FIRST_WITH_TOPIC_IDS:
        out = bytearray(_START_BY_ID.pack(throttle_time_ms, 0, session_id, 2, topic))
    else:
        out = bytearray(_START.pack(throttle_time_ms, 0, session_id, 2))
        _append_topic(out, topic, version)
    out += _ONE.pack(2, partition, 0, high_watermark, last_stable, log_start, 0, -1)
    append_uvarint(out, size + 1)
    return bytes(out), records, b"\0\0\0"  # no tags of the partition, the topic, the answer


def _append_topic(out: bytearray, topic: TopicName, version: int) -> None:
    if version >= FIRST_WITH_TOPIC_IDS:
        assert isinstance(topic, Uuid)
        out += topic
        return
    assert isinstance(topic, str)
    name = topic.encode()
    if version >= FIRST_FLEXIBLE:
        append_uvarint(out, len(name) + 1)
    else:
        out += len(name).to_bytes(2, "big")
    out += name


def _append_result(pieces: list[Piece], out: bytearray, result: FetchResult, version: int) -> bytearray:
    """Write one partition behind `out`. When its records are a piece of their own, give back a new buffer for the rest."""
    flexible = version >= FIRST_FLEXIBLE
    fixed = _FIXED_RESULT.pack(*result[1:6])
    out += fixed if version >= FIRST_WITH_LOG_START else fixed[:-8]
    aborted = result.aborted_transactions
    if aborted is None:
        out += b"\0" if flexible else b"\xff\xff\xff\xff"
    else:
        _append_count(out, len(aborted), flexible=flexible)
        for transaction in aborted:
            out += _ABORTED.pack(*transaction)
            if flexible:
                out.append(0)
    if version >= FIRST_WITH_PREFERRED_REPLICA:
        out += _INT32.pack(result.preferred_read_replica)
    records = result.records
    size = len(records) if isinstance(records, (bytes, bytearray, memoryview)) else records.size
    _append_count(out, size, flexible=flexible)
    if size:
        pieces += (out, records)
        out = bytearray()
    if flexible:
        _append_result_tags(out, result)
    return out


def _append_result_tags(out: bytearray, result: FetchResult) -> None:
    diverging, leader, snapshot = result[9:12]
    if diverging is leader is snapshot is None:
        out.append(0)
        return
    out.append((diverging is not None) + (leader is not None) + (snapshot is not None))
    if diverging is not None:
        out += _DIVERGING.pack(0, _DIVERGING.size - 2, *diverging)
    if leader is not None:
        append_leader_tag(out, 1, leader)
    if snapshot is not None:
        out += _SNAPSHOT.pack(2, _SNAPSHOT.size - 2, *snapshot)


def _append_count(out: bytearray, count: int, *, flexible: bool) -> None:
    if not flexible:
        out += _INT32.pack(count)
    elif count < _SMALL - 1:
        out.append(count + 1)
    else:
        append_uvarint(out, count + 1)
