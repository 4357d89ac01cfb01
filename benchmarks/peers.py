"""Which systems are compared, and how is each started, measured and stopped?"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing import Node
from tests.peers.kafka import Kafka

# Deleted topics must leave the disk at once: a round of large batches writes gigabytes.
SETTINGS = {"log.segment.delete.delay.ms": "100", "log.retention.check.interval.ms": "1000"}


@dataclass
class System:
    """One running broker: its name, where it listens, its process."""

    name: str
    bootstrap: str
    pid: int
    stop: Callable[[], object]
    started_s: float

    @property
    def admin(self) -> AdminClient:
        """A fresh admin client."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def create_topic(self, topic: str, settings: dict[str, str] | None = None) -> None:
        """One partition, with default settings but for `settings`; returns when the broker has a leader for it."""
        admin = self.admin
        for future in admin.create_topics([NewTopic(topic, 1, 1, config=settings or {})]).values():
            future.result(30)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = admin.list_topics(topic, timeout=10).topics[topic]
            if found.partitions and all(each.leader >= 0 for each in found.partitions.values()):
                return
            time.sleep(0.02)
        raise SystemExit(f"{self.name}: topic {topic} has no leader after 30 s")

    def delete_topic(self, topic: str) -> None:
        """Remove it and what it holds."""
        admin = self.admin  # kept until the answer: a client that is collected gives up its requests
        for future in admin.delete_topics([topic]).values():
            future.result(30)
        time.sleep(0.3)

    def cpu_s(self) -> float:
        """CPU time of the process so far, user and system, in seconds."""
        times = psutil.Process(self.pid).cpu_times()
        return float(times.user + times.system)

    def resident_mb(self) -> float:
        """Resident memory of the process, in MB."""
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6


def start_headrace(directory: Path, settings: Mapping[str, str] | None = None, *, name: str = "headrace") -> System:
    """Format and start a Headrace node as a process of its own; the time counts both."""
    before = time.monotonic()
    node = Node(properties={**SETTINGS, **(settings or {})}, directory=directory).start()
    return System(name, node.bootstrap_servers, node.pid, node.stop, time.monotonic() - before)


def start_kafka(directory: Path) -> System:
    """Format and start Apache Kafka with its usual garbage collector and a heap of 1 GB; the time counts both."""
    before = time.monotonic()
    kafka = Kafka(directory, properties=SETTINGS, heap=("-Xms512m", "-Xmx1g"), quick=False).start(120)
    assert kafka.process is not None
    return System("kafka", kafka.bootstrap, kafka.process.pid, kafka.stop, time.monotonic() - before)


def ready_s(base: Path) -> float:
    """Seconds from the command ``headrace start`` on a new directory in `base` to its line that says ready; stopped after it."""
    directory = Path(tempfile.mkdtemp(prefix="headrace-ready-", dir=base))
    before = time.monotonic()
    command = [sys.executable, "-m", "headrace", "start", "--override", f"log.dirs={directory / 'data'}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if "ready" in line:
                return time.monotonic() - before
        raise SystemExit("headrace start ended before it was ready")
    finally:
        process.terminate()
        process.communicate(timeout=30)
        shutil.rmtree(directory, ignore_errors=True)
