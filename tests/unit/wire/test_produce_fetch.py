"""Do the hand-made codecs of Produce and Fetch agree with the compiled ones, byte for byte and refusal for refusal?"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headrace.core.errors import DecodeError
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire import fetch, produce
from headrace.wire.codec import decode, encode
from headrace.wire.leader_hints import Endpoint, LeaderHint
from headrace.wire.messages import fetch as fetch_messages
from headrace.wire.messages import produce as produce_messages
from tests.support.messages import sample

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
TOPIC_ID = Uuid(bytes(range(16)))


@dataclass(frozen=True)
class Slice:
    """Stands for a piece of a file."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)


def joined(pieces: Sequence[Any]) -> bytes:
    return b"".join(piece.data if isinstance(piece, Slice) else bytes(piece) for piece in pieces)


def flat_produce(message: produce_messages.ProduceRequest, version: int) -> produce.ParsedProduce:
    """The plain twin of `parse_produce`."""
    batches = [
        produce.ProduceBatch(topic.topic_id if version >= 13 else topic.name, part.index, part.records)  # type: ignore[arg-type]
        for topic in message.topic_data
        for part in topic.partition_data
    ]
    return produce.ParsedProduce(message.transactional_id, message.acks, message.timeout_ms, batches)


def usual_produce(version: int) -> produce_messages.ProduceRequest:
    part = produce_messages.PartitionProduceData(index=3, records=b"r" * 200)
    topic = produce_messages.TopicProduceData(
        name="bench" if version < 13 else "", topic_id=TOPIC_ID if version >= 13 else ZERO_UUID, partition_data=(part,)
    )
    return produce_messages.ProduceRequest(acks=-1, timeout_ms=1500, topic_data=(topic,))


def usual_fetch(version: int) -> fetch_messages.FetchRequest:
    part = fetch_messages.FetchPartition(partition=1, fetch_offset=77, partition_max_bytes=1 << 20)
    topic = fetch_messages.FetchTopic(
        topic="bench" if version < 13 else "",
        topic_id=TOPIC_ID if version >= 13 else ZERO_UUID,
        partitions=(part, part),
    )
    return fetch_messages.FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=(topic,))


def followers_fetch(version: int) -> fetch_messages.FetchRequest:
    """The same of a replica, whose state is a tagged field from version 15 on."""
    if version < 15:
        return replace(usual_fetch(version), replica_id=2)
    return replace(usual_fetch(version), replica_state=fetch_messages.ReplicaState(replica_id=2, replica_epoch=77))


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_are_read_as_the_compiled_codec_reads_them(version: int) -> None:
    """B-W01: the usual shape and 40 arbitrary ones, at any place of a buffer; records are views onto it."""
    rng = random.Random(version)
    messages = [usual_produce(version)] + [
        sample(produce_messages.ProduceRequest, version, rng, depth_limit=2) for _ in range(40)
    ]
    for message in messages:
        frame = memoryview(b"header" + encode(message, version))
        found = produce.parse_produce(frame, 6, version)
        assert found == flat_produce(decode(produce_messages.ProduceRequest, frame[6:], version), version)
        assert all(batch.records is None or batch.records.obj is frame.obj for batch in found.batches)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_requests_are_read_as_the_compiled_codec_reads_them(version: int) -> None:
    """B-W01: the usual shape, an empty session's, and 40 arbitrary ones; topics by name and by id, session fields, replicas."""
    rng = random.Random(version)
    messages = [
        usual_fetch(version),
        followers_fetch(version),
        replace(usual_fetch(version), rack_id="eu-west-1a"),
        fetch_messages.FetchRequest(session_id=0, max_wait_ms=5),
    ] + [sample(fetch_messages.FetchRequest, version, rng, depth_limit=2) for _ in range(40)]
    for message in messages:
        frame = memoryview(b"header" + encode(message, version))
        expected = fetch.flatten(decode(fetch_messages.FetchRequest, frame[6:], version), version)
        assert fetch.parse_fetch(frame, 6, version) == expected


