"""Lines for the operator about committed metadata and the quorum: who leads, which brokers came and went, which replicas are in sync."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from headrace.core.notice import Notice, unheard
from headrace.metadata.image import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.metadata.delta import MetadataDelta
    from headrace.metadata.image import BrokerRegistration, PartitionRegistration

NAMED: Final = 3
"""Of many things that changed alike so many are named, the others are counted."""
LOOKED_AT: Final = 10_000
"""Partitions of one delta that are looked at: a few milliseconds."""


class Notices:
    """Tells of the quorum's leaders and of metadata as they are committed. Driven by `node.machine`; `on_notice` is the driver's.

    What lies in the log below `news_from`, its end when the node started, has been told before.
    """

    def __init__(self, node_id: int) -> None:
        self.on_notice: Callable[[Notice], None] = unheard
        self.news_from = 0
        self._node_id = node_id
        self._leader = (-1, 0)
        self._voters: tuple[int, ...] = ()

    def leader_changed(self, leader_id: int, epoch: int) -> None:
        """The quorum has another leader, or none."""
        if (leader_id, epoch) != self._leader:
            self._leader = (leader_id, epoch)
            self.on_notice(leader_notice(self._node_id, leader_id=leader_id, epoch=epoch))

    def voters_are(self, voter_ids: Iterable[int]) -> None:
        """Who votes now: told when it is not who voted before (KIP-853)."""
        voters = tuple(sorted(voter_ids))
        if voters != self._voters:
            self._voters = voters
            self.on_notice(Notice("quorum", "", f"the voters of the metadata quorum are {_ids(voters) or 'not known'}"))

    def committed(self, delta: MetadataDelta, *, is_active: bool) -> None:
        """Metadata were committed; `is_active`: by the controller of this process."""
        if delta.previous.provenance.last_contained_offset >= self.news_from - 1:
            for notice in metadata_notices(delta, self._node_id, is_active=is_active):
                self.on_notice(notice)


def leader_notice(node_id: int, *, leader_id: int, epoch: int) -> Notice:
    """The leader of the metadata quorum is another one, or there is none."""
    if leader_id == node_id:
        text = f"this node leads the metadata quorum in epoch {epoch}"
    elif leader_id >= 0:
        text = f"node {leader_id} leads the metadata quorum in epoch {epoch}"
    else:
        text = f"no leader of the metadata quorum is known in epoch {epoch}"
    return Notice("quorum", "", text)


def metadata_notices(delta: MetadataDelta, node_id: int, *, is_active: bool) -> Iterator[Notice]:
    """What was committed: for the active controller all of it, for another node what happens to the partitions that it leads or led."""
    if delta.from_snapshot:
        return
    if is_active:
        for broker_id in delta.changed_brokers:
            known, now = delta.previous.cluster.brokers.get(broker_id), delta.image.cluster.brokers.get(broker_id)
            text = _broker_text(known, now)
            if text:
                yield Notice("brokers", str(broker_id), f"broker {broker_id} {text}")
        yield from _topic_notices(delta)
    yield from _partition_notices(delta, None if is_active else node_id)


def _broker_text(before: BrokerRegistration | None, after: BrokerRegistration | None) -> str:
    if after is None:
        return "is unregistered"
    if before is None or before.incarnation_id != after.incarnation_id:
        return f"registered with broker epoch {after.broker_epoch}"
    if before.fenced != after.fenced:
        return "is fenced: it leads nothing until it is heard again" if after.fenced else "is unfenced"
    return "is about to stop" if after.in_controlled_shutdown and not before.in_controlled_shutdown else ""


def _topic_notices(delta: MetadataDelta) -> Iterator[Notice]:
    made = [change.after for change in delta.changed_topics.values() if change.before is None]
    if made:
        names = _some([f"{topic.name} ({len(topic.partitions)} partitions)" for topic in made[:NAMED]], len(made))
        yield Notice("topics", "", f"topics created: {names}")
    if delta.deleted_topics:
        gone = [topic.name for topic in islice(delta.deleted_topics.values(), NAMED)]
        yield Notice("topics", "", f"topics deleted: {_some(gone, len(delta.deleted_topics))}")


def _partition_notices(delta: MetadataDelta, concerns: int | None) -> Iterator[Notice]:
    """One line for all new leaders, one for all new ISRs; `concerns` leaves out partitions that this broker neither leads nor led."""
    leaders: list[str] = []
    isrs: list[str] = []
    led = synced = 0
    for topic, number, before, after in islice(_known_partitions(delta), LOOKED_AT):
        if concerns is not None and concerns not in (before.leader, after.leader):
            continue
        if before.leader != after.leader:
            led += 1
            if led <= NAMED:
                leaders.append(
                    f"{topic}-{number} {_leader(before.leader)} -> {_leader(after.leader)} in epoch {after.leader_epoch}"
                )
        if before.isr != after.isr and set(before.isr) != set(after.isr):
            synced += 1
            if synced <= NAMED:
                isrs.append(f"{topic}-{number} {_ids(before.isr)} -> {_ids(after.isr)} of {_ids(after.replicas)}")
    if leaders:
        yield Notice("partitions", "leaders", f"leaders changed: {_some(leaders, led)}")
    if isrs:
        yield Notice("partitions", "isr", f"in-sync replicas changed: {_some(isrs, synced)}")


def _known_partitions(delta: MetadataDelta) -> Iterator[tuple[str, int, PartitionRegistration, PartitionRegistration]]:
    """Partitions that were there before and have changed: topic, number, before, after."""
    for change in delta.changed_topics.values():
        if change.before is not None:
            for number, (before, after) in change.partitions.items():
                if before is not None:
                    yield change.after.name, number, before, after


def _leader(broker_id: int) -> str:
    return "none" if broker_id == NO_LEADER else str(broker_id)


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _some(shown: list[str], count: int) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return "; ".join(shown) + more
