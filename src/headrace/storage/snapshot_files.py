"""Snapshots of the metadata log: where they lie, and which of them are whole.

`<20 digits end offset>-<10 digits epoch>.checkpoint` beside the log's segments; `.checkpoint.part` while it is written, renamed when
whole and synced; `.checkpoint.deleted` when it is going (B-S02). Also `bootstrap.checkpoint`, which lies in the log directory itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from headrace.core.errors import StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import BytesLike, Files
from headrace.storage.atomic import replace_file
from headrace.storage.layout import log_directory_of

METADATA_PARTITION_DIRECTORY: Final = "__cluster_metadata-0"
BOOTSTRAP_FILE_NAME: Final = "bootstrap.checkpoint"
QUORUM_STATE_FILE_NAME: Final = "quorum-state"
SYNCED_OFFSET_FILE_NAME: Final = "headrace-synced-offset"
"""Ours; Kafka leaves files alone that are no segment, index or snapshot."""

_SUFFIX: Final = ".checkpoint"
_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.part|\.deleted)?", re.ASCII)


def snapshot_file_name(snapshot_id: OffsetAndEpoch) -> str:
    """The name of the whole file (B-S02)."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{_SUFFIX}"


def parse_snapshot_name(name: str) -> tuple[OffsetAndEpoch, str] | None:
    """The id and what follows `.checkpoint` (empty, `.part` or `.deleted`); None for the name of another file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return OffsetAndEpoch(int(found[1]), int(found[2])), found[3] or ""


class SnapshotFiles:
    """The snapshots in one metadata partition directory. Calls may block; writing is for a thread.

    The directory is listed once: the quorum asks which snapshots there are with every fetch that it serves.
    """

    def __init__(self, files: Files, directory: str) -> None:
        """`directory` is that of `__cluster_metadata-0`."""
        self._files = files
        self.directory = directory
        self._version = object()
        self._listed: tuple[object, list[OffsetAndEpoch]] = (None, [])

    def ids(self) -> list[OffsetAndEpoch]:
        """The whole snapshots, oldest first. Not to be changed by the caller."""
        version, ids = self._listed
        if (
            version is not self._version
        ):  # a thread may finish a snapshot while the directory is listed: then it is listed again
            version = self._version
            ids = self._list()
            self._listed = (version, ids)
        return ids

    def latest(self) -> OffsetAndEpoch | None:
        """The newest whole snapshot."""
        ids = self.ids()
        return ids[-1] if ids else None

    def size(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Bytes of a whole snapshot, None when there is none."""
        found = self._files.stat(self._path(snapshot_id))
        return None if found is None else found.size

    def mtime_ms(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """When it was written (ms since 1970), None when there is none."""
        found = self._files.stat(self._path(snapshot_id))
        return None if found is None else found.mtime_ms

    def read(self, snapshot_id: OffsetAndEpoch, position: int = 0, max_bytes: int | None = None) -> bytes | None:
        """Bytes of a snapshot from `position` on, None when there is no such snapshot. Raises StorageFault."""
        if max_bytes is None:
            data = self._files.read_file(self._path(snapshot_id))
            return None if data is None else data[position:]
        if self.size(snapshot_id) is None:
            return None
        file = self._files.open(self._path(snapshot_id), read_only=True)
        try:
            return file.pread(max_bytes, position)
        finally:
            file.close()

    def write(self, snapshot_id: OffsetAndEpoch, batches: Iterable[BytesLike]) -> int:
        """Write a whole snapshot durably; the number of bytes. One that is there already stays. Raises StorageFault."""
        present = self.size(snapshot_id)
        if present is not None:
            return present
        file = self._files.open(self._part(snapshot_id), create=True, truncate=True)
        position = 0
        try:
            for batch in batches:
                file.pwrite(batch, position)
                position += len(batch)
            file.fsync()
        finally:
            file.close()
        self._complete(snapshot_id)
        return position

    def part_size(self, snapshot_id: OffsetAndEpoch) -> int:
        """Bytes of a snapshot that is being fetched, 0 when there is no part."""
        found = self._files.stat(self._part(snapshot_id))
        return 0 if found is None else found.size

    def write_part(self, snapshot_id: OffsetAndEpoch, position: int, data: BytesLike) -> None:
        """Put bytes into the part at `position`; 0 begins a new part. Raises StorageFault."""
        file = self._files.open(self._part(snapshot_id), create=True, truncate=position == 0)
        try:
            file.pwrite(data, position)
        finally:
            file.close()

    def read_part(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        """Bytes of the part from `position` on. Raises StorageFault."""
        file = self._files.open(self._part(snapshot_id), read_only=True)
        try:
            return file.pread(max_bytes, position)
        finally:
            file.close()

    def finish_part(self, snapshot_id: OffsetAndEpoch) -> None:
        """Sync the part and give it the snapshot's name (B-S02). Blocks. Raises StorageFault."""
        file = self._files.open(self._part(snapshot_id))
        try:
            file.fsync()
        finally:
            file.close()
        self._complete(snapshot_id)

    def drop_part(self, snapshot_id: OffsetAndEpoch) -> None:
        """Remove the part, if there is one."""
        if self._files.exists(self._part(snapshot_id)):
            self._files.unlink(self._part(snapshot_id))

    def delete_leftovers(self) -> None:
        """At start: what a crash left half written or half deleted."""
        if not self._files.exists(self.directory):
            return
        for name in self._files.listdir(self.directory):
            parsed = parse_snapshot_name(name)
            if parsed is not None and parsed[1]:
                self._files.unlink(f"{self.directory}/{name}")

    def delete(self, snapshot_id: OffsetAndEpoch) -> None:
        """Remove a snapshot: renamed first, so that a crash leaves no half file under a valid name."""
        going = f"{self._path(snapshot_id)}.deleted"
        self._files.rename(self._path(snapshot_id), going)
        self._version = object()
        self._files.unlink(going)

    def delete_below(self, end_offset: int) -> int:
        """Remove the snapshots that end below `end_offset`, never the newest; the number removed."""
        going = [each for each in self.ids()[:-1] if each.offset < end_offset]
        for each in going:
            self.delete(each)
        return len(going)

    def _list(self) -> list[OffsetAndEpoch]:
        if not self._files.exists(self.directory):
            return []
        found = [parsed for name in self._files.listdir(self.directory) if (parsed := parse_snapshot_name(name))]
        return sorted(snapshot_id for snapshot_id, rest in found if not rest)

    def _complete(self, snapshot_id: OffsetAndEpoch) -> None:
        """The part is synced: it gets its name, durably, and is counted from then on."""
        self._files.rename(self._part(snapshot_id), self._path(snapshot_id))
        self._files.fsync_dir(self.directory)
        self._version = object()

    def _part(self, snapshot_id: OffsetAndEpoch) -> str:
        """While it grows. `write` never makes one of the same name: what is fetched lies past what this node has committed."""
        return f"{self._path(snapshot_id)}.part"

    def _path(self, snapshot_id: OffsetAndEpoch) -> str:
        return f"{self.directory}/{snapshot_file_name(snapshot_id)}"


def write_bootstrap_checkpoint(files: Files, log_directory: str, batches: Iterable[BytesLike]) -> None:
    """Replace `bootstrap.checkpoint` durably (B-S10); `batches` are those of `raft.snapshots.build_snapshot`."""
    replace_file(files, log_directory, BOOTSTRAP_FILE_NAME, b"".join(bytes(batch) for batch in batches))


def read_bootstrap_checkpoint(files: Files, log_directory: str) -> bytes | None:
    """The bytes of `bootstrap.checkpoint`, None when there is none."""
    return files.read_file(f"{log_directory}/{BOOTSTRAP_FILE_NAME}")


def has_metadata_log(files: Files, log_directory: str) -> bool:
    """Whether the metadata partition's log has a record."""
    directory = f"{log_directory}/{METADATA_PARTITION_DIRECTORY}"
    if not files.exists(directory):
        return False
    found = [files.stat(f"{directory}/{name}") for name in files.listdir(directory) if name.endswith(".log")]
    return any(each is not None and each.size > 0 for each in found)


def write_zero_checkpoint(files: Files, log_directory: str, batches: Iterable[BytesLike]) -> None:
    """Write the 0-0 snapshot with the first voters (KIP-853); makes the metadata partition's directory."""
    directory = f"{log_directory}/{METADATA_PARTITION_DIRECTORY}"
    files.mkdir(directory)
    SnapshotFiles(files, directory).write(OffsetAndEpoch(0, 0), batches)
    files.fsync_dir(log_directory)


def read_quorum_state(files: Files, directory: str) -> bytes | None:
    """The bytes of `quorum-state`, None when there is none. A file that lost its content raises StorageFault."""
    data = files.read_file(f"{directory}/{QUORUM_STATE_FILE_NAME}")
    if data is not None and not data.strip():
        raise StorageFault(f"{directory}/{QUORUM_STATE_FILE_NAME} is empty", directory=log_directory_of(directory))
    return data


def write_quorum_state(files: Files, directory: str, data: bytes) -> None:
    """Replace `quorum-state` durably (B-R03): temporary file, fsync, rename, directory fsync."""
    replace_file(files, directory, QUORUM_STATE_FILE_NAME, data)


def read_synced_offset(files: Files, directory: str) -> int:
    """Below which offset the metadata log was synced at the last clean stop; 0 when nobody says so.

    It tells rot from a torn write (B-S11, D6): what is damaged below it is never cut off.
    """
    data = files.read_file(f"{directory}/{SYNCED_OFFSET_FILE_NAME}")
    if data is None:
        return 0
    text = data.strip()
    return int(text) if text.isdigit() and len(text) < 20 else 0


def write_synced_offset(files: Files, directory: str, offset: int) -> None:
    """Everything below `offset` is synced: note it durably. It stays true, so it need not be removed."""
    replace_file(files, directory, SYNCED_OFFSET_FILE_NAME, f"{offset}\n".encode())
