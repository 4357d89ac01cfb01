"""The cause that each decision writes into the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.controller.events import Answer, AppendRecords, BrokerUnreachable, RequestArrived, RequestCause
from headrace.core.ids import LOST_DIRECTORY
from headrace.metadata.cause import Cause, CauseKind, decode_caused
from headrace.metadata.loader import MetadataLoader
from headrace.wire.messages import alter_partition_reassignments as moving
from headrace.wire.messages import assign_replicas_to_dirs as assign
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.schema import Message
from headrace.wire.versions import ApiKey
from tests.support.controller import CommittedAppend, ControllerBench, active, incarnation, registration
from tests.support.partitions import cluster, fence, join, partition, topic


class Told:
    """What was written since it was made: each record with the cause that holds for it."""

    def __init__(self, bench: ControllerBench) -> None:
        self._bench = bench
        self._appends: list[AppendRecords] = []
        take = bench.take

        def listening(effects: Any) -> Any:
            self._appends += [each for each in effects if isinstance(each, AppendRecords)]
            return take(effects)

        bench.take = listening  # type: ignore[method-assign]

    def all(self) -> list[tuple[Message, Cause | None]]:
        """The records with their causes."""
        found: list[tuple[Message, Cause | None]] = []
        for append in self._appends:
            running: Cause | None = None
            for data in append.records:
                record, cause = decode_caused(data)
                running = cause or running
                found.append((record, running))
        return found

    def kinds(self) -> list[tuple[str, int | None, int]]:
        """Class of the record, kind of its cause, and the broker that it is about."""
        return [
            (
                type(record).__name__.removesuffix("Record"),
                *((None, -1) if cause is None else (cause.kind, cause.broker_id)),
            )
            for record, cause in self.all()
        ]


def test_every_record_but_no_ops_has_a_cause() -> None:
    """S3-08: from the first records of an empty log on."""
    bench = ControllerBench(metadata_max_idle_interval_ms=500)
    told = Told(bench)
    bench.gain()
    bench.broker(1)
    bench.broker(2)
    topic(bench, (1, 2))
    bench.advance(1_000)
    with_none = {type(record) for record, cause in told.all() if cause is None}
    assert with_none == {NoOpRecord}
    assert told.kinds()[0][1] == CauseKind.ACTIVATION


def test_a_request_says_who_asked_and_through_which_broker() -> None:
    """S3-08: api, principal, client, address, correlation; a client's long id is cut."""
    bench, _ = cluster()
    told = Told(bench)
    asker = RequestCause(
        api_version=7,
        principal="User:alice",
        client_id="x" * 500,
        client_host="10.0.0.7",
        listener="PLAINTEXT",
        correlation_id=42,
        through=2,
    )
    request = CreateTopicsRequest(topics=(CreatableTopic(name="a", num_partitions=3, replication_factor=1),))
    event = RequestArrived(token=77, request=request, cause=asker, now_ms=bench.now_ms, deadline_ms=bench.now_ms + 9)
    bench.take(bench.machine.step(event))
    causes = {cause for _, cause in told.all()}
    assert causes == {
        Cause(
            kind=CauseKind.REQUEST,
            api_key=ApiKey.CREATE_TOPICS,
            principal="User:alice",
            client_id="x" * 63 + "…",
            client_host="10.0.0.7",
            correlation_id=42,
            through=2,
            listener="PLAINTEXT",
        )
    }
    [append] = told._appends
    assert [decode_caused(each)[1] is None for each in append.records] == [False, True, True, True]


