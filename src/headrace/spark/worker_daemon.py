"""The parent process of Spark's Python workers in a local session, quiet where Spark hangs up.

Spark ends a worker by closing its socket: when a read is limited and has enough rows, when a task is cancelled, when a worker was idle for a minute. On a Unix domain
socket, which `session.local_session` chooses, the worker's last flush then ends in BrokenPipeError at once, and PySpark's daemon prints its traceback although nothing
went wrong. Spark starts the module that `spark.python.daemon.module` names as a program.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from pyspark import daemon

if TYPE_CHECKING:
    from collections.abc import Callable


def draw_anew() -> None:
    """Seed numpy's random numbers in a process that was forked after their import, which would draw the same ones as its siblings; those of `random` are seeded by Python."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def without_hang_ups(work: Callable[..., int]) -> Callable[..., int]:
    """The same work of a worker, for which a peer that has gone is an end like others: the worker leaves. It draws random numbers of its own."""

    def guarded(*arguments: Any) -> int:
        draw_anew()
        try:
            return work(*arguments)
        except BrokenPipeError:
            return 1

    return guarded


def run() -> None:
    """PySpark's daemon with such workers, until Spark ends it. Raises SystemExit."""
    daemon.worker = without_hang_ups(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    run()
