"""A follower of one leader: what it fetches, what it appends, where it cuts, and when it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import TopicIdPartition, TopicPartition
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.ports import FileSlice, Origin, OutOfRange
from headrace.records.batch import iter_batches
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import ProducerStamp
from headrace.replication.fetch_plan import Position
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.follower_events import (
    AskEnds,
    CutLogs,
    EndsTold,
    Fetched,
    FetchFailed,
    FollowedPartition,
    FollowerEffect,
    FollowerState,
    LogFailed,
    LogsCut,
    LogSynced,
    PartitionsFollowed,
    PartitionsLeft,
    PartitionTold,
    Reported,
    SendFetch,
    SyncLog,
    TimeAdvanced,
)
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.storage.stored_log import StoredLog
from tests.support.stores import (
    NOW_MS,
    SMALL,
    TOPIC_ID,
    append,
    batch,
    memory_store,
    producer_batch,
    records_of,
    sync,
    values_of,
)

KEY = TopicIdPartition(TOPIC_ID, 0)
OTHER = TopicIdPartition(TOPIC_ID, 1)
BACKOFF_MS = 1_000


def log_of(store: LogStore, number: int = 0) -> StoredLog:
    """A log of a store."""
    return store.create(TopicPartition("topic", number), topic_id=TOPIC_ID, config=SMALL)


def bytes_of(log: StoredLog) -> bytes:
    """All batches, as they lie there."""
    found, at = b"", log.log_start_offset
    while at < log.log_end_offset:
        data = log.read_bytes(at, 1 << 20, upper_offset=log.log_end_offset, min_one_batch=True)
        assert isinstance(data, bytes)
        found += data
        at = [header.next_offset for _, header in iter_batches(data)][-1]
    return found


class Pair:
    """A leader's log and a follower's, and the follower's fetcher. `epoch` is the leader's."""

    def __init__(self, *, epoch: int = 1) -> None:
        self.leader = log_of(memory_store(LossyFiles()))
        self.files = LossyFiles()
        self.follower = log_of(memory_store(self.files))
        self.fetcher = ReplicaFetcher(backoff_ms=BACKOFF_MS)
        self.epoch = epoch
        self.now_ms = 1
        self.asked: dict[TopicIdPartition, Position] = {}
        """What the session at the leader holds."""
        self.leader.begin_epoch(epoch)

    def write(self, *values: bytes, log: StoredLog | None = None, epoch: int | None = None) -> None:
        """Records, in the leader's log if no other is meant."""
        append(log or self.leader, batch(*values), leader_epoch=self.epoch if epoch is None else epoch)

    def follow(self) -> list[FollowerEffect]:
        """Begin, in the leader's epoch."""
        self.partition = FollowedPartition(KEY, self.follower, leader_epoch=self.epoch)
        return self.fetcher.step(PartitionsFollowed(partitions=(self.partition,)))

    def told(self, position: Position, *, max_bytes: int = 1 << 20) -> PartitionTold:
        """What an honest leader says: KIP-595's comparison first, then records."""
        log = self.leader
        if position.last_fetched_epoch >= 0:
            end = log.end_offset_for_epoch(position.last_fetched_epoch)
            assert end is not None
            if end.epoch < position.last_fetched_epoch or end.offset < position.fetch_offset:
                return PartitionTold(KEY, ErrorCode.NONE, log.high_watermark, log.log_start_offset, end, None)
        data = log.read_slice(position.fetch_offset, max_bytes, upper_offset=log.log_end_offset, min_one_batch=True)
        if isinstance(data, OutOfRange):
            return PartitionTold(KEY, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, None, None)
        assert isinstance(data, FileSlice)
        return PartitionTold(
            KEY, ErrorCode.NONE, log.high_watermark, log.log_start_offset, None, memoryview(data.read())
        )

    def answer(self, *told: PartitionTold, error: ErrorCode = ErrorCode.NONE) -> list[FollowerEffect]:
        """The fetch under way is answered with this."""
        return self.fetcher.step(Fetched(session_id=77, error=error, told=told, now_ms=self.now_ms, wall_ms=NOW_MS))

    def run(self, effects: list[FollowerEffect], *, max_bytes: int = 1 << 20) -> list[FollowerEffect]:
        """Let the two talk until neither has anything to say, with a fetch under way; the other effects that there were."""
        others: list[FollowerEffect] = []
        quiet = 0
        for _ in range(200):
            sent = next((each for each in effects if isinstance(each, SendFetch)), None)
            for each in effects:
                if isinstance(each, CutLogs):
                    self.cut(each)
                if each is not sent:
                    others.append(each)
            if sent is not None:
                self.asked.update(sent.plan.asks)
                for key in sent.plan.forgotten:
                    self.asked.pop(key)
            known = self.asked.get(KEY)
            is_asked = sent is not None and known in dict(sent.plan.asks).values()
            news = known is not None and (is_asked or self.is_behind(known))
            quiet = 0 if news else quiet + 1
            if quiet > 1:
                return others
            effects = self.answer(*([self.told(known, max_bytes=max_bytes)] if known is not None and news else []))
        raise AssertionError("they never came to an end")

    def is_behind(self, known: Position) -> bool:
        """Whether the leader has more than that."""
        return known.fetch_offset < self.leader.log_end_offset

    def cut(self, effect: CutLogs) -> list[FollowerEffect]:
        """Do what was ordered."""
        for cut in effect.cuts:
            if cut.starts_over:
                self.follower.truncate_fully_and_start_at(cut.offset)
            else:
                self.follower.truncate_to(cut.offset)
        return self.fetcher.step(LogsCut(cuts=effect.cuts, now_ms=self.now_ms))

    def same(self) -> bool:
        """Whether both logs hold the same records and epochs."""
        ours = [(r.offset, r.value, self.follower.epoch_at(r.offset)) for r in records_of(self.follower)]
        theirs = [(r.offset, r.value, self.leader.epoch_at(r.offset)) for r in records_of(self.leader)]
        return ours == theirs


