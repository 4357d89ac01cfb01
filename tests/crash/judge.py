"""Is what a recovered disk says allowed by the ghost's history? Each violation names the id it breaks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from headrace.core.errors import PeerError, StorageFault
from headrace.core.ids import TopicPartition
from headrace.log.ports import Appended, OutOfRange
from headrace.records.batch import BatchHeader, batch_is_sound, iter_batches
from headrace.records.record import NewRecord, build_batch, read_records
from headrace.sim.disk import Disk, LossyFiles, crashed
from headrace.storage.checkpoints import parse_epochs, parse_offsets
from headrace.storage.log_store import LogStore
from headrace.storage.metadata_log import open_metadata_log
from headrace.storage.recovery import LoadHints
from headrace.storage.stored_log import StoredLog
from tests.crash.workload import (
    COMPACTED,
    CONFIG,
    DIRECTORY,
    METADATA,
    PLAIN,
    START_MS,
    Expected,
    Workload,
    count_of,
    open_store,
)

Batches = list[tuple[int, bytes]]


def judge(workload: Workload, count: int, seed: int) -> list[str]:
    """Crash behind the first `count` disk calls, recover, judge; then crash inside that recovery, recover and judge again."""
    files = crashed(workload.files.ops, count, random.Random(seed))
    found = check_small_files(files) + recover_and_check(workload, count, files)
    if found:
        return found
    chance = random.Random(seed + 1)
    ops = files.ops[: chance.randrange(files.marked + 1)]
    disk = Disk.over(crashed(workload.files.ops, count, random.Random(seed)))
    for op in ops:
        disk.take(op)
    return [f"crash in recovery: {each}" for each in recover_and_check(workload, count, disk.crash(chance))]


def check_small_files(files: LossyFiles) -> list[str]:
    """inv:D1: a checkpoint is the old or the new one, whole."""
    found = []
    for path, data in files.tree():
        name = path.rpartition("/")[2]
        is_bad = (name.endswith("-offset-checkpoint") and parse_offsets(data) is None) or (
            name == "leader-epoch-checkpoint" and parse_epochs(data) is None
        )
        if is_bad:
            found.append(f"inv:D1: {path} is torn: {data!r}")
    return found


def recover_and_check(workload: Workload, count: int, files: LossyFiles) -> list[str]:
    """Open everything as a node does, and judge each log."""
    try:
        if not files.exists(DIRECTORY):
            files.mkdir(DIRECTORY)
        store = open_store(files)
        metadata = open_metadata_log(StoredLog, files, DIRECTORY, CONFIG, LoadHints(now_ms=START_MS))
    except (StorageFault, PeerError) as fault:
        return [f"inv:D5: recovery failed: {fault}"]
    files.marked = len(files.ops)
    found = [f"inv:D6: {note}" for note in store.notes if "stray" in note or "damaged and" in note]
    found += _check_log(workload, PLAIN, count, store.get(PLAIN))
    found += _check_compacted(workload, count, store.get(COMPACTED))
    found += _check_log(workload, METADATA, count, metadata)
    if not found:
        found += _check_goes_on(workload, store)
    return found


def stored_batches(log: StoredLog) -> Iterator[tuple[int, bytes, BatchHeader]]:
    """(base offset, bytes, header) of each batch that a reader gets, from the log's start on, one fetch at a time."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read_bytes(offset, 1, upper_offset=log.log_end_offset, min_one_batch=True)
        assert not isinstance(data, OutOfRange)
        found = next(iter_batches(data), None)
        if found is None:
            raise PeerErrorAt(offset)
        _, header = found
        if header.last_offset < offset:
            raise PeerErrorAt(offset)
        yield header.base_offset, data[: header.size], header
        offset = header.next_offset


class PeerErrorAt(Exception):
    """A read at this offset gave no batch that holds it."""


def _check_log(workload: Workload, partition: TopicPartition, count: int, log: StoredLog | None) -> list[str]:
    """inv:D5, D8, D11, P11, E4 for a log that is not compacted."""
    expected = workload.ghosts[partition].expected(count)
    if log is None:
        return [f"inv:D2: {partition} is gone"] if expected.durable_end > expected.durable_start else []
    found = _check_bounds(partition, expected, log)
    try:
        batches = [(base, data) for base, data, _ in stored_batches(log)]
    except (PeerErrorAt, PeerError) as error:
        return [*found, f"defect:K33: {partition}: no batch at offset {error}"]
    start = log.log_start_offset
    histories = [
        [each for each in history if each[0] + count_of(each[1]) > start]
        for history in (expected.batches, expected.before_cut)
    ]
    if not any(batches == history[: len(batches)] for history in histories):
        found.append(f"inv:D5: {partition}: what is stored from {start} on is no prefix of what was appended")
    found += _check_epochs(partition, log)
    found += _check_producers(partition, log)
    return found


def _check_bounds(partition: TopicPartition, expected: Expected, log: StoredLog) -> list[str]:
    found = []
    if log.log_end_offset < expected.durable_end:
        found.append(f"PR1: {partition} ends at {log.log_end_offset}, below the durable end {expected.durable_end}")
    last = log.segments[-1]
    if log.durable_end_offset > log.log_end_offset or log.high_watermark > log.log_end_offset or last.size < 0:
        found.append(f"inv:D8: {partition}: a checkpoint is above the log's end")
    is_reset = expected.reset_at or expected.before_cut
    if not is_reset and not expected.durable_start <= log.log_start_offset <= max(
        expected.log_start, expected.durable_start
    ):
        found.append(
            f"inv:P18: {partition} starts at {log.log_start_offset}, not in [{expected.durable_start}, {expected.log_start}]"
        )
    return found


