"""Where a history is read: the metadata directory of a node, or the log of a running quorum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from headrace.cli.metadata_file import FileBatch, mapped
from headrace.cli.metadata_follower import addresses
from headrace.cli.shell import first_contact_ms
from headrace.client import metadata_log
from headrace.client.admin_quorum import describe_quorum
from headrace.client.blocking import BlockingClient
from headrace.core.errors import OperatorError, PeerError, StorageFault
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.ports import BytesLike
from headrace.metadata.history import Happened, Historian
from headrace.metadata.image import MetadataProvenance
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.raft.snapshots import read_snapshot
from headrace.records.record import read_all_records
from headrace.storage.snapshot_files import METADATA_PARTITION_DIRECTORY, parse_snapshot_name


class Beginning(NamedTuple):
    """What is known begins with a snapshot: what led to it is not kept. `time_ms` is that of its last record."""

    offset: int
    epoch: int
    time_ms: int


class Source(Protocol):
    """A metadata log in its order."""

    def read(self, historian: Historian) -> Iterator[Beginning | Happened]:
        """Feed it to the historian. Raises OperatorError, HistoryFault."""


class DirectorySource:
    """The files of one node; it may run meanwhile."""

    def __init__(self, directory: str) -> None:
        """`directory` is that of the metadata log, or the log directory that it lies in. Raises OperatorError: there is none."""
        path = Path(directory)
        inner = path / METADATA_PARTITION_DIRECTORY
        self._path = inner if inner.is_dir() else path
        self._segments = sorted(self._path.glob("[0-9]" * 20 + ".log"))
        if not self._segments:
            raise OperatorError(f"{directory}: there is no metadata log ({METADATA_PARTITION_DIRECTORY}) in it")

    def read(self, historian: Historian) -> Iterator[Beginning | Happened]:
        """From the oldest snapshot that is needed on; the last records may not be committed yet."""
        begin = int(self._segments[0].stem)
        if begin > 0:
            snapshot_id = self._oldest_snapshot(begin)
            name = f"{self._path}: snapshot {snapshot_id.offset}-{snapshot_id.epoch}"
            path = self._path / f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}.checkpoint"
            yield _begin_at(historian, snapshot_id, mapped(str(path)), name)
            begin = snapshot_id.offset
        for segment in self._segments:
            yield from _tell(historian, mapped(str(segment)), begin, str(segment))

    def _oldest_snapshot(self, begin: int) -> OffsetAndEpoch:
        names = (parse_snapshot_name(each.name) for each in self._path.glob("*.checkpoint"))
        ids = sorted(each[0] for each in names if each is not None and each[1] == "" and each[0].offset >= begin)
        if not ids:
            raise OperatorError(
                f"{self._path}: the log begins at offset {begin}, and there is no snapshot of what was before"
            )
        return ids[0]


class QuorumSource:
    """The log of a running quorum up to its high watermark, read as an observer without an id."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client
        self._reader = metadata_log.MetadataLogReader()

    def read(self, historian: Historian) -> Iterator[Beginning | Happened]:
        """From the beginning of the log, or from the newest snapshot where that is gone."""
        offset, epoch = 0, 0
        while True:
            part = self._client.run(self._reader.fetch_committed, offset, epoch)
            if isinstance(part, metadata_log.SnapshotNeeded):
                name = part.snapshot_id
                data = self._client.run(self._reader.read_snapshot, name)
                yield _begin_at(historian, name, data, f"the quorum's snapshot {name.offset}-{name.epoch}")
                offset, epoch = name.offset, name.epoch
                continue
            before = offset
            for each in _batches(part.records, offset, "the metadata log of the quorum"):
                offset, epoch = each[0].last_offset + 1, each[0].epoch
                yield from _told(historian, *each)
            if offset == before or offset >= part.high_watermark:
                return


@contextmanager
def quorum_source(servers: str | None, controllers: str | None, properties: dict[str, str]) -> Iterator[QuorumSource]:
    """The log of the quorum that the options name. Raises OperatorError, PeerError."""
    patience_ms = first_contact_ms(properties)
    if controllers is None:
        client = BlockingClient(servers or "", properties=properties, first_contact_ms=patience_ms)
        try:
            info = client.run(describe_quorum)
        finally:
            client.close()
        points = [each for some in info.end_points.values() for each in some]
        if not points:
            raise OperatorError(
                "The brokers do not say where the controllers listen: name them with --bootstrap-controller"
            )
        controllers = ",".join(f"{each.host}:{each.port}" for each in points)
    client = BlockingClient(
        addresses(controllers), properties=properties, is_controller=True, first_contact_ms=patience_ms
    )
    try:
        yield QuorumSource(client)
    finally:
        client.close()


def _begin_at(historian: Historian, snapshot_id: OffsetAndEpoch, data: BytesLike, name: str) -> Beginning:
    try:
        snapshot = read_snapshot(memoryview(data), name=name)
        loader = MetadataLoader(is_any_level_read=True)
        loader.load_snapshot(snapshot.records, _provenance(snapshot_id, snapshot.last_contained_log_timestamp))
    except (StorageFault, MetadataFault) as error:
        raise OperatorError(str(error)) from None
    historian.load_snapshot(loader.image)
    return Beginning(snapshot_id.offset, snapshot_id.epoch, snapshot.last_contained_log_timestamp)


def _provenance(snapshot_id: OffsetAndEpoch, time_ms: int) -> MetadataProvenance:
    return MetadataProvenance(
        last_contained_offset=snapshot_id.offset - 1,
        last_contained_epoch=snapshot_id.epoch,
        last_contained_log_time_ms=time_ms,
    )


def _tell(historian: Historian, data: BytesLike, begin: int, where: str) -> Iterator[Happened]:
    for batch, control in _batches(data, begin, where):
        yield from _told(historian, batch, control)


def _told(
    historian: Historian, batch: FileBatch, control: tuple[tuple[bytes, bytes], ...] | None
) -> Iterable[Happened]:
    return historian.tell(batch) if control is None else historian.tell_control(batch, control)


def _batches(
    data: BytesLike, begin: int, where: str
) -> Iterator[tuple[FileBatch, tuple[tuple[bytes, bytes], ...] | None]]:
    """Batches from `begin` on; those of the quorum's own with their keys and values."""
    try:
        for header, rows in read_all_records(data):
            last = header.last_offset
            if last < begin:
                continue
            values: tuple[bytes, ...] = ()
            control: tuple[tuple[bytes, bytes], ...] | None = None
            if header.is_control:
                control = tuple((bytes(row.key or b""), bytes(row.value or b"")) for row in rows)
            else:
                values = tuple(row.value or b"" for row in rows)
            yield FileBatch(header.base_offset, last, header.leader_epoch, header.max_timestamp, values), control
    except PeerError as error:
        raise OperatorError(f"{where}: {error}") from None
