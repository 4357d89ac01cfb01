"""Do Kafka's own tools read our segment files?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.log.ports import Origin
from headrace.records.control import TransactionMarker, build_marker_batch
from headrace.records.record import ProducerStamp
from headrace.storage.stored_log import StoredLog
from tests.peers import kafka
from tests.support.stores import NOW_MS, append, fill, open_log, open_store, producer_batch, sync

pytestmark = pytest.mark.java


def write_everything(log: StoredLog) -> None:
    """Batches of all codecs over several segments and epochs, an idempotent producer, an aborted transaction."""
    fill(log, 60)
    for sequence in range(0, 6, 2):
        append(log, producer_batch(ProducerStamp(7, 0, sequence), b"a", b"b"), leader_epoch=1)
    stamp = ProducerStamp(9, 3, 0, is_transactional=True)
    append(log, producer_batch(stamp, b"taken", b"back"), leader_epoch=1)
    marker = build_marker_batch(
        TransactionMarker(is_commit=False, coordinator_epoch=2), producer_id=9, producer_epoch=3, timestamp=NOW_MS
    )
    log.append_as_leader(memoryview(marker), leader_epoch=1, now_ms=NOW_MS, origin=Origin.COORDINATOR)
    fill(log, 20, seed=2, leader_epoch=2)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cleanly closed log of ours."""
    root = tmp_path_factory.mktemp("ours") / "data"
    store = open_store(root)
    log = open_log(store)
    write_everything(log)
    sync(log)
    store.close(clean=True, broker_epoch=5)
    return root / "topic-0"


def dump(directory: Path, suffix: str, *options: str) -> str:
    """Kafka's dump of all files of one kind."""
    files = ",".join(str(path) for path in sorted(directory.glob("*" + suffix)))
    return kafka.run_tool("kafka-dump-log", "--files", files, *options, check=True).stdout


def test_dump_log_reads_every_record(directory: Path) -> None:
    """B-P01, B-T09: --deep-iteration --print-data-log shows all batches valid, and every offset once."""
    text = dump(directory, ".log", "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in text
    offsets = [int(found) for found in re.findall(r"\| offset: (\d+)", text)]
    assert offsets == list(range(len(offsets)))
    assert len(offsets) > 130
    assert "endTxnMarker: ABORT" in text
    assert {"none", "gzip", "snappy", "lz4", "zstd"} <= set(re.findall(r"compresscodec: (\w+)", text))


def test_dump_log_finds_our_indexes_sane(directory: Path) -> None:
    """B-P01, inv:D7: --index-sanity-check over every offset and time index."""
    for suffix in (".index", ".timeindex"):
        text = dump(directory, suffix, "--index-sanity-check")
        filled = [path for path in directory.glob("*" + suffix) if path.stat().st_size]
        assert text.count("passed sanity check") == len(filled) > 3
    assert "Found" not in dump(directory, ".index")
    assert "Found" not in dump(directory, ".timeindex")


def test_dump_log_reads_producer_snapshots_and_aborted_transactions(directory: Path) -> None:
    """B-P04, inv:E8: .snapshot and .txnindex."""
    text = dump(directory, ".snapshot")
    assert re.search(r"producerId: 7 producerEpoch: 0 .*firstSequence: \d+ lastSequence: 5", text)
    assert "producerId: 9 producerEpoch: 3" in text
    assert "lastOffset" in dump(directory, ".txnindex")
