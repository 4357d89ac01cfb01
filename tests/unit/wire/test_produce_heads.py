"""What is known of a request by its head is what its bytes say, and the response of a form is the one that would be written."""

from __future__ import annotations

import random

import pytest

from headrace.core.ids import Uuid
from headrace.wire import produce, produce_heads
from headrace.wire.codec import encode
from headrace.wire.messages import produce as messages

VERSIONS = range(produce_heads.FIRST_VERSION, 14)
SIZES = (1, 61, 126, 127, 128, 200, 16_382, 16_383, 70_000, 2_100_000)
TOPIC_ID = Uuid(bytes(range(16)))


def request(version: int, size: int, *, name: str = "bench", partition: int = 3) -> bytes:
    part = messages.PartitionProduceData(index=partition, records=random.Random(size).randbytes(size))
    topic = (
        messages.TopicProduceData(topic_id=TOPIC_ID, partition_data=(part,))
        if version >= 13
        else messages.TopicProduceData(name=name, partition_data=(part,))
    )
    return encode(messages.ProduceRequest(acks=-1, timeout_ms=1500, topic_data=(topic,)), version)


def changed(good: bytes) -> list[bytes]:
    """Every truncation, a byte more, and three changes of each of the first and last bytes."""
    frames = [good[:size] for size in range(len(good))] + [good + b"\0"]
    for at in (*range(60), *range(len(good) - 8, len(good))):
        frames += [good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :] for flip in (1, 0x80, 0xFF)]
    return frames


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_with_one_head_are_for_one_partition(version: int) -> None:
    """B-W01: whatever the length of the records, the head is the same, and the records are those that the codec reads."""
    heads = set()
    for size in SIZES:
        frame = memoryview(request(version, size))
        found = produce_heads.split_head(frame, version)
        assert found is not None
        (batch,) = produce.parse_produce(frame, 0, version).batches
        assert found[1] == batch.records
        heads.add(found[0])
    assert len(heads) == 1
    other = produce_heads.split_head(memoryview(request(version, 61, partition=4)), version)
    assert other is not None
    assert other[0] not in heads


@pytest.mark.parametrize("version", VERSIONS)
def test_a_known_head_never_makes_another_request_of_the_bytes(version: int) -> None:
    """B4, B8, B9, B20, B22, B30: of all truncated and changed requests those with a known head are what the codec reads."""
    good = request(version, 70)
    split = produce_heads.split_head(memoryview(good), version)
    assert split is not None
    taken = 0
    for frame in changed(good):
        found = produce_heads.split_head(memoryview(frame), version)
        if found is not None and found[0] == split[0]:
            (batch,) = produce.parse_produce(frame, 0, version).batches
            assert batch.records == found[1]
            taken += 1
    assert taken, "changes of the records leave the head as it is"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_form_is_the_response_around_its_offsets(version: int) -> None:
    """B-W01: for names of any length and for ids."""
    topics: list[produce.TopicName] = [TOPIC_ID] if version >= 13 else ["t", "x" * 249, "ü" * 60]
    for topic in topics:
        form = produce_heads.appended_form(version, topic, 7)
        written = form.write(1 << 40, 1_700_000_000_000, 12, form.end)
        assert written == produce.encode_appended(version, (topic, 7, 1 << 40, 1_700_000_000_000, 12))
