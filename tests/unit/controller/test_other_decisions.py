"""Settings, features, producer ids and ISR changes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller.events import Answer, AppendRecords, KRaftVersionAnswered, OffsetsTaken, RequestKRaftVersion
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.metadata.loader import MetadataFault, MetadataLoader
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import unsupported_level
from headrace.wire.messages import alter_configs, controller_registration, incremental_alter_configs
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.broker_registration import Feature
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from tests.support.controller import CommittedAppend, ControllerBench, active, incarnation

TOPIC, BROKER, LOGGER = 2, 4, 8
SET, DELETE, APPEND, SUBTRACT = range(4)


@pytest.fixture
def bench() -> ControllerBench:
    """Brokers 1, 2, 3 and topic `t` on all of them, led by 1."""
    found = active()
    for broker_id in (1, 2, 3):
        found.broker(broker_id)
    assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=(1, 2, 3))
    topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1, assignments=(assignment,))
    found.ask(CreateTopicsRequest(topics=(topic,)))
    return found


def change(*operations: tuple[str, int, str | None], kind: int = TOPIC, name: str = "t", **more: Any) -> Any:
    """An IncrementalAlterConfigs of one resource."""
    configs = tuple(
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in operations
    )
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(resource,), **more)


def settings(bench: ControllerBench, kind: int = TOPIC, name: str = "t") -> dict[str, str]:
    """What is committed."""
    return dict(bench.committed_image.configs.of(kind, name))


def test_settings_are_set_deleted_appended_and_subtracted(bench: ControllerBench) -> None:
    """B-C05, KIP-339: a list without a value starts from its default; only what changes is written."""
    assert bench.written(change(("retention.ms", SET, "5"))) == [
        ConfigRecord(resource_type=TOPIC, resource_name="t", name="retention.ms", value="5")
    ]
    assert bench.written(change(("retention.ms", SET, "5"))) == []
    bench.ask(change(("cleanup.policy", APPEND, "compact"), ("retention.ms", DELETE, None)))
    assert settings(bench) == {"cleanup.policy": "delete,compact"}
    bench.ask(change(("cleanup.policy", SUBTRACT, "delete")))
    assert settings(bench) == {"cleanup.policy": "compact"}


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (change(("no.such.key", SET, "1")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", SET, "x")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", SET, "1" * 1_000_000)), ErrorCode.INVALID_CONFIG),
        (change(("min.insync.replicas", SET, "0")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", APPEND, "1")), ErrorCode.INVALID_CONFIG),
        (change(("retention.ms", SET, None)), ErrorCode.INVALID_REQUEST),
        (change(("retention.ms", 9, "1")), ErrorCode.INVALID_REQUEST),
        (change(("retention.ms", SET, "1"), ("retention.ms", SET, "2")), ErrorCode.INVALID_REQUEST),
        (change(("retention.ms", SET, "1"), name="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (change(("retention.ms", SET, "1"), name=""), ErrorCode.INVALID_REQUEST),
        (change(("a", SET, "1"), kind=0, name="x"), ErrorCode.INVALID_REQUEST),
        (change(("a", SET, "1"), kind=99, name="x"), ErrorCode.INVALID_REQUEST),
        (change(("a", SET, "1"), kind=LOGGER, name="1"), ErrorCode.INVALID_REQUEST),
        (change(("log.cleaner.threads", SET, "2"), kind=BROKER, name="9"), ErrorCode.BROKER_ID_NOT_REGISTERED),
        (change(("log.cleaner.threads", SET, "2"), kind=BROKER, name="x"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_that_are_refused_change_nothing(bench: ControllerBench, request_: Any, error: ErrorCode) -> None:
    """B70, B24: old value stays, nothing partly set."""
    bench.ask(change(("retention.ms", SET, "5")))
    before = len(bench.log)
    assert bench.ask(request_).responses[0].error_code == error
    assert len(bench.log) == before
    assert settings(bench) == {"retention.ms": "5"}


def test_a_list_cannot_be_appended_to_for_ever(bench: ControllerBench) -> None:
    """B70: INVALID_CONFIG before a record could not hold it; the old value stays."""
    name = "leader.replication.throttled.replicas"
    for start in (0, 5_000):
        part = ",".join(f"{start + number}:1" for number in range(4_000))
        bench.ask(change((name, APPEND, part)))
    assert len(settings(bench)[name]) < 32_767
    too_long = ",".join(f"{number}:1" for number in range(10_000))
    assert bench.ask(change((name, SET, too_long))).responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert settings(bench)[name].startswith("0:1,1:1")


def test_each_resource_is_decided_apart(bench: ControllerBench) -> None:
    """B70: one bad setting takes the others of its resource along, and no other resource."""
    good = change(("retention.ms", SET, "5")).resources[0]
    bad = change(("retention.ms", SET, "5"), ("no.such.key", SET, "1"), name="x").resources[0]
    answer = bench.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(bad, good)))
    assert [each.error_code != 0 for each in answer.responses] == [True, False]
    assert settings(bench) == {"retention.ms": "5"}


def test_a_resource_that_is_named_twice_is_not_changed(bench: ControllerBench) -> None:
    """B24: never done twice, as in Kafka not even once."""
    good = change(("retention.ms", SET, "5")).resources[0]
    answer = bench.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(good, good)))
    assert {each.error_message for each in answer.responses} == {"Each resource must appear at most once."}
    assert settings(bench) == {}


def test_broker_settings_are_written_even_when_they_do_not_change(bench: ControllerBench) -> None:
    """KAFKA-14136: setting a file's path again makes the broker load it again."""
    request = change(("log.cleaner.threads", SET, "2"), kind=BROKER, name="")
    assert len(bench.written(request)) == 1
    assert len(bench.written(request)) == 1


