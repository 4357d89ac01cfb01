"""How a broker is emptied before it leaves: where its replicas go, and where they are.

The plan keeps every replication factor. A replica goes to a live broker that has none of the partition yet, in a rack that has none either if
there is one, and there to the broker with the fewest replicas (S1-66, decision 31).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.client.routing import refresh
from headrace.client.session import Session
from headrace.client.talk import Conversation
from headrace.core.errors import PeerError
from headrace.core.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A partition's replicas as they will be once what moves has moved, and its leader (-1 for none)."""

    replicas: tuple[int, ...]
    leader: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainPlan:
    """Where the replicas of a broker go, and the partitions for which there is no place or no leader to copy from."""

    targets: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    without_place: list[TopicPartition] = field(default_factory=list)
    without_leader: list[TopicPartition] = field(default_factory=list)


def plan_drain(partitions: Mapping[TopicPartition, Placed], racks: Mapping[int, str | None], leaver: int) -> DrainPlan:
    """`racks` names the live brokers. The replica that comes takes the place of the one that goes, so that leaders stay spread."""
    plan = DrainPlan()
    load = dict.fromkeys((each for each in racks if each != leaver), 0)
    for placed in partitions.values():
        for broker_id in placed.replicas:
            if broker_id in load:
                load[broker_id] += 1
    for where in sorted(partitions):
        placed = partitions[where]
        if leaver not in placed.replicas:
            continue
        taken = {racks.get(each) for each in placed.replicas if each != leaver} - {None}
        free = [each for each in load if each not in placed.replicas]
        if placed.leader < 0:
            plan.without_leader.append(where)
        elif not free:
            plan.without_place.append(where)
        else:
            chosen = min(free, key=lambda each: (racks[each] in taken, load[each], each))
            load[chosen] += 1
            plan.targets[where] = tuple(chosen if each == leaver else each for each in placed.replicas)
    return plan


def can_be_forced(partitions: Mapping[TopicPartition, Placed], racks: Mapping[int, str | None], leaver: int) -> bool:
    """Whether the controller may take the broker out whatever is lost: what only it has needs another live broker to go on at, empty (S1-71)."""
    return any(each != leaver for each in racks) or all(each.replicas != (leaver,) for each in partitions.values())


def placements(session: Session) -> Conversation[dict[TopicPartition, Placed]]:
    """Every partition as brokers tell it, whatever of it moves at the moment. Raises PeerError."""
    found = yield from refresh(session, None)
    placed: dict[TopicPartition, Placed] = {}
    for name, view in found.items():
        if not isinstance(view, PeerError):
            for part in view.partitions:
                placed[TopicPartition(name, part.partition)] = Placed(replicas=part.replicas, leader=part.leader)
    return placed


def names(partitions: Iterable[TopicPartition], *, most: int = 10) -> str:
    """`a-0, a-1 and 3 more`."""
    all_of_them = [f"{each.topic}-{each.partition}" for each in partitions]
    more = f" and {len(all_of_them) - most} more" if len(all_of_them) > most else ""
    return ", ".join(all_of_them[:most]) + more
