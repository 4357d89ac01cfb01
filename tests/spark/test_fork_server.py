"""Are the parents of Spark's Python workers forked off one process, and are they what Spark would have started?"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy
import psutil
import pytest

from headrace.spark import worker_launch
from headrace.spark.fork_server import ForkServer
from headrace.spark.session import fork_server_pid
from headrace.spark.worker_daemon import without_hang_ups
from headrace.spark.worker_launch import NUMBER, SOCKET_VARIABLE, YES
from tests.support.metadata_load import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DAEMON = ("-m", "pyspark.daemon", "pyspark.worker")
_SEED = "PYTHONHASHSEED"


@pytest.fixture
def server() -> Iterator[ForkServer]:
    """A server of its own for each test."""
    running = ForkServer()
    yield running
    running.stop()
    assert not running.path.parent.exists()


@contextmanager
def launched(
    path: Path | str,
    changed: Mapping[str, str] | None = None,
    arguments: tuple[str, ...] = _DAEMON,
    *,
    stderr: int | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher, started as Java does."""
    environment = {**os.environ, _SEED: os.environ.get(_SEED, "0"), SOCKET_VARIABLE: str(path), **(changed or {})}
    command = [sys.executable, "-IS", worker_launch.__file__, *arguments]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


def port_of(process: subprocess.Popen[bytes]) -> int:
    """What a daemon of PySpark says first."""
    assert process.stdout is not None
    return int.from_bytes(process.stdout.read(4), "big")


def children(pid: int) -> list[psutil.Process]:
    """The processes that one has made."""
    return list(psutil.Process(pid).children())


def stands_for_a_fork(process: subprocess.Popen[bytes]) -> bool:
    """It has not become the interpreter."""
    return worker_launch.__file__ in psutil.Process(process.pid).cmdline()


def test_a_daemon_is_a_fork_and_ends_when_spark_closes_its_input(server: ForkServer) -> None:
    """It answers on the port that it says, through streams that are the launcher's, and makes workers."""
    with launched(server.path) as process:
        port = port_of(process)
        assert stands_for_a_fork(process)
        (daemon,) = children(server.pid)
        assert daemon.name() == "python worker"
        with socket.create_connection(("127.0.0.1", port)) as asked:
            assert int.from_bytes(asked.recv(4), "big") == daemon.children()[0].pid
    assert process.returncode is not None
    wait_until(lambda: not children(server.pid))


def test_a_worker_without_a_parent_is_a_fork_too(server: ForkServer) -> None:
    """A stream has such a one: it is started with no arguments, calls Spark, and its errors are on its standard error."""
    environment = {"PYTHON_WORKER_FACTORY_PORT": "1", "PYTHON_WORKER_FACTORY_SECRET": "x"}
    program = ("-m", "pyspark.sql.streaming.python_streaming_source_runner")
    with launched(server.path, environment, program, stderr=subprocess.PIPE) as process:
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1
    assert told.startswith(b"Traceback")
    assert b"CANNOT_OPEN_SOCKET" in told
    with socket.create_server(("127.0.0.1", 0)) as spark:
        environment["PYTHON_WORKER_FACTORY_PORT"] = str(spark.getsockname()[1])
        with launched(server.path, environment, program) as process:
            called, _ = spark.accept()
            assert stands_for_a_fork(process)
            with called:
                assert called.recv(5) == (1).to_bytes(4, "big") + b"x"  # the secret, with its length
            assert process.wait(60) == 1


def test_signals_reach_the_daemon(server: ForkServer) -> None:
    """Spark stops a daemon by SIGTERM. The exit code is the daemon's own, or tells the signal that ended it."""
    with launched(server.path) as process:
        with socket.create_connection(("127.0.0.1", port_of(process))) as asked:
            assert asked.recv(4)  # it has its handlers
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 1  # as PySpark's daemon says
    with launched(server.path) as process:
        port_of(process)
        children(server.pid)[0].kill()
        assert process.wait(60) == 128 + signal.SIGKILL
    assert not children(server.pid)


