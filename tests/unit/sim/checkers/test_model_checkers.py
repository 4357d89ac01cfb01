"""Made-up metadata, deltas, hosted replicas, votes and heartbeats: what breaks a rule above the log is flagged, what only comes near is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.controller.events import Answer
from headrace.core.ids import Uuid
from headrace.core.peers import SendFailure
from headrace.core.values import changed
from headrace.metadata.compare import compare_images
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EMPTY_IMAGE, METADATA_VERSION
from headrace.node.lifecycle import BrokerState
from headrace.raft.events import (
    AnswerRaftRequest,
    QuorumState,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    SendRaftRequest,
)
from headrace.raft.roles import Prospective, Unattached
from headrace.sim.checkers import JUDGES
from headrace.sim.checkers.cluster_model import ClusterModel
from headrace.sim.checkers.controller_steps import ControllerSteps
from headrace.sim.checkers.elections import Elections
from headrace.sim.checkers.granted_votes import GrantedVotes
from headrace.sim.checkers.heartbeat_answers import HeartbeatOffsets
from headrace.sim.checkers.hosted_partitions import HostedPartitions
from headrace.sim.checkers.metadata_changes import MetadataChanges, delta_fault
from headrace.sim.observation import DeltaPublished, ImagePublished, MachineStep, Received, RequestSent
from headrace.wire.messages import broker_heartbeat, fetch, fetch_snapshot, update_features, vote
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.config_record import ConfigRecord
from headrace.wire.metadata_records.feature_level_record import FeatureLevelRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.topic_record import TopicRecord
from headrace.wire.schema import Message
from tests.support.histories import Story, breaks, leader_change
from tests.support.made_up_metadata import TOPIC, Reigning, image_of, partition, registered, usual_records

_GONE = RemoveTopicRecord(topic_id=TOPIC)
_SETTING = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="7")


# The model of the cluster, C2


def test_the_model_says_what_the_image_says_and_nothing_else() -> None:
    """inv:C2: each field of a broker, a partition, a feature."""
    records = [*usual_records(), FeatureLevelRecord(name=METADATA_VERSION, feature_level=20)]
    model, image = ClusterModel(), image_of(*records)
    touched = model.take(records)
    assert {key: model.difference(key, image) for key in touched} == dict.fromkeys(touched, "")
    assert model.sizes_differ(image) == ""
    for record in (
        PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=(1,)),
        BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, in_controlled_shutdown=1),
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=21),
        _GONE,
    ):
        other = ClusterModel()
        keys = {**other.take(records), **other.take([record])}
        assert any(other.difference(key, image) for key in keys), record


def test_an_image_that_the_model_contradicts_is_flagged() -> None:
    """inv:C2: the product's own replay is not the judge of itself."""
    reign = Reigning(MetadataChanges)
    reign.write(usual_records())
    reign.ghost.committed.model.partitions[TOPIC][0]["leader_epoch"] = 5
    with breaks("C2"):
        reign.watcher.now_and_then(reign.cluster)


# Deltas, C22


def _delta(*changes: Message) -> tuple[MetadataDelta, dict[Any, None]]:
    model = ClusterModel()
    model.take(usual_records())
    before = image_of(*usual_records())
    return compare_images(before, image_of(*usual_records(), *changes)), model.take(changes)


@pytest.mark.parametrize(
    ("record", "forgotten"),
    [
        (_GONE, {"deleted_topics": {}}),
        (_SETTING, {"changed_configs": ()}),
        (FeatureLevelRecord(name=METADATA_VERSION, feature_level=9), {"changed_features": ()}),
        (BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=2, fenced=1), {"changed_brokers": ()}),
        (PartitionChangeRecord(topic_id=TOPIC, partition_id=0, isr=(1,)), {"changed_topics": {}}),
        (_GONE, {"changed_brokers": (1,)}),
    ],
)
def test_a_delta_that_leaves_out_or_adds_something_is_wrong(record: Message, forgotten: dict[str, Any]) -> None:
    """inv:C22."""
    delta, touched = _delta(record)
    assert delta_fault(delta, touched) == ""
    assert delta_fault(changed(delta, **forgotten), touched) != ""


def test_a_published_delta_goes_on_where_the_one_before_ended() -> None:
    """inv:C22: readers that had nothing get everything."""
    reign = Reigning(MetadataChanges)
    reign.write(usual_records())
    first = reign.ghost.committed.image_at(reign.ghost.committed.end)
    assert first is not None
    reign.step(1, DeltaPublished(compare_images(EMPTY_IMAGE, first)))
    reign.write([_GONE])
    second = reign.ghost.committed.image_at(reign.ghost.committed.end)
    assert second is not None
    reign.step(1, DeltaPublished(compare_images(first, second)))
    with breaks("C22"):
        reign.step(1, DeltaPublished(compare_images(first, second)))


