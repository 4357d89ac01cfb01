"""Names of the files and directories of a log directory. All names are Kafka's."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from headrace.core.ids import TopicPartition

LOG: Final = ".log"
INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
SEGMENT_SUFFIXES: Final = (LOG, INDEX, TIME_INDEX, TXN_INDEX)

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
METADATA_TOPIC: Final = "__cluster_metadata"

_OFFSET_FILE = re.compile(
    r"(\d{20})(\.log|\.index|\.timeindex|\.txnindex|\.snapshot)(\.deleted|\.cleaned|\.swap)?", re.ASCII
)
_PARTITION_DIR = re.compile(r"([a-zA-Z0-9._-]{1,249})-(0|[1-9]\d{0,9})", re.ASCII)
_SUFFIXED_DIR = re.compile(r"(\S{1,249})-(\d{1,10})\.([0-9a-zA-Z]{32})-(delete|future|stray)", re.ASCII)
_MAX_NAME_BYTES = 255
_MAX_PARTITION = 2**31 - 1


class OffsetFile(NamedTuple):
    """What the name of a file in a partition's directory says; `state` is empty, `.deleted`, `.cleaned` or `.swap`."""

    offset: int
    suffix: str
    state: str


def log_directory_of(path: str) -> str:
    """The log directory that a partition's directory lies in."""
    return path.rpartition("/")[0]


def offset_file(path: str, offset: int, suffix: str, state: str = "") -> str:
    """The file of `suffix` for `offset` (a segment's base offset, or a snapshot's) in the directory `path`."""
    return f"{path}/{offset:020d}{suffix}{state}"


@lru_cache(maxsize=1_024)  # most partitions have files of the same few names
def parse_offset_file(name: str) -> OffsetFile | None:
    """What a name says, None if it is another file's."""
    found = _OFFSET_FILE.fullmatch(name)
    return OffsetFile(int(found[1]), found[2], found[3] or "") if found else None


def partition_directory(partition: TopicPartition) -> str:
    """Name of a partition's directory."""
    return f"{partition.topic}-{partition.partition}"


def parse_partition_directory(name: str) -> TopicPartition | None:
    """The partition of a directory in use; None for directories that are going, and for others: `backup-01` is nobody's first partition."""
    found = _PARTITION_DIR.fullmatch(name)
    if found is None or found[1] in (".", "..") or int(found[2]) > _MAX_PARTITION:
        return None
    return TopicPartition(found[1], int(found[2]))


def parse_suffixed_directory(name: str) -> tuple[TopicPartition, str] | None:
    """The partition and `delete`, `future` or `stray` of a renamed directory, else None."""
    found = _SUFFIXED_DIR.fullmatch(name)
    return (TopicPartition(found[1], int(found[2])), found[4]) if found else None


def suffixed_directory(partition: TopicPartition, unique: str, suffix: str) -> str:
    """`<topic>-<partition>.<unique>-<suffix>`, the topic cut so that the name is no longer than a file system allows.

    `unique` is 32 hex digits.
    """
    tail = f"-{partition.partition}.{unique}-{suffix}"
    return partition.topic[: _MAX_NAME_BYTES - len(tail)] + tail
