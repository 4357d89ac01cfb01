"""What a consumer's requests to its fetch session have in common when each asks for more of one partition: all bytes but the session's epoch and the offset.

Who has understood one of them need not read the next one again, nor write the response anew but for its offsets (KIP-227).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from headrace.wire.fetch import (
    FIRST_FLEXIBLE,
    FIRST_WITH_REPLICA_STATE,
    FIRST_WITH_TOPIC_IDS,
    ParsedFetch,
    Sized,
    encode_one_slice,
)
from headrace.wire.produce import TopicName
from headrace.wire.varint import append_uvarint

S = TypeVar("S", bound=Sized)
RequestParts = tuple[bytes, int, int, bytes, int, bytes]
"""What stands before the session's id, that id and the session's epoch, what stands before the offset, the offset, the rest."""

_LONGEST_BYTES = 400
"""With the longest topic name, which has 249 bytes, a request of one partition is shorter."""
_END_BYTES, _FLEXIBLE_END_BYTES = 18, 21
_REPLICA_ID_BYTES = 4
_START_BYTES = 17
_V11_MIDDLE_BYTES, _NAME_MIDDLE_BYTES, _ID_MIDDLE_BYTES = 18, 11, 26
"""Without the topic's name, whose length takes two bytes, or one."""
_LONGEST_NAME_BYTES = 126
_OFFSETS = struct.Struct(">qqq")
_V11_RECORDS_BYTES = 4
_FLEXIBLE_RECORDS = b"\x00\xff\xff\xff\xff"
"""Nothing aborted, and no replica that is preferred."""


def split_request(body: memoryview, version: int) -> RequestParts | None:
    """The parts of a request that has the length of one for one partition. It is what it seems to be if another one with the same bytes around was. Hot path."""
    unpack = _layout(version, len(body))
    return None if unpack is None else unpack(body)


def is_usual(request: ParsedFetch, version: int, size: int) -> bool:
    """Whether `split_request` finds the parts of this request of `size` bytes: it is of one partition, with nothing in it that most have not."""
    if len(request.asks) != 1 or request.forgotten or request.rack_id or request.cluster_id is not None:
        return False
    topic = request.asks[0].topic
    if version >= FIRST_WITH_TOPIC_IDS:
        middle = _ID_MIDDLE_BYTES
    elif version < FIRST_FLEXIBLE:
        middle = _V11_MIDDLE_BYTES + len(str(topic).encode())
    else:
        length = len(str(topic).encode())
        if length > _LONGEST_NAME_BYTES:
            return False
        middle = _NAME_MIDDLE_BYTES + length
    return size == sum(_ends(version)) + 8 + middle + 8


def _ends(version: int) -> tuple[int, int]:
    """Bytes before the session's id, and behind the offset."""
    start = _START_BYTES if version < FIRST_WITH_REPLICA_STATE else _START_BYTES - _REPLICA_ID_BYTES
    return start, _END_BYTES if version < FIRST_FLEXIBLE else _FLEXIBLE_END_BYTES


@lru_cache(maxsize=4_096)
def _layout(version: int, size: int) -> Callable[[memoryview], Any] | None:
    start, end = _ends(version)
    middle = size - start - 8 - 8 - end
    if middle < 0 or size > _LONGEST_BYTES:
        return None
    return struct.Struct(f">{start}sii{middle}sq{end}s").unpack


class _NoRecords:
    """What an example of a response is made with."""

    size = 0


def slice_form(
    version: int, topic: TopicName, partition: int, session_id: int
) -> Callable[[int, int, int, S], tuple[bytes, S, bytes] | tuple[bytes, S]]:
    """How `encode_one_slice` writes the responses of a session for this partition: of a high watermark, a last stable offset, a log start and records."""
    whole = encode_one_slice(version, topic, partition, (0, 0, 0), _NoRecords(), (0, session_id))[0]
    if version < FIRST_FLEXIBLE:
        behind = whole[-2 * _V11_RECORDS_BYTES - 4 : -_V11_RECORDS_BYTES]
        begin = whole[: -len(behind) - _V11_RECORDS_BYTES - _OFFSETS.size]
        pack_old = struct.Struct(f">{len(begin)}sqqq{len(behind)}si").pack

        def write_old(high_watermark: int, last_stable: int, log_start: int, records: S) -> tuple[bytes, S]:
            return pack_old(begin, high_watermark, last_stable, log_start, behind, records.size), records

        return write_old
    begin = whole[: -1 - len(_FLEXIBLE_RECORDS) - _OFFSETS.size]
    pack = struct.Struct(f">{len(begin)}sqqq{len(_FLEXIBLE_RECORDS)}s").pack

    def write(high_watermark: int, last_stable: int, log_start: int, records: S) -> tuple[bytes, S, bytes]:
        out = bytearray(pack(begin, high_watermark, last_stable, log_start, _FLEXIBLE_RECORDS))
        append_uvarint(out, records.size + 1)
        return bytes(out), records, b"\0\0\0"

    return write
