"""What a log's directory holds after a clean or an unclean stop. Source: D5-D8, D11, K33, K35.

After a clean stop only the end of the last segment is read. After an unclean one every batch of the segments from the recovery point
on is checked; the log is cut at the first bad one, and indexes, epoch table and producer state follow from what is left. Running it
again, or crashing in it and running it again, gives the same log. Of a log without gaps (the metadata log) what lies before the recovery
point is read too: where a batch stands and its epoch are outside of its CRC, and name its records to everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.core.errors import StorageFault
from headrace.core.ports import Files
from headrace.core.values import value_class
from headrace.log.config import LogConfig
from headrace.log.epochs import EpochTable
from headrace.log.partition_log import PartitionLog
from headrace.log.producers import ProducerStates
from headrace.records.batch import HEADER_SIZE, BatchHeader, batch_is_sound
from headrace.storage.checkpoints import read_epochs
from headrace.storage.known_logs import KnownLog
from headrace.storage.layout import (
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TXN_INDEX,
    log_directory_of,
    offset_file,
)
from headrace.storage.producer_snapshot import read_snapshot
from headrace.storage.segment_file import Segment
from headrace.storage.swapping import finish_swaps

RECOVERY_SCAN_BYTES = 1024 * 1024


WALKED_BYTES = 16 * 1024
"""A last segment of so many bytes is walked at every start: it is one read, and its indexes are two."""


class RottenLog(StorageFault):
    """A part of a log that was synced is damaged (D6): it is no torn write, so it is not cut."""


@value_class
class LoadHints:
    """What is known of a log before it is read.

    `max_unsynced_bytes` bounds what a crash can leave torn at the end of a log whose recovery point is not kept (the metadata log).
    Below `cleaned_to` compaction may have left a gap between two segments: what followed there is no torn write.
    A batch of an epoch after `latest_epoch` ends the log that has no gaps: the epoch is outside of the batch's CRC, and may be rotten.
    `known` is how the log stood when it was closed well, where its directory has not changed since.
    """

    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_to: int = 0
    is_clean: bool = False
    now_ms: int = 0
    is_contiguous: bool = False
    max_unsynced_bytes: int | None = None
    latest_epoch: int | None = None
    known: KnownLog | None = None


@dataclass(slots=True)
class Loaded:
    """A log that was read: its state, its segments in order, and what was found amiss, a line each."""

    state: PartitionLog
    segments: list[Segment]
    notes: list[str] = field(default_factory=list)
    epochs_stored: bool = False
    snapshots: list[int] = field(default_factory=list)
    rebuilt: list[Segment] = field(default_factory=list)


def load(files: Files, path: str, config: LogConfig, hints: LoadHints) -> Loaded:
    """Read the log in directory `path`. Raises StorageFault, or RottenLog for damage below the recovery point."""
    return _Loader(files, path, config, hints).load()


class _Loader:
    """One reading of one directory, step by step."""

    def __init__(self, files: Files, path: str, config: LogConfig, hints: LoadHints) -> None:
        self._files = files
        self._path = path
        self._config = config
        self._hints = hints
        self._notes: list[str] = []
        self._snapshots: list[int] = []
        self._scanned_from: int | None = None
        self._untold: set[int] = set()
        self._last_epoch = -1
        self._last_batch: BatchHeader | None = None

    def load(self) -> Loaded:
        hints = self._hints
        state = PartitionLog(self._config, is_contiguous=hints.is_contiguous)
        known, segments = hints.known, self._known_segments()
        if known is None or segments is None:
            known, segments = None, self._segments()
        stored = read_epochs(self._files, self._path) if known is None else list(known.epochs)
        state.epochs = EpochTable(stored or ())
        begins_late = (
            stored is not None and stored and stored[0].offset > max(hints.log_start_offset, segments[0].base_offset)
        )
        if (stored is None or begins_late) and any(segment.size for segment in segments):
            state.epochs = self._told_epochs(segments)
        end = known.end_offset if known is not None else self._clean_end(segments[-1]) if hints.is_clean else None
        if end is not None and not self._fits_last_batch(state.epochs):
            state.epochs = self._told_epochs(segments)
        if end is None:
            end = self._recover(segments, state.epochs)
            if end < hints.log_start_offset:
                end = self._start_over(segments)
        state.log_end_offset = end
        state.log_start_offset = min(max(hints.log_start_offset, segments[0].base_offset), end)
        if hints.recovery_point > end or hints.log_start_offset > end:
            self._notes.append(f"a checkpoint was above the log's end {end}")
        state.durable_end_offset = min(hints.recovery_point, end)
        state.high_watermark = state.log_start_offset
        state.epochs.truncate_from_end(end)
        state.epochs.truncate_from_start(state.log_start_offset)
        if known is not None and not known.has_producers:
            state.producers = ProducerStates(end_offset=end)
        else:
            self._rebuild_producers(segments, state)
        snapshots = self._tidy_snapshots(segments, end)
        rebuilt = [each for each in segments if self._is_rebuilt(each)]
        for segment in segments:
            segment.is_resting = segment is not segments[-1]
            segment.let_go_of_file()
        return Loaded(state, segments, self._notes, stored == state.epochs.entries(), snapshots, rebuilt)

    # -- segments ----------------------------------------------------------------------------------------------

    def _known_segments(self) -> list[Segment] | None:
        """The segments where the log is known; None if one has changed, or is no part of the log any more."""
        known, files, path = self._hints.known, self._files, self._path
        if known is None or (len(known.segments) > 1 and known.segments[1].base_offset <= self._hints.log_start_offset):
            return None
        segments = []
        for base, size, stamp in known.segments:
            found = files.stat(offset_file(path, base, LOG))
            if found is None or (found.size, found.stamp) != (size, stamp):
                return None
            segment = Segment(files, path, base, size=size)
            segment.created_ms = found.mtime_ms
            segments.append(segment)
        self._snapshots = list(known.snapshots)
        return segments

    def _segments(self) -> list[Segment]:
        """The segments in order, after unfinished work was finished and leftovers were removed; at least one."""
        files, path = self._files, self._path
        parsed = finish_swaps(files, path)
        bases = sorted(found.offset for found in parsed if found.suffix == LOG)
        while len(bases) > 1 and bases[1] <= self._hints.log_start_offset:
            bases.pop(0)
        kept = set(bases)
        with_aborted = {found.offset for found in parsed if found.suffix == TXN_INDEX}
        for found in parsed:
            if found.suffix == SNAPSHOT:
                self._snapshots.append(found.offset)
            elif found.offset not in kept:
                files.unlink(offset_file(path, found.offset, found.suffix))
        segments = []
        for base in bases:
            found_stat = files.stat(offset_file(path, base, LOG))
            segment = Segment(files, path, base, size=found_stat.size if found_stat else 0)
            segment.created_ms = found_stat.mtime_ms if found_stat else self._hints.now_ms
            segments.append(segment)
            if base in with_aborted and not segment.load_txn_index():
                self._notes.append(f"the aborted transactions of {base:020d}.log were rebuilt from the log")
                self._untold.add(base)
        if not segments:
            segments.append(Segment.create(files, path, self._hints.log_start_offset, now_ms=self._hints.now_ms))
        return segments

    def _clean_end(self, last: Segment) -> int | None:
        """The end offset of a log that was closed well, or None if its last segment does not end with a whole batch."""
        position = 0 if last.size <= WALKED_BYTES else last.last_place()
        end = last.base_offset
        for at, header in last.batches(position):
            end = header.next_offset
            position = at + header.size
            self._last_batch = header
        if position == last.size:
            return end
        self._notes.append("the last segment ends with bytes that are no batch")
        return None

    # -- recovery ----------------------------------------------------------------------------------------------

    def _recover(self, segments: list[Segment], epochs: EpochTable) -> int:
        """Check all batches from the recovery point on and cut at the first bad one; the log's end offset."""
        point = self._hints.recovery_point
        index = len(segments) - 1
        while index > 0 and segments[index].base_offset > point:
            index -= 1
        rot = self._rot_before(segments, index) if self._hints.is_contiguous else None
        self._scanned_from = end = segments[index].base_offset
        epochs.truncate_from_end(end)
        while index < len(segments):
            segment = segments[index]
            if segment.base_offset != end and not end < segment.base_offset <= self._hints.cleaned_to:
                self._refuse_rot(end, segments[index:], 0)
                self._drop(segments, index)
                break
            end, position = self._check(segment, epochs)
            if position < segment.size:
                self._refuse_rot(end, segments[index:], position)
                self._notes.append(
                    f"cut at offset {end}: {segment.size - position} bytes of {segment.base_offset:020d}.log"
                )
                self._drop(segments, index + 1)
                segment.log.truncate(position)
                segment.log.fsync()
                segment.size = position
                break
            index += 1
        if rot is not None and end >= point:  # a log that ends below was unsynced when a snapshot took its place
            raise rot
        for segment in segments:
            if segment.base_offset >= self._scanned_from:
                segment.rebuild_indexes(self._config.index_interval_bytes)
        return end

    def _rot_before(self, segments: list[Segment], count: int) -> RottenLog | None:
        """What is wrong with the first `count` segments, all synced: a damaged batch, a gap, or an epoch after a later one (D6, R13).

        A wrong epoch that fits between those of its neighbours is not told.
        """
        rot: RottenLog | None = None
        for segment, following in pairwise(segments[: count + 1]):
            end, position = self._check(segment, EpochTable())
            first = next(following.batches(), None)
            is_followed = first is None or first[1].leader_epoch >= self._last_epoch
            if position < segment.size or end != following.base_offset or not is_followed:
                rot = self._rot(end, segment, position)
                break
        self._last_epoch = -1
        return rot

    def _start_over(self, segments: list[Segment]) -> int:
        """Everything that is left was deleted before: begin anew at the log start; the new end."""
        start = self._hints.log_start_offset
        self._notes.append(f"all segments end below the log start {start}")
        self._drop(segments, 0)
        segments.append(Segment.create(self._files, self._path, start, now_ms=self._hints.now_ms))
        self._files.fsync_dir(self._path)
        return start

    def _check(self, segment: Segment, epochs: EpochTable) -> tuple[int, int]:
        """(offset, position) where the sound part of a segment ends; its epochs are noted."""
        end, position = segment.base_offset, 0
        log, size = segment.log, segment.size
        chunk, start = b"", 0
        for at, header in segment.batches(scan_bytes=RECOVERY_SCAN_BYTES):
            total = header.size
            if at < start or at + total > start + len(chunk):
                chunk, start = log.pread(min(max(total, RECOVERY_SCAN_BYTES), size - at), at), at
            if not self._fits(header, end) or not batch_is_sound(chunk, header, at - start):
                break
            self._last_epoch = header.leader_epoch
            if header.leader_epoch != epochs.latest:
                epochs.assign(header.leader_epoch, header.base_offset)
            end, position = header.next_offset, at + total
        return end, position

    def _fits(self, header: BatchHeader, end: int) -> bool:
        """What no CRC covers can be right: the batch follows the one before it, in a log without gaps at once and in a possible epoch."""
        if self._hints.is_contiguous:
            latest = self._hints.latest_epoch
            is_possible = self._last_epoch <= header.leader_epoch and (latest is None or header.leader_epoch <= latest)
            return header.base_offset == end and is_possible
        return header.base_offset >= end

    def _refuse_rot(self, end: int, rest: list[Segment], position: int) -> None:
        """Tell rot from a torn write (D6): below the recovery point, or larger than what can have been unsynced."""
        bound = self._hints.max_unsynced_bytes
        behind = sum(segment.size for segment in rest) - position
        if end < self._hints.recovery_point or (bound is not None and behind > bound):
            raise self._rot(end, rest[0], position)

    def _rot(self, end: int, segment: Segment, position: int) -> RottenLog:
        return RottenLog(
            f"{self._path}: damaged at offset {end}, byte {position} of {segment.base_offset:020d}.log, in a part that was"
            " synced: this replica cannot be used any more",
            directory=log_directory_of(self._path),
        )

    def _drop(self, segments: list[Segment], index: int) -> None:
        """Remove the segments from `index` on, durably."""
        if index >= len(segments):
            return
        for segment in reversed(segments[index:]):
            self._notes.append(f"dropped segment {segment.base_offset:020d}.log behind the cut")
            for suffix in SEGMENT_SUFFIXES:
                self._files.unlink(offset_file(self._path, segment.base_offset, suffix))
        self._files.fsync_dir(self._path)
        del segments[index:]

    def _fits_last_batch(self, epochs: EpochTable) -> bool:
        """True if the table knows the epoch of the log's last batch: one that lost an entry, or has a wrong one, mostly does not (S61)."""
        last = self._last_batch
        if last is None or last.leader_epoch < 0 or last.last_offset < self._hints.log_start_offset:
            return True
        return epochs.epoch_at(last.last_offset) == last.leader_epoch

    def _told_epochs(self, segments: list[Segment]) -> EpochTable:
        """The epochs as the log's batches tell them."""
        self._notes.append("leader epochs rebuilt from the log")
        epochs = EpochTable()
        for segment in segments:
            for _, header in segment.batches(scan_bytes=RECOVERY_SCAN_BYTES):
                if epochs.latest is None:
                    epochs.assign(header.leader_epoch, segments[0].base_offset)
                elif header.leader_epoch != epochs.latest:
                    epochs.assign(header.leader_epoch, header.base_offset)
        return epochs

    # -- producers ---------------------------------------------------------------------------------------------

    def _tidy_snapshots(self, segments: list[Segment], end: int) -> list[int]:
        """Snapshots that stay: the latest, and those at the start of a segment. Those above the end go durably (K35)."""
        bases = {segment.base_offset for segment in segments}
        valid = sorted(offset for offset in self._snapshots if offset <= end)
        kept = [offset for offset in valid if offset in bases or offset == valid[-1]]
        gone = [offset for offset in self._snapshots if offset not in kept]
        for offset in gone:
            self._files.unlink(offset_file(self._path, offset, SNAPSHOT))
        if any(offset > end for offset in gone):
            self._files.fsync_dir(self._path)
        return kept

    def _is_rebuilt(self, segment: Segment) -> bool:
        """True if what lies beside this segment's log is made anew."""
        base, scanned_from = segment.base_offset, self._scanned_from
        return base in self._untold or (scanned_from is not None and base >= scanned_from)

    def _rebuild_producers(self, segments: list[Segment], state: PartitionLog) -> None:
        """Producer state at the log's end: the best snapshot, and the batches after it (E4)."""
        end = state.log_end_offset
        highest = min([end, *self._untold, *(() if self._scanned_from is None else (self._scanned_from,))])
        usable = [offset for offset in self._snapshots if offset <= highest]
        replay_producers(self._files, self._path, state, segments, snapshots=usable, note_aborted=self._is_rebuilt)
        state.producers.expire(self._hints.now_ms, self._config.producer_id_expiration_ms)