def positions(effects: list[FollowerEffect]) -> dict[TopicIdPartition, Position]:
    """What the one fetch among the effects asks for."""
    (sent,) = [effect for effect in effects if isinstance(effect, SendFetch)]
    return dict(sent.plan.asks)


# --- what it appends ---


@pytest.mark.parametrize("max_bytes", [1, 300, 1 << 20])
def test_a_follower_has_the_leaders_batches_byte_for_byte(max_bytes: int) -> None:
    """S3-109, inv:P16: over segments and fetches of any size."""
    pair = Pair()
    for number in range(60):
        pair.write(b"%d" % number, b"and more")
    assert pair.run(pair.follow(), max_bytes=max_bytes) == []
    assert pair.same()
    assert bytes_of(pair.leader) == bytes_of(pair.follower)


def test_the_first_fetch_says_where_the_log_ends_and_in_which_epoch() -> None:
    """KIP-595, KIP-903: an empty log has no last epoch."""
    pair = Pair(epoch=7)
    assert positions(pair.follow()) == {KEY: Position(7, 0, -1, 0)}
    pair.write(b"a", b"b")
    effects = pair.answer(pair.told(Position(7, 0, -1, 0)))
    assert positions(effects) == {KEY: Position(7, 2, 7, 0)}


def test_a_follower_that_knows_the_leaders_producers_can_lead_at_once() -> None:
    """B-P04, inv:PR4: a batch that is sent again to the next leader is known there."""
    pair = Pair()
    first = producer_batch(ProducerStamp(5, 0, 0), b"a")
    append(pair.leader, producer_batch(ProducerStamp(5, 0, 0), b"a"), leader_epoch=1)
    pair.run(pair.follow())
    pair.follower.begin_epoch(2)
    again = append(pair.follower, first, leader_epoch=2)
    assert (again.first_offset, again.is_duplicate) == (0, True)


