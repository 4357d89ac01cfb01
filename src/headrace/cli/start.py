"""The command `headrace start`: it reads the configuration, formats a new quick-start directory, and runs the node.

    headrace start [-daemon] [--bootstrap] [server.properties] [--data dir] [--metrics host:port] [--override key=value]...

Options are parsed by hand: a node is to be ready within a second, and a command-line library alone costs a good part of it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.core.errors import OperatorError, StorageFault

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from headrace.config.node_config import NodeConfig
    from headrace.core.listener import HostPort
    from headrace.server.founding import Others
    from headrace.server.run import ReadyInfo

USAGE = (
    "usage: headrace start [-daemon] [--bootstrap] [server.properties] [--data dir] [--metrics host:port] "
    "[--override key=value]... [--processes N [--pin]]"
)
HELP = f"""{USAGE}

Runs one node. Without a file: broker and controller in one on 127.0.0.1:9092 (controller: port 9093), with its data in
./headrace-data (or --data), which is formatted if it is new. With a file (Kafka's server.properties) the directories must have been
formatted with `headrace storage format`.

  -daemon, --daemon        run in the background; returns when the node is ready
  --bootstrap              found the quorum, if this controller is the first of the file's list and there is none;
                           format unformatted directories first
  --data DIR               keep the data there: short for --override log.dirs=DIR
  --override key=value     a setting that wins over the file; may stand several times
  --metrics HOST:PORT      answer Prometheus there, on /metrics: short for --override headrace.metrics.listener=HOST:PORT
  --processes N            run N brokers of one file, for machines with many cores (auto: one for each core); the file's role is
                           broker: ids, ports and directories are derived from it
  --pin                    with --processes: keep each broker on one core
  --log-level LEVEL        debug, info, warning or error; default info with a file, else warning
  --version                print the version and exit
  -h, --help               print this text and exit
"""
QUICK_START = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.dirs": "./headrace-data",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
VOTERS_KEY = "controller.quorum.voters"
METRICS_KEY = "headrace.metrics.listener"
DATA_KEY = "log.dirs"
FLAGS = {"-daemon": "is_daemon", "--daemon": "is_daemon", "--bootstrap": "is_bootstrap", "--pin": "is_pinned"}
LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(slots=True)
class StartOptions:
    """The command line of `headrace start`."""

    file: str | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    data: str | None = None
    metrics: str | None = None
    is_daemon: bool = False
    is_bootstrap: bool = False
    log_level: str | None = None
    processes: int | None = None
    """So many brokers; 0: one for each core."""
    is_pinned: bool = False
    answer: str | None = None
    """What to print in place of starting (help, version)."""


def parse_arguments(arguments: list[str]) -> StartOptions:
    """The options. Raises OperatorError: an unknown one, an override without `=`, a second file."""
    options, rest = StartOptions(), list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, inline = word.partition("=")
        if word in ("-h", "--help"):
            options.answer = HELP
        elif word == "--version":
            from headrace import __version__  # only here

            options.answer = f"headrace {__version__}\n"
        elif word in FLAGS:
            setattr(options, FLAGS[word], True)
        elif name in ("--override", "--log-level", "--metrics", "--data", "--processes"):
            if not equals and not rest:
                raise OperatorError(f"{name} needs a value. {USAGE}")
            _set_option(options, name, inline if equals else rest.pop(0))
        elif word.startswith("-"):
            raise OperatorError(f"{word} is not an option of headrace start. {USAGE}")
        elif options.file is not None:
            raise OperatorError(f"{word}: one properties file at most. {USAGE}")
        else:
            options.file = word
    return options


def _set_option(options: StartOptions, name: str, value: str) -> None:
    if name == "--log-level":
        if value.lower() not in LOG_LEVELS:
            raise OperatorError(f"--log-level {value}: valid are {', '.join(LOG_LEVELS)}")
        options.log_level = value.lower()
        return
    if name == "--metrics":
        options.metrics = value
        return
    if name == "--processes":
        if value != "auto" and not (value.isascii() and value.isdigit() and int(value)):
            raise OperatorError(f"--processes {value}: write how many, or auto")
        options.processes = 0 if value == "auto" else int(value)
        return
    if name == "--data":
        if not value:
            raise OperatorError("--data: name a directory")
        options.data = value
        return
    key, equals, text = value.partition("=")
    if not equals or not key.strip():
        raise OperatorError(f"--override {value}: write key=value")
    options.overrides[key.strip()] = text


def load_settings(options: StartOptions) -> dict[str, str]:
    """What the file and the options say. Raises OperatorError: the file cannot be read."""
    given = dict(QUICK_START) if options.file is None else read_properties_file(options.file)
    if options.data is not None:
        given.pop("log.dir", None)
        given[DATA_KEY] = options.data
    given.update(options.overrides)
    if options.metrics is not None:
        given[METRICS_KEY] = options.metrics
    if options.file is None and not {VOTERS_KEY, "controller.quorum.bootstrap.servers"} & set(options.overrides):
        given[VOTERS_KEY] = _only_voter(given)
    return given


def _only_voter(given: Mapping[str, str]) -> str:
    """The quick start's node as the voter that it is, where `listeners` puts it: tools that ask a broker are sent there."""
    prefix = f"{given['controller.listener.names'].strip()}://"
    addresses = [each.strip().removeprefix(prefix) for each in given["listeners"].split(",") if prefix in each]
    host, _, port = addresses[0].rpartition(":") if addresses else ("", "", "")
    if not port.isdecimal() or port == "0":
        return QUICK_START[VOTERS_KEY]
    return f"{given['node.id'].strip()}@{'127.0.0.1' if host in ('', '0.0.0.0') else host}:{port}"


def load_config(options: StartOptions) -> NodeConfig:
    """The node's configuration. Raises OperatorError: the file cannot be read, or what it says cannot be."""
    from headrace.config.node_settings import parse_node_config

    given = load_settings(options)
    try:
        return parse_node_config(given)
    except OperatorError as error:
        raise OperatorError(f"{_blamed(options, str(error))}{error}") from error


def _blamed(options: StartOptions, refusal: str) -> str:
    """Where the setting that was refused was given: an option, an override that it names, or the file."""
    if options.metrics is not None and METRICS_KEY in refusal:
        return "--metrics: "
    if any(re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", refusal) for name in options.overrides):
        return "--override: "
    return f"{options.file}: " if options.file else ""


def read_properties_file(path: str) -> dict[str, str]:
    """The settings of a file. Raises OperatorError: it is not there, not readable, or no properties file (B75)."""
    from headrace.config.properties import MalformedProperties, decode_properties, parse_properties

    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror or error}") from error
    try:
        return parse_properties(decode_properties(data))
    except MalformedProperties as error:
        raise OperatorError(f"{path}, {error}") from error


def main(arguments: list[str]) -> int:
    """Run the command; the exit code."""
    return main_of(arguments)


def main_of(arguments: list[str], *, make_loop: Callable[[], AbstractEventLoop] | None = None) -> int:
    """Run the command on an event loop that `make_loop` gives (the usual one); the exit code."""
    if not __debug__:
        print("headrace: python -O leaves out the checks that the node relies on: run it without -O", file=sys.stderr)
        return 1
    try:
        options = parse_arguments(arguments)
        if options.answer is not None:
            sys.stdout.write(options.answer)
            return 0
        config = load_config(options)
        if options.processes is not None or options.is_pinned:
            return _run_processes(options)
        if options.is_daemon:
            from headrace.cli.daemon import start_in_background

            return start_in_background(config, lambda ready: run_node(config, options, ready), ready_line)
        return run_node(config, options, say_ready, make_loop=make_loop)
    except (OperatorError, StorageFault) as error:
        print(f"headrace: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        return 1


def _run_processes(options: StartOptions) -> int:
    """`--processes`. Raises OperatorError: with something that makes no sense for several."""
    if options.processes is None:
        raise OperatorError("--pin goes with --processes")
    if options.file is None:
        raise OperatorError("--processes multiplies the broker of a properties file: name the file")
    for is_given, name, instead in (
        (options.is_daemon, "-daemon", "let a service manager keep the parent in the background"),
        (options.is_bootstrap, "--bootstrap", "it is for controllers, which stay single"),
    ):
        if is_given:
            raise OperatorError(f"{name} does not go with --processes: {instead}")
    from headrace.cli.start_many import ManyOptions, run_many

    level = () if options.log_level is None else ("--log-level", options.log_level)
    return run_many(
        load_settings(options), ManyOptions(count=options.processes, is_pinned=options.is_pinned, passed_on=level)
    )


def run_node(
    config: NodeConfig,
    options: StartOptions,
    on_ready: Callable[[ReadyInfo], None],
    *,
    make_loop: Callable[[], AbstractEventLoop] | None = None,
) -> int:
    """Format if that was asked for, then run until the end. Raises OperatorError and StorageFault."""
    import logging

    from headrace.cli.clock import process_started_at
    from headrace.server.run import run

    level = options.log_level or ("warning" if options.file is None else "info")
    logging.basicConfig(
        level=level.upper(), format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)", stream=sys.stderr
    )
    for line in remarks(config):
        print(f"headrace: {line}", file=sys.stderr, flush=True)
    if options.file is None:
        _format_if_new(config)
    elif options.is_bootstrap:
        _bootstrap(config)
    return run(config, started_at=process_started_at(), on_ready=on_ready, make_loop=make_loop)


def remarks(config: NodeConfig) -> list[str]:
    """What the operator should know of the configuration: warnings, and once all keys without effect."""
    lines = list(config.warnings)
    if config.without_effect:
        lines.append(f"without effect here: {', '.join(config.without_effect)}")
    return lines


def _format_if_new(config: NodeConfig) -> None:
    from headrace.node.directories import all_directories, are_unformatted
    from headrace.storage.meta_properties import FILE_NAME
    from headrace.storage.os_files import OsFiles
    from headrace.storage.snapshot_files import METADATA_PARTITION_DIRECTORY

    files = OsFiles()
    directories = all_directories(config)
    if are_unformatted(config, files):
        from headrace.cli.clock import RANDOM, date_line
        from headrace.server.formatting import FormatOrder, format_directories, random_cluster_id

        order = FormatOrder(
            cluster_id=random_cluster_id(RANDOM), is_standalone=config.is_controller and not config.has_static_voters
        )
        format_directories(config, order, files=files, rng=RANDOM, date=date_line())
    elif not any(files.exists(f"{directory}/{FILE_NAME}") for directory in directories):
        where = ", ".join(directories)
        if any(files.exists(f"{directory}/{METADATA_PARTITION_DIRECTORY}") for directory in directories):
            raise OperatorError(
                f"{where} holds the data of a node, but its {FILE_NAME} is gone: put that file back, or give --data another directory"
            )
        raise OperatorError(f"{where} holds files, but none of a node: give --data a new or an empty directory")


def _bootstrap(config: NodeConfig) -> None:
    """Let the configured list found a quorum, if there is none (S4-19)."""
    from headrace.cli.clock import RANDOM, date_line
    from headrace.server.founding import bootstrap
    from headrace.storage.os_files import OsFiles

    for line in bootstrap(config, _ask_others, files=OsFiles(), rng=RANDOM, date=date_line()):
        print(f"headrace: {line}", file=sys.stderr, flush=True)


def _ask_others(addresses: Sequence[HostPort]) -> Others:
    """What other controllers of the list say of the quorum; those that do not answer say nothing."""
    from headrace.client.blocking import BlockingClient
    from headrace.explain.collect import collect
    from headrace.server.founding import Others

    patience = {"socket.connection.setup.timeout.ms": "2000", "request.timeout.ms": "2000"}
    with BlockingClient(map(str, addresses), properties=patience, is_controller=True) as client:
        seen = client.run(collect, timeout_ms=2_000)
    views = [each.view for each in seen if each.view is not None]
    return Others(
        cluster_id=next((view.cluster_id for view in views), None),
        has_quorum=any(view.voters or view.leader_id >= 0 for view in views)
        or any(each.leader_id >= 0 for each in seen),
    )


def ready_line(ready: ReadyInfo) -> str:
    """Where the node is and how long it took, in one line."""
    where = ", ".join(f"{one.name}://{one.host or '*'}:{one.port}" for one in ready.listeners)
    line = f"headrace node {ready.node_id} ready in {ready.seconds:.2f} s on {where}, data in {os.path.abspath(ready.data_dir)}"
    at = ready.metrics
    return line if at is None else f"{line}, metrics on http://{at._replace(host=at.host or '*')}/metrics"


def say_ready(ready: ReadyInfo) -> None:
    """Print the ready line; whoever waits for it reads it at once."""
    print(ready_line(ready), flush=True)
