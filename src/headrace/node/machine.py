"""One process: its quorum node, its controller and its broker together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from headrace.broker.broker import Broker
from headrace.broker.config_changes import LogLevels, NoLogLevels
from headrace.broker.log_syncs import LogSync
from headrace.broker.ports import Clock
from headrace.broker.publishers.partitions import PartitionPublisher
from headrace.broker.replica_moves import CopyPiece
from headrace.broker.state_changes import StateChanges
from headrace.broker.walks import WalkJob
from headrace.config.node_config import NodeConfig
from headrace.controller import events as controller_events
from headrace.core.deadlines import sooner
from headrace.core.errors import StorageFault
from headrace.core.notice import Notice
from headrace.core.peers import SendFailure
from headrace.core.values import value_class
from headrace.metadata.compare import compare_images
from headrace.metadata.delta import MetadataDelta
from headrace.metadata.image import EMPTY_IMAGE, MetadataImage
from headrace.metadata.loader import MetadataFault
from headrace.node.alarm import Alarm
from headrace.node.broker_watch import BrokerWatch, Probe
from headrace.node.controller_registration import ControllerRegistrar
from headrace.node.jobs import LogWork
from headrace.node.lifecycle import (
    BrokerLifecycle,
    BrokerState,
    RecoverLogs,
    StartFailed,
    StateChanged,
)
from headrace.node.local_controller import LocalController
from headrace.node.log_cuts import order_cuts
from headrace.node.metadata_plane import (
    MetadataPlane,
    PlaneEffect,
    PlaneEvent,
    Publish,
    WriteSnapshot,
)
from headrace.node.metadata_progress import MetadataProgress
from headrace.node.node_to_controller import NodeToControllerChannel
from headrace.node.notices import Notices
from headrace.node.outbound import BrokerLinks, Channel, Outbound, SendRequest
from headrace.node.quorum_requests import QuorumRequests
from headrace.node.self_fencing import SelfFencing
from headrace.node.upkeep import LogUpkeep
from headrace.raft import events as raft_events
from headrace.raft.invariants import RaftInvariantBroken
from headrace.raft.roles import Follower, Leader
from headrace.wire.messages.describe_quorum import DescribeQuorumRequest
from headrace.wire.schema import Message

LAST_WORDS_MS = 1_000
"""So long a node that stops waits for its peers to hear why."""


@value_class
class DirectoryFailed:
    """A log directory cannot be used any more; its partitions are offline (D-disk, B-K08)."""

    directory: str
    reason: str


@value_class
class MetadataFailed:
    """The metadata log cannot be written, or says what this node cannot follow: the process must stop."""

    reason: str


NodeEffect = (
    raft_events.StoreQuorumState
    | raft_events.FlushLog
    | raft_events.FinishSnapshot
    | WriteSnapshot
    | RecoverLogs
    | LogWork
    | StateChanged
    | StartFailed
    | DirectoryFailed
    | MetadataFailed
    | SendRequest
    | Probe
    | LogSync
    | WalkJob
    | CopyPiece
)
"""What the driver does. `SendRequest` answers with `NodeMachine.answered` or `failed`, `Probe` with `probed`; for work of the disk see `node.disk_jobs`."""


@value_class
class BrokerParts:
    """What makes a process a broker, put together by `node.compose`."""

    broker: Broker
    publisher: PartitionPublisher
    lifecycle: BrokerLifecycle
    self_fencing: SelfFencing
    upkeep: LogUpkeep


class NodeMachine:
    """Routes events and effects between the parts of one process. Driven by `server.node_server`.

    Every outside call may lead to effects; they are given to `do` in order, after the step that made them is over.
    Metadata reaches the broker only from RECOVERY on (S1-40): until then the newest image is kept, and all of it is published at once.
    """

    state_changes: StateChanges | None = None
    """Observes, as the broker's; set before `start`."""

    def __init__(
        self, *, config: NodeConfig, plane: MetadataPlane, clock: Clock, do: Callable[[NodeEffect], None]
    ) -> None:
        self._config = config
        self._plane = plane
        self._clock = clock
        self.do = do
        self._outbound = Outbound(do)
        self._events: deque[PlaneEvent] = deque()
        self._is_running = self._is_publishing = False
        self.image: MetadataImage = EMPTY_IMAGE
        self.metadata_progress = MetadataProgress(image=lambda: self.image, clock=clock)
        self.log_levels: LogLevels = NoLogLevels()
        self.leader_id = -1
        self.leader_epoch = 0
        self.broker: Broker | None = None
        self.lifecycle: BrokerLifecycle | None = None
        self.self_fencing: SelfFencing | None = None
        self._publisher: PartitionPublisher | None = None
        self._shrink_at_ms = 0
        self.on_metadata: Callable[[MetadataDelta], None] | None = None
        """Told each delta of committed metadata, for counts that are kept from changes; set before `start`."""
        self.notices = Notices(config.node_id)
        self.on_broker_metadata: Callable[[MetadataDelta], None] | None = None
        """The same, of what the broker is told: all metadata when it has recovered, then each delta."""
        self.offline_replicas: set[tuple[str, int]] = set()
        """Replicas whose log directory failed; some may have been taken away since."""
        self.metadata_load_errors = self.metadata_apply_errors = 0
        """Faults of the metadata log and records that make no sense; errors of ours, or broken invariants. The process stops then."""
        self.local = LocalController(
            now_ms=clock.now_ms, step=self._take, is_active=lambda: plane.is_controller_active, node_id=config.node_id
        )
        self.controller_channel = NodeToControllerChannel(
            node_id=config.node_id,
            local=self.local,
            outbound=self._outbound,
            now_ms=clock.now_ms,
            timeout_ms=config.request_timeout_ms,
        )
        self.registrar: ControllerRegistrar | None = None
        self.watch = BrokerWatch(
            config, image=lambda: self.image, is_active=lambda: plane.is_controller_active, probe=do, gone=self._gone
        )
        self._requests = QuorumRequests(
            config=config,
            plane=plane,
            outbound=self._outbound,
            now_ms=clock.now_ms,
            take=self._take,
            metadata_fetched=self._metadata_fetched,
        )
        self._timed: list[Callable[[], int | None]] = [
            self.controller_channel.next_deadline_ms,
            self.watch.next_deadline_ms,
        ]
        self.alarm = Alarm(now_ms=clock.now_ms, next_deadline_ms=self.next_deadline_ms)
        self.controller_channel.on_waiting = self.alarm.changed
        self.upkeep: LogUpkeep | None = None

    @property
    def is_controller_active(self) -> bool:
        """The controller of this process decides."""
        return self._plane.is_controller_active

    # --- composition, by `node.compose` ---

    def add_broker(self, parts: BrokerParts) -> None:
        """This process is a broker too."""
        broker, fencing = parts.broker, parts.self_fencing
        broker.on_storage_fault = broker.log_syncs.on_fault = self._storage_fault
        broker.log_syncs.begin = broker.walks.begin = broker.replica_moves.begin = self.do
        broker.kraft_version = lambda: self._plane.raft.kraft_version
        broker.purgatory.on_deadline = broker.replica_fetchers.on_deadline = self.alarm.by
        broker.deadline_changed = broker.replica_fetchers.on_waiting = self.alarm.changed
        broker.replica_fetchers.channel = BrokerLinks(self._outbound)
        broker.replica_fetchers.cut_logs = lambda cuts, then: order_cuts(broker.logs, cuts, do=self.do, then=then)
        if self._config.headrace_self_fencing == "always":
            broker.is_shut = lambda: fencing.is_closed
        parts.lifecycle.on_heard = fencing.heartbeat_answered
        parts.lifecycle.on_registered_again = self._tell_broker_epoch
        parts.lifecycle.on_trouble = self._registration_trouble
        self.broker, self._publisher, self.lifecycle = broker, parts.publisher, parts.lifecycle
        self.self_fencing, self.upkeep = fencing, parts.upkeep
        timed = (broker, parts.publisher, parts.lifecycle, fencing, parts.upkeep)
        self._timed += [each.next_deadline_ms for each in timed]

    def add_registrar(self, registrar: ControllerRegistrar) -> None:
        """This process is a controller, which registers with the active one (KIP-919)."""
        self.registrar = registrar
        self._timed.append(registrar.next_deadline_ms)

    # --- the driver's calls ---

    def start(self) -> None:
        """Begin: the quorum node first, then the broker's registration."""
        now_ms = self._clock.now_ms()
        self._run(self._plane.start(now_ms))
        self.notices.news_from = self._plane.raft.log_end
        self._drain()
        if self.lifecycle is not None:
            self.lifecycle.start(now_ms)
        self.alarm.changed()

    def step(self, event: PlaneEvent) -> None:
        """An effect of the metadata plane is done, or a peer asks it something."""
        self._take(event)

    def answered(self, correlation: int, response: Message) -> None:
        """A `SendRequest` was answered."""
        self._outbound.arrived(correlation, response)
        self.alarm.changed()

    def failed(self, correlation: int, failure: SendFailure) -> None:
        """A `SendRequest` has no answer."""
        self._outbound.arrived(correlation, failure)
        self.alarm.changed()

    def probed(self, correlation: int, failure: SendFailure | None) -> None:
        """A `Probe` ended: None when the connect was taken."""
        self.watch.probed(correlation, failure, self._clock.now_ms())
        self.alarm.changed()

    def connection_closed(self, listener: str, connection_id: int) -> None:
        """A connection to one of this node's controller listeners is gone."""
        self.watch.closed((listener, connection_id), self._clock.now_ms())
        self.alarm.changed()

    def recovered(self) -> None:
        """The logs are loaded: publish all metadata to the broker, then ask to be unfenced."""
        assert self.broker is not None and self.lifecycle is not None, "only a broker recovers"  # noqa: PT018
        self._is_publishing = True
        if self.self_fencing is not None:
            self.self_fencing.begin(self._clock.now_ms())
        self._tell_broker_epoch()
        self.broker.replica_moves.resume()
        self._publish_to_broker(compare_images(EMPTY_IMAGE, self.image), at_once=True)
        for info in (each for each in self.broker.logs.directories() if not each.is_online):
            self.lifecycle.directory_failed(info.directory_id, self._clock.now_ms())  # as if it failed now (KIP-112)
            self.do(DirectoryFailed(directory=info.path, reason="it could not be read at the start"))
        self.lifecycle.recovered(self._clock.now_ms())
        if self.upkeep is not None:
            self.upkeep.begin()
        self.tick()
        self.alarm.changed()

    def _tell_broker_epoch(self) -> None:
        """Everything that speaks for this broker says under which registration."""
        broker = self.broker
        assert broker is not None and self.lifecycle is not None, "only a broker registers"  # noqa: PT018
        for part in (broker, broker.producer_ids, broker.isr_changes, broker.replica_fetchers, broker.assignments):
            part.broker_epoch = self.lifecycle.broker_epoch

    def _registration_trouble(self, text: str) -> None:
        self.notices.on_notice(Notice("broker", "registration", text, is_warning=True))

    def end_upkeep(self) -> None:
        """The logs are going to be closed: nothing is ordered for them or written to them any more, and what the metadata say is for the next process."""
        self._is_publishing = False
        if self.upkeep is not None:
            self.upkeep.end()
        if self.broker is not None:
            self.broker.due_roles.clear()
            self.broker.replica_fetchers.end()
            self.broker.replica_moves.end()

    def begin_shutdown(self) -> None:
        """The operator wants the process to stop: the broker first (B-K12)."""
        if self.lifecycle is None:
            self.do(StateChanged(state=BrokerState.SHUTTING_DOWN))
        else:
            self.lifecycle.begin_shutdown(self._clock.now_ms())
            self.tick()
            self.alarm.changed()

    def resign(self) -> None:
        """The last step of a shutdown: give up the quorum's leadership."""
        if self.registrar is not None:
            self.registrar.stop()
        self._take(raft_events.ShutdownBegan(now_ms=self._clock.now_ms()))

    def say_last_words(self, reason: str) -> None:
        """This node stops for a fault of its own: the voters are told why, so that they can tell an operator (decision 17)."""
        self._plane.witness.disk_failed(reason, self._clock.now_ms())
        node_id = self._config.node_id
        for to in self._plane.raft.other_voters:
            words = DescribeQuorumRequest(last_words_of=node_id, last_words=reason)
            self._outbound.send(to, Channel.VOTING, words, timeout_ms=LAST_WORDS_MS, then=lambda _: None)

    def heard_last_words(self, node_id: int, words: str) -> None:
        """Another node stops for a fault of its own."""
        self._plane.witness.heard_last_words(node_id, words, self._clock.now_ms())

    @property
    def is_served(self) -> bool:
        """This node leads the quorum, or a leader answers its fetches."""
        role = self._plane.raft.role
        return isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched)

    def quorum_trouble(self) -> str:
        """What stands between this node and the quorum, for an operator; empty while it is served (S4-24)."""
        if self.is_served:
            return ""
        failing = self._plane.witness.failing_links()
        return f"no leader of the metadata quorum is reached ({', '.join(failing) or 'every controller that was asked answered'})"

    @property
    def is_resigning(self) -> bool:
        """Other voters have not been told yet that this node does not lead any more."""
        return not self._plane.raft.is_farewell_over

    def tick(self) -> None:
        """Time has passed: do what is due in every part."""
        now_ms = self._clock.now_ms()
        self._plane.witness.looked_at_clocks(wall_ms=self._clock.wall_ms(), now_ms=now_ms)
        self.controller_channel.tick(now_ms)
        self.watch.tick(now_ms)
        due = self._plane.next_deadline_ms()
        if due is not None and due <= now_ms:
            self._take(raft_events.TimeAdvanced(now_ms=now_ms))
        if self.lifecycle is not None:
            self.lifecycle.tick(now_ms)
        if self.self_fencing is not None:
            if isinstance(
                self._plane.raft.role, Leader
            ):  # its own metadata are the newest, while a majority fetches them
                self.self_fencing.metadata_fetched(now_ms)
            self.self_fencing.tick(now_ms)
        if self.registrar is not None:
            self.registrar.tick(self.image, now_ms)
        broker = self.broker
        if broker is not None:
            assert self._publisher is not None, "a broker has its publisher"
            self._publisher.tick()
            broker.tick(now_ms)
            if now_ms >= self._shrink_at_ms:
                self._shrink_at_ms = now_ms + self._config.replica_lag_time_max_ms // 2
                broker.shrink_isrs(now_ms)
        if self.upkeep is not None:
            self.upkeep.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None when nothing waits for time."""
        due = self._plane.next_deadline_ms()
        for part in self._timed:
            at_ms = part()
            if at_ms is not None and (due is None or at_ms < due):
                due = at_ms
        return due if self.broker is None else sooner(due, self._shrink_at_ms)

    def snapshot_failed(self, fault: StorageFault) -> None:
        """A metadata snapshot could not be written; the next one is due later."""
        self._plane.snapshot_failed(fault)
        self.alarm.changed()

    # --- routing ---

    def _take(self, event: PlaneEvent) -> None:
        """One event for the metadata plane; those that come while one is handled wait their turn."""
        self._events.append(event)
        self._drain()

    def _drain(self) -> None:
        if self._is_running:
            return
        self._is_running = True
        failure: str | None = "an error inside the node"
        is_of_the_log = False
        try:
            while self._events:
                self._run(self._plane.step(self._events.popleft()))
            failure = None
        except (StorageFault, MetadataFault) as fault:
            failure, is_of_the_log = str(fault), True
        except RaftInvariantBroken as broken:
            failure = str(broken)
            raise
        finally:
            self._is_running = False
            if failure is not None:  # also for a bug of ours, which goes on as an exception
                self._events.clear()
                self.metadata_load_errors += is_of_the_log
                self.metadata_apply_errors += not is_of_the_log
                self.do(MetadataFailed(reason=failure))
        self.alarm.changed()

    def _run(self, effects: list[PlaneEffect]) -> None:
        for effect in effects:
            match effect:
                case controller_events.Answer() | raft_events.AnswerRaftRequest():
                    self.local.answered(effect.token, effect.response)
                case Publish():
                    self._publish(effect.delta)
                case raft_events.LeaderChanged():
                    self._leader_changed(effect)
                case raft_events.SendRaftRequest():
                    self._requests.ask(effect)
                case _:
                    self.do(effect)
        self.controller_channel.activity_changed()
        self.watch.activity_changed()

    def _leader_changed(self, effect: raft_events.LeaderChanged) -> None:
        self.notices.leader_changed(effect.leader_id, effect.epoch)
        self.leader_id, self.leader_epoch = effect.leader_id, effect.epoch
        self.controller_channel.leader_changed(effect.leader_id, effect.epoch, effect.to)
        if self.lifecycle is not None and effect.leader_id >= 0:
            self.lifecycle.controller_changed(self._clock.now_ms())

    def _metadata_fetched(self, asked_ms: int) -> None:
        if self.self_fencing is not None:
            self.self_fencing.metadata_fetched(asked_ms)

    def woke(self) -> None:
        """The process stood still: marks are put before anything that waited meanwhile is served. May interrupt anything."""
        if self.self_fencing is not None:
            self.self_fencing.woke(self._clock.now_ms())

    def _gone(self, broker_id: int, broker_epoch: int) -> None:
        self._take(
            controller_events.BrokerUnreachable(
                broker_id=broker_id, broker_epoch=broker_epoch, now_ms=self._clock.now_ms()
            )
        )

    def _publish(self, delta: MetadataDelta) -> None:
        """New metadata: the image first, then what it changes here."""
        self.image = delta.image
        if self.on_metadata is not None:
            self.on_metadata(delta)
        if self.state_changes is not None and self.is_controller_active:
            self.state_changes.requested(delta)
        self.notices.voters_are(self._plane.raft.voters.ids)
        if self._is_publishing or self.is_controller_active:
            self.notices.committed(delta, is_active=self.is_controller_active)
        if self._is_publishing:
            self._publish_to_broker(delta)
        elif self.broker is not None:
            self.broker.image = delta.image
        if self.lifecycle is not None:
            self.lifecycle.metadata_advanced(self._clock.now_ms())
        self.watch.changed(delta.changed_brokers, self._clock.now_ms())
        if self.registrar is not None:
            self.registrar.published(delta.image, self._clock.now_ms())
        if self._plane.statistics is not None:
            self._plane.statistics.published()

    def _publish_to_broker(self, delta: MetadataDelta, *, at_once: bool = False) -> None:
        assert self.broker is not None, "published to a broker only"
        assert self._publisher is not None, "a broker has its publisher"
        self.broker.image = delta.image
        if not delta.is_empty:
            publish = self._publisher.publish_at_once if at_once else self._publisher.publish
            publish(delta)
            if self.on_broker_metadata is not None:
                self.on_broker_metadata(delta)

    def _storage_fault(self, fault: StorageFault) -> None:
        """A log directory failed: its partitions go offline here, their coordinators resign, the controller hears it with the next heartbeat (B-K08)."""
        broker = self.broker
        assert broker is not None, "only a broker's logs report here"
        directories, failed = broker.replica_moves.directory_ids, fault.directory
        for name in broker.logs.fail_directory(failed):
            self.offline_replicas.add(name)
            hosted = broker.partitions.get(*name)
            if hosted is not None:
                broker.lost_log(hosted)
                broker.replica_moves.lost(hosted, directories.get(failed))
        broker.replica_moves.directory_failed()
        broker.replica_fetchers.begin()
        if failed in directories and self.lifecycle is not None:
            self.lifecycle.directory_failed(directories[failed], self._clock.now_ms())
        self.do(DirectoryFailed(directory=failed, reason=str(fault)))
        self.alarm.changed()
