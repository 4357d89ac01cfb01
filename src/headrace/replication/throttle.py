"""The followed partitions of one fetcher whose traffic is throttled, and those of them that wait for the quota (KIP-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.replication.follower_events import FollowerState

if TYPE_CHECKING:
    from headrace.core.ids import TopicIdPartition
    from headrace.replication.follower_events import FollowedPartition
    from headrace.replication.quota import ReplicationQuota


class Throttle:
    """What a fetcher leaves out of its requests while the quota is exceeded: listed partitions that are behind. Driven by `replication.follower`.

    All traffic of listed partitions counts, also of those that are in sync; only those that are not wait, so that nobody falls out of sync by it.
    """

    def __init__(self, quota: ReplicationQuota | None, *, most_ms: int) -> None:
        self._quota = quota
        self._most_ms = most_ms
        self.listed: dict[TopicIdPartition, FollowedPartition] = {}
        self._held: dict[TopicIdPartition, FollowedPartition] = {}
        self._is_exceeded = False
        self._look_at_ms: int | None = None

    @property
    def due_ms(self) -> int | None:
        """When the quota must be looked at again, if somebody waits for it."""
        return self._look_at_ms if self._held else None

    def follow(self, partition: FollowedPartition) -> None:
        """A partition is followed, anew, or listed or not any more."""
        self._held.pop(partition.key, None)
        if partition.is_listed and self._quota is not None:
            self.listed[partition.key] = partition
        else:
            self._unlist(partition.key)

    def leave(self, key: TopicIdPartition) -> None:
        """It is followed no more."""
        self._held.pop(key, None)
        self._unlist(key)

    def _unlist(self, key: TopicIdPartition) -> None:
        self.listed.pop(key, None)
        if not self.listed:
            self._is_exceeded = False

    def record(self, size: int, now_ms: int) -> None:
        """A listed partition took so many bytes."""
        if self._quota is not None:
            self._quota.record(size, now_ms)

    def holds(self, partition: FollowedPartition) -> bool:
        """Whether it must wait: then its state says so."""
        if not self._is_exceeded or partition.key not in self.listed or partition.lag == 0:
            return False
        partition.state = FollowerState.THROTTLED
        self._held[partition.key] = partition
        return True

    def look(self, now_ms: int) -> list[FollowedPartition]:
        """The partitions that are to be fetched from their ends: those that waited and may go on, or that are fetched and must wait now."""
        assert self._quota is not None, "only then partitions are listed"
        was_exceeded, self._is_exceeded = self._is_exceeded, self._quota.is_exceeded(now_ms)
        moved: list[FollowedPartition] = []
        if was_exceeded and not self._is_exceeded:
            moved = list(self._held.values())
            self._held.clear()
        elif self._is_exceeded and not was_exceeded:
            moved = [each for each in self.listed.values() if each.state is FollowerState.FETCHING]
        self._look_at_ms = self._quota.acceptable_at_ms(now_ms, latest_ms=now_ms + self._most_ms)
        return moved
