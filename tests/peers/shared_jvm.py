"""One JVM for many runs of Kafka's tools: a run then costs what the tool does, without what the start of a JVM does.

Py4J, which Spark brings along, calls the tool's `main`. To the tool it is a process of its own: its output goes to the
JVM's standard output and error, and `Exit.exit` runs the shutdown hooks and does not return.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from unittest.mock import patch

from py4j import java_gateway
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway, find_jar_path
from py4j.protocol import Py4JError, Py4JJavaError, get_return_value

from tests.peers import kafka

logging.getLogger("py4j").setLevel(logging.CRITICAL)  # an exit is an exception, and no news

SHARING = frozenset(
    kafka.TOOLS[f"kafka-{name}"]
    for name in (
        "topics",
        "configs",
        "cluster",
        "storage",
        "features",
        "metadata-quorum",
        "dump-log",
        "console-producer",
        "consumer-groups",
        "groups",
        "leader-election",
        "reassign-partitions",
        "delete-records",
        "log-dirs",
        "get-offsets",
        "broker-api-versions",
    )
)
"""The tools that leave nothing behind which the next one sees. The console consumer counts its records in a static."""
GATEWAY = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
"""The class and its arguments: it takes any port, and ends with the process that started it."""
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
CLIENT_THREAD = "kafka-"
"""How the names of the threads of Kafka's clients begin."""
CALLERS_FRAMES = re.compile(r"(?:\tat java\.base/.*\n)+(?:\tat py4j\..*\n)+\tat java\.base/java\.lang\.Thread\.run.*\n")
"""What a stack trace shows below `main` here, and not in a process of its own."""


class _Exited(Exception):
    """Unwinds a tool that has exited."""


class _Position(NamedTuple):
    """How much a JVM has written."""

    out: int
    err: int


class _Run:
    """One run of a tool: its shutdown hooks, and the first end that it comes to."""

    def __init__(self, position: Callable[[], _Position]) -> None:
        self._position = position
        self._hooks: list[Any] = []
        self.start = position()
        self.end = self.start
        self.status: int | None = None

    def add_hook(self, hook: Any) -> None:
        """Keep a `Runnable` until the end."""
        self._hooks.append(hook)

    def shut_down(self, status: int) -> None:
        """Run the hooks and end, unless it has ended; only the first end counts."""
        hooks, self._hooks = self._hooks, []
        for hook in hooks:
            hook.run()
        self.finish(status)

    def finish(self, status: int) -> None:
        """What is written later is not the tool's."""
        if self.status is None:
            self.status, self.end = status, self._position()


class _ExitProcedure:
    """What `Exit.exit` does."""

    def __init__(self, jvm: SharedJvm) -> None:
        self._jvm = jvm

    def execute(self, status: int, _message: str | None) -> None:
        """End the run; nobody returns from an exit."""
        self._jvm.current.shut_down(status)
        raise _Exited

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$Procedure",)


class _ShutdownHookAdder:
    """What `Exit.addShutdownHook` does."""

    def __init__(self, jvm: SharedJvm) -> None:
        self._jvm = jvm

    def addShutdownHook(self, _name: str, hook: Any) -> None:  # noqa: N802 - Java's name
        """Keep the hook until the run ends."""
        self._jvm.current.add_hook(hook)

    class Java:
        implements = ("org.apache.kafka.common.utils.Exit$ShutdownHookAdder",)