# What a broker hosts, C23


class Hosting(Reigning):
    """Node 12 is a broker; the topic `t` has one partition on 12 and 2, led by 12 in epoch 0."""

    def __init__(self) -> None:
        super().__init__(HostedPartitions)
        self.start(12)
        self.write([registered(12, epoch=1), TopicRecord(name="t", topic_id=TOPIC), partition(replicas=(12, 2))])
        self.hosted = SimpleNamespace(
            topic_id=TOPIC, partition=0, leader_id=12, leader_epoch=0, log=object(), leader=self.leader()
        )
        self.by_id: dict[Any, Any] = {(TOPIC, 0): self.hosted}
        self.due_roles: list[object] = []

    def leader(self, **fields: Any) -> SimpleNamespace:
        """The leader's side, as the metadata have it unless told otherwise."""
        usual: dict[str, Any] = {
            "leader_epoch": 0,
            "partition_epoch": 0,
            "replicas": (12, 2),
            "min_insync_replicas": 1,
        }
        return SimpleNamespace(**(usual | fields))

    def serves(self) -> None:
        """It has all metadata, and asks to be unfenced."""
        image = self.ghost.committed.image_at(self.ghost.committed.end)
        table = _Table(self.by_id)
        self.node(12).machine = SimpleNamespace(
            image=image,
            broker=SimpleNamespace(partitions=table, due_roles=self.due_roles),
            lifecycle=SimpleNamespace(state=BrokerState.RUNNING),
        )
        request = broker_heartbeat.BrokerHeartbeatRequest(broker_id=12, want_fence=False)
        assert image is not None
        self.step(12, RequestSent(1, request, 1), ImagePublished(image))


class _Table:
    def __init__(self, by_id: dict[Any, Any]) -> None:
        self.by_id = by_id

    def __iter__(self) -> Any:
        return iter(self.by_id.values())


def test_a_broker_that_hosts_what_its_metadata_give_it_is_fine() -> None:
    """inv:C23: also after a change."""
    hosting = Hosting()
    hosting.serves()
    hosting.write([PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2, isr=(2,))])
    hosting.hosted.leader, hosting.hosted.leader_id, hosting.hosted.leader_epoch = None, 2, 1
    hosting.serves()
    assert hosting.markers.counts["broker that serves compared with its metadata"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"leader": None},
        {"leader_epoch": 3},
        {"leader_id": 2},
    ],
)
def test_a_broker_in_another_role_than_its_metadata_say_is_flagged(wrong: dict[str, Any]) -> None:
    """inv:C23."""
    hosting = Hosting()
    vars(hosting.hosted).update(wrong)
    with breaks("C23"):
        hosting.serves()


def test_a_broker_that_has_not_done_all_of_a_long_delta_is_compared_when_it_has() -> None:
    """inv:C23: nothing is held against it meanwhile, and nothing is forgotten."""
    hosting = Hosting()
    hosting.serves()
    hosting.write([PartitionChangeRecord(topic_id=TOPIC, partition_id=0, leader=2, isr=(2,))])
    hosting.due_roles.append("a role")
    hosting.serves()
    hosting.due_roles.clear()
    with breaks("C23"):
        hosting.serves()


def test_a_broker_that_hosts_nothing_of_what_it_should_is_flagged() -> None:
    """inv:C23."""
    hosting = Hosting()
    hosting.by_id.clear()
    with breaks("C23"):
        hosting.serves()


def test_a_replica_that_is_gone_and_still_hosted_is_flagged() -> None:
    """inv:C23."""
    hosting = Hosting()
    hosting.serves()
    hosting.write([_GONE])
    with breaks("C23"):
        hosting.serves()


