"""The command `headrace quorum`: who votes on the metadata, how far everybody is, and changes of the voters (kafka-metadata-quorum)."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.output import is_terminal, show_json
from headrace.cli.quorum_change import describe_end_points, new_controller
from headrace.cli.quorum_view import replication_lines, show_replication, show_status, status_lines
from headrace.cli.shell import Group, connect_by, connection_options, json_option, read_properties
from headrace.client import admin_cluster, admin_quorum
from headrace.client.admin_quorum import QuorumInfo
from headrace.client.blocking import BlockingClient
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import Uuid


@click.group(
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Describe the metadata quorum, change its voters, or explain what is wrong with it.",
)
@connection_options(controller=True)
@json_option
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Keeps the options that stand in front of the sub-command: those of the connection, and `as_json`."""
    context.obj = options


@command.command("describe", help="Describe who leads, who votes, who follows, and how far each is.")
@click.option("--status", "is_status", is_flag=True, help="A short summary of the quorum.")
@click.option("--replication", "is_replication", is_flag=True, help="How far every replica is.")
@click.option("--human-readable", "is_human", is_flag=True, help="With --replication: times as ages.")
@json_option
@click.pass_obj
def describe(options: dict[str, Any], is_status: bool, is_replication: bool, is_human: bool, as_json: bool) -> int:
    """The quorum as its leader sees it (B-T06, S4-54)."""
    _check_describe(is_status=is_status, is_replication=is_replication, is_human=is_human)
    with connect_by(options) as client:
        cluster_id = client.run(admin_cluster.describe_cluster).cluster_id if is_status else ""
        info = _ask_leader(client)
    if as_json or options["as_json"]:
        show_json(show_status(info, cluster_id) if is_status else show_replication(info))
    elif is_status:
        print("\n".join(status_lines(info, cluster_id)))
    else:
        replication_lines(info, is_human=is_human, is_table=is_terminal())
    return 0


def _ask_leader(client: BlockingClient) -> QuorumInfo:
    """The quorum as its leader describes it. Raises OperatorError, with a way on where nobody leads."""
    try:
        return client.run(admin_quorum.describe_quorum)
    except PeerError as error:
        if error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER and not error.code.is_retriable:
            raise
        why = str(error)
    except OperatorError as error:
        why = str(error)
    raise OperatorError(why if "`headrace quorum explain`" in why else f"{why}: `headrace quorum explain` tells why")


def _check_describe(*, is_status: bool, is_replication: bool, is_human: bool) -> None:
    if is_status and is_replication:
        raise OperatorError("Only one of --status or --replication should be specified with describe sub-command")
    if is_status and is_human:
        raise OperatorError("The option --human-readable is only supported along with --replication")
    if not is_status and not is_replication:
        raise OperatorError("One of --status or --replication must be specified with describe sub-command")


@command.command("add-controller", help="Make the controller of the --command-config file a voter.")
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
@click.pass_obj
def add_controller(options: dict[str, Any], is_dry_run: bool, as_json: bool) -> int:
    """The controller of a properties file becomes a voter (B-T07)."""
    if options["command_config"] is None:
        raise OperatorError(
            "You must supply the configuration file of the controller you are adding when using add-controller."
        )
    wanted = new_controller(read_properties(options["command_config"]))
    if not is_dry_run:
        with connect_by(options) as client:
            client.run(admin_quorum.add_raft_voter, wanted.node_id, wanted.directory_id, wanted.end_points)
    if as_json or options["as_json"]:
        show_json({
            "controllerId": wanted.node_id,
            "directoryId": str(wanted.directory_id),
            "endpoints": [str(each) for each in wanted.end_points],
            "dryRun": is_dry_run,
        })  # fmt: skip
    else:
        done = "DRY RUN of adding" if is_dry_run else "Added"
        shown = describe_end_points(wanted.end_points)
        print(f"{done} controller {wanted.node_id} with directory id {wanted.directory_id} and endpoints: {shown}")
    return 0


@command.command("remove-controller", help="Make a voter an observer, so that it may be switched off.")
@click.option(
    "--controller-id", "-i", "controller_id", type=int, required=True, metavar="ID", help="The controller's id."
)
@click.option(
    "--controller-directory-id", "-d", "directory", required=True, metavar="ID", help="The id of its directory."
)
@click.option("--dry-run", "is_dry_run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
@click.pass_obj
def remove_controller(
    options: dict[str, Any], controller_id: int, directory: str, is_dry_run: bool, as_json: bool
) -> int:
    """A voter becomes an observer (B-T07)."""
    if controller_id < 0:
        raise OperatorError(f"Invalid negative --controller-id: {controller_id}")
    try:
        directory_id = Uuid.parse(directory)
    except ValueError as error:
        raise OperatorError(f"Failed to parse --controller-directory-id: {error}") from None
    if not is_dry_run:
        with connect_by(options) as client:
            client.run(admin_quorum.remove_raft_voter, controller_id, directory_id)
    if as_json or options["as_json"]:
        show_json({"controllerId": controller_id, "directoryId": str(directory_id), "dryRun": is_dry_run})
    else:
        done = "DRY RUN of removing " if is_dry_run else "Removed "
        print(f"{done} KRaft controller {controller_id} with directory id {directory_id}")
    return 0


@command.command("explain", help="Say in plain words why nobody leads or nothing is committed, and what can be done.")
@click.option(
    "--timeout-ms", type=click.IntRange(100, 600_000), default=3_000, show_default=True, metavar="MS",
    help="How long to wait for one node.",
)  # fmt: skip
@json_option
@click.pass_obj
def explain(options: dict[str, Any], timeout_ms: int, as_json: bool) -> int:
    """Asks every node that can be reached; exit code 0 = the quorum is healthy, 1 = something is wrong."""
    from headrace.cli.quorum_explain import explain_quorum

    return explain_quorum(options, timeout_ms=timeout_ms, as_json=as_json or options["as_json"])
