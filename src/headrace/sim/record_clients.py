"""Producers and consumers of a simulated cluster: what they send travels as bytes, and what became of it is judged by `checkers.records`.

Each topic has one producer. Its records say who wrote them and when in the row of all that it wrote, so that each is known again wherever it is read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from headrace.core.error_code import ErrorCode
from headrace.log.producers import REMEMBERED_BATCHES
from headrace.records.batch import iter_batches
from headrace.records.record import NO_PRODUCER, NewRecord, ProducerStamp, build_batch
from headrace.sim.clients import Client
from headrace.sim.clock import WALL_START_MS
from headrace.sim.serving import BROKER_PORT
from headrace.wire.messages import create_topics, delete_topics, fetch, produce
from headrace.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    import random

    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage, TopicImage
    from headrace.sim.node import SimNode
    from headrace.sim.observation import Outcome
    from headrace.sim.stage import Stage
    from headrace.wire.schema import Message

PARTITIONS: Final = 3
_PRODUCE_VERSIONS: Final = (7, 9, 12, 13)
"""Plain, flexible, with leader hints, by topic id."""
_COPIES_READ: Final = 0.3
"""How often a consumer of copies reads from any of them."""
_FETCH_VERSIONS: Final = (7, 11, 12, 16, 17)
_BY_ID: Final = 13
_HASTY_MS: Final = 60
_CODECS: Final = (0, 0, 0, 1, 4)
_SENT_AGAIN: Final = 0.05
"""How often a producer sends what was acknowledged once more, as one does that lost the response."""
_ALONE: Final = "records-"
_COPIED: Final = "copied-"
_BATCHES_OF_A_LIFE: Final = (30, 60, 120)
_PARTITION_BYTES: Final = (1, 300, 4_096)
"""Less than a batch, a few of them, many."""


def topic_name(number: int, *, copies: int = 1) -> str:
    """The topic of the producer with this number."""
    return f"{_COPIED if copies > 1 else _ALONE}{number}"


def is_copied(topic: str) -> bool:
    """Whether its partitions have several replicas."""
    return topic.startswith(_COPIED)


def is_synced(topic: str) -> bool:
    """Whether each append to the topic is on disk before it is acknowledged (`flush.messages=1`): every other topic of a producer, none of others."""
    number = topic.removeprefix(_COPIED if is_copied(topic) else _ALONE)
    return number != topic and number.isdigit() and int(number) % 2 == 0


@dataclass(slots=True)
class _Batch:
    """A batch until it is known what became of it; `is_again`: that was known, and it is sent once more."""

    partition: int
    data: bytes
    count: int
    is_again: bool = False


class RecordClient(Client):
    """Finds the leader of a partition in any controller's metadata, as a client finds it in any broker's."""

    def topic(self, name: str) -> TopicImage | None:
        """The topic as some controller knows it."""
        images: list[MetadataImage] = self.images()
        return self.chance.choice(images).topics.by_name.get(name) if images else None

    def leader_of(self, topic: TopicImage, partition: int) -> SimNode | None:
        """The broker that leads it, if it is one that runs on this stage; now and then another one is asked."""
        registered = topic.partitions.get(partition)
        nodes = self.cluster.nodes
        brokers = [node for node in nodes.values() if node.config.is_broker]
        if self.chance.random() < 0.03:
            return self.chance.choice(brokers)
        return None if registered is None else nodes.get(registered.leader)


class _Lives:
    """When a topic has lived long enough: after so many batches it is deleted, and the next one has its name."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._left = chance.choice(_BATCHES_OF_A_LIFE)
        self._ended: set[Uuid] = set()

    def written(self) -> None:
        """One more batch is in it."""
        self._left -= 1

    def is_over(self, topic_id: Uuid) -> bool:
        """This one has lived; once that is said, it stays so, though metadata may show it for a while."""
        if topic_id not in self._ended and self._left <= 0:
            self._ended.add(topic_id)
            self._left = self._chance.choice(_BATCHES_OF_A_LIFE)
        return topic_id in self._ended