@pytest.mark.parametrize(
    "changed",
    [
        {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])},
        {"PYTHONMALLOC": "malloc"},
        {_SEED: "7"},
        {"OMP_NUM_THREADS": "2"},
        {"LC_ALL": "C"},
        {"NPY_DISABLE_CPU_FEATURES": "AVX2"},
        {"PYTHON_CPU_COUNT": "1"},
        {"HOME": "/"},
        {"PYSPARK_EXECUTOR_MEMORY_MB": "256"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_would_not_be_the_same_gets_an_interpreter(server: ForkServer, changed: dict[str, str]) -> None:
    """A path, a setting of the interpreter, the seed of its hashes, the threads of numpy: at each an interpreter or a library looks when it starts. A limit of memory counts imports."""
    with launched(server.path, changed) as process:
        assert port_of(process) > 0
        assert psutil.Process(process.pid).cmdline()[1:] == [*_DAEMON]
        assert not children(server.pid)


def test_without_a_server_there_is_an_interpreter(tmp_path: Path) -> None:
    """The socket's path leads nowhere."""
    with launched(tmp_path / "none") as process:
        assert port_of(process) > 0
        assert not stands_for_a_fork(process)


def test_a_daemon_outlives_a_server_that_is_killed(server: ForkServer) -> None:
    """Whoever runs at that moment goes on; the next daemon is an interpreter."""
    with launched(server.path) as process:
        port = port_of(process)
        (daemon,) = children(server.pid)
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not server.is_running)
        with socket.create_connection(("127.0.0.1", port)) as asked:
            assert int.from_bytes(asked.recv(4), "big") > 0
        assert process.poll() is None
        with launched(server.path) as other:
            assert port_of(other) > 0
            assert not stands_for_a_fork(other)
    wait_until(lambda: not daemon.is_running() or daemon.status() == psutil.STATUS_ZOMBIE)


def test_a_peer_that_is_no_launcher_harms_nobody(server: ForkServer) -> None:
    """Silence, noise, an order without streams, and what is no order; afterwards it serves."""
    for noise in (b"", b"\xff" * 64, NUMBER.pack(2) + b"{}", NUMBER.pack(-1)):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(server.path))
            peer.sendall(noise)
    wrong = (
        b"[1]x",
        b'{"arguments":5,"environment":{},"directory":"/"}',
        b'{"arguments":["-m","pyspark.daemon"],"environment":[],"directory":"/"}',
        b'{"arguments":["-m",{}],"environment":{},"directory":"/"}',
        b"[" * 1_000_000,
    )
    for text in wrong:
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(server.path))
            socket.send_fds(peer, [NUMBER.pack(len(text))], [0, 1, 2])
            peer.sendall(text)
            assert peer.recv(1) == b""
    with launched(server.path) as process:
        port_of(process)
        assert stands_for_a_fork(process)


def test_the_server_ends_with_the_process_that_owns_it() -> None:
    """Killed, so that it could not say anything; with a child that holds its pipe open."""
    program = """
        import os, subprocess, sys, time
        from headrace.spark.fork_server import ForkServer
        server = ForkServer()
        if os.fork() == 0:
            time.sleep(600)
        print(server.pid, server.path, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid, path = owner.stdout.readline().decode().split()
        child = next(each for each in children(owner.pid) if each.pid != int(pid))
        owner.kill()
        wait_until(lambda: not Path(path).parent.exists())
        child.kill()


def test_a_fork_of_the_owner_neither_ends_the_server_nor_holds_it() -> None:
    """Such are the processes of `multiprocessing`: they have copies of all that is open, and may end as programs do."""
    program = """
        import os, signal, time
        from headrace.spark.fork_server import ForkServer
        server = ForkServer()
        heard, told = os.pipe()
        if (holder := os.fork()) == 0:
            time.sleep(600)
        if (ender := os.fork()) == 0:
            server.stop()
            os.write(told, b"x")
            time.sleep(600)
        os.read(heard, 1)
        print(server.is_running)
        server.stop()
        os.kill(holder, signal.SIGKILL)
        os.kill(ender, signal.SIGKILL)
        print(server.is_running, server.path.parent.exists())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().splitlines() == ["True", "False False"]


def test_a_server_that_does_not_answer_is_killed(server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped by a signal, it cannot end by itself."""
    monkeypatch.setattr("headrace.spark.fork_server._STOP_S", 0.1)
    os.kill(server.pid, signal.SIGSTOP)
    server.stop()
    assert not server.is_running


def test_a_process_that_has_ended_at_once_is_told_of_all_the_same(tmp_path: Path) -> None:
    """The server has reaped it before its launcher looks for it."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        server.listen()
        with launched(tmp_path / "socket", stderr=subprocess.PIPE) as process:
            launcher, _ = server.accept()
            with launcher:
                head, streams, _, _ = socket.recv_fds(launcher, NUMBER.size, 3)
                for each in streams:
                    os.close(each)
                launcher.recv(NUMBER.unpack(head)[0], socket.MSG_WAITALL)
                launcher.sendall(YES)
                assert launcher.recv(1) == YES
                launcher.sendall(NUMBER.pack(ended.pid) + NUMBER.pack(0))
                _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"")


