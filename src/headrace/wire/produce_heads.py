"""What a producer's requests for one partition have in common: the bytes before the records, and those of the response around its offsets.

A producer that writes to one partition sends the same bytes before its records each time. Who has understood them once need not read them again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from headrace.core.errors import DecodeError
from headrace.wire.produce import FIRST_FLEXIBLE, FIRST_WITH_TOPIC_IDS, TopicName, encode_appended
from headrace.wire.varint import continue_uvarint

FIRST_VERSION: Final = 7
"""The first version of which heads are known: the first that may have any compression."""

_SIZE = struct.Struct(">i").unpack_from
_OFFSETS_BYTES = 24
_END_BYTES = {7: 4, 8: 10}
_FLEXIBLE_END_BYTES = 9
"""Bytes of a response behind its offsets: no errors of records, no message, no throttling."""


class AppendedForm(NamedTuple):
    """A response but for its offsets: `write(base offset, append time, log start offset, end)` is the whole of it."""

    write: Callable[[int, int, int, bytes], bytes]
    end: bytes


def split_head(body: memoryview, version: int) -> tuple[bytes, memoryview] | None:
    """The bytes up to the length of the records, and the records, if this is a request of one partition; None for another shape, as far as can be seen.

    It is what it seems to be if another request with the same head was. Hot path.
    """
    try:
        if version < FIRST_FLEXIBLE:
            end = 22 + (body[12] << 8) + body[13]
            start = end + 4
            if start + _SIZE(body, end)[0] != len(body):
                return None
            return body[:end].tobytes(), body[start:]
        end = 29 if version >= FIRST_WITH_TOPIC_IDS else 13 + body[8]
        size = body[end]
        start = end + 1
        if size > 0x7F:
            size, start = continue_uvarint(body, start, size)
        stop = start + size - 1
        if stop + 3 != len(body) or body[stop] or body[stop + 1] or body[stop + 2]:
            return None
        return body[:end].tobytes(), body[start:stop]
    except (IndexError, struct.error, DecodeError):
        return None


def appended_form(version: int, topic: TopicName, partition: int) -> AppendedForm:
    """The response to appended batches of this partition."""
    whole = encode_appended(version, (topic, partition, 0, 0, 0))
    end = _END_BYTES.get(version, _FLEXIBLE_END_BYTES)
    begin = whole[: -end - _OFFSETS_BYTES]
    return AppendedForm(partial(_around_offsets(len(begin), end), begin), whole[-end:])


@lru_cache(maxsize=512)
def _around_offsets(begin: int, end: int) -> Callable[..., bytes]:
    return struct.Struct(f">{begin}sqqq{end}s").pack