class RecordProducer(RecordClient):
    """Makes its topic, asks for a producer id, and writes batch after batch. What was not acknowledged is sent again as it was, as an idempotent producer does."""

    def __init__(self, cluster: Stage, client_id: int, *, number: int, copies: int = 1) -> None:
        super().__init__(cluster, client_id)
        self.name = topic_name(number, copies=copies)
        self._copies = copies
        self._acks: tuple[int, ...] = (-1, -1, 1)
        if copies > 1:
            self._acks = self.chance.choice((self._acks, (-1,), (1,)))
        self._is_hasty = self._acks == (1,)
        """It waits for nobody, writes wherever somebody takes it, and sends nothing again."""
        self._stamp: ProducerStamp | None = None
        self._next_sequence: dict[int, int] = {}
        self._written = 0
        self._batch: _Batch | None = None
        self._acknowledged: deque[_Batch] = deque(maxlen=REMEMBERED_BATCHES)
        """Each of them is among the last of its partition, as many as brokers know again."""
        self._lives = _Lives(self.chance) if copies > 1 and cluster.plan.ends_topics else None

    def act(self) -> None:
        """The topic first, then the producer id, then records."""
        topic = self.topic(self.name)
        if self._lives is not None and topic is not None and self._lives.is_over(topic.id):
            self.ask_controller(self._deletion(topic))
        elif topic is None:
            self.ask_controller(self._creation())
        elif self._stamp is None and not self._is_hasty:
            brokers = [node for node in self.cluster.nodes.values() if node.config.is_broker]
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
            self.ask(self.chance.choice(brokers), request, BROKER_PORT, timeout_ms=3_000, version=4)
        else:
            self._produce(topic)

    def _deletion(self, topic: TopicImage) -> Message:
        """By its id: another topic of that name is not meant. Nothing of what was written is sent to that one."""
        self._begin_anew()
        state = delete_topics.DeleteTopicState(name=None, topic_id=topic.id)
        return delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=2_000)

    def _creation(self) -> Message:
        """Partitions whose replicas begin at one broker after the other. With several, one may be missing, now and then none or all but one."""
        brokers = sorted(node.node_id for node in self.cluster.nodes.values() if node.config.is_broker)
        first = self.chance.randrange(0, len(brokers))
        assignments = tuple(
            create_topics.CreatableReplicaAssignment(
                partition_index=partition,
                broker_ids=tuple(brokers[(first + partition + copy) % len(brokers)] for copy in range(self._copies)),
            )
            for partition in range(PARTITIONS)
        )
        settings = {"retention.ms": "-1", "internal.segment.bytes": str(self.chance.choice((300, 1_000, 1 << 30)))}
        if self._copies > 1:
            settings["min.insync.replicas"] = str(self.chance.choice((2, 2, 2, 1)))
        if is_synced(self.name):
            settings["flush.messages"] = "1"
        configs = tuple(create_topics.CreatableTopicConfig(name=key, value=value) for key, value in settings.items())
        topic = create_topics.CreatableTopic(
            name=self.name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=configs
        )
        return create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=2_000)

    def _produce(self, topic: TopicImage) -> None:
        if self._batch is None and self._acknowledged and self.chance.random() < _SENT_AGAIN:
            self._batch = self.chance.choice(self._acknowledged)
        elif self._batch is None:
            self._batch = self._new_batch(topic)
        batch = self._batch
        leader = self.leader_of(topic, batch.partition)
        if leader is None:
            self.begin(self.chance.randrange(50, 200))
            return
        data = produce.PartitionProduceData(index=batch.partition, records=batch.data)
        version = self.chance.choice(_PRODUCE_VERSIONS if self._lives is None else (_BY_ID,))
        name = {"topic_id": topic.id} if version >= _BY_ID else {"name": self.name}
        request = produce.ProduceRequest(
            acks=self.chance.choice(self._acks),
            timeout_ms=1_500,
            topic_data=(produce.TopicProduceData(partition_data=(data,), **name),),
        )
        timeout_ms = _HASTY_MS if self._is_hasty else 2_000
        self.ask(leader, request, BROKER_PORT, timeout_ms=timeout_ms, version=version)

    def _new_batch(self, topic: TopicImage) -> _Batch:
        chance = self.chance
        partition = chance.choice(self._led_by_the_living(topic)) if self._is_hasty else chance.randrange(0, PARTITIONS)
        count = chance.choice((1, 1, 2, 5, 40))
        now_ms = WALL_START_MS + self.cluster.world.schedule.now_us // 1_000
        records = [
            NewRecord(None, b"%s %d %d" % (self.name.encode(), partition, self._written + number), timestamp=now_ms)
            for number in range(count)
        ]
        self._written += count
        stamp = self._stamp or NO_PRODUCER
        first = self._next_sequence.get(partition, 0)
        producer = stamp if stamp is NO_PRODUCER else stamp._replace(base_sequence=first)
        self._next_sequence[partition] = first + count
        return _Batch(partition, bytes(build_batch(records, codec=chance.choice(_CODECS), producer=producer)), count)

    def _led_by_the_living(self, topic: TopicImage) -> list[int]:
        """Partitions whose leader answers; all, if none does."""
        leaders = [(number, self.leader_of(topic, number)) for number in range(PARTITIONS)]
        living = [number for number, node in leaders if node is not None and node.is_up and not node.is_paused]
        return living or list(range(PARTITIONS))

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """The next batch, or the same again; a producer that the broker knows too little of begins anew with another id."""
        if isinstance(response, InitProducerIdResponse) and response.error_code == ErrorCode.NONE:
            self._begin_anew()
            self._stamp = ProducerStamp(response.producer_id, response.producer_epoch)
        elif isinstance(response, produce.ProduceResponse):
            self._produced(ErrorCode(response.responses[0].partition_responses[0].error_code))
        elif self._is_hasty:
            self._batch = None
        self.begin(self.chance.randrange(0, self.cluster.think_ms))

    def _begin_anew(self) -> None:
        """Nothing was written yet."""
        self._batch = self._stamp = None
        self._next_sequence.clear()
        self._acknowledged.clear()

    def _produced(self, code: ErrorCode) -> None:
        batch = self._batch
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER) or self._is_hasty:
            self._batch = None
            if self._lives is not None:
                self._lives.written()
            if batch is not None and not batch.is_again and code is ErrorCode.NONE and not self._is_hasty:
                self._acknowledged.append(replace(batch, is_again=True))
        elif code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            self._batch = self._stamp = None  # what came before it is lost: a power cut took it
            self.cluster.markers.hit("producer begins anew")


