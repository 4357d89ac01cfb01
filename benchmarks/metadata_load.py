"""How fast are metadata changes under load, on a quorum of three, and beside one synchronous quorum write for each partition path?

``python -m benchmarks.metadata_load [--operations 300] [--partitions 10] [--clients 32] [--dry]``. S4-64, S4-65, KIP-631: topics are created,
their ISRs shrink, their replicas are reassigned, and they are deleted, by several clients at once, on three controllers and on three nodes
that are brokers too; and the same creations on the baseline: three stores as processes on the same disk, where every path of a topic (its settings, its assignment, the state of each partition) is one record that is written, synced and
acknowledged by a majority before the next, as ZooKeeper's controller of old wrote them. Exit code 1 when either of ours is not faster in
operations a second and in p99. The result goes to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from rich.console import Console
from rich.table import Table

import headrace
from benchmarks.scale.wire import SETTINGS, Link, register_brokers
from headrace.core.ids import Uuid
from headrace.testing import Cluster
from headrace.testing.node import free_ports
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.schema import Message

RESULTS: Final = Path(__file__).parent / "results"
STORES = 3
REPLICAS = (201, 202, 203)
"""The brokers that the program registers, and the replicas of every partition."""
KINDS: Final = {"controllers": False, "combined nodes": True}
"""What the quorum is made of -> whether its nodes are brokers too."""
STOPS_AT_ONCE: Final = {"controlled.shutdown.enable": "false"}
"""All nodes end together, and sessions are endless: nobody is left to let a broker go."""
RECORD_BYTES = 120
"""About what one state znode of a partition holds."""
_LENGTH = struct.Struct(">i")


class Figures(NamedTuple):
    """One workload: operations a second, and how long one takes in ms."""

    per_s: float
    p50_ms: float
    p99_ms: float


class Load(NamedTuple):
    """How much is asked: operations in all, partitions of a topic, clients at once."""

    operations: int
    partitions: int
    clients: int


def timed(load: Load, operation: Callable[[int], None]) -> Figures:
    """Every operation once, by several clients at once."""

    def one(number: int) -> float:
        before = time.perf_counter()
        operation(number)
        return (time.perf_counter() - before) * 1e3

    before = time.perf_counter()
    with ThreadPoolExecutor(load.clients) as clients:
        times = sorted(clients.map(one, range(load.operations)))
    spent = time.perf_counter() - before
    return Figures(load.operations / spent, times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)])


class Topics:
    """The workloads on one quorum: requests of brokers and clients to the active controller, each client on its own connection."""

    def __init__(self, port: int, load: Load) -> None:
        self._port = port
        self._load = load
        self._own = threading.local()
        self._links = contextlib.ExitStack()
        self._ids: dict[int, Uuid] = {}
        with Link(port) as link:
            self._epochs = register_brokers(link, len(REPLICAS), first=REPLICAS[0])

    def close(self) -> None:
        """Close the connections of all clients."""
        self._links.close()

    def _ask(self, request: Message) -> Any:
        if not hasattr(self._own, "link"):
            self._own.link = self._links.enter_context(Link(self._port))
        return self._own.link.ask(request)

    def create(self, number: int) -> None:
        """A topic; the first of the brokers leads all its partitions."""
        assignments = tuple(
            CreatableReplicaAssignment(partition_index=each, broker_ids=REPLICAS)
            for each in range(self._load.partitions)
        )
        topic = CreatableTopic(name=f"t{number}", num_partitions=-1, replication_factor=-1, assignments=assignments)
        answer = self._ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000))
        assert answer.topics[0].error_code == 0, answer
        self._ids[number] = answer.topics[0].topic_id

    def shrink(self, number: int) -> None:
        """The last broker leaves the ISR of every partition of a topic."""
        partitions = tuple(
            RequestPartitionData(
                partition_index=each,
                new_isr_with_epochs=tuple(
                    BrokerState(broker_id=member, broker_epoch=self._epochs[member]) for member in REPLICAS[:2]
                ),
            )
            for each in range(self._load.partitions)
        )
        topic = RequestTopicData(topic_id=self._ids[number], partitions=partitions)
        leader = REPLICAS[0]
        request = AlterPartitionRequest(broker_id=leader, broker_epoch=self._epochs[leader], topics=(topic,))
        answer = self._ask(request)
        assert {each.error_code for each in answer.topics[0].partitions} == {0}, answer

    def reassign(self, number: int) -> None:
        """The last broker is taken out of the replicas, which needs no copying."""
        partitions = tuple(
            ReassignablePartition(partition_index=each, replicas=REPLICAS[:2]) for each in range(self._load.partitions)
        )
        topic = ReassignableTopic(name=f"t{number}", partitions=partitions)
        answer = self._ask(AlterPartitionReassignmentsRequest(topics=(topic,), timeout_ms=60_000))
        assert {each.error_code for each in answer.responses[0].partitions} == {0}, answer

    def delete(self, number: int) -> None:
        """The topic goes."""
        state = DeleteTopicState(name=f"t{number}")
        answer = self._ask(DeleteTopicsRequest(topics=(state,), timeout_ms=60_000))
        assert answer.responses[0].error_code == 0, answer


def measure_headrace(load: Load, *, combined: bool) -> dict[str, Figures]:
    """Three nodes as processes; the partitions lie on registrations that this program makes, so that no data plane takes part.

    `combined`: they are brokers too, and apply every change once more.
    """
    with (
        Cluster(controllers=3, combined=combined, properties=SETTINGS | STOPS_AT_ONCE) as cluster,
        contextlib.closing(Topics(cluster.leader().controller_port, load)) as topics,
    ):
        return {
            "create topics": timed(load, topics.create),
            "ISRs shrink": timed(load, topics.shrink),
            "reassign": timed(load, topics.reassign),
            "delete topics": timed(load, topics.delete),
        }


def measure_baseline(load: Load, base: Path) -> Figures:
    """Topics are created with one synchronous quorum write for each path."""
    ports = free_ports(STORES - 1)
    stores = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.metadata_load", "--store", str(port), str(base / str(port))]
        )
        for port in ports
    ]
    try:
        with contextlib.closing(_Quorum(base / "leader", ports)) as quorum:

            def create(number: int) -> None:
                for path in range(load.partitions + 2):
                    quorum.write(f"/topics/t{number}/{path}".encode().ljust(RECORD_BYTES))

            return timed(load, create)
    finally:
        for store in stores:
            store.kill()
            store.wait()


class _Quorum:
    """The leader of the stores: one write at a time, on disk here and at one other before it is done."""

    def __init__(self, file: Path, ports: Sequence[int]) -> None:
        self._file = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self._links = [_connected(port) for port in ports]
        self._lock = threading.Lock()

    def close(self) -> None:
        """Hang up; the stores end."""
        os.close(self._file)
        for link in self._links:
            link.close()

    def write(self, data: bytes) -> None:
        """The record is on a majority of disks."""
        with self._lock:
            for link in self._links:
                link.sendall(_LENGTH.pack(len(data)) + data)
            os.write(self._file, data)
            os.fsync(self._file)
            self._links[0].recv(1)
            for link in self._links[1:]:  # a majority has it; the others' acknowledgements are taken as they come
                with contextlib.suppress(BlockingIOError):
                    link.recv(4_096, socket.MSG_DONTWAIT)


def _connected(port: int) -> socket.socket:
    deadline = time.monotonic() + 30
    while True:
        try:
            link = socket.create_connection(("127.0.0.1", port), 30)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return link


def serve_store(port: int, file: Path) -> None:
    """Another store: a record in, on disk, one byte out; until the leader hangs up."""
    out = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with socket.create_server(("127.0.0.1", port)) as server:
        link, _ = server.accept()
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with link, link.makefile("rb") as source:
        while len(head := source.read(_LENGTH.size)) == _LENGTH.size:
            os.write(out, source.read(_LENGTH.unpack(head)[0]))
            os.fsync(out)
            link.sendall(b"\x01")


def compare(load: Load) -> tuple[dict[str, dict[str, Figures]], Figures]:
    """Ours by kind and workload, and the baseline of creations, on the same disk."""
    base = Path(tempfile.mkdtemp(prefix="headrace-metadata-load-"))
    try:
        baseline = measure_baseline(load, base)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return {kind: measure_headrace(load, combined=combined) for kind, combined in KINDS.items()}, baseline


def is_faster(ours: Figures, baseline: Figures) -> bool:
    """S4-65: in operations a second and in p99."""
    return ours.per_s > baseline.per_s and ours.p99_ms < baseline.p99_ms


def show(load: Load, ours: dict[str, dict[str, Figures]], baseline: Figures) -> None:
    """The table."""
    table = Table(title=f"{load.operations} topics of {load.partitions} partitions, {load.clients} clients")
    for name in ("", "operations/s", "p50 ms", "p99 ms"):
        table.add_column(name, justify="right" if name else "left")
    rows = {f"{kind}: {name}": each for kind, found in ours.items() for name, each in found.items()}
    for name, figures in (rows | {"baseline: create topics": baseline}).items():
        table.add_row(name, *(f"{each:,.1f}" for each in figures))
    Console().print(table)


def write(load: Load, ours: dict[str, dict[str, Figures]], baseline: Figures, results: Path = RESULTS) -> Path:
    """The result file."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    content = {
        "headrace": headrace.__version__,
        "commit": commit.stdout.strip(),
        "python": platform.python_version(),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": load._asdict(),
        "figures": {kind: {name: each._asdict() for name, each in found.items()} for kind, found in ours.items()},
        "baseline": baseline._asdict(),
        "is_faster": {kind: is_faster(found["create topics"], baseline) for kind, found in ours.items()},
    }
    path = results / f"metadata-load-{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def main(arguments: Sequence[str]) -> int:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--operations", type=int, default=300)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--dry", action="store_true", help="write no result file")
    parser.add_argument("--store", nargs=2, metavar=("PORT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.store is not None:
        serve_store(int(options.store[0]), Path(options.store[1]))
        return 0
    load = Load(options.operations, options.partitions, options.clients)
    ours, baseline = compare(load)
    show(load, ours, baseline)
    if not options.dry:
        sys.stdout.write(f"{write(load, ours, baseline)}\n")
    return 0 if all(is_faster(found["create topics"], baseline) for found in ours.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
