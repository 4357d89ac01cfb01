"""How is a situation staged around a node, from outside of its process: a slow disk, a full one, another time, another history?"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.records.batch import iter_batches, set_crc
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member

_SOURCE = Path(__file__).with_name("shim.c")


def missing_compiler() -> str:
    """What this machine lacks for the shim; empty when nothing."""
    return "" if shutil.which("cc") else "a C compiler (package gcc)"


def missing_mounts(directory: Path) -> str:
    """What this machine lacks for a small disk; empty when nothing."""
    probe = directory / "probe"
    probe.mkdir()
    done = _mount(probe, 1 << 20)
    if done.returncode == 0:
        subprocess.run(["umount", str(probe)], check=True)
    return "" if done.returncode == 0 else f"the right to mount a tmpfs: {done.stderr.strip()}"


def _mount(directory: Path, size: int) -> subprocess.CompletedProcess[str]:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "headrace-test", str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[None]:
    """A file system of `size` bytes at `directory`, inside the block."""
    directory.mkdir(parents=True, exist_ok=True)
    done = _mount(directory, size)
    assert done.returncode == 0, done.stderr
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory: Path) -> None:
    """Use up every byte that is left on the file system."""
    with (directory / "ballast").open("wb", buffering=0) as file:
        for size in (65_536, 4_096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


class Shim:
    """A library that is preloaded into nodes: their syncs and wall clocks follow what a file of theirs says."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.library = directory / "shim.so"
        command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self.library), str(_SOURCE), "-ldl"]
        subprocess.run(command, check=True, capture_output=True)

    def control_file(self, node_id: int) -> Path:
        """The file of one node; made as needed."""
        path = self._directory / f"shim-{node_id}"
        if not path.exists():
            path.write_bytes(bytes(16))
        return path

    def slow_syncs(self, node_id: int, delay_ms: int) -> None:
        """From now on each sync of the node takes so much longer."""
        self._write(node_id, 0, delay_ms)

    def move_clock(self, node_id: int, ahead_ms: int) -> None:
        """From now on the node's wall clock is so far ahead."""
        self._write(node_id, 8, ahead_ms)

    def _write(self, node_id: int, position: int, value: int) -> None:
        with self.control_file(node_id).open("r+b") as file:
            file.seek(position)
            file.write(struct.pack("<q", value))


class ShimmedMember(Member):
    """A node that runs with the shim."""

    shim: Shim

    def environment(self) -> dict[str, str] | None:
        """With the shim preloaded."""
        control = str(self.shim.control_file(self.node_id))
        return {**os.environ, "LD_PRELOAD": str(self.shim.library), "HEADRACE_SHIM": control}


class ShimmedCluster(Cluster):
    """A cluster whose nodes run with one shim, each with its own file."""

    shim: Shim

    def make(self, node_id: int, roles: frozenset[str], directory: Path) -> Member:
        """The node of an id."""
        if not hasattr(self, "shim"):
            self.shim = Shim(self.directory)
        member = ShimmedMember(node_id=node_id, roles=roles, directory=directory)
        member.shim = self.shim
        return member


def rewrite_history(member: Member, text: bytes, other: bytes) -> None:
    """Replace `text` by `other`, as long, in a batch of a stopped node's metadata log, and make the checksum fit: other history, sound bytes."""
    assert len(text) == len(other)
    assert not member.is_running
    for path in sorted(member.metadata_log.glob("*.log")):
        data = bytearray(path.read_bytes())
        for position, header in iter_batches(data):
            at = data.find(text, position, position + header.size)
            if at >= 0:
                data[at : at + len(text)] = other
                set_crc(data, position, header.size)
                path.write_bytes(data)
                return
    raise AssertionError(f"no batch of node {member.node_id} holds {text!r}")
