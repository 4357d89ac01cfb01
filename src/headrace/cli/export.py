"""The command `headrace export`: a topic's records as Parquet, Arrow, CSV or JSON, into a file or to standard output."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from headrace.cli.cluster_names import topic_names
from headrace.cli.moments import parse_moment
from headrace.cli.shell import connect, connection_options
from headrace.cli.waiting import Progress, progress_bar
from headrace.core.errors import OperatorError

if TYPE_CHECKING:
    from headrace.arrow.read import Position
    from headrace.client.blocking import BlockingClient

FORMATS: Final = ("parquet", "arrow", "csv", "json")
_BINARY: Final = ("parquet", "arrow")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@click.command(help="Write the records of a topic to a file or to standard output.")
@connection_options()
@click.option("--topic", required=True, metavar="TOPIC", shell_complete=topic_names, help="The topic.")
@click.option(
    "--format", "format_", type=click.Choice(FORMATS), required=True, help="The form; json is an object a line."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file, replaced when all is written; without it, or with `-`, standard output.",
)
@click.option("--partitions", metavar="N,N,...", help="Only these partitions.")
@click.option(
    "--from", "from_", metavar="WHEN", help="An offset, a time, or how long ago (2h).  [default: the earliest]"
)
@click.option("--to", "to", metavar="WHEN", help="The same for the end, exclusive.  [default: the latest]")
@click.option("--columns", metavar="NAME,NAME,...", help="Only these columns; `headers` must be named.")
@click.option("--read-committed", is_flag=True, help="Leave out open and aborted transactions.")
@click.option(
    "--bytes",
    "bytes_",
    type=click.Choice(("text", "base64")),
    default="text",
    show_default=True,
    help="How csv and json show keys and values.",
)
def command(bootstrap_server: str | None, command_config: str | None, **options: Any) -> int:
    """Export; nothing is left under the file's name unless all of it was written."""
    try:
        from headrace.arrow.read import chosen_schema, plan_ranges
        from headrace.cli.export_formats import open_sink
    except ImportError as error:
        raise OperatorError(f"an export needs more packages: pip install 'headrace[spark]' ({error})") from error
    output: Path | None = None if options["output"] == Path("-") else options["output"]
    if output is None and options["format_"] in _BINARY and sys.stdout.isatty():
        raise OperatorError(f"{options['format_']} is nothing for a terminal: say --output FILE, or redirect it")
    if output is not None and not output.parent.is_dir():
        raise OperatorError(f"--output {output}: there is no directory {output.parent}")
    names = options["columns"]
    schema = chosen_schema([each.strip() for each in names.split(",")] if names else None)
    with connect(bootstrap_server, command_config, client_id="headrace-export") as client:
        ranges = plan_ranges(
            client,
            options["topic"],
            partitions=_numbers(options["partitions"]),
            start=_position(options["from_"], "--from"),
            end=_position(options["to"], "--to"),
            is_read_committed=options["read_committed"],
        )
        with _opened(output) as out, open_sink(options["format_"], out, schema, bytes_as=options["bytes_"]) as write:
            rows = _copy(client, ranges, schema, write, is_read_committed=options["read_committed"])
    if output is not None:
        print(f"{rows} records of {options['topic']} are in {output}", file=sys.stderr)
    return 0


def _copy(
    client: BlockingClient, ranges: Any, schema: Any, write: Callable[[Any], None], *, is_read_committed: bool
) -> int:
    """Read and write all ranges, and show how far it is; the number of records."""
    from headrace.arrow.read import read_range

    columns = list(dict.fromkeys([*schema.names, "offset"]))
    rows, passed, total = 0, 0, sum(each.end - each.start for each in ranges)
    with progress_bar("offsets") as show:
        for each in ranges:
            for batch in read_range(client, each, columns=columns, is_read_committed=is_read_committed):
                write(batch.select(schema.names))
                rows += batch.num_rows
                here = batch.column("offset")[batch.num_rows - 1].as_py() + 1 - each.start
                show(Progress(passed + here, total, []))
            passed += each.end - each.start
            show(Progress(passed, total, []))
    return rows


@contextmanager
def _opened(output: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file beside `output` that takes its name when nothing went wrong, and is removed otherwise."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, output)
    except BaseException:
        with suppress(FileNotFoundError):
            temporary.unlink()
        raise


def _numbers(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = [each.strip() for each in text.split(",")]
    if not all(each.isascii() and each.isdigit() for each in parts):
        raise OperatorError(f"--partitions {text}: give numbers separated by commas")
    return [int(each) for each in parts]


def _position(text: str | None, option: str) -> Position | None:
    """An offset or a time out of what was typed."""
    if text is None:
        return None
    moment = parse_moment(text, time.time_ns() // 1_000_000, option)
    return moment.offset if moment.offset is not None else _EPOCH + timedelta(milliseconds=moment.time_ms or 0)
