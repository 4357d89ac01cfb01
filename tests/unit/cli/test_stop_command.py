"""Which process does `headrace stop` stop, and which does it leave alone?"""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.stop import lock_holder, parent_of
from headrace.core.errors import OperatorError

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / ".lock"
    path.touch()
    return path


def test_the_process_that_holds_the_lock_is_found(lock: Path) -> None:
    """B-T01: none without a lock, none without a directory."""
    assert lock_holder(str(lock.parent)) is None
    assert lock_holder(str(lock.parent / "nowhere")) is None
    command = [sys.executable, "-c", HOLD, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert lock_holder(str(lock.parent)) == holder.pid
        holder.communicate()
    assert lock_holder(str(lock.parent)) is None


def test_a_holder_that_the_kernel_cannot_name_is_not_sent_a_signal(lock: Path) -> None:
    """B-T01: it says -1 (or 0, of another container), and a signal to that goes to everybody."""
    with lock.open("r+b") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        with pytest.raises(OperatorError, match="cannot be named from here"):
            lock_holder(str(lock.parent))


def test_only_the_parent_of_several_brokers_is_told() -> None:
    """B-T01: who is none of several names nobody to stop."""
    with pytest.raises(OperatorError, match="stop the process that started them"):
        parent_of(os.getpid())
