"""A real node that is attacked, and what the attack did to it: memory, turns of its loop, the answers that others got.

What a test holds against the stated bounds is CPU time of the node's event loop, in one turn and while another client waits for one answer. It does not
grow because other tests have the machine, and the bounds grow as the node's core was slower meanwhile than that of the stated bounds; with
`HEADRACE_ATTACK_BOUND_MS=50`, on a quiet machine, the slowest answer that another client got is held against that bound too, and nothing is measured again.
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, Self

from headrace.testing import Node
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.polite_client import requests
from tests.support.raw import RawConnection
from tests.support.slowness import slowness
from tests.support.watched_node import FIGURES

MIB: Final = 1 << 20
POLITE_TOPIC: Final = "polite"
TURN_MS: Final = 50.0
"""How long others may wait for their answer on a quiet machine (the promise): no turn of the loop may be longer."""
MEMORY: Final = 128 * MIB
"""What an attack may cost beside what it was allowed to send, unless its test says otherwise."""
WAIT_S: Final = 60.0
MEASURES: Final = 1 if os.environ.get("HEADRACE_ATTACK_BOUND_MS") else 3
"""Other work on the machine's memory and caches only adds to a time, now and then more than the probes of `slowness` tell: what an attack costs is the least of so many."""

_HERE = Path(__file__).parent
_STRICT_MS = float(os.environ.get("HEADRACE_ATTACK_BOUND_MS", "0"))


class OverBound(AssertionError):
    """Work took more CPU time than it may. It is held against a test that finds it in each of `MEASURES` runs, each with a node of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harm:
    """What an attack did. Times are milliseconds; `turn_ms` and `held_ms` are CPU of the loop's thread and of the process in one turn.

    `before_ms` is the most CPU of the loop's thread while another client waited for one answer: in how many turns however short.
    """

    turn_ms: float
    held_ms: float
    late_ms: float
    before_ms: float
    slowest_answer_ms: float
    answers: int
    memory: int
    slowness: float
    """How slow the node's core was at worst: the bounds grow with it."""

    def __str__(self) -> str:
        return (
            f"longest turn {self.turn_ms:.1f} ms of CPU ({self.held_ms:.1f} of the process, {self.late_ms:.1f} by the wall), "
            f"others' slowest of {self.answers} answers {self.slowest_answer_ms:.1f} ms, after {self.before_ms:.1f} ms of CPU, peak memory +{self.memory / MIB:.1f} MiB, "
            f"on a core {self.slowness:.2f} times as slow as that of the bounds"
        )


class Watch:
    """The figures that `watched_node` writes, shared as a file."""

    def __init__(self, path: Path) -> None:
        path.write_bytes(bytes(FIGURES.size))
        with path.open("r+b") as file:
            self._figures = mmap.mmap(file.fileno(), FIGURES.size)

    def begin(self) -> None:
        """Forget what was, though the node may just be writing it again."""
        looks = self.read()[0]
        while looks:
            self._figures[:] = FIGURES.pack(0.0, 0.0, 0.0, 0.0, 1.0)
            time.sleep(0.001)
            if self.read()[0] < looks:
                break

    def read(self) -> tuple[float, float, float, float, float]:
        """Looks taken, the longest turn in CPU seconds of the thread, of the process, and by the wall; how slow the node's core was at worst."""
        looks, thread_s, process_s, wall_s, slow = FIGURES.unpack(self._figures[:])
        return looks, thread_s, process_s, wall_s, slow


