"""A node's work in threads: jobs for its disks, in lanes, off the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from headrace.core.errors import StorageFault
from headrace.node.jobs import DiskJob, Lane
from headrace.server.pacing import Pace

_THREADS: Final = 6
_JOBS_TIMEOUT_S: Final = 20.0
SLOW_SYNC_S: Final = 1.0
"""A sync that takes so long is worth a line: whoever waits for it waits as long."""
_T = TypeVar("_T")


class DiskWork:
    """Runs jobs; `failed` is told what goes wrong in them. `timed` may wrap what is a sync, for metrics."""

    def __init__(self, *, failed: Callable[[Exception], None], warn: Callable[[str], None]) -> None:
        self.pace = Pace()
        self.timed: Callable[[Callable[[], None]], Callable[[], None]] = _as_it_is
        self._failed = failed
        self._warn = warn
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="headrace")
        at_once = {Lane.SYNC: _THREADS, Lane.MOVES: _THREADS // 3}
        self._lanes = {lane: asyncio.Semaphore(at_once.get(lane, 1)) for lane in Lane}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_idle(self) -> bool:
        """Nothing runs, in no thread."""
        return all(task.done() for task in self._tasks)

    def begin(self, work: Awaitable[None]) -> None:
        """Have `work` done beside everything else."""
        task = asyncio.get_running_loop().create_task(self._watched(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def run(self, job: DiskJob, *, before_finish: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Do a job after those of its lane that came before; `before_finish` says whether it is still to be finished."""
        try:
            async with self._lanes[job.lane]:
                job.prepare()
                await self.in_thread(self.timed(self._noticed(job)) if job.is_sync else job.run)
        except StorageFault as fault:
            if job.failed is None:
                raise
            job.failed(fault)
            return
        if before_finish is None or await before_finish():
            job.finish()

    async def in_thread(self, job: Callable[[], _T]) -> _T:
        """What `job` returns, from a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, job)

    async def done(self) -> None:
        """Let running work end, without rests and within bounds: what is cut short is done again after the next start."""
        self.pace.hurry()
        pending = [task for task in self._tasks if task is not asyncio.current_task()]
        if pending:
            await asyncio.wait(pending, timeout=_JOBS_TIMEOUT_S)

    def close(self) -> None:
        """Start no more threads."""
        self._threads.shutdown(wait=False)

    async def _watched(self, work: Awaitable[None]) -> None:
        try:
            await work
        except Exception as fault:  # noqa: BLE001 - the process's edge
            self._failed(fault)

    def _noticed(self, job: DiskJob) -> Callable[[], None]:
        """The job, which tells when it took long."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            began = time.monotonic()
            job.run()
            if time.monotonic() - began >= SLOW_SYNC_S:
                text = f"syncing ({job.lane.value}) takes longer than {SLOW_SYNC_S:.0f} s: the disk is slow"
                loop.call_soon_threadsafe(self._warn, text)

        return run


def _as_it_is(sync: Callable[[], None]) -> Callable[[], None]:
    return sync
