"""The file in which a client writes what it calls and sees, a line of JSON each, at once: a line that was begun is all that a killed client loses."""

from __future__ import annotations

import json
import threading
import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headrace.sim.anomalies.history import Outcome


def now_ms() -> float:
    """The clock of all histories: the machine's, which never goes back."""
    return time.monotonic() * 1_000


def digest(key: bytes | None, value: bytes, headers: Sequence[tuple[str, bytes]], timestamp_ms: int) -> str:
    """What a record is, in a few characters."""
    return f"{zlib.crc32(repr((key, value, list(headers), timestamp_ms)).encode()):08x}"


class Recorder:
    """One client's file; threads of the client may share it. As a context manager it is closed at the end."""

    def __init__(self, path: Path, client: str) -> None:
        self._client = client
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()
        self._calls = 0

    def call(self, kind: str, **what: Any) -> int:
        """A call begins; its number."""
        with self._lock:
            number = self._calls
            self._calls += 1
        self.see("call", call=kind, id=number, **what)
        return number

    def end(self, number: int, outcome: Outcome, **what: Any) -> None:
        """A call's outcome is known, or known to stay unknown."""
        self.see("end", id=number, outcome=outcome, **what)

    def see(self, what: str, **more: Any) -> None:
        """Something is seen."""
        line = {"what": what, "client": self._client, "at": now_ms(), **more}
        with self._lock:
            self._file.write(json.dumps(line) + "\n")

    def __enter__(self) -> Self:
        """Nothing to open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._file.close()