class SharedJvm:
    """A JVM that runs one tool after another, until one hangs, stops the JVM or leaves threads behind."""

    def __init__(self, command: list[str]) -> None:
        """`command` runs `GATEWAY` with Py4J's and Kafka's jars on the class path."""
        self.surroundings = surroundings()
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - `stop` closes it
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=self._out, stderr=self._err)
        port, secret = self._greeting()
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auth_token=secret),
            callback_server_parameters=CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True),
        )
        server, callbacks = self._gateway.java_gateway_server, self._gateway.get_callback_server()
        server.resetCallbackClient(server.getCallbackClient().getAddress(), callbacks.get_listening_port())
        self.current = _Run(self._position)
        exits = self._gateway.jvm.org.apache.kafka.common.utils.Exit
        exits.setExitProcedure(_ExitProcedure(self))
        exits.setShutdownHookAdder(_ShutdownHookAdder(self))

    def _greeting(self) -> tuple[int, str]:
        """The port and the secret, which the gateway prints first."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while len(lines := os.pread(self._out.fileno(), 1000, 0).decode().split("\n")) < 3:
            assert self._process.poll() is None, os.pread(self._err.fileno(), 4000, 0).decode()
            assert time.monotonic() < deadline, "the JVM does not start"
            time.sleep(0.01)
        return int(lines[0]), lines[1]

    def _position(self) -> _Position:
        return _Position(os.fstat(self._out.fileno()).st_size, os.fstat(self._err.fileno()).st_size)

    def run(
        self, main: str, arguments: Sequence[str], stdin: str | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run the class's `main` to its end; if it takes too long, the JVM is killed. Raises `subprocess.TimeoutExpired`."""
        self.current = run = _Run(self._position)
        deadline = time.monotonic() + timeout_s
        killer = threading.Timer(timeout_s, self._process.kill)
        killer.start()
        try:
            self._call(main, arguments, stdin)
        except Py4JError:  # the tool has ended the JVM itself, or it was killed
            run.finish(self._process.wait(STOP_TIMEOUT_S))
            if time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired([main, *arguments], timeout_s) from None
        finally:
            killer.cancel()
        assert run.status is not None
        out = os.pread(self._out.fileno(), run.end.out - run.start.out, run.start.out).decode()
        err = os.pread(self._err.fileno(), run.end.err - run.start.err, run.start.err).decode()
        return subprocess.CompletedProcess([main, *arguments], run.status, out, CALLERS_FRAMES.sub("", err))

    def _call(self, main: str, arguments: Sequence[str], stdin: str | None) -> None:
        jvm = self._gateway.jvm
        with patch.object(
            java_gateway, "get_return_value", get_return_value
        ):  # a Spark session of this process has its own
            self._call_main(jvm, main, arguments, stdin)

    def _call_main(self, jvm: Any, main: str, arguments: Sequence[str], stdin: str | None) -> None:
        jvm.System.setIn(jvm.java.io.ByteArrayInputStream((stdin or "").encode()))
        words = self._gateway.new_array(jvm.String, len(arguments))
        for index, word in enumerate(arguments):
            words[index] = word
        try:
            functools.reduce(getattr, main.split("."), jvm).main(words)
        except Py4JJavaError as error:
            if self.current.status is None:
                jvm.System.err.print('Exception in thread "main" ')
                error.java_exception.printStackTrace()
                self.current.shut_down(1)
        else:
            self.current.shut_down(0)

    def is_clean(self) -> bool:
        """Does it run, and has no tool left a client that still works?"""
        if self._process.poll() is not None:
            return False
        # an array: the end of a collection is a Java exception, which PySpark, where it runs in this process too, looks up in its own JVM
        threads = self._gateway.jvm.Thread.getAllStackTraces().keySet().toArray()
        return not any(thread.getName().startswith(CLIENT_THREAD) for thread in threads)

    def stop(self) -> None:
        """Kill it, and wait for its end."""
        self._process.kill()
        self._process.communicate()
        self._gateway.shutdown_callback_server()
        self._gateway.close()
        self._out.close()
        self._err.close()


def surroundings() -> tuple[str, dict[str, str]]:
    """What a JVM takes over from the process that starts it: the working directory and the environment."""
    return str(Path.cwd()), {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


class SharedTools:
    """The JVM at hand: started when it is first needed, replaced when its surroundings change or a tool has harmed it."""

    def __init__(self) -> None:
        self._jvm: SharedJvm | None = None
        self._lock = threading.Lock()

    def run(
        self, main: str, arguments: Sequence[str], stdin: str | None, timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a class of Kafka's as `kafka.run_main` does, which runs what cannot share or would have to wait."""
        if main not in SHARING or not self._lock.acquire(blocking=False):
            return kafka.run_main(main, arguments, stdin, timeout_s)
        try:
            jvm = self._ready()
            try:
                return jvm.run(main, arguments, stdin, timeout_s)
            finally:
                if not jvm.is_clean():
                    self.close()
        finally:
            self._lock.release()

    def _ready(self) -> SharedJvm:
        if self._jvm is not None and self._jvm.surroundings != surroundings():
            self.close()
        if self._jvm is None:
            self._jvm = SharedJvm(kafka.java_command(*GATEWAY, jars=[find_jar_path()]))
        return self._jvm

    def close(self) -> None:
        """End the JVM, if there is one."""
        if self._jvm is not None:
            self._jvm.stop()
            self._jvm = None


@contextmanager
def shared_tools() -> Iterator[None]:
    """While it lasts `kafka.run_tool` uses one JVM for the tools that can share it."""
    tools = SharedTools()
    kafka.tool_runner = tools.run
    try:
        yield
    finally:
        kafka.tool_runner = kafka.run_main
        tools.close()
