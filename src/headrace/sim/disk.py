"""A disk in memory that remembers every call, and can be crashed after any of them, losing what was not synced.

`LossyFiles` is the `Files` port over a tree of nodes. `crashed(ops, count, chance)` builds the disk as it may be found after a power cut
behind the first `count` calls: synced bytes and names are there; of the others, by chance, all, none, the first few (the last one torn at
any byte), or a random part of the bytes. A name is durable only when its directory was synced, bytes only when their file was; changes
of names in one directory survive in their order, as journaling file systems keep them.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

from headrace.core.errors import StorageFault
from headrace.core.ports import BytesLike, DiskSpace, FileStat


class Op(NamedTuple):
    """One call that changed or synced something; `node` is the file or directory it was made on, `at_ms` the wall clock of a change of bytes."""

    kind: str
    node: int
    name: str = ""
    other: int = 0
    target: str = ""
    offset: int = 0
    data: bytes = b""
    at_ms: int = 0


@dataclass(eq=False, slots=True)
class Node:
    """A file (with `data`) or a directory (with `entries`). `changed_ms` is the wall clock of the last change of its bytes, `version` the disk's number of the last change of bytes or names."""

    number: int
    is_directory: bool
    data: bytearray = field(default_factory=bytearray)
    entries: dict[str, Node] = field(default_factory=dict)
    changed_ms: int = 0
    version: int = 0


@lru_cache(maxsize=4_096)
def _parts(path: str) -> tuple[str, ...]:
    """The names on the way to a file or directory."""
    return tuple(part for part in path.split("/") if part)


class LossyFile:
    """An open file of a `LossyFiles`."""

    def __init__(self, files: LossyFiles, node: Node, path: str) -> None:
        self._files = files
        self.node = self._node = node
        self.path = path
        self.fd = -1

    def pread(self, size: int, offset: int, /) -> bytes:
        """Up to `size` bytes."""
        self._files.reading(self.path)
        return bytes(self._node.data[offset : offset + size])

    def pread_into(self, buffer: bytearray | memoryview, offset: int, /) -> int:
        """Fill `buffer`."""
        self._files.reading(self.path)
        data = self._node.data[offset : offset + len(buffer)]
        buffer[: len(data)] = data
        return len(data)

    def pwrite(self, data: BytesLike, offset: int, /) -> None:
        """Write all of `data`."""
        files, node = self._files, self._node
        written, now_ms = bytes(data), files.wall_ms()
        files.note(Op("write", node.number, "", 0, "", offset, written, now_ms), self.path)
        write_at(node.data, written, offset)
        node.changed_ms = now_ms
        files.changes += 1
        node.version = files.changes

    def truncate(self, size: int, /) -> None:
        """Make the file `size` bytes long."""
        now_ms = self._files.wall_ms()
        self._files.note(Op("truncate", self._node.number, offset=size, at_ms=now_ms), self.path)
        resize(self._node.data, size)
        self._node.changed_ms = now_ms
        self._files.touch(self._node)

    def size(self) -> int:
        """Bytes in the file."""
        return len(self._node.data)

    def fsync(self) -> None:
        """Everything written so far is durable."""
        self._files.note(Op("sync", self._node.number), self.path)

    def close(self) -> None:
        """Nothing is to be given back."""


class HeldLock:
    """The lock of a disk that only one process uses."""

    def release(self) -> None:
        """Nothing to do."""