def test_validating_settings_writes_nothing(bench: ControllerBench) -> None:
    """B70."""
    assert bench.written(change(("retention.ms", SET, "7"), validate_only=True)) == []


def replace_all(*configs: tuple[str, str | None], name: str = "t") -> alter_configs.AlterConfigsRequest:
    """The old AlterConfigs."""
    given = tuple(alter_configs.AlterableConfig(name=key, value=value) for key, value in configs)
    resource = alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=given)
    return alter_configs.AlterConfigsRequest(resources=(resource,))


def test_the_old_way_replaces_all_settings(bench: ControllerBench) -> None:
    """B-C05: what is not named is deleted."""
    bench.ask(replace_all(("retention.ms", "5"), ("segment.ms", "6")))
    bench.ask(replace_all(("segment.ms", "7")))
    assert settings(bench) == {"segment.ms": "7"}
    for bad in (replace_all(("retention.ms", None)), replace_all(("retention.ms", "x")), replace_all(name="x")):
        assert bench.ask(bad).responses[0].error_code != 0
    assert settings(bench) == {"segment.ms": "7"}


def features(*updates: tuple[str, int, int], **more: Any) -> UpdateFeaturesRequest:
    """(name, level, upgrade type) each; 1 upgrade, 2 safe, 3 unsafe downgrade."""
    keys = tuple(FeatureUpdateKey(feature=f, max_version_level=level, upgrade_type=kind) for f, level, kind in updates)
    return UpdateFeaturesRequest(feature_updates=keys, **more)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ([("metadata.version", 29, 1)], "Can't downgrade the version of this feature without setting"),
        ([("metadata.version", 29, 2)], "Unsupported metadata.version downgrade from 30 to 29. Refusing"),
        ([("metadata.version", 29, 3)], "Unsafe metadata downgrade is not supported"),
        ([("metadata.version", 31, 1)], "Local controller 1 only supports versions 7-30"),
        ([("metadata.version", 31, 2)], "Local controller 1 only supports versions 7-30"),
        ([("metadata.version", 6, 2)], "Local controller 1 only supports versions 7-30"),
        ([("metadata.version", -1, 1)], "A feature version cannot be less than 0."),
        ([("metadata.version", 30, 0)], "does not support the given upgrade type"),
        ([("metadata.version", 30, 9)], "does not support the given upgrade type"),
        ([("transaction.version", 1, 1)], "Local controller 1 does not support this feature."),
        ([("no.such", 1, 1)], "Local controller 1 does not support this feature."),
        ([("no.such", 0, 1)], "Feature no.such not found."),
        ([("metadata.version", 30, 1), ("no.such", 1, 1)], "no.such"),
    ],
)
def test_levels_that_are_refused(bench: ControllerBench, updates: list[tuple[str, int, int]], message: str) -> None:
    """B-U01, B-U02, D-11: INVALID_UPDATE_VERSION(95), all or nothing; what is not built has level 0 only."""
    before = len(bench.log)
    answer = bench.ask(features(*updates))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert message in answer.error_message
    assert len(bench.log) == before


