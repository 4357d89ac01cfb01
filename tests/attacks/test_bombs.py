"""Batches of a few KB that open to very much: they are walked, not collected, and away from the event loop."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import pytest

from headrace.core.error_code import ErrorCode
from headrace.records.batch import HEADER, HEADER_SIZE, LOG_OVERHEAD, MAGIC, set_crc
from headrace.records.compression import Codec, compress
from headrace.records.varint import write_varint
from headrace.wire.codec import encode
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.support.attacks import MIB, Target, wait_until
from tests.support.peer import produce_request
from tests.support.raw import RawConnection, frame, header, request_frame, row_of

RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"
"""A record of 7 bytes: nothing but zeros, null key and value."""
COUNT = 30_000_000
SOUND = 250_000
"""Records that are as they should be: seconds of work, and twice `SOUND_BOUND` when they are all collected."""
SOUND_BOUND = 32 * MIB
HOUR_MS = 3_600_000
BOUND = 256 * MIB
"""`headrace.max.decompressed.bytes`: so much may one batch open to."""
CODECS = {"gzip": Codec.GZIP, "snappy": Codec.SNAPPY, "lz4": Codec.LZ4, "zstd": Codec.ZSTD}


@cache
def packed(codec: Codec, record: bytes = RECORD, count: int = COUNT) -> bytes:
    """The same record very many times, compressed within `max.message.bytes`."""
    return compress(codec, record * count)


@cache
def rising(count: int, timestamp_delta: bytes = b"\x00") -> bytes:
    """Records with a key and the offsets that they should have."""
    out = bytearray()
    for delta in range(count):
        at = bytearray()
        write_varint(at, delta)
        body = b"\x00" + timestamp_delta + at + b"\x02k\x02v\x00"
        out.append(len(body) << 1)
        out += body
    return bytes(out)


def count_of(codec: Codec) -> int:
    """How many records: snappy opens at most about 22:1, the others 255:1 and more."""
    return 2_500_000 if codec is Codec.SNAPPY else COUNT


def bomb(codec: Codec, *, timestamp: int, last: int | None = None, record: bytes = RECORD) -> bytearray:
    """One batch of 7-byte records; `last` is the highest timestamp that the header claims."""
    count = count_of(codec)
    return made(codec, packed(codec, record, count), count, timestamp, timestamp if last is None else last)


def made(codec: Codec, data: bytes, count: int, timestamp: int, highest: int) -> bytearray:
    """A batch of compressed records."""
    batch = bytearray(HEADER_SIZE) + data
    length = len(batch) - LOG_OVERHEAD
    HEADER.pack_into(batch, 0, 0, length, -1, MAGIC, 0, codec, count - 1, timestamp, highest, -1, -1, -1, count)
    set_crc(batch, 0, len(batch))
    return batch


def now_ms() -> int:
    """The wall clock."""
    return int(time.time() * 1000)


def produced(peer: RawConnection, topic: str, batch: bytes | bytearray) -> int:
    """The error of a produce."""
    answer = peer.ask(produce_request(topic, bytes(batch), acks=1), 9)
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def searched(peer: RawConnection, topic: str, timestamp: int) -> int:
    """The error of a ListOffsets by time."""
    wanted = ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=timestamp),))
    answer = peer.ask(ListOffsetsRequest(replica_id=-1, topics=(wanted,)), 7)
    code: int = answer.topics[0].partitions[0].error_code
    return code


@pytest.fixture
def peer(target: Target) -> Iterator[RawConnection]:
    """The attacker, who has time."""
    with RawConnection(target.node.port) as connection:
        connection.socket.settimeout(400)
        yield connection


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_from_the_future_is_refused_without_harm(target: Target, peer: RawConnection, codec: str) -> None:
    """B51: 30 million records, the highest timestamp two hours ahead: all are at offset delta 0, so the second one is wrong."""
    topic = f"future-{codec}"
    target.create_topic(topic)
    with target.attacked(memory=BOUND + 64 * MIB):
        late = bomb(CODECS[codec], timestamp=now_ms(), last=now_ms() + 2 * HOUR_MS)
        assert produced(peer, topic, late) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["by time", "max timestamp"])
def test_a_stored_bomb_is_searched_without_harm(target: Target, peer: RawConnection, codec: str, kind: str) -> None:
    """B53: with an ordinary timestamp it is stored as it is; a search by time looks at every record of it."""
    topic = f"stored-{codec}-{kind.split()[0]}"
    target.create_topic(topic)
    at = now_ms() - HOUR_MS
    assert produced(peer, topic, bomb(CODECS[codec], timestamp=at, last=at + 1000)) == ErrorCode.NONE
    with target.attacked(memory=BOUND + 64 * MIB):
        assert searched(peer, topic, at + 500 if kind == "by time" else -3) == ErrorCode.NONE


@pytest.mark.parametrize("codec", CODECS)
def test_many_sound_records_from_the_future_are_refused_by_the_first_thousand(
    target: Target, peer: RawConnection, codec: str
) -> None:
    """KIP-467 names the records at fault; an answer that names them all would be a bomb itself."""
    topic = f"wrong-{codec}"
    target.create_topic(topic, max_message_bytes="10000000")
    late = now_ms() + 2 * HOUR_MS
    batch = made(CODECS[codec], compress(CODECS[codec], rising(SOUND)), SOUND, late, late)
    with target.attacked(memory=SOUND_BOUND):
        assert produced(peer, topic, batch) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(("name", "value"), [("cleanup_policy", "compact"), ("compression_type", "lz4")])
def test_many_sound_records_are_opened_and_taken_without_harm(
    target: Target, peer: RawConnection, name: str, value: str
) -> None:
    """Topics that look into each batch: very many records, all of them right."""
    topic = f"sound-{value}"
    target.create_topic(topic, 1, max_message_bytes="10000000", **{name: value})
    sound_records_are_taken(target, peer, topic)


def test_many_sound_records_are_checked_by_a_node_that_checks_all_without_harm() -> None:
    """`headrace.validate.records` looks into each batch of every topic."""
    with Target(properties={"headrace.validate.records": "true"}) as target, RawConnection(target.node.port) as peer:
        peer.socket.settimeout(400)
        target.create_topic("sound", max_message_bytes="10000000")
        sound_records_are_taken(target, peer, "sound")


def sound_records_are_taken(target: Target, peer: RawConnection, topic: str) -> None:
    """All of them, and the newest is found."""
    at = now_ms()
    batch = made(Codec.ZSTD, compress(Codec.ZSTD, rising(SOUND)), SOUND, at, at)
    with target.attacked(memory=SOUND_BOUND):
        assert produced(peer, topic, batch) == ErrorCode.NONE
        assert searched(peer, topic, -3) == ErrorCode.NONE


def test_a_record_of_very_many_headers_is_refused_without_harm(target: Target, peer: RawConnection) -> None:
    """B49: 100 million empty headers in one record."""
    target.create_topic("headers", cleanup_policy="compact")
    count = bytearray()
    write_varint(count, 100_000_000)
    body = b"\x00\x00\x00\x02k\x01" + count + b"\x00\x01" * 100_000_000
    size = bytearray()
    write_varint(size, len(body))
    at = now_ms()
    batch = made(Codec.GZIP, compress(Codec.GZIP, size + body), 1, at, at)
    with target.attacked(memory=BOUND + 64 * MIB):
        assert produced(peer, "headers", batch) == ErrorCode.INVALID_RECORD


def test_what_opens_to_more_than_the_bound_is_refused_where_it_is_opened(target: Target, peer: RawConnection) -> None:
    """M3: half a gigabyte in one record, in a batch of half a megabyte."""
    target.create_topic("too-much", cleanup_policy="compact")
    at = now_ms()
    data = compress(Codec.GZIP, bytes(512 * MIB))
    with target.attacked(memory=BOUND + 64 * MIB):
        assert produced(peer, "too-much", made(Codec.GZIP, data, 1, at, at)) == ErrorCode.MESSAGE_TOO_LARGE


def test_bombs_from_many_sides_take_the_memory_of_one(target: Target) -> None:
    """One large batch is open at a time: eight clients who send one each wait for one another."""
    target.create_topic("many", cleanup_policy="compact")
    at = now_ms()
    data = compress(Codec.ZSTD, bytes(200 * MIB))
    request = produce_request("many", bytes(made(Codec.ZSTD, data, 1, at, at)), acks=1)
    peers = [RawConnection(target.node.port) for _ in range(8)]
    try:
        with target.attacked(memory=BOUND + 64 * MIB):
            for peer in peers:
                peer.send(request_frame(request, 9))
            for peer in peers:
                peer.socket.settimeout(400)
                (one,) = peer.answer(row_of(request), 9).responses[0].partition_responses
                assert one.error_code == ErrorCode.INVALID_RECORD
    finally:
        for peer in peers:
            peer.socket.close()


def test_searches_of_many_sides_take_the_memory_of_a_few(target: Target, peer: RawConnection) -> None:
    """inv:M1: 200 clients who search in one batch of 4 MB: each search that waited for the others kept it."""
    topic = "searched-by-many"
    target.create_topic(topic, max_message_bytes="10000000")
    value, at = random.Random(5).randbytes(4 * MIB), now_ms() - HOUR_MS
    length = bytearray()
    write_varint(length, len(value))
    body = b"\x00\x00\x00\x01" + length + value + b"\x00"
    size = bytearray()
    write_varint(size, len(body))
    batch = made(Codec.ZSTD, compress(Codec.ZSTD, bytes(size + body)), 1, at, at + 1_000)
    assert produced(peer, topic, batch) == ErrorCode.NONE
    wanted = ListOffsetsTopic(name=topic, partitions=(ListOffsetsPartition(partition_index=0, timestamp=at + 500),))
    request = ListOffsetsRequest(replica_id=-1, topics=(wanted,))
    with target.attacked(memory=128 * MIB), ExitStack() as opened:
        peers = [opened.enter_context(RawConnection(target.node.port)) for _ in range(200)]
        for each in peers:
            each.socket.settimeout(400)
            each.send(request_frame(request, 7))
        for each in peers:
            assert each.answer(row_of(request), 7).topics[0].partitions[0].error_code == ErrorCode.NONE


def test_what_comes_behind_a_bomb_on_its_connection_does_not_overtake_it(target: Target, peer: RawConnection) -> None:
    """Requests of one connection are begun in their order, as Kafka does: offsets follow it."""
    target.create_topic("order", cleanup_policy="compact", max_message_bytes="10000000")
    at = now_ms()
    large = made(Codec.ZSTD, compress(Codec.ZSTD, rising(SOUND)), SOUND, at, at)
    small = made(Codec.NONE, rising(1), 1, at, at)
    with target.attacked(memory=SOUND_BOUND):
        requests = [produce_request("order", bytes(batch), acks=1) for batch in (small, large, small)]
        for number, request in enumerate(requests):
            peer.send(request_frame(request, 9, number))
        found = [peer.answer(row_of(request), 9, number) for number, request in enumerate(requests)]
    offsets = [answer.responses[0].partition_responses[0].base_offset for answer in found]
    assert offsets == [0, 1, SOUND + 1]


def test_a_bomb_for_a_coordinator_is_refused(target: Target) -> None:
    """Kafka lets a client with the admin's id write to `__consumer_offsets`; whoever leads it must load every record of that at its next start."""
    find = FindCoordinatorRequest(key="a group", key_type=0)
    with RawConnection(target.node.port) as peer:
        wait_until(lambda: peer.ask(find, 3).error_code == ErrorCode.NONE, "there is a coordinator")
    at = now_ms()
    with target.attacked(memory=64 * MIB), RawConnection(target.node.port) as peer:
        for batch in (
            made(Codec.ZSTD, compress(Codec.ZSTD, rising(90_000)), 90_000, at, at),
            made(Codec.NONE, rising(90_000), 90_000, at, at),
        ):
            request = produce_request("__consumer_offsets", bytes(batch), acks=1)
            row = row_of(request)
            peer.send(frame(header(row, 9, client_id="__admin_client") + encode(request, 9)))
            (one,) = peer.answer(row, 9).responses[0].partition_responses
            assert one.error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_a_stored_bomb_is_compacted_around_without_harm(target: Target, peer: RawConnection) -> None:
    """B53: a topic with a bomb in it becomes a compacted one: the cleaner looks into it, leaves it as it is, and goes on."""
    target.create_topic("cleaned", segment_bytes=str(MIB))
    at = now_ms()
    keyed = made(Codec.NONE, rising(90_000), 90_000, at, at)
    assert produced(peer, "cleaned", bomb(Codec.ZSTD, timestamp=at)) == ErrorCode.NONE
    for _ in range(3):
        assert produced(peer, "cleaned", keyed) == ErrorCode.NONE
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    change = AlterConfigsResource(
        resource_type=2,
        resource_name="cleaned",
        configs=tuple(AlterableConfig(name=name, config_operation=0, value=value) for name, value in settings.items()),
    )
    clean_to = next(target.node.directory.rglob("cleaned-0")).parent / "cleaner-offset-checkpoint"
    with target.attacked(memory=BOUND + 64 * MIB):
        (answer,) = peer.ask(IncrementalAlterConfigsRequest(resources=(change,)), 1).responses
        assert answer.error_code == ErrorCode.NONE
        wait_until(lambda: clean_to.exists() and "cleaned 0" in clean_to.read_text(), "the topic was compacted")
    batches = {name.stat().st_size for name in clean_to.parent.glob("cleaned-0/*.log")}
    assert max(batches) < MIB
    assert searched(peer, "cleaned", at) == ErrorCode.NONE
