"""How is a real node started and stopped inside a test, and what is left behind? Nothing is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.core.errors import OperatorError

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 30.0


def free_ports(count: int) -> list[int]:
    """``count`` different ports of 127.0.0.1 on which nobody listens at the moment."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Node:
    """One combined broker and controller as a child process of the test, on random ports and temporary data.

    ``properties`` are server.properties lines that win over the defaults (``{"log.retention.ms": "1000"}``).
    ``python_arguments`` go between the interpreter and ``-m headrace`` (a profiler, warning flags).
    With ``directory`` the data stays there after the stop and a later ``Node`` on it goes on with it.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        directory: Path | None = None,
        python_arguments: Sequence[str] = (),
    ) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="headrace-") if directory is None else None
        self.directory = Path(self._temporary.name) if self._temporary else Path(directory or ".")
        self.port, self.controller_port = free_ports(2)
        self._properties = dict(properties or {})
        self._python = [sys.executable, *python_arguments]
        self._process: subprocess.Popen[bytes] | None = None

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
        if self._process is None:
            raise OperatorError("the node was not started: use it in a with statement, or call start()")
        return self._process.pid

    def start(self) -> Self:
        """Format if new, start, and wait until the client listener answers. Raises OperatorError with the node's output."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "server.properties"
        config.write_text("".join(f"{key}={value}\n" for key, value in self._settings().items()))
        if not (self.data / "meta.properties").exists():
            form = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "headrace",
                    "storage",
                    "format",
                    "--cluster-id",
                    "5L6g3nShT-eMCtK--X86sw",
                    "--config",
                    str(config),
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            if form.returncode:
                raise OperatorError(f"the data directory could not be formatted: {form.stdout}{form.stderr}")
        with (self.directory / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._python, "-m", "headrace", "start", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._wait_until_ready(self._process)
        return self

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

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while process.poll() is None and time.monotonic() < deadline:
            if b"ready" in (self.directory / "node.log").read_bytes():
                return
            time.sleep(0.005)
        self.kill()
        raise OperatorError(f"the node did not become ready: {(self.directory / 'node.log').read_text()[-2000:]}")

    def stop(self) -> int:
        """Stop cleanly (SIGTERM); returns the exit code. The data stays if a directory was given."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL: what a crash of the process does to it."""
        if self._process is not None and self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and remove the temporary data."""
        try:
            self.stop()
        finally:
            if self._temporary is not None:
                self._temporary.cleanup()
