"""The command `headrace stop`: it asks the node on a data directory to stop cleanly, and waits until it has."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import sys
import time

from headrace.cli.start import HELP, load_config, parse_arguments
from headrace.core.errors import OperatorError
from headrace.node.directories import all_directories

STOP_HELP = """usage: headrace stop [server.properties] [--data dir] [--override key=value]...

Asks the node on a data directory to stop cleanly, and waits until it has. Without a file it is the quick-start node on
./headrace-data (or --data). The node is found by who holds the lock of its directory.
"""
STOP_TIMEOUT_S = 300.0
POLL_S = 0.02


def main(arguments: list[str]) -> int:
    """SIGTERM to the node, then wait; the exit code: 0 stopped, 1 nothing to stop or it does not stop."""
    options = parse_arguments(arguments)
    if options.answer is not None:
        sys.stdout.write(STOP_HELP if options.answer == HELP else options.answer)
        return 0
    config = load_config(options)
    holders = {pid for directory in all_directories(config) if (pid := lock_holder(directory)) is not None}
    if not holders:
        raise OperatorError(f"no node to stop: nobody holds the lock of {', '.join(all_directories(config))}")
    for pid in holders:
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(lock_holder(directory) in holders for directory in all_directories(config)):
        if time.monotonic() > deadline:
            raise OperatorError(
                f"process {', '.join(map(str, sorted(holders)))} did not stop within {STOP_TIMEOUT_S:.0f} s"
            )
        time.sleep(POLL_S)
    return 0


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
