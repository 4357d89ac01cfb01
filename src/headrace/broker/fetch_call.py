"""One Fetch on its way: what it reads, what it waits for, and what its session remembers of it.

Only what changed in the session is read (`FetchSession.changed`); while the fetch waits, a partition that moves is read again alone.
A hot file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from headrace.broker.broker import Broker
from headrace.broker.fetch_reading import (
    OF_NO_TOPIC,
    FetchTerms,
    PartitionRead,
    has_news,
    is_told,
    must_answer,
    only_offsets_moved,
    read_for_consumer,
    read_for_follower,
    read_partition,
)
from headrace.broker.fetch_reply import fetch_reply, fetch_reply_in_steps
from headrace.broker.read_replica import NO_OTHER
from headrace.core.ids import Uuid
from headrace.replication.fetch_session import NO_SESSION, FetchSession, SessionPartition
from headrace.rpc.context import RequestContext
from headrace.rpc.long_work import Steps
from headrace.rpc.reply import AnyReply, Deferred, EncodedReply, HandlerResult, InSteps, Operation, Pieces
from headrace.wire.fetch import FIRST_WITH_PREFERRED_REPLICA, encode_one_slice

T = TypeVar("T")

_MOST_AT_ONCE = 500
"""Partitions that are read and told of in one turn: a few milliseconds."""
_AT_ONCE = 32
"""The same in one step of a fetch of more, and by an answer that ends a wait: very many may end in one turn."""


class FetchCall:
    """A Fetch request. Waiting -> answered when there is enough, something failed, or the time is up; or abandoned."""

    __slots__ = (
        "_broker",
        "_context",
        "_deferred",
        "_is_counted",
        "_is_enough",
        "_is_incremental",
        "_missing",
        "_reads",
        "_session",
        "_size",
        "_terms",
    )

    def __init__(
        self,
        terms: FetchTerms,
        context: RequestContext,
        broker: Broker,
        session: FetchSession,
        *,
        is_incremental: bool,
    ) -> None:
        self._terms = terms
        self._context = context
        self._broker = broker
        self._session = session
        self._is_incremental = is_incremental
        self._reads: dict[SessionPartition, PartitionRead] = {}
        self._size = 0
        self._missing = 0
        self._is_enough = False
        self._deferred: Deferred | None = None
        self._is_counted = terms.is_follower and broker.is_incarnation(terms.replica_id, terms.replica_epoch)

    def answer_or_wait(self, max_wait_ms: int) -> HandlerResult:
        """Now, when that is enough; else when something has moved or the time is up."""
        session = self._session
        if len(session.changed) > _MOST_AT_ONCE:
            return InSteps(self.in_steps(max_wait_ms))
        is_enough = self._read()
        if self._terms.is_follower:
            self._note_progress(self._reads.values())
        if is_enough or max_wait_ms <= 0 or not session.partitions or not self._may_wait():
            reply = self._reply()
            self._rest()
            return reply
        deferred = self._begin_to_wait(max_wait_ms)
        for partition in [*session.changed]:
            self._changed(partition)
        if not deferred.is_done:
            self._broker.purgatory.hold(deferred)
        return deferred.reply or deferred

    def in_steps(self, max_wait_ms: int) -> Steps[HandlerResult]:
        """The same of a fetch that looks at very many partitions."""
        try:
            return (yield from self._answer_or_wait_in_steps(max_wait_ms))
        except GeneratorExit:
            self._abandoned()
            raise

    def _answer_or_wait_in_steps(self, max_wait_ms: int) -> Steps[HandlerResult]:
        session = self._session
        yield from self._read_in_steps(session.to_read())
        if self._terms.is_follower:
            for reads in _some(list(self._reads.values())):
                yield None
                self._note_progress(reads)
        if self._is_enough or max_wait_ms <= 0 or not session.partitions or not self._may_wait():
            return (yield from self._finish_in_steps())
        deferred = self._begin_to_wait(max_wait_ms)
        for partitions in _some([*session.changed]):
            yield None
            for partition in partitions:
                self._changed(partition)
        if not deferred.is_done:
            self._broker.purgatory.hold(deferred)
        return deferred

    def _begin_to_wait(self, max_wait_ms: int) -> Deferred:
        """The reply to come; the session tells of each move from now on."""
        broker, terms, session = self._broker, self._terms, self._session
        now_ms = broker.now_ms()
        if terms.is_follower:
            max_wait_ms = broker.new_leaderships.wait_ms(terms.replica_id, max_wait_ms, now_ms)
        deferred = self._deferred = Deferred(
            deadline_ms=now_ms + max_wait_ms,
            on_timeout=self._timed_out,
            on_abandoned=self._abandoned,
            operation=Operation.FETCH,
        )
        session.on_change, session.answer_now = self._changed, self._answer_now
        return deferred

    def _may_wait(self) -> bool:
        """Whether there is memory for a fetch that waits without a session; those with one are counted already."""
        session = self._session
        if session.id != NO_SESSION:
            return True
        return self._broker.fetch_sessions.grown(session, now_ms=self._broker.now_ms())

    # --- reading ---

    def _read(self) -> bool:
        """Read what changed, until `max_bytes` are full; whether that is worth an answer.

        The first batch of the first partition that has one comes whole.
        """
        self._size = self._missing = 0
        self._is_enough = False
        return self._read_more(self._session.to_read())

    def _read_in_steps(self, to_read: list[SessionPartition]) -> Steps[None]:
        self._size = self._missing = 0
        self._is_enough = False
        for partitions in _some(to_read):
            yield None
            self._read_more(partitions)

    def _read_more(self, partitions: list[SessionPartition]) -> bool:
        """Read these as well. What is not there at all is told with the others, and waits with them: else who asks for it would ask again at once, for ever."""
        terms, broker, reads = self._terms, self._broker, self._reads
        size = self._size
        left = terms.max_bytes - size
        is_enough = self._is_enough
        for partition in partitions:
            limit = max(0, min(partition.max_bytes, left))
            read = read_partition(partition, terms, broker, limit=limit, min_one_batch=size == 0)
            reads[partition] = read
            size += read.size
            left -= read.size
            if read.error and read.error in OF_NO_TOPIC:
                self._missing += 1
                continue
            is_enough = is_enough or self._must_answer(read)
            self._watch(read)
        self._size = size
        is_enough = is_enough or size >= terms.min_bytes or self._missing == len(self._session.partitions)
        self._is_enough = is_enough
        return is_enough

    def _watch(self, read: PartitionRead) -> None:
        """Hear when it moves. One that has nothing to give need not be read by the next fetch; of a follower out of the ISR each fetch counts, and one that did not count is to be counted."""
        partition, hosted, terms = read.asked, read.hosted, self._terms
        if hosted is None or read.error or read.diverging_epoch is not None or read.preferred != NO_OTHER:
            return
        if (
            has_news(read, terms) or partition.session is not self._session
        ):  # also what the bounds of this fetch kept back
            return
        partition.subscribe(hosted.waiters, at_log_end=terms.is_follower)
        if not terms.is_follower or read.leader is None or (self._is_counted and terms.replica_id in read.leader.isr):
            self._session.changed.pop(partition, None)

    def _must_answer(self, read: PartitionRead) -> bool:
        """Besides what always answers: where consumers are sent to followers, these hear of what was committed at once (KIP-392)."""
        if must_answer(read):
            return True
        if not self._terms.is_follower or not self._broker.points_to_followers or self._session.id == NO_SESSION:
            return False
        return read.high_watermark > read.asked.told_high_watermark

    def _note_progress(self, reads: Iterable[PartitionRead]) -> None:
        """The fetch arrived: a follower's fetch offset acknowledges everything below it.

        Another incarnation than the registered one is given records, and counts for nothing: neither does one that is gone, nor one that nobody registered.
        """
        if not self._is_counted:
            return
        broker, terms, session = self._broker, self._terms, self._session
        lasting = None if session.id == NO_SESSION else session
        now_ms = broker.now_ms()
        for read in reads:
            hosted, partition = read.hosted, read.asked
            if hosted is None or hosted.leader is None or read.error or read.diverging_epoch is not None:
                continue
            progress = hosted.leader.follower_fetched(
                terms.replica_id,
                broker_epoch=terms.replica_epoch,
                fetch_offset=partition.fetch_offset,
                log_start_offset=partition.log_start_offset,
                now_ms=now_ms,
                session=lasting,
            )
            if progress is not None:
                partition.progress = None if lasting is None else progress
                broker.follower_fetched(hosted, terms.replica_id)

    # --- waiting ---

    def _changed(self, partition: SessionPartition) -> None:
        """One partition moved while the fetch waits: read it, and answer when there is enough now."""
        deferred = self._deferred
        if deferred is None or deferred.is_done:
            return
        terms, reads = self._terms, self._reads
        before = reads.get(partition)
        if before is not None and before.error and before.error in OF_NO_TOPIC:
            return
        pieces = self._read_at_once(partition) if len(reads) == (before is not None) else None
        if pieces is not None:
            deferred.complete(EncodedReply(pieces))  # first of all: whoever waits wants to know
            self._rest()
            return
        if before is not None:
            is_as_it_was = not has_news(before, terms) and not _begins_later(before)
            if is_as_it_was or (terms.is_follower and only_offsets_moved(before) and not self._must_answer(before)):
                self._stay_subscribed(before)
                return
            self._size -= before.size
        limit = min(partition.max_bytes, terms.max_bytes)
        read = reads[partition] = read_partition(partition, terms, self._broker, limit=limit, min_one_batch=True)
        self._size += read.size
        if self._must_answer(read) or self._size >= terms.min_bytes:
            if len(reads) > _AT_ONCE:
                deferred.complete(InSteps(self._finish_in_steps(is_read_again=self._size > read.size)))
                return
            if self._size > read.size:  # several have records: read them again in their order, within the bounds
                self._read()
            deferred.complete(self._finish())
        else:
            self._stay_subscribed(read)

    def _read_at_once(self, partition: SessionPartition) -> Pieces | None:
        """The whole answer, where this is the only partition that was looked at and nothing about it is unusual."""
        terms, version = self._terms, self._context.api_version
        if terms.is_follower and version >= FIRST_WITH_PREFERRED_REPLICA:
            return read_for_follower(partition, self._session, terms, version, self._broker)
        if not terms.is_plain:
            return None
        bounds = (terms.min_bytes, terms.max_bytes)
        return read_for_consumer(partition, self._session, bounds, version, self._broker)

    def _stay_subscribed(self, read: PartitionRead) -> None:
        if read.hosted is not None:
            read.asked.subscribe(read.hosted.waiters, at_log_end=self._terms.is_follower)
        self._watch(read)

    def _timed_out(self) -> AnyReply:
        expired = self._broker.expired
        if self._terms.is_follower:
            expired.follower_fetches += 1
        else:
            expired.consumer_fetches += 1
        return self._finished()

    def _answer_now(self) -> None:
        """With what there is, which may be nothing."""
        deferred, broker = self._deferred, self._broker
        if deferred is not None and not deferred.is_done:
            deferred.on_timeout = self._finished
            broker.purgatory.hasten(deferred, broker.now_ms())

    def _finished(self) -> AnyReply:
        return InSteps(self._finish_in_steps()) if len(self._reads) > _AT_ONCE else self._finish()

    def _abandoned(self) -> None:
        """The asker has gone; what it was not told of is news to whoever goes on with its session."""
        for partition in self._reads:
            if partition.session is self._session:
                self._session.changed[partition] = None
        self._rest()

    def _rest(self) -> None:
        """The fetch is over: its session hears of moves for the next one, and a session of its own ends."""
        session = self._session
        if self._deferred is not None and session.on_change == self._changed:
            session.on_change = session.answer_now = None
        if session.id == NO_SESSION:
            self._broker.fetch_sessions.forget(session)

    def _finish(self) -> AnyReply:
        reply = self._reply()
        self._rest()
        return reply

    def _finish_in_steps(self, *, is_read_again: bool = False) -> Steps[HandlerResult]:
        """The rest of a fetch of very many partitions; what was subscribed for it is given back here, before the first step."""
        to_read = self._session.to_read() if is_read_again else []
        self._rest()
        return self._reply_in_steps(to_read)

    def _reply_in_steps(self, to_read: list[SessionPartition]) -> Steps[HandlerResult]:
        if to_read:
            yield from self._read_in_steps(to_read)
        told: list[PartitionRead] = []
        for reads in _some(list(self._reads.values())):
            yield None
            self._count_sent(reads)
            told += self._told(reads)
        return (
            yield from fetch_reply_in_steps(
                told, self._context, self._broker, session_id=self._session.id, is_follower=self._terms.is_follower
            )
        )

    def _reply(self) -> AnyReply:
        """The reads as a reply; in an incremental session only what is new."""
        session = self._session
        reads = self._reads
        self._count_sent(reads.values())
        if len(reads) == 1:
            (read,) = reads.values()
            if read.size and read.aborted is None and self._context.api_version >= FIRST_WITH_PREFERRED_REPLICA:
                return self._reply_with(read)
        return fetch_reply(
            self._told(reads.values()),
            self._context,
            self._broker,
            session_id=session.id,
            is_follower=self._terms.is_follower,
        )

    def _count_sent(self, reads: Iterable[PartitionRead]) -> None:
        """What is sent, to clients by topic, to followers together; what throttled replicas are sent counts, whether they are behind or not (KIP-73)."""
        if not self._terms.is_follower:
            for read in reads:
                if read.size and read.hosted is not None:
                    read.hosted.traffic.bytes_out += read.size
            return
        sent = throttled = 0
        for read in reads:
            if read.size and read.hosted is not None:
                sent += read.size
                if read.hosted.is_throttled_leader:
                    throttled += read.size
        self._broker.partitions.replication_bytes_out += sent
        if throttled:
            self._broker.leader_quota.record(throttled, self._broker.now_ms())

    def _told(self, reads: Iterable[PartitionRead]) -> list[PartitionRead]:
        """Those of which the answer speaks."""
        session = self._session
        if session.id == NO_SESSION:
            return list(reads)
        told = []
        for read in reads:
            partition = read.asked
            is_news = partition.was_told(
                high_watermark=read.high_watermark,
                log_start_offset=read.log_start_offset,
                is_loud=is_told(read),
            )
            if is_news or not self._is_incremental:
                told.append(read)
                if read.size:
                    session.served(partition)
        return told

    def _reply_with(self, read: PartitionRead) -> AnyReply:
        """The usual reply: records of one partition, and nothing else to tell."""
        asked, data, session = read.asked, read.data, self._session
        assert data is not None, "what has a size has records"
        asked.told_high_watermark = read.high_watermark
        asked.told_log_start_offset = read.log_start_offset
        session.served(asked)
        topic = Uuid(asked.topic_id) if session.by_id else asked.topic or ""
        offsets = (read.high_watermark, read.last_stable_offset, read.log_start_offset)
        version = self._context.api_version
        return EncodedReply(encode_one_slice(version, topic, asked.partition, offsets, data, (0, session.id)))


def _some(all_of_them: list[T]) -> Iterator[list[T]]:
    """A step's worth of them at a time."""
    for at in range(0, len(all_of_them), _AT_ONCE):
        yield all_of_them[at : at + _AT_ONCE]


def _begins_later(read: PartitionRead) -> bool:
    """Records were deleted since: nothing to answer for, but to be told when the fetch is answered."""
    log = None if read.hosted is None else read.hosted.log
    return log is not None and log.log_start_offset != read.log_start_offset