def test_aborted_transactions_are_known_to_the_follower() -> None:
    """inv:P17: the index of aborted transactions is written as on the leader."""
    pair = Pair()
    append(pair.leader, producer_batch(ProducerStamp(5, 0, 0, is_transactional=True), b"a"), leader_epoch=1)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=0), producer_id=5, producer_epoch=0, timestamp=NOW_MS
    )
    pair.leader.append_as_leader(
        memoryview(bytearray(marker)), leader_epoch=1, now_ms=NOW_MS, origin=Origin.COORDINATOR
    )
    pair.run(pair.follow())
    assert pair.follower.aborted_transactions(0, 2) == pair.leader.aborted_transactions(0, 2) != []


def test_a_batch_that_is_cut_off_is_asked_for_again() -> None:
    """KIP-74: the last batch of a response may be a part of one, and is no error."""
    pair = Pair()
    pair.write(b"a" * 100)
    asked = positions(pair.follow())[KEY]
    whole = pair.told(asked)
    assert whole.records is not None
    effects = pair.answer(whole._replace(records=whole.records[:-1]))
    assert (pair.partition.state, pair.follower.log_end_offset) == (FollowerState.FETCHING, 0)
    assert positions(effects) == {}


def test_a_damaged_batch_is_reported_and_asked_for_again_after_the_backoff() -> None:
    """inv:PR9, S1-28: what came before it is kept."""
    pair = Pair()
    pair.write(b"good")
    pair.write(b"bad!")
    told = pair.told(positions(pair.follow())[KEY])
    assert told.records is not None
    damaged = bytearray(told.records)
    damaged[-3] ^= 1
    effects = pair.answer(told._replace(records=memoryview(damaged)))
    assert [type(effect) for effect in effects if not isinstance(effect, SendFetch)] == [Reported]
    assert (pair.partition.state, pair.follower.log_end_offset) == (FollowerState.RESTING, 1)
    assert pair.fetcher.next_deadline_ms == pair.now_ms + BACKOFF_MS


# --- high watermark, log start ---


def test_a_follower_takes_the_leaders_high_watermark_as_far_as_its_log_goes() -> None:
    """S3-49, inv:P6."""
    pair = Pair()
    pair.write(b"a")
    pair.write(b"b")
    pair.leader.advance_high_watermark(2)
    told = pair.told(positions(pair.follow())[KEY], max_bytes=1)
    pair.answer(told)
    assert (pair.follower.log_end_offset, pair.follower.high_watermark) == (1, 1)
    assert pair.partition.lag == 1
    pair.answer(pair.told(Position(1, 1, 1, 0)))
    assert (pair.follower.high_watermark, pair.partition.lag, pair.fetcher.max_lag) == (2, 0, 0)


def test_a_follower_follows_the_leaders_log_start() -> None:
    """KIP-107, inv:P18: and says so in its next fetch."""
    pair = Pair()
    for _ in range(3):
        pair.write(b"x")
    pair.leader.advance_high_watermark(3)
    pair.run(pair.follow())
    pair.leader.advance_log_start(2)
    effects = pair.answer(pair.told(Position(1, 3, 1, 0)))
    assert pair.follower.log_start_offset == 2
    assert positions(effects) == {KEY: Position(1, 3, 1, 2)}


# --- where histories part ---


def test_what_only_the_old_leader_had_is_cut_and_replaced() -> None:
    """KIP-101, B-P02, inv:P12, S3-52: the follower led epoch 1 and wrote what nobody copied."""
    pair = Pair(epoch=2)
    for log in (pair.leader, pair.follower):
        log.truncate_to(0)
        log.begin_epoch(1)
        pair.write(b"both", log=log, epoch=1)
    pair.write(b"lost", b"too", log=pair.follower, epoch=1)
    pair.leader.begin_epoch(2)
    pair.write(b"new")
    assert [type(effect) for effect in pair.run(pair.follow())] == [CutLogs]
    assert values_of(records_of(pair.follower)) == [b"both", b"new"]
    assert pair.same()
    assert pair.follower.epochs.entries() == [OffsetAndEpoch(0, 1), OffsetAndEpoch(1, 2)]


