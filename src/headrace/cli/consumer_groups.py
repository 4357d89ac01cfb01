"""The command `headrace consumer-groups`: groups, how far they have read, deleted or set back."""

from __future__ import annotations

import sys
from typing import Any

import click

from headrace.cli.cluster_names import group_ids, topic_names
from headrace.cli.group_offsets import ResetPlan, delete_offsets, reset_offsets
from headrace.cli.group_view import describe_groups
from headrace.cli.output import is_terminal, show_json, show_table, visible
from headrace.cli.shell import connect, connection_options, exactly_one, json_option, offered
from headrace.client import groups
from headrace.client.blocking import BlockingClient
from headrace.client.groups import GroupListing
from headrace.core.errors import OperatorError

ACTIONS = "--list, --describe, --delete, --reset-offsets, --delete-offsets, --validate-regex"
STATES = {
    "preparingrebalance": "PreparingRebalance",
    "completingrebalance": "CompletingRebalance",
    "stable": "Stable",
    "dead": "Dead",
    "empty": "Empty",
    "assigning": "Assigning",
    "reconciling": "Reconciling",
}
KINDS = {"classic": "Classic", "consumer": "Consumer"}
SCENARIOS = (
    "to_offset",
    "to_earliest",
    "to_latest",
    "shift_by",
    "to_datetime",
    "by_duration",
    "from_file",
    "to_current",
)


@click.command(help="List, describe and delete consumer groups, or reset their offsets.")
@connection_options()
@click.option("--list", "list_", is_flag=True, help="List the groups.")
@click.option("--describe", is_flag=True, help="Describe groups, and how far they are behind.")
@click.option("--delete", is_flag=True, help="Delete groups.")
@click.option(
    "--reset-offsets",
    is_flag=True,
    help="Set the offsets of inactive groups; --dry-run (default), --execute or --export.",
)
@click.option("--delete-offsets", is_flag=True, help="Delete a group's offsets of topics.")
@click.option("--validate-regex", metavar="REGEX", help="Check that a regular expression is valid.")
@click.option(
    "--group", "group_ids", multiple=True, metavar="ID", shell_complete=group_ids, help="The group; may be repeated."
)
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,N]",
    shell_complete=topic_names,
    help="The topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="All topics for which the group has offsets.")
@click.option("--members", is_flag=True, help="Describe the members.")
@click.option("--offsets", is_flag=True, help="Describe the offsets (the default).")
@click.option(
    "--state",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[STATE,...]",
    help="Describe the state; list states, or groups in these states.",
)
@click.option(
    "--type",
    "kind",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[TYPE,...]",
    shell_complete=offered(*KINDS),
    help="List types, or groups of these types.",
)
@click.option("--verbose", is_flag=True, help="Describe more.")
@click.option(
    "--timeout",
    type=click.IntRange(min=0),
    default=30_000,
    show_default=True,
    metavar="MS",
    help="How long to wait for the cluster.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be reset.")
