"""The driver of `node.machine`: one node comes up, stays up and goes down."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.served_apis import BROKER_APIS, NOT_CONTROLLER_APIS
from headrace.config.node_config import NodeConfig
from headrace.core.errors import OperatorError, StorageFault
from headrace.core.listener import HostPort, Listener
from headrace.core.peers import SendFailure
from headrace.node.broker_watch import Probe
from headrace.node.compose import ComposedNode, NodeEnvironment, compose_node
from headrace.node.disk import NodeDisk
from headrace.node.disk_jobs import DiskEffect
from headrace.node.jobs import DiskJob
from headrace.node.lifecycle import BrokerState, RecoverLogs, StartFailed, StateChanged
from headrace.node.machine import DirectoryFailed, MetadataFailed, NodeEffect, NodeMachine
from headrace.node.outbound import Channel, SendRequest
from headrace.node.served_apis import CONTROLLER_APIS
from headrace.server.clock import ProcessClock
from headrace.server.disk_work import DiskWork
from headrace.server.listeners import NodeListeners
from headrace.server.log_levels import LoggingLevels
from headrace.server.notices import QuorumWatch, Story, Warnings, recovery_lines
from headrace.server.ready import ReadyInfo, StoppedEarly, refuse_optimised_python
from headrace.server.timers import NodeTimer
from headrace.storage.os_files import OsFiles
from headrace.wire.schema import Message

if TYPE_CHECKING:
    from headrace.core.ports import Rng
    from headrace.net.connecting import Prober
    from headrace.net.links import OutboundLinks
    from headrace.server.journal_file import JournalFile
    from headrace.server.metrics.service import MetricsService
    from headrace.server.state_change_file import StateChangeFile

_LOG = logging.getLogger("headrace.server")
_LAST_WORDS_S = 0.3
"""So long a node that stops for a fault stays, for its last words to leave."""
_RESIGN_TIMEOUT_S = 2.0
_POLL_S = 0.01
"""While a node comes up or goes down it looks so often whether it got further."""


class NodeServer:
    """Composes and runs one node on the running event loop. `start`, then `wait_stopped`; `begin_stop` at any time.

    The order of a start: directories checked and locked, addresses taken, metadata log read, controller listeners open,
    registration, logs recovered, broker listeners open, unfenced. A stop goes the other way, the broker first (B-K12).
    """

    def __init__(self, config: NodeConfig, *, started_at: float) -> None:
        self.config = config
        self.failure: str | None = None
        self.states: list[BrokerState] = []
        self._started_at = started_at
        self._clock = ProcessClock()
        self._rng = random.SystemRandom()
        self._files = OsFiles()
        self._warnings = Warnings()
        self._story = Story()
        self._work = DiskWork(failed=self._went_wrong, warn=self._warnings.say)
        self._disk = NodeDisk(config, files=self._files, clock=self._clock, pace=self._work.pace)
        self._host_name = socket.gethostname()
        self._journal: JournalFile | None = None
        self._metrics: MetricsService | None = None
        self._state_changes: StateChangeFile | None = None
        self._listeners = NodeListeners(config, self._clock.now_ms)
        self._node: ComposedNode | None = None
        self._links: OutboundLinks | None = None
        self._prober: Prober | None = None
        self._bound: tuple[Listener, ...] = ()
        self._metrics_at: HostPort | None = None
        self._is_ready: asyncio.Event = asyncio.Event()
        self._is_stopped: asyncio.Event = asyncio.Event()
        self._has_begun = False
        self._has_told_bug = False
        self._wants_stop = False
        self._stay_until = 0.0
        self._closing: asyncio.Task[None] | None = None
        self._timer: NodeTimer | None = None
        self._quorum_watch: QuorumWatch | None = None

    @property
    def machine(self) -> NodeMachine:
        """The node's logic; there is one once `start` got that far."""
        assert self._node is not None, "the node was started"
        return self._node.machine

    @property
    def _knows_its_quorum(self) -> bool:
        """Somebody leads, and if it is this node, its controller takes requests."""
        leader_id = self.machine.leader_id
        return leader_id >= 0 and (leader_id != self.config.node_id or self.machine.is_controller_active)

    # --- life ---

    async def start(self) -> ReadyInfo:
        """Come up; returns when the broker is unfenced, without a broker when a controller is active. Raises OperatorError with the reason when it cannot, StoppedEarly."""
        refuse_optimised_python()
        try:
            self._disk.open()
            self._bound = tuple([await self._listeners.bind(one) for one in self.config.listeners])
            await self._open_metrics()
            self._compose()
            await self._open_controller_listeners()
            if self._wants_stop:
                raise StoppedEarly
            self._has_begun = True
            self._begin_time()
            self.machine.start()
            self._after_event()
        except (OperatorError, StorageFault, StoppedEarly):
            await self._close_everything(is_clean=False)
            raise
        await self._is_ready.wait()
        if self._closing is not None:
            await self.wait_stopped()
            if self.failure is not None:
                raise OperatorError(self.failure)
            raise StoppedEarly
        return ReadyInfo(
            node_id=self.config.node_id,
            cluster_id=self._disk.cluster_id,
            listeners=self._bound,
            metrics=self._metrics_at,
            data_dir=(*self.config.log_dirs, self.config.metadata_log_dir)[0],
            seconds=time.monotonic() - self._started_at,
        )

    def begin_stop(self) -> None:
        """Stop cleanly; asked twice, without waiting for the controller's leave. What `start` has not come to yet, it leaves out."""
        is_asked_again, self._wants_stop = self._wants_stop, True
        if not self._has_begun:
            return
        if is_asked_again:
            self._close_soon(is_clean=True)
        else:
            self.machine.begin_shutdown()

    async def wait_stopped(self) -> None:
        """Return when everything is closed."""
        await self._is_stopped.wait()

    def _compose(self) -> None:
        environment = NodeEnvironment(
            clock=self._clock,
            rng=self._rng,
            metadata_rng=self._begin_journal(),
            host_name=self._host_name,
            stopwatch=time.perf_counter,
        )
        node = compose_node(self.config, disk=self._disk, bound=self._bound, environment=environment, do=self._do)
        self._node = node
        if self._journal is not None:
            self._journal.watch(node.plane)
        node.plane.on_resigned = lambda reason: _LOG.error("%s", reason)
        node.machine.log_levels = LoggingLevels()
        node.machine.notices.on_notice = self._story.tell
        self._follow_state_changes(node)
        if self._metrics is not None:
            self._metrics.watch(node)
            self._work.timed = self._metrics.timed
        broker = node.machine.broker
        if broker is not None:
            broker.log_levels = node.machine.log_levels
            broker.on_settings = self._listeners.follow
            broker.on_warning = self._warnings.say
            broker.on_notice = self._story.tell
            broker.absolute_path = os.path.abspath

    def _follow_state_changes(self, node: ComposedNode) -> None:
        """`headrace.state.change.file`. Raises OperatorError."""
        path = self.config.headrace_state_change_file
        if path:
            from headrace.server.state_change_file import StateChangeFile, followed  # only who wants one pays for it

            self._state_changes = StateChangeFile(path, self.config.headrace_state_change_file_bytes)
            followed(node).on_change = self._state_changes.take

    async def _open_metrics(self) -> None:
        """`headrace.metrics.listener`: open before there is a quorum, so that one sees why there is none. Raises OperatorError."""
        if self.config.headrace_metrics_listener:
            from headrace.server.metrics.service import MetricsService  # only who wants them pays for them

            self._metrics = MetricsService(self.config)
            self._metrics.connections = self._listeners.connections
            self._metrics.sockets = self._listeners.facts
            self._listeners.meter = self._metrics.requests
            self._metrics_at = await self._metrics.open()

    def _begin_journal(self) -> Rng | None:
        """The chance that the metadata side must be given when a journal of it is written."""
        if not self.config.headrace_journal_file:
            return None
        from headrace.server.journal_file import JournalFile  # only who wants one pays for it

        self._journal = JournalFile(self.config)
        return self._journal.begin(
            bound=self._bound, host_name=self._host_name, wall_ms=self._clock.wall_ms(), files=self._files
        )

    async def _open_controller_listeners(self) -> None:
        assert self._node is not None, "composed before"
        for one in self._bound:
            if one.name in self.config.controller_listener_names:
                on_closed = partial(self.machine.connection_closed, one.name)
                await self._listeners.serve(
                    one.name, CONTROLLER_APIS, self._node.controller_server, on_closed=on_closed
                )

    # --- effects ---

    def _do(self, effect: NodeEffect) -> None:
        """Do one effect, or begin it; its outcome goes back into the machine."""
        match effect:
            case SendRequest():
                self._ask_peer(effect)
            case Probe():
                self._work.begin(self._probe(effect))
            case StateChanged():
                self._state_changed(effect.state)
            case StartFailed():
                self.failure = effect.reason
            case MetadataFailed():
                self._fail(f"the metadata log: {effect.reason}")
            case DirectoryFailed():
                self._directory_failed(effect)
            case _:
                self._guarded(lambda: self._begin_disk_job(effect))

    def _ask_peer(self, effect: SendRequest) -> None:
        def done(outcome: Message | SendFailure) -> None:
            if isinstance(outcome, SendFailure):
                self._guarded(lambda: self.machine.failed(effect.correlation, outcome))
            else:
                self._guarded(lambda: self.machine.answered(effect.correlation, outcome))
            self._after_event()

        purpose = (effect.channel, effect.lane) if effect.lane else effect.channel
        target = (effect.to.host, effect.to.port, purpose)
        if self._links is None:
            from headrace.net import links  # a node alone has nobody to ask; a tenth of the start-up time

            settings = links.link_settings(
                client_id=f"headrace-{self.config.node_id}",
                connect_timeout_ms=self.config.socket_connection_setup_timeout_ms,
                max_frame_bytes=max(
                    self.config.socket_request_max_bytes, 2 * self.config.replica_fetch_response_max_bytes
                ),
            )
            self._links = links.OutboundLinks(settings)
        ask = self._links.send_once if effect.channel is Channel.BOOTSTRAP else self._links.send
        ask(target, effect.request, timeout_ms=effect.timeout_ms, done=done)

    def _close_links(self) -> None:
        if self._links is not None:
            self._links.close()

    async def _close_outside(self) -> None:
        self._close_links()
        if self._metrics is not None:
            await self._metrics.close()
        if self._state_changes is not None:
            await self._state_changes.close()

    async def _probe(self, effect: Probe) -> None:
        if self._prober is None:
            from headrace.net.connecting import Prober  # as in `_ask_peer`

            self._prober = Prober()
        failure = await self._prober.probe(effect.host, effect.port, timeout_s=effect.timeout_ms / 1000)
        self.machine.probed(effect.correlation, failure)

    def _state_changed(self, state: BrokerState) -> None:
        self.states.append(state)
        _LOG.info("%s state: %s", "broker" if self.config.is_broker else "node", state.name)
        if state is BrokerState.RUNNING:
            self._is_ready.set()
        elif state is BrokerState.SHUTTING_DOWN:
            self._close_soon(is_clean=True)

    def _directory_failed(self, effect: DirectoryFailed) -> None:
        """With no directory left, or the metadata's gone, the process stops (B-K08)."""
        _LOG.error("log directory %s is offline: %s", effect.directory or "(unknown)", effect.reason)
        is_known = effect.directory in self.config.log_dirs and effect.directory != self.config.metadata_log_dir
        if not is_known or not self._disk.has_online_directory():
            self._fail(f"log directory {effect.directory} failed: {effect.reason}")

    def _begin_disk_job(self, effect: DiskEffect) -> None:
        """The job is made now, in the order of effects; it runs in a thread, after the one before in its lane."""
        assert self._node is not None, "composed before"
        self._work.begin(self._run_job(effect, self._node.disk_jobs.job(effect)))

    async def _run_job(self, effect: DiskEffect, job: DiskJob) -> None:
        await self._work.run(job, before_finish=self._loaded if isinstance(effect, RecoverLogs) else None)
        self._after_event()

    async def _loaded(self) -> bool:
        """The logs are loaded, unless the node goes down by now."""
        if self._closing is None:
            await self._open_broker_listeners()
        return self._closing is None

    async def _open_broker_listeners(self) -> None:
        """RECOVERY (B-K02): the logs are loaded, clients may come."""
        for line in recovery_lines(self._disk.logs):
            _LOG.info("%s", line)
        for note in self._disk.logs.notes:
            _LOG.debug("%s", note)
        broker = self.machine.broker
        assert broker is not None, "only a broker recovers"
        fencing = self.machine.self_fencing
        assert fencing is not None, "every broker has it"
        self._listeners.is_shut = lambda: fencing.is_closed
        for one in self._bound:
            if one.name not in self.config.controller_listener_names:
                await self._listeners.serve(one.name, BROKER_APIS, broker, refuses=NOT_CONTROLLER_APIS)

    # --- time ---

    def woke(self) -> None:
        """The process was stopped and goes on (SIGCONT). Runs between any two steps of the interpreter."""
        if self._node is not None:
            self.machine.woke()

    def _begin_time(self) -> None:
        machine = self.machine
        self._quorum_watch = QuorumWatch(is_served=lambda: machine.is_served, trouble=machine.quorum_trouble)
        self._timer = NodeTimer(machine.alarm, now_ms=self._clock.now_ms, ring=self._ring)
        self._timer.begin()

    def _ring(self) -> None:
        """A deadline has come."""
        if not self._is_stopped.is_set():
            self._guarded(self.machine.tick)
            self._after_event()

    def _after_event(self) -> None:
        """Something happened: is this node ready, is there a leader?"""
        if self._closing is None and self._quorum_watch is not None:
            self._quorum_watch.look()
            if not self.config.is_broker and self._knows_its_quorum:
                self._is_ready.set()

    def _end_time(self) -> None:
        for timer in (self._timer, self._quorum_watch):
            if timer is not None:
                timer.end()

    # --- what may go wrong ---

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            job()
        except Exception as fault:  # noqa: BLE001 - the process's edge
            self._went_wrong(fault)

    def _went_wrong(self, fault: Exception) -> None:
        """A disk's fault is its directory's; what an operator must change, and a bug of ours, stop the node."""
        if isinstance(fault, StorageFault):
            self._storage_fault(fault)
        elif isinstance(fault, OperatorError):
            self._fail(str(fault))
        else:
            if not self._has_told_bug:
                self._has_told_bug = True
                _LOG.error("the node cannot go on", exc_info=fault)
            self._fail(f"an error inside the node: {fault!r}")

    def _storage_fault(self, fault: StorageFault) -> None:
        broker = None if self._node is None else self._node.machine.broker
        if broker is None or not self._disk.is_loaded:
            self._fail(f"the disk failed: {fault}")
        else:
            broker.on_storage_fault(fault)

    def _fail(self, reason: str) -> None:
        if self.failure is None and self._node is not None:
            self._node.machine.say_last_words(reason)
            self._stay_until = asyncio.get_running_loop().time() + _LAST_WORDS_S
        self.failure = self.failure or reason
        self._close_soon(is_clean=False)

    # --- the end ---

    def _close_soon(self, *, is_clean: bool) -> None:
        if self._closing is None:
            if self._node is not None:
                self._node.machine.end_upkeep()
            self._closing = asyncio.get_running_loop().create_task(self._close_everything(is_clean=is_clean))

    async def _resign(self, machine: NodeMachine) -> None:
        """Give up leadership, and serve the quorum until its other voters know (B-R19), within bounds."""
        loop = asyncio.get_running_loop()
        machine.resign()
        give_up_at = loop.time() + _RESIGN_TIMEOUT_S
        while machine.is_resigning and loop.time() < give_up_at:
            await asyncio.sleep(_POLL_S)

    async def _close_everything(self, *, is_clean: bool) -> None:
        """The broker first: stop accepting, finish, flush, `.kafka_cleanshutdown`; then the quorum node (B-K04, B-K12)."""
        controllers = self.config.controller_listener_names
        await self._listeners.close(tuple(name for name in self._listeners.names() if name not in controllers))
        machine = None if self._node is None else self._node.machine
        try:
            await self._work.done()
            if machine is not None and machine.broker is not None:
                if machine.broker.has_groups:
                    machine.broker.groups.shut_down()
                epoch = machine.lifecycle.broker_epoch if machine.lifecycle is not None else -1
                await self._work.in_thread(lambda: self._disk.close_logs(is_clean=is_clean, broker_epoch=epoch))
                _LOG.info("the broker is closed")
            if machine is not None and is_clean:
                await self._resign(machine)
            await asyncio.sleep(max(self._stay_until - asyncio.get_running_loop().time(), 0))
            await self._listeners.close(self._listeners.names())
            self._end_time()
            self._close_links()
            await self._work.done()
            await self._work.in_thread(lambda: self._disk.close_metadata(is_clean=is_clean))
            if self._has_begun:
                _LOG.info("the quorum node is closed")
        except StorageFault as fault:
            self.failure = self.failure or f"the disk failed while the node stopped: {fault}"
        except Exception as fault:  # noqa: BLE001 - the process's edge: it ends, and not with success
            _LOG.error("the node did not stop as it should", exc_info=fault)
            self.failure = self.failure or f"an error inside the node: {fault!r}"
        finally:
            self._end_time()
            await self._close_outside()
            if self._work.is_idle:  # else a thread still writes: the lock goes with the process
                self._disk.unlock()
            if self._journal is not None:
                self._journal.close()
            self._work.close()
            self._is_ready.set()
            self._is_stopped.set()
