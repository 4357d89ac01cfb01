"""Made-up reassignments, elections and reads: what breaks a rule is flagged, what only comes near is not."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.controller.events import TimeAdvanced
from headrace.core.ids import Uuid
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.raft.events import QuorumState
from headrace.sim.checkers import JUDGES
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.sim.checkers.history import History
from headrace.sim.checkers.liveness import Liveness
from headrace.sim.checkers.reads import Reads
from headrace.sim.checkers.reassignments import Reassignments
from headrace.sim.observation import Outcome
from headrace.wire.messages import alter_partition_reassignments as moves
from headrace.wire.messages import describe_configs, describe_topic_partitions, elect_leaders, metadata
from headrace.wire.messages import list_partition_reassignments as listing
from headrace.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from headrace.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import breaks
from tests.support.made_up_metadata import TOPIC, Calling, Reigning, image_of, partition, registered, usual_records


def _change(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)


def _asked(replicas: tuple[int, ...] | None) -> moves.AlterPartitionReassignmentsRequest:
    asked = moves.ReassignablePartition(partition_index=0, replicas=replicas)
    return moves.AlterPartitionReassignmentsRequest(topics=(moves.ReassignableTopic(name="t", partitions=(asked,)),))


class OneTopic(Calling):
    """One client; topic `t` with partition 0 on brokers 1 and 2, written and committed."""

    def __init__(self, *groups: Any) -> None:
        super().__init__(*groups)
        self.write([TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(1, 2))])
        self.catch_up(1)

    def catch_up(self, node_id: int) -> None:
        """The node's readers get everything that is committed."""
        image = self.ghost.committed.image_at(self.ghost.committed.end)
        self.node(node_id).image = EMPTY_IMAGE if image is None else image

    def asks(self, replicas: tuple[int, ...] | None) -> None:
        """Somebody asks for a move, and is answered whatever."""
        self.end(self.begin(_asked(replicas)), _asked(replicas), None, Outcome.UNKNOWN)


# Where moves lead, CL3


def _moving() -> OneTopic:
    """It moves from (1, 2) to (3,)."""
    calling = OneTopic(Reassignments)
    calling.asks((3,))
    calling.write([_change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2))])
    return calling


def _end(replicas: tuple[int, ...], **fields: Any) -> PartitionChangeRecord:
    return _change(replicas=replicas, adding_replicas=(), removing_replicas=(), **fields)


def test_a_move_that_leads_to_what_was_asked_for_is_fine() -> None:
    """inv:CL3."""
    calling = _moving()
    calling.write([_end((3,), isr=(3,), leader=3)])
    assert calling.markers.counts["reassignment completed"] == 1


def test_a_move_that_is_cancelled_leads_back() -> None:
    """inv:CL3."""
    calling = _moving()
    calling.asks(None)
    calling.write([_end((1, 2))])
    assert calling.markers.counts["reassignment cancelled"] == 1


def test_replicas_that_are_left_over_at_the_end_are_flagged() -> None:
    """inv:CL3: of a move that is complete, and of one that is cancelled."""
    for replicas in ((3, 1, 2), (3, 1)):
        calling = _moving()
        calling.asks(None)
        with breaks("CL3"):
            calling.write([_end(replicas, isr=(1, 3), leader=1)])


def test_a_move_back_that_nobody_asked_for_is_flagged() -> None:
    """inv:CL3."""
    calling = _moving()
    with breaks("CL3"):
        calling.write([_end((1, 2))])


def test_a_move_that_nobody_asked_for_is_flagged() -> None:
    """inv:CL3."""
    calling = _moving()
    with breaks("CL3"):
        calling.write([_change(replicas=(4, 1, 2), adding_replicas=(4,))])


def test_a_move_that_ends_before_the_new_replicas_are_in_sync_is_flagged() -> None:
    """inv:CL3, S2-08."""
    calling = _moving()
    calling.asks((3, 1))
    with breaks("CL3"):
        calling.write([_end((3, 1), isr=(1,))])


