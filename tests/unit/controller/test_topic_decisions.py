"""Which topics and partitions may come and go. Codes and words were compared with Kafka 4.3.1 request by request."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.controller.decision import MAX_RECORDS_A_DECISION
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headrace.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.partition_record import PartitionRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from tests.support.controller import ControllerBench, active, directory

UNKNOWN = Uuid(b"u" * 16)


@pytest.fixture
def bench() -> ControllerBench:
    """One live broker."""
    found = active()
    found.broker(1)
    return found


def new(name: str = "t", partitions: int = 1, factor: int = 1, **changes: Any) -> CreatableTopic:
    """A topic to be made."""
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor, **changes)


def create(*topics: CreatableTopic, **changes: Any) -> CreateTopicsRequest:
    """One request."""
    return CreateTopicsRequest(topics=topics, **changes)


def outcome(bench: ControllerBench, *topics: CreatableTopic) -> list[tuple[str, ErrorCode, str | None]]:
    """(name, error, message) of each topic."""
    answer = bench.ask(create(*topics))
    return [(each.name, ErrorCode(each.error_code), each.error_message) for each in answer.topics]


def test_a_creation_is_topic_settings_partitions_in_one_append(bench: ControllerBench) -> None:
    """B-C03, B-C04, B-C05, S3-60, S3-62, S3-67: epochs start at 0, the first in-sync replica leads, the directory is known."""
    configs = (CreatableTopicConfig(name="retention.ms", value="1000"),)
    before = len(bench.log)
    answer = bench.ask(create(new(partitions=2, configs=configs)))
    [result] = answer.topics
    topic_id = result.topic_id
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    partition = PartitionRecord(
        partition_id=0,
        topic_id=topic_id,
        replicas=(1,),
        isr=(1,),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
        directories=(directory(1),),
    )
    assert bench.log[before:] == [
        TopicRecord(name="t", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1000"),
        partition,
        PartitionRecord(**{name: getattr(partition, name) for name in type(partition).__facts__} | {"partition_id": 1}),
    ]


def test_the_answer_shows_the_settings_the_topic_will_have(bench: ControllerBench) -> None:
    """S3-67, KIP-525: value and source of every key; 1 = the topic's own, 5 = default."""
    configs = (CreatableTopicConfig(name="retention.ms", value="1000"),)
    [result] = bench.ask(create(new(configs=configs))).topics
    shown = {each.name: (each.value, each.config_source) for each in result.configs}
    assert shown["retention.ms"] == ("1000", 1)
    assert shown["cleanup.policy"] == ("delete", 5)
    assert list(shown) == sorted(shown)


def test_minus_one_means_the_nodes_defaults() -> None:
    """S3-60, KIP-464: -1 partitions or replicas; without settings of the node one of each."""
    bench = active(num_partitions=4, default_replication_factor=2)
    bench.broker(1)
    bench.broker(2)
    [result] = bench.ask(create(new(partitions=-1, factor=-1))).topics
    assert (result.num_partitions, result.replication_factor) == (4, 2)
    plain = active()
    plain.broker(1)
    [result] = plain.ask(create(new(partitions=-1, factor=-1))).topics
    assert (result.num_partitions, result.replication_factor) == (1, 1)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        *[
            (name, f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
            for name in ("a/b", "a\0b", "a\nb", "a b", "\u00e9", "../x")
        ],
    ],
)
def test_names_that_are_refused(bench: ControllerBench, name: str, reason: str) -> None:
    """S3-75, B26: INVALID_TOPIC_EXCEPTION; never a path outside the log directory."""
    message = f"Topic name is invalid: {reason}"
    assert outcome(bench, new(name)) == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, message)]
    assert not bench.committed_image.topics.by_name


def test_names_at_the_edge_are_fine(bench: ControllerBench) -> None:
    """B26: 249 characters, all of the alphabet."""
    for name in ("x" * 249, "a-Z_0.9", "..."):
        assert outcome(bench, new(name)) == [(name, ErrorCode.NONE, None)]


def test_names_that_metrics_could_not_tell_apart_collide(bench: ControllerBench) -> None:
    """S3-75, B26: a.b against a_b that exists; in one request both are made, as in Kafka."""
    outcome(bench, new("a.b"))
    assert outcome(bench, new("a_b")) == [
        ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    ]
    assert [each[1] for each in outcome(bench, new("q.r"), new("q_r"))] == [ErrorCode.NONE, ErrorCode.NONE]


def test_the_metadata_topic_cannot_be_made(bench: ControllerBench) -> None:
    """B26: reserved."""
    message = "Creation of internal topic __cluster_metadata is prohibited."
    assert outcome(bench, new("__cluster_metadata")) == [("__cluster_metadata", ErrorCode.INVALID_REQUEST, message)]


