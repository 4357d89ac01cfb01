"""The positions of one group, as a response has them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Set
from typing import Final, NamedTuple

from headrace.coordinator.groups.image import CommittedOffset, OffsetKey
from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.wire.messages.offset_fetch import OffsetFetchResponsePartitions, OffsetFetchResponseTopics

TopicsAsked = Iterable[tuple[str, Uuid, tuple[int, ...]]]

_REST_AFTER: Final = 50
_UNKNOWN_OFFSET: Final = -1


class StoredPositions(NamedTuple):
    """Positions at a moment, by topic and partition, and those that an open transaction may still change."""

    group_id: str
    offsets: Mapping[str, Mapping[int, CommittedOffset]]
    unstable: Set[OffsetKey]

    def topics(self, asked: TopicsAsked | None) -> Generator[None, None, tuple[OffsetFetchResponseTopics, ...]]:
        """Those of (name, topic id, partitions), or all; -1 where there is none (G4). There is a rest after every few: a group may have very many (M6)."""
        if asked is None:
            asked = ((name, ZERO_UUID, tuple(sorted(self.offsets[name]))) for name in sorted(self.offsets))
        topics = []
        rest_at = _REST_AFTER
        for name, topic_id, indexes in asked:
            known = self.offsets.get(name, {})
            partitions: list[OffsetFetchResponsePartitions] = []
            for index in indexes:
                rest_at -= 1
                if not rest_at:
                    yield
                    rest_at = _REST_AFTER
                partitions.append(self._answer(name, topic_id, index, known.get(index)))
            topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=tuple(partitions)))
        return tuple(topics)

    def _answer(
        self, name: str, topic_id: Uuid, index: int, position: CommittedOffset | None
    ) -> OffsetFetchResponsePartitions:
        if self.unstable and OffsetKey(self.group_id, name, index) in self.unstable:
            return no_position(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if position is None or _is_of_other_topic(position, topic_id):
            return no_position(index, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=position.offset,
            committed_leader_epoch=position.leader_epoch,
            metadata=position.metadata,
        )


def no_position(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    """What is told of a partition without a position, or with one that cannot be told."""
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=_UNKNOWN_OFFSET,
        committed_leader_epoch=-1,
        metadata="",
        error_code=error,
    )


def _is_of_other_topic(position: CommittedOffset, topic_id: Uuid) -> bool:
    """Whether the position was stored for an earlier topic of the same name."""
    return ZERO_UUID not in (position.topic_id, topic_id) and position.topic_id != topic_id
