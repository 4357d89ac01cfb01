"""The beginning of a partition, and what becomes of partitions when a broker goes or comes.

Source: KIP-497, KIP-631, KIP-841, KIP-966; C5, C7, C10. The records are made by `partition_change`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.controller.eligibility import NOBODY, Eligible
from headrace.controller.elr import MIN_ISR_KEY, is_elr_on
from headrace.controller.partition_change import Election, Wish, change_partition, default_directory
from headrace.metadata.image import NO_LEADER, PartitionRegistration

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
    is_unclean: bool = False,
) -> Iterator[VersionedRecord]:
    """The changes that partitions need when broker `remove` leaves their ISR, or broker `add` becomes able to lead.

    With `home` the replicas of `remove` are in that directory from now on, those that were elsewhere begin anew; `is_unclean`: it did not stop cleanly, and leaves the ELR too (C10).
    A place that is gone meanwhile needs none.
    """
    eligible = situation.eligible(without=remove, plus=add)
    metadata_version = situation.metadata_version
    topic: TopicImage | None = None
    election, min_isr = Election.ONLINE, None
    for place in places:
        if topic is None or topic.id != place.topic_id:
            topic = situation.image.topics.by_id.get(place.topic_id)
            if topic is None:
                continue
            election, min_isr = election_for(situation, topic.name), min_isr_for(situation, topic.name)
        before = topic.partitions.get(place.partition)
        if before is None or (add != NOBODY and before.leader != NO_LEADER):  # it got one meanwhile
            continue
        isr = before.isr
        if remove in isr:
            isr = tuple([each for each in isr if each != remove])
        record = change_partition(
            place,
            before,
            Wish(
                isr=isr,
                unclean=remove if is_unclean else NOBODY,
                emptied=NOBODY if home in (None, before.directory_of(remove)) else remove,
                election=election,
                directories=None if home is None else {remove: home},
            ),
            eligible,
            metadata_version=metadata_version,
            min_isr=min_isr,
        )
        if record is not None:
            yield record


def election_for(situation: Situation, topic: str) -> Election:
    """Whether partitions of the topic may get a leader that is not in sync (C11)."""
    return Election.UNCLEAN if is_unclean_allowed(situation, topic) else Election.ONLINE


def is_unclean_allowed(situation: Situation, topic: str) -> bool:
    """`unclean.leader.election.enable` of a topic: its own, else the brokers', else this node's."""
    value = _setting(situation, topic, "unclean.leader.election.enable")
    return situation.config.unclean_leader_election_enable if value is None else value.strip().lower() == "true"


def min_isr_for(situation: Situation, topic: str) -> int | None:
    """`min.insync.replicas` of a topic, from the same places; None where the feature ELR is off (KIP-966)."""
    if not is_elr_on(situation.image.features):
        return None
    value = _setting(situation, topic, MIN_ISR_KEY)
    return situation.config.min_insync_replicas if value is None else int(value)


def _setting(situation: Situation, topic: str, name: str) -> str | None:
    configs = situation.image.configs
    for settings in (configs.of_topic(topic), configs.of_broker(situation.config.node_id), configs.of_all_brokers()):
        value = settings.get(name)
        if value is not None:
            return value
    return None
