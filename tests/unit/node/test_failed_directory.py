"""A log directory that fails: which one is it, and who must stop serving what lay in it?"""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.node.jobs import LogWork
from headrace.node.machine import DirectoryFailed
from headrace.sim.disk import LossyFile
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headrace.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tests.support.broker_bench import Client
from tests.support.memory_node import DATA, MemoryNode
from tests.support.peer import batch, produce_request

OTHER = "/mnt/data"


def create(node: MemoryNode, name: str, partitions: int) -> None:
    """A topic with leaders."""
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    node.forward(CreateTopicsRequest(topics=(topic,), timeout_ms=5_000), 7)
    node.settle()


def keep_up(node: MemoryNode) -> None:
    """Two seconds in which the logs' upkeep is done as it is ordered; a fault goes where the driver sends it."""
    for _ in range(2):
        node.settle()
        for work in [each for each in node.done if isinstance(each, LogWork)]:
            node.done.remove(work)
            try:
                work.job.run_in_place()
            except StorageFault as fault:
                node.broker.on_storage_fault(fault)
            else:
                work.job.finish()
        node.work()


def commit(client: Client, offset: int) -> int:
    """Commit a position of the group "g" in "t", as a client without a membership; the error code."""
    position = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(position,)),))
    code: int = client.ask(request, 9).topics[0].partitions[0].error_code
    return code


def fetched(client: Client) -> Any:
    """What the group "g" has in "t", or why not: (error code, offset)."""
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),))
    group = client.ask(request, 9).groups[0]
    return group.error_code or group.topics[0].partitions[0].committed_offset


def test_the_directory_that_failed_is_known_not_guessed() -> None:
    """B-K08: `/data` is a part of `/mnt/data`; a fault in one is not the other's."""
    node = MemoryNode(log_dirs=(DATA, OTHER))
    node.start()
    create(node, "t", 2)
    (in_other,) = (one.partition for one, log in node.logs.logs().items() if log.directory == OTHER)
    client = Client(node)
    node.files.broken = f"{OTHER}/t-{in_other}"
    refused = client.ask(produce_request("t", batch(b"x"), partition=in_other), 9)
    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    node.settle()
    assert [effect.directory for effect in node.done if isinstance(effect, DirectoryFailed)] == [OTHER]
    kept = client.ask(produce_request("t", batch(b"x"), partition=1 - in_other), 9)
    assert kept.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def test_a_sync_that_fails_ends_no_flush_of_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    """inv:D3, inv:D10: what lies in the other directories goes on being flushed, though it was due at the same time."""
    node = MemoryNode(log_dirs=(DATA, OTHER), log_flush_interval_ms=10)
    node.start()
    create(node, "t", 2)
    keep_up(node)
    kept = next(log for log in node.logs.logs().values() if log.directory == DATA)
    client = Client(node)
    for partition in (0, 1):
        client.ask(produce_request("t", batch(b"x"), partition=partition), 9)
    honest = LossyFile.fsync

    def fsync(file: LossyFile) -> None:
        if file.path.startswith(OTHER):
            raise StorageFault(f"cannot sync {file.path}", directory=OTHER)
        honest(file)

    monkeypatch.setattr(LossyFile, "fsync", fsync)
    keep_up(node)
    assert [effect.directory for effect in node.done if isinstance(effect, DirectoryFailed)] == [OTHER]
    client.ask(produce_request("t", batch(b"y"), partition=kept.topic_partition.partition), 9)
    keep_up(node)
    assert (kept.log_end_offset, kept.durable_end_offset) == (2, 2)


def test_the_group_coordinator_of_a_failed_directory_resigns() -> None:
    """B-K08: it does not go on answering with the positions that it remembers: another broker may have newer ones."""
    node = MemoryNode(offsets_topic_num_partitions=1, offsets_topic_replication_factor=1)
    node.start()
    create(node, "t", 1)
    client = Client(node)
    client.send(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
    node.settle()
    assert len(client.answers()) == 1
    assert (commit(client, 41), fetched(client)) == (0, 41)
    node.files.broken = "/data/__consumer_offsets-0"
    assert commit(client, 42) != 0
    assert fetched(client) == ErrorCode.NOT_COORDINATOR


def test_a_broker_starts_without_a_directory_that_it_cannot_read() -> None:
    """KIP-112, KIP-858: it registers without it, and what lay there is not made anew elsewhere: it may be there."""
    three = (DATA, OTHER, "/mnt/third")
    node = MemoryNode(log_dirs=three)
    node.start()
    create(node, "t", 3)
    node.settle()
    (in_other,) = (one.partition for one, log in node.logs.logs().items() if log.directory == OTHER)
    node.disk.unlock()
    node.files.unreadable = OTHER
    again = MemoryNode(log_dirs=three, after=node)
    again.start()
    broker = again.machine.image.cluster.brokers[1]
    assert len(broker.log_dirs) == 2
    assert [info.is_online for info in again.logs.directories()] == [True, False, True]
    assert in_other not in [one.partition for one in again.logs.logs()]
    assert [each.directory for each in again.done if isinstance(each, DirectoryFailed)] == [OTHER]
    partitions = again.machine.image.topics.by_name["t"].partitions
    assert {each.leader for number, each in partitions.items() if number != in_other} == {1}
    assert partitions[in_other].leader == -1
