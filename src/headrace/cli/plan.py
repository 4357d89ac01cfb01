"""The command `headrace plan`: what would happen if a broker died or stopped, or replicas moved; and a plan that was looked at, applied."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click

from headrace.cli.metadata_follower import QuorumFollower
from headrace.cli.output import show_json
from headrace.cli.plan_file import depends_on, differences, parse_plan, plan_document
from headrace.cli.plan_report import plain, print_report, report
from headrace.cli.reassignment_file import check_executable, name_of, parse_reassignment
from headrace.cli.reassignment_states import wait_for_moves
from headrace.cli.shell import (
    BOOTSTRAP_SERVER_HELP,
    Group,
    address_list,
    connect,
    exactly_one,
    json_option,
    read_properties,
)
from headrace.cli.text_files import read_json_text
from headrace.cli.waiting import wait_option
from headrace.client import admin_cluster, admin_placement, admin_quorum
from headrace.client.blocking import BlockingClient
from headrace.config.node_config import NodeConfig
from headrace.controller.forecast import Forecast, if_broker_dies, if_broker_stops, if_reassigned
from headrace.core.errors import OperatorError
from headrace.core.ids import TopicPartition
from headrace.metadata.image import MetadataImage

SCENARIOS = "--broker-gone, --broker-stopped or --reassignment"


class Source(NamedTuple):
    """A cluster that is asked: its brokers, and its metadata log."""

    client: BlockingClient
    follower: QuorumFollower


@click.group(
    cls=Group,
    invoke_without_command=True,
    help="Foretell what the controller would do if a broker died or stopped, or replicas moved. Nothing is changed.",
)
@click.option("--bootstrap-server", type=address_list, metavar="HOST:PORT,...", help=BOOTSTRAP_SERVER_HELP)
@click.option(
    "--command-config", type=click.Path(), metavar="FILE", help="A properties file with settings of the client."
)
@click.option(
    "--bootstrap-controller",
    type=address_list,
    metavar="HOST:PORT,...",
    help="Controllers to read the metadata log from; those that the brokers name if it is not given.",
)
@click.option("--broker-gone", type=int, metavar="ID", help="If the broker's process died.")
@click.option("--broker-stopped", type=int, metavar="ID", help="If the broker stopped in order.")
@click.option(
    "--reassignment", type=click.Path(), metavar="FILE", help="If this file of `reassign-partitions` was executed."
)
@click.option("--save", type=click.Path(), metavar="FILE", help="Save the plan of --reassignment, for `apply`.")
@click.option(
    "--min-insync-replicas",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="What counts where neither the topic nor the cluster sets min.insync.replicas.",
)
@click.option(
    "--unclean-leader-election",
    is_flag=True,
    help="Controllers are started with unclean.leader.election.enable=true.",
)
@json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> int:
    """Foretell, unless a sub-command is called."""
    context.obj = options
    if context.invoked_subcommand is not None:
        given = {name: value for name, value in options.items() if value and name in ("broker_gone", "reassignment")}
        if given:
            raise OperatorError(f"`plan apply` takes the file of a plan, not --{next(iter(given)).replace('_', '-')}")
        return 0
    scenario = exactly_one(
        {name: options[name] is not None for name in ("broker_gone", "broker_stopped", "reassignment")}, SCENARIOS
    )
    if options["save"] is not None and scenario != "reassignment":
        raise OperatorError("--save goes with --reassignment: only that can be applied")
    targets = None
    if scenario == "reassignment":
        targets = check_executable(parse_reassignment(read_json_text(options["reassignment"])))
    with source(options) as cluster:
        return _foretell(cluster, options, targets)


@contextmanager
def source(options: Mapping[str, Any]) -> Iterator[Source]:
    """Connections to the brokers and to the quorum. Raises OperatorError."""
    with connect(options["bootstrap_server"], options["command_config"]) as client:
        controllers = options["bootstrap_controller"] or _controllers(client)
        properties = read_properties(options["command_config"]) if options["command_config"] else {}
        follower = QuorumFollower(controllers, {**properties, "bootstrap.servers": ""})
        try:
            yield Source(client, follower)
        finally:
            follower.close()


def _controllers(client: BlockingClient) -> str:
    """Where the voters listen, as the brokers know it. Raises OperatorError."""
    quorum = client.run(admin_quorum.describe_quorum)
    found = [f"{end.host}:{end.port}" for _, ends in sorted(quorum.end_points.items()) for end in ends[:1]]
    if not found:
        raise OperatorError("The brokers do not say where the controllers listen: give --bootstrap-controller")
    return ",".join(found)


def _foretell(
    cluster: Source, options: Mapping[str, Any], targets: Mapping[TopicPartition, Sequence[int]] | None
) -> int:
    image = cluster.follower.refresh()
    what, forecast = foresee(image, options, targets)
    alive = sorted(each for each, broker in image.cluster.brokers.items() if not broker.fenced)
    sizes, silent = cluster.client.run(admin_placement.replica_sizes, alive)
    found = report(what, forecast, sizes, min_insync_replicas=options["min_insync_replicas"], has_sizes=not silent)
    if options["as_json"]:
        show_json(plain(found))
    else:
        print_report(found)
    if options["save"] is not None and targets is not None:
        cluster_id = cluster.client.run(admin_cluster.describe_cluster).cluster_id
        Path(options["save"]).write_text(plan_document(image, targets, cluster_id), encoding="utf-8")
    return 1 if found.refused else 0


def foresee(
    image: MetadataImage, options: Mapping[str, Any], targets: Mapping[TopicPartition, Sequence[int]] | None
) -> tuple[str, Forecast]:
    """What is foretold, and the forecast. Raises OperatorError: there is no such broker."""
    config = NodeConfig(node_id=-1, log_dirs=("/",), unclean_leader_election_enable=options["unclean_leader_election"])
    rng = random.Random(0)  # no decision of these draws, but the controller wants one
    if targets is not None:
        what = f"If {len(targets):,} partition{'' if len(targets) == 1 else 's'} moved:"
        return what, if_reassigned(image, targets, config=config, rng=rng)
    is_gone = options["broker_gone"] is not None
    broker_id = options["broker_gone"] if is_gone else options["broker_stopped"]
    if broker_id not in image.cluster.brokers:
        known = ", ".join(map(str, sorted(image.cluster.brokers))) or "none"
        raise OperatorError(f"No broker {broker_id} is registered; these are: {known}")
    if is_gone:
        return f"If broker {broker_id} died:", if_broker_dies(image, broker_id, config=config, rng=rng)
    return f"If broker {broker_id} stopped:", if_broker_stops(image, broker_id, config=config, rng=rng)


@command.command("apply", help="Execute a plan that was saved, unless what it depends on has changed since.")
@click.argument("plan", type=click.Path(), metavar="PLAN")
@wait_option
@click.pass_context
def apply(context: click.Context, plan: str, wait_ms: int | None) -> int:
    """Compare, then ask for the reassignment."""
    targets, planned, cluster_id = parse_plan(read_json_text(plan))
    with source(context.obj) as cluster:
        present = cluster.client.run(admin_cluster.describe_cluster).cluster_id
        if present != cluster_id:
            raise OperatorError(f"the plan was made for cluster {cluster_id}, this one is {present}")
        changed = list(differences(planned, depends_on(cluster.follower.refresh(), targets)))
        if changed:
            more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
            raise OperatorError(f"The cluster has changed since the plan was made, make a new one: {changed[0]}{more}")
        errors = cluster.client.run(admin_placement.alter_reassignments, targets)
        failed = [f"{name_of(where)}: {error}" for where, error in sorted(errors.items()) if error is not None]
        if failed:
            raise OperatorError(f"Not begun: {'; '.join(failed)}")
        print(f"Begun: {', '.join(map(name_of, sorted(targets)))}")
        if wait_ms is not None:
            wait_for_moves(cluster.client, targets, wait_ms)
            print("Done: all replicas are where the plan has them, and in sync.")
    return 0
