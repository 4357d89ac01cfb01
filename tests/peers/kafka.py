"""How do tests and benchmarks get a real Apache Kafka: its brokers, controllers and tools?

The jars come from Maven Central once, into a cache directory. As a program::

    python tests/peers/kafka.py install                      fetch the jars; print where they are
    python tests/peers/kafka.py run TOOL ARGS...             one of Kafka's own tools, e.g. run kafka-topics --list ...
    python tests/peers/kafka.py single DIR PORT [KEY=VAL...] one combined node in the foreground (controller on PORT+1)
    python tests/peers/kafka.py definitions DIR              unpack Kafka's message definitions (JSON)

Environment: KAFKA_VERSION (4.3.1), HEADRACE_PEERS (cache directory), KAFKA_HEAP_OPTS.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

VERSION = os.environ.get("KAFKA_VERSION", "4.3.1")
CACHE = Path(os.environ.get("HEADRACE_PEERS", Path.home() / ".cache" / "headrace-peers"))
HOME = CACHE / f"kafka-{VERSION}"
ARCHIVE = HOME / "classes.jsa"
"""Made by class_archive.py, used where a JVM's start counts."""
QUICK_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""For programs that end soon: the first compiler alone, with the room for code that both have. Its own 48 MB are full after some hundreds of queries."""
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
# What a Kafka needs at format to share a directory or a cluster with a node that has not built these features.
PLAIN_FEATURES = (
    "group.version",
    "transaction.version",
    "share.version",
    "streams.version",
)

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}

_HURT_BY_HASTE = frozenset({"org.apache.kafka.shell.MetadataShell"})
"""The shell waits for ever for a snapshot that was loaded before it looked; with a quick start that is one run of twenty."""

_MOST_HANGS, _HANGS_AFTER_S = 4, 60

_LOG4J = """Configuration:
  Appenders: {Console: {name: E, target: SYSTEM_ERR, PatternLayout: {pattern: "[%d] %p %m (%c)%n"}}}
  Loggers: {Root: {level: "${env:KAFKA_LOG_LEVEL:-warn}", AppenderRef: {ref: E}}}
"""


def is_available() -> bool:
    """Are the programs there that fetch and run Kafka (java and mvn)?"""
    return shutil.which("java") is not None and (shutil.which("mvn") is not None or (HOME / ".done").exists())


@contextmanager
def fetched_once(home: Path) -> Iterator[bool]:
    """Is what belongs into this directory still to be fetched? One process at a time is told so; it is done when the block ends well."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        is_missing = not (home / ".done").exists()
        yield is_missing
        if is_missing:
            (home / ".done").touch()


def copy_jars(pom: str, to: Path, *options: str) -> None:
    """Have Maven copy the jars that a file beside this one names."""
    command = ["mvn", "-q", "-B", "-f", str(Path(__file__).with_name(pom)), *options, "dependency:copy-dependencies"]
    subprocess.run([*command, f"-DoutputDirectory={to}"], check=True, stdout=sys.stderr, timeout=900)


def install() -> Path:
    """Fetch the jars once; safe to call from several processes. Returns the directory that holds ``libs``."""
    with fetched_once(HOME) as is_missing:
        if is_missing:
            copy_jars("pom.xml", HOME / "libs", f"-Dkafka.version={VERSION}")
            (HOME / "log4j2.yaml").write_text(_LOG4J)
    return HOME


