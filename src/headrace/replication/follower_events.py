"""A followed partition, what its fetcher is told of it, and what the fetcher orders: the values of `replication.follower`."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from headrace.core.values import value_class

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace.core.error_code import ErrorCode
    from headrace.core.errors import StorageFault
    from headrace.core.ids import TopicIdPartition
    from headrace.core.offsets import OffsetAndEpoch
    from headrace.log.ports import PartitionLogPort
    from headrace.replication.fetch_plan import PlannedFetch, Position
    from headrace.replication.waiting import PartitionWaiters


class FollowerState(Enum):
    """Where a followed partition stands; the module lists the transitions."""

    FETCHING = "fetching"
    ASKING = "asking"
    CUTTING = "cutting"
    SYNCING = "syncing"
    THROTTLED = "throttled"
    RESTING = "resting"
    FENCED = "fenced"


class FollowedPartition:
    """One partition that is followed in one leader epoch. `waiters` are consumers of this copy. `lag` is what the leader had committed beyond our end when it last said so; -1: not yet."""

    __slots__ = (
        "early_tries",
        "is_listed",
        "key",
        "lag",
        "leader_epoch",
        "log",
        "position",
        "rests_until_ms",
        "state",
        "waiters",
        "wants_ends",
    )

    def __init__(
        self,
        key: TopicIdPartition,
        log: PartitionLogPort,
        *,
        leader_epoch: int,
        waiters: PartitionWaiters | None = None,
    ) -> None:
        self.key = key
        self.log = log
        self.leader_epoch = leader_epoch
        self.waiters = waiters
        self.state = FollowerState.FETCHING
        self.position: Position | None = None
        """What was last asked for."""
        self.rests_until_ms = 0
        self.early_tries = 0
        self.wants_ends = False
        self.is_listed = False
        """Among the replicas whose traffic is throttled (KIP-73)."""
        self.lag = -1

    def __repr__(self) -> str:
        return f"FollowedPartition({self.log.topic_partition}, {self.state.value}, epoch={self.leader_epoch})"


class PartitionTold(NamedTuple):
    """What a Fetch response says of one partition. Offsets are -1 where it does not say; `records` is a view onto the response."""

    key: TopicIdPartition
    error: ErrorCode
    high_watermark: int
    log_start_offset: int
    diverging: OffsetAndEpoch | None
    records: memoryview | None


class PartitionCut(NamedTuple):
    """Cut the partition's log at `offset`; with `starts_over` drop all of it, the next record gets `offset`."""

    partition: FollowedPartition
    offset: int
    starts_over: bool


class TurnShare:
    """How much more the fetchers of a broker may take in this turn, one for all of them; `left` counts batches, and what costs as much as so many."""

    __slots__ = ("left",)

    def __init__(self, left: int = 1 << 62) -> None:
        self.left = left


# --- events ---


@value_class
class PartitionsFollowed:
    """The broker leads these, and this replica follows, in a leader epoch that may be new to it."""

    partitions: Sequence[FollowedPartition]
    now_ms: int = 0


@value_class
class PartitionListed:
    """A partition came to those that are throttled here, or left them."""

    key: TopicIdPartition
    is_listed: bool


@value_class
class PartitionsLeft:
    """These are not followed there any more: another leader, no replica here, no log."""

    keys: Sequence[TopicIdPartition]


@value_class
class Fetched:
    """The leader answered the fetch that was under way."""

    session_id: int
    error: ErrorCode
    told: Iterable[PartitionTold]
    now_ms: int
    wall_ms: int


@value_class
class FetchFailed:
    """It did not: no connection, or silence."""

    now_ms: int


@value_class
class EndsTold:
    """Where the leader's log of one partition begins and ends; None when it did not say."""

    partition: FollowedPartition
    ends: tuple[int, int] | None
    now_ms: int


@value_class
class LogsCut:
    """What `CutLogs` ordered is done."""

    cuts: Sequence[PartitionCut]
    now_ms: int


@value_class
class LogSynced:
    """What `SyncLog` ordered is done."""

    key: TopicIdPartition


@value_class
class TimeAdvanced:
    """Look at what rested."""

    now_ms: int


@value_class
class TurnCame:
    """Others had their turn: go on with the response of which not all was taken."""


FollowerEvent = (
    PartitionsFollowed
    | PartitionsLeft
    | PartitionListed
    | Fetched
    | FetchFailed
    | EndsTold
    | LogsCut
    | LogSynced
    | TimeAdvanced
    | TurnCame
)

# --- effects ---


@value_class
class SendFetch:
    """Send this Fetch to the leader; its outcome is `Fetched` or `FetchFailed`."""

    plan: PlannedFetch


@value_class
class AskEnds:
    """Ask the leader where the partition's log begins and ends (ListOffsets); the outcome is `EndsTold`."""

    partition: FollowedPartition


@value_class
class CutLogs:
    """Cut these logs, durably; then `LogsCut`."""

    cuts: tuple[PartitionCut, ...]


@value_class
class SyncLog:
    """Sync the partition's log; then `LogSynced`."""

    partition: FollowedPartition


@value_class
class LogFailed:
    """A log's disk refused."""

    fault: StorageFault


@value_class
class Reported:
    """What an operator should know of a partition."""

    partition: FollowedPartition
    text: str


FollowerEffect = SendFetch | AskEnds | CutLogs | SyncLog | LogFailed | Reported
