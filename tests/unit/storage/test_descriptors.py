"""What is opened when no descriptor is free?"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.ports import DiskFull
from headrace.storage.descriptors import keep_spare_descriptors
from headrace.storage.os_files import OsFiles


@pytest.fixture
def taken(tmp_path: Path) -> Iterator[list[int]]:
    """All descriptors of this process but three spares are taken, once there is a directory for the test."""
    assert tmp_path.is_dir()
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 20, before[1]))
    keep_spare_descriptors(3)
    held: list[int] = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    yield held
    for one in held:
        os.close(one)
    keep_spare_descriptors(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_files_are_opened_with_spares_and_then_wait_like_for_room(taken: list[int], tmp_path: Path) -> None:
    """EMFILE is no fault of the disk: it passes, and what is closed is there for the next."""
    files = OsFiles()
    opened = [files.open(str(tmp_path / str(number)), create=True) for number in range(3)]
    with pytest.raises(DiskFull, match="Too many open files"):
        files.open(str(tmp_path / "more"), create=True)
    opened.pop().close()
    files.fsync_dir(str(tmp_path))
    assert files.listdir(str(tmp_path)) == ["0", "1", "2"]
    assert files.read_file(str(tmp_path / "1")) == b""
    for one in opened:
        one.close()
