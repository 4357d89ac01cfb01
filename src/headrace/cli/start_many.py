"""`headrace start FILE --processes N`: the parent of several brokers that one properties file makes.

It starts each, starts one that died again, alone and later each time, passes a stop on, and shows the metrics of all on one page.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.cli.clock import RANDOM, date_line, process_started_at
from headrace.config.checks import parse_listen_address
from headrace.config.many_processes import BrokerProcess, Restarts, broker_processes
from headrace.config.node_config import NodeConfig
from headrace.config.node_settings import parse_node_config
from headrace.core.errors import OperatorError
from headrace.core.values import value_class
from headrace.node.directories import all_directories, are_unformatted
from headrace.server.formatting import FormatOrder, format_directories
from headrace.server.metrics.http import HttpServer, Responder
from headrace.server.metrics.merged import LABEL, merged_page
from headrace.storage.meta_properties import FILE_NAME, parse_meta_properties
from headrace.storage.os_files import OsFiles

_READY: Final = re.compile(rb" ready in [\d.]+ s on ")
_METRICS: Final = re.compile(rb", metrics on (http://\S+)")
_OF_A_PARTITION: Final = re.compile(r".+-\d+")
_PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
_SCRAPE_S: Final = 5.0
_REMIND_S: Final = 60.0
_LINE_BYTES: Final = 1 << 20


@value_class
class ManyOptions:
    """What the command line says: the number of brokers (0: one for each core), whether each stays on a core, and options that each gets too."""

    count: int
    is_pinned: bool = False
    passed_on: tuple[str, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Broker:
    """One of the brokers as a process."""

    plan: BrokerProcess
    file: str
    core: int
    restarts: Restarts = field(default_factory=Restarts)
    child: asyncio.subprocess.Process | None = None
    is_ready: bool = False
    started: int = 0
    metrics_url: str = ""
    code: int | None = None


def run_many(given: Mapping[str, str], options: ManyOptions) -> int:
    """Run the brokers until a signal; the exit code: 1 if one was given up or did not end well. Raises OperatorError."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if options.is_pinned and not cores:
        raise OperatorError("--pin: this system does not say which cores there are; leave it out")
    plans = broker_processes(given, options.count or os.cpu_count() or 1, host_name=socket.gethostname())
    _format_new(parse_node_config(given), plans)
    brokers = [
        _Broker(plan=each, file=_write_file(each), core=cores[each.number % len(cores)] if options.is_pinned else -1)
        for each in plans
    ]
    return asyncio.run(_Parent(brokers, parse_node_config(given), options).run())


def _format_new(base: NodeConfig, plans: Sequence[BrokerProcess]) -> None:
    """Format the directories of brokers that are new, for the cluster that the file's own directories were formatted for."""
    files = OsFiles()
    new = [each.config for each in plans if are_unformatted(each.config, files)]
    for directory in all_directories(base):
        entries = os.listdir(directory) if os.path.isdir(directory) else []
        for name in entries:
            if _OF_A_PARTITION.fullmatch(name) and os.path.isdir(os.path.join(directory, name)):
                raise OperatorError(
                    f"{directory} holds partitions of a single broker ({name}): give --processes a file with other log.dirs, or start this one without it"
                )
    if not new:
        return
    found = [f"{directory}/{FILE_NAME}" for directory in all_directories(base)]
    known = [path for path in found if os.path.exists(path)]
    if not known:
        raise OperatorError(
            f"{', '.join(all_directories(base))} is not formatted: run `headrace storage format` with this file first, which says the cluster's id"
        )
    with open(known[0]) as file:
        cluster_id = parse_meta_properties(file.read(), path=known[0]).cluster_id
    if cluster_id is None:
        raise OperatorError(f"{known[0]}: cluster.id is missing")
    for config in new:
        format_directories(config, FormatOrder(cluster_id=cluster_id), files=files, rng=RANDOM, date=date_line())


def _write_file(process: BrokerProcess) -> str:
    """The broker's own properties file, beside its first directory."""
    path = f"{process.config.log_dirs[0]}.properties"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = "".join(f"{name}={_escaped(value)}\n" for name, value in process.settings.items())
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write("# Made by headrace start --processes at each start; change the file that it was given.\n" + text)
    return path


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


