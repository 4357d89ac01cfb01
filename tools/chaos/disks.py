"""A small disk of a node's own that can be filled, and that can fail: an ext4 file system in a file.

It fails by the kernel's own order to shut a file system down: from then on every write, sync and open of a file is answered with EIO.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

SIZE_BYTES: Final = 160 << 20
_SHUT_DOWN = 0x8004587D
_WITHOUT_LOG = 2


def missing() -> str:
    """What this machine lacks for such disks; empty when nothing."""
    if os.geteuid() != 0:
        return "root (file systems are mounted)"
    if shutil.which("mkfs.ext4") is None:
        return "the program mkfs.ext4 (package e2fsprogs)"
    if not Path("/dev/loop-control").exists():
        return "loop devices in the kernel"
    return ""


class Disk:
    """A file system in a file beside the place where it is mounted."""

    def __init__(self, mounted_at: Path) -> None:
        self._image = mounted_at.with_suffix(".disk")
        self._at = mounted_at
        self._ballast = mounted_at / "ballast"
        with self._image.open("wb") as file:
            file.truncate(SIZE_BYTES)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        mounted_at.mkdir(parents=True, exist_ok=True)
        self._mount()
        shutil.rmtree(mounted_at / "lost+found")

    def fill(self) -> None:
        """Leave room for nothing."""
        with self._ballast.open("wb") as file:
            size = SIZE_BYTES
            while size >= 4_096:
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), size)
                    file.seek(size, os.SEEK_CUR)
                except OSError:
                    size //= 2

    def free(self) -> None:
        """Give the room back."""
        self._ballast.unlink(missing_ok=True)

    def shut_down(self) -> None:
        """From now on it fails."""
        directory = os.open(self._at, os.O_RDONLY)
        try:
            fcntl.ioctl(directory, _SHUT_DOWN, struct.pack("I", _WITHOUT_LOG))
        finally:
            os.close(directory)

    def mend(self) -> None:
        """It works again, with what had reached it; nobody may use it meanwhile.

        It is another file: processes in network namespaces have mount tables of their own, which keep the file system that failed.
        """
        _run("umount", str(self._at))
        failed, self._image = self._image, self._image.with_name(f"{self._image.name}+")
        _run("cp", "--sparse=always", str(failed), str(self._image))
        failed.unlink()
        self._mount()
        self.free()  # the removal of what filled it may not have reached it

    def remove(self) -> None:
        """Unmount it and delete its file. What lay on it is gone."""
        subprocess.run(["umount", "--lazy", str(self._at)], capture_output=True, check=False)
        self._image.unlink(missing_ok=True)

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self._at))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