def test_the_same_feature_twice(bench: ControllerBench) -> None:
    """B24."""
    update = ("metadata.version", 30, 1)
    assert bench.ask(features(update, update)).error_code == ErrorCode.INVALID_REQUEST


def test_levels_that_change() -> None:
    """B-U02: up, and down where no record could be lost."""
    bench = active()
    assert bench.written(features(("metadata.version", 30, 1))) == [
        FeatureLevelRecord(name="metadata.version", feature_level=30)
    ]
    assert bench.written(features(("metadata.version", 30, 1), validate_only=True)) == []
    answer = bench.ask(features(("transaction.version", 0, 1)), version=1)
    assert [(each.feature, each.error_code) for each in answer.results] == [("transaction.version", 0)]


def test_every_broker_must_support_the_level(bench: ControllerBench) -> None:
    """B-U02: the first that does not is named."""
    bench.ask(features(("metadata.version", 30, 1)))
    only = Feature(name="metadata.version", min_supported_version=30, max_supported_version=30)
    bench.broker(4, features=(only,))
    answer = bench.ask(features(("metadata.version", 29, 2)))
    assert "Broker 4 only supports version 30" in answer.error_message


def register_controller(number: int, *supported: tuple[str, int, int]) -> ControllerRegistrationRequest:
    """Another controller registers with what it supports."""
    return ControllerRegistrationRequest(
        controller_id=number,
        incarnation_id=incarnation(number),
        features=tuple(
            controller_registration.Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, low, high in supported
        ),
    )


def test_every_controller_must_support_the_level(bench: ControllerBench) -> None:
    """B-U02, B-C19: also one that is not active; a registration is written anew by each incarnation."""
    [record] = bench.written(register_controller(7, ("metadata.version", 7, 29), ("kraft.version", 0, 0)))
    assert record.SCHEMA.api_key == 27
    answer = bench.ask(features(("metadata.version", 30, 1)))
    assert "Controller 7 only supports versions 7-29" in answer.error_message
    answer = bench.ask(features(("kraft.version", 1, 1)))
    assert (answer.error_code, "Controller 7 does not support" in answer.error_message) == (95, True)


def test_a_voter_that_never_registered_may_not_support_the_level() -> None:
    """B-U02, B-C19: what it supports is not known, so the level waits for it; each of the configured voters counts."""
    bench = active(controller_quorum_voters=((1, "h", 1), (2, "h", 2)))
    bench.ask(register_controller(1, ("metadata.version", 7, 30)))
    answer = bench.ask(features(("metadata.version", 30, 1)))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "controller 2 has not registered, and may not support this feature" in answer.error_message
    bench.ask(register_controller(2, ("metadata.version", 7, 30)))
    assert bench.ask(features(("metadata.version", 30, 1))).error_code == 0