def test_a_changed_target_remembers_where_the_partition_came_from() -> None:
    """inv:CL3, KIP-455: measured from the replicas of the moment, the former target would be left over by a cancellation."""
    calling = _moving()
    calling.asks((4,))
    with breaks("CL3"):
        calling.write([_change(replicas=(4, 3, 1, 2), adding_replicas=(4,), removing_replicas=(3, 1, 2))])
    calling = _moving()
    calling.asks((4,))
    calling.write([_change(replicas=(4, 1, 2), adding_replicas=(4,), removing_replicas=(1, 2))])
    assert calling.markers.counts["reassignment changed"] == 1


def test_a_former_target_stays_while_nobody_else_is_in_sync() -> None:
    """inv:CL3, inv:C7: after an unclean election on it; it is no extra replica then, it has the data."""
    calling = _moving()
    calling.write([_change(isr=(3,), leader=3, leader_recovery_state=1)])
    calling.asks((4,))
    calling.write([_change(replicas=(4, 3, 1, 2), adding_replicas=(4,), removing_replicas=(3, 1, 2))])
    calling.write([_end((4,), isr=(4,), leader=4)])
    assert calling.markers.counts["reassignment completed"] == 1


def test_replicas_that_change_without_a_move_are_flagged() -> None:
    """inv:CL3: other replicas at once, which nobody asked for; the same thing asked for is fine."""
    with breaks("CL3"):
        OneTopic(Reassignments).write([_change(replicas=(2, 1))])
    calling = OneTopic(Reassignments)
    calling.asks((2, 1))
    calling.write([_change(replicas=(2, 1))])
    assert calling.markers.counts["reassignment completed at once"] == 1


# What must have come to its end


@pytest.mark.parametrize(
    ("record", "broken"),
    [
        (partition(replicas=(101, 102), adding_replicas=(102,)), "CL3"),
        (partition(replicas=(101, 102), leader=-1), "CL2"),
        (partition(replicas=(101, 102), isr=(101,), leader_recovery_state=1), "C11"),
        (partition(replicas=(101, 102)), None),
        (partition(replicas=(103, 102), isr=(103,), leader=-1, leader_recovery_state=1), None),
    ],
)
def test_what_brokers_that_lead_leave_undone_is_flagged(record: Message, broken: str | None) -> None:
    """inv:CL2, inv:CL3, inv:C11: a move, a lost leader, a mark; not when the only member is away."""
    reign = Reigning(Liveness)
    reign.write(
        [registered(101, epoch=1), registered(102, epoch=2), TopicRecord(name="t", topic_id=TOPIC), record],
    )
    if broken is None:
        reign.watcher.settled(reign.cluster)
    else:
        with breaks(broken):
            reign.watcher.settled(reign.cluster)


# Marks and counts, C11


def _reign(*more: Message) -> Reigning:
    reign = Reigning(partial(ControllerSteps, judges=JUDGES), image=image_of(*usual_records(), *more))
    reign.node(1).controller.statistics = SimpleNamespace(unclean_elections=0)
    return reign


def _elects(kind: int, **which: Any) -> elect_leaders.ElectLeadersRequest:
    return elect_leaders.ElectLeadersRequest(election_type=kind, **which)


ONLY_THREE = _change(isr=(3,), leader=3, leader_recovery_state=1)


@pytest.mark.parametrize("topics", [None, (elect_leaders.TopicPartitions(topic="t", partitions=(0,)),)])
def test_an_unclean_election_that_is_asked_for_needs_no_setting(topics: Any) -> None:
    """inv:C11, KIP-460."""
    reign = _reign(_change(isr=(1, 2)))
    reign.decide(reign.request(_elects(1, topic_partitions=topics)), [ONLY_THREE])
    assert reign.markers.counts["unclean leader election"] == 1


