"""The fetchers of a broker, `num.replica.fetchers` for each broker that leads something it follows, and their messages (KIP-227, KIP-903)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, assert_never

from headrace.broker.replica_messages import asked_topics, forgotten_topics, offset_told, what_is_told
from headrace.broker.throttles import replication_quota
from headrace.coordinator.hashing import java_string_hash
from headrace.core.deadlines import earliest
from headrace.core.error_code import ErrorCode
from headrace.core.errors import StorageFault
from headrace.core.ids import TopicIdPartition
from headrace.core.peers import Destination, SendFailure
from headrace.log.ports import LogCut
from headrace.replication.follower import ReplicaFetcher
from headrace.replication.follower_events import (
    AskEnds,
    CutLogs,
    EndsTold,
    Fetched,
    FetchFailed,
    FollowedPartition,
    FollowerEffect,
    FollowerEvent,
    FollowerState,
    LogFailed,
    LogsCut,
    LogSynced,
    PartitionListed,
    PartitionsFollowed,
    PartitionsLeft,
    Reported,
    SendFetch,
    SyncLog,
    TimeAdvanced,
    TurnCame,
    TurnShare,
)
from headrace.wire.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from headrace.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

if TYPE_CHECKING:
    from headrace.broker.partitions import HostedPartition
    from headrace.broker.ports import Clock
    from headrace.config.node_config import NodeConfig
    from headrace.log.ports import PartitionLogPort
    from headrace.log.store_ports import LogStorePort
    from headrace.metadata.image import MetadataImage
    from headrace.replication.fetch_plan import PlannedFetch
    from headrace.wire.schema import Message

_LATEST, _EARLIEST = -1, -2
_CLOSED_BY_THE_PEER = (SendFailure.REFUSED, SendFailure.DISCONNECTED)
_RATE_MS = 1_000
"""Over less time a rate says nothing."""
_TURN: Final = 1_000
"""Small batches that all fetchers together append in one turn: a few milliseconds. What came beyond that is appended in later ones."""

Then = Callable[["Message | SendFailure"], None]


class PeerChannel(Protocol):
    """The way to other brokers."""

    def fetch(self, to: Destination, request: Message, *, number: int, timeout_ms: int, then: Then) -> None:
        """Send a Fetch of replicas, of one of this broker's fetchers of that broker; each has one under way."""

    def ask(self, to: Destination, request: Message, *, timeout_ms: int, then: Then) -> None:
        """Send anything else, which does not wait behind a fetch that waits for news."""


class FetcherId(NamedTuple):
    """Of a leader's fetchers the one with this number."""

    leader_id: int
    number: int


def fetcher_number(topic: str, partition: int, count: int) -> int:
    """Which of `count` fetchers has the partition. Source: Kafka behaviour (AbstractFetcherManager.getFetcherId)."""
    if count == 1:
        return 0
    value = (31 * _topic_hash(topic) + partition) & 0xFFFF_FFFF
    signed = value - (1 << 32) if value >= 1 << 31 else value
    return (0 if signed == -(1 << 31) else abs(signed)) % count


_topic_hash = lru_cache(maxsize=1_024)(java_string_hash)


