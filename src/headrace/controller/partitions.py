"""The beginning of a partition, and what becomes of partitions when a broker goes or comes.

Source: KIP-497, KIP-631, KIP-841; C5, C7. The records are made by `partition_change`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.controller.eligibility import NOBODY, Eligible
from headrace.controller.partition_change import Election, Wish, change_partition, default_directory
from headrace.metadata.image import PartitionRegistration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.controller.decision import Situation
    from headrace.core.ids import TopicIdPartition, Uuid
    from headrace.metadata.image import ClusterImage, TopicImage
    from headrace.metadata.snapshot import VersionedRecord


def new_partition(cluster: ClusterImage, eligible: Eligible, replicas: tuple[int, ...]) -> PartitionRegistration | None:
    """A partition as it begins: the active replicas are in sync and the first of them leads; None when none is active."""
    isr = tuple(each for each in replicas if eligible.is_active(each))
    if not isr:
        return None
    return PartitionRegistration(
        replicas=replicas,
        directories=tuple(default_directory(cluster, each) for each in replicas),
        isr=isr,
        leader=isr[0],
    )


def leader_and_isr_updates(
    situation: Situation,
    places: Iterable[TopicIdPartition],
    *,
    remove: int = NOBODY,
    add: int = NOBODY,
    home: Uuid | None = None,
) -> Iterator[VersionedRecord]:
    """The changes that partitions need when broker `remove` leaves their ISR, or broker `add` becomes able to lead.

    With `home` the replicas of `remove` are in that directory from now on. A place that is gone meanwhile needs none.
    """
    eligible = situation.eligible(without=remove, plus=add)
    metadata_version = situation.metadata_version
    topic: TopicImage | None = None
    election = Election.ONLINE
    for place in places:
        if topic is None or topic.id != place.topic_id:
            topic = situation.image.topics.by_id.get(place.topic_id)
            if topic is None:
                continue
            election = election_for(situation, topic.name)
        before = topic.partitions.get(place.partition)
        if before is None:
            continue
        isr = before.isr
        if remove in isr:
            isr = tuple([each for each in isr if each != remove])
        record = change_partition(
            place,
            before,
            Wish(isr=isr, election=election, directories=None if home is None else {remove: home}),
            eligible,
            metadata_version=metadata_version,
        )
        if record is not None:
            yield record


def election_for(situation: Situation, topic: str) -> Election:
    """Whether partitions of the topic may get a leader that is not in sync (C11)."""
    return Election.UNCLEAN if is_unclean_allowed(situation, topic) else Election.ONLINE


def is_unclean_allowed(situation: Situation, topic: str) -> bool:
    """`unclean.leader.election.enable` of a topic: its own, else the brokers', else this node's."""
    configs = situation.image.configs
    for settings in (configs.of_topic(topic), configs.of_broker(situation.config.node_id), configs.of_all_brokers()):
        value = settings.get("unclean.leader.election.enable")
        if value is not None:
            return value.strip().lower() == "true"
    return situation.config.unclean_leader_election_enable