def test_a_fence_says_what_it_comes_from() -> None:
    """S3-01, S2-20, S2-22: silence, a refused connection and the broker's own wish are told apart, for each partition that it moves."""
    bench, epochs = cluster(4)
    topic(bench, (1, 2, 3, 4))
    for leader in (1, 2, 3):
        join(bench, leader, epochs, tuple(range(leader, 5)))
        told = Told(bench)
        if leader == 1:
            fence(bench, 1, epochs[1])
        elif leader == 2:
            event = BrokerUnreachable(broker_id=2, broker_epoch=epochs[2], now_ms=bench.now_ms)
            bench.take(bench.machine.step(event))
            bench.commit()
        else:
            for _ in range(40):
                bench.advance(500)
                bench.heartbeat(4, epochs[4])
        kind = {1: CauseKind.OWN_WISH, 2: CauseKind.CONNECTION_REFUSED, 3: CauseKind.SESSION_EXPIRED}[leader]
        assert told.kinds() == [("PartitionChange", kind, leader), ("BrokerRegistrationChange", kind, leader)]


def test_a_stop_has_two_causes_and_a_start_two() -> None:
    """S1-57, B-C25: leaderships move for the shutdown, the fence comes with its end; registration and unfencing are two things."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2), (2, 1))
    join(bench, 1, epochs, (1, 2))
    told = Told(bench)
    bench.heartbeat(1, epochs[1], want_shut_down=True)
    bench.heartbeat(2, epochs[2])
    bench.heartbeat(1, epochs[1], want_shut_down=True)
    epoch = bench.broker(1, incarnation_id=incarnation(9))
    bench.heartbeat(1, epoch)
    assert [each[1:] for each in told.kinds()] == [
        *[(CauseKind.CONTROLLED_SHUTDOWN, 1)] * 3,
        (CauseKind.SHUT_DOWN, 1),
        (CauseKind.REGISTERED, 1),
        (CauseKind.UNFENCED, 1),
    ]


def test_a_process_that_replaces_one_that_was_not_fenced_takes_its_leaderships_away() -> None:
    """S1-50: an unclean registration; the partition that moves says so."""
    bench, _ = cluster(2)
    topic(bench, (1, 2))
    bench.listener = ""
    told = Told(bench)
    bench.ask(registration(1, incarnation_id=incarnation(9)))
    assert told.kinds() == [("PartitionChange", CauseKind.REGISTERED, 1), ("RegisterBroker", CauseKind.REGISTERED, 1)]


def test_what_brokers_ask_is_told_by_the_broker() -> None:
    """S3-43: another ISR, directories, and producer ids."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    told = Told(bench)
    join(bench, 1, epochs, (1,))
    topic_id = bench.machine.image.topics.by_name["t"].id
    there = assign.RequestTopicData(topic_id=topic_id, partitions=(assign.RequestPartitionData(),))
    asked = assign.RequestDirectoryData(id=LOST_DIRECTORY, topics=(there,))
    bench.ask(assign.AssignReplicasToDirsRequest(broker_id=2, broker_epoch=epochs[2], directories=(asked,)))
    bench.ask(AllocateProducerIdsRequest(broker_id=2, broker_epoch=epochs[2]))
    directory = bench.machine.image.cluster.brokers[1].log_dirs[0]
    bench.heartbeat(1, epochs[1], offline_log_dirs=(directory,))
    kinds = told.kinds()
    assert kinds[0] == ("PartitionChange", CauseKind.ISR_CHANGE, 1)
    assert ("PartitionChange", CauseKind.DIRECTORIES_ASSIGNED, 2) in kinds
    assert ("ProducerIds", CauseKind.PRODUCER_IDS, 2) in kinds
    assert kinds[-1] == ("BrokerRegistrationChange", CauseKind.DIRECTORY_FAILED, 1)


