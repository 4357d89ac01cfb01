"""Leaders on request, preferred leaders brought back, unclean leaders where a topic allows them."""

from __future__ import annotations

import pytest

from headrace.controller.events import BrokerUnreachable
from headrace.controller.refusals import refused
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, Uuid
from headrace.metadata.image import LEADER_RECOVERING, NO_LEADER, PartitionRegistration
from headrace.wire.codec import decode, encode
from headrace.wire.messages import assign_replicas_to_dirs as assign
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from headrace.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.controller import ControllerBench, active, directory
from tests.support.partitions import cluster, end, fence, join, partition, topic

PREFERRED, UNCLEAN = 0, 1
BALANCE_MS = 300_000


def elect(bench: ControllerBench, kind: int, *numbers: int, name: str = "t") -> list[int]:
    """The error codes of an election."""
    asked = TopicPartitions(topic=name, partitions=numbers)
    answer = bench.ask(ElectLeadersRequest(election_type=kind, topic_partitions=(asked,)))
    return [each.error_code for each in answer.replica_election_results[0].partition_result]


def in_directory(bench: ControllerBench, epoch: int, where: Uuid) -> PartitionRegistration:
    """The first partition once broker 1 said that its replica is in that directory."""
    topic_id = bench.machine.image.topics.by_name["t"].id
    there = assign.RequestTopicData(topic_id=topic_id, partitions=(assign.RequestPartitionData(),))
    asked = assign.RequestDirectoryData(id=where, topics=(there,))
    answer = bench.ask(assign.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epoch, directories=(asked,)))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    return partition(bench)


def test_the_preferred_replica_leads_again_when_asked() -> None:
    """S2-07, S3-77, KIP-183: it must be in sync; the leader epoch rises by one (inv:C6)."""
    bench, epochs = cluster()
    topic(bench, (1, 2), (2, 1))
    fence(bench, 1, epochs[1])
    assert partition(bench).leader == 2
    bench.heartbeat(1, epochs[1])
    assert elect(bench, PREFERRED, 0, 1) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELECTION_NOT_NEEDED]
    join(bench, 2, epochs, (2, 1))
    before = partition(bench)
    assert elect(bench, PREFERRED, 0, 7) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    after = partition(bench)
    assert (after.leader, after.isr) == (1, (2, 1))
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch + 1, before.partition_epoch + 1)
    assert elect(bench, PREFERRED, 0) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_an_election_of_an_unknown_type_is_refused() -> None:
    """S3-77, input:B23: INVALID_REQUEST, whatever a newer client means by it; nobody leads that did not before."""
    bench, epochs = cluster()
    topic(bench, (1, 2))
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 1))
    asked = TopicPartitions(topic="t", partitions=(0,))
    answer = bench.ask(ElectLeadersRequest(election_type=2, topic_partitions=(asked,)))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert partition(bench).leader == 2


def test_a_preferred_election_that_would_elect_another_replica_is_refused() -> None:
    """S2-07, inv:H13: NONE says that the preferred replica leads (Kafka 4.3.1 says so of any replica that it elected); a refusal changes nothing."""
    bench, epochs = cluster(3)
    topic(bench, *[(1, 2, 3)] * 3)
    for number in range(3):
        join(bench, 1, epochs, (1, 2, 3), number=number)
    fence(bench, 1, epochs[1])
    bench.machine.slice_size = 1
    led_by = {each.leader for each in bench.machine.image.topics.by_name["t"].partitions.values()}
    assert led_by == {2}
    bench.take(
        bench.machine.step(BrokerUnreachable(broker_id=2, broker_epoch=epochs[2], now_ms=bench.now_ms))
    )  # it leaves, slice by slice: partition 2 is still led by it
    before = partition(bench, 2)
    assert elect(bench, PREFERRED, 2) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]
    assert (before.leader, partition(bench, 2)) == (2, before)


def test_a_preferred_election_gives_a_partition_without_a_leader_any_that_is_in_sync() -> None:
    """S2-07: as in Kafka, where the preferred replica is away and nobody leads; it waits for no slice of the broker that came back."""
    bench, epochs = cluster()
    topic(bench, *[(2, 1)] * 2)
    for number in range(2):
        join(bench, 2, epochs, (2, 1), number=number)
    for broker_id in (2, 1):
        fence(bench, broker_id, epochs[broker_id])
    assert {partition(bench, number).leader for number in range(2)} == {NO_LEADER}
    bench.machine.slice_size = 1
    bench.send(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], current_metadata_offset=bench.next_offset - 1)
    )
    assert [partition(bench, number).leader for number in range(2)] == [1, NO_LEADER]
    assert elect(bench, PREFERRED, 1) == [0]
    assert partition(bench, 1).leader == 1


