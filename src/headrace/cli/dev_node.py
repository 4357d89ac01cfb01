"""One node of a development cluster: `headrace start FILE` in a process that its parent can cut off, and that does not outlive it.

`python -m headrace.cli.dev_node CONTROL PARENT FILE`: the descriptor of a socket to the parent, the parent's process id if the kernel shall end this
process with it even while it is stopped (0: the end of the socket is enough), and the properties file. No command of `headrace`: its parent is
`headrace.testing.Cluster`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from functools import partial

from headrace.cli.start import main_of
from headrace.testing.cuts import cut_loop

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> int:
    """Run the node; the exit code."""
    control, parent, file = arguments
    if int(parent):
        end_with(int(parent), signal.SIGKILL)
    return main_of([file], make_loop=partial(cut_loop, socket.socket(fileno=int(control))))


def end_with(parent: int, number: signal.Signals) -> None:
    """Let the kernel send this process a signal when its parent has died (Linux)."""
    if sys.platform != "linux":
        return
    from ctypes import CDLL

    CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it died before
        os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
