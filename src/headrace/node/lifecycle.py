"""The states that the broker of this node goes through, and what it tells the controller on the way (KIP-631).

    NOT_RUNNING -> STARTING -> RECOVERY -> RUNNING -> PENDING_CONTROLLED_SHUTDOWN -> SHUTTING_DOWN

STARTING        registers, then heartbeats until the controller says that the metadata is caught up
RECOVERY        strays are put aside, logs are loaded, listeners open (`recovered` ends it), then it asks to be unfenced
RUNNING         unfenced; a heartbeat every `broker.heartbeat.interval.ms`
PENDING_...     asks the controller to move leaders away; ends when that says so, after the shutdown timeout, or when no
                controller answered for a session: then it counts as gone anyway
SHUTTING_DOWN   the driver closes everything

A heartbeat that gets STALE_BROKER_EPOCH says that the registration is gone: it was unregistered, or another process took its id. It registers
again under another epoch and stays in its state, or it ends, as `headrace.when.unregistered` says (S1-73).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, IntEnum

from headrace.broker.ports import ControllerChannel
from headrace.config.node_config import NodeConfig
from headrace.core.deadlines import earliest
from headrace.core.error_code import ErrorCode
from headrace.core.ids import Uuid
from headrace.core.listener import Listener
from headrace.core.ports import Rng
from headrace.core.values import value_class
from headrace.metadata.image import MetadataImage
from headrace.metadata.versions import SUPPORTED_FEATURES, has_directory_assignment
from headrace.rpc.context import RequestContext
from headrace.rpc.reply import AnyReply, Reply
from headrace.wire.messages import broker_registration
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

_REGISTRATION, _HEARTBEAT = 62, 63
_FIRST_BACKOFF_MS = 100
_REFUSALS_TOLD = 5
"""After so many, a second and a half, an operator hears of another process with this id; one that has died is forgotten sooner as a rule."""
_SECOND_SHUTDOWN_HEARTBEAT_MS = 50
_CAUGHT_UP_RETRY_MS = 10


class BrokerState(IntEnum):
    """Kafka's numbers of the gauge `kafka.server:type=KafkaServer,name=BrokerState` (B-K01)."""

    NOT_RUNNING = 0
    STARTING = 1
    RECOVERY = 2
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@value_class
class StateChanged:
    """The broker is in another state; with SHUTTING_DOWN the driver closes everything."""

    state: BrokerState


@value_class
class RecoverLogs:
    """The metadata is at hand: put strays aside and load the logs, then call `NodeMachine.recovered`."""


@value_class
class StartFailed:
    """The broker gave up (S1-13): the process ends with a status other than 0."""

    reason: str


LifecycleEffect = StateChanged | RecoverLogs | StartFailed


class NotedDirectories(Enum):
    """Whether the controllers know a broker's log directories (KIP-858)."""

    YES = "they are in its registration"
    NOT_YET = "the registration is of before the metadata.version had them"
    NEVER = "the metadata.version does not have them"


def noted_directories(image: MetadataImage, broker_id: int, broker_epoch: int) -> NotedDirectories:
    """Of a broker's registration of that epoch; YES while it has not been read."""
    registered = image.cluster.brokers.get(broker_id)
    if registered is None or registered.broker_epoch != broker_epoch or registered.log_dirs:
        return NotedDirectories.YES
    is_had = has_directory_assignment(image.features.metadata_version or 0)
    return NotedDirectories.NOT_YET if is_had else NotedDirectories.NEVER


@value_class
class BrokerIdentity:
    """What a registration says. `listeners` are the advertised ones with the ports that are really bound."""

    cluster_id: str
    incarnation_id: Uuid
    listeners: tuple[Listener, ...]
    directory_ids: tuple[Uuid, ...]
    previous_broker_epoch: int = -1


