"""A process that has imported PySpark once, of which Spark's Python processes are forked.

Spark starts a Python process for each kind of worker, their parent: to look for data sources, to create one, to plan a read, to read; and one for each stream. Each imports
PySpark (0.1 s) and what its kind needs (up to 0.2 s more), one after the other, before a first row is seen. The fork server imports all of it while Java starts. Where Spark
would start an interpreter it starts `worker_launch`, which is handed a fork of the server: the same arguments, environment, directory and streams.

A process that would not be the same is refused and started as usual: other paths, other settings of the interpreter or of numpy's threads. `ForkServer` is
the side of the session that owns it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from headrace.spark.worker_launch import NUMBER, YES, read

IMPORTED: Final = (
    "pyspark.daemon",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.worker",
    "headrace.spark.source",
    "headrace.spark.batch_reader",
    "headrace.spark.stream_reader",
    "headrace.spark.row_reader",
    "headrace.spark.worker_daemon",
)
"""What the workers of a query need; what another PySpark has not is left out. `data_source_pushdown_filters` is not here: `source` tells a query with filters by it."""
_DAEMONS: Final = ("pyspark.daemon", "headrace.spark.worker_daemon")
_PROGRAMS: Final = (*_DAEMONS, *(each for each in IMPORTED if each.startswith("pyspark.")))
"""What Spark starts: parents of workers, and single workers where a query has one of its own."""
_OF_THE_INTERPRETER: Final = (
    *("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "OPENBLAS_", "MKL_", "ARROW_"),
    *("OMP_", "GOTO_", "NPY_", "NUMPY_", "JE_", "OPENSSL_", "CRAMJAM_", "CRC32C_", "PY4J_"),
)
"""How variables begin at which an interpreter or a library looks once, when it starts."""
_ALSO_ONCE: Final = frozenset(
    (
        *("PYTHON_GIL", "PYTHON_JIT", "PYTHON_CPU_COUNT", "PYTHON_PERF_JIT_SUPPORT", "PYTHON_TLBC"),
        *("PYTHON_THREAD_INHERIT_CONTEXT", "PYTHON_CONTEXT_AWARE_WARNINGS"),
        *("HOME", "SPARK_TESTING", "PYSPARK_ENABLE_NAMEDTUPLE_PATCH"),
    )
)
"""Further ones, by their whole name: of Python from 3.13 on, of the user's site-packages, of PySpark."""
_THREADS: Final = "OMP_NUM_THREADS"
_OF_SPARK: Final = ("PYTHON_", "PYTHONPATH", "PYTHONUNBUFFERED", _THREADS)
"""Among those that begin so, what workers look at later; the path and the threads are compared by themselves."""
_MEMORY_LIMITS: Final = ("PYSPARK_EXECUTOR_MEMORY_MB", "PYSPARK_PLANNER_MEMORY_MB")
"""With one of these a worker limits its address space; what is imported for others takes 0.25 GB of that."""
_HASH_SEED: Final = "PYTHONHASHSEED"
_MOST_BYTES: Final = 4 << 20
_PEER_S: Final = 5.0
"""For a launcher that is silent: it has been killed, or stopped."""
_LOOK_S: Final = 1.0
_STOP_S: Final = 10.0
"""A server that does not end by then has been stopped (SIGSTOP), and is killed."""


# --- the session's side ---


class ForkServer:
    """The process, owned by the session that started it: it ends with `stop`, or when this process has ended. Forks of this process have no part in it."""

    def __init__(self) -> None:
        """Start it; it imports while the caller goes on. Raises OSError where a socket cannot be made."""
        directory = Path(tempfile.mkdtemp(prefix="headrace-forks-"))
        self.path = directory / "socket"
        self._owner = os.getpid()
        self._held, held_there = socket.socketpair()
        try:
            with held_there, socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(self.path))
                listener.listen(64)
                self._process = subprocess.Popen(
                    [sys.executable, "-u", "-m", __name__, str(listener.fileno()), str(self._owner)],
                    stdin=held_there.fileno(),
                    stdout=subprocess.DEVNULL,
                    pass_fds=(listener.fileno(),),
                    env={**os.environ, _THREADS: "1", _HASH_SEED: os.environ.get(_HASH_SEED, "0")},
                    process_group=0,
                )
        except OSError:
            self._held.close()
            shutil.rmtree(directory, ignore_errors=True)
            raise
        atexit.register(self.stop)

    @property
    def pid(self) -> int:
        """Its process id, the parent of those that are forked."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it still answers."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End it, and wait until it has ended. In a fork of the process that started it, nothing happens."""
        if os.getpid() != self._owner:
            return
        atexit.unregister(self.stop)
        with self._held, suppress(OSError):
            self._held.shutdown(socket.SHUT_RDWR)  # which ends it though a fork of this process holds a copy
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.path.parent, ignore_errors=True)


# --- the server ---


@dataclass(frozen=True, slots=True)
class _Order:
    """What a launcher was started with, and its standard streams."""

    arguments: list[str]
    environment: dict[str, str]
    directory: str
    streams: list[int]

    def would_be_the_same(self) -> bool:
        """Whether a fork of this process is what a new interpreter would become."""
        return (
            len(self.arguments) > 1
            and self.arguments[1] in _PROGRAMS
            and self.arguments[1] in sys.modules
            and self.directory == os.getcwd()
            and _paths(self.environment) == _paths(os.environ)
            and self.environment.get(_THREADS, "1") == "1"
            and _looked_at_once(self.environment) == _looked_at_once(os.environ)
            and not any(name in self.environment for name in _MEMORY_LIMITS)
        )

    def close(self) -> None:
        """Let go of the streams."""
        for each in self.streams:
            os.close(each)