@click.option("--execute", is_flag=True, help="Reset.")
@click.option("--export", is_flag=True, help="Print the new offsets as CSV.")
@click.option("--to-offset", type=int, metavar="OFFSET", help="Reset to this offset.")
@click.option("--to-earliest", is_flag=True, help="Reset to the earliest offset.")
@click.option("--to-latest", is_flag=True, help="Reset to the latest offset.")
@click.option("--to-current", is_flag=True, help="Reset to the current offset.")
@click.option("--shift-by", type=int, metavar="N", help="Move the current offset by N, forth or back.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    help="Reset to the first offset of a time: YYYY-MM-DDThh:mm:ss.sss, UTC without a zone.",
)
@click.option("--by-duration", metavar="DURATION", help="Reset to the offset of a time ago: PnDTnHnMnS.")
@click.option(
    "--from-file",
    type=click.Path(),
    metavar="FILE",
    help="Reset to the offsets of a CSV file: topic,partition,offset or with the group in front.",
)
@json_option
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Run the one action that was asked for."""
    options["list"] = options.pop("list_")
    names = ("list", "describe", "delete", "reset_offsets", "delete_offsets", "validate_regex")
    action = exactly_one({name: bool(options[name]) or options[name] == "" for name in names}, ACTIONS)
    if action == "validate_regex":
        return _validate(options["validate_regex"])
    _check(action, options)
    overrides = {"default.api.timeout.ms": str(options["timeout"])}
    with connect(bootstrap_server, command_config, overrides=overrides) as client:
        match action:
            case "list":
                return _list(client, options)
            case "delete":
                return _delete(client, _groups(client, options), as_json=options["as_json"])
            case "describe":
                what = "members" if options["members"] else "state" if options["state"] is not None else "offsets"
                return describe_groups(
                    client, _groups(client, options), what, is_verbose=options["verbose"], as_json=options["as_json"]
                )
            case "delete_offsets":
                return delete_offsets(client, options["group_ids"][0], options["topics"], as_json=options["as_json"])
            case _:
                return reset_offsets(client, _plan(client, options), as_json=options["as_json"])


def _check(action: str, options: dict[str, Any]) -> None:
    """Raises OperatorError for options that do not go together."""
    has_group, has_all = bool(options["group_ids"]), options["all_groups"]
    if action in ("describe", "delete", "reset_offsets") and has_group == has_all:
        raise OperatorError(f"Option [{action.replace('_', '-')}] takes one of these options: [group], [all-groups]")
    if action == "delete_offsets" and (len(options["group_ids"]) != 1 or not options["topics"]):
        raise OperatorError("Option [delete-offsets] takes the following options: [group] (one), [topic]")
    if action == "delete" and options["topics"]:
        raise OperatorError("The consumer does not support topic-specific offset deletion from a consumer group.")
    if action == "describe":
        if sum((options["members"], options["offsets"], options["state"] is not None)) > 1:
            raise OperatorError("Option [describe] takes at most one of these options: [members], [offsets], [state]")
        if options["state"]:
            raise OperatorError("Option [describe] does not take a value for [state]")
    elif options["members"] or options["offsets"] or options["verbose"]:
        raise OperatorError("Options [members], [offsets] and [verbose] can only be used with [describe]")
    if options["kind"] is not None and action != "list":
        raise OperatorError("Option [type] can only be used with [list]")
    if action == "reset_offsets":
        _check_reset(options)


def _scenarios(options: dict[str, Any]) -> list[str]:
    """The options that say where to reset to; an offset of 0 is one as any other."""
    return [name for name in SCENARIOS if options[name] is not None and options[name] is not False]


def _check_reset(options: dict[str, Any]) -> None:
    if options["dry_run"] and options["execute"]:
        raise OperatorError("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    chosen = _scenarios(options)
    said = ", ".join(f"[{name.replace('_', '-')}]" for name in SCENARIOS)
    if len(chosen) != 1:
        raise OperatorError(f"Option [reset-offsets] requires one of the following scenarios: {said}")
    if chosen != ["from_file"] and bool(options["topics"]) == options["all_topics"]:
        raise OperatorError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not options["dry_run"] and not options["execute"]:
        print(
            "WARN: No action will be performed as the --execute option is missing. Add --dry-run if this is what you want.",
            file=sys.stderr,
        )


def _plan(client: BlockingClient, options: dict[str, Any]) -> ResetPlan:
    (scenario,) = _scenarios(options)
    return ResetPlan(
        group_ids=tuple(_groups(client, options)),
        topics=tuple(options["topics"]),
        scenario=scenario,
        argument=options[scenario],
        is_executed=options["execute"],
        is_exported=options["export"],
        is_single=len(options["group_ids"]) == 1,
    )


def consumer_listings(
    client: BlockingClient, *, states: list[str] | None = None, kinds: list[str] | None = None
) -> list[GroupListing]:
    """Groups of consumers: those of the new protocol, and classic ones that speak the consumer protocol or have only offsets."""
    listed = client.run(groups.list_groups, states=states or (), kinds=kinds or ())
    return [
        each
        for each in listed
        if each.kind == "Consumer" or (each.kind == "Classic" and each.protocol in ("consumer", ""))
    ]


def _groups(client: BlockingClient, options: dict[str, Any]) -> list[str]:
    if options["all_groups"]:
        return [each.group_id for each in consumer_listings(client)]
    return sorted(set(options["group_ids"]))


def parse_names(text: str | None, known: dict[str, str], what: str) -> list[str]:
    """Known names out of a list with commas, none for an empty one. Raises OperatorError."""
    names = [each.strip().lower() for each in (text or "").split(",") if each.strip()]
    if any(name not in known for name in names):
        raise OperatorError(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(known.values())}")
    return [known[name] for name in names]


def _list(client: BlockingClient, options: dict[str, Any]) -> int:
    states, kinds = parse_names(options["state"], STATES, "states"), parse_names(options["kind"], KINDS, "types")
    listed = consumer_listings(client, states=states, kinds=[kind.lower() for kind in kinds])
    has_type, has_state = options["kind"] is not None, options["state"] is not None
    if options["as_json"]:
        show_json([{"group": each.group_id, "type": each.kind, "state": each.state} for each in listed])
        return 0
    columns = ["GROUP", *(["TYPE"] if has_type else []), *(["STATE"] if has_state else [])]
    rows = [
        [each.group_id, *([each.kind] if has_type else []), *([each.state] if has_state else [])] for each in listed
    ]
    if len(columns) == 1:
        shown = visible if is_terminal() else str
        print("".join(f"{shown(row[0])}\n" for row in rows), end="")
    elif is_terminal():
        show_table("", [column.lower() for column in columns], rows)
    else:
        width = max([len(each.group_id) for each in listed] + [15]) + 10
        for row in [columns, *rows]:
            print(" ".join([row[0].ljust(width), *(cell.ljust(20) for cell in row[1:])]))
    return 0


def _delete(client: BlockingClient, group_ids: list[str], *, as_json: bool) -> int:
    results = client.run(groups.delete_groups, group_ids)
    failed = {group_id: error for group_id, error in results.items() if error is not None}
    done = [group_id for group_id in results if group_id not in failed]
    if as_json:
        show_json({"deleted": done, "failed": {group_id: str(error) for group_id, error in failed.items()}})
    elif not failed:
        print(
            f"Deletion of requested consumer groups ({', '.join(repr(group_id) for group_id in done)}) was successful."
        )
    else:
        print("\nError: Deletion of some consumer groups failed:", file=sys.stderr)
        for group_id, error in failed.items():
            print(visible(f"* Group '{group_id}' could not be deleted due to: {error}"), file=sys.stderr)
        if done:
            print(
                f"\nThese consumer groups were deleted successfully: {', '.join(repr(group_id) for group_id in done)}"
            )
    return 1 if failed else 0


def _validate(pattern: str) -> int:
    """Java's RE2 and our regular expressions agree on everything but look-around and back references, which RE2 has not."""
    import re

    try:
        re.compile(pattern)
    except re.error as error:
        raise OperatorError(f"The regular expression `{pattern}` is invalid: {error}.") from None
    if re.search(r"\\[1-9]|\(\?(?:[=!>]|<[=!])|\(\?P=", pattern):
        raise OperatorError(
            f"The regular expression `{pattern}` is invalid: it has a back reference or looks around, which RE2 cannot."
        )
    print(f"The regular expression `{pattern}` is valid.")
    return 0
