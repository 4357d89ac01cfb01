"""Clients of a cluster whose leaders go: they note when each record was acknowledged, and what they were told that is not well."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.peers import kafka

EVERY_S: Final = 0.005
FLUSH_S: Final = 120
WAIT_S: Final = 120
READ_S: Final = 60
CLIENTS: Final[dict[str, dict[str, Any]]] = {
    "default": {},
    "eager": {
        "retry.backoff.ms": 20,
        "retry.backoff.max.ms": 100,
        "reconnect.backoff.ms": 10,
        "reconnect.backoff.max.ms": 100,
        "topic.metadata.refresh.fast.interval.ms": 20,
    },
}
"""Settings by the client's name."""
_HEAP = ("-Xms64m", "-Xmx256m")


class Load:
    """A producer's thread, and another that serves its callbacks. As a context manager it sends until the end of the block, then waits for every answer."""

    def __init__(self, bootstrap: str, topic: str, client: str, *, debug: str = "") -> None:
        self._bootstrap, self._topic = bootstrap, topic
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, **CLIENTS[client]}
        settings |= {"debug": debug} if debug else {"log_level": 0}
        self._producer = Producer({**settings, "error_cb": lambda _: None})
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged: list[tuple[float, int | None, bytes]] = []
        """When, at which offset, and the value. Without an offset where the client concludes from a later acknowledgement that it was stored."""
        self.errors: list[str] = []

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count():
            while (late := began + number * EVERY_S - time.monotonic()) > 0:
                self._producer.poll(late)
            if self._stopped.is_set():
                return
            try:
                self._producer.produce(self._topic, b"load-%d" % number, partition=0, on_delivery=self._told)
            except BufferError:
                self._producer.poll(EVERY_S)
            self._producer.poll(0)

    def _told(self, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.acknowledged.append((time.monotonic(), message.offset(), message.value()))

    def wait_for_acknowledgements(self, *, since: float, leader_changed: Callable[[], bool]) -> None:
        """Until another leads, and something was acknowledged after that was seen."""
        end = time.monotonic() + WAIT_S
        while not leader_changed() and time.monotonic() < end:
            time.sleep(0.02)
        seen = max(time.monotonic(), since)
        while not any(at > seen for at, *_ in self.acknowledged[-10:]) and time.monotonic() < end:
            time.sleep(0.02)

    def longest_gap_ms(self, *, since: float) -> float:
        """The longest time between two acknowledgements, from a time on."""
        times = [at for at, *_ in self.acknowledged if at >= since]
        gaps = (later - earlier for earlier, later in itertools.pairwise(times))
        return max(gaps, default=0.0) * 1_000

    def verdict(self) -> tuple[int, int]:
        """How many acknowledged records are not where they were said to be, and how many come twice."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "gap", "enable.auto.commit": False, "log_level": 0}
        )
        found: dict[int, bytes] = {}
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=30)
            consumer.assign([TopicPartition(self._topic, 0, low)])
            end = time.monotonic() + READ_S
            while len(found) < high - low and time.monotonic() < end:
                for each in consumer.consume(5_000, 0.2):
                    if each.error() is None:
                        found[each.offset()] = each.value()
        finally:
            consumer.close()
        ours = [value for value in found.values() if value.startswith(b"load-")]
        there = set(ours)
        lost = sum(
            value not in there if offset is None else found.get(offset) != value
            for _, offset, value in self.acknowledged
        )
        return lost, len(ours) - len(there)

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join()
        if self._producer.flush(FLUSH_S):
            self.errors.append(f"not everything was answered after {FLUSH_S} s")


class Reader:
    """A consumer with default settings in a group of its own, for the time of the block; what it was told that is not a record."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"}
        self._consumer = Consumer({**settings, "log_level": 0, "error_cb": lambda _: None})
        self._consumer.subscribe([topic])
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.errors: list[str] = []

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                message = self._consumer.poll(0.1)
            except KafkaException as failed:
                self.errors.append(str(failed))
                continue
            if message is not None and message.error() is not None:
                self.errors.append(str(message.error()))

    def __enter__(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()


class JavaClients:
    """Apache Kafka's own producer and consumer with their defaults, for the time of the block: its verifiable programs, which tell of every record."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        settings = Path(self._directory.name) / "producer.properties"
        settings.write_text("retries=2147483647\n")  # its default, which the program replaces
        producer = ("--topic", topic, "--throughput", "100", "--acks", "-1", "--producer.config", str(settings))
        self._commands = {
            "producer": ("kafka-verifiable-producer", *producer),
            "consumer": ("kafka-verifiable-consumer", "--topic", topic, "--group-id", "java-reader"),
        }
        self._bootstrap = bootstrap
        self._programs: dict[str, subprocess.Popen[str]] = {}
        self._threads: list[threading.Thread] = []
        self.errors: list[str] = []
        self.acknowledged = 0
        self.read = 0

    def _listen(self, name: str, program: subprocess.Popen[str]) -> None:
        assert program.stdout is not None
        for line in program.stdout:
            try:
                told = json.loads(line)
            except json.JSONDecodeError:
                continue
            self._note(name, told)

    def _note(self, name: str, told: dict[str, Any]) -> None:
        match told.get("name"):
            case "producer_send_success":
                self.acknowledged += 1
            case "records_consumed":
                self.read += told["count"]
            case "offsets_committed" if told.get("success"):
                return
            case "producer_send_error" | "offsets_committed":
                self.errors.append(f"java {name}: {told}")

    def __enter__(self) -> Self:
        """Begin, and wait for the first records."""
        for name, (tool, *arguments) in self._commands.items():
            command = kafka.java_command(
                kafka.TOOLS[tool], "--bootstrap-server", self._bootstrap, *arguments, heap=_HEAP
            )
            environment = {**os.environ, "KAFKA_LOG_LEVEL": "error"}
            program = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
            )
            self._programs[name] = program
            self._threads.append(threading.Thread(target=self._listen, args=(name, program), daemon=True))
            self._threads[-1].start()
        end = time.monotonic() + WAIT_S
        while not (self.acknowledged and self.read) and time.monotonic() < end:
            time.sleep(0.1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop them by their own signal; whoever is hung is killed."""
        for program in self._programs.values():
            program.terminate()
        for program in self._programs.values():
            try:
                program.wait(30)
            except subprocess.TimeoutExpired:
                program.kill()
                program.wait()
        for thread in self._threads:
            thread.join(10)
        self._directory.cleanup()
