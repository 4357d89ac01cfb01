"""A journal of a real node, fed to a fresh one to see whether it gives the same effects again.

The fresh node has the journal's settings, the files that the real one found, and the same stream of chance. Its disk is a simulated one on
which nothing fails; work for the disk is done when the journal says that it was.
"""

from __future__ import annotations

import random
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from headrace.core.errors import OperatorError, StorageFault
from headrace.core.values import value_class
from headrace.metadata.loader import MetadataFault
from headrace.node.compose import NodeEnvironment, compose_metadata
from headrace.node.disk import NodeDisk
from headrace.node.journal import JournalStart, effects_digest, from_json
from headrace.node.metadata_plane import WriteSnapshot
from headrace.raft import events as raft_events
from headrace.sim.faulty_disk import SimDisk
from headrace.sim.report import short

_SHOWN: Final = 40


@value_class
class Replay:
    """How a replay went. `difference` is empty when every event had the effects that the journal says."""

    events: int
    difference: str
    state: str
    last_events: tuple[str, ...]


class _ReplayClock:
    """Shows the time of the event at hand."""

    def __init__(self, wall_ms: int) -> None:
        self.now = 0
        self._wall_start_ms = wall_ms
        self._start: int | None = None

    def now_ms(self) -> int:
        """Of the event."""
        return self.now

    def wall_ms(self) -> int:
        """The journal's first wall time, and what has passed since."""
        if self._start is None:
            self._start = self.now
        return self._wall_start_ms + self.now - self._start


class _Replayer:
    """A fresh metadata side and the work that its disk still has to do."""

    def __init__(self, start: JournalStart, files: dict[str, str]) -> None:
        config = start.config
        home = config.metadata_log_dir
        self._disk_files = SimDisk()
        self._disk_files.mkdir(home)
        for path, data in files.items():
            self._put(f"{home}/{path}", b64decode(data))
        self.clock = _ReplayClock(start.wall_ms)
        config = replace(config, log_dirs=(home,))
        self._disk = NodeDisk(config, files=self._disk_files, clock=self.clock)
        self._disk.open()
        environment = NodeEnvironment(clock=self.clock, rng=random.Random(start.seed), host_name=start.host_name)
        self.plane = compose_metadata(config, disk=self._disk, bound=start.bound, environment=environment)
        self._jobs: dict[type, deque[Callable[[], None]]] = {}

    def _put(self, path: str, data: bytes) -> None:
        self._disk_files.mkdir(path.rpartition("/")[0])
        file = self._disk_files.open(path, create=True)
        file.pwrite(data, 0)
        file.fsync()

    def begin(self, now_ms: int) -> list[Any]:
        """The node's start."""
        self.clock.now = now_ms
        return self._ordered(self.plane.start(now_ms))

    def take(self, event: Any) -> list[Any]:
        """One event; before it, the work that it reports."""
        self.clock.now = getattr(event, "now_ms", self.clock.now)
        waiting = self._jobs.get(type(event))
        if waiting:
            waiting.popleft()()
        return self._ordered(self.plane.step(event))

    def _ordered(self, effects: list[Any]) -> list[Any]:
        for effect in effects:
            match effect:
                case raft_events.FlushLog():
                    flush = self._disk.metadata.flush()

                    def flushed(flush: Any = flush) -> None:
                        flush.run()
                        flush.finish()

                    self._later(raft_events.LogFlushed, flushed)
                case WriteSnapshot():
                    self._later(raft_events.SnapshotCreated, self._disk.metadata.write_snapshot(effect.job))
                case raft_events.FinishSnapshot():
                    self._later(raft_events.SnapshotStored, self._disk.metadata.finish_download(effect.snapshot_id).run)
                case _:
                    pass
        return effects

    def _later(self, reported_by: type, job: Callable[[], None]) -> None:
        self._jobs.setdefault(reported_by, deque()).append(job)

    def state(self) -> str:
        """Where the node stands, in a line."""
        raft = self.plane.raft
        role = type(raft.role).__name__.lower()
        provenance = self.plane.image.provenance
        return (
            f"{role} of epoch {raft.epoch}, leader {raft.leader_id}, high watermark {raft.high_watermark}, "
            f"metadata up to offset {provenance.last_contained_offset}"
        )


def replay(lines: Iterable[dict[str, Any]], *, path: str) -> Replay:
    """Feed a journal (see `node.journal.read_journal`) to a fresh node. Raises OperatorError when its first line makes no sense."""
    every = iter(lines)
    shown: deque[str] = deque(maxlen=_SHOWN)
    replayer = _replayer(next(every, {}), path)
    number = 0
    difference = ""
    for number, line in enumerate(_checked(every, path), 1):
        event = line[0]
        shown.append(f"{number:>7} {short(event)}")
        try:
            effects = replayer.begin(event) if isinstance(event, int) else replayer.take(event)
        except (StorageFault, MetadataFault, AssertionError) as fault:
            difference = f"event {number} ended with {type(fault).__name__}: {fault}"
            break
        shown.extend(f"{'':>7} -> {short(effect)}" for effect in effects)
        if effects_digest(effects) != line[1]:
            difference = f"event {number} has other effects than the journal says"
            break
    return Replay(events=number, difference=difference, state=replayer.state(), last_events=tuple(shown))


def _replayer(first: dict[str, Any], path: str) -> _Replayer:
    try:
        start = from_json(first["start"])
        if not isinstance(start, JournalStart):
            raise ValueError("no start")
        return _Replayer(start, first["files"])
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise OperatorError(f"{path} is no journal of this version: {error!r}") from None


def _checked(lines: Iterator[dict[str, Any]], path: str) -> Iterator[tuple[Any, int]]:
    """(event, digest of its effects) of each line; the start is told by its time alone."""
    for number, line in enumerate(lines, 2):
        try:
            yield (line["begin"] if "begin" in line else from_json(line["event"])), int(line["effects"])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise OperatorError(f"{path}: line {number} is none of a journal: {error!r}") from None
