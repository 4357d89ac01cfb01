"""Keys and values of one topic's records, as `headrace dump-log` shows them.

A decoder takes a record and gives the text of key and payload, or None for what is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from headrace.core.errors import DecodeError, OperatorError, PeerError
from headrace.records.control import ControlType, control_type
from headrace.records.record import Record
from headrace.wire.json_view import record_type_name, to_json

Shown = tuple[str | None, str | None]
Decoder = Callable[[Record], Shown]


def json_text(value: Any) -> str:
    """JSON as Kafka's tools print it: without blanks, text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _number(size: int) -> Callable[[bytes], str]:
    def show(data: bytes) -> str:
        if len(data) != size:
            raise ValueError(f"{len(data)} bytes are no number of {size} bytes")
        return str(int.from_bytes(data, "big", signed=True))

    return show


_PACKAGE = "org.apache.kafka.tools.api."
CLASSES: dict[str, Callable[[bytes], str]] = {
    "StringDecoder": lambda data: data.decode("utf-8", "replace"),
    "LongDecoder": _number(8),
    "IntegerDecoder": _number(4),
    "DefaultDecoder": bytes.hex,
}
"""Kafka's decoders of keys and values. Of bytes as they are its tool shows an address in memory, ours what they are."""


def by_classes(key_class: str, value_class: str) -> Decoder:
    """Keys and values as two of Kafka's decoder classes show them. Raises OperatorError: another class."""
    show_key, show_value = _shower(key_class), _shower(value_class)

    def decoder(record: Record) -> Shown:
        try:
            return (
                None if record.key is None else show_key(record.key),
                None if record.value is None else show_value(record.value),
            )
        except ValueError as error:
            return None, f"Error at offset {record.offset}, skipping. {error}"

    return decoder


def _shower(name: str) -> Callable[[bytes], str]:
    short = name.removeprefix(_PACKAGE)
    if short not in CLASSES:
        raise OperatorError(f"decoder class {name}: must be one of {', '.join(CLASSES)}")
    return CLASSES[short]


def cluster_metadata(record: Record) -> Shown:
    """A record of `__cluster_metadata`: `{"type":...,"version":...,"data":...}`."""
    from headrace.wire.metadata_records.frame import decode_record_with_version

    try:
        message, version = decode_record_with_version(record.value or b"")
        shown = {
            "type": record_type_name(type(message).__name__),
            "version": version,
            "data": to_json(message, version),
        }
    except (DecodeError, PeerError) as error:
        return None, f"Error at {record.offset}, skipping. {error}"
    return None, json_text(shown)


def offsets(record: Record) -> Shown:
    """A record of `__consumer_offsets`."""
    from headrace.coordinator.groups.dump import decode_offsets_record

    return _coordinator(record, lambda: decode_offsets_record(record.key or b"", record.value))


def transactions(record: Record) -> Shown:
    """A record of `__transaction_state`."""
    from headrace.wire.transaction_records import frame

    return _coordinator(record, lambda: _framed(frame, record))


def share_group_state(record: Record) -> Shown:
    """A record of `__share_group_state`."""
    from headrace.wire.share_records import frame

    return _coordinator(record, lambda: _framed(frame, record))


def _framed(frame: Any, record: Record) -> Shown:
    """Key and value of a coordinator's record: type and version in front."""
    key = frame.decode_key(record.key or b"")
    shown_key = json_text({"type": str(key.SCHEMA.api_key), "data": to_json(key, 0)})
    if record.value is None:
        return shown_key, "<DELETE>"
    version = frame.version_of(record.value)
    value = frame.decode_value(key, record.value)
    return shown_key, json_text({"version": str(version), "data": to_json(value, version)})


def _coordinator(record: Record, decode: Callable[[], Shown | None]) -> Shown:
    try:
        shown = decode()
    except (DecodeError, PeerError) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None
    if shown is None:
        return f"Error at offset {record.offset}, skipping. The type of the record is not known.", None
    return shown


def control_text(record: Record) -> str:
    """What a control record says, after its metadata."""
    kind = control_type(record.key)
    value = record.value or b""
    if kind in (ControlType.ABORT, ControlType.COMMIT) and len(value) >= 6:
        return f"endTxnMarker: {kind.name} coordinatorEpoch: {int.from_bytes(value[2:6], 'big', signed=True)}"
    try:
        label, shown = _control_message(kind, value)
    except (DecodeError, PeerError, ValueError) as error:
        return f"controlType: {kind.name}({int(kind)}) Error: {error}"
    return f"{label} {json_text(shown)}"


def _control_message(kind: ControlType, value: bytes) -> tuple[str, Any]:
    from headrace.wire.codec import decode
    from headrace.wire.raft_records.kraft_version_record import KRaftVersionRecord
    from headrace.wire.raft_records.leader_change_message import LeaderChangeMessage
    from headrace.wire.raft_records.snapshot_footer_record import SnapshotFooterRecord
    from headrace.wire.raft_records.snapshot_header_record import SnapshotHeaderRecord
    from headrace.wire.raft_records.voters_record import VotersRecord
    from headrace.wire.schema import Message

    known: dict[ControlType, tuple[str, type[Message]]] = {
        ControlType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
        ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
        ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
        ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
        ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
    }
    if kind not in known:
        raise ValueError("a control record of an unknown type")
    label, cls = known[kind]
    version = int.from_bytes(value[:2], "big", signed=True)
    return label, to_json(decode(cls, value, version), version)
