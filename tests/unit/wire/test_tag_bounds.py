"""How many tagged fields are skipped before somebody is told that they are too many?"""

from __future__ import annotations

import pytest

from headrace.core.errors import DecodeError
from headrace.wire.codec import decode
from headrace.wire.messages.api_versions import ApiVersionsRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.varint import MAX_TAGS, append_uvarint, skip_tags


def tags(count: int) -> bytes:
    """A section of so many empty tagged fields."""
    out = bytearray()
    append_uvarint(out, count)
    for tag in range(count):
        append_uvarint(out, 100 + tag)
        out.append(0)
    return bytes(out)


def test_unknown_tagged_fields_are_skipped_up_to_the_bound() -> None:
    """B8: what a later release might add, and a thousand times as much."""
    section = tags(MAX_TAGS)
    assert skip_tags(section, 0) == len(section)


@pytest.mark.parametrize("message", [ApiVersionsRequest, FetchRequest])
def test_more_tagged_fields_than_any_message_has_are_refused(message: type[ApiVersionsRequest | FetchRequest]) -> None:
    """B8: to skip a million of them takes the event loop a second, known fields among them or not."""
    version = 3 if message is ApiVersionsRequest else 12
    strings = b"\1\1" if message is ApiVersionsRequest else bytes(21) + b"\0\0\0\0\1\1\1"
    body = strings + tags(MAX_TAGS + 1)
    with pytest.raises(DecodeError, match=r"count of 10001 does not fit"):
        decode(message, body, version)
