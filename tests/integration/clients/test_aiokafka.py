"""Does aiokafka find what it expects? Producer, consumer, groups and admin on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

Name = Callable[[str], str]


def run(work: Awaitable[None]) -> None:
    """One scenario on a loop of its own, bounded."""

    async def bounded() -> None:
        await asyncio.wait_for(work, 60)

    asyncio.run(bounded())


async def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """A topic, by aiokafka's own admin client."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, partitions, 1)])
    finally:
        await admin.close()


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("idempotent", [True, False])
def test_what_is_produced_is_read_again(bootstrap: str, new_name: Name, codec: str | None, idempotent: bool) -> None:
    """B-W06: with and without compression and idempotence."""

    async def scenario() -> None:
        topic = new_name("aio")
        await create(bootstrap, topic)
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=codec, enable_idempotence=idempotent)
        await producer.start()
        try:
            sent = [await producer.send(topic, b"%d" % index, key=b"k", headers=[("h", b"v")]) for index in range(200)]
            assert [(await each).offset for each in sent] == list(range(200))
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
        await consumer.start()
        try:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek(where, 0)
            found = [await consumer.getone() for _ in range(200)]
            assert [(each.offset, each.key, each.value, each.headers) for each in found] == [
                (index, b"k", b"%d" % index, (("h", b"v"),)) for index in range(200)
            ]
            assert await consumer.end_offsets([where]) == {where: 200}
            assert await consumer.beginning_offsets([where]) == {where: 0}
        finally:
            await consumer.stop()

    run(scenario())


def test_a_group_goes_on_where_it_committed(bootstrap: str, new_name: Name) -> None:
    """B-P06: commit, leave, come back."""

    async def scenario() -> None:
        topic, group = new_name("aio-group"), new_name("group")
        await create(bootstrap, topic, 2)
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for index in range(20):
                await producer.send_and_wait(topic, b"%d" % index, partition=index % 2)
        seen: list[bytes] = []
        for _ in range(2):
            consumer = AIOKafkaConsumer(
                topic,
                bootstrap_servers=bootstrap,
                group_id=group,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            )
            await consumer.start()
            try:
                for _ in range(10):
                    message = await consumer.getone()
                    seen.append(message.value)
                    await consumer.commit({TopicPartition(topic, message.partition): message.offset + 1})
            finally:
                await consumer.stop()
        assert sorted(seen, key=int) == [b"%d" % index for index in range(20)]

    run(scenario())


def test_two_members_share_and_the_survivor_takes_over(bootstrap: str, new_name: Name) -> None:
    """B-P06: a member leaves; the other gets its partitions."""

    async def scenario() -> None:
        topic, group = new_name("aio-share"), new_name("group")
        await create(bootstrap, topic, 4)
        members = [
            AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=group, heartbeat_interval_ms=200)
            for _ in range(2)
        ]
        for member in members:
            await member.start()
        try:
            while [len(member.assignment()) for member in members] != [2, 2]:
                await asyncio.gather(*(member.getmany(timeout_ms=200) for member in members))
        finally:
            await members[0].stop()
        try:
            while len(members[1].assignment()) != 4:
                await members[1].getmany(timeout_ms=200)
        finally:
            await members[1].stop()

    run(scenario())