def test_an_unclean_election_is_marked_and_counted() -> None:
    """B-C26, S3-34, inv:C11: the leader is alone in the ISR and RECOVERING; without a live replica there is none."""
    bench, epochs = cluster()
    topic(bench, (1, 2))
    fence(bench, 2, epochs[2])
    fence(bench, 1, epochs[1])
    assert (partition(bench).leader, partition(bench).isr) == (NO_LEADER, (1,))
    assert elect(bench, UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert bench.heartbeat(2, epochs[2]).is_fenced is False
    assert partition(bench).leader == NO_LEADER
    assert elect(bench, UNCLEAN, 0) == [0]
    after = partition(bench)
    assert (after.leader, after.isr, after.leader_recovery_state) == (2, (2,), LEADER_RECOVERING)
    assert bench.machine.statistics.unclean_elections == 1
    assert elect(bench, UNCLEAN, 0) == [ErrorCode.ELECTION_NOT_NEEDED]


def test_an_unclean_election_of_a_partition_that_has_not_recovered_is_counted_too() -> None:
    """inv:C11: in Kafka too each election of a leader that was not in sync counts, whatever the mark says."""
    bench, epochs = cluster()
    topic(bench, (1, 2, 3), unclean_leader_election_enable="true")
    join(bench, 1, epochs, (1,))
    fence(bench, 1, epochs[1])
    assert (partition(bench).leader, partition(bench).leader_recovery_state) == (2, LEADER_RECOVERING)
    fence(bench, 2, epochs[2])
    assert (partition(bench).leader, partition(bench).leader_recovery_state) == (3, LEADER_RECOVERING)
    assert bench.machine.statistics.unclean_elections == 2
    join(bench, 3, epochs, (3,))
    bench.heartbeat(2, epochs[2])
    join(bench, 3, epochs, (3, 2))
    fence(bench, 3, epochs[3])
    assert (partition(bench).leader, bench.machine.statistics.unclean_elections) == (2, 2)


def test_an_election_of_all_tells_only_what_was_needed() -> None:
    """S2-07, KIP-460: topic partitions null; every topic is named."""
    bench, epochs = cluster()
    topic(bench, (1, 2), (2, 1))
    topic(bench, (3,), name="other")
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    answer = bench.ask(ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None))
    found = {each.topic: each.partition_result for each in answer.replica_election_results}
    assert [(each.partition_id, each.error_code) for each in found["t"]] == [
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    ]
    assert found["other"] == ()


def test_leaders_go_back_to_the_preferred_replica_at_their_time() -> None:
    """S2-11, S3-89: `leader.imbalance.check.interval.seconds`; the event does it, not the timer."""
    bench, epochs = cluster(broker_session_timeout_ms=10**9)
    topic(bench, (1, 2))
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 1))
    bench.advance(BALANCE_MS - 500)
    assert partition(bench).leader == 2
    bench.advance(1_000)
    assert partition(bench).leader == 1


def test_balancing_can_be_turned_off() -> None:
    """S2-11: `auto.leader.rebalance.enable`."""
    bench, epochs = cluster(broker_session_timeout_ms=10**9, auto_leader_rebalance_enable=False)
    topic(bench, (1, 2))
    fence(bench, 1, epochs[1])
    bench.heartbeat(1, epochs[1])
    join(bench, 2, epochs, (2, 1))
    bench.advance(2 * BALANCE_MS)
    assert partition(bench).leader == 2


@pytest.mark.parametrize("order", ["stopping first", "balancing at every step"])
def test_balancing_never_brings_a_stopping_broker_back(order: str) -> None:
    """S2-24, inv:C7, inv:C15: a controlled shutdown ends though leaders are balanced all the time."""
    bench, epochs = cluster(broker_session_timeout_ms=10**9, leader_imbalance_check_interval_seconds=1)
    topic(bench, (1, 2), (1, 3), (2, 1))
    is_done = False
    for _ in range(4):
        if order != "stopping first":
            bench.advance(1_000)
            bench.commit()
        is_done = is_done or bench.heartbeat(1, epochs[1], want_shut_down=True).should_shut_down
        for other in (2, 3):
            bench.heartbeat(other, epochs[other])
    assert is_done
    bench.advance(5_000)
    assert all(partition(bench, number).leader != 1 for number in range(3))