def test_the_server_says_nothing_where_it_forks() -> None:
    """Python 3.12 warns of threads at a fork, on the terminal of whoever made the session."""
    program = f"""
        import os, subprocess, sys
        from headrace.spark.fork_server import ForkServer
        server = ForkServer()
        environment = {{**os.environ, "{_SEED}": os.environ.get("{_SEED}", "0"), "{SOCKET_VARIABLE}": str(server.path)}}
        command = [sys.executable, "-IS", {worker_launch.__file__!r}, *{_DAEMON!r}]
        with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            process.stdout.read(4)
        server.stop()
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, timeout=60, check=True)
    assert done.stderr == b""


@pytest.mark.parametrize(
    "change",
    [
        "del os.pidfd_open",
        "os.access = lambda *_: False",
        "os.environ['XDG_CACHE_HOME'] = '/dev/null/cache'",
        "os.environ['TMPDIR'] = os.environ['LONG']",
    ],
    ids=["an old kernel or Python", "a cache from which nothing may be run", "no cache", "too long a path"],
)
def test_where_workers_cannot_be_forked_nothing_is_changed(change: str, tmp_path: Path) -> None:
    """No server is started, and Spark is told of this Python."""
    program = f"""
        import os
        {change}
        from headrace.spark import session
        before = dict(os.environ)
        session._fork_workers()
        print(session.fork_server_pid(), os.environ == before)
    """
    long = tmp_path / ("x" * 100)
    long.mkdir()
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LONG": str(long)}
    command = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=60, check=True)
    assert done.stdout.decode().split() == ["None", "True"]


def test_a_worker_that_is_forked_draws_numbers_of_its_own() -> None:
    """An older numpy has its random numbers with it, and a daemon's workers are forked after its import."""
    before = numpy.random.get_state()
    drawn: list[float] = []

    def work() -> int:
        drawn.append(numpy.random.rand())
        return 0

    for _ in range(2):
        numpy.random.set_state(before)
        without_hang_ups(work)()
    numpy.random.set_state(before)
    assert drawn[0] != drawn[1]


def test_nothing_that_is_imported_starts_a_thread_that_a_fork_would_lack(server: ForkServer) -> None:
    """One of the allocator's own, which knows of forks, is let pass."""
    with launched(server.path) as process:
        port_of(process)  # it has imported all
        tasks = Path(f"/proc/{server.pid}/task").iterdir()
        names = {(each / "comm").read_text().strip() for each in tasks}
    assert names <= {"fork server", "jemalloc_bg_thd"}


@pytest.mark.spark
def test_workers_of_a_session_are_forked(spark: SparkSession) -> None:
    """Those of its tasks and those that plan; each has random numbers of its own."""
    owner = fork_server_pid()
    assert owner is not None

    def drawn(_: object) -> tuple[float, int]:
        import numpy
        import psutil

        ancestors = psutil.Process().parents()
        return float(numpy.random.rand()), int(owner in [each.pid for each in ancestors])

    found = spark.sparkContext.range(4, numSlices=4).map(drawn).collect()
    assert [forked for _, forked in found] == [1] * 4
    assert len({number for number, _ in found}) == 4


@pytest.mark.spark
def test_workers_of_a_session_heed_their_time_zone(spark: SparkSession) -> None:
    """`spark.executorEnv.TZ` sets it; the C library looks at it when it starts."""

    def hour(_: object) -> tuple[str, int]:
        import time

        return Path("/proc/self/comm").read_text().strip(), time.localtime(0).tm_hour

    environment = spark.sparkContext.environment
    environment["TZ"] = "XYZ-9"
    try:
        found = spark.sparkContext.range(1).map(hour).collect()
    finally:
        del environment["TZ"]
    assert found == [("python worker", 9)]


@pytest.mark.spark
def test_a_session_ends_though_a_fork_of_its_process_lives() -> None:
    """Such a one of `multiprocessing` holds what Java reads, and waits for the end of."""
    program = """
        import os, signal, time
        from pyspark import SparkContext
        from headrace.spark.session import fork_server_pid, local_session, stop_session
        spark = local_session()
        if (child := os.fork()) == 0:
            time.sleep(600)
        java = SparkContext._gateway.proc
        try:
            stop_session(spark)
        finally:
            os.kill(child, signal.SIGKILL)
        print(java.poll() is None, fork_server_pid())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, timeout=200, check=True
    )
    assert done.stdout.decode().splitlines() == ["False None"]
