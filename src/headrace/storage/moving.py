"""A replica on its way into another log directory of its broker (KIP-113): the log as it is, the future one, and how that takes its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.errors import StorageFault
from headrace.core.ports import DiskFull
from headrace.log.ports import AppendRefused, FileSlice
from headrace.log.store_ports import MoveStep

if TYPE_CHECKING:
    from headrace.core.ids import TopicPartition, Uuid
    from headrace.storage.future_files import FutureLog
    from headrace.storage.log_directory import LogDirectory
    from headrace.storage.stored_log import StoredLog

_ANY_EPOCH = 2**31 - 1


class MoveJob:
    """One step of a copy as work for a thread; nothing else touches the future log meanwhile. `run`, then `copied` or `refusal` say what came of it.

    That one of the logs was closed meanwhile is nobody's fault: then nothing is copied. Raises StorageFault.
    """

    def __init__(self, move: LogMove, step: MoveStep, now_ms: int) -> None:
        self._move = move
        self._step = step
        self._now_ms = now_ms
        self.copied = 0
        self.refusal = ""

    def run(self) -> None:
        """Copy; blocks."""
        move = self._move
        try:
            self._run()
        except DiskFull as fault:
            self.refusal = str(fault)
        except StorageFault:
            if not (move.source.is_closed or move.future.is_closed):
                raise

    def _run(self) -> None:
        step, future = self._step, self._move.future
        if step.starts_over_at is not None:
            future.truncate_fully_and_start_at(step.starts_over_at)
        elif step.cut_to is not None:
            future.truncate_to(step.cut_to)
        if step.leap_to is not None:
            future.leap(step.leap_to, self._now_ms)
        if step.data is not None:
            self._append(step.data)
        if step.is_last:
            self._move.sync()

    def _append(self, piece: FileSlice) -> None:
        data = memoryview(bytearray(piece.read()))
        before = self._move.future.size_bytes
        done = self._move.future.append_as_follower(data, leader_epoch=_ANY_EPOCH, now_ms=self._now_ms)
        if isinstance(done, AppendRefused):
            self.refusal = done.message
        self.copied = self._move.future.size_bytes - before


class LogMove:
    """One replica that is copied; implements `headrace.log.store_ports.LogMovePort`. `taken` is told when the future log has taken the place of the other."""

    def __init__(
        self, source: StoredLog, future: FutureLog, *, home: LogDirectory, to: LogDirectory, taken: Callable[[], None]
    ) -> None:
        self.source = source
        self.future = future.log
        self._files = future.files
        self._home = home
        self._to = to
        self._taken = taken

    @property
    def partition(self) -> TopicPartition:
        """What is moved."""
        return self.source.topic_partition

    @property
    def directory(self) -> str:
        """Where it is moved to."""
        return self._to.path

    @property
    def directory_id(self) -> Uuid:
        """The id of that directory."""
        return self._to.directory_id

    @property
    def home_id(self) -> Uuid:
        """The id of the directory where it is."""
        return self._home.directory_id

    @property
    def is_over(self) -> bool:
        """One of the logs is closed, or the move is done."""
        return self.source.is_closed or self.future.is_closed or self.source.directory == self._to.path

    def step(self, step: MoveStep, now_ms: int) -> MoveJob:
        """A step as work for a thread. Before the last one the future log takes over where the log begins, and what of it is committed."""
        if step.is_last:
            self._to.adopt_marks(self.future, self.source)
        return MoveJob(self, step, now_ms)

    def sync(self) -> None:
        """Make the future log durable, and what is known of it: the log that is to go may have been. Blocks. Raises StorageFault, DiskFull."""
        job = self.future.prepare_flush()
        if job is not None:
            job.run_all()
            self.future.flushed(job.upto)
        self._to.write_checkpoints()

    def take_place(self, now_ms: int) -> None:
        """The future log becomes the log, which goes on in its files; the directory that it leaves is deleted later. Raises StorageFault.

        Both hold the same records, and what was durable in one is in the other. A crash finds one of three: the old directory and a future one, both under
        the name in use, or the new one (and a start tells which is which by the metadata, which know of the new place before, KIP-858).
        """
        source, future = self.source, self.future
        assert future.log_end_offset == source.log_end_offset, "everything is copied"
        assert future.durable_end_offset >= source.durable_end_offset, "and as durable as it was"
        self._files.take_place()
        close_old = source.go_on_in(future)
        future.is_closed = True
        self._to.take_over(source)
        self._taken()
        self._home.leave(self.partition, close_old, now_ms + source.config.file_delete_delay_ms)

    def end(self) -> Callable[[], None]:
        """Work for a thread, after `take_place`: its names and checkpoints become durable in the new directory, then in the old. Raises StorageFault."""
        home, to = self._home, self._to

        def run() -> None:
            to.sync_names()
            to.write_checkpoints()
            if home.is_online:
                home.sync_names()
                home.write_checkpoints()

        return run
