"""One running node: a process of its own, or a thread of another."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable

from headrace.config.node_config import NodeConfig
from headrace.core.errors import OperatorError
from headrace.server.descriptors import raise_descriptor_limit
from headrace.server.ready import ReadyInfo, StoppedEarly
from headrace.storage.descriptors import keep_spare_descriptors

__all__ = ["NodeThread", "ReadyInfo", "new_event_loop", "run", "tune_garbage_collection"]

_LOG = logging.getLogger("headrace.server")
_GC_THRESHOLDS = (5_000, 4, 5_000)
"""The young are looked at 5,000 and 20,000 at a time, each of them twice whatever the numbers are: larger ones mean longer pauses, of 25 ms for 100,000."""
_SWITCH_S = 0.0005
"""How long a thread keeps the interpreter while the loop wants it; Python's own 5 ms is the longest part of many a request beside a snapshot."""


def run(
    config: NodeConfig,
    *,
    started_at: float,
    on_ready: Callable[[ReadyInfo], None],
    make_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> int:
    """Run a node in this process until SIGTERM or SIGINT; the exit code.

    `started_at` is on the clock of `time.monotonic`; `make_loop` gives another event loop than `new_event_loop`. Raises OperatorError when it
    cannot start as configured.
    """
    sys.setswitchinterval(_SWITCH_S)
    raise_descriptor_limit()
    keep_spare_descriptors()
    gc.disable()  # until the node is ready: what it loads stays, and going over it again and again is a third of a large start
    loop = (make_loop or new_event_loop)()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(_run_until_signal(config, started_at, on_ready))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it installs, asyncio's own otherwise."""
    try:
        import uvloop  # a choice of the platform, made once
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _run_until_signal(config: NodeConfig, started_at: float, on_ready: Callable[[ReadyInfo], None]) -> int:
    from headrace.server.node_server import NodeServer  # the heavy half, after the configuration was found good
    from headrace.server.warming import WarmUp

    server = NodeServer(config, started_at=started_at)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.begin_stop)
    # Not through the loop: it must come before requests that waited in the sockets while the process stood still (S2-29).
    signal.signal(signal.SIGCONT, lambda *_: server.woke())
    try:
        ready = await server.start()
    except StoppedEarly:
        return 0
    tune_garbage_collection()
    on_ready(ready)
    warm_up = WarmUp(config.process_roles)
    warm_up.start()
    await server.wait_stopped()
    warm_up.stop()
    if server.failure is not None:
        _LOG.error("the node stopped: %s", server.failure)
        return 1
    return 0


def tune_garbage_collection() -> None:
    """What was made at the start stays: leave it out of collections, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    gc.enable()


class NodeThread:
    """A node on an event loop of its own in a thread of this process: for tests. It installs no signal handlers."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._thread = threading.Thread(target=self._main, name=f"headrace-node-{config.node_id}", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Callable[[], None] = lambda: None
        self._is_ready = threading.Event()
        self._ready: ReadyInfo | None = None
        self._error: BaseException | None = None

    def start(self, timeout_s: float = 30.0) -> ReadyInfo:
        """Start the thread and wait until the node is ready. Raises what kept it from starting."""
        self._thread.start()
        if not self._is_ready.wait(timeout_s):
            self.stop()
            raise OperatorError(f"the node was not ready after {timeout_s:.0f} s")
        if self._error is not None:
            self._thread.join()
            raise self._error
        assert self._ready is not None, "ready or failed"
        return self._ready

    def stop(self, timeout_s: float = 30.0) -> None:
        """Stop it cleanly and wait for the thread's end."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(self._stop)
            except RuntimeError:
                _LOG.debug("the node's loop has ended already")
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise OperatorError(f"the node did not stop within {timeout_s:.0f} s")

    def _main(self) -> None:
        loop = self._loop = new_event_loop()
        try:
            loop.run_until_complete(self._serve())
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits in `start`
            self._error = error
        finally:
            self._is_ready.set()
            loop.close()

    async def _serve(self) -> None:
        from headrace.server.node_server import NodeServer  # as in `_run_until_signal`

        server = NodeServer(self._config, started_at=time.monotonic())
        self._stop = server.begin_stop
        self._ready = await server.start()
        self._is_ready.set()
        await server.wait_stopped()