class _Server:
    """Takes orders one at a time; tells each launcher when its process has ended."""

    def __init__(self, listener: socket.socket, owner: int) -> None:
        self._listener = listener
        self._owner = owner
        self._launchers: dict[int, socket.socket] = {}
        self._child_ended, self._told = socket.socketpair()
        for each in (self._child_ended, self._told):
            each.settimeout(0)
        signal.set_wakeup_fd(self._told.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        self._selector = selectors.DefaultSelector()
        for file in (sys.stdin, listener, self._child_ended):
            self._selector.register(file, selectors.EVENT_READ)

    def run(self) -> _Order | None:
        """In a process that was forked for an order, that order; None in the server itself, when the session has ended its standard input or gone."""
        while os.getppid() == self._owner:
            ready = {key.fileobj for key, _ in self._selector.select(_LOOK_S)}
            if sys.stdin in ready:
                break
            if self._child_ended in ready:
                with suppress(BlockingIOError):
                    self._child_ended.recv(4096)
            self._reap()
            if self._listener in ready and (order := self._serve_one()):
                return order
        return None

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                launcher = self._launchers.pop(pid)
                with launcher, suppress(OSError):
                    launcher.sendall(NUMBER.pack(os.waitstatus_to_exitcode(status)))

    def _serve_one(self) -> _Order | None:
        connection, _ = self._listener.accept()
        connection.settimeout(_PEER_S)
        try:
            order = _received(connection)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):  # it has gone, or is no launcher
            connection.close()
            return None
        is_kept = False
        with suppress(OSError):
            if order.would_be_the_same():
                connection.sendall(YES)
                if connection.recv(1) == YES:  # it still waits, and starts nothing itself any more
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 counts the allocator's thread
                        pid = os.fork()
                    if pid == 0:
                        self._leave(connection)
                        return order
                    self._launchers[pid] = connection
                    is_kept = True
                    connection.sendall(NUMBER.pack(pid))
        if not is_kept:
            connection.close()
        order.close()
        return None

    def _leave(self, connection: socket.socket) -> None:
        """In a fork: nothing of the server's stays open."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for each in (self._listener, self._child_ended, self._told, connection, *self._launchers.values()):
            each.close()


def _received(connection: socket.socket) -> _Order:
    """Raises OSError, ValueError, TypeError, AttributeError or RecursionError where no launcher speaks."""
    head, streams, _, _ = socket.recv_fds(connection, NUMBER.size, 3)
    try:
        size = NUMBER.unpack(head)[0] if len(head) == NUMBER.size else 0
        if len(streams) != 3 or not 0 < size <= _MOST_BYTES:
            raise ValueError("an order begins with its length and three streams")
        text = read(connection, size)
        if len(text) < size:
            raise ValueError("an order ends before its length")
        order = _Order(streams=streams, **json.loads(text))
        named = (*order.arguments, *order.environment, *order.environment.values(), order.directory)
        if not all(isinstance(each, str) for each in named):
            raise TypeError("an order is of strings")
        return order
    except BaseException:
        for each in streams:
            os.close(each)
        raise


def _paths(environment: Mapping[str, str]) -> list[str]:
    """What is there of PYTHONPATH, without Spark's own jar, which has no modules."""
    named = environment.get("PYTHONPATH", "").split(os.pathsep)
    return [each for each in dict.fromkeys(named) if each and Path(each).exists() and not each.endswith(".jar")]


def _looked_at_once(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in _ALSO_ONCE or (name.startswith(_OF_THE_INTERPRETER) and not name.startswith(_OF_SPARK))
    }


def _become(order: _Order) -> None:
    """What an interpreter has that Spark started, what no two processes may have alike, and then its program."""
    for number, stream in enumerate(order.streams):
        os.dup2(stream, number)
    order.close()
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()  # the C library looks at TZ when it starts
    _, module, *arguments = order.arguments
    of = arguments[0] if arguments else module
    _be_named(f"python {of.rpartition('.')[2]}")
    sys.argv = [str(sys.modules[module].__file__), *arguments]
    from headrace.spark import worker_daemon

    if module in _DAEMONS:
        worker_daemon.run()
    else:
        worker_daemon.draw_anew()
        del sys.modules[module]  # it is run anew, as a program
        runpy.run_module(module, run_name="__main__", alter_sys=True)


def _be_named(name: str) -> None:
    """Change what `ps` and `top` show, where the system lets us."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name)


def main() -> None:
    """Import, then serve; the socket's directory goes with the server."""
    for name in IMPORTED:
        with suppress(ImportError):
            import_module(name)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # as Java does for what it starts
    _be_named("fork server")
    gc.collect()
    gc.freeze()
    listener = socket.socket(fileno=int(sys.argv[1]))
    directory = Path(listener.getsockname()).parent
    order = _Server(listener, int(sys.argv[2])).run()
    if order is None:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        _become(order)


if __name__ == "__main__":
    main()