class Polite:
    """The other client: asks all the time in a process of its own, and knows its slowest answer."""

    def __init__(self, node: Node) -> None:
        command = [sys.executable, str(_HERE / "polite_client.py"), str(node.port), POLITE_TOPIC, str(node.pid)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None, "piped"
        assert self._process.stdout.readline() == b"ready\n", "the polite client did not start"

    def end(self) -> dict[str, Any]:
        """What it prints."""
        try:
            out, _ = self._process.communicate(timeout=150)
        finally:
            self._process.kill()
        found: dict[str, Any] = json.loads(out)
        return found


class Target:
    """A node of its own process that is watched. A context manager; one node may stand many attacks."""

    def __init__(self, *, properties: Mapping[str, str] | None = None, descriptors: int = 0) -> None:
        self._files = TemporaryDirectory(prefix="headrace-attacks-")
        figures = Path(self._files.name) / "watch"
        self._watch = Watch(figures)
        self.node = Node(
            properties=properties,
            python_arguments=(str(_HERE / "watched_node.py"), str(figures), str(descriptors)),
        )
        self.harm: Harm | None = None

    def __enter__(self) -> Self:
        """Start, make the topic of the client that behaves, and write to it as that does: its log is open from then on."""
        self.node.start()
        self.create_topic(POLITE_TOPIC)
        _, (produce, version), _ = requests(POLITE_TOPIC)
        with RawConnection(self.node.port) as connection:
            wait_until(
                lambda: not connection.ask(produce, version).responses[0].partition_responses[0].error_code,
                "the client that behaves is served",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; a node that ended by itself has failed the test."""
        try:
            self.node.__exit__(kind, error, trace)
        finally:
            self._files.cleanup()

    def create_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        """A topic, with settings whose names have `_` for `.`."""
        settings = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()
        )
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)
        with RawConnection(self.node.port) as connection:
            _create(connection, topic)

    def create_topic_on(self, connection: RawConnection, name: str) -> None:
        """A topic, by a connection that is there already."""
        _create(connection, CreatableTopic(name=name, num_partitions=1, replication_factor=1))

    # --- what it looks like ---

    @property
    def log(self) -> str:
        """What the node has written so far."""
        return (self.node.directory / "node.log").read_text()

    def memory(self, field: str = "VmRSS") -> int:
        """Bytes of the node's memory: `VmRSS` now, `VmHWM` at most since `begin`."""
        return int(self._status()[field].split()[0]) << 10

    def descriptors(self) -> int:
        """How many files and sockets it has open."""
        return len(os.listdir(f"/proc/{self.node.pid}/fd"))

    def cpu_s(self) -> float:
        """Seconds of CPU that the node has used."""
        fields = Path(f"/proc/{self.node.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _status(self) -> dict[str, str]:
        lines = Path(f"/proc/{self.node.pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    # --- attacks ---

    @contextmanager
    def attacked(self, *, memory: int = MEMORY, turn_ms: float = TURN_MS) -> Iterator[None]:
        """What happens inside is the attack. Afterwards the bounds are held, and the node must serve as before."""
        Path(f"/proc/{self.node.pid}/clear_refs").write_text("5")  # VmHWM begins anew
        before = self.memory()
        polite = Polite(self.node)
        self._watch.begin()
        try:
            yield
        finally:
            waited = polite.end()
        looks, *most = self._watch.read()
        assert looks, "the node's loop did not turn once"
        thread_s, process_s, wall_s, slow = most
        self.harm = harm = Harm(
            turn_ms=thread_s * 1000,
            held_ms=process_s * 1000,
            late_ms=wall_s * 1000,
            before_ms=waited["most_work_ms"],
            slowest_answer_ms=waited["slowest_ms"],
            answers=waited["asked"],
            memory=self.memory("VmHWM") - before,
            slowness=slow,
        )
        if os.environ.get("HEADRACE_ATTACK_SHOW"):
            sys.stderr.write(f"\n{harm}\n")
        self.serves()
        allowed_ms = turn_ms * slow
        if harm.turn_ms > allowed_ms:
            raise OverBound(f"the loop was held for longer than {allowed_ms:.0f} ms: {harm}")
        if harm.before_ms > allowed_ms:
            raise OverBound(f"others waited for more than {allowed_ms:.0f} ms of work: {harm}")
        assert harm.memory <= memory, f"more memory than {memory / MIB:.0f} MiB: {harm}"
        if _STRICT_MS:
            assert harm.slowest_answer_ms <= _STRICT_MS, f"others waited longer than {_STRICT_MS:.0f} ms: {harm}"

    def watch_again(self) -> None:
        """Within an attack: forget the turns so far."""
        self._watch.begin()

    def longest_turn_ms(self) -> float:
        """The longest turn since, in milliseconds of CPU."""
        return self._watch.read()[1] * 1000

    def allowed_turn_ms(self) -> float:
        """How long a turn may be on this machine, as fast as the node's core was at worst, or this one is just now."""
        return TURN_MS * max(self._watch.read()[-1], slowness())

    def must_be_short(self, turns_ms: Mapping[str, float]) -> None:
        """None of the named turns, in milliseconds of CPU, is longer than a turn may be. Raises OverBound."""
        allowed_ms = self.allowed_turn_ms()
        longer = {what: took_ms for what, took_ms in turns_ms.items() if took_ms > allowed_ms}
        if longer:
            raise OverBound(f"longer than {allowed_ms:.0f} ms: {longer}")

    def serves(self) -> None:
        """The node lives, and a client that comes now is answered."""
        assert Path(f"/proc/{self.node.pid}").exists(), f"the node ended: {self.log[-2000:]}"
        with RawConnection(self.node.port) as connection:
            wanted = (MetadataRequestTopic(name=POLITE_TOPIC),)
            found = connection.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 9)
        assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in found.topics] == [
            (POLITE_TOPIC, 0, 1)
        ]


def _create(connection: RawConnection, topic: CreatableTopic) -> None:
    made = connection.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=30_000), 5)
    assert [(one.name, one.error_code) for one in made.topics] == [(topic.name, 0)]


def wait_until(is_true: Callable[[], Any], what: str, *, seconds: float = WAIT_S) -> None:
    """Return once it is so; fails after a time that no machine needs."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not: {what}"
        time.sleep(0.01)
