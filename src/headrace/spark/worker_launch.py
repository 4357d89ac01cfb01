"""What Spark starts in place of a Python process: it has the fork server make that process, and stands for it until it ends. A program.

    python -IS worker_launch.py -m pyspark.daemon pyspark.worker

It gives the fork server (`headrace.spark.fork_server`) its arguments, environment, directory and standard streams, passes SIGTERM on, and ends as the process ends. Where
there is no such server, or it refuses, this becomes the interpreter that Spark asked for. It imports nothing of Headrace and no packages, so it starts in 10 ms.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
from contextlib import suppress

SOCKET_VARIABLE = "HEADRACE_SPARK_FORK_SERVER"
"""Names the fork server's socket."""
NUMBER = struct.Struct("=i")
"""Lengths, process ids and exit codes between the two."""
YES = b"\1"
_WAIT_S = 15.0
"""For a server that is still importing; Spark itself waits for as long as it takes."""


def can_stand_for() -> bool:
    """Whether a process can be told of one that is not its child: by Linux from 5.3 on, no other system, and a Python that was built for it."""
    try:
        own = os.pidfd_open(os.getpid())
        try:
            signal.pidfd_send_signal(own, 0)
        finally:
            os.close(own)
    except (AttributeError, OSError):
        return False
    return True


def read(connection: socket.socket, size: int) -> bytes:
    """The next `size` bytes; fewer where the stream ends before."""
    data = bytearray()
    while len(data) < size and (piece := connection.recv(size - len(data))):
        data += piece
    return bytes(data)


def _number(connection: socket.socket) -> int | None:
    """The next number; None where the stream ends before."""
    data = read(connection, NUMBER.size)
    return int(NUMBER.unpack(data)[0]) if len(data) == NUMBER.size else None


def _accepted(path: str, arguments: list[str]) -> socket.socket | None:
    """A connection to a server that will make the process, which it has not begun; None where it does not."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_WAIT_S)
    try:
        connection.connect(path)
        order = {"arguments": arguments, "environment": dict(os.environ), "directory": os.getcwd()}
        text = json.dumps(order).encode()
        socket.send_fds(connection, [NUMBER.pack(len(text))], [0, 1, 2])
        connection.sendall(text)
        if connection.recv(1) == YES:
            return connection
    except OSError:
        pass
    connection.close()
    return None


def _stand_for(connection: socket.socket) -> int:
    """Have the process made; its exit code once it has ended, or 1 where nobody can tell."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until there is a process to pass it on to
    connection.settimeout(None)
    connection.sendall(YES)
    pid = _number(connection)
    if pid is None:
        return 1
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:  # it has ended already
        return _exit_code(_number(connection))

    def pass_on(_number: int, _frame: object) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGTERM)

    signal.signal(signal.SIGTERM, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    for stream in (0, 1):  # they are the process's now; errors may still be told
        os.close(stream)
    code = _number(connection)
    if code is None:  # the server has gone, but not what it made
        ended = select.poll()
        ended.register(process, select.POLLIN)
        ended.poll()
    return _exit_code(code)


def _exit_code(code: int | None) -> int:
    """What to end with where the process ended so; where that is not known, it is an error."""
    if code is None:
        return 1
    return code if code >= 0 else 128 - code  # ended by a signal: as shells say it


def main() -> None:
    """Hand over, or become what Spark asked for."""
    arguments = sys.argv[1:]
    path = os.environ.get(SOCKET_VARIABLE)
    connection = _accepted(path, arguments) if path else None
    if connection is None:
        os.execv(sys.executable, [sys.executable, *arguments])
    os.setpgid(0, 0)  # Ctrl-C is for the program at the terminal
    with suppress(OSError), open("/proc/self/comm", "w") as name:
        name.write("spark launcher")
    sys.exit(_stand_for(connection))


if __name__ == "__main__":
    main()
