"""Topics that ask for a segment for each batch: their logs begin new ones no faster than the node can bear, and keep few files open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headrace.log.ports import OutOfRange
from headrace.storage import descriptors
from headrace.storage.log_store import LogStore
from headrace.storage.os_files import OsFiles
from headrace.storage.roll_allowance import A_SECOND, MOST_AT_ONCE, RollAllowance
from headrace.storage.stored_log import StoredLog
from tests.support.stores import DIRECTORY_ID, NOW_MS, PARTITION, SMALL, TOPIC_ID, append, batch, records_of, sync

ASKS = {
    "internal.segment.bytes": replace(SMALL, segment_bytes=100),
    "segment.ms": replace(SMALL, segment_bytes=1 << 30, segment_ms=1),
    "segment.index.bytes": replace(SMALL, segment_bytes=1 << 30, segment_index_bytes=4),
}
LOG_SUFFIX = ".log"


@pytest.fixture
def store(tmp_path: Path) -> LogStore:
    """A store whose logs share an allowance."""
    found = LogStore(OsFiles(), {str(tmp_path): DIRECTORY_ID}, retention_check_interval_ms=1000)
    found.share_rolls(RollAllowance())
    found.load(lambda _: SMALL, now_ms=NOW_MS)
    return found


def open_files(directory: Path) -> int:
    """How many segments' files this process has open."""
    links = [each.readlink() for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    return sum(each.is_relative_to(directory) and each.suffix == LOG_SUFFIX for each in links)


@pytest.mark.parametrize("asked", ASKS)
def test_a_log_begins_no_more_segments_than_its_node_can_bear(store: LogStore, asked: str) -> None:
    """PR8: 3,000 batches made 3,000 files, each of which stayed open; what has to wait goes on in the segment that there is."""
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=ASKS[asked])
    for number in range(60):
        append(log, batch(b"%d" % number, timestamp=NOW_MS + 2 * number))
    assert len(log.segments) == 1 + MOST_AT_ONCE
    assert [each.value for each in records_of(log)] == [b"%d" % number for number in range(60)]
    sync(log)
    append(log, batch(b"later", timestamp=NOW_MS + 1_000), now_ms=NOW_MS + 1_000)
    assert len(log.segments) == 2 + MOST_AT_ONCE
    for number in range(A_SECOND):
        now_ms = NOW_MS + 1_000 + number * 10
        append(log, batch(b"later", timestamp=now_ms), now_ms=now_ms)
        sync(log)
    assert len(log.segments) > A_SECOND


def test_a_log_whose_syncs_are_behind_begins_no_new_segment(store: LogStore) -> None:
    """PR8: each that waits for its sync has an open file."""
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=ASKS["internal.segment.bytes"])
    for number in range(200):
        append(log, batch(b"x"), now_ms=NOW_MS + number * 1_000)
    before = len(log.segments)
    assert before <= 1 + MOST_AT_ONCE
    sync(log)
    append(log, batch(b"x"), now_ms=NOW_MS + 300_000)
    assert len(log.segments) == before + 1


def test_segments_that_are_no_longer_written_keep_no_file_open(
    store: LogStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PR8: of those that are read some do, those that were opened last."""
    monkeypatch.setattr(descriptors, "MOST_OPEN_AT_REST", 5)
    log = store.create(PARTITION, topic_id=TOPIC_ID, config=ASKS["internal.segment.bytes"])
    for number in range(40):
        append(log, batch(b"%d" % number), now_ms=NOW_MS + number * 1_000)
        sync(log)
    assert (len(log.segments), open_files(tmp_path)) == (40, 1)
    assert read_from_the_beginning(log) == 40
    assert open_files(tmp_path) == 6
    log.truncate_to(20)
    append(log, batch(b"again"), now_ms=NOW_MS + 100_000)
    sync(log)
    assert [each.value for each in records_of(log)][-2:] == [b"19", b"again"]
    store.close(clean=True)
    assert open_files(tmp_path) == 0


def read_from_the_beginning(log: StoredLog) -> int:
    """Read each segment, as a consumer does; how many."""
    found, at = 0, 0
    while at < log.log_end_offset:
        data = log.read_bytes(at, 1, upper_offset=log.log_end_offset, min_one_batch=True)
        assert not isinstance(data, OutOfRange)
        found, at = found + 1, at + 1
    return found
