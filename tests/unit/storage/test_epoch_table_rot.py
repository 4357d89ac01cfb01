"""Is a table of leader epochs believed that does not fit its log?"""

from __future__ import annotations

import pytest

from headrace.sim.disk import LossyFiles
from headrace.storage.checkpoints import epochs_text, read_epochs
from headrace.storage.known_logs import KNOWN_LOGS
from tests.support.stores import PARTITION, SMALL, fill, memory_store, open_log


@pytest.mark.parametrize("change", ["an older table", "another last epoch", "a later last epoch", "an empty table"])
def test_a_table_that_does_not_know_the_last_batch_is_rebuilt(change: str) -> None:
    """fault:S61, fault:S62, inv:D7, inv:P11: after a clean stop, too, where nothing else of the log is looked at but no list says how it stood."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    for epoch in (1, 4, 5):
        fill(log, 20, seed=epoch, leader_epoch=epoch)
    log.begin_epoch(7)
    expected = log.epochs.entries()[:-1]
    store.close(clean=True)
    entries = list(expected)
    if change == "an older table":
        entries.pop()
    elif change == "another last epoch":
        entries[-1] = entries[-1]._replace(epoch=6)
    elif change == "a later last epoch":
        entries[-1] = entries[-1]._replace(offset=log.log_end_offset + 40)
    else:
        entries.clear()
    files.open(f"{log.path}/leader-epoch-checkpoint", truncate=True).pwrite(epochs_text(entries), 0)
    files.unlink(f"/data/{KNOWN_LOGS}")
    again = memory_store(files)
    found = again.get(PARTITION)
    assert found is not None
    assert found.epochs.entries() == expected
    assert any("leader epochs rebuilt" in note for note in found.notes)
    again.close(clean=True)
    assert read_epochs(files, log.path) == expected


def test_an_epoch_without_records_is_no_reason_to_rebuild() -> None:
    """inv:P11: nor is a log all of whose records were deleted."""
    files = LossyFiles()
    store = memory_store(files)
    log = open_log(store)
    fill(log, 10, leader_epoch=3)
    log.advance_high_watermark(log.log_end_offset)
    log.advance_log_start(log.log_end_offset)
    log.begin_epoch(4)
    store.close(clean=True)
    for _ in range(2):
        again = memory_store(files, SMALL)
        found = again.get(PARTITION)
        assert found is not None
        assert found.notes == []
        again.close(clean=True)