def test_several_epochs_apart_the_follower_cuts_as_often_as_it_takes() -> None:
    """KIP-279, KIP-595, inv:P12: two brokers that led by turns while they did not see each other."""
    pair = Pair(epoch=6)
    pair.leader.truncate_to(0)
    for log, epochs in ((pair.leader, (1, 3, 5)), (pair.follower, (1, 2, 4))):
        for epoch in epochs:
            log.begin_epoch(epoch)
            for number in range(3):
                pair.write(b"%d of %d" % (number, epoch), log=log, epoch=epoch)
    pair.leader.begin_epoch(6)
    pair.write(b"last")
    cuts = pair.run(pair.follow())
    assert [type(each) for each in cuts] == [CutLogs, CutLogs]
    assert pair.same()


def test_a_leader_that_leads_again_is_asked_too() -> None:
    """inv:P12, defect:K15: it may have lost what it had not synced."""
    pair = Pair()
    for value in (b"a", b"b", b"c"):
        pair.write(value)
    pair.run(pair.follow())
    pair.leader.truncate_to(1)
    pair.epoch = 2
    pair.leader.begin_epoch(2)
    pair.write(b"other")
    pair.write(b"records")
    pair.run(pair.follow())
    assert values_of(records_of(pair.follower)) == [b"a", b"other", b"records"]
    assert pair.same()


def test_a_log_is_not_cut_to_its_high_watermark() -> None:
    """KIP-101, defect:K16: what the leader has too stays, committed or not."""
    pair = Pair()
    pair.write(b"a")
    pair.write(b"b")
    pair.run(pair.follow())
    assert pair.follower.high_watermark == 0
    pair.epoch = 2
    pair.leader.begin_epoch(2)
    assert pair.run(pair.follow()) == []
    assert pair.follower.log_end_offset == 2


def test_a_diverging_response_changes_nothing_but_the_cut() -> None:
    """inv:P13, defect:K14: neither high watermark nor log start, nor records."""
    pair = Pair(epoch=3)
    pair.leader.truncate_to(0)
    pair.write(b"ours", b"more", log=pair.follower, epoch=2)
    pair.leader.begin_epoch(1)
    pair.write(b"theirs", b"more", epoch=1)
    pair.leader.begin_epoch(3)
    pair.leader.advance_high_watermark(2)
    asked = positions(pair.follow())[KEY]
    told = pair.told(asked)
    assert told.diverging is not None
    effects = pair.answer(told)
    assert (pair.follower.high_watermark, pair.follower.log_end_offset) == (0, 2)
    assert pair.partition.state is FollowerState.CUTTING
    assert [type(effect) for effect in effects if not isinstance(effect, SendFetch)] == [CutLogs]


def test_a_log_without_epochs_is_cut_to_its_high_watermark_first() -> None:
    """KIP-101: nothing else is known of its records."""
    pair = Pair()
    for value in (b"a", b"b"):
        pair.write(value, log=pair.follower)
    pair.follower.advance_high_watermark(1)
    pair.follower.epochs.clear()
    pair.write(b"a")
    effects = pair.follow()
    assert [effect.cuts[0].offset for effect in effects if isinstance(effect, CutLogs)] == [1]


def test_the_cuts_of_one_response_are_one_order() -> None:
    """After a change of leaders all partitions are cut together."""
    pair = Pair(epoch=2)
    store = memory_store(LossyFiles())
    logs = [log_of(store, number) for number in range(3)]
    keys = [TopicIdPartition(TOPIC_ID, number) for number in range(3)]
    for log in logs:
        pair.write(b"a", b"b", log=log, epoch=1)
    followed = tuple(FollowedPartition(key, log, leader_epoch=2) for key, log in zip(keys, logs, strict=True))
    pair.fetcher.step(PartitionsFollowed(partitions=followed))
    effects = pair.answer(*(PartitionTold(key, ErrorCode.NONE, 0, 0, OffsetAndEpoch(0, 0), None) for key in keys))
    (order,) = [effect for effect in effects if isinstance(effect, CutLogs)]
    assert [cut.partition for cut in order.cuts] == list(followed)


