"""What the records of one partition of the offsets topic say.

The image is immutable, on persistent maps: a change costs what it changes, and what is not committed is dropped by forgetting an image. `GroupRules.replay` alone says what a
record means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from immutables import Map, MapMutation

from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.group_records.group_metadata_value import GroupMetadataValue

NO_PRODUCER = -1


class CommittedOffset(NamedTuple):
    """A position that a group stored. Times are milliseconds since 1970; `leader_epoch` is -1 when unknown.

    `expire_timestamp_ms` is -1 but for commits with a retention of their own (OffsetCommit 2-4).
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: Uuid = ZERO_UUID


class OffsetKey(NamedTuple):
    """A group's position in one partition."""

    group_id: str
    topic: str
    partition: int


class GroupStored(NamedTuple):
    """A record about a classic group; without a value the group is gone."""

    group_id: str
    value: GroupMetadataValue | None


class OffsetStored(NamedTuple):
    """A record about a position; without a value it is gone."""

    key: OffsetKey
    value: CommittedOffset | None


StoredRecord = GroupStored | OffsetStored
Positions = Map[int, CommittedOffset]
TopicOffsets = Map[str, Positions]


class Held(NamedTuple):
    """A position in an open transaction; None when a later record took its place. `order` is its place among all that were held."""

    position: CommittedOffset | None
    order: int


class GroupsImage(NamedTuple):
    """Stored groups by id, positions by group, topic and partition, and those in open transactions by producer id; `position_count` is without the latter. Whoever makes records or answers of it sorts first."""

    groups: Map[str, GroupMetadataValue]
    offsets: Map[str, TopicOffsets]
    open: Map[int, Map[OffsetKey, Held]]
    held_count: int
    position_count: int = 0

    def positions_of(self, group_id: str) -> TopicOffsets:
        """The positions of a group by topic and partition."""
        return self.offsets.get(group_id, _NO_TOPICS)

    def position_of(self, key: OffsetKey) -> CommittedOffset | None:
        """One position, but for open transactions."""
        return self.positions_of(key.group_id).get(key.topic, _NO_POSITIONS).get(key.partition)

    def keys_of(self, group_id: str) -> list[OffsetKey]:
        """The positions of a group, those in open transactions too, in order."""
        topics = self.positions_of(group_id)
        keys = {OffsetKey(group_id, topic, partition) for topic in topics for partition in topics[topic]}
        return sorted(keys | self.open_of(group_id))

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether an open transaction may still change this position."""
        return any(key in held for held in self.open.values())

    def open_of(self, group_id: str) -> set[OffsetKey]:
        """The positions of a group that open transactions hold."""
        if not self.open:
            return set()
        return {key for held in self.open.values() for key in held if key.group_id == group_id}

    def group_ids(self) -> Iterator[str]:
        """Every group of which something is stored; some more than once."""
        yield from self.groups
        yield from self.offsets
        for held in self.open.values():
            yield from (key.group_id for key in held)

    def knows(self, group_id: str) -> bool:
        """Whether something is stored of the group."""
        return group_id in self.groups or group_id in self.offsets or bool(self.open_of(group_id))


_NO_TOPICS: TopicOffsets = Map()
_NO_POSITIONS: Positions = Map()
EMPTY_IMAGE = GroupsImage(Map(), Map(), Map(), 0)


def replay(image: GroupsImage, records: Iterable[StoredRecord], producer_id: int = NO_PRODUCER) -> GroupsImage:
    """The image after these records; those of a transaction are held until it ends, but for deletions."""
    groups, offsets, held_by, held_count, position_count = image
    drafts = _Drafts(offsets, position_count)
    for record in records:
        if isinstance(record, GroupStored):
            groups = _put(groups, record.group_id, record.value)
            continue
        key, value = record
        if value is not None and producer_id != NO_PRODUCER:
            held = held_by.get(producer_id, Map()).set(key, Held(value, held_count))
            held_by = held_by.set(producer_id, held)
            held_count += 1
            continue
        if held_by:
            held_by = _without(held_by, key) if value is None else _overtaken(held_by, key, held_count)
        drafts.put(key, value)
    return GroupsImage(groups, drafts.finish(), held_by, held_count, drafts.count)


def end_transaction(image: GroupsImage, producer_id: int, *, is_committed: bool) -> GroupsImage:
    """Let the held positions of a producer count, each unless a later record took its place, or forget them."""
    ended = image.open.get(producer_id)
    if ended is None:
        return image
    held_by = image.open.delete(producer_id)
    drafts = _Drafts(image.offsets, image.position_count)
    if is_committed:
        for key, (position, order) in ended.items():
            if position is not None:
                drafts.put(key, position)
                held_by = _overtaken(held_by, key, order)
    return GroupsImage(image.groups, drafts.finish(), held_by, image.held_count, drafts.count)


class _Drafts:
    """Positions under change, and how many there are. A run of positions of one topic in one group is one change of the maps above them."""

    __slots__ = ("_offsets", "_place", "_positions", "_topics", "count")

    def __init__(self, offsets: Map[str, TopicOffsets], count: int) -> None:
        self._offsets = offsets
        self.count = count
        self._place: tuple[str, str] | None = None
        self._topics = _NO_TOPICS
        self._positions: MapMutation[int, CommittedOffset] | None = None

    def put(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        """Set or, with None, remove a position."""
        group_id, topic, partition = key
        if self._positions is None or self._place != (group_id, topic):
            self._settle()
            self._place = (group_id, topic)
            self._topics = self._offsets.get(group_id, _NO_TOPICS)
            self._positions = self._topics.get(topic, _NO_POSITIONS).mutate()
        if value is not None:
            self.count += partition not in self._positions
            self._positions[partition] = value
        elif partition in self._positions:
            self.count -= 1
            del self._positions[partition]

    def finish(self) -> Map[str, TopicOffsets]:
        """All positions, the changed ones among them."""
        self._settle()
        return self._offsets

    def _settle(self) -> None:
        if self._place is None or self._positions is None:
            return
        group_id, topic = self._place
        positions = self._positions.finish()
        topics = _put(self._topics, topic, positions or None)
        self._offsets = _put(self._offsets, group_id, topics or None)
        self._place = self._positions = None


def _put(known: Map, name: str, value: object) -> Map:  # type: ignore[type-arg]
    """The map with this value, or without the name when it is None."""
    if value is not None:
        return known.set(name, value)
    return known.delete(name) if name in known else known


def _without(held_by: Map[int, Map[OffsetKey, Held]], key: OffsetKey) -> Map[int, Map[OffsetKey, Held]]:
    """No transaction holds the key any more."""
    for producer_id, held in list(held_by.items()):
        if key in held:
            held_by = held_by.set(producer_id, held.delete(key))
    return held_by


def _overtaken(held_by: Map[int, Map[OffsetKey, Held]], key: OffsetKey, order: int) -> Map[int, Map[OffsetKey, Held]]:
    """What was held of the key before `order` does not count any more; the key stays unstable."""
    for producer_id, held in list(held_by.items()):
        known = held.get(key)
        if known is not None and known.order < order:
            held_by = held_by.set(producer_id, held.set(key, Held(None, known.order)))
    return held_by
