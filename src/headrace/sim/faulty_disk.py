"""A node's disk that is slow, full, failing, rotten, or loses power.

`SimDisk` is the `Files` port over two trees: what a process sees, and what would be found after a power cut. Every call that changes
something goes through `note`, which may also end the process there (`PowerCut`): so a crash can hit between any two calls.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.core.errors import StorageFault
from headrace.core.ports import DiskFull, DiskSpace
from headrace.sim.disk import Disk, LossyFiles, Node, Op


class ProcessDied(BaseException):
    """The process ends here; whatever runs is left as it is. Not an Exception: nothing may catch it but the simulation."""


class SimDisk(LossyFiles):
    """One node's disk. It outlives the node's processes."""

    def __init__(self, wall_ms: Callable[[], int] | None = None) -> None:
        super().__init__()
        if wall_ms is not None:
            self.wall_ms = wall_ms
        self._durable = Disk()
        self.calls = 0
        """Calls that changed or synced something, so far."""
        self.die_at_call: int | None = None
        """The process dies before this call."""
        self.fail_writes = 0
        """So many writes fail from now on (EIO)."""
        self.fail_syncs = 0
        """So many syncs fail from now on; what they were to make durable may be lost though later syncs succeed (S58)."""
        self.fail_reads = 0
        """So many reads of a process fail from now on (EIO)."""
        self.is_full = False
        self.broken = ""
        """The log directory that fails: nothing in it can be read, written or synced."""
        self.refusals = 0
        """How many calls failed so far because a fault said so."""
        self.on_name: Callable[[str, str, str], None] = lambda kind, name, target: None
        """Told of each rename and removal of a name."""

    def note(self, op: Op, path: str) -> None:
        """One call, before it takes effect in what the process sees."""
        self.calls += 1
        if self.die_at_call is not None and self.calls >= self.die_at_call:
            self.die_at_call = None
            raise ProcessDied
        kind = op.kind
        self._refuse_broken(path)
        if kind == "write":
            if self.fail_writes > 0:
                self.fail_writes -= 1
                self.refusals += 1
                raise StorageFault(f"cannot write {path}: Input/output error", directory=self.log_directory_of(path))
            if self.is_full:
                self.refusals += 1
                raise DiskFull(f"cannot write {path}: No space left on device", directory=self.log_directory_of(path))
        elif kind in ("sync", "synctree") and self.fail_syncs > 0:
            self.fail_syncs -= 1
            self.refusals += 1
            for node in [op.node] if kind == "sync" else list(self._durable.pending):
                self._durable.pending.pop(node, None)
            raise StorageFault(f"cannot sync {path}: Input/output error", directory=self.log_directory_of(path))
        self._durable.take(op)
        if kind in ("rename", "unlink"):
            self.on_name(kind, op.name, op.target)

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """An onlooker reads: a read that is to fail fails for the node."""
        kept = self.fail_reads, self.broken
        self.fail_reads, self.broken = 0, ""
        try:
            yield
        finally:
            self.fail_reads, self.broken = kept

    def _refuse_broken(self, path: str) -> None:
        if self.broken and (path == self.broken or path.startswith(f"{self.broken}/")):
            self.refusals += 1
            raise StorageFault(f"cannot use {path}: Input/output error", directory=self.log_directory_of(path))

    def read_file(self, path: str, /) -> bytes | None:
        """The whole file, or None."""
        self._refuse_broken(path)
        return super().read_file(path)

    def reading(self, path: str) -> None:
        """A process reads. Raises StorageFault when a fault says so."""
        self._refuse_broken(path)
        if self.fail_reads > 0:
            self.fail_reads -= 1
            self.refusals += 1
            raise StorageFault(f"cannot read {path}: Input/output error", directory=self.log_directory_of(path))

    def disk_space(self, path: str, /) -> DiskSpace:
        """Plenty, or nothing."""
        return DiskSpace(1 << 40, 0 if self.is_full else 1 << 39)

    def lose_power(self, chance: random.Random) -> int:
        """Of what was not synced, nothing, all or a part is found from now on; the number of calls that were at stake."""
        at_stake = sum(len(ops) for ops in self._durable.pending.values())
        found = self._durable.crash(chance)
        self._begin_anew(found.root)
        return at_stake

    def replace(self) -> None:
        """An empty disk that works is put in its place (S64)."""
        self.forget_faults()
        self._begin_anew(Node(0, is_directory=True))

    def forget_faults(self) -> None:
        """It works again."""
        self.fail_writes = self.fail_syncs = self.fail_reads = 0
        self.is_full = False
        self.broken = ""
        self.die_at_call = None

    def _begin_anew(self, found: Node) -> None:
        """`found` becomes what the process sees; a copy of it is what is durable."""
        self._durable = Disk()
        self._next = 1
        self.root = self._copied(found, self._durable.nodes[0], Node(0, is_directory=True))

    def _copied(self, source: Node, durable: Node, seen: Node) -> Node:
        for name in sorted(source.entries):
            child = source.entries[name]
            number = self._next
            self._next += 1
            kept = Node(number, child.is_directory, bytearray(child.data), changed_ms=child.changed_ms)
            self._durable.nodes[number] = durable.entries[name] = kept
            found = seen.entries[name] = Node(
                number, child.is_directory, bytearray(child.data), changed_ms=child.changed_ms
            )
            self.touch(found)
            self._copied(child, kept, found)
        return seen

    def durable_bytes(self, path: str) -> bytes | None:
        """What a file would hold after the worst power cut; None when its name would be gone."""
        node = self._durable.nodes[0]
        for part in path.strip("/").split("/"):
            found = node.entries.get(part)
            if found is None:
                return None
            node = found
        return bytes(node.data)

    def is_durable(self, path: str) -> bool:
        """A file would be found as it is now after the worst power cut."""
        return self.durable_bytes(path) == self.read_file(path)

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        """Rot: one bit of a synced byte is another one (S61). A position behind the end changes nothing."""
        seen = self._find(path)
        if seen is None or position >= len(seen.data):
            return
        seen.data[position] ^= 1 << bit
        kept = self._durable.nodes.get(seen.number)
        if kept is not None and position < len(kept.data):
            kept.data[position] ^= 1 << bit
