"""How do tests get a real PostgreSQL? Debian's packages have it; a server of one's own runs in a temporary directory, reached through a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

USER = "postgres"
"""Made by Debian's package. The server refuses to run as root."""


def programs() -> Path | None:
    """The directory of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


def is_available() -> bool:
    """Is there a server?"""
    return programs() is not None


class Postgres:
    """A server with an empty database `postgres`, without passwords, on a Unix socket only. Used as a context manager."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
        self._who = {"user": USER, "group": USER} if os.geteuid() == 0 else {}
        if self._who:
            shutil.chown(self.directory, **self._who)
            self.directory.chmod(0o755)

    @property
    def conninfo(self) -> str:
        """For libpq."""
        return f"host={self.directory} dbname=postgres user={USER}"

    def start(self) -> Self:
        """Start, and wait until it answers."""
        if not (self.directory / "data").exists():
            self._run("initdb", "-D", "data", "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale", "C")
        options = f"-c listen_addresses='' -c unix_socket_directories={self.directory} -c max_connections=50"
        self._run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", options, "start")
        return self

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is what a crash does to it."""
        self._run("pg_ctl", "-D", "data", "-m", mode, "-w", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        home = programs()
        assert home is not None, "apt-get install postgresql"
        command = [str(home / program), *arguments]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True, check=False, **self._who)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stdout + done.stderr

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
