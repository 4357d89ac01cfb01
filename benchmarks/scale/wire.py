"""What does a controller cost that runs as a process of its own, ours and Apache Kafka's, asked the same through the same client?

A controller without brokers; the brokers are registrations that this program makes. All requests go to the controller's listener.
"""

from __future__ import annotations

import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from benchmarks.scale.load import Shape, heartbeat, one_more, registration
from headrace.testing import Node
from headrace.wire.codec import decode
from headrace.wire.headers import framed_request, parse_response_header
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.schema import Message
from headrace.wire.versions import response_class
from tests.peers import kafka

SETTINGS = {"broker.session.timeout.ms": "36000000", "auto.leader.rebalance.enable": "false"}
SMALL_CHANGES = 200
TIMEOUT_S = 1_200.0
VERSIONS = {0: 9, 19: 7, 20: 6, 43: 2, 45: 1, 56: 3, 60: 1, 62: 4, 63: 1}
CONTROLLERS = 2
"""DescribeCluster.EndpointType of controllers."""
_LENGTH = struct.Struct(">i")


class Link:
    """One connection to a controller; one request after the other."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0

    def ask(self, request: Message) -> Any:
        """The decoded answer. Raises OSError."""
        key = request.SCHEMA.api_key
        version = VERSIONS[key]
        self._correlation += 1
        self._socket.sendall(framed_request(request, version, correlation_id=self._correlation, client_id="benchmark"))
        (size,) = _LENGTH.unpack(self._exactly(4))
        frame = self._exactly(size)
        _, start = parse_response_header(frame, api_key=key, api_version=version)
        return decode(response_class(key), frame[start:], version)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(min(1 << 20, size - len(data)))
            if not part:
                raise ConnectionError("the controller closed the connection")
            data += part
        return bytes(data)

    def __enter__(self) -> Self:
        """Open already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self._socket.close()


@dataclass
class Controller:
    """One running controller: where it listens, its process, its metadata log."""

    name: str
    port: int
    pid: int
    log: Path
    kill: Callable[[], object]
    restart: Callable[[], Controller]

    def log_bytes(self) -> int:
        """Bytes of the segments of the metadata log; indexes and snapshots do not count."""
        return sum(each.stat().st_size for each in (self.log / "__cluster_metadata-0").glob("*.log"))

    def resident(self) -> int:
        """Resident bytes of the process."""
        return int(psutil.Process(self.pid).memory_info().rss)


def headrace(directory: Path) -> Controller:
    """A Headrace controller in a process of its own."""
    node = Node(directory=directory)
    port = node.controller_port
    node = Node(
        directory=directory,
        ready_timeout_s=TIMEOUT_S,
        properties={
            **SETTINGS,
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{port}",
        },
    ).start()
    return Controller("headrace", port, node.pid, node.data, node.kill, lambda: headrace(directory))


def apache_kafka(directory: Path) -> Controller:
    """An Apache Kafka controller, with its usual garbage collector and a heap of 1 GB."""
    (port,) = kafka.free_ports(1)
    peer = kafka.Kafka(
        directory,
        port=port,
        controller_port=port,
        properties={
            **SETTINGS,
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{port}",
        },
        format_arguments=kafka.plain_features(),
        heap=("-Xms512m", "-Xmx1g"),
        quick=False,
    ).start(120)
    assert peer.process is not None
    return Controller("kafka", port, peer.process.pid, peer.data, peer.kill, lambda: apache_kafka(directory))


def measure(shape: Shape, start: Callable[[Path], Controller], base: Path) -> dict[str, float]:
    """All figures of one shape on one system; its data are removed."""
    directory = Path(tempfile.mkdtemp(prefix="scale-", dir=base))
    found: dict[str, float] = {}
    controller = start(directory)
    try:
        with Link(controller.port) as link:
            epochs = register_brokers(link, shape.brokers)
            _create(controller, link, shape, found)
            _small_changes(link, found)
            _lose_broker(controller, link, epochs[1], found)
        controller.kill()
        before = time.monotonic()
        controller = controller.restart()
        _first_decision(controller)
        found["restart_to_first_decision_s"] = time.monotonic() - before
    finally:
        controller.kill()
        shutil.rmtree(directory, ignore_errors=True)
    return found


def register_brokers(link: Link, brokers: int, *, first: int = 1) -> dict[int, int]:
    """Brokers `first`, `first` + 1, ... register and are unfenced; their epochs."""
    cluster_id = link.ask(DescribeClusterRequest(endpoint_type=CONTROLLERS)).cluster_id
    epochs = {}
    for broker_id in range(first, first + brokers):
        answer = _until_no_error(link, registration(broker_id, cluster_id))
        epochs[broker_id] = answer.broker_epoch
        while link.ask(heartbeat(broker_id, answer.broker_epoch)).is_fenced:
            time.sleep(0.01)
    return epochs


def _until_no_error(link: Link, request: Message) -> Any:
    deadline = time.monotonic() + 30
    while True:
        answer = link.ask(request)
        if answer.error_code == 0 or time.monotonic() > deadline:
            assert answer.error_code == 0, answer
            return answer
        time.sleep(0.05)


def _create(controller: Controller, link: Link, shape: Shape, found: dict[str, float]) -> None:
    bytes_before, resident_before = controller.log_bytes(), controller.resident()
    before = time.monotonic()
    for request in shape.creations():
        answer = link.ask(request)
        assert all(each.error_code == 0 for each in answer.topics), answer.topics[0]
    found["create_partitions_per_s"] = shape.partitions / (time.monotonic() - before)
    found["log_bytes_per_new_partition"] = (controller.log_bytes() - bytes_before) / shape.partitions
    found["resident_growth_per_partition"] = (controller.resident() - resident_before) / shape.partitions
    found["resident_mb"] = controller.resident() / 1e6


def _small_changes(link: Link, found: dict[str, float]) -> None:
    times = []
    for number in range(SMALL_CHANGES):
        before = time.monotonic()
        assert link.ask(one_more(number)).topics[0].error_code == 0
        times.append(time.monotonic() - before)
    times.sort()
    found["one_change_ms_p50"] = times[len(times) // 2] * 1e3
    found["one_change_ms_p99"] = times[len(times) * 99 // 100] * 1e3


def _lose_broker(controller: Controller, link: Link, epoch: int, found: dict[str, float]) -> None:
    bytes_before = controller.log_bytes()
    before = time.monotonic()
    answer = link.ask(heartbeat(1, epoch, want_fence=True))
    found["loss_answered_s"] = time.monotonic() - before
    assert (answer.error_code, answer.is_fenced) == (0, True)
    found["loss_log_bytes"] = controller.log_bytes() - bytes_before


def _first_decision(controller: Controller) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            with Link(controller.port) as link:
                if link.ask(one_more(SMALL_CHANGES)).topics[0].error_code == 0:
                    return
        except OSError:
            pass
        time.sleep(0.02)
    raise SystemExit(f"{controller.name} decides nothing after its restart")
