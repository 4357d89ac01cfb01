"""Small text files, and how they are replaced. Source: D1, D8, K30, K32.

Readers return None for a file that is missing *or* damaged: each of these files is a lower bound or a cache, and what stands in
for it is always safe (recover all, start at the first segment, rebuild the epoch table).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from headrace.core.errors import StorageFault
from headrace.core.ids import TopicPartition, Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import Files
from headrace.storage.atomic import replace_file
from headrace.storage.layout import CLEAN_SHUTDOWN, LEADER_EPOCHS, PARTITION_METADATA, log_directory_of

_VERSION = "0"
_REMEMBERED_BYTES = 256

T = TypeVar("T")


def _remembered(parse: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """`parse` that remembers what it made of files that are small: a start reads the same bytes in thousands of directories."""
    known = lru_cache(maxsize=1_024)(parse)
    return lambda data: known(data) if len(data) <= _REMEMBERED_BYTES else parse(data)


def offsets_text(offsets: Mapping[TopicPartition, int]) -> bytes:
    """An offset checkpoint: version, count, then `topic partition offset` a line."""
    lines = [_VERSION, str(len(offsets))]
    lines += [f"{partition.topic} {partition.partition} {offset}" for partition, offset in offsets.items()]
    return ("\n".join(lines) + "\n").encode()


def parse_offsets(data: bytes | None) -> dict[TopicPartition, int] | None:
    """The offsets of a checkpoint; None if it is missing or damaged."""
    rows = _rows(data, 3)
    if rows is None:
        return None
    try:
        return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
    except ValueError:
        return None


def epochs_text(entries: Iterable[OffsetAndEpoch]) -> bytes:
    """`leader-epoch-checkpoint`: version, count, then `epoch start-offset` a line."""
    lines = [f"{entry.epoch} {entry.offset}" for entry in entries]
    return ("\n".join([_VERSION, str(len(lines)), *lines]) + "\n").encode()


def parse_epochs(data: bytes | None) -> list[OffsetAndEpoch] | None:
    """The entries, both rising; None if the file is missing or damaged."""
    entries = None if data is None else _epochs(data)
    return None if entries is None else list(entries)


@_remembered  # most partitions of a start have had the same few leaders
def _epochs(data: bytes) -> tuple[OffsetAndEpoch, ...] | None:
    rows = _rows(data, 2)
    if rows is None:
        return None
    try:
        entries = tuple(OffsetAndEpoch(int(offset), int(epoch)) for epoch, offset in rows)
    except ValueError:
        return None
    pairs = itertools.pairwise(entries)
    if all(a.epoch < b.epoch and a.offset < b.offset for a, b in pairs) and all(min(e) >= 0 for e in entries):
        return entries
    return None


def _rows(data: bytes | None, columns: int) -> list[list[str]] | None:
    if data is None:
        return None
    try:
        lines = data.decode().splitlines()
        if len(lines) < 2 or lines[0].strip() != _VERSION or int(lines[1]) != len(lines) - 2:
            return None
    except ValueError:
        return None
    rows = [line.split() for line in lines[2:]]
    return rows if all(len(row) == columns for row in rows) else None


def read_offsets(files: Files, directory: str, name: str) -> dict[TopicPartition, int] | None:
    """The offset checkpoint `name` of a log directory."""
    return parse_offsets(files.read_file(f"{directory}/{name}"))


def write_offsets(files: Files, directory: str, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the offset checkpoint `name` durably."""
    replace_file(files, directory, name, offsets_text(offsets))


def read_epochs(files: Files, path: str) -> list[OffsetAndEpoch] | None:
    """The epoch table stored beside a log's segments."""
    return parse_epochs(files.read_file(f"{path}/{LEADER_EPOCHS}"))


def write_epochs(files: Files, path: str, entries: Iterable[OffsetAndEpoch]) -> None:
    """Replace a log's stored epoch table durably."""
    replace_file(files, path, LEADER_EPOCHS, epochs_text(entries))


def read_topic_id(files: Files, path: str) -> Uuid | None:
    """The topic id in `partition.metadata`; None if there is no such file. StorageFault if it is damaged."""
    data = files.read_file(f"{path}/{PARTITION_METADATA}")
    if data is None:
        return None
    found = _topic_id(data)
    if found is None:
        damage = f"{path}/{PARTITION_METADATA} is damaged: expected version 0 and a topic id"
        raise StorageFault(damage, directory=log_directory_of(path))
    return found


@_remembered  # the partitions of a topic say the same
def _topic_id(data: bytes) -> Uuid | None:
    try:
        values = dict(line.split(": ", 1) for line in data.decode().splitlines() if line)
        return Uuid.parse(values["topic_id"]) if values["version"] == _VERSION else None
    except (KeyError, ValueError):
        return None


def topic_id_text(topic_id: Uuid) -> bytes:
    """The content of `partition.metadata`."""
    return f"version: {_VERSION}\ntopic_id: {topic_id}".encode()


def write_topic_id(files: Files, path: str, topic_id: Uuid) -> None:
    """Write `partition.metadata` to the page cache."""
    file = files.open(f"{path}/{PARTITION_METADATA}", create=True, truncate=True)
    try:
        file.pwrite(topic_id_text(topic_id), 0)
    finally:
        file.close()


def read_clean_shutdown(files: Files, directory: str) -> int | None:
    """The broker epoch in the mark of a clean stop (-1 if it names none); None if there is no mark."""
    data = files.read_file(f"{directory}/{CLEAN_SHUTDOWN}")
    if data is None:
        return None
    try:
        content = json.loads(data)
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    except ValueError:
        return -1
    return epoch if isinstance(epoch, int) else -1


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int) -> None:
    """Leave the mark of a clean stop, last of all, durably (D4)."""
    replace_file(files, directory, CLEAN_SHUTDOWN, json.dumps({"version": 0, "brokerEpoch": broker_epoch}).encode())


def remove_clean_shutdown(files: Files, directory: str) -> None:
    """Remove the mark durably: the first thing at start, before anything is loaded (D4, K29)."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if files.exists(path):
        files.unlink(path)
        files.fsync_dir(directory)