def test_a_leader_with_another_least_number_of_replicas_than_is_set_is_flagged() -> None:
    """inv:C23: a setting that did not get there."""
    hosting = Hosting()
    hosting.write([ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2")])
    with breaks("C23"):
        hosting.serves()


# Votes, R2 R22


def test_a_start_that_forgets_a_vote_is_flagged() -> None:
    """inv:R2."""
    story = Story(Elections)
    story.stores(2, 4, voted_id=3)
    story.crash(2)
    stored = QuorumState(leader_epoch=4, voted_id=3)
    with breaks("R2"):
        story.start(2, stored=stored, role=Unattached(epoch=4))
    story.start(2, stored=stored, role=Unattached(epoch=4, voted_id=3))


def _asks_for_vote(story: Story, *, pre_vote: bool = True, offset: int = 5, granted: bool = True) -> None:
    """Node 3 asks node 2, which answers at once."""
    asked = vote.RequestPartitionData(
        replica_epoch=1, replica_id=3, last_offset_epoch=1, last_offset=offset, pre_vote=pre_vote
    )
    request = vote.VoteRequest(topics=(vote.RequestTopicData(partitions=(asked,)),))
    told = vote.ResponsePartitionData(leader_epoch=1, leader_id=-1, vote_granted=granted)
    response = vote.VoteResponse(topics=(vote.ResponseTopicData(partitions=(told,)),))
    arrived = RaftRequestArrived(token=9, request=request, api_version=2, listener="", now_ms=0)
    machines = [MachineStep("raft", arrived, [AnswerRaftRequest(token=9, response=response)])]
    story.step(2, machines=machines, received=Received(3, 1, True, request, 2))


def _served(story: Story) -> None:
    """Node 2 follows node 1 and has an answer of it."""
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.commit(1, leader_change(0, 1))
    part = fetch.FetchPartition(current_leader_epoch=1, fetch_offset=1)
    request = fetch.FetchRequest(topics=(fetch.FetchTopic(partitions=(part,)),))
    sent: Any = SimpleNamespace(request=request, correlation=3)
    effect = SendRaftRequest(correlation=sent.correlation, to=None, request=request, timeout_ms=1)  # type: ignore[arg-type]
    story.step(2, machines=[MachineStep("raft", object(), [effect])])
    response = fetch.FetchResponse(responses=(fetch.FetchableTopicResponse(partitions=(fetch.PartitionData(),)),))
    event = RaftResponseArrived(correlation=3, response=response, now_ms=0)
    story.step(2, machines=[MachineStep("raft", event, [])], received=Received(1, 1, False, response, -1))


def test_a_pre_vote_of_a_follower_that_is_served_is_flagged() -> None:
    """inv:R22, KIP-996."""
    story = Story(GrantedVotes)
    _served(story)
    _asks_for_vote(story, granted=False)
    assert story.markers.counts["pre-vote refused: served by a leader"] == 1
    with breaks("R22"):
        _asks_for_vote(story)


def test_a_pre_vote_of_a_follower_that_was_served_before_it_asked_itself_is_fine() -> None:
    """inv:R22: it does not hear of its leader any more."""
    story = Story(GrantedVotes)
    _served(story)
    story.step(2, role=Prospective(epoch=1, leader_id=1, election_deadline_ms=0))
    _asks_for_vote(story)


@pytest.mark.parametrize("kind", [fetch, fetch_snapshot])
def test_a_pre_vote_of_a_follower_whose_leader_refuses_connections_is_fine(kind: Any) -> None:
    """inv:R22: its leader is dead, whether it was asked for records or for a snapshot."""
    story = Story(GrantedVotes)
    _served(story)
    if kind is fetch:
        topic: Any = fetch.FetchTopic(partitions=(fetch.FetchPartition(current_leader_epoch=1),))
        request: Any = fetch.FetchRequest(topics=(topic,))
    else:
        part = fetch_snapshot.RequestPartitionSnapshot(current_leader_epoch=1)
        request = fetch_snapshot.FetchSnapshotRequest(topics=(fetch_snapshot.RequestTopicSnapshot(partitions=(part,)),))
    effect = SendRaftRequest(correlation=4, to=None, request=request, timeout_ms=1)  # type: ignore[arg-type]
    story.step(2, machines=[MachineStep("raft", object(), [effect])])
    refused = RaftRequestFailed(correlation=4, failure=SendFailure.REFUSED, now_ms=0)
    story.step(2, machines=[MachineStep("raft", refused, [])])
    _asks_for_vote(story)


def test_a_vote_against_a_leader_that_is_known_is_flagged() -> None:
    """inv:R22, KIP-595."""
    story = Story(GrantedVotes)
    story.lead(1, 1)
    story.follow(2, 1, 1)
    with breaks("R22"):
        _asks_for_vote(story, pre_vote=False)


def test_a_vote_for_a_shorter_log_is_flagged() -> None:
    """inv:R22, KIP-595."""
    story = Story(GrantedVotes)
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.commit(1, leader_change(0, 1))
    story.step(2, role=Prospective(epoch=1, election_deadline_ms=0))
    with breaks("R22"):
        _asks_for_vote(story, offset=0)


def test_a_vote_told_again_to_who_has_it_is_fine_whatever_log_is_claimed() -> None:
    """inv:R22: anybody can ask in a candidate's name; a promise of a vote is no vote."""
    story = Story(GrantedVotes)
    story.lead(1, 1)
    story.follow(2, 1, 1)
    story.commit(1, leader_change(0, 1))
    story.step(2, role=Unattached(epoch=1, voted_id=3))
    _asks_for_vote(story, offset=0, pre_vote=False)
    with breaks("R22"):
        _asks_for_vote(story, offset=0, pre_vote=True)


# Heartbeats, C26; features, C24; directories, C25


def _heartbeat(**fields: Any) -> broker_heartbeat.BrokerHeartbeatRequest:
    return broker_heartbeat.BrokerHeartbeatRequest(broker_id=1, broker_epoch=1, current_metadata_offset=9, **fields)


_DIRECTORY, _OTHER = Uuid(b"directory-one---"), Uuid(b"directory-two---")


def _answered(request: Message, response: Message, *records: Message) -> None:
    """Broker 1 is registered with two directories; a request is answered when what it led to is committed."""
    reign = Reigning(lambda scene: ControllerSteps(scene, judges=JUDGES))
    brokers: list[Any] = usual_records()[:3]
    first = [
        *(changed(each, log_dirs=(_DIRECTORY, _OTHER)) for each in brokers),
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=20),
    ]
    reign.write(first)
    reign.next_offset += len(first)
    image = reign.ghost.committed.image_at(reign.ghost.committed.end)
    assert image is not None
    reign.gain(image)
    event = reign.request(request)
    reign.decide(event, *([records] if records else []))
    if records:
        reign.write(records)
    reign.decide(reign.request(_heartbeat()), answers=[Answer(token=event.token, response=response)])


def _told(**fields: Any) -> broker_heartbeat.BrokerHeartbeatResponse:
    return broker_heartbeat.BrokerHeartbeatResponse(**({"is_caught_up": True, "is_fenced": False} | fields))


def test_a_heartbeat_that_is_told_what_is_committed_is_fine() -> None:
    """inv:C26."""
    _answered(_heartbeat(), _told())
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=(_OTHER,))
    _answered(_heartbeat(offline_log_dirs=(_DIRECTORY,)), _told(), change)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, {"is_fenced": True}),
        ({}, {"is_caught_up": False}),
        ({"want_shut_down": True}, {"should_shut_down": True}),
        ({"offline_log_dirs": (_DIRECTORY,)}, {}),
    ],
)
def test_a_heartbeat_that_is_told_what_is_not_committed_is_flagged(asked: dict[str, Any], told: dict[str, Any]) -> None:
    """inv:C26."""
    with breaks("C26"):
        _answered(_heartbeat(**asked), _told(**told))


