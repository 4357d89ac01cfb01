"""The command `headrace cluster`: the cluster's id, where its nodes are, and how a broker leaves it for good."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headrace.cli import cluster_dev
from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import BOOTSTRAP_SERVER_HELP, Group, address_list, connect, json_option, read_properties
from headrace.client import admin_cluster, routing
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.cli.cluster_decommission import Cluster

F = TypeVar("F", bound=Callable[..., Any])


class _Aliases(Group):
    """Knows `id` as another word for `cluster-id` (S1-74)."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a word, or None."""
        return super().get_command(ctx, "cluster-id" if cmd_name == "id" else cmd_name)


def target_options(function: F) -> F:
    """Where the cluster is: brokers or controllers, and a file of client settings."""
    function = click.option(
        "--command-config",
        "-c",
        "--config",
        "command_config",
        type=click.Path(),
        metavar="FILE",
        help="Settings of the client.",
    )(function)
    function = click.option(
        "--bootstrap-controller",
        "-C",
        type=address_list,
        metavar="HOST:PORT,...",
        help="The controllers to connect to.",
    )(function)
    function = click.option(
        "--bootstrap-server", "-b", type=address_list, metavar="HOST:PORT,...", help=BOOTSTRAP_SERVER_HELP
    )(function)
    return json_option(function)


def broker_option(function: F) -> F:
    """Which broker is meant."""
    return click.option("--id", "-i", "broker_id", type=int, required=True, metavar="ID", help="The id of the broker.")(
        function
    )


def _target(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: str | None
) -> BlockingClient:
    return connect(bootstrap_server, command_config, bootstrap_controller=bootstrap_controller)


@click.command(
    cls=_Aliases,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Identify a cluster and manage its brokers.",
)
def command() -> None:
    """The group of the commands below, and of those for development."""


for _each in cluster_dev.COMMANDS:
    command.add_command(_each)


@command.command("cluster-id", help="Print the cluster's id (also: id).")
@target_options
def cluster_id(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: str | None, as_json: bool
) -> int:
    """The cluster's id, from a broker or a controller (S1-75)."""
    with _target(bootstrap_server, bootstrap_controller, command_config) as client:
        client.run(routing.refresh)
        found = client.session.cluster.cluster_id
    if as_json:
        show_json({"clusterId": found})
    elif found is None:
        print("No cluster ID found. The Kafka version is probably too old.")
    else:
        print(f"Cluster ID: {found}")
    return 0


