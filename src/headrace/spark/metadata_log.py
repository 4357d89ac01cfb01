"""The records of `__cluster_metadata`, decoded: fetched from the active controller as an observer without an id, and made into rows.

A place in the log is its offset with the epoch of the record before it, as JSON `{"offset": 12, "epoch": 3}`. Where the log begins later, because a snapshot stands for what was before, the
snapshot's records come first, marked as such: they say how things were, not what happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from headrace.client import metadata_log
from headrace.client.admin_quorum import describe_quorum
from headrace.client.blocking import BlockingClient
from headrace.core.errors import DecodeError, OperatorError
from headrace.core.offsets import OffsetAndEpoch
from headrace.metadata.cause import Cause, CauseKind, decode_caused
from headrace.records.batch import iter_batches
from headrace.records.control import ControlType
from headrace.records.record import read_all_records
from headrace.wire.json_view import record_type_name, to_json
from headrace.wire.metadata_records.frame import decode_record_with_version

ARROW_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()), ("timestamp", pa.timestamp("us", tz="UTC")), ("epoch", pa.int32()), ("batch", pa.int64()), ("type", pa.string()),
        ("version", pa.int32()), ("data", pa.string()), ("cause", pa.string()), ("is_snapshot", pa.bool_()),
    ]
)  # fmt: skip
QUORUM_LEADER: Final = "LEADER_CHANGE"
BEGINNING: Final = OffsetAndEpoch(0, 0)
_NO_OP: Final = 20
"""Written twice a second to show that the quorum lives; nobody wants to read it."""
_CAUSES: Final = {int(each): each.name for each in CauseKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What lies behind a place: up to some megabytes of committed batches, or a snapshot; and the place behind it."""

    data: bytes | memoryview
    end: OffsetAndEpoch
    is_snapshot: bool
    is_last: bool


class MetadataLog:
    """The log of the quorum that the properties name, by `bootstrap.controllers` or by its brokers. Connects on first use; a copy is not connected."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        self._client: BlockingClient | None = None
        self._reader = metadata_log.MetadataLogReader()

    def __getstate__(self) -> dict[str, str]:
        return self._properties

    def __setstate__(self, properties: dict[str, str]) -> None:
        self.__init__(properties)  # type: ignore[misc]

    def after(self, place: OffsetAndEpoch) -> Part:
        """What is committed behind a place. Raises PeerError, OperatorError."""
        if self._client is None:
            self._client = _open(self._properties)
        part = self._client.run(self._reader.fetch_committed, place.offset, place.epoch)
        if isinstance(part, metadata_log.SnapshotNeeded):
            data = self._client.run(self._reader.read_snapshot, part.snapshot_id)
            return Part(data=data, end=part.snapshot_id, is_snapshot=True, is_last=False)
        end = place
        for _, header in iter_batches(part.records):
            end = OffsetAndEpoch(header.next_offset, header.leader_epoch)
        is_last = end == place or end.offset >= part.high_watermark
        return Part(data=part.records, end=end, is_snapshot=False, is_last=is_last)

    def end(self) -> OffsetAndEpoch:
        """The place behind the last committed record."""
        place = BEGINNING
        while True:
            part = self.after(place)
            place = part.end
            if part.is_last:
                return place

    def rows(self, start: OffsetAndEpoch, end: OffsetAndEpoch | None) -> Iterator[pa.RecordBatch]:
        """The records from `start` up to `end`, or to the end of the log as it is now."""
        place = start
        while end is None or place.offset < end.offset:
            part = self.after(place)
            rows = [
                row
                for row in decoded(part)
                if start.offset <= row["offset"] and (end is None or row["offset"] < end.offset)
            ]
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema=ARROW_SCHEMA)
            place = part.end
            if part.is_last:
                return

    def close(self) -> None:
        """Close the connection; the next call opens another."""
        if self._client is not None:
            self._client.close()
            self._client = None


def _open(properties: Mapping[str, str]) -> BlockingClient:
    """A client of the controllers. Raises OperatorError where neither they nor a broker that knows them are named."""
    given = dict(properties)
    servers, controllers = given.pop("bootstrap.servers", None), given.pop("bootstrap.controllers", None)
    if (servers is None) == (controllers is None):
        raise OperatorError("say one of kafka.bootstrap.servers and kafka.bootstrap.controllers")
    if controllers is None:
        with BlockingClient(servers or "", properties=given) as client:
            info = client.run(describe_quorum)
        points = [each for some in info.end_points.values() for each in some]
        if not points:
            raise OperatorError(
                "the brokers do not say where the controllers listen: name these by kafka.bootstrap.controllers"
            )
        controllers = ",".join(f"{each.host}:{each.port}" for each in points)
    return BlockingClient(controllers, properties=given, is_controller=True)


def decoded(part: Part) -> Iterator[dict[str, Any]]:
    """A row for each record. Raises OperatorError for one that cannot be understood."""
    for header, records in read_all_records(part.data):
        cause: Cause | None = None
        for number, record in enumerate(records):
            row: dict[str, Any] = {
                "offset": part.end.offset - 1 if part.is_snapshot else header.base_offset + number,
                "timestamp": header.max_timestamp * 1000, "epoch": header.leader_epoch, "batch": header.base_offset, "is_snapshot": part.is_snapshot,
            }  # fmt: skip
            value = bytes(record.value or b"")
            if header.is_control:
                kind = int.from_bytes(bytes(record.key or b"")[2:4], "big")
                if kind == ControlType.LEADER_CHANGE:
                    yield row | {"type": QUORUM_LEADER, **_leader(value)}
                continue
            try:
                message, own = decode_caused(value)
                version = decode_record_with_version(value)[1]
            except DecodeError as error:
                raise OperatorError(
                    f"the metadata record at offset {row['offset']} is not understood: {error}"
                ) from error
            cause = own or cause
            if message.SCHEMA.api_key == _NO_OP:
                continue
            yield row | {
                "type": record_type_name(type(message).__name__), "version": version, "data": json.dumps(to_json(message, version)),
                "cause": None if cause is None else json.dumps(_shown(cause)),
            }  # fmt: skip


def _leader(value: bytes) -> dict[str, Any]:
    from headrace.wire.codec import decode
    from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage

    version = int.from_bytes(value[:2], "big")
    message = decode(LeaderChangeMessage, value, version)
    return {"version": version, "data": json.dumps(to_json(message, version))}


def _shown(cause: Cause) -> dict[str, Any]:
    """What is known of a cause: its kind by name, the broker it is about, who asked."""
    shown: dict[str, Any] = {"kind": _CAUSES.get(cause.kind, str(cause.kind))}
    if cause.broker_id >= 0:
        shown["broker"] = cause.broker_id
    if cause.kind == CauseKind.REQUEST:
        shown |= {
            "api_key": cause.api_key,
            "principal": cause.principal,
            "client_id": cause.client_id,
            "client_host": cause.client_host,
        }
    return shown