def test_the_unclean_sweep_comes_at_its_time() -> None:
    """B-C26, S3-34: `unclean.leader.election.interval.ms`; a topic that does not allow it keeps waiting."""
    bench, epochs = cluster(broker_session_timeout_ms=10**9)
    topic(bench, (1, 2))
    topic(bench, (1, 2), name="strict")
    for broker_id in (2, 1):
        fence(bench, broker_id, epochs[broker_id])
    bench.heartbeat(2, epochs[2])
    setting = AlterableConfig(name="unclean.leader.election.enable", config_operation=0, value="true")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=(setting,))
    assert bench.ask(IncrementalAlterConfigsRequest(resources=(resource,))).responses[0].error_code == 0
    assert partition(bench).leader == NO_LEADER
    bench.advance(500)
    assert (partition(bench).leader, partition(bench).leader_recovery_state) == (2, LEADER_RECOVERING)
    assert partition(bench, name="strict").leader == NO_LEADER
    bench.advance(2 * BALANCE_MS)
    assert partition(bench, name="strict").leader == NO_LEADER


def test_a_broker_with_its_directory_offline_is_not_elected() -> None:
    """B-K08, KIP-858: active is not enough, the replica's directory must be online."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    epochs = {1: bench.broker(1), 2: bench.broker(2, log_dirs=(directory(2), spare))}
    topic(bench, (1, 2))
    topic_id = bench.machine.image.topics.by_name["t"].id
    where = assign.RequestDirectoryData(
        id=spare, topics=(assign.RequestTopicData(topic_id=topic_id, partitions=(assign.RequestPartitionData(),)),)
    )
    answer = bench.ask(assign.AssignReplicasToDirsRequest(broker_id=2, broker_epoch=epochs[2], directories=(where,)))
    assert answer.directories[0].topics[0].partitions[0].error_code == 0
    assert partition(bench).directory_of(2) == spare
    bench.heartbeat(2, epochs[2], offline_log_dirs=(spare,))
    assert partition(bench).isr == (1,)
    assert bench.machine.image.cluster.brokers[2].log_dirs == (directory(2),)
    fence(bench, 1, epochs[1])
    assert partition(bench).leader == NO_LEADER
    assert elect(bench, UNCLEAN, 0) == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


@pytest.mark.parametrize(("version", "of_all"), [(0, ErrorCode.NONE), (2, ErrorCode.REQUEST_TIMED_OUT)])
def test_a_refused_election_says_only_what_its_version_can(version: int, of_all: ErrorCode) -> None:
    """KIP-460, input:B23: version 0 has no error for the whole, only one for each partition."""
    asked = ElectLeadersRequest(topic_partitions=(TopicPartitions(topic="t", partitions=(3,)),))
    refusal = refused(asked, PeerError(ErrorCode.REQUEST_TIMED_OUT, "too late"), api_version=version)
    answer = decode(ElectLeadersResponse, encode(refusal, version), version)
    assert answer.error_code == of_all
    assert answer.replica_election_results[0].partition_result[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_a_broker_with_a_new_disk_leads_from_it() -> None:
    """KIP-858, inv:CL2: a broker that comes back with one other directory has its replicas there and nowhere else."""
    bench, epochs = cluster(3)
    topic(bench, (1, 2), (2, 1), (2, 3))
    topic(bench, (1,), name="alone")
    fence(bench, 1, epochs[1])
    end(bench, 1)
    disk = Uuid(bytes([251]) * 16)
    epochs[1] = bench.broker(1, incarnation_id=Uuid(bytes([77]) * 16), log_dirs=(disk,))
    assert [partition(bench, number).directory_of(1) for number in (0, 1)] == [disk, disk]
    assert partition(bench, 2).directories == (directory(2), directory(3))
    assert (partition(bench, name="alone").leader, partition(bench, name="alone").directories) == (1, (disk,))
    assert partition(bench, 1).isr == (2,)
    join(bench, 2, epochs, (2, 1), number=1)
    fence(bench, 2, epochs[2])
    assert partition(bench, 1).leader == 1


@pytest.mark.parametrize("lost", [LOST_DIRECTORY, Uuid(bytes([251]) * 16)])
def test_a_replica_in_a_lost_directory_does_not_lead(lost: Uuid) -> None:
    """B-K08, KIP-858: its directory failed before the controller knew that it is there; the broker says so when it assigns it."""
    bench, epochs = cluster(2)
    topic(bench, (1, 2), (2, 1))
    topic_id = bench.machine.image.topics.by_name["t"].id
    both = tuple(assign.RequestPartitionData(partition_index=number) for number in (0, 1))
    where = assign.RequestDirectoryData(id=lost, topics=(assign.RequestTopicData(topic_id=topic_id, partitions=both),))
    answer = bench.ask(assign.AssignReplicasToDirsRequest(broker_id=1, broker_epoch=epochs[1], directories=(where,)))
    assert [each.error_code for each in answer.directories[0].topics[0].partitions] == [0, 0]
    assert [(partition(bench, n).leader, partition(bench, n).isr) for n in (0, 1)] == [(2, (2,)), (2, (2,))]
    assert partition(bench).directory_of(1) == lost


def test_a_replica_that_is_not_placed_yet_leads() -> None:
    """KIP-858, B-C31: of a broker with several directories; it says later in which of them the replica is."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    epoch = bench.broker(1, log_dirs=(directory(1), spare))
    topic(bench, (1,))
    assert partition(bench).directories == (UNASSIGNED_DIRECTORY,)
    fence(bench, 1, epoch)
    assert partition(bench).leader == NO_LEADER
    bench.heartbeat(1, epoch)
    assert partition(bench).leader == 1


