"""The command `headrace groups`: groups of any type."""

from __future__ import annotations

from typing import Any

import click

from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import connect, connection_options, json_option, offered
from headrace.client import groups
from headrace.client.groups import GroupListing
from headrace.core.errors import OperatorError

TYPES = {"classic": "Classic", "consumer": "Consumer", "share": "Share", "streams": "Streams"}


@click.command(help="List groups of all types.")
@connection_options()
@click.option("--list", "list_", is_flag=True, help="List the groups.")
@click.option(
    "--group-type",
    metavar="TYPE",
    shell_complete=offered(*TYPES),
    help=f"Only groups of this type: {', '.join(TYPES)}.",
)
@click.option("--protocol", metavar="PROTOCOL", help="Only groups of this protocol type.")
@click.option("--consumer", is_flag=True, help="Only consumer groups, classic and simple ones included.")
@click.option("--share", is_flag=True, help="Only share groups.")
@click.option("--streams", is_flag=True, help="Only streams groups.")
@json_option
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Print GROUP, TYPE and PROTOCOL."""
    if not options["list_"]:
        raise OperatorError("Command must include exactly one action: --list.")
    if (
        sum(
            map(
                bool,
                (
                    options["group_type"] or options["protocol"],
                    options["consumer"],
                    options["share"],
                    options["streams"],
                ),
            )
        )
        > 1
    ):
        raise OperatorError("--consumer, --share, --streams, and --group-type or --protocol exclude each other")
    kind = options["group_type"]
    if kind is not None and kind.lower() not in TYPES:
        raise OperatorError(f"Invalid types list '{kind}'. Valid types are: {', '.join(TYPES.values())}")
    with connect(bootstrap_server, command_config) as client:
        listed = [group for group in client.run(groups.list_groups) if is_wanted(group, options)]
    if options["as_json"]:
        show_json(
            [
                {"group": each.group_id, "type": each.kind, "protocol": each.protocol, "state": each.state}
                for each in listed
            ]
        )
        return 0
    rows = [(each.group_id, each.kind, each.protocol) for each in listed]
    if is_terminal():
        show_table("", ("group", "type", "protocol"), rows)
        return 0
    width = max([len(each.group_id) for each in listed] + [20])
    print(" ".join(title.ljust(width) for title in ("GROUP", "TYPE", "PROTOCOL")))
    for row in rows:
        print(" ".join(cell.ljust(width) for cell in row) + " ")
    return 0


def is_wanted(group: GroupListing, options: dict[str, Any]) -> bool:
    """True if the filters of the command line let a group through."""
    kind = group.kind.lower()
    if options["consumer"]:
        return kind == "consumer" or (kind == "classic" and group.protocol in ("consumer", ""))
    if options["share"] or options["streams"]:
        return kind == ("share" if options["share"] else "streams")
    if options["group_type"] and kind != options["group_type"].lower():
        return False
    return options["protocol"] is None or group.protocol == options["protocol"]
