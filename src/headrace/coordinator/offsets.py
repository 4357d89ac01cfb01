"""How far has each group read, as far as the log has it committed, and what is on its way there?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.core.ids import ZERO_UUID, Uuid


class CommittedOffset(NamedTuple):
    """A position that a group stored. Times are milliseconds since 1970; `leader_epoch` is -1 when unknown.

    `expire_timestamp_ms` is -1 but for commits with a retention of their own (OffsetCommit 2-4). `record_offset` is where a loaded record lay.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1
    topic_id: Uuid = ZERO_UUID
    record_offset: int = -1


class OffsetKey(NamedTuple):
    """A group's position in one partition."""

    group_id: str
    topic: str
    partition: int


OffsetWrites = dict[OffsetKey, CommittedOffset | None]
TopicOffsets = dict[str, dict[int, CommittedOffset]]


class OffsetTable:
    """The positions of all groups of a coordinator.

    What is appended but not yet below the high watermark lies in layers over the committed state, one an append: readers who may only see committed positions
    read `committed_of`, decisions are made on `latest_of`. Open transactions, which only a loaded log can hold, lie apart.
    """

    def __init__(self) -> None:
        self._committed: dict[str, TopicOffsets] = {}
        self._layers: dict[int, OffsetWrites] = {}
        self._open: dict[int, dict[OffsetKey, CommittedOffset]] = {}

    # ---- reading

    def group_ids(self) -> Iterator[str]:
        """The groups with committed positions."""
        return iter(self._committed)

    def committed_of(self, group_id: str) -> TopicOffsets:
        """The committed positions of a group by topic and partition; not to be changed."""
        return self._committed.get(group_id, {})

    def latest_of(self, group_id: str) -> TopicOffsets:
        """The positions of a group with every append counted that did not fail; not to be changed."""
        committed = self.committed_of(group_id)
        touched = [
            (key, value) for layer in self._layers.values() for key, value in layer.items() if key.group_id == group_id
        ]
        if not touched:
            return committed
        merged = {topic: dict(partitions) for topic, partitions in committed.items()}
        for key, value in touched:
            _put(merged, key.topic, key.partition, value)
        return merged

    def count(self) -> int:
        """How many committed positions there are."""
        return sum(len(partitions) for topics in self._committed.values() for partitions in topics.values())

    def is_unstable(self, key: OffsetKey) -> bool:
        """Whether an open transaction may still change this position."""
        return any(key in offsets for offsets in self._open.values())

    def has_open_transaction(self, group_id: str) -> bool:
        """Whether an open transaction holds positions of the group."""
        return any(key.group_id == group_id for offsets in self._open.values() for key in offsets)

    def open_of(self, group_id: str) -> list[OffsetKey]:
        """The positions of a group that open transactions hold."""
        return [key for offsets in self._open.values() for key in offsets if key.group_id == group_id]

    # ---- writing

    def append(self, append_id: int, writes: OffsetWrites) -> None:
        """Remember what an append will mean once it is committed."""
        if writes:
            self._layers[append_id] = writes

    def commit(self, append_id: int) -> None:
        """The append is committed: its writes count."""
        for key, value in self._layers.pop(append_id, {}).items():
            self.put(key, value)

    def drop(self, append_id: int) -> None:
        """The append failed: its writes never were."""
        self._layers.pop(append_id, None)

    def put(self, key: OffsetKey, value: CommittedOffset | None) -> None:
        """Set or, with None, remove a committed position."""
        topics = self._committed.get(key.group_id)
        if topics is None:
            if value is None:
                return
            topics = self._committed[key.group_id] = {}
        _put(topics, key.topic, key.partition, value)
        if not topics:
            del self._committed[key.group_id]
        if value is None:
            for offsets in self._open.values():
                offsets.pop(key, None)

    def hold(self, producer_id: int, key: OffsetKey, value: CommittedOffset) -> None:
        """Keep a position until its transaction ends."""
        self._open.setdefault(producer_id, {})[key] = value

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        """Let the held positions of a producer count, each unless a later record took its place, or forget them."""
        for key, value in self._open.pop(producer_id, {}).items():
            if not is_committed:
                continue
            current = self.committed_of(key.group_id).get(key.topic, {}).get(key.partition)
            if current is None or current.record_offset <= value.record_offset:
                self.put(key, value)


def _put(topics: TopicOffsets, topic: str, partition: int, value: CommittedOffset | None) -> None:
    if value is not None:
        topics.setdefault(topic, {})[partition] = value
    elif topic in topics:
        topics[topic].pop(partition, None)
        if not topics[topic]:
            del topics[topic]
