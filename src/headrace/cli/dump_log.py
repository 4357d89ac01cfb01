"""The command `headrace dump-log`: what the files of a log directory hold (kafka-dump-log: segments, indexes, snapshots; Kafka's files and ours)."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import SEEK_END
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

import click

from headrace.cli import dump_decoders
from headrace.cli.dump_batches import NO_LIMIT, DumpOptions, Findings, dump_json, dump_lines
from headrace.cli.dump_decoders import Decoder, json_text
from headrace.cli.dump_indexes import (
    offset_entries,
    offset_mismatches,
    producer_lines,
    sanity_of,
    time_entries,
    time_mismatches,
    transaction_lines,
)
from headrace.core.errors import OperatorError
from headrace.core.ports import BytesLike
from headrace.core.values import value_class

_KNOWN_NAMES = "it has no name of a segment, an index or a snapshot, such as 00000000000000000000.log"
_NAME = re.compile(r"([0-9]{20})(?:-([0-9]{10}))?\.(log|index|timeindex|txnindex|snapshot|checkpoint)(?:\..*)?")
DECODERS: dict[str, Decoder] = {
    "cluster_metadata": dump_decoders.cluster_metadata,
    "offsets": dump_decoders.offsets,
    "transaction_log": dump_decoders.transactions,
    "share_group_state": dump_decoders.share_group_state,
}


@value_class
class DumpJob:
    """What to do with each file."""

    options: DumpOptions
    is_sanity_check: bool = False
    is_verification: bool = False
    as_json: bool = False


@dataclass(slots=True)
class Trouble:
    """What does not fit, for standard error, and whether some of a file could not be read."""

    lines: list[str] = field(default_factory=list)
    is_damaged: bool = False


@click.command(help="Print what log, index and snapshot files hold, and check the indexes.")
@click.option("--files", required=True, type=click.Path(), metavar="FILE,...", help="The files, apart by commas.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too.")
@click.option("--deep-iteration", is_flag=True, help="Print every record, not only the batches.")
@click.option(
    "--index-sanity-check", is_flag=True, help="Only check that index files are sane, as a broker does at its start."
)
@click.option("--verify-index-only", is_flag=True, help="Check index files against their log without printing them.")
@click.option(
    "--cluster-metadata-decoder", "cluster_metadata", is_flag=True, help="Show records of __cluster_metadata."
)
@click.option("--offsets-decoder", "offsets", is_flag=True, help="Show records of __consumer_offsets.")
@click.option("--transaction-log-decoder", "transaction_log", is_flag=True, help="Show records of __transaction_state.")
@click.option(
    "--share-group-state-decoder", "share_group_state", is_flag=True, help="Show records of __share_group_state."
)
@click.option(
    "--key-decoder-class", metavar="CLASS", help="How keys are shown: Kafka's String, Long, Integer or DefaultDecoder."
)
@click.option("--value-decoder-class", metavar="CLASS", help="How values are shown.")
@click.option("--skip-record-metadata", is_flag=True, help="Print only keys and values of records.")
@click.option(
    "--max-bytes", type=click.IntRange(0, NO_LIMIT), default=NO_LIMIT, help="Stop after this many bytes of batches."
)
@click.option("--max-message-size", type=click.IntRange(0), default=5_242_880, help="Accepted for Kafka's sake.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document a file.")
def command(files: str, **given: Any) -> int:
    """Each file as kafka-dump-log prints it (B-T09)."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    chosen = [decoder for name, decoder in DECODERS.items() if given[name]]
    decoder = chosen[0] if chosen else _plain_decoder(given)
    job = DumpJob(
        options=DumpOptions(
            is_deep=given["deep_iteration"] or decoder is not None,
            decoder=decoder,
            skips_metadata=given["skip_record_metadata"],
            max_bytes=given["max_bytes"],
        ),
        is_sanity_check=given["index_sanity_check"],
        is_verification=given["verify_index_only"],
        as_json=given["as_json"],
    )
    trouble = Trouble()
    for path in filter(None, (part.strip() for part in files.split(","))):
        for line in dump_file(path, job, trouble):
            print(line)
    for line in trouble.lines:
        print(line, file=sys.stderr)
    return 1 if trouble.is_damaged else 0


def _plain_decoder(given: dict[str, Any]) -> Decoder | None:
    """How keys and values of no known topic are shown; None: not at all. Raises OperatorError."""
    classes = (given["key_decoder_class"], given["value_decoder_class"])
    if not given["print_data_log"] and classes == (None, None):
        return None
    key_class, value_class = (each or "StringDecoder" for each in classes)
    return dump_decoders.by_classes(key_class, value_class)