def test_kraft_version_is_raised_by_raft() -> None:
    """B-U02, KIP-853: raft is asked once everybody supports it; other features follow when it has taken the level."""
    bench = active()
    asked = features(("kraft.version", 1, 1), ("metadata.version", 30, 1))
    [order] = bench.send(asked)
    assert order == RequestKRaftVersion(token=1, epoch=1, level=1, validate_only=False)
    bench.start_offset += 2
    bench.machine.step(OffsetsTaken(epoch=1, next_offset=bench.next_offset, now_ms=bench.now_ms))
    taken = KRaftVersionAnswered(token=1, error=ErrorCode.NONE, message=None, now_ms=bench.now_ms)
    [append] = bench.take(bench.machine.step(taken))
    assert isinstance(append, AppendRecords)
    assert bench.pending == [FeatureLevelRecord(name="metadata.version", feature_level=30)]
    assert bench.take(bench.machine.step(taken)) == []
    bench.commit()
    refused = bench.ask(features(("kraft.version", 0, 2)))
    assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_raft_may_refuse_a_kraft_version() -> None:
    """B-U02: the whole request fails with its reason, and nothing is written; who still waits at the end of the term is told."""
    bench = active()
    bench.send(features(("kraft.version", 1, 1)))
    refusal = KRaftVersionAnswered(
        token=1, error=ErrorCode.INVALID_UPDATE_VERSION, message="voter 3 is too old", now_ms=bench.now_ms
    )
    [answer] = bench.machine.step(refusal)
    assert isinstance(answer, Answer)
    assert answer.response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert answer.response.error_message == "voter 3 is too old"
    bench.send(features(("kraft.version", 1, 1)))
    [left] = bench.lose()
    assert isinstance(left, Answer)
    assert left.response.error_code == ErrorCode.NOT_CONTROLLER


def test_a_level_that_this_version_cannot_work_with_is_named() -> None:
    """B-U03: with the command that lowers it."""
    assert unsupported_level({"metadata.version": 30, "kraft.version": 1}) is None
    found = unsupported_level({"metadata.version": 30, "transaction.version": 2})
    assert found is not None
    assert "transaction.version is finalized at level 2" in found
    assert "downgrade --feature transaction.version=0" in found
    assert unsupported_level({"metadata.version": 31}) is not None
    loader = MetadataLoader()
    record = VersionedRecord(FeatureLevelRecord(name="share.version", feature_level=1), 0).encode()
    with pytest.raises(MetadataFault, match=r"share\.version is finalized at level 1"):
        loader.load_batches([CommittedAppend(0, (record,), 1)])


def test_blocks_of_producer_ids_never_overlap(bench: ControllerBench) -> None:
    """B-C13, C13, K28: also after another controller took over."""
    epoch = bench.committed_image.cluster.brokers[1].broker_epoch
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    assert bench.ask(request) == AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)
    assert bench.log[-1] == ProducerIdsRecord(broker_id=1, broker_epoch=epoch, next_producer_id=1000)
    bench.send(request)
    bench.lose()
    again = ControllerBench(image=bench.committed_image)
    again.gain(next_offset=bench.next_offset)
    assert again.ask(request).producer_id_start == 1000


@pytest.mark.parametrize(("broker_id", "shift"), [(9, 0), (1, 1), (1, -1)])
def test_producer_ids_are_for_registered_brokers(bench: ControllerBench, broker_id: int, shift: int) -> None:
    """C8: STALE_BROKER_EPOCH."""
    epoch = bench.committed_image.cluster.brokers[1].broker_epoch + shift
    answer = bench.ask(AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch))
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def isr(bench: ControllerBench, *members: int, broker_id: int = 1, topic_id: Uuid | None = None, **changes: Any) -> Any:
    """Broker 1 wants these members in sync; the answer for the partition."""
    brokers = bench.committed_image.cluster.brokers
    epochs = changes.pop("epochs", {})
    states = tuple(
        BrokerState(
            broker_id=each,
            broker_epoch=epochs.get(each, brokers[each].broker_epoch if each in brokers else -1),
        )
        for each in members
    )
    fields: dict[str, Any] = {"leader_epoch": 0, "partition_epoch": 0} | changes
    topic = topic_id or bench.committed_image.topics.by_name["t"].id
    partition = RequestPartitionData(new_isr_with_epochs=states, **fields)
    request = AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=brokers[broker_id].broker_epoch,
        topics=(RequestTopicData(topic_id=topic, partitions=(partition,)),),
    )
    return bench.ask(request).topics[0].partitions[0]