def _check_epochs(partition: TopicPartition, log: StoredLog) -> list[str]:
    """inv:P11: the epoch table is the one that the log's batches tell."""
    entries = log.epochs.entries()
    is_empty = log.log_start_offset == log.log_end_offset
    if entries and entries[-1].offset >= log.log_end_offset + is_empty:
        return [f"inv:P11: {partition}: entry {entries[-1]} is at or above the end {log.log_end_offset}"]
    for base, _, header in stored_batches(log):
        known = log.epoch_at(max(base, log.log_start_offset))
        if known != header.leader_epoch:
            return [f"inv:P11: {partition}: epoch {known} at {base}, the batch says {header.leader_epoch}"]
    return []


def _check_producers(partition: TopicPartition, log: StoredLog) -> list[str]:
    """inv:E4: producer state is what the log says; a producer without batches may be known from before the log's start."""
    told: dict[int, tuple[int, int]] = {}
    for base, _, header in stored_batches(log):
        if header.producer_id >= 0:
            told[header.producer_id] = (header.last_sequence, base + header.last_offset_delta)
    for producer_id, (sequence, offset) in told.items():
        entry = log.producers.get(producer_id)
        if entry is not None and partition == COMPACTED and offset < entry.last_offset < log.log_end_offset:
            continue  # its last batch was cleaned away when a later one, lost in the crash, was its last
        if entry is None or (entry.last_sequence, entry.last_offset) != (sequence, offset):
            known = None if entry is None else (entry.last_sequence, entry.last_offset)
            return [
                f"defect:K35: {partition}: producer {producer_id} is known as {known}, the log says {(sequence, offset)}"
            ]
    for entry in log.producers:
        if entry.producer_id not in told and entry.last_offset >= log.log_start_offset and partition == PLAIN:
            return [f"defect:K35: {partition}: producer {entry.producer_id} is known, and the log has nothing of it"]
    return []


def _check_compacted(workload: Workload, count: int, log: StoredLog | None) -> list[str]:
    """inv:D11, P19: each record at most once, at its offset, in order; the last value of each key is there."""
    expected = workload.ghosts[COMPACTED].expected(count)
    if log is None:
        return [f"inv:D2: {COMPACTED} is gone"] if expected.durable_end else []
    found = _check_bounds(COMPACTED, expected, log)
    appended = {r.offset: (r.key, r.value, r.timestamp) for _, data in expected.batches for r in read_records(data)}
    stored: dict[int, tuple[bytes | None, bytes | None, int]] = {}
    last = -1
    try:
        for base, data, header in stored_batches(log):
            if not batch_is_sound(data, header):
                return [*found, f"PR9: {COMPACTED}: the batch at {base} is damaged"]
            for record in read_records(data):
                if record.offset <= last:
                    return [*found, f"inv:D11: offset {record.offset} comes after {last}"]
                last = record.offset
                stored[last] = (record.key, record.value, record.timestamp)
    except (PeerErrorAt, PeerError) as error:
        return [*found, f"defect:K33: {COMPACTED}: no batch at offset {error}"]
    wrong = [offset for offset, content in stored.items() if appended.get(offset) != content]
    if wrong:
        return [
            *found,
            f"PR1: {COMPACTED}: offset {wrong[0]} holds {stored[wrong[0]]}, appended was {appended.get(wrong[0])}",
        ]
    latest = {key: offset for offset, (key, _, _) in sorted(appended.items()) if offset < log.log_end_offset}
    for key, offset in latest.items():
        if offset not in stored and appended[offset][1] is not None:
            found.append(f"inv:P19: {COMPACTED}: the last value of {key!r}, at {offset}, is gone")
    return found + _check_producers(COMPACTED, log)


def _check_goes_on(workload: Workload, store: LogStore) -> list[str]:
    """After recovery the last batch of a producer is recognised, and what is appended is read back."""
    log = store.get(PLAIN)
    if log is None:
        return []
    log.set_high_watermark(log.log_end_offset)
    epoch = workload.epoch + 1
    for _, data, header in reversed(list(stored_batches(log))):
        if header.producer_id >= 0:
            again = bytearray(data)
            again[:8] = bytes(8)
            done = log.append_as_leader(memoryview(again), leader_epoch=epoch, now_ms=START_MS)
            if not isinstance(done, Appended) or not done.is_duplicate or done.first_offset != header.base_offset:
                return [f"inv:E2: after recovery the batch at {header.base_offset}, sent again, got {done}"]
            break
    new = []
    for index in range(6):
        batch = build_batch([NewRecord(b"key", b"after %d " % index * 4, START_MS)])
        done = log.append_as_leader(memoryview(batch), leader_epoch=epoch, now_ms=START_MS)
        if not isinstance(done, Appended):
            return [f"inv:D10: after recovery an append was refused: {done}"]
        new.append((done.first_offset, bytes(batch)))
    try:
        stored = [(base, data) for base, data, _ in stored_batches(log)]
    except (PeerErrorAt, PeerError) as error:
        return [f"defect:K33: after recovery and appends there is no batch at offset {error}"]
    return [] if stored[-len(new) :] == new else ["defect:K33: what was appended after recovery is not read back"]
