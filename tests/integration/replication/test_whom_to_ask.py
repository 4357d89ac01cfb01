"""What clients are told that come to the wrong broker or with an old epoch (KIP-320, KIP-951): brokers of either kind, side by side."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.testing.asking import ask
from headrace.testing.cluster import Cluster
from headrace.testing.member import Member
from headrace.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headrace.wire.messages.fetch import FetchPartition, ReplicaState
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headrace.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from headrace.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.peers.quorum import MixedCluster
from tests.support.copies import create, in_sync, leader, partitions
from tests.support.peer import batch, fetch_request, produce_request
from tests.support.roles import until

pytestmark = pytest.mark.java

OURS, KAFKAS, PREFERRED = 101, 102, 0
TOPICS = {OURS: "ours", KAFKAS: "kafkas"}
"""By who leads them."""
LATEST = 2
"""The leader epoch at last; three records were written in each."""
CONSUMER, STRANGER = -1, 199


def other(broker_id: int) -> int:
    """The other kind's broker."""
    return OURS + KAFKAS - broker_id


def produced(broker: Member, topic: str, version: int) -> Any:
    """The answer to a write of three records."""
    topic_id = ask(
        broker.place.host, broker.port, MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12
    ).topics[0].topic_id  # fmt: skip
    request = produce_request(topic, batch(b"a", b"b", b"c"), version=version, topic_id=topic_id, acks=1)
    return ask(broker.place.host, broker.port, request, version, timeout_s=15)


def write(cluster: Cluster, topic: str) -> None:
    """Three records, by whoever leads."""

    def is_written() -> bool:
        answer = produced(leader(cluster, topic), topic, 9)
        return bool(answer.responses[0].partition_responses[0].error_code == 0)

    until(is_written)


def led_back(cluster: Cluster, broker_id: int, topic: str) -> None:
    """The broker stops and another leads in the next epoch; then it is back, and leads again."""
    cluster[broker_id].stop()
    leader(cluster, topic, other_than=broker_id)
    write(cluster, topic)
    cluster.start(broker_id)
    in_sync(cluster, topic)
    wanted = TopicPartitions(topic=topic, partitions=(0,))
    request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=(wanted,), timeout_ms=20_000)
    ask(cluster[broker_id].place.host, cluster[broker_id].port, request, 2)
    until(lambda: all(partitions(each, topic)[0].leader_id == broker_id for each in cluster.brokers) or None)
    write(cluster, topic)


def hints(cluster: Cluster, answer: Any, told: Any) -> tuple[object, ...]:
    """Whom the client should ask, by its role in the question."""
    roles = {each.node_id: (each.place.host, each.port) for each in cluster.brokers}
    named = [(each.node_id, roles[each.node_id] == (each.host, each.port)) for each in answer.node_endpoints]
    return told.current_leader.leader_id, told.current_leader.leader_epoch, named


def answers(cluster: Cluster, leads: int) -> list[object]:
    """What the leader and the follower of a topic say; ids of brokers by who leads it."""
    topic, follows = TOPICS[leads], other(leads)
    topic_id = ask(
        cluster[leads].place.host, cluster[leads].port, MetadataRequest(topics=(MetadataRequestTopic(name=topic),)), 12
    ).topics[0].topic_id  # fmt: skip
    found: list[object] = []
    for version in (9, 10, 12, 13):
        answer = produced(cluster[follows], topic, version)
        one = answer.responses[0].partition_responses[0]
        found.append(("produce", version, one.error_code, one.base_offset, hints(cluster, answer, one)))
    for broker_id in (leads, follows):
        for version in (12, 15, 16, 17):
            for replica in (CONSUMER, follows, STRANGER):
                for epoch in (-1, LATEST - 1, LATEST, LATEST + 1):
                    wanted = FetchPartition(
                        partition=0, fetch_offset=9, current_leader_epoch=epoch, partition_max_bytes=1 << 20
                    )
                    state = ReplicaState(replica_id=replica) if version >= 15 else ReplicaState()
                    who: dict[str, Any] = {"replica_id": replica} if version < 15 else {"replica_state": state}
                    request = fetch_request(topic_id if version >= 13 else topic, [wanted], **who)
                    answer = ask(cluster[broker_id].place.host, cluster[broker_id].port, request, version)
                    one = answer.responses[0].partitions[0]
                    asked = (broker_id == leads, version, replica in (CONSUMER, follows), epoch)
                    found.append((*asked, replica == CONSUMER, one.error_code, hints(cluster, answer, one)))
        for replica in (CONSUMER, follows):
            for epoch in (-1, LATEST - 1, LATEST, LATEST + 1):
                end = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
                listed = ListOffsetsRequest(
                    replica_id=replica, topics=(ListOffsetsTopic(name=topic, partitions=(end,)),)
                )
                answer = ask(cluster[broker_id].place.host, cluster[broker_id].port, listed, 7)
                one = answer.topics[0].partitions[0]
                found.append((broker_id == leads, replica == CONSUMER, epoch, one.error_code, one.offset))
                wanted_ends = [
                    OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=each)
                    for each in range(-1, LATEST + 2)
                ]
                for each in wanted_ends:
                    ends = OffsetForLeaderEpochRequest(
                        replica_id=replica, topics=(OffsetForLeaderTopic(topic=topic, partitions=(each,)),)
                    )
                    answer = ask(cluster[broker_id].place.host, cluster[broker_id].port, ends, 4)
                    one = answer.topics[0].partitions[0]
                    asked_ends = (broker_id == leads, replica == CONSUMER, epoch, each.leader_epoch)
                    found.append((*asked_ends, one.error_code, one.leader_epoch, one.end_offset))
    return found


def in_terms_of(leads: int, found: list[object]) -> str:
    """The answers with the leader's id in place of a name."""
    return repr(found).replace(str(leads), "LEADER").replace(str(other(leads)), "FOLLOWER")


def test_brokers_of_either_kind_tell_who_leads_and_where_epochs_ended() -> None:
    """S3-42 S3-79 S3-104 KIP-101 KIP-279 KIP-320 KIP-951: after two changes of leaders; NOT_LEADER_OR_FOLLOWER(6), FENCED_LEADER_EPOCH(74), UNKNOWN_LEADER_EPOCH(75), with the leader and its address where the version has them."""
    cluster = MixedCluster(kafkas=(KAFKAS,), controllers=1, brokers=2)
    with cluster:
        for leads, topic in TOPICS.items():
            create(cluster, topic, [(leads, other(leads))])
            write(cluster, topic)
        for leads, topic in TOPICS.items():
            led_back(cluster, leads, topic)
        for topic in TOPICS.values():
            in_sync(cluster, topic)
        until(lambda: all(leader(cluster, topic).node_id == leads for leads, topic in TOPICS.items()) or None)
        for leads, topic in TOPICS.items():
            epochs = {partitions(each, topic)[0].leader_epoch for each in cluster.brokers}
            assert epochs == {LATEST}, f"{TOPICS[leads]} changed its leader otherwise"
        ours, kafkas = (in_terms_of(leads, answers(cluster, leads)) for leads in (OURS, KAFKAS))
    for one, another in zip(ours.split("), ("), kafkas.split("), ("), strict=True):
        assert one == another
