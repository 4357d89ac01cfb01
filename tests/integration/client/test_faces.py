"""Do both faces of the client read and write a real cluster, ours and Apache Kafka?"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.client import admin_topics, offsets
from headrace.client.admin_topics import NewTopic
from headrace.client.aio import AsyncClient
from headrace.client.blocking import BlockingClient, OffsetOutOfRange
from headrace.client.blocking_consumer import BlockingConsumer
from headrace.client.blocking_records import RecordProducer
from headrace.client.offsets import EARLIEST, LATEST, ListedOffset
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition
from headrace.records.batch import iter_batches
from headrace.records.record import NewRecord, build_batch, read_all_records
from headrace.testing import Node
from tests.peers import kafka


@pytest.fixture(scope="module")
def our_bootstrap() -> Iterator[str]:
    with Node(in_process=True) as node:
        yield node.bootstrap_servers


@pytest.fixture(params=["headrace", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest) -> str:
    if request.param == "kafka":
        running: kafka.Kafka = request.getfixturevalue("shared_kafka")
        return running.bootstrap
    ours: str = request.getfixturevalue("our_bootstrap")
    return ours


@pytest.fixture
def topic(bootstrap: str) -> str:
    name = f"faces-{secrets.token_hex(6)}"
    with BlockingClient(bootstrap) as client:
        made = client.run(admin_topics.create_topics, [NewTopic(name=name, partitions=2)])
        assert not isinstance(made[name], PeerError)
    return name


def batch(first: int, count: int, size: int = 10) -> bytearray:
    return build_batch(
        [NewRecord(None, b"%0*d" % (size, number), 1_000 + number) for number in range(first, first + count)]
    )


def values(records: memoryview) -> list[bytes | None]:
    return [record.value for _, found in read_all_records(records) for record in found]


def test_raw_batches_are_produced_in_order_and_fetched_as_they_were(bootstrap: str, topic: str) -> None:
    """What Spark's workers do: pipelined idempotent produce, offsets, and a range fetched with read-ahead."""
    with BlockingClient(bootstrap) as client:
        out = client.producer()
        deliveries = [out.send(topic, 0, batch(index * 10, 10)) for index in range(20)]
        out.flush()
        assert [each.base_offset for each in deliveries] == [index * 10 for index in range(20)]
        assert client.produce_raw(topic, 1, bytes(batch(0, 3))) == 0
        where, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
        ends = client.list_offsets({where: LATEST, other: LATEST})
        assert {each: found.offset for each, found in ends.items()} == {where: 200, other: 3}
        assert client.list_offsets({where: 1_050})[where].offset == 50
        parts = list(client.fetch_range(topic, 0, start=15, end=200, max_bytes=500))
        assert len(parts) > 3
        joined = [value for part in parts for value in values(part.records)]
        assert joined == [b"%010d" % number for number in range(10, 200)]
        assert next(iter_batches(parts[0].records))[1].producer_id >= 0


def test_large_answers_keep_their_bytes_while_they_are_held(bootstrap: str, topic: str) -> None:
    """Receive buffers are used again only when nobody looks into them any more."""
    with BlockingClient(bootstrap) as client:
        out = client.producer()
        for index in range(30):
            out.send(topic, 0, batch(index * 10, 10, size=20_000))
        out.flush()
        held = list(client.fetch_range(topic, 0, start=0, end=300, max_bytes=1 << 20))
        assert len(held) >= 5
        assert [value for part in held for value in values(part.records)] == [
            b"%020000d" % number for number in range(300)
        ]
        del held
        again = [values(part.records) for part in client.fetch_range(topic, 0, start=0, end=300, max_bytes=1 << 20)]
        assert sum(map(len, again)) == 300