@pytest.mark.parametrize(
    "request_",
    [
        _elects(0, topic_partitions=None),
        _elects(1, topic_partitions=(elect_leaders.TopicPartitions(topic="t", partitions=(1,)),)),
        _elects(1, topic_partitions=(elect_leaders.TopicPartitions(topic="u", partitions=(0,)),)),
    ],
)
def test_an_unclean_election_of_what_was_not_asked_for_is_flagged(request_: Any) -> None:
    """inv:C11: of a preferred leader, of another partition, of another topic."""
    reign = _reign(_change(isr=(1, 2)))
    with breaks("C11"):
        reign.decide(reign.request(request_), [ONLY_THREE])


def test_an_unclean_election_that_is_not_counted_is_flagged() -> None:
    """inv:C11: each one, also of a partition that is marked, and in the middle of a decision about several brokers."""
    allowed = ConfigRecord(resource_type=4, name="unclean.leader.election.enable", value="true")
    reign = _reign(_change(isr=(1, 2)), allowed)
    reign.decide(TimeAdvanced(now_ms=reign.now_ms), [ONLY_THREE, _change(isr=(2,), leader=2)])
    reign.node(1).controller.statistics.unclean_elections = 2
    reign.watcher.now_and_then(reign.cluster)
    reign.node(1).controller.statistics.unclean_elections = 1
    with breaks("C11"):
        reign.watcher.now_and_then(reign.cluster)


def _recovers(broker_id: int, state: int = 0, number: int = 0) -> AlterPartitionRequest:
    data = RequestPartitionData(
        partition_index=number,
        new_isr_with_epochs=(BrokerState(broker_id=3, broker_epoch=3),),
        leader_recovery_state=state,
        partition_epoch=1,
        leader_epoch=1,
    )
    return AlterPartitionRequest(
        broker_id=broker_id, broker_epoch=broker_id, topics=(RequestTopicData(topic_id=TOPIC, partitions=(data,)),)
    )


def test_a_mark_goes_when_the_leader_says_so() -> None:
    """inv:C11."""
    reign = _reign(ONLY_THREE)
    reign.decide(reign.request(_recovers(3)), [_change(leader_recovery_state=0)])
    assert reign.markers.counts["partition recovered after an unclean election"] == 1


def test_a_mark_that_goes_by_itself_is_flagged() -> None:
    """inv:C11: with time, or because its leader asks for another partition."""
    reign = _reign(ONLY_THREE)
    with breaks("C11"):
        reign.decide(TimeAdvanced(now_ms=reign.now_ms), [_change(leader_recovery_state=0)])
    reign = _reign(ONLY_THREE)
    with breaks("C11"):
        reign.decide(reign.request(_recovers(3, number=1)), [_change(leader_recovery_state=0)])


def test_a_leader_that_the_former_one_let_in_with_the_same_change_is_no_loss() -> None:
    """inv:C11, S2-08: the change that completes a move takes its leader away."""
    data = RequestPartitionData(
        partition_index=0,
        new_isr_with_epochs=tuple(BrokerState(broker_id=each, broker_epoch=each) for each in (1, 3)),
    )
    request = AlterPartitionRequest(
        broker_id=1, broker_epoch=1, topics=(RequestTopicData(topic_id=TOPIC, partitions=(data,)),)
    )
    reign = _reign(_change(isr=(1,), adding_replicas=(3,), removing_replicas=(1, 2)))
    data = replace(data, partition_epoch=1)
    request = replace(request, topics=(RequestTopicData(topic_id=TOPIC, partitions=(data,)),))
    reign.decide(reign.request(request), [_end((3,), isr=(3,), leader=3)])
    assert "unclean leader election" not in reign.markers.counts


# Acknowledgements, H13