class ReplicaFetchers:
    """Which partitions are fetched from whom. Driven by `publishers.partitions` (`follow`, `leave`, then `begin`) and the node (`tick`, `end`).

    A fetcher has a session, a connection and one fetch under way. What one delta of metadata changes reaches each fetcher as one event.
    """

    def __init__(
        self,
        *,
        config: Callable[[], NodeConfig],
        image: Callable[[], MetadataImage],
        logs: LogStorePort,
        clock: Clock,
        on_fault: Callable[[StorageFault], None],
        on_warning: Callable[[str], None],
    ) -> None:
        self.channel: PeerChannel | None = None
        """Set by the node."""
        self.broker_epoch = -1
        self.want_sync: Callable[[PartitionLogPort], None] = _never_synced
        """Told a log whose records wait for a sync before they may be acknowledged; set by the broker."""
        self.on_waiting: Callable[[], None] = _nobody_sleeps
        """Told when `next_deadline_ms` may be sooner than before."""
        self.on_deadline: Callable[[int], None] = _nobody_waits
        """Told when there is more to append than one turn's share: `tick` goes on with it, when others had their turn."""
        self.cut_logs: Callable[[Sequence[LogCut], Callable[[], None]], None] = partial(_cut_in_place, logs)
        """Cuts logs, which are out of use at once, and calls back when they are cut; set by the node."""
        self.on_lost: Callable[[int], None] = _nobody_waits
        """Told of a leader that closed or refused a fetch's connection."""
        self.on_answer: Callable[[int], None] = _nobody_waits
        """Told of one that answered, or is not fetched from any more."""
        self.failed_requests = 0
        self.cuts = 0
        """Logs that were cut because their history and the leader's part."""
        self._config = config
        self._image = image
        self._clock = clock
        self._on_fault = on_fault
        self._on_warning = on_warning
        self._fetchers: dict[FetcherId, ReplicaFetcher] = {}
        self._sources: dict[TopicIdPartition, FetcherId] = {}
        self._new: dict[FetcherId, dict[TopicIdPartition, FollowedPartition]] = {}
        self._left: dict[FetcherId, dict[TopicIdPartition, None]] = {}
        self._rates: dict[FetcherId, tuple[int, int, float]] = {}
        self._former_bytes_in = 0
        self._inside: set[FetcherId] = set()
        self._turn = TurnShare(_TURN)
        self._taking: dict[FetcherId, ReplicaFetcher] = {}
        """Those with more to append, in their order."""
        self._postponed: list[tuple[FetcherId, ReplicaFetcher, FollowerEvent]] = []
        """What came while the fetcher was in the middle of a step: a log that fails is told at once, and takes its directory's partitions from whoever fetches them."""
        self._is_over = False
        self._count = config().num_replica_fetchers
        self.quota = replication_quota(config())
        """What is taken from leaders by partitions that are behind (KIP-73)."""

    def __iter__(self) -> Iterator[tuple[FetcherId, ReplicaFetcher]]:
        return iter(self._fetchers.items())

    @property
    def leaders(self) -> frozenset[int]:
        """The brokers that are fetched from."""
        return frozenset(source.leader_id for source in self._fetchers)

    @property
    def max_lag(self) -> int:
        """MaxLag of `ReplicaFetcherManager`: records."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    @property
    def bytes_in(self) -> int:
        """ReplicationBytesInPerSec, as a count: what all fetchers appended, those that are no more too."""
        return self._former_bytes_in + sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    @property
    def min_fetch_rate(self) -> float:
        """MinFetchRate: fetches a second of the fetcher that asks least often, since somebody looked before; 0 without fetchers."""
        now_ms, rates = self._clock.now_ms(), []
        for source, fetcher in self._fetchers.items():
            at_ms, count, rate = self._rates.get(source, (0, 0, 0.0))
            if now_ms - at_ms >= _RATE_MS:
                rate = (fetcher.fetches - count) * 1_000 / (now_ms - at_ms)
                self._rates[source] = (now_ms, fetcher.fetches, rate)
            rates.append(rate)
        return min(rates, default=0.0)

    @property
    def failed_partitions(self) -> int:
        """FailedPartitionsCount: followed in an epoch that the leader calls old."""
        fenced = FollowerState.FENCED
        return sum(each.state is fenced for one in self._fetchers.values() for each in one.partitions.values())

    def lag_of(self, hosted: HostedPartition) -> tuple[FetcherId, int] | None:
        """ConsumerLag of `FetcherLagMetrics`: who fetches a partition, and how many records it is behind; None: nobody does."""
        key = TopicIdPartition(hosted.topic_id, hosted.partition)
        source = self._sources.get(key)
        fetcher = None if source is None else self._fetchers.get(source)
        followed = None if fetcher is None else fetcher.partitions.get(key)
        return None if source is None or followed is None else (source, followed.lag)

    # --- what is followed ---

    def follow(self, hosted: HostedPartition) -> None:
        """Fetch it from `hosted.leader_id` in `hosted.leader_epoch`, from the next `begin` on."""
        key = TopicIdPartition(hosted.topic_id, hosted.partition)
        log = hosted.log
        source = FetcherId(hosted.leader_id, fetcher_number(hosted.topic, hosted.partition, self._count))
        known = self._sources.get(key)
        if known is not None and known != source:
            self._leave(key, known)
        if log is None or source.leader_id < 0:
            if known == source:
                self._leave(key, known)
            return
        if log.after_cut(partial(self._follow_after_cut, hosted, log, hosted.leader_epoch)):
            if known == source:
                self._leave(key, known)
            return
        self._sources[key] = source
        self._left.get(source, {}).pop(key, None)
        followed = FollowedPartition(key, log, leader_epoch=hosted.leader_epoch, waiters=hosted.waiters)
        followed.is_listed = hosted.is_throttled_follower
        self._new.setdefault(source, {})[key] = followed

    def _follow_after_cut(self, hosted: HostedPartition, log: PartitionLogPort, leader_epoch: int) -> None:
        """The log of a partition to follow was cut, by order of whoever it followed before; unless a later change has overtaken this one."""
        if hosted.log is log and hosted.leader is None and hosted.leader_epoch == leader_epoch:
            self.follow(hosted)
            self.begin()

    def leave(self, hosted: HostedPartition) -> None:
        """Fetch it no more."""
        key = TopicIdPartition(hosted.topic_id, hosted.partition)
        known = self._sources.get(key)
        if known is not None:
            self._leave(key, known)

    def _leave(self, key: TopicIdPartition, source: FetcherId) -> None:
        del self._sources[key]
        self._new.get(source, {}).pop(key, None)
        self._left.setdefault(source, {})[key] = None

    def resize(self, partitions: Iterable[HostedPartition]) -> None:
        """`num.replica.fetchers` may have changed: spread what is followed anew."""
        count = self._config().num_replica_fetchers
        if count != self._count:
            self._count = count
            for hosted in partitions:
                if TopicIdPartition(hosted.topic_id, hosted.partition) in self._sources:
                    self.follow(hosted)
            self.begin()

    def begin(self) -> None:
        """What was said of partitions is complete: fetch."""
        left, self._left = self._left, {}
        for source, keys in left.items():
            fetcher = self._fetchers.get(source)
            if fetcher is not None and keys:
                self._step(source, fetcher, PartitionsLeft(keys=tuple(keys)))
                self._retire(source, fetcher)
        new, self._new = self._new, {}
        for source, partitions in new.items():
            if partitions:
                fetcher = self._fetchers.get(source)
                if fetcher is None:
                    backoff_ms = self._config().replica_fetch_backoff_ms
                    fetcher = self._fetchers[source] = ReplicaFetcher(
                        backoff_ms=backoff_ms, quota=self.quota, turn=self._turn
                    )
                    self._rates[source] = (self._clock.now_ms(), 0, 0.0)
                followed = PartitionsFollowed(partitions=tuple(partitions.values()), now_ms=self._clock.now_ms())
                self._step(source, fetcher, followed)

    def throttle(self, hosted: HostedPartition) -> None:
        """The partition came to those that are throttled here, or left them."""
        key = TopicIdPartition(hosted.topic_id, hosted.partition)
        for new in self._new.values():
            if key in new:
                new[key].is_listed = hosted.is_throttled_follower
        source = self._sources.get(key)
        fetcher = None if source is None else self._fetchers.get(source)
        if source is not None and fetcher is not None:
            self._step(source, fetcher, PartitionListed(key=key, is_listed=hosted.is_throttled_follower))

    def synced(self, hosted: HostedPartition) -> None:
        """Records of a followed log that waited for a sync are durable."""
        key = TopicIdPartition(hosted.topic_id, hosted.partition)
        source, log = self._sources.get(key), hosted.log
        fetcher = None if source is None else self._fetchers.get(source)
        if fetcher is not None and log is not None and log.acknowledged_end_offset == log.log_end_offset:
            assert source is not None, "there is its fetcher"
            self._step(source, fetcher, LogSynced(key=key))

    def end(self) -> None:
        """The logs are going to be closed: what comes from now on is dropped."""
        self._is_over = True

    # --- time ---

    def tick(self, now_ms: int) -> None:
        """A new turn: append more of what came, and wake those whose rest is over."""
        self._turn.left = _TURN
        for source, fetcher in list(self._taking.items()):
            if self._turn.left <= 0:
                break
            del self._taking[source]
            self._step(source, fetcher, TurnCame())
            self._retire(source, fetcher)
        for source, fetcher in list(self._fetchers.items()):
            due = fetcher.next_deadline_ms
            if due is not None and due <= now_ms:
                self._step(source, fetcher, TimeAdvanced(now_ms=now_ms))

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._is_over:
            return None
        if self._taking:
            return 0
        return earliest([fetcher.next_deadline_ms for fetcher in self._fetchers.values()])

    # --- effects ---

    def _step(self, source: FetcherId, fetcher: ReplicaFetcher, event: FollowerEvent) -> None:
        if self._is_over:
            return
        if source in self._inside:
            self._postponed.append((source, fetcher, event))
            return
        self._inside.add(source)
        effects = fetcher.step(event)
        self._inside.discard(source)
        self._do(source, fetcher, effects)
        if fetcher.is_taking:
            self._taking[source] = fetcher
            self.on_deadline(0)
        while self._postponed:
            self._step(*self._postponed.pop(0))

    def _do(self, source: FetcherId, fetcher: ReplicaFetcher, effects: Sequence[FollowerEffect]) -> None:
        for effect in effects:
            match effect:
                case SendFetch():
                    self._send(source, fetcher, effect.plan)
                case AskEnds():
                    self._ask_ends(source, fetcher, effect.partition)
                case CutLogs():
                    self._cut(source, fetcher, effect)
                case SyncLog():
                    self.want_sync(effect.partition.log)
                case LogFailed():
                    self._on_fault(effect.fault)
                case Reported():
                    name = effect.partition.log.topic_partition
                    self._on_warning(f"{name} cannot take what broker {source.leader_id} sent: {effect.text}")
                case _:
                    assert_never(effect)
        if fetcher.next_deadline_ms is not None:
            self.on_waiting()

    def _cut(self, source: FetcherId, fetcher: ReplicaFetcher, effect: CutLogs) -> None:
        self.cuts += len(effect.cuts)

        def then() -> None:
            self._step(source, fetcher, LogsCut(cuts=effect.cuts, now_ms=self._clock.now_ms()))

        self.cut_logs(
            [LogCut(cut.partition.log.topic_partition, cut.offset, cut.starts_over) for cut in effect.cuts], then
        )

    # --- messages ---

    def _address(self, leader_id: int) -> Destination | None:
        registered = self._image().cluster.brokers.get(leader_id)
        if registered is None:
            return None
        end_point = registered.end_point(self._config().inter_broker_listener_name)
        return None if end_point is None else Destination(leader_id, end_point.host, end_point.port)

    def _send(self, source: FetcherId, fetcher: ReplicaFetcher, plan: PlannedFetch) -> None:
        config, to = self._config(), self._address(source.leader_id)
        done = partial(self._fetched, source, fetcher)
        if to is None or self.channel is None:
            done(SendFailure.DISCONNECTED)
            return
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=config.node_id, replica_epoch=self.broker_epoch),
            max_wait_ms=0 if plan.has_more else config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            session_id=plan.session_id,
            session_epoch=plan.session_epoch,
            topics=asked_topics(plan, config.replica_fetch_max_bytes),
            forgotten_topics_data=forgotten_topics(plan),
        )
        self.channel.fetch(to, request, number=source.number, timeout_ms=config.replica_socket_timeout_ms, then=done)

    def _fetched(self, source: FetcherId, fetcher: ReplicaFetcher, outcome: Message | SendFailure) -> None:
        now_ms = self._clock.now_ms()
        if isinstance(outcome, SendFailure):
            self.failed_requests += 1
            if outcome in _CLOSED_BY_THE_PEER and self._address(source.leader_id) is not None:
                self.on_lost(source.leader_id)
            self._step(source, fetcher, FetchFailed(now_ms=now_ms))
            self._retire(source, fetcher)
            return
        assert isinstance(outcome, FetchResponse), "the api's own response"
        self.on_answer(source.leader_id)
        event = Fetched(
            session_id=outcome.session_id,
            error=ErrorCode.known(outcome.error_code),
            told=what_is_told(outcome),
            now_ms=now_ms,
            wall_ms=self._clock.wall_ms(),
        )
        self._step(source, fetcher, event)
        self._retire(source, fetcher)

    def _retire(self, source: FetcherId, fetcher: ReplicaFetcher) -> None:
        """Who follows nothing is no fetcher any more: it would count as one that asks least often."""
        if fetcher.is_idle and self._fetchers.get(source) is fetcher:
            self._former_bytes_in += fetcher.bytes_in
            del self._fetchers[source], self._rates[source]
            if all(each.leader_id != source.leader_id for each in self._fetchers):
                self.on_answer(source.leader_id)

    def _ask_ends(self, source: FetcherId, fetcher: ReplicaFetcher, partition: FollowedPartition) -> None:
        """ListOffsets of the two ends, each in a request of its own: one may not name a partition twice."""
        to = self._address(source.leader_id)
        ends: dict[int, int | None] = {}

        def told(timestamp: int, outcome: Message | SendFailure) -> None:
            ends[timestamp] = offset_told(outcome)
            if len(ends) == 2:
                start, end = ends[_EARLIEST], ends[_LATEST]
                both = None if start is None or end is None else (start, end)
                self._step(source, fetcher, EndsTold(partition=partition, ends=both, now_ms=self._clock.now_ms()))

        for timestamp in (_LATEST, _EARLIEST):
            if to is None or self.channel is None:
                told(timestamp, SendFailure.DISCONNECTED)
                continue
            request = self._ends_request(partition, timestamp)
            timeout_ms = self._config().replica_socket_timeout_ms
            self.channel.ask(to, request, timeout_ms=timeout_ms, then=partial(told, timestamp))

    def _ends_request(self, partition: FollowedPartition, timestamp: int) -> ListOffsetsRequest:
        name, number = partition.log.topic_partition
        asked = ListOffsetsPartition(
            partition_index=number, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
        )
        return ListOffsetsRequest(
            replica_id=self._config().node_id, topics=(ListOffsetsTopic(name=name, partitions=(asked,)),)
        )


def _cut_in_place(logs: LogStorePort, cuts: Sequence[LogCut], then: Callable[[], None]) -> None:
    """Without a driver there is no other thread. Raises StorageFault."""
    for job in logs.cut(cuts):
        job.look_up()
        job.lower()
        job.run()
        job.finish()
    then()


def _never_synced(log: PartitionLogPort) -> None:
    """Without a broker nobody syncs."""


def _nobody_waits(_: int) -> None:
    """Nobody sleeps until a deadline."""


def _nobody_sleeps() -> None:
    """Nobody sleeps until a deadline."""