def test_elections_reassignments_deletions_and_unregistrations_are_requests() -> None:
    """S3-43, S3-02: who asked is in each; an election says which one."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2), (2, 3))
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 1))
    told = Told(bench)
    bench.ask(ElectLeadersRequest(election_type=0, topic_partitions=(TopicPartitions(topic="t", partitions=(0,)),)))
    target = moving.ReassignablePartition(partition_index=1, replicas=(3, 1))
    bench.ask(
        moving.AlterPartitionReassignmentsRequest(topics=(moving.ReassignableTopic(name="t", partitions=(target,)),))
    )
    bench.ask(UnregisterBrokerRequest(broker_id=3))
    bench.ask(DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),), timeout_ms=1))
    found = [(cause.api_key, cause.broker_id, cause.election) for _, cause in told.all() if cause is not None]
    assert found == [
        (ApiKey.ELECT_LEADERS, -1, 0),
        (ApiKey.ALTER_PARTITION_REASSIGNMENTS, -1, -1),
        (ApiKey.UNREGISTER_BROKER, 3, -1),
        (ApiKey.UNREGISTER_BROKER, 3, -1),
        (ApiKey.DELETE_TOPICS, -1, -1),
    ]


def test_what_time_brings_is_told_as_such() -> None:
    """S2-24, B-C26: the balancer, and the election of leaders that may lose records."""
    bench, epochs = cluster(2, leader_imbalance_check_interval_seconds=5, unclean_leader_election_interval_ms=2_000)
    topic(bench, (1, 2))
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 1))
    told = Told(bench)
    for _ in range(12):
        bench.advance(500)
        for broker_id in (1, 2):
            bench.heartbeat(broker_id, epochs[broker_id])
    assert told.kinds() == [("PartitionChange", CauseKind.BALANCING, -1)]
    assert partition(bench).leader == 1


def test_each_batch_of_a_large_decision_stands_alone() -> None:
    """S3-08, B-C22: the first record of each batch has the cause, the others of it none, so that it costs no more than some bytes a batch."""
    bench, epochs = cluster(2, internal_metadata_max_batch_size_in_bytes=2_048)
    for number in range(12):
        topic(bench, *[(1, 2)] * 10, name=f"t{number}")
    told = Told(bench)
    fence(bench, 1, epochs[1])
    assert len(told._appends) > 2
    for append in told._appends:
        assert [decode_caused(each)[1] is not None for each in append.records] == [
            True, *[False] * (len(append.records) - 1),
        ]  # fmt: skip
    assert {each[1:] for each in told.kinds()} == {(CauseKind.OWN_WISH, 1)}
    assert all(sum(map(len, append.records)) + 20 * len(append.records) <= 2_048 for append in told._appends)


def test_without_causes_the_log_is_as_kafkas_and_says_the_same() -> None:
    """inv:C2: `headrace.record.causes=false` changes bytes, not the image."""
    images = []
    for is_on in (True, False):
        bench, epochs = cluster(2, headrace_record_causes=is_on)
        topic(bench, (1, 2))
        told = Told(bench)
        fence(bench, 1, epochs[1])
        assert all((cause is not None) is is_on for _, cause in told.all())
        images.append(bench.committed_image)
    assert images[0] == images[1]


def test_the_image_read_back_from_caused_records_is_the_one_that_was_decided() -> None:
    """inv:C2: a follower of the log that knows nothing of causes comes to the same."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2))
    fence(bench, 1, epochs[1])
    loader = MetadataLoader()
    loader.load_batches(
        [CommittedAppend(offset, (data,), bench.epoch) for offset, data in sorted(bench.written_bytes.items())]
    )
    assert replace(loader.image, provenance=bench.committed_image.provenance) == bench.committed_image


def test_a_decision_that_fills_a_batch_keeps_the_kind_of_its_cause() -> None:
    """B-C22: a record that hardly fits a batch goes without what the client says of itself, not without its cause."""
    bench = active(internal_metadata_max_batch_size_in_bytes=1_024)
    told = Told(bench)
    name = "n" * 240
    cause = RequestCause(api_version=7, client_id="c" * 64, principal="User:" + "p" * 59, client_host="h" * 64)
    request = CreateTopicsRequest(topics=(CreatableTopic(name=name, num_partitions=1, replication_factor=1),))
    bench.broker(1)
    event = RequestArrived(token=9, request=request, cause=cause, now_ms=bench.now_ms, deadline_ms=bench.now_ms + 9)
    effects = bench.machine.step(event)
    assert not any(isinstance(each, Answer) for each in effects)
    bench.take(effects)
    kinds = told.kinds()
    assert [each[1] for each in kinds[-2:]] == [CauseKind.REQUEST] * 2
    assert not any(isinstance(record, PartitionChangeRecord) for record, _ in told.all())