def _moved(error: int = 0) -> moves.AlterPartitionReassignmentsResponse:
    told = moves.ReassignablePartitionResponse(partition_index=0, error_code=error)
    answer = moves.ReassignableTopicResponse(name="t", partitions=(told,))
    return moves.AlterPartitionReassignmentsResponse(responses=(answer,))


@pytest.mark.parametrize(("replicas", "error"), [((3,), 0), (None, 85)])
def test_an_acknowledged_move_that_never_was_is_flagged(replicas: tuple[int, ...] | None, error: int) -> None:
    """inv:H13: a new target; and that there was nothing to cancel (85), where a move went on all the time."""
    calling = OneTopic(History)
    if replicas is None:
        calling.write([_change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2))])
    call = calling.begin(_asked(replicas))
    with breaks("H13"):
        calling.end(call, _asked(replicas), _moved(error), Outcome.FAILED if error else Outcome.OK)


def test_an_acknowledged_move_that_was_there_is_fine() -> None:
    """inv:H13: it may have ended since."""
    calling = OneTopic(History)
    call = calling.begin(_asked((3,)))
    calling.write([_change(replicas=(3, 1, 2), adding_replicas=(3,), removing_replicas=(1, 2))])
    calling.write([_end((3,), isr=(3,), leader=3)])
    calling.end(call, _asked((3,)), _moved())


@pytest.mark.parametrize(("kind", "leader", "is_wrong"), [(0, 2, True), (0, 1, False), (1, -1, True), (1, 2, False)])
def test_an_acknowledged_election_gave_a_leader(kind: int, leader: int, *, is_wrong: bool) -> None:
    """inv:H13: the preferred one, or any."""
    calling = OneTopic(History)
    calling.write([_change(leader=leader)])
    request = _elects(kind, topic_partitions=None)
    told = elect_leaders.ReplicaElectionResult(
        topic="t", partition_result=(elect_leaders.PartitionResult(partition_id=0),)
    )
    response = elect_leaders.ElectLeadersResponse(replica_election_results=(told,))
    call = calling.begin(request)
    if is_wrong:
        with breaks("H13"):
            calling.end(call, request, response)
    else:
        calling.end(call, request, response)


# Reads, H13


DELETE = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),))
METADATA = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic(name="t"),))
CONFIGS = describe_configs.DescribeConfigsRequest(
    resources=(describe_configs.DescribeConfigsResource(resource_type=2, resource_name="t"),)
)
PAGE = describe_topic_partitions.DescribeTopicPartitionsRequest()
MOVES = listing.ListPartitionReassignmentsRequest(topics=None)


def _metadata(*isr: int, error: int = 0, offset: int = -1) -> metadata.MetadataResponse:
    told = metadata.MetadataResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=(1, 2), isr_nodes=isr
    )
    partitions = () if error else (told,)
    topic = metadata.MetadataResponseTopic(name="t", topic_id=TOPIC, error_code=error, partitions=partitions)
    return metadata.MetadataResponse(topics=(topic,), metadata_offset=offset)


def _page(*isr: int, names: int = 1) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
    told = describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
        partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=(1, 2), isr_nodes=isr
    )
    topic = describe_topic_partitions.DescribeTopicPartitionsResponseTopic(name="t", topic_id=TOPIC, partitions=(told,))
    return describe_topic_partitions.DescribeTopicPartitionsResponse(topics=(topic,)[:names])


def _configs(**values: str) -> describe_configs.DescribeConfigsResponse:
    told = tuple(
        describe_configs.DescribeConfigsResourceResult(name=name, value=value, config_source=1)
        for name, value in values.items()
    )
    result = describe_configs.DescribeConfigsResult(resource_type=2, resource_name="t", configs=told)
    return describe_configs.DescribeConfigsResponse(results=(result,))


