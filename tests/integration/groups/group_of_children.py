"""Consumers in processes of their own, what each of them says it owns, and a producer that keeps them busy."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

ROOT = Path(__file__).parents[3]
PATIENCE_S = 40.0


class Child:
    """One consumer process and what it printed."""

    def __init__(self, settings: dict[str, Any]) -> None:
        command = [sys.executable, "-m", "tests.integration.groups.consumer_child", json.dumps(settings)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ)
        )
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def owns(self, *, is_cooperative: bool = False) -> frozenset[int]:
        """The partitions that it says it has; a killed one has none."""
        if self.process.poll() is not None:
            return frozenset()
        owned: set[int] = set()
        for event in list(self.events):
            if event["what"] == "assigned":
                owned = owned | set(event["partitions"]) if is_cooperative else set(event["partitions"])
            elif event["what"] in ("revoked", "lost"):
                owned -= set(event["partitions"])
        return frozenset(owned)

    def given_up(self) -> frozenset[int]:
        """Every partition it ever gave up or lost."""
        return frozenset(p for e in list(self.events) if e["what"] in ("revoked", "lost") for p in e["partitions"])

    def values(self) -> set[str]:
        """What it read."""
        return {event["value"] for event in list(self.events) if event["what"] == "read"}

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self._ended()

    def leave(self) -> None:
        """Let it leave the group and end."""
        self.process.send_signal(signal.SIGTERM)
        self._ended()

    def _ended(self) -> None:
        self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class GroupUnderTest:
    """A topic, a group of child processes that read it, and values sent to it."""

    def __init__(
        self, bootstrap: str, name: str, *, library: str, strategy: str = "range", partitions: int = 6
    ) -> None:
        self.bootstrap, self.name, self.library, self.strategy = bootstrap, name, library, strategy
        self.partitions = partitions
        self.children: list[Child] = []
        self.sent: set[str] = set()
        self._read_before: set[str] = set()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)

    def __enter__(self) -> GroupUnderTest:
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            if child.process.poll() is None:
                child.kill()

    def start(self, instance: str | None = None, *, library: str | None = None) -> Child:
        """Start a member, of another library if need be."""
        settings = {
            "library": library or self.library,
            "bootstrap": self.bootstrap,
            "group": self.name,
            "topic": self.name,
            "instance": instance,
            "strategy": self.strategy,
        }
        self.children.append(Child(settings))
        return self.children[-1]

    def send(self, count: int) -> None:
        """Send values to every partition and wait until they are stored."""
        for _ in range(count):
            value = f"v{len(self.sent)}"
            self._producer.produce(self.name, value=value.encode(), partition=len(self.sent) % self.partitions)
            self.sent.add(value)
        assert self._producer.flush(PATIENCE_S) == 0

    def settle(self, *members: Child) -> list[frozenset[int]]:
        """Wait until exactly these members share all partitions, evenly; what each has."""

        def shares() -> list[frozenset[int]]:
            return [member.owns(is_cooperative="cooperative" in self.strategy) for member in members]

        def is_settled() -> bool:
            owned = sorted(partition for share in shares() for partition in share)
            return owned == list(range(self.partitions)) and all(shares())

        self.wait(is_settled, lambda: f"shares {shares()}")
        return shares()

    def wait_until_read(self) -> None:
        """Wait until the members together have read every value that was sent."""
        self.wait(lambda: self.sent <= self.read(), lambda: f"{len(self.sent - self.read())} values are missing")

    def read(self) -> set[str]:
        """What all members read, those that are gone included."""
        return set[str]().union(*(child.values() for child in self.children))

    @staticmethod
    def wait(is_there: Callable[[], bool], why_not: Callable[[], str]) -> None:
        """Wait for something that must come."""
        until = time.monotonic() + PATIENCE_S
        while not is_there():
            if time.monotonic() > until:
                raise AssertionError(f"not in {PATIENCE_S:.0f} s: {why_not()}")
            time.sleep(0.05)
