"""What does a consumer or a follower get, now or when there is more? (Fetch, KIP-227)"""

from __future__ import annotations

from collections.abc import Hashable

from headrace.broker.broker import Broker
from headrace.broker.fetch_reading import FetchTerms, PartitionRead, has_news, read_partitions
from headrace.broker.fetch_reply import fetch_reply, top_level_error
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.log.ports import FileSlice
from headrace.replication.fetch_session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, SessionPartition
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Deferred, EncodedReply, HandlerResult
from headrace.wire.fetch import FIRST_WITH_PREFERRED_REPLICA, ParsedFetch, encode_one_slice, parse_fetch

_FIRST_BY_ID = 13

Asked = list[tuple[Hashable, SessionPartition]]


def handle(body: memoryview, context: RequestContext, broker: Broker) -> HandlerResult:
    """Read now; answer when there is enough, something failed, or the caller does not wait."""
    request = parse_fetch(body, 0, context.api_version)
    if len(request.asks) == 1 and request.session_epoch == FINAL_EPOCH:
        found = _read_one(request, context.api_version, broker)
        if found is not None:
            return found
    call = _open(request, context, broker)
    if isinstance(call, ErrorCode):
        return top_level_error(context.api_version, call)
    return call.answer_or_wait(request.max_wait_ms)


def _read_one(request: ParsedFetch, version: int, broker: Broker) -> EncodedReply | None:
    """The answer to a plain consumer without a session that reads one partition led here, if there is enough now; else None.

    Nothing is changed and nothing is refused here: `_Call` does that.
    """
    replica_id, _, _, min_bytes, max_bytes, isolation_level, session_id, *_ = request
    topic, partition, epoch, offset, last_fetched_epoch, _, max_partition_bytes, _, _ = request.asks[0]
    if version < FIRST_WITH_PREFERRED_REPLICA or replica_id >= 0 or isolation_level or session_id:
        return None
    hosted = (broker.partitions.by_id if version >= _FIRST_BY_ID else broker.partitions.by_name).get((topic, partition))  # type: ignore[arg-type]
    leader = None if hosted is None or hosted.is_withheld else hosted.leader
    if leader is None or epoch not in (-1, leader.leader_epoch) or last_fetched_epoch >= 0:
        return None
    log = leader.log
    high_watermark = log.high_watermark
    limit = min(max_partition_bytes, max_bytes, broker.config.fetch_max_bytes)
    try:
        data = log.read_slice(offset, limit, upper_offset=high_watermark, min_one_batch=True)
    except StorageFault:
        return None
    if type(data) is not FileSlice or not data.size or (data.size < min_bytes and not data.has_more):
        return None
    offsets = (high_watermark, log.last_stable_offset, log.log_start_offset)
    return EncodedReply(encode_one_slice(version, topic, partition, offsets, data))


def _open(request: ParsedFetch, context: RequestContext, broker: Broker) -> _Call | ErrorCode:
    """The partitions to read: those of the request, or those of its session."""
    by_id = context.api_version >= _FIRST_BY_ID
    now_ms = broker.now_ms()
    most = min(request.max_bytes, broker.config.fetch_max_bytes)
    terms = FetchTerms(
        replica_id=request.replica_id,
        replica_epoch=request.replica_epoch,
        max_bytes=request.max_bytes if request.replica_id >= 0 else most,
        min_bytes=min(request.min_bytes, most),
        isolation_level=request.isolation_level,
        by_id=by_id,
    )
    asked = _asked(request, broker, by_id=by_id)
    sessions = broker.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id != NO_SESSION:
            sessions.remove(request.session_id)
        session = None
        if request.session_epoch == INITIAL_EPOCH and context.api_version >= 7:
            session = sessions.create(asked, is_privileged=terms.is_follower, by_id=by_id, now_ms=now_ms)
            asked = asked if session is None else list(session.partitions.items())
        return _Call(terms, context, broker, asked=asked, session=session, is_incremental=False)
    found = sessions.resume(request.session_id, request.session_epoch, now_ms=now_ms)
    if isinstance(found, ErrorCode):
        return found
    if found.by_id != by_id:
        return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    found.update(asked, request.forgotten)
    if not found.partitions:
        sessions.remove(found.id)
        return _Call(terms, context, broker, asked=asked, session=None, is_incremental=False)
    found.next_epoch()
    return _Call(terms, context, broker, asked=list(found.partitions.items()), session=found, is_incremental=True)