def test_existing_and_repeated_names(bench: ControllerBench) -> None:
    """S3-61, B24: a topic that exists stays as it is; a name twice in one request is never done."""
    outcome(bench, new("t"))
    before = bench.committed_image.topics.by_name["t"]
    assert outcome(bench, new("t", partitions=7))[0][1] is ErrorCode.TOPIC_ALREADY_EXISTS
    assert bench.committed_image.topics.by_name["t"] is before
    assert outcome(bench, new("t"), new("dup"), new("dup"), new("fine")) == [
        ("t", ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
        ("fine", ErrorCode.NONE, None),
        ("dup", ErrorCode.INVALID_REQUEST, "Duplicate topic name."),
    ]


@pytest.mark.parametrize(
    ("partitions", "factor", "error"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS),
        (-2, 1, ErrorCode.INVALID_PARTITIONS),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 2, ErrorCode.INVALID_REPLICATION_FACTOR),
        (1, 32767, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_numbers_that_are_refused(bench: ControllerBench, partitions: int, factor: int, error: ErrorCode) -> None:
    """S3-64, S3-75, B23: a single node has replication factor 1; no topic is without partitions."""
    assert outcome(bench, new(partitions=partitions, factor=factor))[0][1] is error
    assert not bench.committed_image.topics.by_name


def test_too_few_brokers_and_only_fenced_ones() -> None:
    """B72: Kafka's words."""
    bench = active()
    assert (
        outcome(bench, new())[0][2]
        == "Unable to replicate the partition 1 time(s): All brokers are currently fenced, or have all their log directories cordoned."
    )
    bench.broker(1)
    assert outcome(bench, new(factor=3))[0][2] == (
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 1 "
        "broker(s) are registered or some brokers have all their log directories cordoned."
    )


def test_no_new_replica_is_placed_on_a_fenced_broker() -> None:
    """S3-65, D-04: where Kafka would use it last, too few live brokers are too few: INVALID_REPLICATION_FACTOR."""
    bench = active()
    bench.broker(1)
    bench.broker(2, unfenced=False)
    bench.broker(3)
    [(_, error, message)] = outcome(bench, new(partitions=1, factor=3))
    assert (error, message) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because only 2 of 3 "
        "broker(s) are not fenced.",
    )
    assert outcome(bench, new(partitions=6, factor=2))[0][1] == 0
    assert {each.replicas for each in bench.machine.image.topics.by_name["t"].partitions.values()} <= {(1, 3), (3, 1)}


def test_no_new_replica_is_placed_on_a_stopping_broker(bench: ControllerBench) -> None:
    """S3-65, KIP-841: it is live while its leaderships move, and soon is not."""
    epochs = {each: bench.broker(each) for each in (2, 3)}
    given = (CreatableReplicaAssignment(partition_index=0, broker_ids=(3, 2)),)
    assert outcome(bench, new("led", partitions=-1, factor=-1, assignments=given))[0][1] == 0
    bench.heartbeat(3, epochs[3], want_shut_down=True)
    assert bench.committed_image.cluster.brokers[3].in_controlled_shutdown
    assert outcome(bench, new(partitions=6, factor=2))[0][1] == 0
    assert {each.replicas for each in bench.machine.image.topics.by_name["t"].partitions.values()} <= {(1, 2), (2, 1)}
    assert outcome(bench, new("u", partitions=1, factor=3))[0][1] == ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize(
    ("assignments", "error", "message"),
    [
        ([(0, ())], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        ([(0, (1, 1))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        ([(0, (9,))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 9, but no such broker is registered"),
        ([(0, (1,)), (2, (1,))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        ([(-1, (1,))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based"),
        ([(0, (1,)), (0, (1,))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "multiple manual partition assignments"),
        ([(0, (1,)), (1, (1, 2))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "not consistent with previous"),
        ([(0, (3,))], ErrorCode.INVALID_REPLICA_ASSIGNMENT, "are fenced or in controlled shutdown"),
    ],
)
def test_assignments_that_are_refused(
    bench: ControllerBench, assignments: list[tuple[int, tuple[int, ...]]], error: ErrorCode, message: str
) -> None:
    """S3-66, B72: empty, repeated broker, unknown broker, uneven replication, gaps, fenced."""
    bench.broker(2)
    bench.broker(3, unfenced=False)
    given = tuple(CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in assignments)
    [(_, found, text)] = outcome(bench, new(partitions=-1, factor=-1, assignments=given))
    assert found is error
    assert message in (text or "")


def test_an_assignment_excludes_numbers(bench: ControllerBench) -> None:
    """S3-66, B72: INVALID_REQUEST with either number."""
    given = (CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),)
    assert outcome(bench, new(partitions=1, factor=-1, assignments=given))[0][1] is ErrorCode.INVALID_REQUEST
    assert outcome(bench, new(partitions=-1, factor=1, assignments=given))[0][1] is ErrorCode.INVALID_REQUEST
    assert outcome(bench, new(partitions=-1, factor=-1, assignments=given))[0][1] is ErrorCode.NONE


@pytest.mark.parametrize(
    "configs", [{"no.such.key": "1"}, {"retention.ms": "x"}, {"retention.ms": None}, {"segment.bytes": "1"}]
)
def test_bad_settings_refuse_the_topic(bench: ControllerBench, configs: dict[str, str | None]) -> None:
    """S3-75, B70: INVALID_CONFIG, and nothing is written."""
    given = tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items())
    before = len(bench.log)
    assert outcome(bench, new(configs=given))[0][1] is ErrorCode.INVALID_CONFIG
    assert len(bench.log) == before


def test_validating_writes_nothing(bench: ControllerBench) -> None:
    """S3-75, KIP-4: the same answer, no topic."""
    before = len(bench.log)
    assert bench.ask(create(new(), validate_only=True)).topics[0].error_code == 0
    assert bench.ask(create(new(factor=2), validate_only=True)).topics[0].error_code != 0
    assert len(bench.log) == before


def test_one_request_writes_at_most_ten_thousand_records(bench: ControllerBench) -> None:
    """B-C22: POLICY_VIOLATION(44) for the whole request; 9,999 partitions and their topic just fit."""
    before = len(bench.log)
    answer = bench.ask(create(new("other"), new(partitions=10_000)))
    assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    assert bench.ask(create(new(partitions=2**31 - 1))).topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert len(bench.log) == before
    assert len(bench.written(create(new(partitions=MAX_RECORDS_A_DECISION - 1)))) == MAX_RECORDS_A_DECISION


def test_one_request_writes_at_most_one_batch_of_bytes() -> None:
    """B-C22, input:B70: settings of many megabytes are refused, and the controller goes on."""
    bench = active(internal_metadata_max_batch_size_in_bytes=100_000)
    bench.broker(1)
    assert bench.ask(create(*[new(f"t{n}", partitions=400) for n in range(9)])).topics[0].error_code != 0
    assert bench.ask(create(new())).topics[0].error_code == 0


def test_ids_are_new_and_name_and_id_are_one_to_one(bench: ControllerBench) -> None:
    """C12, S1-35: the same name again has another id."""
    first = bench.ask(create(new())).topics[0].topic_id
    bench.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1))
    second = bench.ask(create(new())).topics[0].topic_id
    assert first != second
    assert ZERO_UUID not in (first, second)


def test_a_deletion_is_one_record_however_many_partitions(bench: ControllerBench) -> None:
    """S1-36."""
    topic_id = bench.ask(create(new(partitions=100))).topics[0].topic_id
    request = DeleteTopicsRequest(topics=(DeleteTopicState(topic_id=topic_id),), timeout_ms=1)
    assert bench.written(request) == [RemoveTopicRecord(topic_id=topic_id)]


def deleted(bench: ControllerBench, *states: DeleteTopicState) -> list[tuple[str | None, Uuid, ErrorCode]]:
    """(name, id, error) of each."""
    answer = bench.ask(DeleteTopicsRequest(topics=states, timeout_ms=1))
    return [(each.name, each.topic_id, ErrorCode(each.error_code)) for each in answer.responses]


def test_deletions_that_are_refused(bench: ControllerBench) -> None:
    """B24, B27: neither, both, twice, unknown, and a name whose id was given too."""
    topic_id = bench.ask(create(new())).topics[0].topic_id
    by_name, by_id = DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id)
    invalid = ErrorCode.INVALID_REQUEST
    assert deleted(bench, DeleteTopicState()) == [(None, ZERO_UUID, invalid)]
    assert deleted(bench, DeleteTopicState(name="t", topic_id=topic_id)) == [("t", topic_id, invalid)]
    assert deleted(bench, by_name, by_name) == [("t", ZERO_UUID, invalid)]
    assert deleted(bench, by_id, by_id) == [(None, topic_id, invalid)]
    assert deleted(bench, by_id, by_name) == [("t", topic_id, invalid)]
    assert deleted(bench, DeleteTopicState(name="x")) == [("x", ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert deleted(bench, DeleteTopicState(topic_id=UNKNOWN)) == [(None, UNKNOWN, ErrorCode.UNKNOWN_TOPIC_ID)]
    assert "t" in bench.committed_image.topics.by_name
    assert deleted(bench, by_name) == [("t", topic_id, ErrorCode.NONE)]


def test_old_versions_delete_by_name(bench: ControllerBench) -> None:
    """DeleteTopics v1-5."""
    bench.ask(create(new()))
    answer = bench.ask(DeleteTopicsRequest(topic_names=("t", "x"), timeout_ms=1), version=4)
    assert {each.name: each.error_code for each in answer.responses} == {"t": 0, "x": 3}


@pytest.mark.parametrize(("version", "error"), [(2, 42), (3, 73), (6, 73)])
def test_deletion_may_be_disabled(version: int, error: int) -> None:
    """S3-71: TOPIC_DELETION_DISABLED; versions before 3 do not know that code."""
    bench = active(delete_topic_enable=False)
    request = DeleteTopicsRequest(topic_names=("t",), timeout_ms=1)
    assert bench.ask(request, version=version).responses[0].error_code == error


def more(count: int, *assignments: tuple[int, ...], name: str = "t", manual: bool = False) -> CreatePartitionsRequest:
    """More partitions."""
    given = tuple(CreatePartitionsAssignment(broker_ids=each) for each in assignments)
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given if assignments or manual else None)
    return CreatePartitionsRequest(topics=(topic,), timeout_ms=1)


def test_partitions_are_added_behind_the_present_ones(bench: ControllerBench) -> None:
    """S3-69, C12: numbered on without gaps, as many replicas as the others."""
    bench.ask(create(new(partitions=2)))
    records = bench.written(more(4))
    assert [record.partition_id for record in records if isinstance(record, PartitionRecord)] == [2, 3]
    assert len(records) == 2
    assert [r.replicas for r in bench.written(more(5, (1,))) if isinstance(r, PartitionRecord)] == [(1,)]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (more(2), ErrorCode.INVALID_PARTITIONS),
        (more(1), ErrorCode.INVALID_PARTITIONS),
        (more(0), ErrorCode.INVALID_PARTITIONS),
        (more(-1), ErrorCode.INVALID_PARTITIONS),
        (more(3, name="x"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (more(4, (1,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, manual=True), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, (9,)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, (1, 1)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(3, ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (more(20_003), ErrorCode.POLICY_VIOLATION),
        (more(2**31 - 1), ErrorCode.POLICY_VIOLATION),
    ],
)
def test_more_partitions_that_are_refused(
    bench: ControllerBench, request_: CreatePartitionsRequest, error: ErrorCode
) -> None:
    """S3-69, B72, B23, B-C22: a count that is not above the present one is INVALID_PARTITIONS."""
    bench.ask(create(new(partitions=2)))
    before = len(bench.log)
    assert bench.ask(request_).results[0].error_code == error
    assert len(bench.log) == before


def test_a_topic_named_twice_gets_no_partitions(bench: ControllerBench) -> None:
    """B24."""
    bench.ask(create(new()))
    topic = CreatePartitionsTopic(name="t", count=2, assignments=None)
    answer = bench.ask(CreatePartitionsRequest(topics=(topic, topic), timeout_ms=1))
    assert [each.error_message for each in answer.results] == ["Duplicate topic name."]
    answer = bench.ask(CreatePartitionsRequest(topics=(topic,), timeout_ms=1, validate_only=True))
    assert answer.results[0].error_code == 0
    assert len(bench.committed_image.topics.by_name["t"].partitions) == 1


def test_a_topic_by_a_repeated_id_and_its_name_is_not_deleted(bench: ControllerBench) -> None:
    """B24, S1-36: as Kafka, which refuses both."""
    topic_id = bench.ask(create(new("twice"))).topics[0].topic_id
    by_id = DeleteTopicState(topic_id=topic_id)
    answer = bench.ask(DeleteTopicsRequest(topics=(by_id, by_id, DeleteTopicState(name="twice")), timeout_ms=1))
    assert {each.error_code for each in answer.responses} == {ErrorCode.INVALID_REQUEST}
    assert "twice" in bench.committed_image.topics.by_name


@pytest.mark.parametrize(
    "topics",
    [
        (("a", 6_000), ("b", 6_000)),
        (("taken", 6_000), ("b", 6_000)),
        (("a", 10_001),),
    ],
)
def test_the_partitions_of_a_request_are_counted_together(
    bench: ControllerBench, topics: tuple[tuple[str, int], ...]
) -> None:
    """B-C22, B25: before any topic is looked at, as Kafka does; none is created."""
    assert bench.ask(create(new("taken"))).topics[0].error_code == 0
    before = bench.committed_image.topics
    answer = bench.ask(create(*[new(name, count) for name, count in topics]))
    message = "Excessively large number of partitions per request."
    assert {(each.error_code, each.error_message) for each in answer.topics} == {(ErrorCode.POLICY_VIOLATION, message)}
    assert bench.committed_image.topics is before