def test_the_leader_changes_its_isr(bench: ControllerBench) -> None:
    """C9, C6, S3-04, KIP-497: the answer is the new state; the partition epoch rises, the leader epoch does not."""
    answer = isr(bench, 1, 2)
    assert (answer.isr, answer.leader_id, answer.leader_epoch, answer.partition_epoch) == ((1, 2), 1, 0, 1)
    record = bench.log[-1]
    assert isinstance(record, PartitionChangeRecord)
    assert (record.isr, record.leader) == ((1, 2), -2)
    assert isr(bench, 1, 2, 3, partition_epoch=1).isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("members", "changes", "error"),
    [
        ((1, 2), {"leader_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"partition_epoch": 1}, ErrorCode.NOT_CONTROLLER),
        ((1, 2), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        ((1, 2), {"partition_index": 7}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((1, 2), {"topic_id": Uuid(b"x" * 16)}, ErrorCode.UNKNOWN_TOPIC_ID),
        ((2, 1), {"broker_id": 2}, ErrorCode.INVALID_REQUEST),
        ((2, 3), {}, ErrorCode.INVALID_REQUEST),
        ((), {}, ErrorCode.INVALID_REQUEST),
        ((1, 1), {}, ErrorCode.INVALID_REQUEST),
        ((1, 9), {}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 1}, ErrorCode.INVALID_REQUEST),
        ((1,), {"leader_recovery_state": 7}, ErrorCode.INVALID_REQUEST),
        ((1, 2), {"epochs": {2: 999}}, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_isr_changes_that_are_refused(
    bench: ControllerBench, members: tuple[int, ...], changes: dict[str, Any], error: ErrorCode
) -> None:
    """C9, S0-39, S0-40: only the leader, with equal epochs, and only members that are there; ahead of us = NOT_CONTROLLER."""
    before = len(bench.log)
    assert isr(bench, *members, **changes).error_code == error
    assert len(bench.log) == before


def test_a_fenced_broker_cannot_join_an_isr(bench: ControllerBench) -> None:
    """C9, C7, S0-10, S0-40: INELIGIBLE_REPLICA; -1 as broker epoch skips only that check."""
    epoch = bench.committed_image.cluster.brokers[3].broker_epoch
    bench.heartbeat(3, epoch, want_fence=True)
    assert bench.committed_image.topics.by_name["t"].partitions[0].isr == (1, 2)
    assert isr(bench, 1, 2, 3, partition_epoch=1).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert isr(bench, 1, 2, 3, partition_epoch=1, epochs={3: -1}).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert isr(bench, 1, 2, partition_epoch=1, epochs={2: -1}).error_code == ErrorCode.NONE


def test_a_stale_broker_changes_no_isr(bench: ControllerBench) -> None:
    """C8."""
    answer = bench.ask(AlterPartitionRequest(broker_id=1, broker_epoch=0))
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_a_partition_is_changed_once_by_a_request(bench: ControllerBench) -> None:
    """C9, B24: the second change of one request was proposed on an epoch that the first one ended."""
    topic = bench.committed_image.topics.by_name["t"].id
    asked = [RequestPartitionData(new_isr_with_epochs=(BrokerState(broker_id=1),)) for _ in range(2)]
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=bench.committed_image.cluster.brokers[1].broker_epoch,
        topics=(RequestTopicData(topic_id=topic, partitions=tuple(asked)),),
    )
    answer = bench.ask(request).topics[0]
    assert [each.error_code for each in answer.partitions] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert bench.committed_image.topics.by_name["t"].partitions[0].partition_epoch == 1


def test_a_leader_may_change_more_partitions_than_a_batch_holds() -> None:
    """C9, B-C22, KIP-497: each partition is decided on its own, so the request is not all or nothing."""
    bench = active(internal_metadata_max_batch_size_in_bytes=2_000)
    epochs = {broker_id: bench.broker(broker_id) for broker_id in (1, 2)}
    for name in ("a", "b", "c", "d", "e"):
        assignments = tuple(CreatableReplicaAssignment(partition_index=n, broker_ids=(1, 2)) for n in range(10))
        new = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=assignments)
        assert bench.ask(CreateTopicsRequest(topics=(new,))).topics[0].error_code == 0
    alone = (BrokerState(broker_id=1, broker_epoch=epochs[1]),)
    asked = tuple(RequestPartitionData(partition_index=n, new_isr_with_epochs=alone) for n in range(10))
    topics = [bench.committed_image.topics.by_name[name].id for name in ("a", "b", "c", "d", "e")]
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=epochs[1],
        topics=tuple(RequestTopicData(topic_id=each, partitions=asked) for each in topics),
    )
    effects = bench.send(request)
    assert len([each for each in effects if isinstance(each, AppendRecords)]) > 1
    (answer,) = [each.response for each in bench.commit() if isinstance(each, Answer)]
    assert answer.error_code == 0
    assert {each.error_code for topic in answer.topics for each in topic.partitions} == {0}
    found = [p.isr for topic in bench.committed_image.topics.by_id.values() for p in topic.partitions.values()]
    assert found == [(1,)] * 50


def cordon(
    bench: ControllerBench, value: str | None, *, operation: int = SET, name: str = "1"
) -> tuple[int, str | None]:
    """The answer to another `cordoned.log.dirs` of a broker."""
    change = incremental_alter_configs.AlterableConfig(
        name="cordoned.log.dirs", config_operation=operation, value=value
    )
    asked = incremental_alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=(change,))
    answer = bench.ask(incremental_alter_configs.IncrementalAlterConfigsRequest(resources=(asked,))).responses[0]
    return answer.error_code, answer.error_message


def test_a_controller_that_is_asked_itself_takes_cordons_away_and_adds_none(bench: ControllerBench) -> None:
    """KIP-1066: only the broker knows which directories it has; what it forwards it has looked at."""
    refused = (
        ErrorCode.INVALID_CONFIG,
        "When updating cordoned.log.dirs via controllers,  the new value must be a subset of the current configuration value.",
    )
    assert cordon(bench, "/a,/b") == (0, None)
    bench.is_direct = True
    assert [cordon(bench, value) for value in ("/a,/b,/c", "*", "/a, /d")] == [refused] * 3
    assert [cordon(bench, value) for value in ("/b , /a", "/a", "")] == [(0, None)] * 3
    assert cordon(bench, "/a") == refused
    assert cordon(bench, "/a", operation=APPEND) == refused
    assert cordon(bench, None, operation=DELETE) == (0, None)
    for name in ("", "9"):
        assert cordon(bench, "/a", name=name) == refused
    replacing = alter_configs.AlterConfigsResource(
        resource_type=BROKER,
        resource_name="1",
        configs=(alter_configs.AlterableConfig(name="cordoned.log.dirs", value="/a"),),
    )
    answer = bench.ask(alter_configs.AlterConfigsRequest(resources=(replacing,))).responses[0]
    assert (answer.error_code, answer.error_message) == refused


def test_nothing_is_cordoned_before_the_cluster_knows_of_it() -> None:
    """KIP-1066: below 4.3-IV0 no broker tells its controller; an operator would believe that it is done."""
    bench = active(features={"metadata.version": 29})
    bench.broker(1)
    refused = (
        ErrorCode.INVALID_CONFIG,
        "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0",
    )
    assert [cordon(bench, value) for value in ("", "*")] == [refused] * 2
    assert cordon(bench, None, operation=DELETE) == refused
