"""What do the controllers of Apache Kafka 4.3.1 say to each other, from the first vote to a snapshot?

    python tools/record_quorum.py [static] [dynamic]

Starts controllers and a broker with a recording proxy before each controller, stops, kills, pauses and moves them, and
writes ``tests/golden/quorum/<scenario>.tsv.xz``: milliseconds, connection, node that is asked, direction, api key, api
version, frame (base64, without its length); lines that begin with ``#`` say what was done and show each node's quorum-state.
Empty fetches that only repeat are left out. ``--decode FILE`` prints a recording in words.
"""

from __future__ import annotations

import json
import lzma
import os
import signal
import sys
import tempfile
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from headrace.wire.codec import decode, decode_from  # noqa: E402
from headrace.wire.headers import parse_request_header, parse_response_header  # noqa: E402
from headrace.wire.json_view import to_json  # noqa: E402
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest  # noqa: E402
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData  # noqa: E402
from headrace.wire.versions import APIS, request_class, response_class  # noqa: E402
from tests.peers import kafka  # noqa: E402
from tests.peers.recording_proxy import Frame, RecordingProxy  # noqa: E402
from tests.support.raw import RawConnection  # noqa: E402

HERE = ROOT / "tests" / "golden" / "quorum"
HEAP = ("-Xms64m", "-Xmx256m")
DESCRIBE_QUORUM, FETCH = 55, 1
BROKER = 100


class Recording:
    """The lines of one recording; repeated empty fetches of a connection are left out."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._start = time.monotonic()
        self._seen: dict[tuple[int, int, str], bytes] = {}
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        """A line that says what is done."""
        sys.stderr.write(f"{self._now()} {text}\n")
        with self._lock:
            self.lines.append(f"# {self._now()} {text}")

    def keeper(self, node_id: int) -> Callable[[Frame], None]:
        """What keeps the frames of one node's proxy."""

        def keep(frame: Frame) -> None:
            where = (node_id, frame.connection, frame.direction)
            meaning = frame.body[8:] if frame.direction == "request" else frame.body[4:]
            with self._lock:
                if frame.api_key == FETCH and self._seen.get(where) == meaning:
                    return
                self._seen[where] = meaning
                row = (self._now(), frame.connection, node_id, frame.direction, frame.api_key, frame.api_version)
                self.lines.append("\t".join(map(str, row)) + "\t" + b64encode(frame.body).decode())

        return keep

    def _now(self) -> int:
        return round((time.monotonic() - self._start) * 1000)

    def write(self, name: str) -> None:
        """Into the golden directory."""
        (HERE / f"{name}.tsv.xz").write_bytes(lzma.compress("\n".join(self.lines).encode() + b"\n", preset=9))