# --- out of range ---


def test_a_leader_whose_log_begins_later_is_followed_from_there() -> None:
    """KIP-107: what the follower has is older than all that the leader kept."""
    pair = Pair()
    for _ in range(3):
        pair.write(b"x")
    pair.leader.advance_high_watermark(3)
    pair.leader.advance_log_start(2)
    effects = pair.follow()
    asked = positions(effects)[KEY]
    effects = pair.answer(pair.told(asked))
    assert [effect.partition for effect in effects if isinstance(effect, AskEnds)] == [pair.partition]
    effects = pair.fetcher.step(EndsTold(partition=pair.partition, ends=(2, 3), now_ms=1))
    (order,) = [effect for effect in effects if isinstance(effect, CutLogs)]
    assert (order.cuts[0].offset, order.cuts[0].starts_over) == (2, True)
    pair.answer()
    pair.run(pair.cut(order))
    assert (pair.follower.log_start_offset, pair.follower.log_end_offset) == (2, 3)


def test_a_leader_whose_log_is_shorter_is_followed_back_to_its_end() -> None:
    """Kafka behaviour (fetchOffsetAndTruncate): after an unclean election."""
    pair = Pair()
    for value in (b"a", b"b", b"c"):
        pair.write(value)
    pair.run(pair.follow())
    pair.answer(PartitionTold(KEY, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, None, None))
    effects = pair.fetcher.step(EndsTold(partition=pair.partition, ends=(0, 1), now_ms=1))
    (order,) = [effect for effect in effects if isinstance(effect, CutLogs)]
    assert (order.cuts[0].offset, order.cuts[0].starts_over) == (1, False)


def test_ends_that_explain_nothing_are_asked_for_again_after_the_backoff() -> None:
    """No partition keeps two brokers busy."""
    pair = Pair()
    pair.write(b"a")
    pair.run(pair.follow())
    pair.answer(PartitionTold(KEY, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, None, None))
    pair.fetcher.step(EndsTold(partition=pair.partition, ends=(0, 1), now_ms=5))
    assert pair.partition.state is FollowerState.RESTING
    pair.fetcher.step(EndsTold(partition=pair.partition, ends=(0, 0), now_ms=5))
    assert pair.follower.log_end_offset == 1, "nobody asked any more"


def test_a_leader_that_does_not_tell_its_ends_is_asked_again() -> None:
    pair = Pair()
    pair.follow()
    pair.answer(PartitionTold(KEY, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, None, None))
    pair.fetcher.step(EndsTold(partition=pair.partition, ends=None, now_ms=5))
    assert pair.partition.state is FollowerState.RESTING
    effects = pair.fetcher.step(TimeAdvanced(now_ms=5 + BACKOFF_MS))
    assert [effect.partition for effect in effects if isinstance(effect, AskEnds)] == [pair.partition]


# --- errors ---


def test_a_fenced_follower_waits_for_newer_metadata() -> None:
    """KIP-320, S3-104: and asks for nothing meanwhile."""
    pair = Pair()
    pair.follow()
    effects = pair.answer(PartitionTold(KEY, ErrorCode.FENCED_LEADER_EPOCH, -1, -1, None, None))
    assert pair.partition.state is FollowerState.FENCED
    assert pair.fetcher.next_deadline_ms is None
    (sent,) = [effect for effect in effects if isinstance(effect, SendFetch)]
    assert sent.plan.forgotten == [KEY]
    pair.answer()
    pair.epoch = 2
    assert positions(pair.follow()) == {KEY: Position(2, 0, -1, 0)}


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
def test_a_leader_that_does_not_know_of_its_election_yet_is_asked_again_soon(error: ErrorCode) -> None:
    """After 20 ms, then 40, and so on up to `replica.fetch.backoff.ms`."""
    pair = Pair()
    pair.follow()
    rests = []
    for _ in range(8):
        pair.answer(PartitionTold(KEY, error, -1, -1, None, None))
        due = pair.fetcher.next_deadline_ms
        assert due is not None
        rests.append(due - pair.now_ms)
        pair.now_ms = due
        pair.fetcher.step(TimeAdvanced(now_ms=due))
        pair.answer()
    assert rests == [20, 40, 80, 160, 320, 640, 1000, 1000]


