"""A record of `__consumer_offsets` as `kafka-dump-log --offsets-decoder` shows it."""

from __future__ import annotations

import json
from typing import Any

from headrace.coordinator.groups.subscription import CONSUMER_PROTOCOL_TYPE, read_version
from headrace.core.errors import DecodeError
from headrace.wire.codec import decode
from headrace.wire.group_records import frame
from headrace.wire.group_records.group_metadata_value import GroupMetadataValue, MemberMetadata
from headrace.wire.json_view import to_json
from headrace.wire.protocols.consumer_protocol_assignment import ConsumerProtocolAssignment
from headrace.wire.protocols.consumer_protocol_subscription import ConsumerProtocolSubscription
from headrace.wire.schema import Message

DELETED = "<DELETE>"


def decode_offsets_record(key: bytes, value: bytes | None) -> tuple[str, str] | None:
    """Key and payload as Kafka's JSON text; None for a record type that we do not know. Raises DecodeError on damage.

    The embedded messages of a consumer group's members are taken apart where they can be read.
    """
    try:
        decoded_key = frame.decode_key(key)
    except DecodeError:
        return None
    key_text = _text({"type": str(decoded_key.SCHEMA.api_key), "data": to_json(decoded_key, 0)})
    if value is None:
        return key_text, DELETED
    version = frame.version_of(value)
    decoded = frame.decode_value(decoded_key, value)
    data = to_json(decoded, version)
    if isinstance(decoded, GroupMetadataValue) and decoded.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for shown, member in zip(data["members"], decoded.members, strict=True):
            _open_member(shown, member)
    return key_text, _text({"version": str(version), "data": data})


def _open_member(shown: dict[str, Any], member: MemberMetadata) -> None:
    subscription = _embedded(ConsumerProtocolSubscription, bytes(member.subscription))
    assignment = _embedded(ConsumerProtocolAssignment, bytes(member.assignment))
    if subscription is not None:
        shown["subscription"] = subscription
    if assignment is not None:
        shown["assignment"] = assignment


def _embedded(kind: type[Message], data: bytes) -> dict[str, Any] | None:
    """The JSON of a message of the consumers' protocol, or None for bytes that are none."""
    try:
        version, body = read_version(data)
        return to_json(decode(kind, body, version, allow_trailing=True), version)
    except DecodeError:
        return None


def _text(shown: dict[str, Any]) -> str:
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
