"""One node of a test's cluster as a process: formatted, started, paused, killed, moved to other ports."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.server.formatting import FormatOrder, format_directories
from headrace.storage.os_files import OsFiles
from headrace.testing.control import Control
from headrace.testing.metrics import scrape
from headrace.testing.node import READY_TIMEOUT_S, STOP_TIMEOUT_S

_POLL_S = 0.005
_TAIL = 3_000
_PORTS = range(10_000, 32_000)


def lasting_ports(count: int) -> list[int]:
    """Different ports on which nobody listens, and which no outgoing connection is given while a node is down."""
    found: list[int] = []
    rng = random.SystemRandom()
    while len(found) < count:
        port = rng.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a node runs: the address it listens on, and what stands before its command (``ip netns exec left``)."""

    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Member:
    """One node of a cluster as a child process. `port` and `controller_port` are 0 where the node has no such listener.

    `properties` are lines of server.properties and win over what the cluster says. The output of all its lives is in `log`.
    One that `can_be_cut` has a process group of its own, ends with this process, and can be cut off from others (`Cluster.partition`);
    with `dies_with_me` it ends with this process even while it is paused (Linux; started by the main thread).
    """

    node_id: int
    roles: frozenset[str]
    directory: Path
    place: Place = Place()
    properties: dict[str, str] = field(default_factory=dict)
    port: int = 0
    controller_port: int = 0
    metrics_port: int = 0
    process: subprocess.Popen[bytes] | None = None
    can_be_cut: bool = False
    dies_with_me: bool = False
    is_paused: bool = False
    control: Control | None = None
    _log_start: int = 0

    def __post_init__(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.move()

    def move(self) -> None:
        """Take other free ports; used from the next start on."""
        self.stand(*lasting_ports(2))

    def stand(self, port: int, controller_port: int) -> None:
        """Listen there, as far as it has such listeners; used from the next start on."""
        self.port, self.controller_port = port, controller_port
        if not self.is_broker:
            self.port = 0
        if not self.is_controller:
            self.controller_port = 0

    def show_metrics(self) -> None:
        """Answer ``GET /metrics`` from the next start on."""
        self.show_metrics_on(*lasting_ports(1))

    def show_metrics_on(self, port: int) -> None:
        """The same on this port."""
        self.metrics_port = port
        self.properties["headrace.metrics.listener"] = f"{self.place.host}:{self.metrics_port}"

    def metrics(self) -> dict[str, float]:
        """What a scraper reads now, by ``name`` or ``name{label="value"}``. Raises OSError."""
        return scrape(self.place.host, self.metrics_port)

    @property
    def is_controller(self) -> bool:
        """Of the metadata quorum, or meant to be."""
        return "controller" in self.roles

    @property
    def is_broker(self) -> bool:
        """Serves clients."""
        return "broker" in self.roles

    @property
    def data(self) -> Path:
        """The log directory."""
        return self.directory / "data"

    @property
    def metadata_log(self) -> Path:
        """The directory of the metadata partition."""
        return self.data / "__cluster_metadata-0"

    @property
    def config(self) -> Path:
        """The properties file of the latest start or format."""
        return self.directory / "server.properties"

    @property
    def log(self) -> Path:
        """What the process wrote, of all its lives."""
        return self.directory / "node.log"

    @property
    def directory_id(self) -> str:
        """The id of the formatted log directory."""
        lines = (self.data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))

    @property
    def pid(self) -> int:
        """The process id. Raises OperatorError when it does not run."""
        if self.process is None or self.process.poll() is not None:
            raise OperatorError(f"node {self.node_id} does not run")
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Started, and not ended; a paused node runs."""
        return self.process is not None and self.process.poll() is None

    def settings(self, quorum: Mapping[str, str]) -> dict[str, str]:
        """Its server.properties; `quorum` says how to find the controllers."""
        host = self.place.host
        listeners = [f"PLAINTEXT://{host}:{self.port}"] if self.is_broker else []
        listeners += [f"CONTROLLER://{host}:{self.controller_port}"] if self.is_controller else []
        return {
            "process.roles": ",".join(sorted(self.roles)),
            "node.id": str(self.node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            **quorum,
            **self.properties,
        }

    def write_config(self, quorum: Mapping[str, str]) -> None:
        """Write the properties file."""
        self.config.write_text("".join(f"{key}={value}\n" for key, value in self.settings(quorum).items()))

    def format(self, order: FormatOrder, quorum: Mapping[str, str]) -> None:
        """Format the log directory. Raises OperatorError when it was formatted before."""
        self.write_config(quorum)
        date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime())
        config = parse_node_config(self.settings(quorum))
        format_directories(config, order, files=OsFiles(), rng=random.SystemRandom(), date=date)

    @property
    def addresses(self) -> list[str]:
        """`host:port` of its listeners."""
        return [f"{self.place.host}:{port}" for port in (self.port, self.controller_port) if port]

    def command(self) -> Sequence[str]:
        """What is run, without the place's prefix."""
        if self.control is not None:
            return [sys.executable, *self.control.arguments, str(self.config)]
        return [sys.executable, "-m", "headrace", "start", str(self.config)]

    def environment(self) -> dict[str, str] | None:
        """The process's environment; None: this one's."""
        return None

    def launch(self, quorum: Mapping[str, str]) -> None:
        """Start the process and return at once."""
        assert not self.is_running, f"node {self.node_id} runs already"
        self.write_config(quorum)
        self._log_start = self.log.stat().st_size if self.log.exists() else 0
        self.is_paused = False
        self._forget_control()
        if self.can_be_cut:
            self.control = Control(dies_with_me=self.dies_with_me)
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [*self.place.prefix, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment(),
                pass_fds=() if self.control is None else (self.control.descriptor,),
                process_group=None if self.control is None else 0,  # a Ctrl-C is the parent's to pass on, once
            )
        if self.control is not None:
            self.control.started()

    def _forget_control(self) -> None:
        control, self.control = self.control, None
        if control is not None:
            control.close()

    def is_ready(self) -> bool:
        """Whether it has said so since its latest launch."""
        with self.log.open("rb") as output:
            output.seek(self._log_start)
            return b" ready in " in output.read()

    def is_listening(self) -> bool:
        """Whether its first listener takes connections."""
        try:
            socket.create_connection((self.place.host, self.port or self.controller_port), 1).close()
        except OSError:
            return False
        return True

    def wait_until_ready(self, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Raises OperatorError, with the end of its log: it ended, or was not ready in time."""
        deadline = time.monotonic() + timeout_s
        while not self.is_ready():
            if not self.is_running or time.monotonic() > deadline:
                what = "did not become ready" if self.is_running else "ended"
                raise OperatorError(f"node {self.node_id} {what}:\n{self.log_tail()}")
            time.sleep(_POLL_S)

    def log_tail(self, size: int = _TAIL) -> str:
        """The end of its log, in bytes."""
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else ""

    def terminate(self) -> None:
        """SIGTERM; does not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_until_ended(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """The exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None
        return self.process.wait(timeout_s)

    def stop(self) -> int:
        """Stop cleanly, also after `terminate`; the exit code (0 when it never ran)."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGCONT)  # nothing to a process that has ended, which may be at any moment
        self.process.send_signal(signal.SIGTERM)
        self.is_paused = False
        try:
            return self.wait_until_ended()
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait for the end; nothing when it does not run."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._forget_control()

    def pause(self) -> None:
        """SIGSTOP: alive to the kernel, silent to everybody."""
        os.kill(self.pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self.is_paused = False