@pytest.mark.parametrize(
    "error", [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.CORRUPT_MESSAGE, ErrorCode.INCONSISTENT_TOPIC_ID]
)
def test_other_errors_rest_for_the_backoff_while_other_partitions_go_on(error: ErrorCode) -> None:
    """`replica.fetch.backoff.ms`."""
    pair = Pair()
    other = FollowedPartition(OTHER, log_of(memory_store(LossyFiles()), 1), leader_epoch=1)
    pair.follow()
    pair.fetcher.step(PartitionsFollowed(partitions=(other,)))
    effects = pair.answer(PartitionTold(KEY, error, -1, -1, None, None))
    assert positions(effects) == {OTHER: Position(1, 0, -1, 0)}
    assert pair.fetcher.next_deadline_ms == pair.now_ms + BACKOFF_MS
    pair.answer()
    assert pair.fetcher.step(TimeAdvanced(now_ms=pair.now_ms + BACKOFF_MS - 1)) == []
    pair.fetcher.step(TimeAdvanced(now_ms=pair.now_ms + BACKOFF_MS))
    assert positions(pair.answer()) == {KEY: Position(1, 0, -1, 0)}


def test_a_leader_that_is_not_reached_is_asked_again_after_the_backoff() -> None:
    """B-R28: with all partitions in one request."""
    pair = Pair()
    pair.follow()
    assert pair.fetcher.step(FetchFailed(now_ms=10)) == []
    assert pair.fetcher.next_deadline_ms == 10 + BACKOFF_MS
    assert pair.fetcher.step(TimeAdvanced(now_ms=9 + BACKOFF_MS)) == []
    assert positions(pair.fetcher.step(TimeAdvanced(now_ms=10 + BACKOFF_MS))) == {KEY: Position(1, 0, -1, 0)}