def java_command(
    main: str,
    *arguments: str,
    heap: Sequence[str] = ("-Xms64m", "-Xmx256m"),
    quick: bool = True,
    jars: Sequence[str] = (),
) -> list[str]:
    """The command line that runs one class of Kafka's: with a short start-up, or with the JVM as Kafka's own scripts set it.

    `jars` stand behind Kafka's on the class path, where the class archive allows them.
    """
    home = install()
    options = os.environ.get("KAFKA_HEAP_OPTS", "").split() or list(heap)
    if not quick:
        options.append("-XX:+UseG1GC")
    else:
        options += QUICK_JVM
        if ARCHIVE.exists() and main not in _HURT_BY_HASTE:  # if it suits this JVM; else nothing is said of it
            options += [f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:disable"]
    return [
        "java",
        *options,
        f"-Dlog4j2.configurationFile={home / 'log4j2.yaml'}",
        "-cp",
        ":".join([f"{home}/libs/*", *jars]),
        main,
        *arguments,
    ]


def run_main(
    main: str, arguments: Sequence[str], stdin: str | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """Run one class of Kafka's to its end, in a process of its own."""
    command = java_command(main, *arguments)
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)


Runner = Callable[[str, Sequence[str], str | None, float], subprocess.CompletedProcess[str]]
tool_runner: Runner = run_main
"""What runs the tools; tests put one in its place that starts no JVM each time (shared_jvm.py)."""


def run_tool(
    tool: str, *arguments: str, stdin: str | None = None, timeout_s: float = 120, check: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run one of Kafka's own tools to its end; its output is text. With ``check`` a non-zero exit raises."""
    done = _run_to_end(TOOLS.get(tool, tool), arguments, stdin, timeout_s)
    if check and done.returncode:
        raise AssertionError(f"{tool} {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def _run_to_end(
    main: str, arguments: Sequence[str], stdin: str | None, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    """The shell is run again where it waits for ever."""
    for _ in range(_MOST_HANGS if main in _HURT_BY_HASTE else 0):
        with suppress(subprocess.TimeoutExpired):
            return tool_runner(main, arguments, stdin, _HANGS_AFTER_S)
    return tool_runner(main, arguments, stdin, timeout_s)


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class Kafka:
    """One combined Kafka node as a child process; used as a context manager, or by start, stop and kill."""

    directory: Path
    port: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    format_arguments: Sequence[str] = ()
    heap: Sequence[str] = ("-Xms256m", "-Xmx512m")
    quick: bool = True
    process: subprocess.Popen[bytes] | None = None
    controller_port: int = 0

    def __post_init__(self) -> None:
        """Choose the ports and write the server's properties."""
        if not self.port:
            self.port, self.controller_port = free_ports(2)
        self.controller_port = self.controller_port or self.port + 1
        self.directory.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **self.properties,
        }
        self.config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    @property
    def bootstrap(self) -> str:
        """``host:port`` of the client listener."""
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory."""
        return self.directory / "data"

    @property
    def config(self) -> Path:
        """The properties file."""
        return self.directory / "server.properties"

    def format(self) -> None:
        """Format the directory if it is new."""
        if not (self.data / "meta.properties").exists():
            run_tool(
                "kafka-storage", "format", "-t", CLUSTER_ID, "-c", str(self.config), *self.format_arguments, check=True
            )

    def start(self, timeout_s: float = 60) -> Kafka:
        """Format if needed, start, and wait until the client listener answers."""
        self.format()
        command = java_command("kafka.Kafka", str(self.config), heap=self.heap, quick=self.quick)
        with (self.directory / "kafka.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                time.sleep(0.05)
                continue
            return self
        self.kill()
        raise AssertionError("Kafka did not start:\n" + (self.directory / "kafka.log").read_text()[-4000:])

    def stop(self, timeout_s: float = 60) -> int:
        """SIGTERM and wait; returns the exit code (143 after a clean stop)."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout_s)
        finally:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def __enter__(self) -> Kafka:
        """Start."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop, at once if it does not stop by itself."""
        if self.process is not None and self.process.poll() is None:
            self.stop()


@contextmanager
def running_kafka(directory: Path, **settings: str) -> Iterator[Kafka]:
    """A Kafka with the given server properties (dots written as underscores)."""
    with Kafka(directory, properties={key.replace("_", "."): value for key, value in settings.items()}) as kafka:
        yield kafka


def plain_features() -> list[str]:
    """Format arguments that leave the features at 0 that Headrace has not built."""
    return [part for name in PLAIN_FEATURES for part in ("-f", f"{name}=0")]


def definitions(target: Path) -> int:
    """Unpack Kafka's message definitions below ``target``; returns how many."""
    count = 0
    for jar in sorted((install() / "libs").glob(f"kafka-*{VERSION}.jar")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.startswith("common/") and name.endswith(".json"):
                    archive.extract(name, target)
                    count += 1
    return count


def main(arguments: Sequence[str]) -> int:
    """The program of this file's docstring."""
    match list(arguments):
        case ["install"]:
            sys.stdout.write(f"{install()}\n")
        case ["run", tool, *rest]:
            return subprocess.run(java_command(TOOLS.get(tool, tool), *rest), check=False).returncode
        case ["single", directory, port, *pairs]:
            kafka = Kafka(Path(directory), int(port), dict(each.split("=", 1) for each in pairs), quick=False)
            kafka.format()
            command = java_command("kafka.Kafka", str(kafka.config), heap=("-Xms512m", "-Xmx1g"), quick=False)
            return subprocess.run(command, check=False).returncode
        case ["definitions", directory]:
            sys.stdout.write(f"{definitions(Path(directory))}\n")
        case _:
            sys.stdout.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
