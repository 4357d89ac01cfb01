"""The commands of `headrace cluster` for a cluster on one machine, for development: up, down, status, and what breaks and mends its nodes."""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from headrace.cli.output import show_json, show_table
from headrace.cli.shell import json_option
from headrace.core.errors import OperatorError

F = TypeVar("F", bound=Callable[..., Any])
DIRECTORY = "headrace-cluster"


class _Stop(BaseException):
    """A signal says that it is over."""


def data_option(function: F) -> F:
    """Where the cluster is."""
    return click.option(
        "--data", default=DIRECTORY, show_default=True, metavar="DIR", help="The directory of the cluster."
    )(function)


def nodes_argument(function: F) -> F:
    """Which nodes."""
    return click.argument("node_ids", metavar="ID...", type=int, nargs=-1, required=True)(function)


@click.command("up", help="Run a cluster of N nodes on this machine, for development, until Ctrl-C (default: 3).")
@click.argument("nodes", metavar="[N]", type=click.IntRange(1, 100), required=False)
@click.option("--controllers", type=click.IntRange(1, 100), help="Controllers of their own, in place of N.")
@click.option("--brokers", type=click.IntRange(0, 100), help="Brokers of their own, in place of N.")
@data_option
@click.option("--ephemeral", is_flag=True, help="Keep nothing: a temporary directory.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_000),
    default=9092,
    show_default=True,
    help="Brokers listen from here on, controllers 100 above, metrics 200 above; 0: any free ports.",
)
@click.option("--metrics", "has_metrics", is_flag=True, help="Let each node answer Prometheus.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of every node; a file that it writes (headrace.state.change.file) stands in its directory.",
)
def up(
    nodes: int | None,
    controllers: int | None,
    brokers: int | None,
    data: str,
    ephemeral: bool,
    port: int,
    has_metrics: bool,
    overrides: tuple[str, ...],
) -> int:
    """Nodes 1..N are controller and broker in one; topics have up to three replicas by default."""
    from headrace.testing.dev_cluster import Shape

    if nodes and (controllers or brokers):
        raise OperatorError("either N nodes that are both, or --controllers and --brokers: not all three")
    if brokers and not controllers:
        controllers = 1
    shape = Shape(
        nodes=0 if controllers else nodes or 3,
        controllers=controllers or 0,
        brokers=brokers or 0,
        port=port,
        has_metrics=has_metrics,
        overrides=dict(map(_setting, overrides)),
    )
    if not ephemeral:
        return _run(Path(data), shape, data)
    directory = Path(tempfile.mkdtemp(prefix=f"{DIRECTORY}-"))
    try:
        return _run(directory, shape, str(directory))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise OperatorError(f"--override {text}: write key=value")
    return key.strip(), value


def _run(directory: Path, shape: Any, data: str) -> int:
    """Up, until a signal or `down`; the exit code. A second signal does not wait for a clean stop."""
    from headrace.cli.clock import process_started_at
    from headrace.testing.dev_cluster import DevCluster

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _raise_stop)
    made = DevCluster(directory, shape)
    failed: list[int] = []
    try:
        try:
            made.start()
            _tell_ready(made, time.monotonic() - process_started_at(), data)
            made.serve(lambda line: print(f"headrace cluster: {line}", flush=True))
        except _Stop:
            print("headrace cluster: stopping", flush=True)
        finally:
            failed = made.end()
    except _Stop:
        made.cluster.kill()
        return 1
    for node_id in failed:
        print(f"headrace cluster: node {node_id} did not end well: see {made.cluster[node_id].log}", flush=True)
    print("headrace cluster: stopped", flush=True)
    return 1 if failed else 0


def _raise_stop(number: int, frame: object) -> None:
    raise _Stop