def _asked(request: ParsedFetch, broker: Broker, *, by_id: bool) -> Asked:
    """The request's partitions by the key that its session uses; a repeated one counts once, the last wins."""
    asked: dict[Hashable, SessionPartition] = {}
    names = broker.image.topics.by_id
    for ask in request.asks:
        topic = ask.topic
        if by_id:
            known = names.get(topic)  # type: ignore[arg-type]
            name = None if known is None else known.name
        else:
            name = str(topic)
        asked[topic, ask.partition] = SessionPartition(
            topic=name,
            topic_id=topic if isinstance(topic, Uuid) else ZERO_UUID,
            partition=ask.partition,
            fetch_offset=ask.fetch_offset,
            max_bytes=ask.max_bytes,
            current_leader_epoch=ask.current_leader_epoch,
            log_start_offset=ask.log_start_offset,
            last_fetched_epoch=ask.last_fetched_epoch,
        )
    return list(asked.items())


class _Call:
    """One Fetch on its way: what it reads, and the session that it belongs to."""

    __slots__ = ("_asked", "_broker", "_context", "_is_incremental", "_reads", "_session", "_terms")

    def __init__(
        self,
        terms: FetchTerms,
        context: RequestContext,
        broker: Broker,
        *,
        asked: Asked,
        session: FetchSession | None,
        is_incremental: bool,
    ) -> None:
        self._terms = terms
        self._context = context
        self._broker = broker
        self._asked = asked
        self._session = session
        self._is_incremental = is_incremental
        self._reads: list[PartitionRead] = []

    def answer_or_wait(self, max_wait_ms: int) -> HandlerResult:
        """Now, when that is enough; else when something has moved or the time is up."""
        if self._read() or max_wait_ms <= 0 or not self._asked:
            return self._reply()
        deferred = Deferred(deadline_ms=self._broker.now_ms() + max_wait_ms, on_timeout=self._timed_out)
        places = {read.hosted: at for at, read in enumerate(self._reads) if read.hosted is not None}

        def attempt(moved: Hashable) -> bool:
            read = self._reads[places[moved]]  # type: ignore[index]
            if not has_news(read, self._terms) or not self._read():
                return False
            return deferred.complete(self._reply())

        self._broker.purgatory.watch_keys(deferred, places, attempt)
        return deferred

    def _read(self) -> bool:
        """Read everything; whether that is worth an answer."""
        result = read_partitions(self._asked, self._terms, self._broker)
        self._reads = result.partitions
        if self._terms.is_follower:
            self._note_progress()
        return result.must_answer or result.size >= self._terms.min_bytes

    def _timed_out(self) -> AnyReply:
        self._read()
        return self._reply()

    def _note_progress(self) -> None:
        """A follower's fetch offset acknowledges everything below it (S3-105)."""
        broker = self._broker
        for read in self._reads:
            hosted = read.hosted
            if hosted is None or hosted.leader is None or read.error or read.diverging_epoch is not None:
                continue
            if hosted.leader.follower_fetched(
                self._terms.replica_id,
                broker_epoch=self._terms.replica_epoch,
                fetch_offset=read.asked.fetch_offset,
                log_start_offset=read.asked.log_start_offset,
                now_ms=broker.now_ms(),
            ):
                broker.follower_fetched(hosted, self._terms.replica_id)

    def _reply(self) -> AnyReply:
        """The reads as a reply; in an incremental session only what is new."""
        session = self._session
        if session is None:
            return fetch_reply(self._reads, self._context, self._broker, session_id=NO_SESSION)
        told = []
        for read in self._reads:
            is_news = read.asked.was_told(
                high_watermark=read.high_watermark,
                log_start_offset=read.log_start_offset,
                is_loud=read.size > 0 or read.error != ErrorCode.NONE or read.diverging_epoch is not None,
            )
            if is_news or not self._is_incremental:
                told.append(read)
        for read in told:
            if read.size:
                session.served(read.key)
        return fetch_reply(told, self._context, self._broker, session_id=session.id)
