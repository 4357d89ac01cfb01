"""The broker: what it hosts, knows and waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.broker.config_changes import LogLevels, NoLogLevels
from headrace.broker.departures import Departures, NewsOfLeader
from headrace.broker.directory_assignments import DirectoryAssignments
from headrace.broker.due_roles import DueRoles
from headrace.broker.internal_topics import OFFSETS_TOPIC, creatable_topic
from headrace.broker.isr_changes import IsrChanges
from headrace.broker.log_syncs import LogSyncs
from headrace.broker.new_leaderships import NewLeaderships
from headrace.broker.partitions import HostedPartition, LogStartOf, PartitionTable
from headrace.broker.ports import Clock, ControllerChannel, InternalAppend
from headrace.broker.producer_ids import ProducerIdPool
from headrace.broker.replica_fetchers import ReplicaFetchers
from headrace.broker.replica_moves import ReplicaMoves
from headrace.broker.throttles import (
    FOLLOWER_RATE,
    LEADER_RATE,
    MOVES_RATE,
    moves_quota,
    rate_bound,
    replication_quota,
)
from headrace.broker.walks import Walks
from headrace.config.dynamic import effective_config
from headrace.config.node_config import RACK_AWARE_SELECTORS, NodeConfig
from headrace.config.topic_config import TopicConfig, topic_config, topic_defaults
from headrace.core.deadlines import earliest
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError, StorageFault
from headrace.core.ids import Uuid, random_uuid
from headrace.core.notice import Notice, unheard
from headrace.core.ports import DiskFull, Rng
from headrace.log.ports import AppendRefused, OutOfRange
from headrace.log.store_ports import LogStorePort
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.versions import ELR_FEATURE, has_cordoned_log_dirs
from headrace.replication.fetch_session_cache import FetchSessionCache
from headrace.replication.leader import PartitionLeader
from headrace.rpc.context import RequestContext
from headrace.rpc.metering import ErrorCounts, ExpiredCounts
from headrace.rpc.purgatory import Purgatory
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from headrace.broker.coordinators.groups import GroupService
    from headrace.broker.state_changes import StateChanges
    from headrace.wire.messages.describe_quorum import NodeView

_CREATE_TOPICS = 19
_INTERNAL_TIMEOUT_MS = 30_000


class Broker:
    """The broker role of one node: what handlers are given. It implements `ports.BrokerServices`.

    Driven by `node.machine`: image deltas come through `publishers`, time through `tick`, faults of a disk through `on_storage_fault`.
    """

    state_changes: StateChanges | None = None
    """Observes, where somebody wants to follow the changes of replicas; set before the node starts."""
    broker_epoch = -1
    is_shut: Callable[[], bool] | None = None
    """Whether no client is served at present; None where that cannot be (`headrace.self.fencing`)."""

    def __init__(
        self,
        *,
        config: NodeConfig,
        cluster_id: str,
        logs: LogStorePort,
        controller: ControllerChannel,
        clock: Clock,
        rng: Rng,
    ) -> None:
        self.config = config
        self.started_with = config
        self.log_levels: LogLevels = NoLogLevels()
        self.node_id = config.node_id
        self.quorum_view: Callable[[], NodeView] | None = None
        """What this node knows of the metadata quorum, for `headrace quorum explain`."""
        self.kraft_version: Callable[[], int] = _oldest_quorum
        """The level of the quorum itself, which is not in the image (KIP-853)."""
        self.cluster_id = cluster_id
        self.logs = logs
        self.controller = controller
        self.image: MetadataImage = EMPTY_IMAGE
        self.topic_defaults: TopicConfig = topic_defaults(config)
        self.partitions = PartitionTable()
        self.due_roles = DueRoles()
        """What the metadata say of partitions and was not done yet; see `publishers.partitions`."""
        self.purgatory, self.departures = Purgatory(), self._make_departures(clock)
        self.errors, self.expired = ErrorCounts(), ExpiredCounts()
        self.walks = Walks()
        self.log_syncs = LogSyncs(partitions=self.partitions)
        self.points_to_followers = config.replica_selector_class in RACK_AWARE_SELECTORS
        """Consumers that say where they are are told which replica is nearest (KIP-392)."""
        self.leader_quota = replication_quota(config)
        """What is sent to followers that are behind (KIP-73)."""
        self.fetch_sessions = FetchSessionCache(slots=config.max_incremental_fetch_session_cache_slots, rng=rng)
        self.new_leaderships = NewLeaderships(self.fetch_sessions)
        self.on_storage_fault: Callable[[StorageFault], None] = _unhandled
        self.on_settings: Callable[[NodeConfig], None] = _not_needed
        self.on_warning: Callable[[str], None] = _unheard
        self.on_notice: Callable[[Notice], None] = unheard
        self.deadline_changed: Callable[[], None] = _nobody_sleeps
        self.absolute_path: Callable[[str], str] = str
        self._clock = clock
        self.now_ms, self.wall_ms, self._rng = clock.now_ms, clock.wall_ms, rng
        self._creating: dict[str, list[Deferred]] = {}
        self.isr_changes = IsrChanges(
            broker_id=config.node_id,
            controller=controller,
            partitions=self.partitions,
            partition_changed=self.partition_changed,
            now_ms=clock.now_ms,
            keeps_elr=lambda: self.image.features.level(ELR_FEATURE) > 0,
        )
        self.replica_fetchers = self._make_fetchers(clock)
        self.replica_moves = ReplicaMoves(self, self._make_assignments(rng), moves_quota(config))
        self.producer_ids = ProducerIdPool(broker_id=config.node_id, controller=controller, now_ms=clock.now_ms)
        self._groups: GroupService | None = None

    def _make_departures(self, clock: Clock) -> Departures:
        return Departures(
            lambda: self.image, clock.now_ms, lambda broker_id: self.purgatory.moved(NewsOfLeader(broker_id))
        )

    def _make_fetchers(self, clock: Clock) -> ReplicaFetchers:
        fetchers = ReplicaFetchers(
            config=lambda: self.config,
            image=lambda: self.image,
            logs=self.logs,
            clock=clock,
            on_fault=lambda fault: self.on_storage_fault(fault),
            on_warning=lambda warning: self.on_warning(warning),
        )
        fetchers.want_sync = self.log_syncs.want
        fetchers.on_lost, fetchers.on_answer = self.departures.lost, self.departures.answered
        self.log_syncs.on_follower_synced = fetchers.synced
        return fetchers

    def _make_assignments(self, rng: Rng) -> DirectoryAssignments:
        assignments = DirectoryAssignments(
            broker_id=self.node_id, controller=self.controller, image=lambda: self.image, now_ms=self.now_ms, rng=rng
        )
        assignments.on_waiting = lambda: self.deadline_changed()
        return assignments

    @property
    def assignments(self) -> DirectoryAssignments:
        """What the controller is told of the directories of replicas."""
        return self.replica_moves.assignments

    @property
    def groups(self) -> GroupService:
        """The coordinators of this broker; made, and their code read, when they are first needed."""
        if self._groups is None:
            from headrace.broker.coordinators.groups import GroupService  # a fifth of the start-up time

            self._groups = GroupService(self)
        return self._groups

    @property
    def has_groups(self) -> bool:
        """Whether groups were needed so far."""
        return self._groups is not None

    # --- ids, settings ---

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """The paths of the log directories that get no new replicas (KIP-1066); none below the metadata.version that knows of them."""
        if not has_cordoned_log_dirs(self.image.features.metadata_version or 0):
            return ()
        cordoned = self.config.cordoned_log_dirs
        return self.config.log_dirs if "*" in cordoned else cordoned

    def cordoned_ids(self) -> tuple[Uuid, ...] | None:
        """Their ids, for heartbeats; None where the controller does not know of such."""
        if not has_cordoned_log_dirs(self.image.features.metadata_version or 0):
            return None
        return tuple(sorted(self.replica_moves.directory_ids[path] for path in self.cordoned_log_dirs))

    def new_uuid(self) -> Uuid:
        """A random id."""
        return random_uuid(self._rng)

    def topic_config(self, topic: str) -> TopicConfig:
        """The settings in force for a topic on this broker."""
        overrides = self.image.configs.of_topic(topic)
        return topic_config(overrides, self.topic_defaults) if overrides else self.topic_defaults

    # --- the controller ---

    def forward(self, request: object, context: RequestContext) -> Deferred:
        """Have the active controller answer; see `ports.BrokerServices.forward`."""
        asked = getattr(request, "timeout_ms", None)
        wait_ms = asked if isinstance(asked, int) and asked > 0 else self.config.request_timeout_ms
        return self.controller.send(request, context, deadline_ms=self.now_ms() + wait_ms)

    def auto_create_topic(self, name: str, context: RequestContext) -> Deferred:
        """Ask for a topic once, however many want it; completes with the controller's CreateTopicsResponse."""
        return self.auto_create_topics([name], context)[name]

    def auto_create_topics(self, names: Sequence[str], context: RequestContext) -> dict[str, Deferred]:
        """As `auto_create_topic` for many, with one request for all that nobody asked for yet. The response may be about others too."""
        new = [name for name in names if name not in self._creating]
        wanted = {name: Deferred() for name in names}
        for name, deferred in wanted.items():
            self._creating.setdefault(name, []).append(deferred)
        if new:
            request = CreateTopicsRequest(
                topics=tuple(creatable_topic(name, self.config) for name in new), timeout_ms=_INTERNAL_TIMEOUT_MS
            )
            asking = RequestContext(
                api_key=_CREATE_TOPICS,
                api_version=7,
                client_id=context.client_id,
                principal=context.principal,
                client_host=context.client_host,
                listener=context.listener,
                now_ms=context.now_ms,
            )
            sent = self.controller.send(request, asking, deadline_ms=self.now_ms() + _INTERNAL_TIMEOUT_MS)
            sent.when_done(lambda reply: self._created(new, reply))
        return wanted

    def _created(self, names: Sequence[str], reply: AnyReply) -> None:
        assert isinstance(reply, Reply), "the controller answers with a message"
        assert isinstance(reply.message, CreateTopicsResponse), "the api's own response"
        self._warn_of_refused(reply.message.topics)
        for waiting in [deferred for name in names for deferred in self._creating.pop(name, [])]:
            waiting.complete(reply)

    def _warn_of_refused(self, topics: Sequence[CreatableTopicResult]) -> None:
        """One line for each error, however many topics have it: a client may ask for very many (B25)."""
        refused: dict[int, list[CreatableTopicResult]] = {}
        for topic in topics:
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                refused.setdefault(topic.error_code, []).append(topic)
        for code, (first, *others) in refused.items():
            more = f", nor can {len(others)} more" if others else ""
            reason = first.error_message or ErrorCode.known(code).name
            self.on_warning(f"topic {first.name} cannot be created automatically{more}: {reason}")

    # --- partitions for services of this broker ---

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        """The epoch in which this node leads the partition, or None."""
        hosted = self.partitions.get(topic, partition)
        return None if hosted is None or hosted.leader is None else hosted.leader.leader_epoch

    def log_bounds(self, topic: str, partition: int) -> tuple[int, int, int] | None:
        """(log start offset, high watermark, log end offset), or None."""
        hosted = self.partitions.get(topic, partition)
        if hosted is None or hosted.log is None:
            return None
        log = hosted.log
        return log.log_start_offset, log.high_watermark, log.log_end_offset

    def is_withheld(self, topic: str, partition: int) -> bool:
        """Whether clients are not served, because another broker may lead it by now (S0-15)."""
        hosted = self.partitions.get(topic, partition)
        return hosted is not None and hosted.is_withheld

    def append_internal(
        self,
        topic: str,
        partition: int,
        batch: bytes | bytearray,
        on_committed: Callable[[InternalAppend], None],
    ) -> None:
        """Append one batch with acks=all; see `ports.BrokerServices.append_internal`."""
        hosted = self.partitions.leading(topic, partition, self.image)
        if isinstance(hosted, ErrorCode):
            on_committed(InternalAppend(hosted))
            return
        leader = hosted.leader
        assert leader is not None, "leading returns leaders"
        if not leader.has_enough_replicas:
            on_committed(InternalAppend(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        view = memoryview(batch if isinstance(batch, bytearray) else bytearray(batch))
        try:
            appended = leader.append_own(view, now_ms=self.wall_ms())
        except StorageFault as fault:
            self.on_storage_fault(fault)
            on_committed(InternalAppend(ErrorCode.KAFKA_STORAGE_ERROR))
            return
        if isinstance(appended, AppendRefused):
            on_committed(InternalAppend(appended.error))
            return
        first, last = appended.first_offset, appended.last_offset
        self._when_committed(hosted, leader, last + 1, lambda error: on_committed(InternalAppend(error, first, last)))

    def when_committed(
        self, topic: str, partition: int, end_offset: int, on_committed: Callable[[ErrorCode], None]
    ) -> None:
        """Wait for the high watermark; see `ports.BrokerServices.when_committed`."""
        hosted = self.partitions.get(topic, partition)
        if hosted is None or hosted.leader is None:
            on_committed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            self._when_committed(hosted, hosted.leader, end_offset, on_committed)

    def _when_committed(
        self,
        hosted: HostedPartition,
        leader: PartitionLeader,
        end_offset: int,
        on_committed: Callable[[ErrorCode], None],
    ) -> None:
        """What is below the high watermark is committed: the log will not lose it, and a coordinator must not forget it."""

        def attempt() -> bool:
            if hosted.leader is not leader:
                on_committed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                return True
            if leader.log.high_watermark < end_offset:
                return False
            on_committed(ErrorCode.NONE)
            return True

        if not attempt():
            hosted.waiters.until_committed(end_offset, attempt)

    def read_internal(self, topic: str, partition: int, offset: int, *, max_bytes: int, upper_offset: int) -> bytes:
        """Whole batches; see `ports.BrokerServices.read_internal`."""
        hosted = self.partitions.leading(topic, partition, self.image)
        if isinstance(hosted, ErrorCode):
            raise PeerError(hosted)
        log = hosted.log
        assert log is not None, "leading returns partitions with a log"
        data = log.read_bytes(offset, max_bytes, upper_offset=upper_offset, min_one_batch=True)
        if isinstance(data, OutOfRange):
            raise PeerError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return data

    def partition_changed(self, hosted: HostedPartition) -> None:
        """Its leader, the leader's terms, or whether it serves clients: everybody who waits for it looks."""
        hosted.waiters.changed()
        self.purgatory.moved(hosted)

    def lost_log(self, hosted: HostedPartition) -> None:
        """The partition's log directory failed: nobody is served from it, who waits hears so, and its group coordinator resigns."""
        was_leader = hosted.leader is not None
        self.replica_fetchers.leave(hosted)
        hosted.log = None
        hosted.leader = None
        if was_leader and hosted.topic == OFFSETS_TOPIC:
            self.groups.resigned(hosted.partition, None)
        self.partition_changed(hosted)

    def follower_fetched(self, hosted: HostedPartition, replica_id: int) -> None:
        """A follower holds more or begins later: move the high watermark, wake who waits for that, and let it into the ISR when it may."""
        leader = hosted.leader
        assert leader is not None, "only a leader is fetched from"
        self.new_leaderships.fetched(hosted, replica_id)
        if replica_id not in leader.isr and leader.wait_for(replica_id, self.now_ms(), is_eligible=self._may_be_in_isr):
            self.isr_changes.awaiting[hosted] = None
        if leader.advance():
            hosted.waiters.high_watermark_moved(leader.log.high_watermark)
        self.purgatory.moved(LogStartOf(hosted))
        if replica_id not in leader.isr:
            proposal = leader.propose_join(replica_id, is_eligible=self._may_be_in_isr)
            if proposal is not None:
                self.isr_changes.propose(hosted, proposal)

    def is_incarnation(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether metadata know that broker in that epoch; -1 is one that does not say (KIP-903)."""
        if broker_epoch == -1:
            return True
        registered = self.image.cluster.brokers.get(broker_id)
        return registered is not None and registered.broker_epoch == broker_epoch

    def is_former_incarnation(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether another one serves under that id by now (KIP-903)."""
        registered = self.image.cluster.brokers.get(broker_id)
        return registered is not None and not registered.fenced and -1 < broker_epoch < registered.broker_epoch

    def brokers_changed(self, delta: MetadataDelta) -> None:
        """Brokers came, went or changed: those who wait for that are looked at."""
        self.departures.note(delta)
        self.look_at_awaited(self.now_ms())

    def look_at_awaited(self, now_ms: int) -> None:
        """What is committed waits no longer for followers that stopped, or were fenced, before they were in the ISR."""
        for hosted in list(self.isr_changes.awaiting):
            leader = hosted.leader
            for replica_id in () if leader is None else tuple(leader.awaited):
                assert leader is not None, "it has followers"
                leader.wait_for(replica_id, now_ms, is_eligible=self._may_be_in_isr)
            if leader is not None and leader.advance():
                hosted.waiters.high_watermark_moved(leader.log.high_watermark)
            if leader is None or not leader.awaited:
                del self.isr_changes.awaiting[hosted]

    def _may_be_in_isr(self, broker_id: int, broker_epoch: int) -> bool:
        """KIP-841, KIP-903: unfenced, not stopping, and the incarnation that fetched."""
        registered = self.image.cluster.brokers.get(broker_id)
        return registered is not None and registered.is_active and broker_epoch in (-1, registered.broker_epoch)

    def unreadable(self, fault: StorageFault) -> None:
        """A read failed: its log directory is offline from now on, unless it is only descriptors that are missing."""
        if isinstance(fault, DiskFull):
            self.on_warning(f"a read has to wait: {fault}")
        else:
            self.on_storage_fault(fault)

    # --- time ---

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self.purgatory.expire(now_ms)
        if self._groups is not None:
            self._groups.tick(now_ms)
        self.isr_changes.tick(now_ms)
        self.replica_fetchers.tick(now_ms)
        self.assignments.tick(now_ms)
        self.replica_moves.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do, or None."""
        groups = None if self._groups is None else self._groups.next_deadline_ms()
        return earliest(
            (
                self.purgatory.next_deadline_ms(),
                groups,
                self.isr_changes.next_deadline_ms(),
                self.replica_fetchers.next_deadline_ms(),
                self.assignments.next_deadline_ms(),
                self.replica_moves.next_deadline_ms(),
            )
        )

    def shrink_isrs(self, now_ms: int) -> None:
        """Propose ISRs without the replicas that lag; called at half of `replica.lag.time.max.ms` (S3-82)."""
        self.look_at_awaited(now_ms)
        for hosted in self.partitions:
            leader = hosted.leader
            if leader is not None and len(leader.isr) > 1:
                proposal = leader.propose_shrink(now_ms)
                if proposal is not None:
                    self.isr_changes.propose(hosted, proposal)

    def update_dynamic_settings(self) -> None:
        """The broker's settings of the image changed: those of the file, then of the whole cluster, then of this broker."""
        configs = self.image.configs
        self.config = effective_config(self.started_with, configs.of_all_brokers(), configs.of_broker(self.node_id))
        self.topic_defaults = topic_defaults(self.config)
        self.logs.cordon(self.cordoned_log_dirs)
        dynamic = {**configs.of_all_brokers(), **configs.of_broker(self.node_id)}
        self.leader_quota.bound = rate_bound(dynamic, LEADER_RATE)
        self.replica_moves.quota.bound = rate_bound(dynamic, MOVES_RATE)
        self.replica_fetchers.quota.bound = rate_bound(dynamic, FOLLOWER_RATE)
        self.replica_fetchers.resize(self.partitions)
        self.on_settings(self.config)


def _not_needed(config: NodeConfig) -> None:
    """Nobody beside the broker follows its settings."""


def _oldest_quorum() -> int:
    """A quorum of before KIP-853, or one that nobody told of."""
    return 0


def _unheard(warning: str) -> None:
    """Nobody listens to what the operator should know."""


def _unhandled(fault: StorageFault) -> None:
    raise fault


def _nobody_sleeps() -> None:
    """Nobody sleeps until a deadline."""