class Quorum:
    """Controllers of Kafka, each behind a proxy, in one directory."""

    def __init__(self, directory: Path, recording: Recording, stack: ExitStack, *, voters: str | None) -> None:
        self.directory, self.recording, self._stack, self._voters = directory, recording, stack, voters
        self.ports: dict[int, tuple[int, int]] = {}
        self.nodes: dict[int, kafka.Kafka] = {}

    def prepare(self, *node_ids: int) -> None:
        """Ports and a proxy for each."""
        found = kafka.free_ports(2 * len(node_ids))
        for index, node_id in enumerate(node_ids):
            self.ports[node_id] = (found[2 * index], found[2 * index + 1])
            real, shown = self.ports[node_id]
            self._stack.enter_context(RecordingProxy(port=shown, target=real, keep=self.recording.keeper(node_id)))

    def voters(self) -> str:
        """The static voters."""
        return ",".join(f"{each}@127.0.0.1:{shown}" for each, (_, shown) in self.ports.items() if each < BROKER)

    def start(self, node_id: int, *format_arguments: str, **more: str) -> kafka.Kafka:
        """A controller, or the broker."""
        real, shown = self.ports[node_id]
        role = "broker" if node_id >= BROKER else "controller"
        name = "PLAINTEXT" if node_id >= BROKER else "CONTROLLER"
        settings = {
            "process.roles": role,
            "node.id": str(node_id),
            "listeners": f"{name}://127.0.0.1:{real}",
            "advertised.listeners": f"{name}://127.0.0.1:{shown}",
            "controller.quorum.voters": self.voters() if self._voters is None else "",
            **({} if self._voters is None else {"controller.quorum.bootstrap.servers": self._voters}),
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        settings = {key: value for key, value in settings.items() if value}
        node = kafka.Kafka(
            self.directory / str(node_id), port=real, properties=settings, format_arguments=format_arguments, heap=HEAP
        )
        if not settings.get("controller.quorum.voters"):
            lines = node.config.read_text().splitlines(keepends=True)
            node.config.write_text("".join(line for line in lines if not line.startswith("controller.quorum.voters")))
        self.recording.note(f"start {node_id} {' '.join(format_arguments)} {more or ''}")
        self.nodes[node_id] = node.start()
        self._stack.callback(node.kill)
        return node

    def leader(self) -> int:
        """Wait for a leader that every running controller agrees on; its id."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for node_id, node in self.nodes.items():
                if node_id < BROKER and node.process is not None and node.process.poll() is None:
                    found = describe(node.port)
                    if found is not None and found > 0:
                        return found
            time.sleep(0.1)
        raise AssertionError("no leader")

    def settle(self, seconds: float = 2.0) -> int:
        """Wait for a leader, let the conversation go on for a while, and note the states."""
        leader = self.leader()
        time.sleep(seconds)
        self.recording.note(f"leader {leader}")
        for node_id, node in sorted(self.nodes.items()):
            state = node.data / "__cluster_metadata-0" / "quorum-state"
            if state.exists():
                self.recording.note(f"quorum-state of {node_id}: {state.read_text().strip()}")
        return leader

    def terminate(self, node_id: int) -> None:
        """SIGTERM and wait."""
        self.recording.note(f"SIGTERM {node_id}")
        self.nodes[node_id].stop()
        self.recording.note(f"{node_id} has stopped")

    def kill(self, node_id: int) -> None:
        """SIGKILL."""
        self.recording.note(f"SIGKILL {node_id}")
        self.nodes[node_id].kill()

    def signal(self, node_id: int, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT."""
        self.recording.note(f"{number.name} {node_id}")
        process = self.nodes[node_id].process
        assert process is not None
        os.kill(process.pid, number)

    def tool(self, *arguments: str) -> None:
        """kafka-metadata-quorum."""
        self.recording.note(f"kafka-metadata-quorum {' '.join(arguments)}")
        done = kafka.run_tool("kafka-metadata-quorum", *arguments)
        self.recording.note(json.dumps({"exit": done.returncode, "out": done.stdout, "err": done.stderr[-2000:]}))


def describe(port: int) -> int | None:
    """The leader that a controller answers itself to be."""
    request = DescribeQuorumRequest(
        topics=(
            RequestTopicData(topic_name="__cluster_metadata", partitions=(RequestPartitionData(partition_index=0),)),
        )
    )
    try:
        with RawConnection(port) as connection:
            answer = connection.ask(request, 2)
    except (OSError, EOFError):
        return None
    part = answer.topics[0].partitions[0] if answer.topics else None
    return part.leader_id if part is not None and part.error_code == 0 else None


def create_topic(port: int, name: str) -> None:
    """A topic, by the broker."""
    with RawConnection(port) as connection:
        connection.ask(
            CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=3, replication_factor=1),)), 7
        )


def static(directory: Path, recording: Recording, stack: ExitStack) -> None:
    """Three static voters, then a stop, a kill, a pause."""
    quorum = Quorum(directory, recording, stack, voters=None)
    quorum.prepare(1, 2, 3, BROKER)
    for node_id in (1, 2, 3):
        quorum.start(node_id, *kafka.plain_features())
    quorum.settle()
    broker = quorum.start(BROKER)
    time.sleep(3)
    recording.note("create topic")
    create_topic(broker.port, "one")
    leader = quorum.settle()
    quorum.terminate(leader)
    quorum.settle()
    quorum.start(leader)
    leader = quorum.settle()
    quorum.kill(leader)
    quorum.settle()
    quorum.start(leader)
    leader = quorum.settle()
    quorum.signal(leader, signal.SIGSTOP)
    time.sleep(5)
    quorum.signal(leader, signal.SIGCONT)
    quorum.settle(4)
    for node_id in (BROKER, 1, 2, 3):
        quorum.terminate(node_id)


