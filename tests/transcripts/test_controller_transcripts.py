"""The controller, event by event, as text.

Commands: `gain [epoch=N]`, `lose`, `commit`, `register ID [incarnation=N]`, `heartbeat ID [offset=N] [fence] [stop]`, `create NAME [partitions=N]
[replicas=1,2;2,1]`, `delete NAME`, `ids ID`, `isr NAME ISR epoch=N from=ID`, `time +MS`, `state`,
`slice N`, `refuse ID`, `unregister ID`, `reassign NAME TARGET|cancel`, `elect NAME preferred|unclean`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.controller.events import (
    Answer,
    AppendRecords,
    BrokerUnreachable,
    ControllerEffect,
    RequestKRaftVersion,
    Resign,
)
from headrace.core.error_code import ErrorCode
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.frame import decode_record
from headrace.wire.schema import Message
from tests.support.controller import ControllerBench, incarnation, registration
from tests.transcripts.runner import play, transcripts, words


class ControllerTranscript:
    """One controller, driven by commands."""

    def __init__(self) -> None:
        self.bench = ControllerBench()
        self.names: dict[object, str] = {}

    def run(self, command: str) -> list[str]:
        """What one command leads to, a line an effect and a line a record."""
        name, plain, options = words(command)
        if name == "state":
            return self.state()
        effects: list[ControllerEffect] = getattr(self, f"do_{name.replace('-', '_')}")(*plain, **options)
        return [line for effect in effects for line in self.shown(effect)] or ["  (nothing)"]

    def do_gain(self, epoch: str = "1") -> list[ControllerEffect]:
        self.bench.epoch = int(epoch)
        return self.bench.gain(next_offset=self.bench.next_offset + 1)

    def do_slice(self, size: str) -> list[ControllerEffect]:
        self.bench.machine.slice_size = int(size)
        return []

    def do_refuse(self, broker_id: str) -> list[ControllerEffect]:
        broker = self.bench.machine.image.cluster.brokers[int(broker_id)]
        event = BrokerUnreachable(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, now_ms=self.bench.now_ms
        )
        return self.bench.take(self.bench.machine.step(event))

    def do_unregister(self, broker_id: str) -> list[ControllerEffect]:
        return self.bench.send(UnregisterBrokerRequest(broker_id=int(broker_id)))

    def do_reassign(self, name: str, target: str) -> list[ControllerEffect]:
        replicas = None if target == "cancel" else tuple(int(each) for each in target.split(","))
        topic = ReassignableTopic(name=name, partitions=(ReassignablePartition(replicas=replicas),))
        return self.bench.send(AlterPartitionReassignmentsRequest(topics=(topic,)))

    def do_elect(self, name: str, kind: str) -> list[ControllerEffect]:
        topic = TopicPartitions(topic=name, partitions=(0,))
        return self.bench.send(ElectLeadersRequest(election_type=int(kind == "unclean"), topic_partitions=(topic,)))

    def do_lose(self) -> list[ControllerEffect]:
        return self.bench.lose()

    def do_commit(self) -> list[ControllerEffect]:
        return self.bench.commit()

    def do_register(self, broker_id: str, **options: str) -> list[ControllerEffect]:
        number = int(options.get("incarnation", broker_id))
        return self.bench.send(registration(int(broker_id), incarnation_id=incarnation(number)))

    def do_heartbeat(self, broker_id: str, *wants: str, offset: str = "") -> list[ControllerEffect]:
        broker = self.bench.machine.image.cluster.brokers[int(broker_id)]
        request = BrokerHeartbeatRequest(
            broker_id=int(broker_id),
            broker_epoch=broker.broker_epoch,
            current_metadata_offset=int(offset or self.bench.next_offset - 1),
            want_fence="fence" in wants,
            want_shut_down="stop" in wants,
        )
        return self.bench.send(request)

    def do_create(self, name: str, partitions: str = "1", replicas: str = "") -> list[ControllerEffect]:
        lists = [tuple(int(each) for each in part.split(",")) for part in replicas.split(";") if part]
        assignments = tuple(
            CreatableReplicaAssignment(partition_index=number, broker_ids=ids) for number, ids in enumerate(lists)
        )
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if lists else int(partitions),
            replication_factor=-1 if lists else 1,
            assignments=assignments,
        )
        return self.bench.send(CreateTopicsRequest(topics=(topic,)))

    def do_delete(self, name: str) -> list[ControllerEffect]:
        return self.bench.send(DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=1))

    def do_ids(self, broker_id: str) -> list[ControllerEffect]:
        epoch = self.bench.machine.image.cluster.brokers[int(broker_id)].broker_epoch
        return self.bench.send(AllocateProducerIdsRequest(broker_id=int(broker_id), broker_epoch=epoch))

    def do_isr(self, name: str, isr: str, **options: str) -> list[ControllerEffect]:
        image = self.bench.machine.image
        sender = image.cluster.brokers[int(options["from"])]
        topic = image.topics.by_name[name]
        partition = RequestPartitionData(
            leader_epoch=topic.partitions[0].leader_epoch,
            partition_epoch=int(options["epoch"]),
            new_isr_with_epochs=tuple(BrokerState(broker_id=int(each)) for each in isr.split(",")),
        )
        data = RequestTopicData(topic_id=topic.id, partitions=(partition,))
        request = AlterPartitionRequest(broker_id=sender.broker_id, broker_epoch=sender.broker_epoch, topics=(data,))
        return self.bench.send(request)

    def do_time(self, ms: str) -> list[ControllerEffect]:
        return self.bench.advance(int(ms))

    def state(self) -> list[str]:
        """Brokers and partitions as they are decided."""
        image = self.bench.machine.image
        lines = [
            f"  broker {each}: epoch {broker.broker_epoch}"
            + ("" if not broker.fenced else ", fenced")
            + (", stopping" if broker.in_controlled_shutdown else "")
            for each, broker in sorted(image.cluster.brokers.items())
        ]
        for name in sorted(image.topics.by_name):
            for number, part in sorted(image.topics.by_name[name].partitions.items()):
                lines.append(
                    f"  {name}-{number}: leader {part.leader} isr {list(part.isr)} of {list(part.replicas)}, "
                    f"leader epoch {part.leader_epoch}, partition epoch {part.partition_epoch}"
                )
        return lines or ["  (empty)"]

    def shown(self, effect: ControllerEffect) -> list[str]:
        """An append and its records, or an answer."""
        match effect:
            case AppendRecords():
                head = f"  append at {effect.base_offset} in epoch {effect.epoch}"
                return [head, *(f"    {self.record(decode_record(data))}" for data in effect.records)]
            case Answer():
                return [f"  answer {effect.token}: {self.fields(effect.response)}"]
            case Resign():
                return [f"  resign {effect.epoch}: {effect.reason}"]
            case RequestKRaftVersion():
                return [f"  ask raft for kraft.version {effect.level}"]

    def record(self, record: Message) -> str:
        """The record's fields that are not at their default; ids as the names they belong to."""
        if hasattr(record, "topic_id") and hasattr(record, "name"):
            self.names[record.topic_id] = record.name
        return f"{type(record).__name__}({self.fields(record)})"

    def fields(self, value: Any) -> str:
        """Fields that are not at their default, nested ones too."""
        plain = type(value)()
        shown = []
        for name in type(value).__facts__:
            found = getattr(value, name)
            if found == getattr(plain, name) or name in (
                "configs",
                "features",
                "end_points",
                "log_dirs",
                "directories",
            ):
                continue
            shown.append(f"{name}={self.text(name, found)}")
        return ", ".join(shown)

    def text(self, name: str, value: Any) -> str:
        """One value."""
        if name == "error_code":
            return ErrorCode(value).name
        if name == "topic_id":
            return self.names.get(value, "new id")
        if isinstance(value, tuple) and value and isinstance(value[0], int):
            return "[" + ",".join(map(str, value)) + "]"
        if isinstance(value, tuple):
            return "[" + "; ".join(self.fields(each) for each in value) + "]"
        return "incarnation " + str(value[0]) if name == "incarnation_id" else str(value)


@pytest.mark.parametrize("path", transcripts("controller"), ids=lambda path: path.stem)
def test_controller_transcript(path: Path) -> None:
    """The file's first line is the rule; B-C21, B-C23..25, B-K05, S1-29, S1-36 and S1-57 as conversations."""
    play(path, ControllerTranscript().run)
