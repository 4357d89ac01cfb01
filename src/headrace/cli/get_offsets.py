"""The command `headrace get-offsets`: the ends of partitions, and the offset of a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import compiled, connect, connection_options, json_option, offered
from headrace.client import offsets, routing
from headrace.client.blocking import BlockingClient
from headrace.client.cluster_view import TopicView
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition

TIMES = {
    "latest": offsets.LATEST,
    "earliest": offsets.EARLIEST,
    "max-timestamp": offsets.MAX_TIMESTAMP,
    "earliest-local": offsets.EARLIEST_LOCAL,
    "latest-tiered": offsets.LATEST_TIERED,
    "earliest-pending-upload": offsets.EARLIEST_PENDING_UPLOAD,
}
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")
_PREFIX = "Error occurred: "
Chosen = Callable[[str, int], bool]


@click.command(help="Print the offsets of partitions.")
@connection_options()
@click.option(
    "--topic",
    metavar="PATTERN",
    shell_complete=topic_names,
    help="The topic, or a regular expression of topics; all if not given.",
)
@click.option("--partitions", metavar="N,N,...", help="Only these partitions.")
@click.option(
    "--topic-partitions",
    metavar="TOPIC:N,TOPIC:N-M,...",
    help="Patterns of topics and ranges (end exclusive) of partitions.",
)
@click.option(
    "--time",
    "time_",
    default="latest",
    show_default=True,
    metavar="TIME",
    shell_complete=offered(*TIMES),
    help=f"Milliseconds since 1970, or {', '.join(TIMES)}.",
)
@click.option("--exclude-internal-topics", is_flag=True, help="Leave internal topics out.")
@json_option
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Print `topic:partition:offset` for each partition."""
    timestamp = parse_time(options["time_"])
    chosen = parse_choice(options["topic"], options["partitions"], options["topic_partitions"])
    with connect(bootstrap_server, command_config, client_id="GetOffsetShell") as client:
        parts = _parts(client, chosen, is_internal_left_out=options["exclude_internal_topics"])
        if not parts:
            raise OperatorError(f"{_PREFIX}Could not match any topic-partitions with the specified filters")
        try:
            found = client.run(offsets.list_offsets, dict.fromkeys(parts, timestamp))
        except PeerError as error:
            raise OperatorError(f"{_PREFIX}{error}") from None
    rows: list[tuple[str, int, int]] = []
    for where in sorted(found):
        result = found[where]
        if isinstance(result, PeerError):
            print(
                f"Skip getting offsets for topic-partition {where.topic}-{where.partition} due to error: {result}",
                file=sys.stderr,
            )
        elif result.offset >= 0:
            rows.append((where.topic, where.partition, result.offset))
    _show(rows, as_json=options["as_json"])
    return 0


def _show(rows: list[tuple[str, int, int]], *, as_json: bool) -> None:
    if as_json:
        show_json([{"topic": topic, "partition": partition, "offset": offset} for topic, partition, offset in rows])
    elif is_terminal():
        show_table("", ("topic", "partition", "offset"), rows, right=(1, 2))
    else:
        sys.stdout.writelines(f"{topic}:{partition}:{offset}\n" for topic, partition, offset in rows)


def parse_time(text: str) -> int:
    """A name or number of milliseconds as ListOffsets takes it. Raises OperatorError."""
    if text in TIMES:
        return TIMES[text]
    try:
        return int(text)
    except ValueError:
        raise OperatorError(
            f"{_PREFIX}Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / "
            "-4 or earliest-local / -5 or latest-tiered / -6 or earliest-pending-upload, or a specified long format timestamp"
        ) from None


def parse_choice(topic: str | None, partitions: str | None, rules: str | None) -> Chosen:
    """Which partitions are meant. Raises OperatorError."""
    if rules:
        if topic or partitions:
            raise OperatorError(f"{_PREFIX}--topic-partitions cannot be used with --topic or --partitions")
        parsed = [parse_rule(rule) for rule in rules.split(",")]
        return lambda name, number: any(rule(name, number) for rule in parsed)
    expression = compiled(topic) if topic else re.compile(".*")
    numbers: set[int] | None = None
    if partitions:
        try:
            numbers = {int(each) for each in partitions.split(",")}
        except ValueError:
            raise OperatorError(
                f"{_PREFIX}--partitions expects a comma separated list of numeric partition ids, but received: {partitions}"
            ) from None
    return lambda name, number: bool(expression.fullmatch(name)) and (numbers is None or number in numbers)


def parse_rule(rule: str) -> Chosen:
    """One `topic:partitions` rule. Raises OperatorError."""
    match = _RULE.fullmatch(rule)
    if match is None:
        raise OperatorError(f"{_PREFIX}Invalid rule specification: {rule}")
    expression = compiled(match[1] or ".*")
    single, low, high = match[2], match[3], match[4]
    if single:
        first, last = int(single), int(single) + 1
    else:
        first, last = int(low or 0), int(high) if high else 2**31
    return lambda name, number: bool(expression.fullmatch(name)) and first <= number < last


def _parts(client: BlockingClient, chosen: Chosen, *, is_internal_left_out: bool) -> list[TopicPartition]:
    views = client.run(routing.refresh, None)
    return [
        TopicPartition(name, part.partition)
        for name, view in views.items()
        if isinstance(view, TopicView) and not (view.is_internal and is_internal_left_out)
        for part in view.partitions
        if chosen(name, part.partition)
    ]
