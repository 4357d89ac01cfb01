"""Cuts of many partition logs as work for threads: what a follower of a new leader orders, and is told when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.log.ports import CutJob, LogCut
from headrace.log.store_ports import LogStorePort
from headrace.node.jobs import DiskJob, Lane, LogWork


def order_cuts(
    logs: LogStorePort, cuts: Sequence[LogCut], *, do: Callable[[LogWork], None], then: Callable[[], None]
) -> None:
    """Have the logs cut, those of each log directory in one job, and then call `then`, once.

    The logs are out of use at once. A log directory that fails goes offline, and `then` is not called.
    """
    jobs = logs.cut(cuts)
    if not jobs:
        then()
        return
    left = len(jobs)

    def cut(job: CutJob) -> None:
        do(
            LogWork(
                job=DiskJob(lane=Lane.CUTS, prepare=job.lower, run=job.run, finish=lambda: ended(job), is_sync=True)
            )
        )

    def ended(job: CutJob) -> None:
        nonlocal left
        job.finish()
        left -= 1
        if not left:
            then()

    def look_up(job: CutJob) -> None:
        do(LogWork(job=DiskJob(lane=Lane.CUTS, run=job.look_up, finish=lambda: cut(job))))

    for job in jobs:
        look_up(job)
