"""What do tests of the controller do to partitions?"""

from __future__ import annotations

from typing import Any

from headrace.controller.events import BrokerUnreachable
from headrace.metadata.image import LEADER_RECOVERED, PartitionRegistration
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from tests.support.controller import ControllerBench, active


def cluster(count: int = 3, **settings: Any) -> tuple[ControllerBench, dict[int, int]]:
    """Brokers 1..count, unfenced, and their epochs."""
    bench = active(**settings)
    return bench, {broker_id: bench.broker(broker_id) for broker_id in range(1, count + 1)}


def topic(bench: ControllerBench, *replicas: tuple[int, ...], name: str = "t", **configs: str) -> None:
    """A topic with these replicas."""
    assignments = tuple(
        CreatableReplicaAssignment(partition_index=number, broker_ids=each) for number, each in enumerate(replicas)
    )
    given = tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items())
    new = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=given)
    assert bench.ask(CreateTopicsRequest(topics=(new,), timeout_ms=1)).topics[0].error_code == 0


def partition(bench: ControllerBench, number: int = 0, name: str = "t") -> PartitionRegistration:
    """A partition as it is decided."""
    found = bench.machine.image.topics.partition(name, number)
    assert found is not None
    return found


def fence(bench: ControllerBench, broker_id: int, epoch: int) -> None:
    """The broker asks to be fenced."""
    assert bench.heartbeat(broker_id, epoch, want_fence=True).is_fenced is True


def end(bench: ControllerBench, broker_id: int) -> None:
    """The process of a broker that is fenced ends: another one may have its id at once."""
    epoch = bench.machine.image.cluster.brokers[broker_id].broker_epoch
    bench.take(bench.machine.step(BrokerUnreachable(broker_id=broker_id, broker_epoch=epoch, now_ms=bench.now_ms)))


def join(bench: ControllerBench, leader: int, epochs: dict[int, int], isr: tuple[int, ...], number: int = 0) -> Any:
    """The leader proposes this ISR."""
    image = bench.machine.image.topics.by_name["t"]
    now = image.partitions[number]
    data = RequestPartitionData(
        partition_index=number,
        leader_epoch=now.leader_epoch,
        partition_epoch=now.partition_epoch,
        new_isr_with_epochs=tuple(BrokerState(broker_id=each, broker_epoch=epochs[each]) for each in isr),
        leader_recovery_state=LEADER_RECOVERED,
    )
    request = AlterPartitionRequest(
        broker_id=leader,
        broker_epoch=epochs[leader],
        topics=(RequestTopicData(topic_id=image.id, partitions=(data,)),),
    )
    return bench.ask(request).topics[0].partitions[0]