def test_a_fetch_that_was_sent_is_taken_later(bootstrap: str, topic: str) -> None:
    """`start_fetch` and `finish_fetch` lie apart, so that decoding and travelling overlap."""
    with BlockingClient(bootstrap) as client:
        client.produce_raw(topic, 0, bytes(batch(0, 5)))
        client.produce_raw(topic, 1, bytes(batch(5, 5)))
        pending = [client.start_fetch(topic, number, 0) for number in (0, 1)]
        assert [values(client.finish_fetch(each).records)[0] for each in reversed(pending)] == [
            b"0000000005",
            b"0000000000",
        ]


def test_an_offset_past_the_end_is_a_typed_error(bootstrap: str, topic: str) -> None:
    """OFFSET_OUT_OF_RANGE is the caller's to decide."""
    with BlockingClient(bootstrap) as client:
        with pytest.raises(OffsetOutOfRange) as caught:
            client.fetch_raw(topic, 0, 10)
        assert caught.value.offset == 10
        with pytest.raises(PeerError) as missing:
            client.fetch_raw(f"{topic}-not", 0, 0)
        assert missing.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_batch_that_is_refused_says_why(bootstrap: str, topic: str) -> None:
    """Errors that will not pass come at once."""
    with BlockingClient(bootstrap) as client:
        with pytest.raises(PeerError) as caught:
            client.produce_raw(topic, 0, bytes(batch(0, 2, size=700_000)))
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_records_are_sent_and_read_by_a_group_that_remembers(bootstrap: str, topic: str) -> None:
    """A group goes on where it committed."""
    with BlockingClient(bootstrap) as client:
        out = RecordProducer(client, topic)
        now_ms = int(time.time() * 1000)  # older records may go by retention while they are read
        for number in range(100):
            out.send(str(number % 7).encode(), str(number).encode(), timestamp_ms=now_ms + number)
        out.flush()
        seen: list[bytes | None] = []
        for wanted in (100, 110):
            consumer = BlockingConsumer(client, group_id=f"group-{topic}", topics=[topic], reset="earliest")
            while len(seen) < wanted:
                for chunk in consumer.poll(2_000):
                    seen += [record.value for _, record in consumer.records(chunk)]
            consumer.commit(consumer.positions)
            consumer.close()
            for number in range(wanted, wanted + 10):
                out.send(None, str(number).encode(), timestamp_ms=now_ms + number)
            out.flush()
    assert sorted(int(value or b"") for value in seen) == list(range(110))


def test_two_members_share_the_partitions(bootstrap: str, topic: str) -> None:
    """The range assignor gives each member one of two partitions, and both again to the one that stays."""
    group = f"shared-{topic}"
    with BlockingClient(bootstrap) as one, BlockingClient(bootstrap) as two:
        first = BlockingConsumer(one, group_id=group, topics=[topic], reset="earliest")
        first.poll(0)
        assert len(first.assignment) == 2
        second = BlockingConsumer(two, group_id=group, topics=[topic], reset="earliest")
        joining = threading.Thread(target=second.poll, args=(0,))
        joining.start()
        while len(first.assignment) == 2:
            first.poll(500)
        joining.join()
        assert sorted(first.assignment + second.assignment) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        second.close()
        while len(first.assignment) == 1:
            first.poll(500)
        first.close()


def test_the_asyncio_face_holds_conversations_at_the_same_time(bootstrap: str, topic: str) -> None:
    """One connection, many calls."""

    async def work() -> tuple[list[int], dict[TopicPartition, ListedOffset | PeerError], int]:
        async with AsyncClient(bootstrap) as client:
            sent = await asyncio.gather(*(client.produce_raw(topic, 0, bytes(batch(0, 2))) for _ in range(5)))
            listed = await client.run(offsets.list_offsets, {TopicPartition(topic, 0): EARLIEST})
            part = await client.fetch_raw(topic, 0, 0)
            return sorted(each.base_offset for each in sent), listed, part.next_offset

    bases, listed, following = asyncio.run(work())
    assert (bases, following) == ([0, 2, 4, 6, 8], 10)
    (first,) = listed.values()
    assert isinstance(first, ListedOffset)
    assert first.offset == 0
