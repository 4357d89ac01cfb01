"""Fetch: what a consumer or a follower gets, now or when there is more (KIP-227).

A hot file. The usual fetch reads one partition that is led here: alone in the request, or the only one of a session that changed.
"""

from __future__ import annotations

from collections.abc import Hashable

from headrace.broker.broker import Broker
from headrace.broker.fetch_call import FetchCall
from headrace.broker.fetch_reading import READ_COMMITTED, FetchTerms, read_for_consumer
from headrace.broker.fetch_reply import top_level_error
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.log.ports import FileSlice
from headrace.replication.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    Asker,
    FetchSession,
    KnownRequest,
    SessionPartition,
)
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import CloseConnection, HandlerResult, HotResult, InSteps, Pieces
from headrace.wire.codec import LongMessage
from headrace.wire.fetch import (
    FIRST_WITH_PREFERRED_REPLICA,
    FetchAsk,
    ParsedFetch,
    encode_one_slice,
    parse_fetch,
    parse_fetch_in_steps,
)
from headrace.wire.fetch_heads import is_usual, slice_form, split_request

_FIRST_BY_ID = 13
_AT_ONCE = 256
"""Partitions that one step puts into a session."""

_SHUT = CloseConnection("this broker has no contact with the controller (headrace.self.fencing=always)")
"""To consumers: the connection cannot tell them from other brokers, which are answered (S0-16)."""

Asked = list[tuple[Hashable, SessionPartition]]


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HotResult:
    """Read now; answer when there is enough, something failed, or the caller does not wait. What is as the request before, but for epoch and offset, goes the way that was found for that one."""
    version = context.api_version
    found = _read_on(body, version, broker)
    if found is not None:
        return found
    try:
        request = parse_fetch(body, 0, version)
    except LongMessage:
        return InSteps(_in_steps(bytes(body), context, broker), size=len(body))
    if broker.is_shut is not None and request.replica_id < 0 and broker.is_shut():
        return _SHUT
    epoch = request.session_epoch
    if epoch == FINAL_EPOCH and len(request.asks) == 1:
        found = _read_one(request, version, broker)
        if found is not None:
            return found
    session = _open(request, context, broker)
    if isinstance(session, ErrorCode):
        return top_level_error(version, session, broker)
    is_incremental = epoch > INITIAL_EPOCH and session.id != NO_SESSION
    if is_incremental:
        _remember(request, body, session, version)
    is_led_on = request.rack_id and broker.points_to_followers
    if is_incremental and len(session.changed) == 1 and not is_led_on:
        (partition,) = session.changed
        found = _read_changed(partition, session, request, version, broker)
        if found is not None:
            return found
    terms = _terms(request, context, broker, by_id=session.by_id)
    call = FetchCall(terms, context, broker, session, is_incremental=is_incremental)
    return call.answer_or_wait(request.max_wait_ms)


def _in_steps(body: bytes, context: RequestContext, broker: Broker) -> Steps[HandlerResult]:
    """A request that names very many partitions: read, looked up and answered while others have their turns."""
    request = yield from parse_fetch_in_steps(body, context.api_version)
    del body
    if broker.is_shut is not None and request.replica_id < 0 and broker.is_shut():
        return _SHUT
    session = yield from _opened_in_steps(request, context, broker)
    if isinstance(session, ErrorCode):
        return top_level_error(context.api_version, session, broker)
    is_incremental = request.session_epoch > INITIAL_EPOCH and session.id != NO_SESSION
    terms = _terms(request, context, broker, by_id=session.by_id)
    call = FetchCall(terms, context, broker, session, is_incremental=is_incremental)
    max_wait_ms = request.max_wait_ms
    del request
    return (yield from call.in_steps(max_wait_ms))


def _opened_in_steps(request: ParsedFetch, context: RequestContext, broker: Broker) -> Steps[FetchSession | ErrorCode]:
    """As `_open`, some of the partitions at a time."""
    asks, forgotten = request.asks, request.forgotten
    session = _open(request._replace(asks=asks[:_AT_ONCE], forgotten=()), context, broker)
    if isinstance(session, ErrorCode):
        return session
    by_id = session.by_id
    for at in range(_AT_ONCE, len(asks), _AT_ONCE):
        yield None
        _update(session, request._replace(asks=asks[at : at + _AT_ONCE], forgotten=()), broker, by_id=by_id)
    for at in range(0, len(forgotten), _AT_ONCE):
        yield None
        _update(session, request._replace(asks=(), forgotten=forgotten[at : at + _AT_ONCE]), broker, by_id=by_id)
    return _kept(session, request, broker)