def replay_producers(
    files: Files,
    path: str,
    state: PartitionLog,
    segments: Sequence[Segment],
    *,
    snapshots: Sequence[int],
    note_aborted: Callable[[Segment], bool],
) -> None:
    """Set `state.producers` to what the log up to its end says, from the highest readable of `snapshots` on.

    Aborted transactions met in segments for which `note_aborted` is true go into their `.txnindex`, which was emptied before.
    """
    start, entries = segments[0].base_offset, None
    for offset in sorted(snapshots, reverse=True):
        entries = read_snapshot(files, path, offset)
        if entries is not None:
            start = offset
            break
    state.producers = ProducerStates(entries or (), end_offset=start)
    for segment in segments:
        if note_aborted(segment):
            segment.clear_txn_index()
    if start >= state.log_end_offset:
        return
    for index, segment in enumerate(segments):
        if index + 1 == len(segments) or segments[index + 1].base_offset > start:
            _replay_segment(state, segment, start, keeps_aborted=note_aborted(segment))
    state.producers.end_offset = state.log_end_offset


def _replay_segment(state: PartitionLog, segment: Segment, start: int, *, keeps_aborted: bool) -> None:
    """Show the producers every batch of `segment` from offset `start` on."""
    first = 0
    if start > segment.base_offset:
        found = segment.find(start)
        if found is None:
            return
        first = found[0]
    for position, header in segment.batches(first, scan_bytes=RECOVERY_SCAN_BYTES):
        if header.base_offset < start:
            continue
        needs_bytes = header.is_control and header.has_producer_id and header.size > HEADER_SIZE
        data = segment.read_batch(position, header) if needs_bytes else b""
        aborted = state.replay_producer(data, 0, header)
        if aborted is not None and keeps_aborted:
            segment.txn_index.append(aborted)
