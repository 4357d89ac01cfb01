"""Code that a node reads when something is first asked of it: read soon after the start, in a thread, so that no client waits for it.

To import the coordinators of groups takes 80 ms at once; in a thread the event loop has the interpreter back within `run`'s switch interval.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from importlib import import_module
from typing import Final

from headrace.broker.served_apis import BROKER_APIS, NOT_CONTROLLER_APIS
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.rpc.apis import handler_of, request_class_of
from headrace.server.pacing import Pace
from headrace.wire.versions import response_class

_DELAY_S: Final = 0.5
"""After the node is ready: whoever waited for that is served first."""
_OF_ALL: Final = ("headrace.node.self_view", "headrace.config.docs")
_OF_A_BROKER: Final = (
    "headrace.broker.coordinators.groups",
    "headrace.broker.coordinators.hosted",
    "headrace.coordinator.groups.machine",
    "headrace.node.envelope",
)


def first_uses(roles: Set[str]) -> Iterator[Callable[[], object]]:
    """What reads the code of every API that a process with these roles serves, a few modules each."""
    if "broker" in roles:
        for module in _OF_A_BROKER:
            yield partial(import_module, module)
    for module in _OF_ALL:
        yield partial(import_module, module)
    for role, rows in (("broker", (*BROKER_APIS, *NOT_CONTROLLER_APIS)), ("controller", CONTROLLER_APIS)):
        if role in roles:
            for row in rows:
                yield partial(handler_of, row)
                yield partial(request_class_of, row)
                yield partial(response_class, row.key)


class WarmUp:
    """The thread that does it, with a rest after each piece. Driven by `server.run`."""

    def __init__(self, roles: Iterable[str]) -> None:
        self._roles = frozenset(roles)
        self._pace = Pace()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._main, name="headrace-warm-up", daemon=True)

    def start(self) -> None:
        """Begin, a moment from now."""
        self._thread.start()

    def stop(self) -> None:
        """The node stops: whatever is not read by now is not needed."""
        self._is_over.set()
        self._pace.hurry()
        self._thread.join()

    def _main(self) -> None:
        if self._is_over.wait(_DELAY_S):
            return
        for _ in self._pace(use() for use in first_uses(self._roles)):
            if self._is_over.is_set():
                return