def _kept(session: FetchSession, request: ParsedFetch, broker: Broker) -> FetchSession | ErrorCode:
    """The session, unless all sessions have too much in them: then a fetch that began it goes on without one. Where nothing is left in it, it is over, and what the request asks for is all."""
    sessions = broker.fetch_sessions
    if session.id == NO_SESSION or (session.partitions and sessions.grown(session, now_ms=broker.now_ms())):
        return session
    if not session.partitions:
        sessions.remove(session.id)
        asked = _asked(request, broker, by_id=session.by_id).items()
        return FetchSession(
            NO_SESSION, is_privileged=False, by_id=session.by_id, now_ms=broker.now_ms(), partitions=asked
        )
    if request.session_epoch == INITIAL_EPOCH:
        sessions.dismiss(session)
        return session
    sessions.remove(session.id)
    return ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def _terms(request: ParsedFetch, context: RequestContext, broker: Broker, *, by_id: bool) -> FetchTerms:
    most = min(request.max_bytes, broker.config.fetch_max_bytes)
    is_follower = request.replica_id >= 0
    return FetchTerms(
        replica_id=request.replica_id,
        replica_epoch=request.replica_epoch,
        max_bytes=request.max_bytes if is_follower else most,
        min_bytes=min(request.min_bytes, most),
        isolation_level=request.isolation_level,
        by_id=by_id,
        is_follower=is_follower,
        is_former=is_follower and broker.is_former_incarnation(request.replica_id, request.replica_epoch),
        may_read_copies=not is_follower and context.api_version >= FIRST_WITH_PREFERRED_REPLICA,
        rack=request.rack_id if broker.points_to_followers and not is_follower else "",
        listener=context.listener,
    )


def _read_one(request: ParsedFetch, version: int, broker: Broker) -> Pieces | None:
    """The answer to a plain consumer without a session that reads one partition, here and not nearer to it, if there is enough now; else None.

    Nothing is changed and nothing is refused here: `FetchCall` does that.
    """
    if version < FIRST_WITH_PREFERRED_REPLICA or request[0] >= 0 or request[5] or request[6]:
        return None
    if request[10] and broker.points_to_followers:
        return None
    topic, partition, epoch, offset, last_fetched_epoch, _, limit, _, _ = request.asks[0]
    hosted = (broker.partitions.by_id if version >= _FIRST_BY_ID else broker.partitions.by_name).get((topic, partition))  # type: ignore[arg-type]
    if hosted is None or hosted.is_withheld or epoch not in (-1, hosted.leader_epoch) or last_fetched_epoch >= 0:
        return None
    leader = hosted.leader
    log = hosted.copy_to_read(broker.node_id) if leader is None else leader.log
    if log is None:
        return None
    high_watermark = log.high_watermark
    if offset >= high_watermark:
        return None
    limit = min(limit, request[4], broker.config.fetch_max_bytes)
    try:
        data = log.read_slice(offset, limit, upper_offset=high_watermark, min_one_batch=True)
    except StorageFault:
        return None
    if type(data) is not FileSlice or not data[2] or (data[2] < request[3] and not data[5]):
        return None
    traffic = hosted.traffic
    traffic.bytes_out += data[2]
    traffic.fetches += 1
    offsets = (high_watermark, log.last_stable_offset, log.log_start_offset)
    return encode_one_slice(version, topic, partition, offsets, data)


def _read_on(body: memoryview, version: int, broker: Broker) -> Pieces | None:
    """The answer to a consumer that asks its session for more of one partition as it did before, if there is enough now; else None, and nothing is changed that the request itself would not change."""
    parts = split_request(body, version) if version >= FIRST_WITH_PREFERRED_REPLICA else None
    if parts is None:
        return None
    start, session_id, epoch, middle, offset, end = parts
    sessions = broker.fetch_sessions
    session = sessions.by_id.get(session_id)
    if session is None or session.epoch != epoch or (known := session.known) is None:
        return None
    asked, changed = known.asked, session.changed
    if (
        middle != known.middle
        or start != known.start
        or end != known.end
        or version != known.version
        or offset < asked.fetch_offset
        or asked.session is not session
        or len(changed) > (asked in changed)
        or (broker.is_shut is not None and broker.is_shut())
    ):
        return None
    asked.fetch_offset = offset
    most, limit = known.max_bytes, broker.config.fetch_max_bytes
    found = read_for_consumer(asked, session, (known.min_bytes, most if most < limit else limit), version, broker)
    if found is not None:
        changed[asked] = None
        sessions.used(session, now_ms=broker.now_ms())
        session.next_epoch()
    return found