class _Parent:
    """Starts the brokers, keeps them running, stops them."""

    def __init__(self, brokers: list[_Broker], base: NodeConfig, options: ManyOptions) -> None:
        self._brokers = brokers
        self._base = base
        self._options = options
        self._signals = 0
        self._stopping = asyncio.Event()
        self._has_told_ready = False
        self._page = ""
        self._http = HttpServer(
            Responder("/metrics", lambda _: (self._page.encode(), _PLAIN)), self._collect_soon, is_ready=lambda: False
        )

    async def run(self) -> int:
        """Until all have ended for good."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self._stop)
        if self._base.headrace_metrics_listener:
            await self._open_metrics(self._base.headrace_metrics_listener)
        reminding = loop.create_task(self._remind())
        try:
            await asyncio.gather(*(self._keep(each) for each in self._brokers))
        finally:
            reminding.cancel()
            await self._http.close()
        failed = [each for each in self._brokers if each.restarts.is_given_up or each.code]
        return 1 if failed else 0

    async def _open_metrics(self, text: str) -> None:
        at = parse_listen_address(text)
        try:
            await self._http.open(at.host, at.port)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise OperatorError(f"headrace.metrics.listener: cannot listen on {text}: {reason}") from error

    # -- one broker ---------------------------------------------------------------------------------------------------

    async def _keep(self, broker: _Broker) -> None:
        """Run a broker, again and again if it must be."""
        while not self._stopping.is_set():
            began_s = time.monotonic()
            await self._live(broker)
            lived_s = time.monotonic() - began_s
            if self._stopping.is_set():
                return
            if broker.code == 0:
                _say(broker, "has ended by itself (exit code 0), so it is not started again")
                return
            wait_s = broker.restarts.died(lived_s)
            how = (
                f"ended with exit code {broker.code}"
                if (broker.code or 0) > 0
                else f"was ended by signal {-(broker.code or 0)}"
            )
            if wait_s is None:
                _say(
                    broker,
                    f"{how} {Restarts.QUICK_DEATHS} times in a row: GIVEN UP; its partitions are led elsewhere or not at all",
                )
                return
            _say(broker, f"{how} after {lived_s:.1f} s and is started again in {wait_s:g} s")
            try:
                await asyncio.wait_for(self._stopping.wait(), wait_s)
            except TimeoutError:
                continue

    async def _live(self, broker: _Broker) -> None:
        """From the start of its process to the end."""
        command = ["-m", "headrace.cli.one_of_many", str(os.getpid()), str(broker.core), broker.file]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            *self._options.passed_on,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            limit=_LINE_BYTES,
            process_group=0,  # a Ctrl-C is passed on, once
        )
        broker.child, broker.code, broker.started = child, None, broker.started + 1
        if self._stopping.is_set():
            child.send_signal(signal.SIGTERM)
        assert child.stdout is not None, "asked for"
        while True:
            try:
                line = await child.stdout.readline()
            except ValueError:  # too long for a line: leave it out
                continue
            if not line:
                break
            self._heard(broker, line)
        broker.code = await child.wait()
        broker.is_ready, broker.metrics_url, broker.child = False, "", None

    def _heard(self, broker: _Broker, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\n")
        print(f"[{broker.plan.node_id}] {text}", file=sys.stderr, flush=True)
        if not broker.is_ready and _READY.search(line):
            broker.is_ready = True
            found = _METRICS.search(line)
            broker.metrics_url = found[1].decode() if found else ""
            if not self._has_told_ready and all(each.is_ready for each in self._brokers):
                self._has_told_ready = True
                self._tell_ready()

    def _tell_ready(self) -> None:
        where = ", ".join(f"{one.name}://{one.host or '*'}:{one.port}" for one in self._base.listeners)
        ids = [each.plan.node_id for each in self._brokers]
        seconds = time.monotonic() - process_started_at()
        line = f"headrace: {len(ids)} brokers ({ids[0]} to {ids[-1]}) ready in {seconds:.2f} s, all of them on {where}"
        if self._base.headrace_metrics_listener:
            line += f", metrics on http://{self._base.headrace_metrics_listener}/metrics"
        print(line, flush=True)

    async def _remind(self) -> None:
        while True:
            await asyncio.sleep(_REMIND_S)
            for each in self._brokers:
                if each.restarts.is_given_up:
                    _say(each, "is GIVEN UP: see above why it ended; a restart of all brings it back")

    def _stop(self) -> None:
        """Pass a stop on: the first signal stops all in the controlled way, a second one does not wait for the controller, a third one kills."""
        self._signals += 1
        self._stopping.set()
        for each in self._brokers:
            if each.child is not None:
                each.child.send_signal(signal.SIGTERM if self._signals < 3 else signal.SIGKILL)

    # -- one page of metrics ------------------------------------------------------------------------------------------

    def _collect_soon(self) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._collect())

    async def _collect(self) -> None:
        self._page = await asyncio.to_thread(_collected, [(each, each.metrics_url) for each in self._brokers])


def _collected(brokers: Sequence[tuple[_Broker, str]]) -> str:
    """What all brokers show, and whether they are up. For a thread."""
    pages: dict[str, str] = {}
    ups, starts = [], []
    for broker, url in brokers:
        node_id, page = str(broker.plan.node_id), None
        if url:
            try:
                with urllib.request.urlopen(url, timeout=_SCRAPE_S) as answer:
                    page = answer.read().decode()
            except OSError:
                page = None
        if page is not None:
            pages[node_id] = page
        ups.append(f'headrace_process_up{{{LABEL}="{node_id}"}} {int(page is not None)}\n')
        starts.append(f'headrace_process_starts_total{{{LABEL}="{node_id}"}} {broker.started}\n')
    own = "# HELP headrace_process_up 1: the broker answers.\n# TYPE headrace_process_up gauge\n" + "".join(ups)
    own += "# HELP headrace_process_starts_total How often the broker was started.\n# TYPE headrace_process_starts_total counter\n"
    return own + "".join(starts) + merged_page(pages)


def _say(broker: _Broker, what: str) -> None:
    print(f"headrace: broker {broker.plan.node_id} {what}", file=sys.stderr, flush=True)
