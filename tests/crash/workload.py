"""What does a node do to its disk, and what must be found there after a crash at any moment of it?

A `Workload` runs the real storage code over a `LossyFiles`, step by step by chance, and keeps the ghost: every batch that was
appended, cut and made durable, with the number of disk calls before and after. `Workload.expected(count)` is what a disk that crashed
behind the first `count` calls may show.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from headrace.core.ids import TopicPartition, Uuid
from headrace.log.config import LogConfig
from headrace.log.ports import Appended, LogCut, Origin
from headrace.records.batch import set_offset_and_epoch
from headrace.records.record import NewRecord, Placement, ProducerStamp, build_batch
from headrace.sim.disk import LossyFiles
from headrace.storage.log_store import LogStore
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.stored_log import StoredLog
from tests.support.stores import maintain

DIRECTORY = "/data"
PLAIN = TopicPartition("plain", 0)
COMPACTED = TopicPartition("compacted", 1)
METADATA = TopicPartition("__cluster_metadata", 0)
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=100, retention_ms=-1, file_delete_delay_ms=5)
CONFIGS = {
    "plain": CONFIG,
    "compacted": replace(
        CONFIG, cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, delete_retention_ms=50
    ),
    "__cluster_metadata": CONFIG,
}
START_MS = 1_700_000_000_000


class Event(NamedTuple):
    """Something that happened to a log between two numbers of disk calls; `value` is an offset, `data` a batch."""

    kind: str
    before: int
    after: int
    value: int = 0
    data: bytes = b""


@dataclass
class Ghost:
    """The true history of one log."""

    events: list[Event] = field(default_factory=list)

    def expected(self, count: int) -> Expected:
        """What may be found of the log behind the first `count` disk calls."""
        batches: list[tuple[int, bytes]] = []
        old: list[tuple[int, bytes]] = []
        durable = start = durable_start = reset = 0
        for event in self.events:
            if event.before > count:
                break
            is_over = event.after <= count
            if event.kind == "append":
                batches.append((event.value, event.data))
            elif event.kind == "durable" and is_over:
                durable = max(durable, event.value)
            elif event.kind == "cut":
                old = [] if is_over else batches
                batches = [each for each in batches if each[0] < event.value]
                durable = min(durable, event.value)
                durable_start = min(durable_start, event.value)
            elif event.kind == "restart":
                old = [] if is_over else batches
                batches = []
                durable = 0
                if is_over:
                    start = durable_start = durable = reset = event.value
            elif event.kind == "start":
                start = max(start, event.value)
            elif event.kind == "checkpoint" and is_over:
                durable_start = event.value
        return Expected(batches, old, durable, start, min(durable_start, start), reset)


@dataclass
class Expected:
    """Batches by base offset (of the log, and of the one before an unfinished cut), and bounds of end and start."""

    batches: list[tuple[int, bytes]]
    before_cut: list[tuple[int, bytes]]
    durable_end: int
    log_start: int
    durable_start: int
    reset_at: int


class Workload:
    """A node's life by chance: `run` does `steps` things. `refusals` are answers that contradict the rules."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = LossyFiles()
        self.files.mkdir(DIRECTORY)
        self.files.fsync_dir("/")
        self.now_ms = START_MS
        self.ghosts = {PLAIN: Ghost(), COMPACTED: Ghost(), METADATA: Ghost()}
        self.refusals: list[str] = []
        self.epoch = 0
        self.sequences: dict[tuple[TopicPartition, int], list[tuple[int, int, bytes]]] = {}
        self._known_at_start: dict[int, int] = {}
        self._started()
        self.metadata = self._open_metadata()

    # -- life --------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Do things by chance."""
        choices: list[tuple[int, Callable[[], None]]] = [
            (34, lambda: self.append(PLAIN)),
            (22, lambda: self.append(COMPACTED)),
            (12, self.append_metadata),
            (10, lambda: self.flush(self.log(PLAIN))),
            (6, lambda: self.flush(self.log(COMPACTED))),
            (6, self.checkpoint),
            (4, self.cut),
            (3, self.trim),
            (5, self.compact),
            (3, self.resend),
            (2, self.stop_well),
            (2, self.cut_metadata),
            (2, self.trim_metadata),
        ]
        actions = [action for weight, action in choices for _ in range(weight)]
        for _ in range(steps):
            self.now_ms += 10
            self.chance.choice(actions)()

    def log(self, partition: TopicPartition) -> StoredLog:
        """An open log."""
        log = self.store.get(partition)
        assert log is not None
        return log

    def _started(self) -> None:
        self.store = open_store(self.files, self.now_ms)
        for partition in (PLAIN, COMPACTED):
            self.store.create(partition, topic_id=Uuid(b"0123456789abcdef"), config=CONFIGS[partition.topic])

    def _open_metadata(self) -> StoredLog:
        return open_metadata_log(StoredLog, self.files, DIRECTORY, CONFIG, LoadHints(now_ms=self.now_ms))

    def _note(self, partition: TopicPartition, kind: str, before: int, value: int, data: bytes = b"") -> None:
        self.ghosts[partition].events.append(Event(kind, before, len(self.files.ops), value, data))

    # -- steps -------------------------------------------------------------------------------------------------

    def append(self, partition: TopicPartition) -> None:
        """One batch; half of them of an idempotent producer."""
        chance, log = self.chance, self.log(partition)
        if chance.random() < 0.1:
            self.epoch += 1
        producer_id = chance.choice((-1, -1, 5, 6))
        known = self.sequences.setdefault((partition, producer_id), [])
        first = log.log_end_offset
        size = chance.randrange(1, 4)
        stamp = ProducerStamp(producer_id, 0, known[-1][0] + known[-1][1] if known else 0)
        records = [
            NewRecord(
                b"k%d" % chance.randrange(6),
                None if chance.random() < 0.15 else b"%d" % (first + index) + b"x" * chance.randrange(60),
                self.now_ms,
            )
            for index in range(size)
        ]
        data = build_batch(records, producer=stamp if producer_id >= 0 else ProducerStamp())
        sent = bytes(data)
        before = len(self.files.ops)
        done = log.append_as_leader(memoryview(data), leader_epoch=self.epoch, now_ms=self.now_ms)
        if not isinstance(done, Appended) or done.is_duplicate:
            self.refusals.append(f"inv:E1: {partition} refused the next batch of producer {producer_id}: {done}")
            return
        set_offset_and_epoch(data, 0, done.first_offset, self.epoch)  # a batch that is opened first is a copy
        self._note(partition, "append", before, done.first_offset, bytes(data))
        log.advance_high_watermark(log.log_end_offset)
        if producer_id >= 0:
            known.append((stamp.base_sequence, size, sent))

    def resend(self) -> None:
        """One of a producer's last five batches again: answered, not appended (E2)."""
        log = self.log(PLAIN)
        for producer_id in (5, 6):
            known = self.sequences.get((PLAIN, producer_id), [])
            entry = log.producers.get(producer_id)
            in_memory = min(len(known), len(entry.batches) if entry else 0, 5)
            remembered = max(in_memory, min(len(known), self._appended_since_start(producer_id), 5))
            if remembered:
                sent = known[-1 - self.chance.randrange(remembered)][2]
                done = log.append_as_leader(memoryview(bytearray(sent)), leader_epoch=self.epoch, now_ms=self.now_ms)
                if not isinstance(done, Appended) or not done.is_duplicate:
                    self.refusals.append(
                        f"inv:E2: a repeated batch of producer {producer_id} was not recognised: {done}"
                    )

    def _appended_since_start(self, producer_id: int) -> int:
        return len(self.sequences.get((PLAIN, producer_id), ())) - self._known_at_start.get(producer_id, 0)

    def append_metadata(self) -> None:
        """One batch of the quorum's leader, synced at once."""
        log = self.metadata
        first = log.log_end_offset
        records = [
            NewRecord(None, b"m%d" % (first + index) * 5, self.now_ms) for index in range(self.chance.randrange(1, 5))
        ]
        data = build_batch(records, placement=Placement(base_offset=first, leader_epoch=self.epoch))
        before = len(self.files.ops)
        done = log.append_as_leader(
            memoryview(data), leader_epoch=self.epoch, now_ms=self.now_ms, origin=Origin.RAFT_LEADER
        )
        assert isinstance(done, Appended)
        self._note(METADATA, "append", before, first, bytes(data))
        if self.chance.random() < 0.7:
            self.flush(log)

    def flush(self, log: StoredLog) -> None:
        """A flush job, run to its end."""
        job = log.prepare_flush()
        if job is not None:
            before = len(self.files.ops)
            job.run()
            log.flushed(job.upto)
            self._note(log.topic_partition, "durable", before, log.durable_end_offset)

    def checkpoint(self) -> None:
        """The periodic checkpoints and delayed removals."""
        before = len(self.files.ops)
        self.store.write_checkpoints()
        for partition in (PLAIN, COMPACTED):
            self._note(partition, "checkpoint", before, self.log(partition).log_start_offset)
        maintain(self.store, self.now_ms)

    def cut(self) -> None:
        """A follower truncates, near the end or far back."""
        log = self.log(PLAIN)
        low = log.log_start_offset
        if log.log_end_offset - low < 2:
            return
        back = self.chance.choice((2, 5, 40))
        wanted = max(low, log.log_end_offset - self.chance.randrange(1, back + 1))
        before = len(self.files.ops)
        if self.chance.random() < 0.5:
            log.truncate_to(wanted)
        else:
            self._cut_together([LogCut(PLAIN, wanted)])
        self.epoch += 1
        self._note(PLAIN, "cut", before, log.log_end_offset)
        for producer_id in (5, 6):
            kept = self.sequences.get((PLAIN, producer_id), [])
            entry = log.producers.get(producer_id)
            last = entry.last_sequence if entry else -1
            self.sequences[(PLAIN, producer_id)] = [each for each in kept if each[0] + each[1] - 1 <= last]
        self._remember_start()

    def _cut_together(self, cuts: Sequence[LogCut]) -> None:
        """As one job; the periodic checkpoints may come in between, and a flush that began before may end in it."""
        for job in self.store.cut(cuts):
            job.look_up()
            self._maybe_checkpoint()
            job.lower()
            self._maybe_checkpoint()
            job.run()
            self._maybe_checkpoint()
            job.finish()

    def _maybe_checkpoint(self) -> None:
        if self.chance.random() < 0.3:
            self.store.write_checkpoints()

    def _remember_start(self) -> None:
        self._known_at_start = {p: len(self.sequences.get((PLAIN, p), ())) for p in (5, 6)}

    def trim(self) -> None:
        """DeleteRecords and the segments it frees."""
        log = self.log(PLAIN)
        offset = self.chance.randrange(log.log_start_offset, log.high_watermark + 1)
        before = len(self.files.ops)
        if log.advance_log_start(offset):
            self._note(PLAIN, "start", before, offset)
            log.delete_old_segments(self.now_ms)

    def compact(self) -> None:
        """One pass of the cleaner."""
        job = self.store.next_compaction(self.now_ms)
        if job is not None:
            job.run()
            job.finish(self.now_ms)

    def stop_well(self) -> None:
        """A clean stop and a start."""
        before = len(self.files.ops)
        self.store.close(clean=True, broker_epoch=3)
        for partition in (PLAIN, COMPACTED):
            log_end = max(
                (value + count_of(data) for value, data in self.ghosts[partition].expected(1 << 60).batches), default=0
            )
            self._note(partition, "durable", before, log_end)
        self._started()
        self._remember_start()
        for partition in (PLAIN, COMPACTED):
            self.log(partition).advance_high_watermark(1 << 60)

    def cut_metadata(self) -> None:
        """A quorum follower truncates what was not committed."""
        log = self.metadata
        if log.log_end_offset - log.log_start_offset > 3:
            before = len(self.files.ops)
            log.truncate_to(log.log_end_offset - self.chance.randrange(1, 4))
            self.epoch += 1
            self._note(METADATA, "cut", before, log.log_end_offset)

    def trim_metadata(self) -> None:
        """A snapshot lets the log's beginning go, or replaces the log."""
        log = self.metadata
        before = len(self.files.ops)
        if self.chance.random() < 0.3:
            offset = log.log_end_offset + self.chance.randrange(20)
            log.truncate_fully_and_start_at(offset)
            self._note(METADATA, "restart", before, offset)
            return
        offset = (
            self.chance.randrange(log.log_start_offset, log.durable_end_offset + 1)
            if log.durable_end_offset > log.log_start_offset
            else 0
        )
        if offset:
            log.delete_segments_below(offset)
            self._note(METADATA, "start", before, offset)


def count_of(data: bytes) -> int:
    """Offsets that a batch takes."""
    return int.from_bytes(data[23:27], "big") + 1


def open_store(files: LossyFiles, now_ms: int = START_MS) -> LogStore:
    """The store as a node opens it."""
    store = LogStore(files, {DIRECTORY: Uuid(b"fedcba9876543210")})
    store.load(lambda topic: CONFIGS[topic], now_ms=now_ms)
    return store