def _remember(request: ParsedFetch, body: memoryview, session: FetchSession, version: int) -> None:
    """A consumer that asks for more of one partition twice in succession will go on so: what its requests have in common is known then."""
    if len(request.asks) != 1:
        return
    topic, partition = request.asks[0][:2]
    asked = session.partitions.get((topic, partition))
    before, session.alone = session.alone, asked
    if (
        asked is None
        or asked is not before
        or version < FIRST_WITH_PREFERRED_REPLICA
        or request.replica_id >= 0
        or request.isolation_level == READ_COMMITTED
        or not is_usual(request, version, len(body))
        or (parts := split_request(body, version)) is None
    ):
        return
    start, _, _, middle, _, end = parts
    write = slice_form(version, topic, partition, session.id)
    session.known = KnownRequest(version, start, middle, end, asked, request.min_bytes, request.max_bytes, write)


def _read_changed(
    asked: SessionPartition, session: FetchSession, request: ParsedFetch, version: int, broker: Broker
) -> Pieces | None:
    """The same of a session in which one partition changed: its records, if there are enough now; else None, and nothing is changed."""
    if version < FIRST_WITH_PREFERRED_REPLICA or request[0] >= 0 or request[5] == READ_COMMITTED:
        return None
    most = min(request[4], broker.config.fetch_max_bytes)
    return read_for_consumer(asked, session, (request[3], most), version, broker)


def _open(request: ParsedFetch, context: RequestContext, broker: Broker) -> FetchSession | ErrorCode:
    """The session of a request, with the partitions that it asks for; one of its own when it has none."""
    by_id = context.api_version >= _FIRST_BY_ID
    now_ms = broker.now_ms()
    sessions = broker.fetch_sessions
    terms = (request.replica_id, request.replica_epoch, request.isolation_level)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        is_replica = request.replica_id in broker.image.cluster.brokers
        owner = request.replica_id if is_replica else (context.principal, context.client_host)
        asker = Asker(owner, context.connection_id)
        if request.session_id != NO_SESSION:
            sessions.end(request.session_id, asker)
        asked = _asked(request, broker, by_id=by_id).items()
        session = None
        if request.session_epoch == INITIAL_EPOCH and context.api_version >= 7:
            session = sessions.create(asked, asker=asker, is_privileged=is_replica, by_id=by_id, now_ms=now_ms)
        if session is None:
            session = FetchSession(
                NO_SESSION, is_privileged=False, by_id=by_id, now_ms=now_ms, partitions=asked, asker=asker
            )
        session.terms = terms
        return session
    found = sessions.resume(request.session_id, request.session_epoch, now_ms=now_ms)
    if isinstance(found, ErrorCode):
        return found
    if found.by_id != by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    if request.asks or request.forgotten or not found.partitions:
        _update(found, request, broker, by_id=by_id)
        kept = _kept(found, request, broker)
        if kept is not found:
            return kept
    if terms != found.terms:
        found.asked_by(terms)
    found.next_epoch()
    return found


def _update(session: FetchSession, request: ParsedFetch, broker: Broker, *, by_id: bool) -> None:
    """What an incremental request asks for anew. Of partitions that the session knows, as nearly all are, only the fields are set."""
    partitions, changed = session.partitions, session.changed
    session.known = None
    if len(request.asks) != 1:
        session.alone = None
    for ask in request.asks:
        topic, partition, epoch, offset, last_fetched_epoch, log_start, max_bytes, _, _ = ask
        known = partitions.get((topic, partition))
        if known is None:
            session.add((topic, partition), _asked_for(ask, broker, by_id=by_id))
            continue
        if epoch != known.current_leader_epoch or offset < known.fetch_offset:
            known.told_high_watermark = -1  # the fetcher did not take what it was told of another history
        known.fetch_offset = offset
        known.max_bytes = max_bytes
        known.current_leader_epoch = epoch
        known.log_start_offset = log_start
        known.last_fetched_epoch = last_fetched_epoch
        changed[known] = None
    if request.forgotten:
        session.forget(request.forgotten)


def _asked(request: ParsedFetch, broker: Broker, *, by_id: bool) -> dict[Hashable, SessionPartition]:
    """The request's partitions by the key that its session uses; a repeated one counts once, the last wins."""
    return {(ask.topic, ask.partition): _asked_for(ask, broker, by_id=by_id) for ask in request.asks}


def _asked_for(ask: FetchAsk, broker: Broker, *, by_id: bool) -> SessionPartition:
    topic = ask.topic
    if by_id:
        known = broker.image.topics.by_id.get(topic)  # type: ignore[arg-type]
        name = None if known is None else known.name
    else:
        name = str(topic)
    return SessionPartition(
        topic=name,
        topic_id=topic if isinstance(topic, Uuid) else ZERO_UUID,
        partition=ask.partition,
        fetch_offset=ask.fetch_offset,
        max_bytes=ask.max_bytes,
        current_leader_epoch=ask.current_leader_epoch,
        log_start_offset=ask.log_start_offset,
        last_fetched_epoch=ask.last_fetched_epoch,
    )
