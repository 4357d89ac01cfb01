"""The way of `headrace start -daemon` into the background, and the news that the node is ready."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.errors import OperatorError, StorageFault

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.server.run import ReadyInfo

OUTPUT_NAME = "headrace-server.out"
READY = b"1"


def start_in_background(
    config: NodeConfig, run: Callable[[Callable[[ReadyInfo], None]], int], ready_line: Callable[[ReadyInfo], str]
) -> int:
    """Run the node in a process without terminal; returns in the caller when it is ready (0) or has failed (its exit code).

    What the node prints goes to `headrace-server.out` in $LOG_DIR, else beside the first log directory.
    """
    output = output_path(config)
    reading, writing = os.pipe()
    if os.fork() > 0:
        os.close(writing)
        return _wait(reading, output)
    os.close(reading)
    os.setsid()
    if os.fork() > 0:
        os._exit(0)
    _leave_terminal(output)

    def on_ready(ready: ReadyInfo) -> None:
        print(ready_line(ready), flush=True)
        os.write(writing, READY + ready_line(ready).encode())
        os.close(writing)

    try:
        code = run(on_ready)
    except (OperatorError, StorageFault) as error:
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def output_path(config: NodeConfig) -> str:
    """Where the output of the node goes."""
    directory = os.environ.get("LOG_DIR") or os.path.dirname(os.path.abspath(config.log_dirs[0]))
    os.makedirs(directory, exist_ok=True)
    return os.path.join(directory, OUTPUT_NAME)


def _wait(reading: int, output: str) -> int:
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    if said.startswith(READY):
        print(said[len(READY) :].decode(), flush=True)
        return 0
    print(f"headrace: the node did not start; {output} says why", file=sys.stderr)
    return 1


def _leave_terminal(output: str) -> None:
    target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, descriptor in ((nothing, 0), (target, 1), (target, 2)):
        os.dup2(source, descriptor)
    os.close(target)
    os.close(nothing)
