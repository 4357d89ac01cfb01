"""Record batches of a partition's leader, checked, and where reading goes on."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any

from headrace.client.cluster_view import NodeView, TopicView
from headrace.client.retry import Attempts, error_of
from headrace.client.routing import MISSING_TRIES, no_leader, refresh, unsupported
from headrace.client.session import Session
from headrace.client.talk import Address, Ask, Call, Conversation, Lost, Outcome, Unsupported, bounded
from headrace.core.error_code import ErrorCode
from headrace.core.errors import DecodeError, PeerError
from headrace.core.ids import TopicPartition
from headrace.records.crc import crc32c
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

LAST_NAMED_VERSION = 12
DEFAULT_MAX_BYTES = 8 << 20
_BATCH = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, crc, attributes, last offset delta
_MIN_LENGTH = 49
_MOST_OFFSET = 2**63 - 2
"""The last offset that a batch may end at: the one after it is an int64 too."""
_MOST_TURNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedRange:
    """A transaction that was aborted: its producer's records from `first_offset` up to its marker do not count."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """One partition's part of a fetch answer.

    `records` are whole batches; the first may begin below the offset asked for. `next_offset` is the one after the last batch, or the
    one asked for when there is none. `aborted` is filled for readers of committed records only. `preferred_replica` is the copy that the
    leader would rather have asked (KIP-392); the answer has no records then.
    """

    records: memoryview
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[AbortedRange, ...] = ()
    preferred_replica: int = -1


class OffsetOutOfRange(PeerError):
    """The log holds nothing at the offset asked for; it begins at `log_start_offset` (-1 when the leader did not say)."""

    def __init__(self, where: TopicPartition, offset: int, log_start_offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} of {where.topic}-{where.partition} is not in the log"
        )
        self.offset = offset
        self.log_start_offset = log_start_offset


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOptions:
    """How to fetch. Sizes in bytes, times in ms; `max_partition_bytes` is `max_bytes` when not given."""

    max_bytes: int = DEFAULT_MAX_BYTES
    max_partition_bytes: int | None = None
    max_wait_ms: int = 500
    min_bytes: int = 1
    is_read_committed: bool = False


def fetch_request(session: Session, positions: dict[TopicPartition, int], options: FetchOptions) -> Call:
    """A request for each partition from its position on: by topic id, or by name (up to version 12) where an id is not known."""
    partition_bytes = options.max_bytes if options.max_partition_bytes is None else options.max_partition_bytes
    topics: dict[str, list[FetchPartition]] = {}
    for where, offset in positions.items():
        topics.setdefault(where.topic, []).append(
            FetchPartition(
                partition=where.partition,
                fetch_offset=offset,
                current_leader_epoch=session.cluster.leaders.get(where, (-1, -1))[1],
                partition_max_bytes=partition_bytes,
            )
        )
    request = FetchRequest(
        max_wait_ms=options.max_wait_ms,
        min_bytes=options.min_bytes,
        max_bytes=options.max_bytes,
        isolation_level=int(options.is_read_committed),
        rack_id=session.settings.rack,
        topics=tuple(
            FetchTopic(topic=name, topic_id=session.cluster.topics[name].topic_id, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
    )
    has_ids = all(any(session.cluster.topics[name].topic_id) for name in topics)
    return bounded(request, at_most=32767 if has_ids else LAST_NAMED_VERSION)


def take_answer(
    session: Session, response: Any, positions: dict[TopicPartition, int], version: int
) -> dict[TopicPartition, Fetched | PeerError]:
    """Take a fetch answer apart, learning the leader hints in it. Raises DecodeError when it is not what was asked for (B29)."""
    whole = error_of(response.error_code)
    if whole is not None:
        raise whole
    for node in response.node_endpoints:
        session.cluster.learn_node(
            NodeView(node_id=node.node_id, address=Address(host=node.host, port=node.port), rack=node.rack)
        )
    found: dict[TopicPartition, Fetched | PeerError] = {}
    for topic in response.responses:
        name = topic.topic if version < 13 else session.cluster.names.get(topic.topic_id, "")
        for part in topic.partitions:
            where = TopicPartition(name, part.partition_index)
            if where not in positions or where in found:
                raise DecodeError("a fetch answer has a partition that was not asked for")
            found[where] = _partition(session, where, part, positions[where])
    return found


def _partition(session: Session, where: TopicPartition, part: Any, offset: int) -> Fetched | PeerError:
    error = error_of(part.error_code)
    if error is not None:
        hint = part.current_leader
        session.cluster.learn_leader(where, leader=hint.leader_id, leader_epoch=hint.leader_epoch)
        if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
            return OffsetOutOfRange(where, offset, part.log_start_offset)
        return error
    records = memoryview(part.records or b"")
    end, next_offset = sound_prefix(records, offset, is_crc_checked=session.settings.is_crc_checked)
    aborted = tuple(
        AbortedRange(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in part.aborted_transactions or ()
    )
    return Fetched(
        records=records[:end],
        next_offset=next_offset,
        high_watermark=part.high_watermark,
        last_stable_offset=part.last_stable_offset,
        log_start_offset=part.log_start_offset,
        aborted=aborted,
        preferred_replica=part.preferred_read_replica,
    )


def sound_prefix(records: memoryview, offset: int, *, is_crc_checked: bool) -> tuple[int, int]:
    """Bytes of the whole batches at the front, and the offset after them. A cut last batch is normal, anything else raises DecodeError.

    Batches must be of format v2, have rising offsets, the last of them `offset` or a later one, and, when checked, the right CRC-32C: an answer that lies
    before what was asked for would be asked for again for ever. Source: B29, B52.
    """
    position, end, floor = 0, len(records), -1
    unpack = _BATCH.unpack_from
    while end - position >= 61:
        base_offset, length, _, magic, crc, _, last_delta = unpack(records, position)
        if length < _MIN_LENGTH or magic != 2 or last_delta < 0 or base_offset <= floor:
            raise DecodeError(f"a fetch answer has an unsound record batch at byte {position}")
        after = position + 12 + length
        if after > end:
            break
        if is_crc_checked and crc32c(records[position + 21 : after]) != crc:
            raise PeerError(ErrorCode.CORRUPT_MESSAGE, f"the record batch at offset {base_offset} has a wrong checksum")
        floor = base_offset + last_delta
        position = after
    if floor > _MOST_OFFSET or 0 <= floor < offset:
        raise DecodeError(f"a fetch answer ends at offset {floor}, and {offset} was asked for")
    return position, floor + 1 if position else offset


def split_positions(
    session: Session, positions: dict[TopicPartition, int]
) -> tuple[dict[int, dict[TopicPartition, int]], list[TopicPartition]]:
    """Positions by the node to ask, the leader believed in or a copy that it named, and the partitions whose leader is not known."""
    by_leader: dict[int, dict[TopicPartition, int]] = {}
    unknown: list[TopicPartition] = []
    for where, offset in positions.items():
        leader = session.cluster.reads_from(where, session.now_ms)
        if leader in session.cluster.nodes and where.topic in session.cluster.topics:
            by_leader.setdefault(leader, {})[where] = offset
        else:
            unknown.append(where)
    return by_leader, unknown


def fetch_one(session: Session, where: TopicPartition, offset: int, options: FetchOptions) -> Conversation[Fetched]:
    """Fetch from one partition, following its leader, or the near copy that it named. Raises OffsetOutOfRange, or PeerError when the time is up."""
    attempts = Attempts(session)
    turns = 0
    positions = {where: offset}
    while True:
        by_leader, unknown = split_positions(session, positions)
        why: PeerError | Lost
        found: dict[str, TopicView | PeerError] = {}
        if unknown:
            found = yield from refresh(session, [where.topic], attempts=attempts)
            by_leader, unknown = split_positions(session, positions)
        if unknown:
            why = no_leader(where, found)
            if why.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and attempts.count >= MISSING_TRIES:
                raise why
        else:
            (leader,) = by_leader
            request = fetch_request(session, positions, options)
            address = session.cluster.nodes[leader].address
            outcome = yield Ask(address=address, request=request, timeout_ms=attempts.request_ms + options.max_wait_ms)
            part = _part_of(settle(session, address, outcome, positions), where)
            if isinstance(part, Fetched):
                if not turn_to_copy(session, where, part):
                    return part
                turns += 1
                if turns <= _MOST_TURNS:
                    continue
            why = _why_not(session, where, part)
        if isinstance(why, PeerError) and not why.code.is_retriable:
            raise why
        session.cluster.forget_leader(where)
        yield from attempts.again(why)


def turn_to_copy(session: Session, where: TopicPartition, part: Fetched) -> bool:
    """Whether the leader named a copy to ask in its place: from now on it is asked, for as long as metadata are believed. Source: KIP-392."""
    if part.preferred_replica not in session.cluster.nodes:
        return False
    session.cluster.near[where] = (part.preferred_replica, session.now_ms + session.settings.metadata_max_age_ms)
    return not len(part.records)


def turn_to_leader(session: Session, where: TopicPartition, error: PeerError) -> bool:
    """Whether it was a copy that has nothing at the offset, which its leader may have: that is asked next."""
    return isinstance(error, OffsetOutOfRange) and session.cluster.near.pop(where, None) is not None


def _part_of(
    result: dict[TopicPartition, Fetched | PeerError] | PeerError | Lost, where: TopicPartition
) -> Fetched | PeerError | Lost:
    if not isinstance(result, dict):
        return result
    return result.get(where, PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer leaves out the partition"))


def _why_not(session: Session, where: TopicPartition, part: Fetched | PeerError | Lost) -> PeerError | Lost:
    """Why the answer is not the caller's; what a copy said of its own log passes."""
    if isinstance(part, Fetched):
        return PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "each copy names another one to ask")
    if isinstance(part, PeerError) and turn_to_leader(session, where, part):
        return PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(part))
    return part


def settle(
    session: Session, address: Address, outcome: Outcome, positions: dict[TopicPartition, int]
) -> dict[TopicPartition, Fetched | PeerError] | PeerError | Lost:
    """What a fetch brought: its parts, or why there are none. Damaged answers count as lost (B29)."""
    if isinstance(outcome, Unsupported):
        return unsupported(outcome)
    if isinstance(outcome, Lost):
        session.cluster.failed(address)
        return outcome
    session.cluster.answered(address)
    try:
        return take_answer(session, outcome.response, positions, outcome.version)
    except DecodeError as error:
        return Lost(reason=str(error))
    except PeerError as error:
        return error
