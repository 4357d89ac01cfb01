"""The replicas in sync with a leader, and who may join or must leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Fetcher(Protocol):
    """A follower's fetch session: each of its fetches asks for this partition too, and says nothing of it while nothing moved."""

    used_ms: int


@dataclass(slots=True, kw_only=True)
class FollowerProgress:
    """What a leader knows of one follower. `log_end_offset` -1 means that it has not fetched in this leader epoch.

    `caught_up_ms` is when it last had everything that the leader had (KIP-16): a fetch at the log end, or one that reached the end that the
    leader had at the fetch before. With a `session` every fetch of that is one at the log end, until the leader appends.
    """

    broker_id: int
    broker_epoch: int = -1
    log_end_offset: int = -1
    log_start_offset: int = -1
    caught_up_ms: int = 0
    fetched_ms: int = 0
    leader_end_at_fetch: int = -1
    has_caught_up: bool = False
    """It had everything at least once: `caught_up_ms` is not only when this leader began."""
    session: Fetcher | None = None

    @property
    def heard_ms(self) -> int:
        """When it last fetched, or when it last had everything."""
        heard = max(self.fetched_ms, self.caught_up_ms)
        return heard if self.session is None else max(heard, self.session.used_ms)

    def leave_session(self, session: Fetcher | None) -> None:
        """That session goes on without this partition, or ended; unless it is another one's by now."""
        if session is not None and self.session is session:
            self.session = None
            if self.log_end_offset == self.leader_end_at_fetch:
                self.caught_up_ms = max(self.caught_up_ms, session.used_ms)
            self.fetched_ms = max(self.fetched_ms, session.used_ms)

    def leader_appends(self, *, end_before: int) -> None:
        """The leader's log grows: up to now every fetch of the session was one at the log end."""
        if self.session is not None and self.log_end_offset == end_before:
            self.caught_up_ms = max(self.caught_up_ms, self.session.used_ms)

    def fetched(self, *, fetch_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """The follower holds everything below `fetch_offset` (S3-105)."""
        if fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
            self.has_caught_up = True
        elif fetch_offset >= self.leader_end_at_fetch >= 0:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
            self.has_caught_up = True
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_ms = now_ms
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset

    def keeps_up(self, *, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it had everything not longer than `replica.lag.time.max.ms` ago, of this leader and as this process."""
        return self.has_caught_up and now_ms - self.caught_up_ms <= lag_time_max_ms

    def is_caught_up(self, *, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """Whether it holds all, or held all not longer than `replica.lag.time.max.ms` ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_time_max_ms


def effective_min_isr(*, min_insync_replicas: int, replication_factor: int) -> int:
    """`min.insync.replicas`, but never more than there are replicas."""
    return min(min_insync_replicas, replication_factor)


def may_join(
    follower: FollowerProgress, *, high_watermark: int, leader_epoch_start: int | None, log_end_offset: int
) -> bool:
    """It holds everything committed and everything below the start of the leader's epoch (P8).

    A new leader's epoch start may be past the high watermark; joining before it would allow the loss of what lies between.
    """
    end = follower.log_end_offset
    return (
        0 <= end <= log_end_offset
        and end >= high_watermark
        and leader_epoch_start is not None
        and end >= leader_epoch_start
    )
