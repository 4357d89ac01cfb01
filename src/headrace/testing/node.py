"""A real node, started and stopped inside a test, of which nothing is left behind."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.server.formatting import FormatOrder, format_directories, random_cluster_id
from headrace.server.run import NodeThread
from headrace.storage.os_files import OsFiles
from headrace.testing.metrics import scrape

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0
_POLL_S = 0.005


class Node:
    """One combined broker and controller on random ports of 127.0.0.1 and temporary data.

    As a context manager it runs inside the block, and its temporary data are removed at the end; else at the latest with the interpreter.
    By default it is a child process, which a test can ``kill``; with
    ``in_process=True`` it runs in a thread of the test's own process and is ready in about a tenth of a second.
    ``properties`` are server.properties lines that win over the defaults (``{"log.retention.ms": "1000"}``).
    With ``directory`` the data stays there after the stop, and a later ``Node`` on it goes on with it.
    With ``metrics=True`` it answers ``GET /metrics`` on a port of its own, see ``metrics``.
    A child that has a lot to load may take longer than ``ready_timeout_s`` allows by default.
    ``python_arguments`` go between the child's interpreter and ``-m headrace`` (a profiler, warning flags).
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        in_process: bool = False,
        python_arguments: Sequence[str] = (),
        ready_timeout_s: float = READY_TIMEOUT_S,
        metrics: bool = False,
    ) -> None:
        self._is_temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-") if directory is None else directory)
        if self._is_temporary:
            weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        self.port, self.controller_port = free_ports(2)
        self._properties = dict(properties or {})
        self.metrics_port = free_ports(1)[0] if metrics else 0
        if metrics:
            self._properties["headrace.metrics.listener"] = f"127.0.0.1:{self.metrics_port}"
        self._python_arguments = tuple(python_arguments)
        self._in_process = in_process
        self._ready_timeout_s = ready_timeout_s
        self._running: _Running | None = None

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` for a client."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The node's log directory."""
        return self.directory / "data"

    @property
    def pid(self) -> int:
        """The process id of the running node. Raises OperatorError when it does not run."""
        if self._running is None:
            raise OperatorError("the node does not run: use it in a with statement, or call start()")
        return self._running.pid

    def metrics(self) -> dict[str, float]:
        """What a scraper reads now, by ``name`` or ``name{label="value"}``. Raises OSError: it does not run, or was made without ``metrics=True``."""
        return scrape("127.0.0.1", self.metrics_port)

    def start(self) -> Self:
        """Format the directory if it is new, start, and wait until clients are served. Raises OperatorError if it does not start."""
        settings = self._settings()
        config = parse_node_config(settings)  # refused before anything is made
        self.directory.mkdir(parents=True, exist_ok=True)
        if not (self.data / "meta.properties").exists():
            _format(config)
        if self._in_process:
            self._running = _InThread(config)
        else:
            self._running = _InChild(self.directory, settings, self._python_arguments, self._ready_timeout_s)
        return self

    def stop(self) -> int:
        """Stop cleanly, as SIGTERM does; returns the exit code. The data stays if a directory was given."""
        running, self._running = self._running, None
        return running.stop() if running is not None else 0

    def kill(self) -> None:
        """SIGKILL: what a crash of the process does to it. Raises OperatorError for a node in the test's own process."""
        if self._running is not None:
            self._running.kill()
            self._running = None

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self._properties,
        }

    def __enter__(self) -> Self:
        """Start; what a start that failed has made is removed."""
        try:
            return self.start()
        except BaseException:
            self._remove_temporary()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and remove the temporary data."""
        try:
            self.stop()
        finally:
            self._remove_temporary()

    def _remove_temporary(self) -> None:
        if self._is_temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """``count`` different ports of 127.0.0.1 on which nobody listens at the moment."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def _format(config: NodeConfig) -> None:
    rng = random.SystemRandom()
    order = FormatOrder(cluster_id=random_cluster_id(rng))
    format_directories(
        config, order, files=OsFiles(), rng=rng, date=time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
    )


class _Running(Protocol):
    """A node that runs."""

    @property
    def pid(self) -> int: ...

    def stop(self) -> int: ...

    def kill(self) -> None: ...


class _InThread:
    """A node in a thread of this process."""

    def __init__(self, config: NodeConfig) -> None:
        self._thread = NodeThread(config)
        self._thread.start(READY_TIMEOUT_S)

    @property
    def pid(self) -> int:
        return os.getpid()

    def stop(self) -> int:
        self._thread.stop(STOP_TIMEOUT_S)
        return 0

    def kill(self) -> None:
        raise OperatorError("a node in the test's own process cannot be killed: use Node(in_process=False)")


class _InChild:
    """A node in a child process; its output is in ``node.log`` of its directory."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str],
        python_arguments: Sequence[str],
        ready_timeout_s: float,
    ) -> None:
        self._output = directory / "node.log"
        config = directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = [sys.executable, *python_arguments, "-m", "headrace", "start", str(config)]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        self._wait_until_ready(ready_timeout_s)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self._process.poll() is None and time.monotonic() < deadline:
            if b" ready in " in self._output.read_bytes():
                return
            time.sleep(_POLL_S)
        self.kill()
        raise OperatorError(f"the node did not become ready: {self._output.read_text()[-2000:]}")

    def stop(self) -> int:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
