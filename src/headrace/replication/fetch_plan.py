"""The fetcher's side of a fetch session: what its next request must say of which partitions (KIP-227).

no session -- first request (epoch 0, as many partitions as one request may name) --> asked
asked -- a session id in the response --> in session: requests name only what is wanted otherwise than the leader knows
asked -- none in the response --> no session: requests name everything, a part at a time where it is much
in session -- refused, or nobody knows what arrived --> no session; the next request ends the old one
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.core.error_code import ErrorCode

if TYPE_CHECKING:
    from headrace.core.ids import TopicIdPartition

MOST_IN_A_REQUEST: Final = 1_000
"""Partitions named in one request: a few milliseconds at either end. More follow in the next one, for which the leader is not let wait."""
_FIRST: Final = 0
_NO_SESSION: Final = 0
_MAX_EPOCH: Final = 2**31 - 1


class Position(NamedTuple):
    """From where a replica wants a partition, and in which epoch it believes its leader. `last_fetched_epoch` is -1 for a log without epochs."""

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class PlannedFetch(NamedTuple):
    """A Fetch request. `has_more`: there is more to ask, so that the leader should answer at once."""

    session_id: int
    session_epoch: int
    asks: list[tuple[TopicIdPartition, Position]]
    forgotten: list[TopicIdPartition]
    has_more: bool


class FetchPlan:
    """What one fetcher wants of one leader, and what the leader was told of it. Pure; one request is under way at a time."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_sent", "_session_id", "_wanted")

    def __init__(self) -> None:
        self._wanted: dict[TopicIdPartition, Position] = {}
        self._sent: dict[TopicIdPartition, Position] = {}
        self._changed: dict[TopicIdPartition, None] = {}
        self._forgotten: dict[TopicIdPartition, None] = {}
        self._session_id = _NO_SESSION
        self._epoch = _FIRST

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def is_worth_a_request(self) -> bool:
        """There are partitions to hear of, or to forget."""
        return bool(self._wanted or self._forgotten)

    def want(self, key: TopicIdPartition, position: Position) -> None:
        """Fetch the partition from there on."""
        self._wanted[key] = position
        self._forgotten.pop(key, None)
        if self._sent.get(key) == position:
            self._changed.pop(key, None)
        else:
            self._changed[key] = None

    def drop(self, key: TopicIdPartition) -> None:
        """Do not fetch it, for a while or for good."""
        if self._wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self._sent:
                self._forgotten[key] = None

    def is_answered(self, key: TopicIdPartition) -> bool:
        """Whether what the leader says now is about the position that is wanted: nothing has changed since it was asked."""
        wanted = self._wanted.get(key)
        return wanted is not None and self._sent.get(key) == wanted

    def next(self) -> PlannedFetch:
        """The next request; the leader is taken to know what is in it."""
        if self._epoch == _FIRST:
            return self._everything()
        forgotten = list(islice(self._forgotten, MOST_IN_A_REQUEST))
        asks = [(key, self._wanted[key]) for key in islice(self._changed, MOST_IN_A_REQUEST)]
        for key, position in asks:
            self._sent[key] = position
            del self._changed[key]
        for key in forgotten:
            del self._forgotten[key]
            del self._sent[key]
        return PlannedFetch(self._session_id, self._epoch, asks, forgotten, bool(self._changed or self._forgotten))

    def answered(self, session_id: int, error: ErrorCode) -> bool:
        """What the response says of the session. False when it was refused: then it says nothing of partitions."""
        if error is not ErrorCode.NONE:
            if error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = _NO_SESSION
            self._begin_again()
            return False
        if session_id == _NO_SESSION:
            self._session_id = _NO_SESSION
            self._begin_again(keeps_sent=True)
            return True
        if self._epoch != _FIRST and session_id != self._session_id:
            self._begin_again()
            return False
        self._session_id = session_id
        self._epoch = 1 if self._epoch in (_FIRST, _MAX_EPOCH) else self._epoch + 1
        return True

    def lost(self) -> None:
        """No response came: the leader may have taken the request or not."""
        self._begin_again()

    def _everything(self) -> PlannedFetch:
        """A request that begins a session, with as much as it may name; what was named goes to the end, where one after the other is without a session."""
        asks = list(islice(self._wanted.items(), MOST_IN_A_REQUEST))
        has_more = len(self._wanted) > len(asks)
        if has_more:
            for key, position in asks:
                del self._wanted[key]
                self._wanted[key] = position
        self._sent = dict(asks)
        self._changed = dict.fromkeys(islice(self._wanted, len(self._wanted) - len(asks))) if has_more else {}
        self._forgotten.clear()
        return PlannedFetch(self._session_id, _FIRST, asks, [], has_more)

    def _begin_again(self, *, keeps_sent: bool = False) -> None:
        self._epoch = _FIRST
        self._forgotten.clear()
        if not keeps_sent:
            self._sent.clear()
        self._changed = dict.fromkeys(self._wanted)
