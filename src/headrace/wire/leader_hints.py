"""The leader in a response, so that a client need not ask for metadata first. Source: KIP-951."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from headrace.wire.varint import append_uvarint

_LEADER = struct.Struct(">iix")
_INT32 = struct.Struct(">i")


class LeaderHint(NamedTuple):
    """Who leads a partition, in which epoch."""

    leader_id: int
    leader_epoch: int


class Endpoint(NamedTuple):
    """Where a broker that a `LeaderHint` names is reached, on the listener of the request."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


def append_leader_tag(out: bytearray, tag: int, hint: LeaderHint) -> None:
    """A tagged field with a leader: tag, size, leader id, epoch, no tags of its own."""
    out.append(tag)
    out.append(_LEADER.size)
    out += _LEADER.pack(*hint)


def append_last_tags(out: bytearray, endpoints: Sequence[Endpoint]) -> None:
    """The tagged fields at the end of a Produce or Fetch answer: the endpoints are tag 0, left out when there are none."""
    if not endpoints:
        out.append(0)
        return
    body = bytearray()
    append_uvarint(body, len(endpoints) + 1)
    for endpoint in endpoints:
        body += _INT32.pack(endpoint.node_id)
        append_compact_string(body, endpoint.host)
        body += _INT32.pack(endpoint.port)
        append_compact_string(body, endpoint.rack)
        body.append(0)
    out += b"\x01\x00"
    append_uvarint(out, len(body))
    out += body


def append_compact_string(out: bytearray, text: str | None) -> None:
    """A string or null in the form of flexible versions."""
    if text is None:
        out.append(0)
        return
    encoded = text.encode()
    append_uvarint(out, len(encoded) + 1)
    out += encoded
