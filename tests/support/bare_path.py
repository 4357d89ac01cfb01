"""An environment with what a shell needs and no Java."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROGRAMS: Final = (
    "sh", "bash", "env", "dirname", "basename", "readlink", "uname", "ps", "cat", "rm", "ls", "tr", "sed", "grep",
)  # fmt: skip
_LEFT_OUT: Final = ("JAVA_HOME", "PATH", "SPARK_HOME", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE")


def bare_path(directory: Path) -> dict[str, str]:
    """This process's environment with a new directory of a few programs for its PATH, and no word of Java or Spark."""
    directory.mkdir()
    for name in _PROGRAMS:
        for folder in ("/bin", "/usr/bin"):
            if Path(folder, name).exists():
                (directory / name).symlink_to(Path(folder, name))
                break
    kept = {key: value for key, value in os.environ.items() if key not in _LEFT_OUT}
    return {**kept, "PATH": str(directory)}
