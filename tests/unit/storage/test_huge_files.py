"""Files that grew beyond all measure, by a fault or by a hand: they are not read into memory."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from headrace.core.errors import StorageFault
from headrace.storage import os_files
from headrace.storage.os_files import OsFiles
from tests.support.stores import append, batch, open_log, open_store, records_of, values_of

HUGE = 64 << 30
MIB = 1 << 20


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_an_index_larger_than_its_log_can_have_is_built_anew(tmp_path: Path) -> None:
    """fault:S61, PR8: 64 GiB of nothing, read at the first use, were the end of the node."""
    store = open_store(tmp_path)
    log = open_log(store)
    for number in range(60):
        append(log, batch(b"%d" % number))
    store.close(clean=True)
    for index in [*tmp_path.glob("*/*.index"), *tmp_path.glob("*/*.timeindex")]:
        os.truncate(index, HUGE)
    before = peak()
    again = open_log(open_store(tmp_path))
    assert values_of(records_of(again)) == [b"%d" % number for number in range(60)]
    assert again.read_bytes(7, 1, upper_offset=60, min_one_batch=True) == again.read_bytes(
        7, 10, upper_offset=60, min_one_batch=True
    )
    assert peak() - before < 64 * MIB


def test_a_huge_file_is_a_fault_of_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fault:S61, PR8: a checkpoint, say."""
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.touch()
    os.truncate(path, HUGE)
    before = peak()
    with pytest.raises(StorageFault, match="more than any that is read whole"):
        OsFiles().read_file(str(path))
    monkeypatch.setattr(os_files, "MOST_READ_BYTES", 10)
    os.truncate(path, 10)
    assert OsFiles().read_file(str(path)) == bytes(10)
    assert peak() - before < 64 * MIB


def test_a_pipe_or_a_device_is_no_file(tmp_path: Path) -> None:
    """fault:S61, PR8: who reads the one waits for ever, and who reads the other has no memory left."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(StorageFault, match="no file"):
            OsFiles().read_file(str(tmp_path / name))
