"""One of the brokers of `headrace start FILE --processes N`: it stops when its parent is gone, and may stay on one core.

`python -m headrace.cli.one_of_many PARENT CORE ARGUMENTS...`: the parent's process id, a core or -1, and what `headrace start` is given.
"""

from __future__ import annotations

import os
import signal
import sys

from headrace.cli.dev_node import end_with
from headrace.cli.start import main as start


def main(arguments: list[str]) -> int:
    """Run the broker; the exit code."""
    parent, core, *rest = arguments
    end_with(int(parent), signal.SIGTERM)
    if int(core) >= 0:
        os.sched_setaffinity(0, {int(core)})
    return start(rest)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