def test_a_directory_that_is_lost_while_others_move_is_left_as_things_are_then() -> None:
    """B-K08, inv:C5: its moves wait behind those of another broker, and topics come and go meanwhile."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    epochs = {1: bench.broker(1), 2: bench.broker(2), 3: bench.broker(3, log_dirs=(directory(3), spare))}
    topic(bench, (1, 2), (2, 1), name="moves")
    topic(bench, (3, 2), name="goes")
    bench.machine.slice_size = 1
    bench.send(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], want_fence=True))
    bench.send(
        BrokerHeartbeatRequest(
            broker_id=3, broker_epoch=epochs[3], current_metadata_offset=1 << 40, offline_log_dirs=(spare,)
        )
    )
    bench.send(DeleteTopicsRequest(topics=(DeleteTopicState(name="goes"),)))
    bench.send(CreateTopicsRequest(topics=(CreatableTopic(name="t", num_partitions=1, replication_factor=3),)))
    for _ in range(12):
        bench.advance(1)
    bench.commit()
    assert bench.machine.image.cluster.brokers[1].fenced
    assert bench.machine.image.cluster.brokers[3].log_dirs == (directory(3),)


def test_a_replica_found_in_an_offline_directory_stops_leading_at_once() -> None:
    """inv:C25, KIP-858: where it is and that it does not lead there is told at once, also while the moves of another broker come first."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    epochs = {1: bench.broker(1), 2: bench.broker(2), 3: bench.broker(3, log_dirs=(directory(3), spare))}
    topic(bench, (1, 2), (2, 1), name="moves")
    topic(bench, (3, 2))
    bench.heartbeat(3, epochs[3], offline_log_dirs=(spare,))
    bench.machine.slice_size = 1
    bench.send(BrokerHeartbeatRequest(broker_id=1, broker_epoch=epochs[1], want_fence=True))
    topic_id = bench.machine.image.topics.by_name["t"].id
    there = assign.RequestTopicData(topic_id=topic_id, partitions=(assign.RequestPartitionData(),))
    where = assign.RequestDirectoryData(id=spare, topics=(there,))
    bench.send(assign.AssignReplicasToDirsRequest(broker_id=3, broker_epoch=epochs[3], directories=(where,)))
    seen = []
    for _ in range(12):
        bench.commit()
        now = partition(bench)
        seen.append((now.leader, now.directory_of(3) == spare))
        bench.advance(1)
    assert list(dict.fromkeys(seen)) == [(3, False), (2, True)]


def test_a_replica_that_moves_to_a_directory_that_works_leads_again() -> None:
    """inv:CL2, KIP-858: the directory that it is told to be in decides, not the one that it was in."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    epoch = bench.broker(1, log_dirs=(directory(1), spare))
    topic(bench, (1,))
    assert in_directory(bench, epoch, spare).leader == 1
    bench.heartbeat(1, epoch, offline_log_dirs=(spare,))
    assert partition(bench).leader == NO_LEADER
    assert in_directory(bench, epoch, directory(1)).leader == 1


def test_a_directory_that_is_offline_stays_so_until_the_broker_starts_anew() -> None:
    """inv:CL2, inv:C25, KIP-858: a process that registers again names all its directories, also those that it said are offline."""
    bench = active()
    spare = Uuid(bytes([250]) * 16)
    both = (directory(1), spare)
    epoch = bench.broker(1, log_dirs=both)
    topic(bench, (1,))
    in_directory(bench, epoch, spare)
    bench.heartbeat(1, epoch, offline_log_dirs=(spare,))
    assert bench.broker(1, unfenced=False, log_dirs=both) == epoch
    again = bench.machine.image.cluster.brokers[1]
    assert (again.log_dirs, partition(bench).leader) == ((directory(1),), NO_LEADER)
    fence(bench, 1, epoch)
    end(bench, 1)
    bench.broker(1, incarnation_id=Uuid(bytes([77]) * 16), log_dirs=both)
    anew = bench.machine.image.cluster.brokers[1]
    assert (anew.log_dirs, partition(bench).leader) == (both, 1)
