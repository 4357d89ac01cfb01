"""Processes of `python -m headrace` that cost a tenth: forked off one that has read Headrace's code, where a new interpreter would read it again.

A test starts hundreds of nodes and commands, and most of what each costs is to read the code. Inside `quick_processes` such a process begins as a
copy of one that has done that. It is a child of this process with its own arguments, environment, directory, descriptors, process group and session,
as one from `subprocess` is, and it goes on as `python -m` does. What asks for another interpreter or other flags, limits or libraries gets a new one.
"""

from __future__ import annotations

import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NoReturn
from unittest.mock import patch

READ_ALREADY: Final = ("headrace", "headrace.cli.dev_node")
"""Modules that are run so."""
_OF_THE_INTERPRETER: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_")
"""How variables begin that an interpreter or its libraries look at before it runs anything."""
_PR_SET_CHILD_SUBREAPER: Final = 36
_HEAD: Final = struct.Struct("=I")
_MOST_DESCRIPTORS: Final = 64
_MOST_TRIES: Final = 600_000
"""So often a new process looks whether it has been adopted, a minute and more in all: that takes a moment, or never comes."""


class Nursery:
    """The process that has read the code, and how this one has it make others. It starts when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._environment = _of_the_interpreter(os.environ)

    def fork(self, order: Mapping[str, Any], environment: Mapping[str, str], descriptors: Sequence[int]) -> int | None:
        """The process id of a new child of this process; None: it must have an interpreter of its own."""
        if _of_the_interpreter(environment) != self._environment:
            return None
        with self._lock:
            to = self._ready()
            _adopt(orphans=True)  # the one between it and the process that has read the code ends at once
            try:
                text = json.dumps({**order, "environment": dict(environment), "parent": os.getpid()}).encode()
                socket.send_fds(to, [_HEAD.pack(len(text))], list(descriptors))
                to.sendall(text)
                return int(_HEAD.unpack(_exactly(to, _HEAD.size))[0])
            finally:
                _adopt(orphans=False)

    def _ready(self) -> socket.socket:
        if self._socket is None:
            self._socket, its = socket.socketpair()
            with its:
                command = [sys.executable, __file__, str(its.fileno())]
                pipe = subprocess.PIPE
                self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, pass_fds=(its.fileno(),))
        return self._socket

    def close(self) -> None:
        """End it."""
        if self._process is not None and self._socket is not None:
            self._socket.close()
            self._process.communicate()


@contextmanager
def quick_processes() -> Iterator[None]:
    """While it lasts `subprocess` has what runs `python -m headrace` made by a nursery (Linux)."""
    if sys.platform != "linux":
        yield
        return
    nursery = Nursery()
    new_interpreter = subprocess._fork_exec  # type: ignore[attr-defined]

    def start(*given: Any) -> int:
        """What `_posixsubprocess.fork_exec` is given, and gives."""
        (
            words,
            (program, *_),
            _,
            kept,
            cwd,
            environment,
            stdin,
            _,
            _,
            stdout,
            _,
            stderr,
            _,
            its_end,
            _,
            session,
            group,
            *who,
        ) = given
        if (words := _words(words, program)) is not None and tuple(who[:5]) == (None, None, None, -1, None):
            standard = [given if given >= 0 else usual for usual, given in enumerate((stdin, stdout, stderr))]
            kept = [each for each in kept if each != its_end]
            order = {
                "words": words,
                "cwd": os.fspath(cwd or Path.cwd()),
                "kept": kept,
                "session": session,
                "group": group,
            }
            pid = nursery.fork(order, _decoded(environment), [*standard, *kept])
            if pid is not None:
                return pid
        return int(new_interpreter(*given))

    with patch.object(subprocess, "_fork_exec", start):
        try:
            yield
        finally:
            nursery.close()


def _words(arguments: Sequence[Any], program: bytes) -> list[str] | None:
    """The module and its arguments, if that is all that the command line says."""
    words = [os.fsdecode(each) for each in arguments]
    if os.fsdecode(program) != sys.executable or words[1:2] != ["-m"] or words[2] not in READ_ALREADY:
        return None
    return words[2:]


def _decoded(environment: Sequence[bytes] | None) -> dict[str, str]:
    if environment is None:
        return dict(os.environ)
    pairs = (os.fsdecode(each).partition("=") for each in environment)
    return {name: value for name, _, value in pairs}


def _of_the_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_OF_THE_INTERPRETER)}


def _adopt(*, orphans: bool) -> None:
    """Whether this process is the parent of those below it whose own parents end."""
    from ctypes import CDLL

    CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans), 0, 0, 0)


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError("the other side has ended")
        data += part
    return data


# -- the process that has read the code ----------------------------------------------------------------------------------------


def read_code() -> None:
    """Import what nodes and commands import, at their start and later; nothing that starts threads."""
    from headrace.cli.main import COMMANDS
    from headrace.server.warming import first_uses

    for name in COMMANDS:
        import_module(f"headrace.cli.{name.replace('-', '_')}")
    for module in ("headrace.cli.dev_node", "headrace.server.node_server"):
        import_module(module)
    for use in first_uses({"broker", "controller"}):
        use()
    assert threading.active_count() == len(os.listdir("/proc/self/task")) == 1, (
        "only a process of one thread is copied whole"
    )


def serve(control: socket.socket) -> Callable[[], NoReturn]:
    """Make children until nobody asks for one; returns in each child, with what it is to do."""
    while True:
        head, descriptors, _, _ = socket.recv_fds(control, _HEAD.size, _MOST_DESCRIPTORS)
        if not head:
            os._exit(0)
        order = json.loads(_exactly(control, _HEAD.unpack(head)[0]))
        between = os.fork()
        if between == 0:
            if os.fork() > 0:
                os._exit(0)
            return _born(order, descriptors, control)
        os.waitpid(between, 0)
        for each in descriptors:
            os.close(each)


def _born(order: Mapping[str, Any], descriptors: Sequence[int], control: socket.socket) -> Callable[[], NoReturn]:
    """Become the process that was ordered; what is left is to run its module."""
    tries = _MOST_TRIES
    while os.getppid() != order["parent"]:
        if not tries:
            os._exit(1)  # who ordered it is gone
        tries -= 1
        time.sleep(0.000_1)
    if order["session"]:
        os.setsid()
    if order["group"] >= 0:
        os.setpgid(0, order["group"])
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    time.tzset()
    module, *arguments = order["words"]
    sys.argv = [module, *arguments]
    sys.path[0] = order["cwd"]
    answer = _stand([*descriptors, control.detach()], [0, 1, 2, *order["kept"]])
    os.write(answer, _HEAD.pack(os.getpid()))
    os.close(answer)
    return lambda: _run(module)


def _stand(descriptors: Sequence[int], targets: Sequence[int]) -> int:
    """Have these descriptors under those numbers, and no others but the last, which has the number that is returned."""
    above = max(*descriptors, *targets) + 1
    *copies, last = (fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in descriptors)
    os.closerange(3, above)
    for copy, target in zip(copies, targets, strict=True):
        os.dup2(copy, target)
        os.close(copy)
    return last


def _run(module: str) -> NoReturn:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    sys.exit(0)


def main() -> None:
    """Read the code, then make children."""
    control = socket.socket(fileno=int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its parent
    read_code()
    gc.collect()
    gc.freeze()
    run = serve(control)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


if __name__ == "__main__":
    main()
