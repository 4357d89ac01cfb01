"""Metadata records and images for made-up histories, and a controller whose decisions a test writes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.controller.events import Answer, AppendRecords, LeadershipGained, RequestArrived, RequestCause
from headrace.core.ids import Uuid
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.replay import replay_all
from headrace.sim.observation import CallEnded, CallStarted, LogDurable, MachineStep, Outcome
from headrace.wire.metadata_records.frame import encode_record
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import Story, leader_change, records_batch

TOPIC = Uuid(b"topic-of-a-test-")


def framed(record: Message) -> bytes:
    """As it stands in the log, in the record's highest version."""
    return encode_record(record, record.SCHEMA.versions.last)


def registered(broker_id: int, *, epoch: int, fenced: bool = False, rack: str | None = None, run: int = 1) -> Message:
    """A broker's registration; `run` tells its incarnations apart."""
    incarnation = Uuid(bytes([broker_id, run] * 8))
    return RegisterBrokerRecord(
        broker_id=broker_id, broker_epoch=epoch, incarnation_id=incarnation, fenced=fenced, rack=rack
    )


def partition(number: int = 0, *, replicas: tuple[int, ...] = (1, 2, 3), **fields: Any) -> Message:
    """A new partition, led by its first replica unless told otherwise."""
    values: dict[str, Any] = {"isr": replicas, "leader": replicas[0], "leader_epoch": 0, "partition_epoch": 0} | fields
    return PartitionRecord(partition_id=number, topic_id=TOPIC, replicas=replicas, **values)


def image_of(*records: Message) -> MetadataImage:
    """What the records say."""
    return replay_all(EMPTY_IMAGE, records)


def usual_records() -> list[Message]:
    """Three live brokers with epochs 1 to 3, and the topic `t` with one partition on all of them, led by 1."""
    return [
        *(registered(each, epoch=each) for each in (1, 2, 3)),
        TopicRecord(name="t", topic_id=TOPIC),
        partition(),
    ]


class Reigning(Story):
    """Node 1 leads epoch 1 and its controller is active with an image; the log holds one committed batch."""

    def __init__(self, *groups: Any, image: MetadataImage = EMPTY_IMAGE) -> None:
        super().__init__(*groups)
        self.lead(1, 1)
        self.follow(2, 1, 1)
        self.commit(1, leader_change(0, 1))
        self.next_offset = 1
        self.token = 0
        self.gain(image)

    @property
    def now_ms(self) -> int:
        """The clock of every node."""
        return self.cluster.now_us // 1_000

    def gain(self, image: MetadataImage) -> None:
        """The controller becomes active."""
        event = LeadershipGained(epoch=1, next_offset=self.next_offset, image=image, now_ms=self.now_ms)
        self.step(1, machines=[MachineStep("controller", event, [])])

    def request(self, request: Any) -> RequestArrived:
        """A request that arrives now."""
        self.token += 1
        cause = RequestCause(api_version=0)
        return RequestArrived(
            token=self.token, request=request, cause=cause, now_ms=self.now_ms, deadline_ms=self.now_ms + 1_000
        )

    def decide(self, event: Any, *parts: Sequence[Message], answers: Sequence[Answer] = ()) -> None:
        """The controller takes an event and writes each part as a batch of its own."""
        effects: list[Any] = []
        for part in parts:
            records = tuple(framed(each) for each in part)
            effects.append(AppendRecords(records=records, base_offset=self.next_offset, epoch=1))
            self.next_offset += len(records)
        self.step(1, machines=[MachineStep("controller", event, [*effects, *answers])])

    def write(self, *parts: Sequence[Message]) -> None:
        """Batches are written and committed."""
        for part in parts:
            base = self.ghost.lives[1].disk.log.end
            batch = records_batch(base, 1, *(framed(each) for each in part))
            self.step(1, batch)
            self.step(1, LogDurable(batch.next_offset))
            self.replicate(2, batch)


class Calling(Reigning):
    """With one client, whose calls go to node 1."""

    def __init__(self, *groups: Any, image: MetadataImage = EMPTY_IMAGE) -> None:
        super().__init__(*groups, image=image)
        self.calls = 0

    def begin(self, request: object) -> int:
        """A call begins; its number."""
        self.calls += 1
        self.called(CallStarted(call_id=self.calls, client_id=1, request=request, api_version=0))
        return self.calls

    def end(self, call_id: int, request: object, response: object | None, outcome: Outcome = Outcome.OK) -> None:
        """The call ends."""
        self.called(CallEnded(call_id=call_id, client_id=1, request=request, response=response, outcome=outcome))