@pytest.mark.parametrize(
    ("error", "waits"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, False),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
def test_a_session_that_is_gone_is_begun_again(error: ErrorCode, *, waits: bool) -> None:
    """KIP-227."""
    pair = Pair()
    pair.follow()
    effects = pair.answer(error=error)
    assert (pair.fetcher.next_deadline_ms is not None) is waits
    assert waits or positions(effects) == {KEY: Position(1, 0, -1, 0)}


def test_a_disk_that_fails_ends_the_following_of_its_log() -> None:
    """B-K08: whoever hears of it takes the directory offline."""
    pair = Pair()
    pair.write(b"a")
    told = pair.told(positions(pair.follow())[KEY])
    fault = StorageFault("no", directory="/data")
    pair.partition.log = _Failing(fault)  # type: ignore[assignment] # the port's one method
    effects = pair.answer(told)
    assert [effect for effect in effects if isinstance(effect, LogFailed)] == [LogFailed(fault=fault)]
    assert pair.fetcher.partitions == {}


class _Failing:
    """A log whose disk refuses."""

    def __init__(self, fault: StorageFault) -> None:
        self._fault = fault

    def append_as_follower(self, *_: object, **__: object) -> None:
        """As the port's."""
        raise self._fault


# --- syncs ---


def synced_pair() -> tuple[Pair, list[FollowerEffect]]:
    """A pair whose follower has appended a record that must be synced before it is acknowledged."""
    pair = Pair()
    pair.follower.update_config(replace(SMALL, flush_messages=1))
    pair.write(b"a")
    return pair, pair.answer(pair.told(positions(pair.follow())[KEY]))


def test_what_must_be_synced_is_acknowledged_by_no_fetch_before() -> None:
    """`flush.messages`: a fetch acknowledges all below its offset, so it waits for the sync."""
    pair, effects = synced_pair()
    assert effects == [SyncLog(partition=pair.partition)]
    sync(pair.follower)
    assert positions(pair.fetcher.step(LogSynced(key=KEY))) == {KEY: Position(1, 1, 1, 0)}
    assert pair.fetcher.step(LogSynced(key=KEY)) == []


def test_a_new_epoch_acknowledges_no_more_than_is_synced() -> None:
    """`flush.messages`: the first fetch to the next leader waits for the sync, too."""
    pair, _ = synced_pair()
    pair.epoch = 2
    assert pair.follow() == [SyncLog(partition=pair.partition)]
    sync(pair.follower)
    assert positions(pair.fetcher.step(LogSynced(key=KEY))) == {KEY: Position(2, 1, 1, 0)}


def test_a_sync_of_a_partition_that_was_left_holds_nobody_up() -> None:
    """The other partitions go on."""
    pair, _ = synced_pair()
    other = FollowedPartition(OTHER, log_of(memory_store(LossyFiles()), 1), leader_epoch=1)
    assert pair.fetcher.step(PartitionsFollowed(partitions=(other,))) == []
    effects = pair.fetcher.step(PartitionsLeft(keys=(KEY,)))
    assert positions(effects) == {OTHER: Position(1, 0, -1, 0)}


# --- what overtakes what ---


def test_a_response_of_an_older_epoch_is_dropped() -> None:
    """inv:P13, defect:K12: the leader changed, or leads anew, while the request was under way."""
    pair = Pair()
    pair.write(b"a")
    told = pair.told(positions(pair.follow())[KEY])
    pair.epoch = 2
    assert pair.follow() == []
    effects = pair.answer(told)
    assert pair.follower.log_end_offset == 0
    assert positions(effects) == {KEY: Position(2, 0, -1, 0)}


def test_the_same_epoch_told_again_changes_nothing() -> None:
    """An ISR that grows is no reason to begin anew."""
    pair = Pair()
    pair.write(b"a")
    effects = pair.follow()
    before = pair.partition
    assert pair.follow() == []
    assert pair.fetcher.partitions[KEY] is before
    assert pair.run(effects) == []


@pytest.mark.parametrize("leaves", [True, False])
def test_what_comes_after_a_partition_was_left_is_dropped(*, leaves: bool) -> None:
    """A replica that leads, or is gone, takes nothing from whoever led before."""
    pair = Pair()
    pair.write(b"a")
    told = pair.told(positions(pair.follow())[KEY])
    if leaves:
        assert pair.fetcher.step(PartitionsLeft(keys=(KEY,))) == []
    pair.answer(told)
    assert pair.follower.log_end_offset == (0 if leaves else 1)
    pair.answer()
    assert pair.fetcher.is_idle is leaves


def test_a_log_that_is_being_cut_is_neither_fetched_nor_written() -> None:
    """The cut is a job of the disk; until it is done the partition waits."""
    pair = Pair(epoch=2)
    pair.write(b"x", b"y", log=pair.follower, epoch=1)
    told = pair.told(positions(pair.follow())[KEY]._replace(last_fetched_epoch=-1, fetch_offset=0))
    effects = pair.answer(PartitionTold(KEY, ErrorCode.NONE, 0, 0, OffsetAndEpoch(0, 0), None))
    (order,) = [effect for effect in effects if isinstance(effect, CutLogs)]
    pair.answer(told)
    assert pair.follower.log_end_offset == 2
    pair.cut(order)
    assert pair.partition.state is FollowerState.FETCHING


def test_a_cut_that_changed_nothing_is_not_repeated_at_once() -> None:
    """A leader that says again and again that histories part keeps nobody busy (PR8)."""
    pair = Pair()
    pair.write(b"a")
    pair.run(pair.follow())
    effects = pair.answer(PartitionTold(KEY, ErrorCode.NONE, 0, 0, OffsetAndEpoch(5, 1), None))
    (order,) = [effect for effect in effects if isinstance(effect, CutLogs)]
    pair.cut(order)
    assert pair.partition.state is FollowerState.RESTING
