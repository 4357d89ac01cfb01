"""The real disk behind the `Files` port."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.core.errors import StorageFault
from headrace.core.ports import DiskFull
from headrace.storage.os_files import OsFiles


def test_files_are_written_read_cut_and_synced(tmp_path: Path) -> None:
    """B-P01: every call of an open file."""
    file = OsFiles().open(str(tmp_path / "a"), create=True)
    file.pwrite(b"hello world", 0)
    file.pwrite(memoryview(b"W"), 6)
    buffer = bytearray(20)
    assert (file.pread(5, 6), file.pread(100, 9), file.pread_into(buffer, 6)) == (b"World", b"ld", 5)
    file.truncate(5)
    file.fsync()
    assert (file.size(), bytes(buffer[:5])) == (5, b"World")
    file.close()
    file.close()
    assert file.fd == -1


def test_names_are_made_moved_and_removed(tmp_path: Path) -> None:
    """inv:D1: every call on names; what is not there is None or nothing."""
    files, root = OsFiles(), str(tmp_path / "x" / "y")
    files.mkdir(root)
    files.open(f"{root}/a", create=True).pwrite(b"1", 0)
    files.rename(f"{root}/a", f"{root}/b")
    files.fsync_dir(root)
    assert files.listdir(root) == ["b"]
    assert (files.read_file(f"{root}/b"), files.read_file(f"{root}/a"), files.exists(f"{root}/a")) == (
        b"1",
        None,
        False,
    )
    found = files.stat(f"{root}/b")
    assert found is not None
    assert (found.size, found.is_directory) == (1, False)
    assert files.stat(f"{root}/none") is None
    files.unlink(f"{root}/b")
    files.unlink(f"{root}/b")
    files.rmdir(root)
    files.rmdir(root)
    assert files.disk_space(str(tmp_path)).usable_bytes > 0


def test_refusals_are_storage_faults(tmp_path: Path) -> None:
    """inv:D3, B76: with the path and the reason in one line."""
    files = OsFiles()
    with pytest.raises(StorageFault, match=r"cannot open .*none"):
        files.open(str(tmp_path / "none"))
    with pytest.raises(StorageFault, match="cannot list"):
        files.listdir(str(tmp_path / "none"))
    closed = files.open(str(tmp_path / "a"), create=True)
    closed.close()
    for call in (closed.fsync, lambda: closed.pread(1, 0), lambda: closed.pwrite(b"x", 0)):
        with pytest.raises(StorageFault):
            call()


def test_a_full_disk_is_told_apart() -> None:
    """inv:D10: no room is a refusal that may pass."""
    file = OsFiles().open("/dev/full")
    with pytest.raises(DiskFull):
        file.pwrite(b"x", 0)
    file.close()


def test_a_directory_is_locked_against_processes_and_against_ourselves(tmp_path: Path) -> None:
    """inv:D9: two running processes never hold one directory."""
    path = str(tmp_path / ".lock")
    lock = OsFiles().lock(path)
    assert lock is not None
    assert OsFiles().lock(path) is None
    program = f"from headrace.storage.os_files import OsFiles; print(OsFiles().lock({path!r}))"
    other = [sys.executable, "-c", program]
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout.strip() == "None"
    lock.release()
    assert subprocess.run(other, capture_output=True, text=True, check=True).stdout.strip() != "None"
