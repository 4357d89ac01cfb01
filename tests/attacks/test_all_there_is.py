"""Requests for all that a node has, and of which every part is there: nobody else waits for them. Each API has an entry, or a word why not."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from headrace.broker.served_apis import BROKER_APIS
from headrace.core.ids import Uuid
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.wire.messages import (
    alter_configs,
    alter_partition,
    broker_registration,
    create_partitions,
    delete_groups,
    delete_records,
    delete_topics,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    produce,
    unregister_broker,
    update_features,
)
from headrace.wire.messages import alter_partition_reassignments as reassign
from headrace.wire.messages import alter_replica_log_dirs as move_logs
from headrace.wire.messages import assign_replicas_to_dirs as assign_dirs
from headrace.wire.messages import consumer_group_heartbeat as heartbeat
from headrace.wire.messages import incremental_alter_configs as change_configs
from headrace.wire.messages import offset_for_leader_epoch as epoch_ends
from headrace.wire.messages.describe_cluster import DescribeClusterRequest
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.messages.find_coordinator import FindCoordinatorRequest
from headrace.wire.messages.list_groups import ListGroupsRequest
from headrace.wire.schema import Message
from tests.support.attacks import MIB, Target
from tests.support.peer import batch
from tests.support.raw import RawConnection, request_frame, row_of

TOPICS: Final = 5
PARTITIONS: Final = 1_000
"""Of each of them: so many that work of ten microseconds for each of all would hold the loop for the bound."""
NAMES: Final = tuple(f"all-{number}" for number in range(TOPICS))
NUMBERS: Final = tuple(range(PARTITIONS))
OTHER_BROKER: Final = 2

Request = tuple[Message, int]
OF_ONE_THING: Final = frozenset(
    {
        "allocate_producer_ids",
        "api_versions",
        "begin_quorum_epoch",
        "add_raft_voter",
        "broker_heartbeat",
        "broker_registration",
        "controller_registration",
        "end_quorum_epoch",
        "fetch_snapshot",
        "heartbeat",
        "init_producer_id",
        "join_group",
        "leave_group",
        "remove_raft_voter",
        "sync_group",
        "update_raft_voter",
        "vote",
    }
)
"""Their answers do not grow with what there is in a cluster; `test_long_requests.py` and `test_groups.py` send their largest requests."""
ELSEWHERE: Final = {
    "create_topics": "tests/attacks/test_long_requests.py",
    "envelope": "tests/attacks/test_long_requests.py",
}


def of_all(make: Callable[..., Any], topic: Callable[..., Any], name: str = "name", **of_topic: Any) -> tuple[Any, ...]:
    """A part of the request for each topic, with all of its partitions, each made by `make`."""
    (field, what), *others = of_topic.items()
    return tuple(
        topic(**{name: each, field: tuple(make(**{what: number}) for number in NUMBERS)}, **dict(others))
        for each in NAMES
    )


def numbers_of(topic: Callable[..., Any], name: str, field: str) -> tuple[Any, ...]:
    """The same where partitions are mere numbers."""
    return tuple(topic(**{name: each, field: NUMBERS}) for each in NAMES)


def requests(ids: Sequence[Uuid]) -> Iterator[Request]:
    """Each asks for, or changes, as much as there is; in an order in which it is there. `ids` are those of the topics."""
    yield metadata.MetadataRequest(topics=None), 12
    asked_topics = tuple(describe_topic_partitions.TopicRequest(name=each) for each in NAMES)
    yield describe_topic_partitions.DescribeTopicPartitionsRequest(topics=asked_topics), 0
    yield describe_log_dirs.DescribeLogDirsRequest(topics=None), 4
    dirs = numbers_of(describe_log_dirs.DescribableLogDirTopic, "topic", "partitions")
    yield describe_log_dirs.DescribeLogDirsRequest(topics=dirs), 4
    yield DescribeClusterRequest(), 1
    yield DescribeQuorumRequest(), 2
    epochs = of_all(
        lambda index: epoch_ends.OffsetForLeaderPartition(partition=index, leader_epoch=0),
        epoch_ends.OffsetForLeaderTopic,
        "topic",
        partitions="index",
    )
    yield epoch_ends.OffsetForLeaderEpochRequest(topics=epochs), 4
    for timestamp in (-1, -2, -3, 5):
        parts = of_all(
            lambda index, timestamp=timestamp: list_offsets.ListOffsetsPartition(
                partition_index=index, timestamp=timestamp
            ),
            list_offsets.ListOffsetsTopic,
            partitions="index",
        )
        yield list_offsets.ListOffsetsRequest(topics=parts), 7
    yield from _of_records()
    yield from _of_groups()
    yield from _of_settings()
    yield from _of_replicas(ids)
    more = tuple(create_partitions.CreatePartitionsTopic(name=each, count=PARTITIONS + 20) for each in NAMES)
    yield create_partitions.CreatePartitionsRequest(topics=more, timeout_ms=30_000), 3
    gone = tuple(delete_topics.DeleteTopicState(name=each) for each in NAMES)
    yield delete_topics.DeleteTopicsRequest(topics=gone, timeout_ms=30_000), 6


def _of_records() -> Iterator[Request]:
    data = of_all(
        lambda index: produce.PartitionProduceData(index=index, records=bytes(batch(b"x"))),
        produce.TopicProduceData,
        partition_data="index",
    )
    yield produce.ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data), 9
    asked = of_all(
        lambda partition: fetch.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1_000),
        fetch.FetchTopic,
        "topic",
        partitions="partition",
    )
    yield fetch.FetchRequest(max_wait_ms=0, max_bytes=1 << 20, session_epoch=0, topics=asked), 12
    below = of_all(
        lambda index: delete_records.DeleteRecordsPartition(partition_index=index, offset=-1),
        delete_records.DeleteRecordsTopic,
        partitions="index",
    )
    yield delete_records.DeleteRecordsRequest(topics=below, timeout_ms=10_000), 2


def _of_groups() -> Iterator[Request]:
    yield FindCoordinatorRequest(key="g"), 2
    committed = of_all(
        lambda index: offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=0),
        offset_commit.OffsetCommitRequestTopic,
        partitions="index",
    )
    yield offset_commit.OffsetCommitRequest(group_id="g", topics=committed), 8
    group = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    yield offset_fetch.OffsetFetchRequest(groups=(group,)), 8
    yield ListGroupsRequest(), 4
    yield describe_groups.DescribeGroupsRequest(groups=("g",)), 5
    subscribed = heartbeat.ConsumerGroupHeartbeatRequest(group_id="h", subscribed_topic_names=NAMES)
    yield subscribed, 0
    forgotten = of_all(
        lambda index: offset_delete.OffsetDeleteRequestPartition(partition_index=index),
        offset_delete.OffsetDeleteRequestTopic,
        partitions="index",
    )
    yield offset_delete.OffsetDeleteRequest(group_id="g", topics=forgotten), 0
    yield delete_groups.DeleteGroupsRequest(groups_names=("g",)), 2


def _of_settings() -> Iterator[Request]:
    resources = (*((2, each) for each in NAMES), (4, "1"))
    described = tuple(
        describe_configs.DescribeConfigsResource(resource_type=kind, resource_name=each) for kind, each in resources
    )
    yield (
        describe_configs.DescribeConfigsRequest(resources=described, include_synonyms=True, include_documentation=True),
        4,
    )
    one = change_configs.AlterableConfig(name="retention.ms", config_operation=0, value="1000000")
    changed = tuple(
        change_configs.AlterConfigsResource(resource_type=2, resource_name=each, configs=(one,)) for each in NAMES
    )
    yield change_configs.IncrementalAlterConfigsRequest(resources=changed), 1
    whole = alter_configs.AlterableConfig(name="retention.bytes", value="1000000")
    set_anew = tuple(
        alter_configs.AlterConfigsResource(resource_type=2, resource_name=each, configs=(whole,)) for each in NAMES
    )
    yield alter_configs.AlterConfigsRequest(resources=set_anew), 2
    of_broker = change_configs.AlterableConfig(name="log.retention.ms", config_operation=0, value="2000000")
    of_all_brokers = change_configs.AlterConfigsResource(resource_type=4, resource_name="", configs=(of_broker,))
    yield change_configs.IncrementalAlterConfigsRequest(resources=(of_all_brokers,)), 1
    level = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=1_000, upgrade_type=1)
    yield update_features.UpdateFeaturesRequest(feature_updates=(level,)), 1


def _of_replicas(ids: Sequence[Uuid]) -> Iterator[Request]:
    moved = numbers_of(move_logs.AlterReplicaLogDirTopic, "name", "partitions")
    yield move_logs.AlterReplicaLogDirsRequest(dirs=(move_logs.AlterReplicaLogDir(path="/nowhere", topics=moved),)), 2
    yield elect_leaders.ElectLeadersRequest(topic_partitions=None, timeout_ms=30_000), 2
    named = numbers_of(elect_leaders.TopicPartitions, "topic", "partitions")
    yield elect_leaders.ElectLeadersRequest(topic_partitions=named, timeout_ms=30_000), 2
    for replicas in ((1, OTHER_BROKER), None):
        parts = of_all(
            lambda index, replicas=replicas: reassign.ReassignablePartition(partition_index=index, replicas=replicas),
            reassign.ReassignableTopic,
            partitions="index",
        )
        yield reassign.AlterPartitionReassignmentsRequest(topics=parts, timeout_ms=30_000), 1
        yield list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000), 0
    leaving = unregister_broker.UnregisterBrokerRequest(broker_id=1, remove_from_assignments=True)
    yield leaving, 0
    homes = tuple(
        assign_dirs.RequestTopicData(
            topic_id=each,
            partitions=tuple(assign_dirs.RequestPartitionData(partition_index=number) for number in NUMBERS),
        )
        for each in ids
    )
    directory = assign_dirs.RequestDirectoryData(id=Uuid(b"another director"), topics=homes)
    yield assign_dirs.AssignReplicasToDirsRequest(broker_id=OTHER_BROKER, broker_epoch=-2, directories=(directory,)), 0
    alone = (alter_partition.BrokerState(broker_id=1),)
    isrs = tuple(
        alter_partition.RequestTopicData(
            topic_id=each,
            partitions=tuple(
                alter_partition.RequestPartitionData(partition_index=number, new_isr_with_epochs=alone)
                for number in NUMBERS
            ),
        )
        for each in ids
    )
    yield alter_partition.AlterPartitionRequest(broker_id=OTHER_BROKER, broker_epoch=-2, topics=isrs), 3


def test_every_api_is_asked_for_all_there_is_or_it_is_said_why_not() -> None:
    """PR8: a new API needs an entry here."""
    served = {row.name for row in (*BROKER_APIS, *CONTROLLER_APIS)}
    asked = {row_of(request).name for request, _ in requests([])}
    assert served - asked - OF_ONE_THING - ELSEWHERE.keys() == set()
    assert (asked | ELSEWHERE.keys()) & OF_ONE_THING == set()
    assert (asked | OF_ONE_THING | ELSEWHERE.keys()) <= served


def test_all_that_there_is_delays_nobody(target: Target) -> None:
    """PR8: settings of all partitions were changed in one turn, and all log directories described."""
    for name in NAMES:
        target.create_topic(name, PARTITIONS)
    ids = _ids_when_all_are_there(target)
    epoch = _register_another_broker(target)
    turns: dict[str, float] = {}
    with target.attacked(memory=256 * MIB, turn_ms=1_000):
        for number, (request, version) in enumerate(requests(ids)):
            if getattr(request, "broker_epoch", 0) == -2:
                request.broker_epoch = epoch  # type: ignore[attr-defined]
            target.watch_again()
            _ask(target, request, version)
            turns[f"{number} {row_of(request).name}"] = target.longest_turn_ms()
    if os.environ.get("HEADRACE_ATTACK_SHOW"):
        worst = sorted(turns.items(), key=lambda each: -each[1])[:12]
        sys.stderr.write("".join(f"\n{took_ms:6.1f} ms {what}" for what, took_ms in worst))
    target.must_be_short(turns)


def _ask(target: Target, request: Message, version: int) -> None:
    """Send it to the listener that serves it, and wait until it is answered, and what follows of it is done."""
    is_broker_s = any(row.name == row_of(request).name for row in BROKER_APIS)
    with (
        RawConnection(target.node.port if is_broker_s else target.node.controller_port) as peer,
        suppress(EOFError, ConnectionError),
    ):
        peer.socket.settimeout(120)
        peer.send(request_frame(request, version))
        peer.receive_frame()
    target.serves()


def _ids_when_all_are_there(target: Target) -> list[Uuid]:
    deadline = time.monotonic() + 600
    while True:
        with RawConnection(target.node.port) as peer:
            peer.socket.settimeout(60)
            found = peer.ask(describe_log_dirs.DescribeLogDirsRequest(topics=None), 4)
            if sum(len(topic.partitions) for topic in found.results[0].topics) >= TOPICS * PARTITIONS:
                known = peer.ask(metadata.MetadataRequest(topics=None), 12)
                return [topic.topic_id for topic in known.topics if topic.name in NAMES]
        assert time.monotonic() < deadline, "the partitions are made"
        time.sleep(0.2)


def _register_another_broker(target: Target) -> int:
    """A forged one, to which replicas may be moved; its epoch."""
    with RawConnection(target.node.port) as peer:
        cluster_id = peer.ask(DescribeClusterRequest(), 1).cluster_id
    features = ("kraft.version", "group.version", "transaction.version", "eligible.leader.replicas.version")
    can = [broker_registration.Feature(name=each, max_supported_version=9) for each in features]
    can.append(broker_registration.Feature(name="metadata.version", min_supported_version=7, max_supported_version=99))
    listener = broker_registration.Listener(name="PLAINTEXT", host="127.0.0.1", port=9, security_protocol=0)
    with RawConnection(target.node.controller_port) as peer:
        answer = peer.ask(
            broker_registration.BrokerRegistrationRequest(
                broker_id=OTHER_BROKER,
                cluster_id=cluster_id,
                incarnation_id=Uuid(b"another broker's"),
                log_dirs=(Uuid(b"another director"),),
                listeners=(listener,),
                features=tuple(can),
            ),
            4,
        )
    assert answer.error_code == 0
    epoch: int = answer.broker_epoch
    return epoch