class LossyFiles:
    """The `Files` port over memory; `ops` is what was called so far, `marked` for a test to remember a number of calls."""

    def __init__(self, root: Node | None = None, next_number: int = 1) -> None:
        self.root = root or Node(0, is_directory=True)
        self._next = next_number
        self.changes = 0
        """The number of the last change of a file's bytes or a directory's names."""
        self.ops: list[Op] = []
        self.marked = 0
        self.wall_ms: Callable[[], int] = _no_time
        self._log_directories: set[str] = set()

    def within(self, directory: str, /) -> Self:
        """These files: faults of what lies in `directory` name it from now on."""
        self._log_directories.add(directory)
        return self

    def log_directory_of(self, path: str) -> str:
        """The innermost log directory that `path` lies in, empty if none."""
        held = [each for each in self._log_directories if path == each or path.startswith(f"{each}/")]
        return max(held, key=len, default="")

    def note(self, op: Op, path: str) -> None:
        """Remember a call on `path`."""
        self.ops.append(op)

    def touch(self, node: Node) -> None:
        """A file's bytes or a directory's names have changed."""
        self.changes += 1
        node.version = self.changes

    def reading(self, path: str) -> None:
        """Somebody reads a file: a disk that fails may raise StorageFault."""

    def _find(self, path: str) -> Node | None:
        node = self.root
        for part in _parts(path):
            found = node.entries.get(part)
            if found is None:
                return None
            node = found
        return node

    def _parent(self, path: str) -> tuple[Node, str]:
        head, _, name = path.rpartition("/")
        node = self._find(head)
        if node is None or not node.is_directory:
            raise StorageFault(f"no directory {head}", directory=self.log_directory_of(path))
        return node, name

    def _link(self, path: str, *, is_directory: bool) -> Node:
        parent, name = self._parent(path)
        node = Node(self._next, is_directory)
        self._next += 1
        self.note(Op("link", parent.number, name, node.number, "d" if is_directory else "f"), path)
        parent.entries[name] = node
        self.touch(node)
        self.touch(parent)
        return node

    def open(self, path: str, /, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> LossyFile:
        """Open a file."""
        node = self._find(path)
        if node is None:
            if not create:
                raise StorageFault(f"cannot open {path}: no such file", directory=self.log_directory_of(path))
            node = self._link(path, is_directory=False)
        file = LossyFile(self, node, path)
        if truncate and node.data:
            file.truncate(0)
        return file

    def read_file(self, path: str, /) -> bytes | None:
        """The whole file, or None."""
        node = self._find(path)
        return None if node is None else bytes(node.data)

    def exists(self, path: str, /) -> bool:
        """Is there such a name?"""
        return self._find(path) is not None

    def stat(self, path: str, /) -> FileStat | None:
        """Size, time of the last change, and kind."""
        node = self._find(path)
        if node is None:
            return None
        return FileStat(len(node.data), node.changed_ms, node.is_directory, (node.number, node.version))

    def listdir(self, path: str, /) -> list[str]:
        """Names in a directory, sorted."""
        node = self._find(path)
        if node is None:
            raise StorageFault(f"cannot list {path}", directory=self.log_directory_of(path))
        return sorted(node.entries)

    def mkdir(self, path: str, /) -> None:
        """Make a directory and its parents."""
        at = ""
        for part in path.strip("/").split("/"):
            at = f"{at}/{part}"
            if self._find(at) is None:
                self._link(at, is_directory=True)

    def rename(self, source: str, target: str, /) -> None:
        """Move a name within its directory."""
        parent, name = self._parent(source)
        other, new_name = self._parent(target)
        assert parent is other, "renames stay within a directory"
        node = parent.entries.get(name)
        if node is None:
            raise StorageFault(f"cannot rename {source}", directory=self.log_directory_of(source))
        self.note(Op("rename", parent.number, name, node.number, new_name), source)
        del parent.entries[name]
        parent.entries[new_name] = node
        self.touch(parent)

    def unlink(self, path: str, /) -> None:
        """Remove a name."""
        parent, name = self._parent(path)
        if name in parent.entries:
            self.note(Op("unlink", parent.number, name), path)
            del parent.entries[name]
            self.touch(parent)

    def rmdir(self, path: str, /) -> None:
        """Remove an empty directory."""
        node = self._find(path)
        if node is not None:
            if node.entries:
                raise StorageFault(f"{path} is not empty", directory=self.log_directory_of(path))
            self.unlink(path)

    def fsync_dir(self, path: str, /) -> None:
        """The names in a directory are durable."""
        node = self._find(path)
        if node is None:
            raise StorageFault(f"cannot sync {path}", directory=self.log_directory_of(path))
        self.note(Op("syncdir", node.number), path)

    def sync_tree(self, path: str, /) -> bool:
        """Everything is durable."""
        self.note(Op("synctree", 0), path)
        return True

    def lock(self, path: str, /) -> HeldLock:
        """Nobody else is there."""
        return HeldLock()

    def disk_space(self, path: str, /) -> DiskSpace:
        """Plenty."""
        return DiskSpace(1 << 40, 1 << 39)

    def tree(self) -> Iterator[tuple[str, bytes]]:
        """(path, bytes) of every file."""
        stack = [("", self.root)]
        while stack:
            path, node = stack.pop()
            for name, child in sorted(node.entries.items()):
                if child.is_directory:
                    stack.append((f"{path}/{name}", child))
                else:
                    yield f"{path}/{name}", bytes(child.data)


def _no_time() -> int:
    """The wall clock of a disk whose times nobody asks for."""
    return 0


def write_at(content: bytearray, data: bytes, offset: int) -> None:
    """Write into a file's bytes; a gap before `offset` reads as zeros."""
    if offset > len(content):
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def resize(content: bytearray, size: int) -> None:
    """Cut, or extend with zeros."""
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class Disk:
    """What of a sequence of calls is durable, and what is pending, call by call."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {0: Node(0, is_directory=True)}
        self.pending: defaultdict[int, list[Op]] = defaultdict(list)

    @classmethod
    def over(cls, files: LossyFiles) -> Disk:
        """A disk on which everything that `files` holds is durable."""
        disk = cls()
        stack = [files.root]
        while stack:
            node = stack.pop()
            disk.nodes[node.number] = node
            stack += node.entries.values()
        return disk

    def take(self, op: Op) -> None:
        """One more call."""
        if op.kind == "synctree":
            for node in sorted(self.pending):
                for each in self.pending[node]:
                    self._apply(each)
            self.pending.clear()
            return
        if op.kind in ("sync", "syncdir"):
            for each in self.pending.pop(op.node, []):
                self._apply(each)
            return
        if op.kind == "link":
            self.nodes[op.other] = Node(op.other, op.target == "d")
        self.pending[op.node].append(op)

    def _apply(self, op: Op) -> None:
        node = self.nodes[op.node]
        if op.kind == "write":
            write_at(node.data, op.data, op.offset)
            node.changed_ms = op.at_ms
        elif op.kind == "truncate":
            resize(node.data, op.offset)
            node.changed_ms = op.at_ms
        elif op.kind == "link":
            node.entries[op.name] = self.nodes[op.other]
        elif op.kind == "unlink":
            node.entries.pop(op.name, None)
        elif op.kind == "rename" and node.entries.get(op.name) is self.nodes[op.other]:
            del node.entries[op.name]
            node.entries[op.target] = self.nodes[op.other]

    def crash(self, chance: random.Random) -> LossyFiles:
        """Lose what was not synced, by chance; the disk found afterwards. This one must not be used any more."""
        mood = chance.choice(("all", "none", "mixed", "mixed", "mixed", "prefix"))
        for number in sorted(self.pending):
            for op in surviving(self.pending[number], mood, chance):
                self._apply(op)
        return LossyFiles(self.nodes[0], max(self.nodes) + 1)


def surviving(ops: list[Op], mood: str, chance: random.Random) -> list[Op]:
    """The calls on one file or directory whose effect is found after a crash."""
    way = chance.choice(("all", "none", "prefix", "some")) if mood == "mixed" else mood
    if way == "some" and ops[0].kind in ("link", "unlink", "rename"):
        way = "prefix"
    if way == "all":
        return ops
    if way == "none":
        return []
    if way == "some":
        kept = [op for op in ops if chance.random() < 0.6]
        return [torn(op, chance) if chance.random() < 0.1 else op for op in kept]
    count = chance.randrange(len(ops) + 1)
    kept = ops[:count]
    if count < len(ops) and ops[count].kind == "write" and chance.random() < 0.7:
        kept = [*kept, torn(ops[count], chance)]
    return kept


def torn(op: Op, chance: random.Random) -> Op:
    """The first bytes of a write, cut anywhere."""
    if op.kind != "write" or not op.data:
        return op
    return op._replace(data=op.data[: chance.randrange(len(op.data))])


def crashed(ops: list[Op], count: int, chance: random.Random) -> LossyFiles:
    """The disk after a power cut behind the first `count` calls."""
    disk = Disk()
    for op in ops[:count]:
        disk.take(op)
    return disk.crash(chance)
