"""The command `headrace stop`: it asks the node on a data directory to stop cleanly, and waits until it has."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import struct
import sys
import time
from collections.abc import Sequence
from typing import Final

from headrace.cli.start import HELP, load_config, parse_arguments
from headrace.core.errors import OperatorError
from headrace.node.directories import all_directories

STOP_HELP = """usage: headrace stop [server.properties] [--data dir] [--override key=value]...

Asks the node on a data directory to stop cleanly, and waits until it has. Without a file it is the quick-start node on
./headrace-data (or --data). The node is found by who holds the lock of its directory. Of `headrace start --processes`
the parent is told, and all of its brokers stop.
"""
STOP_TIMEOUT_S = 300.0
POLL_S = 0.02
_OF_MANY: Final = re.compile(r"broker\.\d+")


def main(arguments: list[str]) -> int:
    """SIGTERM to the node, then wait; the exit code: 0 stopped, 1 nothing to stop or it does not stop."""
    options = parse_arguments(arguments)
    if options.answer is not None:
        sys.stdout.write(STOP_HELP if options.answer == HELP else options.answer)
        return 0
    directories = all_directories(load_config(options))
    held = {each: pid for each in directories if (pid := lock_holder(each)) is not None}
    told = set(held.values())
    if not held:
        held = _held_by_many(directories)
        told = {parent_of(pid) for pid in held.values()}
    if not held:
        raise OperatorError(f"no node to stop: nobody holds the lock of {', '.join(directories)}")
    for pid in told:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(lock_holder(directory) == pid for directory, pid in held.items()):
        if time.monotonic() > deadline:
            raise OperatorError(
                f"process {', '.join(map(str, sorted(set(held.values()))))} did not stop within {STOP_TIMEOUT_S:.0f} s"
            )
        time.sleep(POLL_S)
    return 0


def _held_by_many(directories: Sequence[str]) -> dict[str, int]:
    """The directories of brokers that `headrace start --processes` made in these, with the processes that hold them."""
    inside = [
        os.path.join(each, name)
        for each in directories
        if os.path.isdir(each)
        for name in sorted(os.listdir(each))
        if _OF_MANY.fullmatch(name)
    ]
    return {each: pid for each in inside if (pid := lock_holder(each)) is not None}


def parent_of(pid: int) -> int:
    """Who started one of several brokers, as its command line says. Raises OperatorError: that cannot be read here."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        return int(words[words.index(b"headrace.cli.one_of_many") + 1])
    except (OSError, ValueError, IndexError):
        raise OperatorError(
            f"process {pid} is one of several brokers (--processes): stop the process that started them, by SIGTERM or Ctrl-C"
        ) from None


def lock_holder(directory: str) -> int | None:
    """The process that holds the lock of a log directory, or None. Raises OperatorError: it is none of this machine's.

    The kernel says 0 or less where it cannot name the process; as the target of a signal that would mean many others.
    """
    try:
        with open(os.path.join(directory, ".lock"), "rb") as file:
            asked = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            told = fcntl.fcntl(file.fileno(), fcntl.F_GETLK, asked)
    except OSError:
        return None
    kind, _, _, _, pid = struct.unpack("hhqqi", told)
    if kind == fcntl.F_UNLCK:
        return None
    if pid <= 0:
        raise OperatorError(
            f"{directory} is held by a process that cannot be named from here: stop it on its own host, or in its container"
        )
    return int(pid)