def _moves(*adding: int) -> listing.ListPartitionReassignmentsResponse:
    told = listing.OngoingPartitionReassignment(partition_index=0, replicas=(1, 2, *adding), adding_replicas=adding)
    topics = (listing.OngoingTopicReassignment(name="t", partitions=(told,)),) if adding else ()
    return listing.ListPartitionReassignmentsResponse(topics=topics)


SHRUNK = _change(isr=(1,))
SET = ConfigRecord(resource_type=2, resource_name="t", name="a", value="1")
MOVING = _change(replicas=(1, 2, 3), adding_replicas=(3,))
KINDS = [
    pytest.param(METADATA, SHRUNK, _metadata(1, 2), _metadata(1), id="Metadata"),
    pytest.param(PAGE, SHRUNK, _page(1, 2), _page(1), id="DescribeTopicPartitions"),
    pytest.param(CONFIGS, SET, _configs(), _configs(a="1"), id="DescribeConfigs"),
    pytest.param(MOVES, MOVING, _moves(), _moves(3), id="ListPartitionReassignments"),
]


@pytest.mark.parametrize(("request_", "record", "older", "newer"), KINDS)
def test_a_read_that_is_older_than_its_node_was_is_flagged(
    request_: Message, record: Message, older: Message, newer: Message
) -> None:
    """inv:H13: the node's metadata has passed the change; before that, and while it changes, both are fine."""
    calling = OneTopic(Reads)
    calling.end(calling.begin(request_), request_, older)
    call = calling.begin(request_)
    other = calling.begin(request_)
    calling.write([record])
    calling.end(call, request_, older)
    calling.end(other, request_, newer)
    calling.end(calling.begin(request_), request_, older)
    calling.catch_up(1)
    calling.end(calling.begin(request_), request_, newer)
    call = calling.begin(request_)
    with breaks("H13"):
        calling.end(call, request_, older)


def test_a_read_after_an_acknowledged_end_of_a_topic_is_flagged_when_it_shows_it() -> None:
    """inv:H13: and counted when it does not."""
    calling = OneTopic(Reads)
    call = calling.begin(DELETE)
    calling.write([RemoveTopicRecord(topic_id=TOPIC)])
    calling.end(call, DELETE, DeleteTopicsResponse())
    calling.catch_up(1)
    calling.end(calling.begin(METADATA), METADATA, _metadata(error=3), Outcome.FAILED)
    assert calling.markers.counts["read after an acknowledged change"] == 1
    call = calling.begin(METADATA)
    with breaks("H13"):
        calling.end(call, METADATA, _metadata(1, 2))


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (METADATA, _metadata(2)),
        (METADATA, _metadata(1, 2, offset=0)),
        (METADATA, _metadata(error=3)),
        (METADATA, replace(_metadata(1, 2), topics=(replace(_metadata(1, 2).topics[0], topic_id=Uuid(b"x" * 16)),))),
        (metadata.MetadataRequest(topics=None), metadata.MetadataResponse()),
        (PAGE, _page(names=0)),
        (PAGE, _page(2)),
        (CONFIGS, _configs(b="1")),
        (MOVES, _moves(3)),
    ],
)
def test_a_read_of_what_never_was_is_flagged(request_: Message, response: Message) -> None:
    """inv:H13."""
    calling = OneTopic(Reads)
    call = calling.begin(request_)
    with breaks("H13"):
        calling.end(call, request_, response)


def test_what_a_node_knew_before_it_started_anew_is_not_held_against_it() -> None:
    """inv:H13: the promise is that of one process; a read that was never answered says nothing."""
    calling = OneTopic(Reads)
    old: MetadataImage = calling.node(1).image
    calling.write([SHRUNK])
    calling.catch_up(1)
    call = calling.begin(METADATA)
    calling.crash(1)
    calling.start(1, stored=QuorumState(leader_epoch=1, leader_id=1))
    calling.node(1).image = old
    calling.end(call, METADATA, _metadata(1, 2))
    calling.end(calling.begin(METADATA), METADATA, None, Outcome.UNKNOWN)
