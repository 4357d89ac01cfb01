"""Do the codecs that work in steps read and write what the others do?"""

from __future__ import annotations

import random
from collections.abc import Generator
from typing import TypeVar

import pytest

from headrace.core.errors import DecodeError, EncodeError
from headrace.wire.codec import decode, decode_in_steps, encode, encode_in_steps
from headrace.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.schema import Message
from tests.support.messages import all_versions, sample

T = TypeVar("T")


def stepped(steps: Generator[None, None, T]) -> tuple[T, int]:
    """What the steps come to, and how many rests there were."""
    rests = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, rests
        rests += 1


@pytest.mark.parametrize(("cls", "version"), list(all_versions()))
def test_every_version_of_every_message_is_the_same_in_steps(cls: type[Message], version: int) -> None:
    """One definition, two ways to compile it."""
    message = sample(cls, version, random.Random(version))
    data = encode(message, version)
    out = bytearray()
    stepped(encode_in_steps(message, version, out))
    assert bytes(out) == data
    assert stepped(decode_in_steps(cls, data, version))[0] == decode(cls, data, version)


def test_long_messages_have_a_rest_every_few_kilobytes() -> None:
    """M6."""
    topics = tuple(MetadataRequestTopic(name=f"topic-{number}") for number in range(100_000))
    request = MetadataRequest(topics=topics)
    out = bytearray()
    _, written = stepped(encode_in_steps(request, 9, out))
    found, read = stepped(decode_in_steps(MetadataRequest, bytes(out), 9))
    assert found == request
    assert (read > len(out) / 5_000, written > len(out) / 10_000) == (True, True)


def test_a_long_value_is_copied_a_little_at_a_time() -> None:
    """M6: what one member says of itself may have 30 MB."""
    said = random.Random(1).randbytes(5 << 20)
    answer = JoinGroupResponse(members=(JoinGroupResponseMember(member_id="m", metadata=said),), protocol_name="range")
    out = bytearray()
    longest = before = 0
    for _ in encode_in_steps(answer, 5, out):
        longest, before = max(longest, len(out) - before), len(out)
    assert (bytes(out) == encode(answer, 5), longest <= 300_000) == (True, True)


def test_bad_bytes_and_values_are_refused_in_steps_too() -> None:
    """input:B20, input:B4."""
    with pytest.raises(DecodeError):
        stepped(decode_in_steps(MetadataRequest, b"\x7f", 9))
    with pytest.raises(DecodeError, match="left over"):
        stepped(decode_in_steps(MetadataRequest, encode(MetadataRequest(topics=()), 9) + b"\0", 9))
    with pytest.raises(DecodeError, match="no version 99"):
        stepped(decode_in_steps(MetadataRequest, b"", 99))
    with pytest.raises(EncodeError):
        stepped(encode_in_steps(MetadataRequest(topics=None), 0, bytearray()))