def _outcome(parse: Callable[[bytes], Any], frame: bytes) -> object:
    try:
        return parse(frame)
    except DecodeError:
        return DecodeError


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_refuses_what_the_compiled_codec_refuses(version: int) -> None:
    """B4, B8, B9, B20, B22, B30: every truncation and 3 changes of every byte of the usual frame."""

    def plain(frame: bytes) -> produce.ParsedProduce:
        return flat_produce(decode(produce_messages.ProduceRequest, frame, version), version)

    def hand_made(frame: bytes) -> produce.ParsedProduce:
        return produce.parse_produce(frame, 0, version)

    good = encode(usual_produce(version), version)
    assert len(hand_made(good).batches) == 1
    for frame in _changed(good):
        assert _outcome(hand_made, frame) == _outcome(plain, frame)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_refuses_what_the_compiled_codec_refuses(version: int) -> None:
    """B4, B8, B9, B20, B22, B30: every truncation and 3 changes of every byte of the usual frame."""

    def plain(frame: bytes) -> fetch.ParsedFetch:
        return fetch.flatten(decode(fetch_messages.FetchRequest, frame, version), version)

    def hand_made(frame: bytes) -> fetch.ParsedFetch:
        return fetch.parse_fetch(frame, 0, version)

    for good in (usual_fetch(version), followers_fetch(version), replace(usual_fetch(version), rack_id="räck")):
        for frame in _changed(encode(good, version)):
            assert _outcome(hand_made, frame) == _outcome(plain, frame)


def _changed(good: bytes) -> list[bytes]:
    frames = [good[:size] for size in range(len(good))] + [good + b"\0"]
    for at in range(min(len(good), 140)):
        frames += [good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :] for flip in (1, 0x80, 0xFF)]
    return frames


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_answers_are_written_as_the_compiled_codec_writes_them(version: int) -> None:
    """KIP-951, KIP-467: plain, with an error's message, per-record errors, leader hints and endpoints where they exist."""
    topic: produce.TopicName = TOPIC_ID if version >= 13 else "bench"
    plain = produce.ProduceResult(topic, 3, 0, 1 << 40, 5, 6)
    moved = produce.ProduceResult(topic, 4, 6, error_message="moved", current_leader=LeaderHint(2, 9))
    broken = produce.ProduceResult(topic, 5, 87, record_errors=((1, "bad"), (2, None)))
    endpoints = [Endpoint(2, "host", 9092, "rack"), Endpoint(3, "other", 1)]
    for results in ([plain], [], [plain, moved, broken], [moved]):
        data = produce.encode_produce_response(version, results, throttle_time_ms=7, endpoints=endpoints)
        found = decode(produce_messages.ProduceResponse, data, version)
        assert encode(found, version) == data
        parts = [part for answer in found.responses for part in answer.partition_responses]
        assert [(part.index, part.error_code, part.base_offset) for part in parts] == [
            (result.partition, result.error_code, result.base_offset) for result in results
        ]
        assert len(found.node_endpoints) == (2 if version >= 10 else 0)
        assert found.throttle_time_ms == 7
        if moved in results and version >= 10:
            hint = produce_messages.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)
            assert hint in [part.current_leader for part in parts]
    alone = produce.encode_appended(version, (topic, 3, 1 << 40, 5, 6), 7)
    assert alone == produce.encode_produce_response(version, [plain], throttle_time_ms=7)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_the_answer_to_batches_that_were_appended_is_the_general_one(version: int) -> None:
    """Several topics and partitions, as a Java producer sends them; with the time that a quota makes its client wait."""
    names: list[produce.TopicName] = [TOPIC_ID, ZERO_UUID] if version >= 13 else ["bench", "other"]
    placed = [(names[0], 3, 1 << 40, 5, 6), (names[0], 200, 0, -1, 0), (names[1], 0, 7, -1, 1)]
    plain = [produce.ProduceResult(*batch[:2], 0, *batch[2:]) for batch in placed]
    whole = produce.encode_produce_response(version, plain, throttle_time_ms=9)
    assert produce.encode_all_appended(version, placed, 9) == whole