def test_a_heartbeat_that_says_more_than_was_applied_is_flagged() -> None:
    """inv:C26: the end of the log is not what the broker's readers have."""
    story = Story(HeartbeatOffsets)
    story.start(12)
    image = changed(EMPTY_IMAGE, provenance=changed(EMPTY_IMAGE.provenance, last_contained_offset=9))
    story.node(12).machine = SimpleNamespace(image=image)
    story.step(12, RequestSent(1, _heartbeat(), 1))
    with breaks("C26"):
        story.step(12, RequestSent(1, changed(_heartbeat(), current_metadata_offset=10), 1))


def test_a_level_that_a_broker_does_not_support_is_flagged() -> None:
    """inv:C24, KIP-584: those brokers of a test name no feature, so they have each at level 0 only."""
    asked = update_features.FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=21)
    request = update_features.UpdateFeaturesRequest(feature_updates=(asked,))
    with breaks("C24"):
        _answered(
            request,
            update_features.UpdateFeaturesResponse(),
            FeatureLevelRecord(name=METADATA_VERSION, feature_level=21),
        )


def test_a_leader_in_a_directory_that_is_gone_is_flagged() -> None:
    """inv:C25, KIP-858."""
    led = [
        TopicRecord(name="t", topic_id=TOPIC),
        partition(replicas=(1, 2), directories=(_DIRECTORY, _DIRECTORY)),
    ]
    change = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, log_dirs=(_OTHER,))
    with breaks("C25"):
        _answered(_heartbeat(offline_log_dirs=(_DIRECTORY,)), _told(), *led, change)
