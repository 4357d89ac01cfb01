"""The file of a node's state changes: a line of JSON a phase, written by a thread, at most two files of a set size (S3-08)."""

from __future__ import annotations

import asyncio
import json
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from headrace.broker.state_changes import StateChanges
from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.broker.state_changes import StateChange
    from headrace.node.compose import ComposedNode

_LOG = logging.getLogger("headrace.server")
_OWNER_ONLY = 0o600
_WAIT_S: Final = 0.1
MOST_WAITING: Final = 200_000
"""Lines that wait for a slow disk; more are left out, and counted in a line of their own."""
_PART: Final = 5_000
"""Lines that are written at once: the thread gives way between."""


class StateChangeFile:
    """Takes phases on the event loop and writes them off it. It never harms the node: when it cannot be written any more it ends with a warning."""

    def __init__(self, path: str, max_bytes: int) -> None:
        """Raises OperatorError: it cannot be opened."""
        self._path = path
        self._max_bytes = max_bytes
        self._waiting: list[StateChange] = []
        self._left_out = 0
        self._task: asyncio.Task[None] | None = None
        try:
            self._file: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _OWNER_ONLY)
            self._size = os.fstat(self._file).st_size
        except OSError as error:
            raise OperatorError(f"headrace.state.change.file: {path}: {error.strerror}") from None

    def take(self, change: StateChange) -> None:
        """One more phase. Nothing is done here but to remember it; while nothing happens there is no task."""
        if self._file is None:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._left_out += 1
            return
        self._waiting.append(change)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write_soon())

    async def close(self) -> None:
        """Write what waits, and no more."""
        if self._task is not None:
            await self._task
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    async def _write_soon(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(_WAIT_S)
        while self._waiting:
            waiting, self._waiting = self._waiting[:_PART], self._waiting[_PART:]
            left_out, self._left_out = self._left_out, 0
            await loop.run_in_executor(None, self._write, waiting, left_out)
        self._task = None

    def _write(self, changes: Sequence[StateChange], left_out: int) -> None:
        """In a thread."""
        if self._file is None:
            return
        lines = [json.dumps(line_of(each), separators=(",", ":"), ensure_ascii=False) for each in changes]
        if left_out:
            lines.append(json.dumps({"ts": changes[-1].ts, "left_out": left_out}, separators=(",", ":")))
        data = ("\n".join(lines) + "\n").encode("utf-8", "backslashreplace")
        try:
            if self._size and self._size + len(data) > self._max_bytes:
                self._turn_over()
            os.write(self._file, data)
            self._size += len(data)
        except OSError as error:
            _LOG.warning("the file of state changes %s ends here: %s", self._path, error.strerror)
            os.close(self._file)
            self._file = None

    def _turn_over(self) -> None:
        """The file becomes the former one, in place of that before it."""
        assert self._file is not None
        os.replace(self._path, self._path + ".1")
        os.close(self._file)
        self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
        self._size = 0


def followed(node: ComposedNode) -> StateChanges:
    """The observer of the node's state changes; from now on there is one. Before the node starts."""
    machine = node.machine
    if machine.state_changes is None:
        machine.state_changes = StateChanges(
            node.plane.raft.config.node_id, now_ms=node.clock.now_ms, wall_ms=node.clock.wall_ms
        )
        if machine.broker is not None:
            machine.broker.state_changes = machine.state_changes
    return machine.state_changes


def line_of(change: StateChange) -> dict[str, Any]:
    """The object of a line."""
    line: dict[str, Any] = {
        "ts": change.ts,
        "phase": change.phase,
        "role": change.role,
        "node": change.node,
        "action": change.action,
        "topic": change.topic,
        "topicId": str(change.topic_id),
        "partition": change.partition,
        "target": change.target,
        "source": change.source,
        "leaderEpoch": change.leader_epoch,
        "partitionEpoch": change.partition_epoch,
        "metadataOffset": change.metadata_offset,
    }
    if change.cause:
        line["cause"] = change.cause
    return line