class RecordConsumer(RecordClient):
    """Reads one partition after the other from its first record on, with a fetch session or without; of copied ones now and then any replica."""

    def __init__(self, cluster: Stage, client_id: int, *, topics: int, copies: int = 1) -> None:
        super().__init__(cluster, client_id)
        self._topics = topics
        self._copies = copies
        self._name = topic_name(0, copies=copies)
        self._partition = 0
        self._offset = 0
        self._version = _FETCH_VERSIONS[0]
        self._reads_copies = False
        self._session: tuple[int, int, int] | None = None
        """Broker, session id, epoch of the next request."""
        self._topic_id: Uuid | None = None

    def act(self) -> None:
        """The next fetch; now and then of another partition, from its start."""
        if self.chance.random() < 0.1:
            self._name, self._partition = (
                topic_name(self.chance.randrange(0, self._topics), copies=self._copies),
                self.chance.randrange(0, 3),
            )
            self._offset = 0
            self._session = None
            self._version = self.chance.choice(_FETCH_VERSIONS)
            self._reads_copies = self._copies > 1 and self.chance.random() < _COPIES_READ
        topic = self.topic(self._name)
        broker = None if topic is None else self._whom(topic)
        if topic is not None and topic.id != self._topic_id:
            self._topic_id, self._session = topic.id, None  # or it would go on with a topic that is gone
        if topic is None or broker is None:
            self.begin(self.chance.randrange(50, 200))
            return
        self.ask(broker, self._fetch(topic, broker), BROKER_PORT, timeout_ms=2_500, version=self._version)

    def _whom(self, topic: TopicImage) -> SimNode | None:
        """The leader, or any replica where one reads from followers (KIP-392)."""
        registered = topic.partitions.get(self._partition)
        if not self._reads_copies or registered is None:
            return self.leader_of(topic, self._partition)
        return self.cluster.nodes.get(self.chance.choice(list(registered.replicas)))

    def _fetch(self, topic: TopicImage, broker: SimNode) -> Message:
        asked = fetch.FetchPartition(
            partition=self._partition,
            fetch_offset=self._offset,
            partition_max_bytes=self.chance.choice(_PARTITION_BYTES),
        )
        name = {"topic_id": topic.id} if self._version >= _BY_ID else {"topic": self._name}
        session = self._session
        if session is None or session[0] != broker.node_id:
            wants_session = self.chance.random() < 0.5
            session_id, epoch = 0, 0 if wants_session else -1
        else:
            _, session_id, epoch = session
        return fetch.FetchRequest(
            max_wait_ms=self.chance.choice((0, 50, 1_000)),
            min_bytes=self.chance.choice((0, 1, 500)),
            max_bytes=1 << 20,
            session_id=session_id,
            session_epoch=epoch,
            topics=(fetch.FetchTopic(partitions=(asked,), **name),),
        )

    def ended(self, request: Message, response: Message | None, outcome: Outcome) -> None:
        """Go on behind what was read."""
        if isinstance(response, fetch.FetchResponse) and isinstance(request, fetch.FetchRequest):
            self._take(request, response)
        else:
            self._session = None
        self.begin(self.chance.randrange(0, self.cluster.think_ms))

    def _take(self, request: fetch.FetchRequest, response: fetch.FetchResponse) -> None:
        assert self._asked is not None, "it was asked"
        if response.error_code:
            self._session = None
            return
        if response.session_id:
            self._session = self._asked.node_id, response.session_id, request.session_epoch + 1
        for topic in response.responses:
            for told in topic.partitions:
                if told.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self._offset = 0
                if told.error_code == ErrorCode.NONE and told.records:
                    if self._reads_copies:
                        self.cluster.markers.hit("batches read from any copy")
                    self._offset = max(self._offset, next_offset(told.records, self._offset))


def next_offset(records: bytes | memoryview, fetched: int) -> int:
    """Where a consumer goes on behind whole batches; a batch that was cut off counts for nothing."""
    end = fetched
    for _, header in iter_batches(records):
        end = header.next_offset
    return end