@command.command("list-endpoints", help="List where the brokers (or controllers) listen.")
@target_options
@click.option("--include-fenced-brokers", is_flag=True, help="List fenced brokers too.")
def list_endpoints(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: str | None,
    as_json: bool,
    include_fenced_brokers: bool,
) -> int:
    """KIP-1073: DescribeCluster, of the nodes asked."""
    if bootstrap_controller and include_fenced_brokers:
        raise OperatorError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    kind = "controller" if bootstrap_controller else "broker"
    with _target(bootstrap_server, bootstrap_controller, command_config) as client:
        found = client.run(admin_cluster.describe_cluster, is_with_fenced=include_fenced_brokers)
    nodes = sorted(found.end_points, key=lambda node: node.node_id)
    if as_json:
        show_json([
            {"id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack, "fenced": node.is_fenced, "type": kind}
            for node in nodes
        ])  # fmt: skip
        return 0
    states = {None: "unknown", True: "fenced", False: "unfenced"}
    state_of = [] if kind == "controller" else [states[node.is_fenced] for node in nodes]
    rows = [
        [str(node.node_id), node.host, str(node.port), str(node.rack or "null"), *state_of[index : index + 1], kind]
        for index, node in enumerate(nodes)
    ]
    columns = ["ID", "HOST", "PORT", "RACK", *(["STATE"] if kind == "broker" else []), "ENDPOINT_TYPE"]
    if is_terminal():
        show_table("", [column.lower() for column in columns], rows, right=(0, 2))
    else:
        print("\n".join(padded(columns, rows)))
    return 0


def padded(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Kafka's columns: ID, PORT and RACK are 10 wide, HOST as wide as the longest, the others 15 or less."""
    host = max([len(row[1]) for row in rows] + [4])
    widths = {
        "ID": 10,
        "HOST": host,
        "PORT": 10,
        "RACK": max([len(row[3]) for row in rows] + [10]),
        "STATE": 10,
        "ENDPOINT_TYPE": 15,
    }
    return [
        " ".join(cell.ljust(widths[column]) for cell, column in zip(row, columns, strict=True))
        for row in [columns, *rows]
    ]


@command.command("unregister", help="Take a broker that is gone for good out of the cluster's register.")
@target_options
@broker_option
def unregister(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: str | None,
    as_json: bool,
    broker_id: int,
) -> int:
    """The assignments keep the broker (S1-76)."""
    from headrace.cli import cluster_decommission as work

    with _cluster(bootstrap_server, bootstrap_controller, command_config) as cluster:
        found = work.found_before(cluster, broker_id)
        work.unregister(cluster, broker_id)
    line = f"Broker {broker_id} is no longer registered."
    if as_json:
        show_json({"broker": broker_id, "message": line})
    else:
        print(line)
    if found is not None and (hint := work.hint_after_unregistering(broker_id, *found)):
        print(hint, file=sys.stderr)
    return 0


@command.command(
    "decommission",
    help="Move a broker's replicas to other brokers, wait until they are in sync, and take it out of the register. Replication factors "
    "stay as they are. With --force it goes at once: partitions have one replica fewer, and those that have nobody else in sync lose data.",
)
@target_options
@broker_option
@click.option(
    "--force",
    "-f",
    "is_forced",
    is_flag=True,
    help="Move nothing: its partitions have one replica fewer afterwards, and those that have no other lose their data.",
)
def decommission(
    bootstrap_server: str | None,
    bootstrap_controller: str | None,
    command_config: str | None,
    as_json: bool,
    broker_id: int,
    is_forced: bool,
) -> int:
    """Drained first, or by force with a report of what was lost (S1-66, S1-70, S1-71)."""
    from headrace.cli import cluster_decommission as work

    with _cluster(bootstrap_server, bootstrap_controller, command_config) as cluster:
        is_live = broker_id in cluster.racks()
        held = work.found_before(cluster, broker_id) if is_forced else None
        if is_forced:
            lost, moved = work.decommission_by_force(cluster, broker_id), 0
        else:
            lost, moved = {}, work.decommission(cluster, broker_id)
    gone = [f"{name}-{number}" for name, numbers in sorted(lost.items()) for number in numbers]
    line = f"Broker {broker_id} is decommissioned: {moved} partition(s) were moved away"
    if is_forced:
        line = (
            f"Broker {broker_id} is decommissioned by force: {len(gone)} partition(s) lost their only replica in sync"
        )
    if as_json:
        show_json({"broker": broker_id, "movedPartitions": moved, "lostPartitions": gone, "message": f"{line}."})
    else:
        print(f"{line}: {', '.join(gone)}" if gone else f"{line}.")
    if held is not None and held[1] > len(gone):
        print(work.hint_for_fewer_replicas(held[1] - len(gone)), file=sys.stderr)
    if is_live:
        print(work.hint_for_a_live_one(broker_id), file=sys.stderr)
    return 0


@contextmanager
def _cluster(
    bootstrap_server: str | None, bootstrap_controller: str | None, command_config: str | None
) -> Iterator[Cluster]:
    """The cluster's partitions and brokers, of brokers or of the metadata log of the controllers."""
    from headrace.cli.cluster_decommission import Cluster

    with _target(bootstrap_server, bootstrap_controller, command_config) as client, ExitStack() as stack:
        image = None
        if bootstrap_controller:
            from headrace.cli.metadata_follower import QuorumFollower

            properties = read_properties(command_config) if command_config else {}
            image = stack.enter_context(closing(QuorumFollower(bootstrap_controller, properties))).refresh
        yield Cluster(client, image)
