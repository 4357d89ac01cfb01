"""What a node says once it is ready, and the interpreter in which it runs at all."""

from __future__ import annotations

import sys

from headrace.core.errors import OperatorError
from headrace.core.listener import HostPort, Listener
from headrace.core.values import value_class


@value_class
class ReadyInfo:
    """Where a node is reached, once it is. `listeners` have the ports that are really bound; `seconds` is the time it took.

    `metrics` is where `GET /metrics` is answered, if anywhere.
    """

    node_id: int
    cluster_id: str
    listeners: tuple[Listener, ...]
    data_dir: str
    seconds: float
    metrics: HostPort | None = None


class StoppedEarly(Exception):
    """The node was told to stop before it was ready."""


def refuse_optimised_python() -> None:
    """Failed asserts are how our own bugs stop the process. Raises OperatorError under `python -O`."""
    if sys.flags.optimize:
        raise OperatorError("python -O leaves out the checks that the node relies on: run it without -O")
