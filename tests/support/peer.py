"""How does a test speak with a broker, request by request?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.records.compression import Codec
from headrace.records.record import NO_PRODUCER, NewRecord, ProducerStamp, build_batch
from headrace.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headrace.wire.schema import Message
from tests.support.raw import RawConnection


def now_ms() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def batch(
    *values: bytes, codec: int = Codec.NONE, timestamp: int | None = None, producer: ProducerStamp = NO_PRODUCER
) -> bytearray:
    """One record batch."""
    stamp = now_ms() if timestamp is None else timestamp
    records = [NewRecord(timestamp=stamp, key=None, value=value) for value in values]
    return build_batch(records, codec=codec, producer=producer)


@dataclass(frozen=True, slots=True)
class Peer:
    """A broker under test."""

    name: str
    port: int

    def connect(self) -> RawConnection:
        """A new connection."""
        return RawConnection(self.port)

    def ask(self, request: Message, version: int) -> Any:
        """One request on a connection of its own."""
        with self.connect() as connection:
            return connection.ask(request, version)

    def create(self, name: str, *, partitions: int = 1, **settings: str) -> Uuid:
        """A topic whose partitions have leaders when this returns; its id."""
        configs = tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()
        )
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        created = self.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7).topics[0]
        assert created.error_code == 0, created
        while any(one.error_code for one in self.metadata(name).partitions) or self.metadata(name).error_code:
            pass
        for partition in range(partitions):
            while self.offset(name, -1, partition=partition)[0] == 6:
                pass
        topic_id: Uuid = created.topic_id
        return topic_id

    def delete(self, name: str) -> None:
        """A topic that is gone when this returns."""
        request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=10_000)
        assert self.ask(request, 6).responses[0].error_code == 0
        while self.metadata(name).error_code == 0:
            pass

    def metadata(self, name: str) -> Any:
        """What Metadata says about a topic, without making it."""
        asked = (MetadataRequestTopic(name=name),)
        return self.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12).topics[0]

    def produce(
        self,
        topic: str,
        records: bytes | bytearray | None,
        *,
        version: int = 9,
        acks: int = -1,
        partition: int = 0,
        topic_id: Uuid = ZERO_UUID,
    ) -> Any:
        """The answer for the one partition."""
        request = produce_request(topic, records, version=version, acks=acks, partition=partition, topic_id=topic_id)
        return self.ask(request, version).responses[0].partition_responses[0]

    def offset(
        self, topic: str, timestamp: int, *, version: int = 7, partition: int = 0, isolation: int = 0, epoch: int = -1
    ) -> tuple[int, int, int, int]:
        """(error, offset, timestamp, leader epoch) of ListOffsets."""
        asked = ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation if version >= 2 else 0,
            topics=(ListOffsetsTopic(name=topic, partitions=(asked,)),),
        )
        one = self.ask(request, version).topics[0].partitions[0]
        return one.error_code, one.offset, one.timestamp, one.leader_epoch


def produce_request(
    topic: str,
    records: bytes | bytearray | None,
    *,
    version: int = 9,
    acks: int = -1,
    partition: int = 0,
    topic_id: Uuid = ZERO_UUID,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """One batch for one partition."""
    data = PartitionProduceData(index=partition, records=None if records is None else bytes(records))
    by_id = version >= 13
    return ProduceRequest(
        acks=acks,
        timeout_ms=5_000,
        transactional_id=transactional_id,
        topic_data=(
            TopicProduceData(
                name="" if by_id else topic, topic_id=topic_id if by_id else ZERO_UUID, partition_data=(data,)
            ),
        ),
    )


def fetch_request(
    topic: str | Uuid, partitions: Sequence[FetchPartition] | None = None, *, offset: int = 0, **fields: Any
) -> FetchRequest:
    """A consumer's fetch of one topic; without a session and without waiting unless `fields` say otherwise."""
    if partitions is None:
        partitions = (FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20),)
    by_id = isinstance(topic, Uuid)
    asked = FetchTopic(
        topic="" if by_id else str(topic),
        topic_id=topic if isinstance(topic, Uuid) else ZERO_UUID,
        partitions=tuple(partitions),
    )
    settings: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 50 << 20, "session_epoch": -1}
    return FetchRequest(topics=(asked,) if partitions else (), **{**settings, **fields})
