"""What an operator reads of committed metadata and of the quorum's leaders."""

from __future__ import annotations

from headrace.metadata.compare import compare_images
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.replay import replay_all
from headrace.node.notices import Notices, leader_notice, metadata_notices
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.remove_topic_record import RemoveTopicRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord
from headrace.wire.schema import Message
from tests.support.made_up_metadata import TOPIC, partition, registered, usual_records


class Told:
    """An image that goes on, and the lines about each step."""

    def __init__(self, node_id: int, *, is_active: bool) -> None:
        self.image: MetadataImage = EMPTY_IMAGE
        self.node_id, self.is_active = node_id, is_active

    def replay(self, *records: Message) -> list[str]:
        """These are committed."""
        before, self.image = self.image, replay_all(self.image, records)
        change = compare_images(before, self.image)
        delta = MetadataDelta(
            previous=before,
            image=self.image,
            changed_topics=change.changed_topics,
            deleted_topics=change.deleted_topics,
            changed_brokers=change.changed_brokers,
        )
        return [notice.text for notice in metadata_notices(delta, self.node_id, is_active=self.is_active)]

    def changed(self, number: int = 0, **fields: object) -> list[str]:
        """One partition changed."""
        return self.replay(PartitionChangeRecord(partition_id=number, topic_id=TOPIC, **fields))  # type: ignore[arg-type]


def test_the_quorums_leader_is_told() -> None:
    """B-R19: this node, another one, or nobody."""
    told = [leader_notice(1, leader_id=leader_id, epoch=7).text for leader_id in (1, 2, -1)]
    assert told == [
        "this node leads the metadata quorum in epoch 7",
        "node 2 leads the metadata quorum in epoch 7",
        "no leader of the metadata quorum is known in epoch 7",
    ]


def test_the_active_controller_tells_of_brokers_and_topics() -> None:
    """KIP-631: registrations, fencing, stops; topics that come and go."""
    told = Told(9, is_active=True)
    assert told.replay(*usual_records()) == [
        *(f"broker {each} registered with broker epoch {each}" for each in (1, 2, 3)),
        "topics created: t (1 partitions)",
    ]
    assert told.replay(registered(1, epoch=1, fenced=True)) == [
        "broker 1 is fenced: it leads nothing until it is heard again"
    ]
    assert told.replay(registered(1, epoch=1)) == ["broker 1 is unfenced"]
    leaving = RegisterBrokerRecord(
        broker_id=3,
        broker_epoch=3,
        incarnation_id=told.image.cluster.brokers[3].incarnation_id,
        fenced=False,
        in_controlled_shutdown=True,
    )
    assert told.replay(leaving) == ["broker 3 is about to stop"]
    assert told.replay(UnregisterBrokerRecord(broker_id=3, broker_epoch=3)) == ["broker 3 is unregistered"]
    assert told.replay(RemoveTopicRecord(topic_id=TOPIC)) == ["topics deleted: t"]


def test_leaders_and_in_sync_replicas_are_told_before_and_after() -> None:
    """KIP-497: one line for all new leaders of a change, one for all new ISRs."""
    told = Told(9, is_active=True)
    told.replay(*usual_records())
    assert told.changed(leader=2, isr=(2, 3)) == [
        "leaders changed: t-0 1 -> 2 in epoch 1",
        "in-sync replicas changed: t-0 1,2,3 -> 2,3 of 1,2,3",
    ]
    assert told.changed(leader=-1) == ["leaders changed: t-0 2 -> none in epoch 2"]
    assert told.changed(isr=(3, 2)) == []


def test_many_changes_make_one_line() -> None:
    """M5: three are named, the others counted."""
    told = Told(9, is_active=True)
    told.replay(*usual_records(), *(partition(number) for number in range(1, 10)))
    moved = [PartitionChangeRecord(partition_id=number, topic_id=TOPIC, leader=2) for number in range(10)]
    assert told.replay(*moved) == [
        "leaders changed: t-0 1 -> 2 in epoch 1; t-1 1 -> 2 in epoch 1; t-2 1 -> 2 in epoch 1 and 7 more"
    ]


def test_a_broker_tells_of_what_it_leads_or_led() -> None:
    """The rest is in the log of the active controller."""
    leader, follower = Told(1, is_active=False), Told(3, is_active=False)
    for told in (leader, follower):
        assert told.replay(*usual_records()) == []
    assert leader.changed(isr=(1, 2)) == ["in-sync replicas changed: t-0 1,2,3 -> 1,2 of 1,2,3"]
    assert follower.changed(isr=(1, 2)) == []
    assert leader.changed(leader=2) == ["leaders changed: t-0 1 -> 2 in epoch 1"]
    assert follower.changed(leader=2) == []


def test_what_a_snapshot_brings_is_no_news() -> None:
    """KIP-630: it holds what is, not what happened."""
    image = replay_all(EMPTY_IMAGE, usual_records())
    delta = compare_images(EMPTY_IMAGE, image)
    assert delta.from_snapshot
    assert list(metadata_notices(delta, 1, is_active=True)) == []


def test_leaders_and_voters_are_told_once() -> None:
    """KIP-853: when they are not those of before."""
    told: list[str] = []
    notices = Notices(1)
    notices.on_notice = lambda notice: told.append(notice.text)
    for leader_id, epoch, voter_ids in ((2, 3, (2, 1)), (2, 3, (1, 2)), (-1, 4, (1, 2, 5)), (1, 4, (1, 2, 5))):
        notices.leader_changed(leader_id, epoch)
        notices.voters_are(voter_ids)
    assert told == [
        "node 2 leads the metadata quorum in epoch 3",
        "the voters of the metadata quorum are 1,2",
        "no leader of the metadata quorum is known in epoch 4",
        "the voters of the metadata quorum are 1,2,5",
        "this node leads the metadata quorum in epoch 4",
    ]


def test_what_a_start_reads_again_is_no_news() -> None:
    """B-R19: what lies in the log below its end at the start was told before."""
    told: list[str] = []
    notices = Notices(1)
    notices.on_notice = lambda notice: told.append(notice.text)
    notices.news_from = 100
    image = replay_all(EMPTY_IMAGE, usual_records())
    known = MetadataDelta(previous=EMPTY_IMAGE, image=image, changed_brokers=(1, 2, 3))
    notices.committed(known, is_active=True)
    assert told == []
    notices.news_from = 0
    notices.committed(known, is_active=True)
    assert len(told) == 3