def _tell_ready(made: Any, seconds: float, data: str) -> None:
    for each in made.cluster.members.values():
        where = [
            f"{name}://{each.place.host}:{port}"
            for name, port in (("PLAINTEXT", each.port), ("CONTROLLER", each.controller_port))
            if port
        ]
        if each.metrics_port:
            where.append(f"http://{each.place.host}:{each.metrics_port}/metrics")
        print(f"node {each.node_id}: {', '.join(where)}, process {each.pid}, log {each.log}")
    option = "" if data == DIRECTORY else f" --data {data}"
    print(
        f"from another terminal: headrace cluster status{option} (kill, pause, resume, restart, partition, heal, down)"
    )
    servers = made.cluster.bootstrap_servers or f"none; controllers {made.cluster.bootstrap_controllers}"
    count = len(made.cluster.members)
    print(
        f"headrace cluster of {count} node{'s' if count > 1 else ''} ready in {seconds:.2f} s, bootstrap servers {servers}",
        flush=True,
    )


def _tell(data: str, action: str, **about: Any) -> int:
    from headrace.testing.dev_cluster import order

    for line in order(Path(data), action, **about)["lines"]:
        print(line)
    return 0


@click.command("down", help="Stop the development cluster of a directory cleanly.")
@data_option
def down(data: str) -> int:
    """The process that runs it ends too."""
    return _tell(data, "stop")


@click.command("status", help="Show the nodes of the development cluster of a directory.")
@data_option
@json_option
def status(data: str, as_json: bool) -> int:
    """State, process, listeners, and whom a node sends to in vain."""
    from headrace.testing.dev_cluster import order

    nodes = order(Path(data), "status")["nodes"]
    if as_json:
        show_json(nodes)
        return 0
    rows = [
        [
            str(each["node"]),
            ",".join(each["roles"]),
            each["state"],
            str(each["pid"] or "-"),
            " ".join(each["listeners"]),
            ",".join(map(str, each["unheard_by"])) or "-",
        ]
        for each in nodes
    ]
    show_table("", ["node", "roles", "state", "process", "listeners", "unheard by"], rows, right=(0, 3))
    return 0


@click.command("kill", help="Kill nodes of the development cluster (SIGKILL).")
@nodes_argument
@data_option
def kill(node_ids: tuple[int, ...], data: str) -> int:
    """`restart` brings them back."""
    return _tell(data, "kill", nodes=node_ids)


@click.command("pause", help="Stop nodes of the development cluster in their tracks (SIGSTOP).")
@nodes_argument
@data_option
def pause(node_ids: tuple[int, ...], data: str) -> int:
    """Their connections stay, and nobody answers."""
    return _tell(data, "pause", nodes=node_ids)


@click.command("resume", help="Let paused nodes of the development cluster go on.")
@nodes_argument
@data_option
def resume(node_ids: tuple[int, ...], data: str) -> int:
    """SIGCONT."""
    return _tell(data, "resume", nodes=node_ids)


@click.command("restart", help="Start nodes of the development cluster again, after a clean stop of those that run.")
@nodes_argument
@data_option
def restart(node_ids: tuple[int, ...], data: str) -> int:
    """One after the other."""
    return _tell(data, "restart", nodes=node_ids)


@click.command("partition", help="Cut nodes of the development cluster off from others: lists of ids, such as 1 2,3.")
@click.argument("these", metavar="ID,...")
@click.argument("those", metavar="ID,...")
@click.option("--one-way", is_flag=True, help="Only what the first ones send does not arrive.")
@data_option
def partition(these: str, those: str, one_way: bool, data: str) -> int:
    """Requests, responses and connects wait until `heal`; clients reach every node."""
    return _tell(data, "partition", nodes=_ids(these), others=_ids(those), one_way=one_way)


@click.command("heal", help="End every cut between nodes of the development cluster.")
@data_option
def heal(data: str) -> int:
    """What waited arrives."""
    return _tell(data, "heal")


def _ids(text: str) -> list[int]:
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise OperatorError(f"{text}: write ids of nodes, with commas between them") from None


COMMANDS = (up, down, status, kill, pause, resume, restart, partition, heal)