@pytest.mark.parametrize("version", [each for each in PRODUCE_VERSIONS if each >= produce.FIRST_FLEXIBLE])
def test_a_request_of_several_partitions_is_read_as_the_compiled_codec_reads_it(version: int) -> None:
    """Whole, and cut off or damaged at any byte: both read the same or refuse the same."""
    names: list[produce.TopicName] = [TOPIC_ID, ZERO_UUID] if version >= 13 else ["bench", "other"]
    batches = [(names[0], 3, b"a" * 130), (names[0], 4, b"b"), (names[1], 0, b"c" * 20), (names[1], 9, b"")]
    data = bytearray(b"".join(produce.encode_produce_request(version, batches, acks=1, timeout_ms=77)))
    read = produce._parse_many(memoryview(data), 0, by_id=version >= 13)
    assert read == (None, 1, 77, [(topic, index, memoryview(records)) for topic, index, records in batches])

    def plain(frame: bytes) -> produce.ParsedProduce:
        return flat_produce(decode(produce_messages.ProduceRequest, frame, version), version)

    for frame in _changed(bytes(data)):
        assert _outcome(lambda whole: produce.parse_produce(whole, 0, version), frame) == _outcome(plain, frame)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_answers_leave_holes_for_file_slices(version: int) -> None:
    """KIP-951, KIP-595, KIP-227: bytes, a slice of a file, nothing; aborted transactions; diverging epoch, leader, snapshot."""
    names: list[produce.TopicName] = [TOPIC_ID, ZERO_UUID] if version >= 13 else ["bench", "other"]
    file_slice = Slice(b"s" * 300)
    results = [
        fetch.FetchResult(names[0], 0, 0, 10, 9, 8, file_slice, [(7, 5), (8, 6)], 3 if version >= 11 else -1),
        fetch.FetchResult(names[0], 1, 0, 10, 9, 8, b"bytes", []),
        fetch.FetchResult(names[1], 2, 6, diverging_epoch=(4, 5), current_leader=LeaderHint(1, 2), snapshot_id=(6, 7)),
    ]
    endpoints = [Endpoint(1, "host", 9092)]
    pieces = fetch.encode_fetch_response(version, results, session_id=5, throttle_time_ms=1, endpoints=endpoints)
    assert [piece for piece in pieces if isinstance(piece, Slice)] == [file_slice]
    found = decode(fetch_messages.FetchResponse, joined(pieces), version)
    assert encode(found, version) == joined(pieces)
    parts = [part for topic in found.responses for part in topic.partitions]
    assert [bytes(part.records or b"") for part in parts] == [file_slice.data, b"bytes", b""]
    assert [part.aborted_transactions and len(part.aborted_transactions) for part in parts] == [2, (), None]
    assert [part.error_code for part in parts] == [0, 0, 6]
    assert found.session_id == (5 if version >= 7 else 0)
    assert len(found.node_endpoints) == (1 if version >= 16 else 0)
    if version >= 12:
        assert parts[2].diverging_epoch == fetch_messages.EpochEndOffset(epoch=4, end_offset=5)
        assert parts[2].current_leader == fetch_messages.LeaderIdAndEpoch(leader_id=1, leader_epoch=2)
        assert parts[2].snapshot_id == fetch_messages.SnapshotId(end_offset=6, epoch=7)


@pytest.mark.parametrize("size", [1, 126, 127, 128, 70_000])
@pytest.mark.parametrize("version", [each for each in FETCH_VERSIONS if each >= fetch.FIRST_WITH_PREFERRED_REPLICA])
def test_the_answer_to_a_fetch_of_one_partition_is_the_general_one(version: int, size: int) -> None:
    """B-P07: a topic, a partition, a slice of a file, nothing else to say."""
    topic: produce.TopicName = TOPIC_ID if version >= 13 else "bench"
    data = Slice(b"s" * size)
    pieces = fetch.encode_one_slice(version, topic, 7, (1 << 40, 12, 3), data, (6, 5))
    result = fetch.FetchResult(topic, 7, 0, 1 << 40, 12, 3, data)
    whole = fetch.encode_fetch_response(version, [result], session_id=5, throttle_time_ms=6)
    assert joined(pieces) == joined(whole)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_an_empty_fetch_answer(version: int) -> None:
    """KIP-227: an incremental session's answer with nothing new, and one with an error for the whole session."""
    for error in (0, 70):
        data = joined(fetch.encode_fetch_response(version, [], error_code=error))
        found = decode(fetch_messages.FetchResponse, data, version)
        assert found == fetch_messages.FetchResponse(error_code=error if version >= 7 else 0)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_are_written_in_pieces(version: int) -> None:
    """House rule: the batches are pieces of their own, not copied; the whole is what the compiled codec writes."""
    names: list[produce.TopicName] = [TOPIC_ID, ZERO_UUID] if version >= 13 else ["bench", "other"]
    batches = [(names[0], 0, b"r" * 200), (names[0], 1, b"s"), (names[1], 2, b"t" * 20_000)]
    pieces = produce.encode_produce_request(version, batches, transactional_id="tx", acks=1, timeout_ms=9)
    assert all(any(piece is records for piece in pieces) for _, _, records in batches)
    found = decode(produce_messages.ProduceRequest, joined(pieces), version)
    assert encode(found, version) == joined(pieces)
    parsed = produce.parse_produce(joined(pieces), 0, version)
    assert parsed[:3] == ("tx", 1, 9)
    assert [(batch.topic, batch.partition, bytes(batch.records or b"")) for batch in parsed.batches] == batches
