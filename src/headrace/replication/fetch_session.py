"""A fetch session: which partitions a fetcher follows, what it knows of them, and which of them changed since (KIP-227)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from headrace.log.ports import FileSlice
from headrace.replication.isr import FollowerProgress
from headrace.replication.waiting import PartitionWaiters

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
NO_SESSION = 0
_MAX_EPOCH = 2**31 - 1
_TURN = attrgetter("turn")


@dataclass(slots=True, kw_only=True, eq=False)
class SessionPartition:
    """One partition of a session: what the fetcher asked for and what it was last told. A `waiting.Reader`.

    `turn` orders the partitions of a session: the lowest is read first. `waiters` is where it is subscribed, `progress` the follower's whose
    fetches this is.
    """

    topic: str | None
    topic_id: bytes
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    log_start_offset: int = -1
    last_fetched_epoch: int = -1
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    turn: int = 0
    session: FetchSession | None = None
    waiters: PartitionWaiters | None = None
    progress: FollowerProgress | None = None

    def was_told(self, *, high_watermark: int, log_start_offset: int, is_loud: bool) -> bool:
        """Note what is told now; whether it is worth telling: data or an error (`is_loud`), or a change of the two offsets."""
        tell = is_loud
        if high_watermark != self.told_high_watermark:
            self.told_high_watermark = high_watermark
            tell = True
        if log_start_offset != self.told_log_start_offset:
            self.told_log_start_offset = log_start_offset
            tell = True
        return tell

    def moved(self) -> None:
        """The partition has more to read, or something to tell: its session reads it next time, or now if it waits."""
        self.waiters = None
        session = self.session
        if session is not None:
            session.changed[self] = None
            if session.on_change is not None:
                session.on_change(self)

    def subscribe(self, waiters: PartitionWaiters, *, at_log_end: bool) -> None:
        """Hear of the next move."""
        known = self.waiters
        if known is not waiters:
            if known is not None:
                known.unsubscribe(self)
            self.waiters = waiters
            waiters.subscribe(self, at_log_end=at_log_end)

    def leave(self) -> None:
        """The session ends, or goes on without this partition."""
        session, self.session = self.session, None
        if self.waiters is not None:
            self.waiters.unsubscribe(self)
            self.waiters = None
        if self.progress is not None:
            self.progress.leave_session(session)
            self.progress = None


class KnownRequest(NamedTuple):
    """What a consumer asks its session for again and again: the bytes of a request for more of one partition but for epoch and offset, and what they mean.

    Sizes are bytes; `write` makes the response of a high watermark, a last stable offset, a log start and records.
    """

    version: int
    start: bytes
    middle: bytes
    end: bytes
    asked: SessionPartition
    min_bytes: int
    max_bytes: int
    write: Callable[[int, int, int, FileSlice], tuple[bytes, FileSlice, bytes] | tuple[bytes, FileSlice]]


class Asker(NamedTuple):
    """Who has a session: a principal at a host, or the replicas of one broker; and on which connection it was begun."""

    owner: Hashable
    connection: int = 0


NOBODY = Asker(None)


class FetchSession:
    """A fetcher's partitions between its requests. `epoch` is what its next request must carry.

    `counted` of its partitions are in the sum of its cache. `changed` holds what the next fetch must look at: what the fetcher asked for anew, what moved, and what had something to give or an error
    when it was last read. All others have nothing for the fetcher, and it knows their offsets. `known` holds until something else is asked for;
    `alone` was the only partition of the last request that named any. `on_change` is told of each move while
    a fetch waits, and `answer_now` ends that. A fetch without a session has one that nobody can ask for again (`NO_SESSION`).
    """

    __slots__ = (
        "alone",
        "answer_now",
        "asker",
        "by_id",
        "changed",
        "counted",
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "known",
        "on_change",
        "partitions",
        "terms",
        "turns",
        "used_ms",
    )

    def __init__(
        self,
        session_id: int,
        *,
        is_privileged: bool,
        by_id: bool,
        now_ms: int,
        partitions: Iterable[tuple[Hashable, SessionPartition]],
        asker: Asker = NOBODY,
    ) -> None:
        self.id = session_id
        self.asker = asker
        self.by_id = by_id
        self.epoch = 1
        self.is_privileged = is_privileged
        self.created_ms = now_ms
        self.used_ms = now_ms
        self.partitions: dict[Hashable, SessionPartition] = {}
        self.changed: dict[SessionPartition, None] = {}
        self.known: KnownRequest | None = None
        self.alone: SessionPartition | None = None
        self.on_change: Callable[[SessionPartition], None] | None = None
        self.answer_now: Callable[[], None] | None = None
        self.terms: Hashable = None
        self.turns = 0
        self.counted = 0
        for key, partition in partitions:
            self.add(key, partition)

    def next_epoch(self) -> None:
        """Count the request that was just served; 0 and -1 have meanings of their own."""
        self.epoch = 1 if self.epoch >= _MAX_EPOCH else self.epoch + 1

    def asked_by(self, terms: Hashable) -> None:
        """Somebody else asks, or otherwise than before (replica, isolation level): everything is read anew."""
        self.terms = terms
        self.known = None
        self.changed = dict.fromkeys(self.partitions.values())

    def add(self, key: Hashable, partition: SessionPartition) -> None:
        """One more partition; it comes after all others."""
        self.turns += 1
        partition.turn = self.turns
        partition.session = self
        self.partitions[key] = partition
        self.changed[partition] = None

    def forget(self, keys: Iterable[Hashable]) -> None:
        """The fetcher wants no more of these."""
        for key in keys:
            gone = self.partitions.pop(key, None)
            if gone is not None:
                self.changed.pop(gone, None)
                gone.leave()

    def to_read(self) -> list[SessionPartition]:
        """What must be looked at, those first that were not served for longest."""
        changed = self.changed
        return list(changed) if len(changed) < 2 else sorted(changed, key=_TURN)

    def served(self, partition: SessionPartition) -> None:
        """Data was sent for this partition: others come first next time, so that none starves."""
        self.turns += 1
        partition.turn = self.turns

    def end(self) -> None:
        """Nobody asks for it any more."""
        for partition in self.partitions.values():
            partition.leave()
        self.partitions.clear()
        self.changed.clear()
        self.known = self.alone = None
