"""The brokers that the replicas of new partitions go to.

Racks are taken in turn, so that the replicas of a partition are in as many racks as there are; within a rack, brokers are taken in turn.
A fenced broker gets none, unlike in Kafka, which uses such brokers last: the partition would begin its life short of a replica. Each partition
begins one rack further, and when every broker has led once, the order is shuffled, so that the same sets do not come again and again (KIP-36; B72).
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
    """The live brokers of one rack, and how far they were used."""

    def __init__(self) -> None:
        self.brokers: list[int] = []
        self._taken = 0
        self._round = -1

    def begin(self, partition: int) -> None:
        """For another partition every broker of the rack may be used again; the turn goes on."""
        if self._round != partition:
            self._round = partition
            self._taken = 0

    def next(self, turn: int) -> int | None:
        """The next broker for this partition, or None when all are used."""
        if self._taken >= len(self.brokers):
            return None
        found = self.brokers[(turn + self._taken) % len(self.brokers)]
        self._taken += 1
        return found

    def shuffle(self, rng: Rng) -> None:
        """Another order."""
        shuffle(self.brokers, rng)


def shuffle(items: list[T], rng: Rng) -> None:
    """Put the items in a random order (Fisher-Yates)."""
    for last in range(len(items) - 1, 0, -1):
        other = rng.randrange(0, last + 1)
        items[last], items[other] = items[other], items[last]


def place_replicas(
    brokers: Iterable[UsableBroker], *, partitions: int, replication_factor: int, rng: Rng
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions` new partitions, the preferred leader first.

    Raises PeerError(INVALID_REPLICATION_FACTOR): not positive, or more than the brokers that are not fenced.
    """
    usable = sorted(brokers)
    _check(usable, replication_factor)
    racks = _racks(usable, rng)
    live = sum(len(rack.brokers) for rack in racks)
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
    replicas: list[int] = []
    position = turn
    while len(replicas) < replication_factor:
        found = racks[position % size].next(inner)
        position += 1
        if found is not None:
            replicas.append(found)
    return tuple(replicas)


def _racks(usable: Sequence[UsableBroker], rng: Rng) -> list[_Rack]:
    by_name: dict[str | None, _Rack] = {}
    for broker in usable:
        if not broker.is_fenced:
            by_name.setdefault(broker.rack, _Rack()).brokers.append(broker.broker_id)
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
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "All brokers are currently fenced, or have all their log directories cordoned.",
        )
    if replication_factor > len(usable):
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {len(usable)} "
            "broker(s) are registered or some brokers have all their log directories cordoned.",
        )
    live = sum(not broker.is_fenced for broker in usable)
    if replication_factor > live:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The target replication factor of {replication_factor} cannot be reached because only {live} of {len(usable)} "
            "broker(s) are not fenced.",
        )
