"""A partition log beside its slow and plain twin: a list of records, and rules applied by looking at all of it."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.core.error_code import ErrorCode
from headrace.core.offsets import OffsetAndEpoch
from headrace.log.config import LogConfig
from headrace.log.ports import Appended, AppendRefused, OutOfRange
from headrace.records.record import NewRecord, ProducerStamp, Record, build_batch, read_all_records
from headrace.records.walk import finish
from headrace.sim.disk import LossyFiles
from headrace.storage.stored_log import StoredLog
from tests.support.stores import NOW_MS, PARTITION, TOPIC_ID, memory_store, records_of, sync

CONFIG = LogConfig(segment_bytes=500, index_interval_bytes=80, retention_ms=-1)
MAX_SEQUENCE = 2**31 - 1


class Batch:
    """What the twin keeps of a batch."""

    def __init__(self, first: int, records: list[NewRecord], epoch: int, stamp: ProducerStamp) -> None:
        self.first = first
        self.records = records
        self.epoch = epoch
        self.stamp = stamp

    @property
    def last(self) -> int:
        """Offset of the last record."""
        return self.first + len(self.records) - 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record."""
        return (self.stamp.base_sequence + len(self.records) - 1) % (MAX_SEQUENCE + 1)


class LogAndTwin(RuleBasedStateMachine):
    """inv:E1 inv:E2 inv:E3 inv:P11 inv:P12 inv:P16 inv:P18 inv:D7, B-P10: every answer is the twin's."""

    def __init__(self) -> None:
        super().__init__()
        self.files = LossyFiles()
        self.batches: list[Batch] = []
        self.end = 0
        self.start = 0
        self.epoch = 0
        self.epochs: list[OffsetAndEpoch] = []
        self.remembered: dict[int, list[Batch]] = {}
        self._open()

    def _open(self) -> None:
        self.store = memory_store(self.files, CONFIG)
        self.log: StoredLog = self.store.create(PARTITION, topic_id=TOPIC_ID, config=CONFIG)

    # -- rules -------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 4), codec=st.integers(0, 4), time=st.integers(0, 1000), size=st.integers(0, 40))
    def append(self, count: int, codec: int, time: int, size: int) -> None:
        """A plain client's batch."""
        self._append(count, codec, time, size, ProducerStamp())

    @rule(producer=st.integers(1, 2), count=st.integers(1, 3), wraps=st.booleans())
    def append_next(self, producer: int, count: int, wraps: bool) -> None:
        """The next batch of an idempotent producer."""
        known = self.remembered.get(producer)
        if known:
            stamp = ProducerStamp(
                producer, known[-1].stamp.producer_epoch, (known[-1].last_sequence + 1) % (MAX_SEQUENCE + 1)
            )
        else:
            stamp = ProducerStamp(producer, 0, MAX_SEQUENCE - 2 if wraps else 0)
        self._append(count, 0, 5, 5, stamp)

    @rule(producer=st.integers(1, 2), back=st.integers(0, 6))
    def append_again(self, producer: int, back: int) -> None:
        """An earlier batch of a producer, sent again."""
        mine = [batch for batch in self.batches if batch.stamp.producer_id == producer]
        if back < len(mine):
            old = mine[-1 - back]
            is_recalled = self._may_be_recalled(old)
            done = self._send(old.records, 0, old.stamp)
            if is_recalled:
                self._relearn()
                assert old in self.remembered[producer]
            known = self.remembered.get(producer, [])
            if not known or known[-1].stamp.producer_epoch != old.stamp.producer_epoch:
                assert isinstance(done, AppendRefused)
                assert done.error in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
            elif old in known:
                assert isinstance(done, Appended)
                assert (done.is_duplicate, done.first_offset, done.last_offset) == (True, old.first, old.last)
            else:
                assert isinstance(done, AppendRefused)
                assert done.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(producer=st.integers(1, 2), gap=st.integers(1, 9))
    def append_gap(self, producer: int, gap: int) -> None:
        """A batch that skips sequences."""
        known = self.remembered.get(producer)
        if known:
            sequence = (known[-1].last_sequence + 1 + gap) % (MAX_SEQUENCE + 1)
            if any(batch.stamp.base_sequence == sequence and len(batch.records) == 1 for batch in known):
                return
            stamp = ProducerStamp(producer, known[-1].stamp.producer_epoch, sequence)
            done = self._send([NewRecord(b"k", b"v", NOW_MS)], 0, stamp)
            assert isinstance(done, AppendRefused)
            assert done.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    @rule(producer=st.integers(1, 2))
    def new_epoch(self, producer: int) -> None:
        """A producer begins anew: older epochs are fenced."""
        known = self.remembered.get(producer)
        if known and known[-1].stamp.producer_epoch < 100:
            epoch = known[-1].stamp.producer_epoch + 1
            self._append(1, 0, 5, 5, ProducerStamp(producer, epoch, 0))
            fenced = self._send([NewRecord(b"k", b"v", NOW_MS)], 0, ProducerStamp(producer, epoch - 1, 0))
            assert isinstance(fenced, AppendRefused)
            assert fenced.error is ErrorCode.INVALID_PRODUCER_EPOCH

    @rule()
    def new_leader(self) -> None:
        """Another leader epoch."""
        self.epoch += 1

    @rule(back=st.integers(0, 30))
    def cut(self, back: int) -> None:
        """A follower truncates."""
        wanted = max(self.end - back, self.start)
        self.log.truncate_to(wanted)
        kept = [batch for batch in self.batches if batch.last < wanted]
        if wanted < self.end:
            base = self.log.segments[0].base_offset
            self.end = kept[-1].last + 1 if kept else base
            self.batches = kept
            self.start = min(self.start, self.end)
            self.remembered = remembered(kept)
            self._relearn()
        self.epochs = [entry for entry in self.epochs if entry.offset < max(self.end, 1) and entry.offset < self.end]

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        """DeleteRecords and the segments it frees."""
        self.log.advance_high_watermark(self.end)
        target = self.start + int((self.end - self.start) * share)
        if self.log.advance_log_start(target):
            self.start = target
            self.log.delete_old_segments(NOW_MS)

    @rule()
    def flush(self) -> None:
        """Sync, and write the checkpoints."""
        sync(self.log)
        self.store.write_checkpoints()
        self.store.maintain(NOW_MS)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        """Stop and start; an unclean stop loses nothing of the page cache."""
        self.store.write_checkpoints()
        self.store.close(clean=clean)
        self._open()
        mine = {batch.stamp.producer_id for batch in self.batches}
        self.remembered = {
            producer: [known[-1]] for producer, known in self.remembered.items() if known and producer in mine
        }
        self._relearn()

    # -- helpers -----------------------------------------------------------------------------------------------

    def _may_be_recalled(self, old: Batch) -> bool:
        """Whether it is one of the producer's last five, known from a snapshot, which tells the last one only: the log looks for those before it when one is sent again."""
        entry = self.log.producers.get(old.stamp.producer_id)
        is_among_the_last = old in remembered(self.batches)[old.stamp.producer_id]
        return entry is not None and entry.is_shortened and is_among_the_last and old.first >= self.start

    def _relearn(self) -> None:
        """After a start the log may know more than the last batch: take over how many, after checking which."""
        for producer in list(self.remembered):
            entry = self.log.producers.get(producer)
            if entry is None:  # all its batches lie in segments that were deleted
                first = self.log.segments[0].base_offset
                assert all(batch.last < first for batch in self.remembered.pop(producer))
                continue
            mine = [batch for batch in self.batches if batch.stamp.producer_id == producer]
            known = [(b.first_sequence, b.last_sequence, b.first_offset, b.last_offset) for b in entry.batches]
            twin = [(b.stamp.base_sequence, b.last_sequence, b.first, b.last) for b in mine][-len(known) :]
            assert known == twin
            self.remembered[producer] = mine[-len(known) :]
        for producer in (1, 2):
            entry = self.log.producers.get(producer)
            if entry is not None and producer not in self.remembered:
                assert entry.last_offset < self.start

    def _send(self, records: list[NewRecord], codec: int, stamp: ProducerStamp) -> Appended | AppendRefused:
        data = memoryview(build_batch(records, codec=codec, producer=stamp))
        return self.log.append_as_leader(data, leader_epoch=self.epoch, now_ms=NOW_MS)

    def _append(self, count: int, codec: int, time: int, size: int, stamp: ProducerStamp) -> None:
        records = [
            NewRecord(b"k%d" % n, b"%d " % (self.end + n) + bytes(size), NOW_MS + time - n) for n in range(count)
        ]
        done = self._send(records, codec, stamp)
        assert isinstance(done, Appended), done
        assert (done.first_offset, done.last_offset, done.is_duplicate) == (self.end, self.end + count - 1, False)
        batch = Batch(self.end, records, self.epoch, stamp)
        self.batches.append(batch)
        if not self.epochs or self.epochs[-1].epoch != self.epoch:
            self.epochs.append(OffsetAndEpoch(self.end, self.epoch))
        self.end += count
        if stamp.producer_id >= 0:
            known = self.remembered.setdefault(stamp.producer_id, [])
            if known and known[-1].stamp.producer_epoch != stamp.producer_epoch:
                known.clear()
            known.append(batch)
            del known[:-5]

    def _visible(self) -> list[Record]:
        return [
            Record(batch.first + n, r.timestamp, r.key, r.value)
            for batch in self.batches
            for n, r in enumerate(batch.records)
            if batch.first + n >= self.start
        ]

    # -- what must be equal ------------------------------------------------------------------------------------

    @invariant()
    def same_records(self) -> None:
        """Every record from the log's start on, and nothing else."""
        assert (self.log.log_start_offset, self.log.log_end_offset) == (self.start, self.end)
        found = [record._replace(sequence=-1) for record in records_of(self.log)]
        assert found == self._visible()

    @invariant()
    def same_epochs(self) -> None:
        """The epoch table, and what it answers."""
        for batch in self.batches:
            if batch.last >= self.start:
                assert self.log.epoch_at(max(batch.first, self.start)) == batch.epoch
        entries = self.log.epochs.entries()
        assert [e.epoch for e in entries] == sorted({e.epoch for e in entries})
        for epoch in range(self.epoch + 2):
            above = [entry for entry in entries if entry.epoch > epoch]
            known = [entry.epoch for entry in entries if entry.epoch <= epoch]
            answer = self.log.end_offset_for_epoch(epoch)
            if not entries or epoch > entries[-1].epoch:
                assert answer is None
            else:
                end = above[0].offset if above else self.end
                assert answer == OffsetAndEpoch(end, known[-1] if known else epoch)

    @invariant()
    def same_times(self) -> None:
        """Lookups by time, against a look at every record."""
        visible = self._visible()
        for timestamp in (NOW_MS, NOW_MS + 500, NOW_MS + 1000):
            first = next((r for r in visible if r.timestamp >= timestamp), None)
            found = finish(self.log.offset_for_timestamp(timestamp))
            if first is None:
                assert found is None
            else:
                assert found is not None
                assert (found.timestamp, found.offset) == (first.timestamp, first.offset)

    @precondition(lambda self: self.end > self.start)
    @invariant()
    def any_fetch_begins_with_the_batch_that_holds_the_offset(self) -> None:
        """From every offset, with any limit."""
        firsts = [batch.first for batch in self.batches]
        for offset in {self.start, (self.start + self.end) // 2, self.end - 1}:
            data = self.log.read_bytes(offset, 1, upper_offset=self.end, min_one_batch=True)
            assert not isinstance(data, OutOfRange)
            header = next(iter(read_all_records(data)))[0]
            assert header.base_offset == firsts[bisect_right(firsts, offset) - 1]
        assert isinstance(self.log.read_slice(self.end + 1, 1, upper_offset=self.end, min_one_batch=True), OutOfRange)


def remembered(batches: list[Batch]) -> dict[int, list[Batch]]:
    """The last five batches of each producer in its last epoch: what the log's batches say."""
    known: dict[int, list[Batch]] = {}
    for batch in batches:
        if batch.stamp.producer_id >= 0:
            mine = known.setdefault(batch.stamp.producer_id, [])
            if mine and mine[-1].stamp.producer_epoch != batch.stamp.producer_epoch:
                mine.clear()
            mine.append(batch)
            del mine[:-5]
    return known


TestLogAndTwin = LogAndTwin.TestCase
TestLogAndTwin.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