def dump_file(path: str, job: DumpJob, trouble: Trouble) -> Iterator[str]:
    """The lines of one file; what does not fit goes to `trouble`. Raises OperatorError: it cannot be read."""
    if not job.as_json:
        yield f"Dumping {path}"
    name = Path(path).name
    match = _NAME.fullmatch(name)
    kind = match[3] if match else "checkpoint" if name == "bootstrap.checkpoint" else ""
    if kind not in ("log", "checkpoint", "index", "timeindex", "txnindex", "snapshot"):
        _check_there(path)
        trouble.lines.append(f"Ignoring unknown file {path}: {_KNOWN_NAMES}")
        return
    base_offset = int(match[1]) if match else 0
    if kind in ("log", "checkpoint"):
        yield from _dump_batches(path, _map(path), job, trouble)
        return
    data = _read(path)
    if kind in ("index", "timeindex"):
        yield from _dump_index(path, data, base_offset, job, trouble)
    else:
        lines = transaction_lines(data) if kind == "txnindex" else producer_lines(data, path)
        yield from [json_text({"file": path, "entries": list(lines)})] if job.as_json else lines


def _check_there(path: str) -> None:
    """Raises OperatorError: it is not there, or is a directory. Kafka's tool ignores those too, where the name is not that of a segment."""
    if Path(path).is_dir():
        raise OperatorError(f"{path} is a directory: name files in it, with commas between them")
    if not Path(path).exists():
        raise OperatorError(f"{path}: No such file or directory")


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OperatorError(f"{path}: {error.strerror or error}") from error


def _map(path: str) -> BytesLike:
    """A segment or a snapshot, mapped and not read: it may be larger than the memory. Raises OperatorError."""
    try:
        with open(path, "rb") as file:
            is_empty = file.seek(0, SEEK_END) == 0
            return b"" if is_empty else memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    except (OSError, ValueError) as error:
        raise OperatorError(f"{path}: {getattr(error, 'strerror', None) or error}") from error


def _dump_batches(path: str, data: BytesLike, job: DumpJob, trouble: Trouble) -> Iterator[str]:
    findings = Findings()
    if job.as_json:
        yield json_text({"file": path, **dump_json(data, job.options, findings)})
        _tell(path, findings, trouble)
        return
    name = Path(path).name
    match = _NAME.fullmatch(name)
    if match is None:
        yield "KRaft bootstrap snapshot"
    elif match[3] == "checkpoint":
        yield f"Snapshot end offset: {int(match[1])}, epoch: {int(match[2] or 0)}"
    else:
        yield f"Log starting offset: {int(match[1])}"
    yield from dump_lines(data, job.options, findings, name=name)
    _tell(path, findings, trouble)


def _tell(path: str, findings: Findings, trouble: Trouble) -> None:
    """What does not fit, for standard error."""
    if findings.damage is not None:
        position, how = findings.damage
        trouble.is_damaged = True
        trouble.lines.append(f"{path} is damaged at position {position}: {how}")
    if findings.gaps:
        trouble.lines.append(f"Non-consecutive offsets in {Path(path).absolute()}")
        trouble.lines += [f"  {before} is followed by {after}" for before, after in findings.gaps]


def _dump_index(path: str, data: bytes, base_offset: int, job: DumpJob, trouble: Trouble) -> Iterator[str]:
    is_time_index = Path(path).name.split(".")[1] == "timeindex"
    if job.is_sanity_check:
        yield sanity_of(data, path, base_offset, is_time_index=is_time_index)
        return
    log = _map(path.replace(".timeindex", ".log") if is_time_index else path.replace(".index", ".log"))
    if is_time_index:
        entries = list(time_entries(data, base_offset))
        names = ("timestamp", "offset")
        _check_time_index(path, entries, base_offset, log, trouble)
    else:
        entries = list(offset_entries(data, base_offset))
        names = ("offset", "position")
        mismatches = offset_mismatches(entries, log)
        if mismatches:
            trouble.lines.append(f"Mismatches in :{Path(path).absolute()}")
            trouble.lines += [f"  Index offset: {indexed}, log offset: {real}" for indexed, real in mismatches]
    if job.as_json:
        yield json_text({"file": path, "entries": [dict(zip(names, entry, strict=True)) for entry in entries]})
    elif not job.is_verification:
        yield from (f"{names[0]}: {first} {names[1]}: {second}" for first, second in entries)


def _check_time_index(
    path: str, entries: list[tuple[int, int]], base_offset: int, log: BytesLike, trouble: Trouble
) -> None:
    offset_index = Path(path.replace(".timeindex", ".index"))
    positions = list(offset_entries(offset_index.read_bytes(), base_offset)) if offset_index.exists() else []
    wrong, unordered = time_mismatches([entry for entry in entries if entry[0] > 0], positions, log)
    if wrong:
        trouble.lines.append(f"Found timestamp mismatch in :{Path(path).absolute()}")
        trouble.lines += [f"  Index timestamp: {indexed}, log timestamp: {real}" for indexed, real in wrong]
    if unordered:
        trouble.lines.append(f"Found out of order timestamp in :{Path(path).absolute()}")
        trouble.lines += [
            f"  Index timestamp: {later}, Previously indexed timestamp: {before}" for later, before in unordered
        ]
