"""The follower's side of the partitions that one broker leads: what is fetched from it, and what becomes of its responses.

A partition, as long as it is followed in one leader epoch:

    FETCHING   -> CUTTING     the leader's history is another one above some offset (KIP-595), or its log is shorter or begins later
    FETCHING   -> ASKING      OFFSET_OUT_OF_RANGE: where does the leader's log begin and end?
    FETCHING   -> RESTING     any other error, of the leader's or of what it sent: again after `replica.fetch.backoff.ms`, or sooner where the
                              leader may only not have heard of its election yet
    FETCHING   -> SYNCING     what was appended must be synced before it is acknowledged (`flush.messages`), by the next fetch
    FETCHING   -> THROTTLED   it is behind, its traffic is throttled, and more than the quota went already (KIP-73): until that is so no more
    FETCHING   -> FENCED      the leader is of a later epoch: metadata that say so are on their way, and bring a new beginning
    ASKING     -> CUTTING, FETCHING, RESTING
    CUTTING, SYNCING, THROTTLED -> FETCHING
    RESTING    -> FETCHING, ASKING

A new leader epoch begins anew, with the log's end and the epoch of its last record: whether they fit is the leader's first response (KIP-101).
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Final, assert_never

from headrace.core.deadlines import earliest
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError, StorageFault
from headrace.log.ports import AppendRefused
from headrace.records.batch import whole_batches
from headrace.replication.fetch_plan import FetchPlan, Position
from headrace.replication.follower_events import (
    AskEnds,
    CutLogs,
    EndsTold,
    Fetched,
    FetchFailed,
    FollowedPartition,
    FollowerEffect,
    FollowerEvent,
    FollowerState,
    LogFailed,
    LogsCut,
    LogSynced,
    PartitionCut,
    PartitionListed,
    PartitionsFollowed,
    PartitionsLeft,
    PartitionTold,
    Reported,
    SendFetch,
    SyncLog,
    TimeAdvanced,
    TurnCame,
    TurnShare,
)
from headrace.replication.throttle import Throttle
from headrace.replication.truncation import common_end, first_offset_to_fetch, start_after_out_of_range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.core.ids import TopicIdPartition
    from headrace.replication.quota import ReplicationQuota

NO_EPOCH: Final = -1
_EARLY_MS: Final = 10
_MOST_DOUBLED: Final = 16
"""A leader that does not know of its election is asked again after 20 ms, then 40, and so on up to the backoff."""
_MOST_AT_ONCE: Final = 500
"""Batches that are appended in one go."""
_BYTES_OF_A_BATCH: Final = 8 << 10
"""So many bytes cost as much as a small batch does."""
_COST_OF_SEGMENT: Final = 100
"""Where an append ends early a new segment begins, as a rule: files are made."""


class _Taking:
    """A response of which not all was taken yet. `rest` is what is left of the records of `partition`, which is the first to go on with."""

    __slots__ = ("now_ms", "partition", "rest", "told", "wall_ms")

    def __init__(self, event: Fetched) -> None:
        self.told: Iterator[PartitionTold] = iter(event.told)
        self.now_ms = event.now_ms
        self.wall_ms = event.wall_ms
        self.partition: FollowedPartition | None = None
        self.rest: PartitionTold | None = None


class ReplicaFetcher:
    """Follows what one broker leads, with one fetch under way at a time. Driven by `broker.replica_fetchers`.

    Appends to logs directly, as `PartitionLeader` does. Idle partitions cost nothing: the session holds them, and a response speaks of those that
    have news. A response is taken as far as `turn` allows; while `is_taking` the driver says `TurnCame` in later turns, and the next fetch waits.
    """

    def __init__(
        self, *, backoff_ms: int, quota: ReplicationQuota | None = None, turn: TurnShare | None = None
    ) -> None:
        self._backoff_ms = backoff_ms
        self._turn = turn or TurnShare()
        self._taking: _Taking | None = None
        self._throttle = Throttle(quota, most_ms=backoff_ms)
        self._now_ms = 0
        self.partitions: dict[TopicIdPartition, FollowedPartition] = {}
        self._plan = FetchPlan()
        self._is_fetching = False
        self._waits_until_ms: int | None = None
        self._resting: list[tuple[int, int, FollowedPartition]] = []
        self._rests = count()
        self._syncing: dict[TopicIdPartition, None] = {}
        """Partitions for which the next fetch waits: it would acknowledge what may still be lost."""
        self.fetches = 0
        """RequestsPerSec."""
        self.bytes_in = 0
        """BytesPerSec of `FetcherStats`."""

    def step(self, event: FollowerEvent) -> list[FollowerEffect]:
        """Take one event; the effects in their order."""
        effects: list[FollowerEffect] = []
        match event:
            case Fetched() | TurnCame():
                self._take_of_response(event, effects)
            case PartitionsFollowed():
                self._now_ms = max(self._now_ms, event.now_ms)
                self._follow(event.partitions, effects)
            case PartitionListed():
                self._list(event, effects)
            case PartitionsLeft():
                self._leave(event.keys)
            case FetchFailed():
                self._is_fetching = False
                self._plan.lost()
                self._waits_until_ms = event.now_ms + self._backoff_ms
            case EndsTold():
                self._ends_told(event, effects)
            case LogsCut():
                self._are_cut(event, effects)
            case LogSynced():
                self._synced(event.key, effects)
            case TimeAdvanced():
                self._now_ms = max(self._now_ms, event.now_ms)
                self._wake(event.now_ms, effects)
            case _:
                assert_never(event)
        self._go_on(effects)
        return effects

    @property
    def next_deadline_ms(self) -> int | None:
        """When `TimeAdvanced` has something to do."""
        rests = self._resting[0][0] if self._resting else None
        throttled = None if self._is_held else self._throttle.due_ms
        return earliest((rests, self._waits_until_ms, throttled))

    @property
    def max_lag(self) -> int:
        """MaxLag: the furthest that a partition is behind what its leader had committed."""
        return max((each.lag for each in self.partitions.values()), default=0)

    @property
    def is_taking(self) -> bool:
        """There is more to take of a response."""
        return self._taking is not None

    @property
    def is_idle(self) -> bool:
        """Nothing is followed and nothing is under way."""
        return not self.partitions and not self._is_fetching

    @property
    def _is_held(self) -> bool:
        """The next fetch must wait."""
        return self._is_fetching or self._waits_until_ms is not None or bool(self._syncing)

    # --- requests ---

    def _go_on(self, effects: list[FollowerEffect]) -> None:
        """The next fetch, if none is under way and there is something to hear of."""
        if not self._is_held and self._throttle.listed:
            self._heed_quota(effects)
        if self._is_held or not self._plan.is_worth_a_request:
            return
        self._is_fetching = True
        self.fetches += 1
        effects.append(SendFetch(plan=self._plan.next()))

    def _follow(self, partitions: Sequence[FollowedPartition], effects: list[FollowerEffect]) -> None:
        cuts = []
        for partition in partitions:
            known = self.partitions.get(partition.key)
            if known is not None and known.leader_epoch == partition.leader_epoch and known.log is partition.log:
                continue
            self.partitions[partition.key] = partition
            self._syncing.pop(partition.key, None)
            self._throttle.follow(partition)
            start = first_offset_to_fetch(partition.log)
            if start < partition.log.log_end_offset:
                cuts.append(PartitionCut(partition, start, starts_over=False))
            else:
                self._fetch_from_end(partition, effects)
        self._cut(cuts, effects)

    def _leave(self, keys: Sequence[TopicIdPartition]) -> None:
        for key in keys:
            self.partitions.pop(key, None)
            self._syncing.pop(key, None)
            self._throttle.leave(key)
            self._plan.drop(key)

    def _fetch_from_end(self, partition: FollowedPartition, effects: list[FollowerEffect]) -> None:
        """Ask for what comes next; that acknowledges all that is there, so it must be synced first where its topic wants that."""
        log = partition.log
        if log.acknowledged_end_offset < log.log_end_offset:
            partition.state = FollowerState.SYNCING
            self._syncing[partition.key] = None
            effects.append(SyncLog(partition=partition))
            return
        if self._throttle.holds(partition):
            self._plan.drop(partition.key)
            return
        epoch = log.latest_epoch
        partition.state = FollowerState.FETCHING
        partition.position = Position(
            partition.leader_epoch, log.log_end_offset, NO_EPOCH if epoch is None else epoch, log.log_start_offset
        )
        self._plan.want(partition.key, partition.position)

    def _fetch_again(self, partition: FollowedPartition, now_ms: int, effects: list[FollowerEffect]) -> None:
        """The same after something was done about what the leader refused; if that changed nothing, not at once."""
        before = partition.position
        self._fetch_from_end(partition, effects)
        if partition.state is FollowerState.FETCHING and partition.position == before:
            self._rest(partition, now_ms)

    # --- quota (KIP-73) ---

    def _list(self, event: PartitionListed, effects: list[FollowerEffect]) -> None:
        partition = self.partitions.get(event.key)
        if partition is not None:
            partition.is_listed = event.is_listed
            was_held = partition.state is FollowerState.THROTTLED
            self._throttle.follow(partition)
            if was_held:
                self._fetch_from_end(partition, effects)

    def _heed_quota(self, effects: list[FollowerEffect]) -> None:
        """Before a fetch: what is behind and listed is left out of it while the quota is exceeded, and in it again when it is not."""
        for partition in self._throttle.look(self._now_ms):
            self._fetch_from_end(partition, effects)

    def _is_followed(self, partition: FollowedPartition) -> bool:
        return self.partitions.get(partition.key) is partition

    # --- responses ---

    def _take_of_response(self, event: Fetched | TurnCame, effects: list[FollowerEffect]) -> None:
        if isinstance(event, Fetched):
            self._now_ms = max(self._now_ms, event.now_ms)
            self._fetched(event)
        if self._taking is not None:
            self._go_on_taking(self._taking, effects)

    def _fetched(self, event: Fetched) -> None:
        if not self._plan.answered(event.session_id, event.error):
            self._is_fetching = False
            if event.error not in _SESSION_ERRORS:
                self._waits_until_ms = event.now_ms + self._backoff_ms
            return
        self._taking = _Taking(event)

    def _go_on_taking(self, taking: _Taking, effects: list[FollowerEffect]) -> None:
        """Take more of a response, until the turn's share is used up or the response is."""
        cuts: list[PartitionCut] = []
        while self._turn.left > 0:
            told, begun = taking.rest or next(taking.told, None), taking.partition
            taking.rest = taking.partition = None
            if told is None:
                self._taking, self._is_fetching = None, False
                break
            self._turn.left -= 1
            partition = self.partitions.get(told.key)
            if partition is None or partition.state is not FollowerState.FETCHING or begun not in (None, partition):
                continue
            if not self._plan.is_answered(told.key):  # it was asked otherwise by now
                continue
            if told.error is not ErrorCode.NONE:
                self._refused(partition, told.error, taking.now_ms, effects)
            elif told.diverging is not None:
                cuts.append(PartitionCut(partition, common_end(partition.log, told.diverging), starts_over=False))
            else:
                self._take(partition, told, taking, effects)
        self._cut(cuts, effects)

    def _take(
        self, partition: FollowedPartition, told: PartitionTold, taking: _Taking, effects: list[FollowerEffect]
    ) -> None:
        """Append what came, then follow the leader's high watermark and log start. Source: KIP-101, KIP-107; P16, P18."""
        log = partition.log
        try:
            if told.records:
                before_bytes = self.bytes_in
                done = self._append(partition, told.records, taking.wall_ms)
                if partition.is_listed:
                    self._throttle.record(self.bytes_in - before_bytes, taking.now_ms)
                if isinstance(done, AppendRefused):
                    effects.append(Reported(partition=partition, text=done.message))
                    self._rest(partition, taking.now_ms)
                    return
                if done is not None:
                    taking.partition, taking.rest = partition, told._replace(records=done)
                    return
            end = log.log_end_offset
            if told.high_watermark >= 0:
                before = log.high_watermark
                if log.advance_high_watermark(told.high_watermark) > before and partition.waiters is not None:
                    partition.waiters.high_watermark_moved(log.high_watermark)
                partition.lag = max(0, told.high_watermark - end)
            if told.log_start_offset > log.log_start_offset:
                log.advance_log_start(min(told.log_start_offset, log.high_watermark))
        except StorageFault as fault:
            self._lose(partition, fault, effects)
            return
        partition.early_tries = 0
        self._fetch_from_end(partition, effects)

    def _synced(self, key: TopicIdPartition, effects: list[FollowerEffect]) -> None:
        partition = self.partitions.get(key)
        if key in self._syncing and partition is not None:
            del self._syncing[key]
            self._fetch_from_end(partition, effects)

    def _append(
        self, partition: FollowedPartition, records: memoryview, wall_ms: int
    ) -> AppendRefused | memoryview | None:
        """Write the whole batches of a response, byte for byte; a cut-off last one is asked for again.

        The refusal, if a batch cannot be taken; what is left, if the turn's share is used up.
        """
        log, epoch, turn = partition.log, partition.leader_epoch, self._turn
        rest = records
        while rest:
            if turn.left <= 0:
                return rest
            try:
                count, size = whole_batches(rest, most=min(_MOST_AT_ONCE, turn.left))
            except PeerError as error:
                return AppendRefused(error=error.code, message=error.message)
            if not count:
                return None
            done = log.append_as_follower(rest[:size], leader_epoch=epoch, now_ms=wall_ms)
            if isinstance(done, AppendRefused):
                return done
            turn.left -= count + size // _BYTES_OF_A_BATCH + (_COST_OF_SEGMENT if done.size < size else 0)
            rest = rest[done.size :]
            self.bytes_in += done.size
        return None

    def _refused(
        self, partition: FollowedPartition, error: ErrorCode, now_ms: int, effects: list[FollowerEffect]
    ) -> None:
        """The leader has an error for a partition."""
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._ask(partition, effects)
        elif error is ErrorCode.FENCED_LEADER_EPOCH:
            self._plan.drop(partition.key)
            partition.state = FollowerState.FENCED
        elif error in _NOT_THERE_YET:
            partition.early_tries += 1
            self._rest(partition, now_ms, min(self._backoff_ms, _EARLY_MS << min(partition.early_tries, _MOST_DOUBLED)))
        else:
            self._rest(partition, now_ms)

    def _ask(self, partition: FollowedPartition, effects: list[FollowerEffect]) -> None:
        self._plan.drop(partition.key)
        partition.state = FollowerState.ASKING
        partition.wants_ends = True
        effects.append(AskEnds(partition=partition))

    def _ends_told(self, event: EndsTold, effects: list[FollowerEffect]) -> None:
        """Source: Kafka behaviour (fetchOffsetAndTruncate)."""
        partition = event.partition
        if not self._is_followed(partition) or partition.state is not FollowerState.ASKING:
            return
        if event.ends is None:
            self._rest(partition, event.now_ms)
            return
        partition.wants_ends = False
        leader_start, leader_end = event.ends
        offset, starts_over = start_after_out_of_range(partition.log, leader_start=leader_start, leader_end=leader_end)
        if starts_over or offset < partition.log.log_end_offset:
            self._cut([PartitionCut(partition, offset, starts_over)], effects)
        else:
            self._fetch_again(partition, event.now_ms, effects)

    # --- cutting, resting ---

    def _cut(self, cuts: list[PartitionCut], effects: list[FollowerEffect]) -> None:
        if cuts:
            for cut in cuts:
                self._plan.drop(cut.partition.key)
                cut.partition.state = FollowerState.CUTTING
            effects.append(CutLogs(cuts=tuple(cuts)))

    def _are_cut(self, event: LogsCut, effects: list[FollowerEffect]) -> None:
        for cut in event.cuts:
            if self._is_followed(cut.partition):
                self._fetch_again(cut.partition, event.now_ms, effects)

    def _rest(self, partition: FollowedPartition, now_ms: int, for_ms: int | None = None) -> None:
        self._plan.drop(partition.key)
        partition.state = FollowerState.RESTING
        until_ms = partition.rests_until_ms = now_ms + (self._backoff_ms if for_ms is None else for_ms)
        heappush(self._resting, (until_ms, next(self._rests), partition))

    def _wake(self, now_ms: int, effects: list[FollowerEffect]) -> None:
        if self._waits_until_ms is not None and now_ms >= self._waits_until_ms:
            self._waits_until_ms = None
        resting = self._resting
        while resting and resting[0][0] <= now_ms:
            until_ms, _, partition = heappop(resting)
            is_due = partition.state is FollowerState.RESTING and partition.rests_until_ms == until_ms
            if is_due and self._is_followed(partition):
                if partition.wants_ends:
                    self._ask(partition, effects)
                else:
                    self._fetch_from_end(partition, effects)

    def _lose(self, partition: FollowedPartition, fault: StorageFault, effects: list[FollowerEffect]) -> None:
        """Its log directory failed: whoever hears of that stops following all partitions in it."""
        self._plan.drop(partition.key)
        self._throttle.leave(partition.key)
        del self.partitions[partition.key]
        effects.append(LogFailed(fault=fault))


_NOT_THERE_YET: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""The leader may be a moment behind this replica in its metadata."""
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
"""Refusals after which a new session may be begun at once."""
