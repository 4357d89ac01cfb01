"""Brokers that lead by turns while they do not see each other: whoever follows then ends with the leader's log, and loses nothing that both had."""

from __future__ import annotations

import random

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.ids import TopicIdPartition, TopicPartition
from headrace.log.ports import FileSlice, OutOfRange
from headrace.replication.fetch_plan import Position
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.follower_events import (
    AskEnds,
    CutLogs,
    EndsTold,
    Fetched,
    FollowedPartition,
    FollowerEffect,
    LogsCut,
    PartitionsFollowed,
    PartitionTold,
    SendFetch,
)
from headrace.sim.disk import LossyFiles
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, SMALL, TOPIC_ID, append, batch, memory_store, records_of

KEY = TopicIdPartition(TOPIC_ID, 0)
SEEDS = range(60)
TURNS = 400


def new_log() -> StoredLog:
    """An empty log on a disk of its own."""
    return memory_store(LossyFiles()).create(TopicPartition("topic", 0), topic_id=TOPIC_ID, config=SMALL)


def history(log: StoredLog) -> list[tuple[int, int | None, bytes | None]]:
    """Offset, epoch and value of each record."""
    return [(record.offset, log.epoch_at(record.offset), record.value) for record in records_of(log)]


def common_length(one: StoredLog, other: StoredLog) -> int:
    """How many records both begin with: the plain meaning of where histories part."""
    pairs = zip(history(one), history(other), strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(history(one)), len(history(other))))


def told(leader: StoredLog, position: Position, chance: random.Random) -> PartitionTold:
    """What a leader says of a fetch; in responses of any size."""
    if position.last_fetched_epoch >= 0:
        end = leader.end_offset_for_epoch(position.last_fetched_epoch)
        assert end is not None, "a leader's epoch is above all that were before"
        if end.epoch < position.last_fetched_epoch or end.offset < position.fetch_offset:
            return PartitionTold(KEY, ErrorCode.NONE, leader.high_watermark, 0, end, None)
    size = chance.choice((1, 200, 5_000))
    data = leader.read_slice(position.fetch_offset, size, upper_offset=leader.log_end_offset, min_one_batch=True)
    if isinstance(data, OutOfRange):
        return PartitionTold(KEY, ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, None, None)
    assert isinstance(data, FileSlice)
    return PartitionTold(KEY, ErrorCode.NONE, leader.high_watermark, 0, None, memoryview(data.read()))


class Follower:
    """A log that follows another for some turns, or until it has all."""

    def __init__(self, log: StoredLog, leader: StoredLog, epoch: int, chance: random.Random) -> None:
        self.log = log
        self._leader = leader
        self._chance = chance
        self._fetcher = ReplicaFetcher(backoff_ms=0)
        self._partition = FollowedPartition(KEY, log, leader_epoch=epoch)
        self._asked: Position | None = None
        self.lowest_end = log.log_end_offset

    def run(self, turns: int) -> None:
        """So many fetches at most."""
        effects = self._fetcher.step(PartitionsFollowed(partitions=(self._partition,)))
        for _ in range(turns):
            if not self._do(effects) and history(self.log) == history(self._leader):
                return
            known = self._asked
            news = [told(self._leader, known, self._chance)] if known is not None else []
            effects = self._fetcher.step(
                Fetched(session_id=7, error=ErrorCode.NONE, told=news, now_ms=0, wall_ms=NOW_MS)
            )

    def _do(self, effects: list[FollowerEffect]) -> bool:
        """Do what was ordered; whether anything but a fetch was."""
        others = False
        for effect in effects:
            if isinstance(effect, SendFetch):
                self._asked = dict(effect.plan.asks).get(KEY, None if KEY in effect.plan.forgotten else self._asked)
            elif isinstance(effect, CutLogs):
                others = True
                (cut,) = effect.cuts
                self.log.truncate_to(cut.offset)
                self.lowest_end = min(self.lowest_end, self.log.log_end_offset)
                self._fetcher.step(LogsCut(cuts=effect.cuts, now_ms=0))
            elif isinstance(effect, AskEnds):
                others = True
                ends = (0, self._leader.log_end_offset)
                self._fetcher.step(EndsTold(partition=self._partition, ends=ends, now_ms=0))
        return others


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_follows_ends_with_the_leaders_log_and_cuts_no_more_than_it_must(seed: int) -> None:
    """inv:P12 inv:P4 KIP-101 KIP-279 KIP-595: epoch after epoch one of three leads, writes, and is followed for a while by some of the others, or by nobody."""
    chance = random.Random(seed)
    logs = [new_log() for _ in range(3)]
    for epoch in range(1, chance.randrange(4, 14)):
        leader = chance.choice(logs)
        leader.begin_epoch(epoch)
        for number in range(chance.choice((0, 0, 1, 3, 10))):
            append(leader, batch(b"%d of %d" % (number, epoch)), leader_epoch=epoch)
        for log in logs:
            if log is not leader and chance.random() < 0.5:
                Follower(log, leader, epoch, chance).run(chance.choice((1, 2, 4, TURNS)))
    leader = chance.choice(logs)
    leader.begin_epoch(100)
    append(leader, batch(b"last"), leader_epoch=100)
    for log in logs:
        if log is not leader:
            shared = common_length(log, leader)
            follower = Follower(log, leader, 100, chance)
            follower.run(TURNS)
            assert history(log) == history(leader)
            assert follower.lowest_end >= shared
            assert log.epochs.entries() == [
                each for each in leader.epochs.entries() if each.offset < log.log_end_offset
            ]
