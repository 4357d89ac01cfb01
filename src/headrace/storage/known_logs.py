"""How the logs of a directory stood when it was closed well, so that the next start need not read each of theirs (extra: Kafka passes by what it does not know).

A start after a clean stop would list, open and read five small files of each partition. The list is believed for a log only while the partition's directory and
its segments carry the stamps that they had: whatever was added, removed, renamed or written meanwhile, by whomever, that log is read as if there were no list.
The list is left before the mark of a clean stop, is taken by the next start, and counts for nothing without the mark. One that is damaged, or cannot be read, counts for
nothing, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from headrace.core.errors import StorageFault
from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.records.crc import crc32c
from headrace.storage.atomic import replace_file
from headrace.storage.layout import LOG, offset_file

if TYPE_CHECKING:
    from headrace.core.ports import Files

KNOWN_LOGS: Final = "headrace-known-logs"
_FORMAT: Final = 1

Stamp: TypeAlias = tuple[int, int]
"""As in `headrace.core.ports.FileStat`."""


class KnownSegment(NamedTuple):
    """One segment's log file: base offset, bytes, stamp."""

    base_offset: int
    size: int
    stamp: Stamp


class KnownLog(NamedTuple):
    """A log that was closed well. `stamp` is its directory's, `epochs` what `leader-epoch-checkpoint` says, `snapshots` the offsets of its producer snapshots."""

    stamp: Stamp
    topic_id: Uuid
    end_offset: int
    epochs: tuple[OffsetAndEpoch, ...]
    segments: tuple[KnownSegment, ...]
    snapshots: tuple[int, ...]
    has_producers: bool


def known_segments(files: Files, path: str, sizes: Iterable[tuple[int, int]]) -> tuple[KnownSegment, ...] | None:
    """The segments of these base offsets and sizes in a partition's directory; None if one of them is not so."""
    found = []
    for base, size in sizes:
        stat = files.stat(offset_file(path, base, LOG))
        if stat is None or stat.size != size:
            return None
        found.append(KnownSegment(base, size, stat.stamp))
    return tuple(found)


class KnownLogs:
    """The list of one log directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._path = f"{directory}/{KNOWN_LOGS}"
        self._logs: dict[str, KnownLog] = {}

    def read(self) -> None:
        """What the process before left; nothing if that cannot be read."""
        try:
            data = self._files.read_file(self._path)
        except StorageFault:
            data = None
        self._logs = {} if data is None else parse_known_logs(data)

    def take(self, name: str) -> KnownLog | None:
        """What is known of the log in the directory `name`, asked for once; None if nothing is, or the directory has changed."""
        known = self._logs.pop(name, None)
        if known is None:
            return None
        found = self._files.stat(f"{self._directory}/{name}")
        return known if found is not None and found.stamp == known.stamp else None

    def remove(self) -> None:
        """Nothing is known any more; durable after `fsync_dir`."""
        self._logs = {}
        self._files.unlink(self._path)

    def write(self, logs: dict[str, KnownLog]) -> None:
        """Replace the list durably. Raises StorageFault."""
        replace_file(self._files, self._directory, KNOWN_LOGS, known_logs_text(logs))


def known_logs_text(logs: dict[str, KnownLog]) -> bytes:
    """The list: a line with the checksum of what follows, then JSON with a row for each directory."""
    rows = {name: [*known[:1], str(known.topic_id), *known[2:]] for name, known in logs.items()}
    body = json.dumps({"format": _FORMAT, "logs": rows}, separators=(",", ":")).encode()
    return b"%08x\n%s" % (crc32c(body), body)


def parse_known_logs(data: bytes) -> dict[str, KnownLog]:
    """The rows; none of a list that is damaged or of another format, or that says what no list says."""
    checksum, _, body = data.partition(b"\n")
    try:
        if int(checksum, 16) != crc32c(body):
            return {}
        found = json.loads(body)
        return {name: _known(row) for name, row in found["logs"].items()} if found["format"] == _FORMAT else {}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


_topic_id = lru_cache(maxsize=1_024)(Uuid.parse)  # the partitions of a topic say the same


def _known(row: list[Any]) -> KnownLog:
    stamp, topic_id, end_offset, epochs, segments, snapshots, has_producers = row
    known = KnownLog(
        tuple(stamp),
        _topic_id(topic_id),
        end_offset,
        tuple([OffsetAndEpoch(offset, epoch) for offset, epoch in epochs]),
        tuple([KnownSegment(base_offset, size, tuple(at)) for base_offset, size, at in segments]),
        tuple(snapshots),
        has_producers,
    )
    numbers = [end_offset, *snapshots, *chain(*epochs), *chain(*[each[:2] for each in segments])]
    if not segments or set(map(type, numbers)) != {int} or min(numbers) < 0:
        raise ValueError(f"no log is like {row}")
    return known
