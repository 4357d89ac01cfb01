"""On which brokers do the replicas of new partitions go?

Racks are taken in turn, so that the replicas of a partition are in as many racks as there are; within a rack, brokers are taken in turn.
The first replica, which will lead, is on a live broker; fenced brokers come last. Each partition begins one rack further, and when every
live broker has led once, the order is shuffled, so that the same sets do not come again and again (KIP-36; B72).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ports import Rng

T = TypeVar("T")


class UsableBroker(NamedTuple):
    """A broker that may hold new replicas; `rack` None is a rack of its own name."""

    broker_id: int
    rack: str | None
    is_fenced: bool


class _Rack:
    """The brokers of one rack, and how far each list was used."""

    def __init__(self) -> None:
        self.live: list[int] = []
        self.fenced: list[int] = []
        self._taken_live = 0
        self._taken_fenced = 0
        self._round = -1

    def begin(self, partition: int) -> None:
        """For another partition every broker of the rack may be used again; the turn goes on."""
        if self._round != partition:
            self._round = partition
            self._taken_live = self._taken_fenced = 0

    def next_live(self, turn: int) -> int | None:
        """The next live broker for this partition, or None when all are used."""
        if self._taken_live >= len(self.live):
            return None
        found = self.live[(turn + self._taken_live) % len(self.live)]
        self._taken_live += 1
        return found

    def next_any(self, turn: int) -> int | None:
        """The next broker, live ones first, or None when all are used."""
        found = self.next_live(turn)
        if found is not None:
            return found
        if self._taken_fenced >= len(self.fenced):
            return None
        found = self.fenced[(turn + self._taken_fenced) % len(self.fenced)]
        self._taken_fenced += 1
        return found

    def shuffle(self, rng: Rng) -> None:
        """Another order."""
        shuffle(self.live, rng)
        shuffle(self.fenced, rng)


def shuffle(items: list[T], rng: Rng) -> None:
    """Put the items in a random order (Fisher-Yates)."""
    for last in range(len(items) - 1, 0, -1):
        other = rng.randrange(0, last + 1)
        items[last], items[other] = items[other], items[last]


def place_replicas(
    brokers: Iterable[UsableBroker], *, partitions: int, replication_factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions` new partitions, the preferred leader first.

    Raises PeerError(INVALID_REPLICATION_FACTOR): not positive, more than the brokers, or no broker is alive.
    """
    usable = sorted(brokers)
    _check(usable, replication_factor)
    racks = _racks(usable, rng)
    live = sum(not broker.is_fenced for broker in usable)
    placed: list[tuple[int, ...]] = []
    turn = 0
    for partition in range(partitions):
        if live > 1 and partition > 0 and partition % live == 0:
            shuffle(racks, rng)
            for rack in racks:
                rack.shuffle(rng)
            turn = 0
        placed.append(_place_one(racks, partition, turn, replication_factor))
        turn += 1
    return placed


def _place_one(racks: Sequence[_Rack], partition: int, turn: int, replication_factor: int) -> tuple[int, ...]:
    for rack in racks:
        rack.begin(partition)
    size = len(racks)
    inner = turn // size
    first = next(i for i in range(size) if racks[(turn + i) % size].live)
    leader = racks[(turn + first) % size].next_live(inner)
    assert leader is not None
    replicas = [leader]
    position = turn + first + 1
    while len(replicas) < replication_factor:
        found = racks[position % size].next_any(inner)
        position += 1
        if found is not None:
            replicas.append(found)
    return tuple(replicas)


def _racks(usable: Sequence[UsableBroker], rng: Rng) -> list[_Rack]:
    by_name: dict[str | None, _Rack] = {}
    for broker in usable:
        rack = by_name.setdefault(broker.rack, _Rack())
        (rack.fenced if broker.is_fenced else rack.live).append(broker.broker_id)
    racks = list(by_name.values())
    shuffle(racks, rng)
    for rack in racks:
        rack.shuffle(rng)
    return racks


def _check(usable: Sequence[UsableBroker], replication_factor: int) -> None:
    if replication_factor <= 0:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Invalid replication factor {replication_factor}: the replication factor must be positive.",
        )
    if all(broker.is_fenced for broker in usable):
        raise PeerError(ErrorCode.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced.")
    if replication_factor > len(usable):
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
