"""The command `headrace delete-records`: the oldest records of partitions, deleted up to offsets in a file."""

from __future__ import annotations

import json
from typing import Any

import click

from headrace.cli.output import is_terminal, show_json, show_table
from headrace.cli.shell import connect, connection_options, json_option
from headrace.cli.text_files import read_json_text
from headrace.client import offsets
from headrace.core.errors import OperatorError, PeerError
from headrace.core.ids import TopicPartition


@click.command(help="Delete the records of partitions below given offsets.")
@connection_options()
@click.option(
    "--offset-json-file",
    required=True,
    type=click.Path(),
    metavar="FILE",
    help='{"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}',
)
@json_option
def command(bootstrap_server: str | None, command_config: str | None, offset_json_file: str, as_json: bool) -> int:
    """Print the low watermark of each partition that follows, or why nothing was deleted."""
    before = parse_offsets(read_json_text(offset_json_file))
    with connect(bootstrap_server, command_config) as client:
        if not as_json:
            print("Executing records delete operation")
        results = client.run(offsets.delete_records, before)
    shown = {where: results[where] for where in sorted(results)}
    if as_json:
        show_json([
            {"topic": where.topic, "partition": where.partition}
            | ({"error": str(result)} if isinstance(result, PeerError) else {"lowWatermark": result})
            for where, result in shown.items()
        ])  # fmt: skip
    else:
        print("Records delete operation completed:")
        _show(shown)
    return 1 if any(isinstance(result, PeerError) for result in shown.values()) else 0


def _show(results: dict[TopicPartition, int | PeerError]) -> None:
    if is_terminal():
        rows = [
            (where.topic, where.partition, *((None, str(result)) if isinstance(result, PeerError) else (result, "")))
            for where, result in results.items()
        ]
        show_table("", ("topic", "partition", "low watermark", "error"), rows, right=(1, 2))
        return
    for where, result in results.items():
        told = f"error: {result}" if isinstance(result, PeerError) else f"low_watermark: {result}"
        print(f"partition: {where.topic}-{where.partition}\t{told}")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise OperatorError(f"the JSON names a key twice in one object: {', '.join(key for key, _ in pairs)}")
    return found


def parse_json(text: str) -> Any:
    """A JSON document; repeated keys, NaN and nesting without end are refused. Raises OperatorError (B78)."""
    try:
        return json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise OperatorError("The input string is not a valid JSON") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """The offset of each partition in the file. Raises OperatorError (B78)."""
    found = parse_json(text)
    if not isinstance(found, dict):
        raise OperatorError("The input string is not a valid JSON: an object was expected")
    version = found.get("version", 1)
    if version != 1 or isinstance(version, bool):
        raise OperatorError(f"Not supported version field value {version}")
    rows = found.get("partitions")
    if not isinstance(rows, list):
        raise OperatorError("Missing partitions field")
    before: dict[TopicPartition, int] = {}
    for row in rows:
        where, offset = _row(row)
        if where in before:
            raise OperatorError(
                f"Offset json file contains duplicate topic partitions: {where.topic}-{where.partition}"
            )
        before[where] = offset
    return before


def _row(row: Any) -> tuple[TopicPartition, int]:
    match row:
        case {"topic": str(topic), "partition": int(partition), "offset": int(offset)} if (
            -(2**31) <= partition < 2**31 and abs(offset) < 2**63
        ):
            return TopicPartition(topic, partition), offset
    raise OperatorError(f"each partition needs topic, partition and offset, not {str(row)[:200]}")