def dynamic(directory: Path, recording: Recording, stack: ExitStack) -> None:
    """A quorum of one that grows to three, moves, snapshots, shrinks; the last joins by itself."""
    first = kafka.free_ports(1)[0]
    quorum = Quorum(directory, recording, stack, voters=f"127.0.0.1:{first}")
    quorum.ports[1] = (kafka.free_ports(1)[0], first)
    stack.enter_context(RecordingProxy(port=first, target=quorum.ports[1][0], keep=recording.keeper(1)))
    quorum.prepare(2, 3, 4)
    small = {
        "metadata_log_max_record_bytes_between_snapshots": "2000",
        "internal_metadata_log_segment_bytes": "8192",
        "metadata_max_retention_bytes": "4000",
        "metadata_max_idle_interval_ms": "50",
    }
    quorum.start(1, "--standalone", *kafka.plain_features(), **small)
    quorum.settle()
    for node_id in (2, 3):
        node = quorum.start(node_id, "--no-initial-controllers", **small)
        time.sleep(3)
        quorum.tool(
            "--bootstrap-controller", f"127.0.0.1:{first}", "--command-config", str(node.config), "add-controller"
        )
        quorum.settle()
    quorum.terminate(2)
    real, shown = kafka.free_ports(2)
    quorum.ports[2] = (real, shown)
    stack.enter_context(RecordingProxy(port=shown, target=real, keep=recording.keeper(2)))
    quorum.start(2, **small)
    leader = quorum.settle(4)
    identity = (quorum.nodes[3].data / "meta.properties").read_text()
    directory_id = next(line.split("=", 1)[1] for line in identity.splitlines() if line.startswith("directory.id"))
    quorum.tool("--bootstrap-controller", f"127.0.0.1:{first}", "remove-controller", "-i", "3", "-d", directory_id)
    quorum.settle()
    quorum.start(4, "--no-initial-controllers", **small, controller_quorum_auto_join_enable="true")
    quorum.settle(8)
    quorum.tool("--bootstrap-controller", f"127.0.0.1:{first}", "describe", "--replication")
    identity = (quorum.nodes[leader].data / "meta.properties").read_text()
    directory_id = next(line.split("=", 1)[1] for line in identity.splitlines() if line.startswith("directory.id"))
    quorum.tool(
        "--bootstrap-controller",
        f"127.0.0.1:{quorum.ports[4][1]}",
        "remove-controller",
        "-i",
        str(leader),
        "-d",
        directory_id,
    )
    quorum.settle(4)
    for node_id in (1, 2, 3, 4):
        quorum.terminate(node_id)


def show(path: Path) -> None:
    """A recording in words."""
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        if line.startswith("#"):
            sys.stdout.write(line + "\n")
            continue
        at, connection, node_id, direction, key, version, body = line.split("\t")
        frame = b64decode(body)
        api_key, api_version = int(key), int(version)
        if direction == "request":
            header = parse_request_header(frame)
            message, _ = decode_from(request_class(api_key), frame, header.body, api_version)
            sign = f"-> {node_id} [{header.client_id} #{header.correlation_id}]"
        else:
            correlation_id, start = parse_response_header(frame, api_key=api_key, api_version=api_version)
            message = decode(response_class(api_key), frame[start:], api_version)
            sign = f"<- {node_id} [#{correlation_id}]"
        shown = json.dumps(to_json(message, api_version, records_as_size=True), separators=(",", ":"))
        sys.stdout.write(f"{at} c{connection} {sign} {APIS[api_key].name} v{api_version} {shown}\n")


def main(arguments: list[str]) -> None:
    """The program of this file's docstring."""
    if arguments[:1] == ["--decode"]:
        show(Path(arguments[1]))
        return
    for name, scenario in (("static", static), ("dynamic", dynamic)):
        if not arguments or name in arguments:
            recording = Recording()
            with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
                try:
                    scenario(Path(directory), recording, stack)
                finally:
                    recording.write(name)


if __name__ == "__main__":
    main(sys.argv[1:])