class BrokerLifecycle:
    """Registers, heartbeats and stops one broker. Driven by `node.machine`: `start`, `tick`, `recovered`, `begin_shutdown`.

    `emit` takes its effects; `metadata_offset` says how far the broker has applied the metadata.
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        identity: BrokerIdentity,
        controller: ControllerChannel,
        rng: Rng,
        metadata_offset: Callable[[], int],
        emit: Callable[[LifecycleEffect], None],
    ) -> None:
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = -1
        self.is_fenced = True
        self.offline_directories: tuple[Uuid, ...] = ()
        """Those that failed, of which each heartbeat tells."""
        self._untold: dict[Uuid, int] = {}
        """Those of which no answered heartbeat told yet, and when that is too late."""
        self.on_heard: Callable[[int], None] = lambda _: None
        """Told when a heartbeat was sent that was answered well."""
        self.on_trouble: Callable[[str], None] = lambda _: None
        """Told what an operator should know of the registration: that it is gone, or that another process has it."""
        self.on_registered_again: Callable[[], None] = lambda: None
        """Told when there is another `broker_epoch`."""
        self.unregistrations = 0
        self.cordoned: Callable[[], tuple[Uuid, ...] | None] = lambda: None
        """The directories that take no new replicas, None where the controller does not know of such (KIP-1066); set by the node."""
        self.noted_directories: Callable[[int], NotedDirectories] = lambda _: NotedDirectories.YES
        """Whether the controllers know the directories of the registration of that epoch; set by the node."""
        self._now_ms = self._asked_ms = self._may_complete_at_ms = 0
        self._telling: tuple[Uuid, ...] = ()
        self._config = config
        self._identity = identity
        self._controller = controller
        self._rng = rng
        self._metadata_offset = metadata_offset
        self._emit = emit
        self._give_up_at_ms: int | None = None
        self._backoff_ms = _FIRST_BACKOFF_MS
        self._next_at_ms: int | None = None
        self._is_asking = False
        self._is_ready = False
        self._refused_as = ErrorCode.NONE
        """The last answer to a registration."""
        self._refusals = 0
        """How often another process had the id."""
        self._returns = False
        """Unregistered while it ran, and not unfenced again."""
        self._shutdown_heartbeats = 0
        self._shutdown_at_ms: int | None = None
        self._unheard_at_ms: int | None = None

    # --- the node's calls ---

    def start(self, now_ms: int) -> None:
        """Begin with the registration."""
        self._now_ms = now_ms
        self._give_up_at_ms = now_ms + self._config.initial_broker_registration_timeout_ms
        self._enter(BrokerState.STARTING)
        self._register()

    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        self._now_ms = now_ms
        if any(at is not None and now_ms >= at for at in (self._shutdown_at_ms, self._unheard_at_ms)):
            self._shut_down()
            return
        if self._give_up_at_ms is not None and now_ms >= self._give_up_at_ms:
            why = "no controller accepted the registration within initial.broker.registration.timeout.ms"
            if self._refused_as is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                why += f": another process that is alive is registered as broker {self._config.node_id}; give this one another node.id"
            elif self._refused_as is not ErrorCode.NONE:
                why += f": {self._refused_as.name}"
            self._fail(why)
            return
        late = [each for each, at_ms in self._untold.items() if now_ms >= at_ms]
        if late:
            self._fail(f"no controller took note within log.dir.failure.timeout.ms that log directory {late[0]} failed")
            return
        if self._next_at_ms is not None and now_ms >= self._next_at_ms and not self._is_asking:
            self._next_at_ms = None
            if self.broker_epoch < 0 or self._must_name_directories():
                self._register()
            else:
                self._heartbeat()

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        return earliest(
            (
                self._next_at_ms,
                self._shutdown_at_ms,
                self._unheard_at_ms,
                self._give_up_at_ms,
                *self._untold.values(),
            )
        )

    def recovered(self, now_ms: int) -> None:
        """Logs are loaded and listeners are open: ask to be unfenced, at once."""
        self._now_ms = now_ms
        self._is_ready = True
        self._soon(0)

    def metadata_advanced(self, now_ms: int) -> None:
        """More metadata was applied: when that is waited for, say so at once; and name the directories when the controllers came to note them."""
        self._now_ms = now_ms
        if self.broker_epoch >= 0 and self.state is BrokerState.STARTING:
            self._soon(0)
        if self._must_name_directories():
            self._soon(0)

    def directory_failed(self, directory: Uuid, now_ms: int) -> None:
        """The next heartbeat, which is due at once, tells of it; when none that does is answered in time, the broker stops: nobody else would lead what was there (B-K08)."""
        self._now_ms = max(now_ms, self._now_ms)
        is_known = directory in self.offline_directories or directory not in self._identity.directory_ids
        if is_known or self.state is BrokerState.SHUTTING_DOWN:
            return
        self.offline_directories = (*self.offline_directories, directory)
        self._untold[directory] = self._now_ms + self._config.log_dir_failure_timeout_ms
        if self.broker_epoch >= 0:
            self._soon(0)

    def controller_changed(self, now_ms: int) -> None:
        """Another controller is active: let it hear of this broker at once, because it knows no heartbeat times yet."""
        self._now_ms = max(now_ms, self._now_ms)
        if self._next_at_ms is not None and self.state is not BrokerState.SHUTTING_DOWN:
            self._soon(0)

    def begin_shutdown(self, now_ms: int) -> None:
        """The operator wants it to stop (B-K03); a second call changes nothing."""
        self._now_ms = now_ms
        if self.state in (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN):
            return
        is_member = self.state is BrokerState.RUNNING and self.broker_epoch >= 0
        if not is_member or not self._config.controlled_shutdown_enable:
            self._shut_down()
            return
        self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        self._shutdown_at_ms = now_ms + self._config.headrace_controlled_shutdown_timeout_ms
        self._unheard_at_ms = now_ms + self._config.broker_session_timeout_ms
        self._soon(0)

    # --- registration (B-K09) ---

    def _must_name_directories(self) -> bool:
        """Its registration is completed, once in a while until that is so. Source: Kafka behaviour (BrokerRegistrationTracker)."""
        return (
            self._now_ms >= self._may_complete_at_ms
            and self.state in (BrokerState.RECOVERY, BrokerState.RUNNING)
            and self.noted_directories(self.broker_epoch) is NotedDirectories.NOT_YET
        )

    def _register(self) -> None:
        identity = self._identity
        self._may_complete_at_ms = self._now_ms + self._config.broker_heartbeat_interval_ms
        request = broker_registration.BrokerRegistrationRequest(
            broker_id=self._config.node_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=tuple(
                broker_registration.Listener(
                    name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol
                )
                for one in identity.listeners
            ),
            features=tuple(
                broker_registration.Feature(name=name, min_supported_version=levels[0], max_supported_version=levels[1])
                for name, levels in sorted(SUPPORTED_FEATURES.items())
            ),
            rack=self._config.broker_rack,
            log_dirs=tuple(sorted(identity.directory_ids)),
            previous_broker_epoch=identity.previous_broker_epoch,
        )
        self._ask(request, _REGISTRATION, 4, self._registered)

    def _registered(self, reply: AnyReply) -> None:
        assert isinstance(reply, Reply), "the controller answers with a message"
        response = reply.message
        assert isinstance(response, broker_registration.BrokerRegistrationResponse), "the api's own response"
        self._is_asking = False
        if self.state is BrokerState.SHUTTING_DOWN:
            return
        error = self._refused_as = ErrorCode.known(response.error_code)
        if error is ErrorCode.NONE:
            self.broker_epoch = response.broker_epoch
            self._give_up_at_ms = None  # to catch up with the metadata may take as long as it takes
            self._backoff_ms = _FIRST_BACKOFF_MS
            self._refusals = 0
            if self._returns:
                self.on_registered_again()
            self._soon(0)
        elif self.broker_epoch >= 0:  # it is registered, and tries again when there is more metadata
            self._soon(0)
        elif error in _RETRIED:
            jitter = 1 + 0.02 * (2 * self._rng.random() - 1)
            self._soon(int(self._backoff_ms * jitter))
            self._backoff_ms = min(2 * self._backoff_ms, self._config.broker_session_timeout_ms)
            if error is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                self._taken()
        else:
            self._fail(f"the controller refused the registration: {error.name}{_ADVICE.get(error, '')}")

    def _taken(self) -> None:
        self._refusals += 1
        if self._refusals == _REFUSALS_TOLD:
            self.on_trouble(
                f"another process that is alive, or was a moment ago, is registered as broker {self._config.node_id}: "
                "this one waits until it is gone; where both shall run, give one another node.id"
            )

    # --- heartbeats ---

    def _heartbeat(self) -> None:
        cordoned = self.cordoned()
        request = BrokerHeartbeatRequest(
            broker_id=self._config.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not self._is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_log_dirs=self.offline_directories,
            cordoned_log_dirs=cordoned,
        )
        self._telling = self.offline_directories
        self._ask(request, _HEARTBEAT, 1 if cordoned is None else 2, self._heard)

    def _heard(self, reply: AnyReply) -> None:
        assert isinstance(reply, Reply), "the controller answers with a message"
        response = reply.message
        assert isinstance(response, BrokerHeartbeatResponse), "the api's own response"
        self._is_asking = False
        error = ErrorCode.known(response.error_code)
        if error is ErrorCode.STALE_BROKER_EPOCH:
            self._unregistered()
            return
        if error is not ErrorCode.NONE:
            self._soon(_FIRST_BACKOFF_MS)
            return
        if self.noted_directories(self.broker_epoch) is NotedDirectories.YES:  # else it was told in vain
            self._untold = {each: at_ms for each, at_ms in self._untold.items() if each not in self._telling}
        self.on_heard(self._asked_ms)
        self.is_fenced = response.is_fenced
        self._go_on(response)

    def _go_on(self, response: BrokerHeartbeatResponse) -> None:
        """What follows from a good answer, by state."""
        if self.state is BrokerState.STARTING:
            if response.is_caught_up:
                self._enter(BrokerState.RECOVERY)
                self._emit(RecoverLogs())
                self._later()
            else:
                self._soon(_CAUGHT_UP_RETRY_MS)
        elif self.state is BrokerState.RECOVERY:
            if self._is_ready and not response.is_fenced:
                self._enter(BrokerState.RUNNING)
                self._later()
            else:
                self._soon(_CAUGHT_UP_RETRY_MS if self._is_ready else self._config.broker_heartbeat_interval_ms)
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self._unheard_at_ms = self._now_ms + self._config.broker_session_timeout_ms
            if response.should_shut_down:
                self._shut_down()
                return
            self._shutdown_heartbeats += 1
            if self._shutdown_heartbeats == 1:
                self._soon(_SECOND_SHUTDOWN_HEARTBEAT_MS)
            else:
                self._later()
        elif self._returns and response.is_fenced:
            self._soon(_CAUGHT_UP_RETRY_MS)
        else:
            self._returns = False
            self._later()

    def _unregistered(self) -> None:
        """No member any more (S1-73)."""
        if self.state in (BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN):
            self._shut_down()  # it leads nothing
            return
        self.unregistrations += 1
        if self._config.headrace_when_unregistered == "exit":
            self._fail("this broker is no longer registered, and headrace.when.unregistered is exit")
            return
        self.on_trouble("this broker is no longer registered; it registers again")
        self._returns = True
        self.broker_epoch = -1
        self.is_fenced = True
        self._give_up_at_ms = self._now_ms + self._config.initial_broker_registration_timeout_ms
        self._soon(0)

    # --- inside ---

    def _ask(self, request: object, api_key: int, version: int, on_answer: Callable[[AnyReply], None]) -> None:
        self._is_asking = True
        self._asked_ms = self._now_ms
        context = RequestContext(api_key=api_key, api_version=version, now_ms=self._now_ms, is_internal=True)
        deadline_ms = self._now_ms + self._config.broker_session_timeout_ms
        self._controller.send(request, context, deadline_ms=deadline_ms).when_done(on_answer)

    def _soon(self, wait_ms: int) -> None:
        at = self._now_ms + wait_ms
        self._next_at_ms = at if self._next_at_ms is None else min(self._next_at_ms, at)

    def _later(self) -> None:
        if self._next_at_ms is None:
            self._next_at_ms = self._now_ms + self._config.broker_heartbeat_interval_ms

    def _enter(self, state: BrokerState) -> None:
        self.state = state
        self._emit(StateChanged(state=state))

    def _shut_down(self) -> None:
        self._shutdown_at_ms = self._unheard_at_ms = self._give_up_at_ms = None
        self._next_at_ms = None
        self._untold.clear()
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._enter(BrokerState.SHUTTING_DOWN)

    def _fail(self, reason: str) -> None:
        self._emit(StartFailed(reason=reason))
        self._shut_down()


_ADVICE = {
    ErrorCode.UNSUPPORTED_VERSION: (
        ": the cluster uses a feature at a level that this version does not have; `headrace features describe` shows it, "
        "`kafka-features downgrade` lowers it"
    )
}
"""What an operator can do about a refusal."""
_RETRIED = frozenset(
    {
        ErrorCode.DUPLICATE_BROKER_REGISTRATION,
        ErrorCode.STALE_BROKER_EPOCH,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
