"""The driver of a node on simulated time, network and disk, the counterpart of `server.node_server`.

The code that decides is the node's own: `node.compose` puts it together here as there. This driver runs one event of a node as one step,
does its effects, and lets the process die wherever a fault says: between two effects, or between two calls to the disk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headrace.core.errors import OperatorError, StorageFault
from headrace.core.peers import SendFailure
from headrace.node.broker_watch import Probe
from headrace.node.compose import ComposedNode, NodeEnvironment, compose_node
from headrace.node.disk import NodeDisk
from headrace.node.jobs import DiskJob, Lane
from headrace.node.lifecycle import BrokerState, StartFailed, StateChanged
from headrace.node.machine import DirectoryFailed, MetadataFailed, NodeEffect
from headrace.node.metadata_plane import WriteSnapshot
from headrace.node.outbound import SendRequest
from headrace.raft import events as raft_events
from headrace.rpc.reply import AnyReply, Deferred, Reply
from headrace.sim.clock import NodeClock
from headrace.sim.connections import ClientConnections, broker_service
from headrace.sim.disk_lanes import DiskLanes
from headrace.sim.faulty_disk import ProcessDied, SimDisk
from headrace.sim.log_directories import refuse_last, take_offline, watch_moves
from headrace.sim.node_events import DiskDone, LinkClosed, Probed, TimePassed, Unheard
from headrace.sim.node_observer import SnapshotNames, note_found, observe_node
from headrace.sim.observation import (
    Crash,
    ImagePublished,
    LogDurable,
    QuorumStateDurable,
    Received,
    ResponseSent,
    StepKind,
)
from headrace.sim.observed_log import ObservedLog
from headrace.sim.sending import send
from headrace.sim.serving import CONTROLLER_PORT, is_refused_pre_vote, served
from headrace.wire.messages.vote import VoteResponse

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.controller.machine import ControllerMachine
    from headrace.core.ids import Uuid
    from headrace.metadata.image import MetadataImage
    from headrace.node.machine import NodeMachine
    from headrace.node.metadata_plane import MetadataPlane
    from headrace.raft.machine import RaftNode
    from headrace.sim.links import Question, Server
    from headrace.sim.world import World
    from headrace.wire.schema import Message

TICK_US: Final = 1_000
"""No node looks at its clock more often than this."""


class SimNode:
    """One node: its disk and clock, which last, and its process, which comes and goes. Implements `observation.NodeView`."""

    def __init__(self, world: World, config: NodeConfig, *, directory_id: Uuid) -> None:
        self.world = world
        self.config = config
        self.node_id, self.host = config.node_id, config.listeners[0].host
        self.directory_id = directory_id
        self.clock = NodeClock(world.schedule)
        self.disk = SimDisk(self.clock.wall_ms)
        self._snapshots = SnapshotNames(self.disk)
        self.disk.on_name = lambda *change: self._snapshots.changed(world.step, *change)
        self.run = 0
        self.is_up = self.is_paused = self.is_dark = self._is_closing = False
        self.quorum_state: raft_events.QuorumState | None = None
        self.history: deque[tuple[int, int, StepKind, object, tuple[object, ...]]] = deque(maxlen=200)
        self.effects: list[object] = []
        self.start_refused = ""
        self.refusals_at_start = 0
        self.composed: ComposedNode | None = None
        self.log: ObservedLog | None = None
        self.plane: MetadataPlane | None = None
        self.raft: RaftNode | None = None
        self.controller: ControllerMachine | None = None
        self.machine: NodeMachine | None = None
        self.die_after_effects: int | None = None
        self.dies_after_vote = False
        self.dies_lossy = False
        self.disk_wait_us = (20, 400)
        self.states: list[BrokerState] = []
        self._connections: ClientConnections | None = None
        self._lanes = DiskLanes(self._begin_job)
        self._inbox: list[tuple[Callable[[Any, Any], None], Any, Any]] = []
        self._wakes_at_us = -1
        self._woke_at_us = -TICK_US
        self._published: MetadataImage | None = None

    # --- what a checker reads ---

    @property
    def is_controller(self) -> bool:
        """It has the controller role."""
        return self.config.is_controller

    @property
    def image(self) -> MetadataImage | None:
        """What its metadata loader holds."""
        return None if self.plane is None else self.plane.loader.image

    # --- steps ---

    def _step(self, kind: StepKind, event: object, do: Callable[[], None], received: Received | None = None) -> None:
        """One step: the event, its effects, and what the world saw of them."""
        if self.world.is_over:
            return
        step = self.world.step
        self.world.steps += 1
        step.number = self.world.steps
        step.at_us = self.world.schedule.now_us
        step.kind, step.node, step.event, step.received = kind, self, event, received
        step.changes.clear()
        step.machines.clear()
        self.effects = []
        fate: tuple[str, bool] | None = None
        try:
            try:
                do()
            except StorageFault as fault:
                take_offline(self, fault)
        except ProcessDied:
            fate = "at a point that a fault had set", self.dies_lossy
            if self.effects:
                self.world.markers.hit("crash between two effects of one step")
        except (StorageFault, OperatorError) as fault:
            fate = f"{type(fault).__name__}: {fault}", False
        step.is_cut_short = fate is not None
        self._note_image()
        self.history.append((step.number, step.at_us, kind, event, tuple(self.effects)))
        self.world.on_step()
        if fate is not None and self.is_up:
            self.world.on_death(self.node_id, fate[0])
        elif self.is_up and not self.is_paused:
            self._plan_wake()

    def _note_image(self) -> None:
        machine = self.machine
        if machine is not None and machine.image is not self._published:
            self._published = machine.image
            self.world.step.changes.append(ImagePublished(machine.image))

    def note(self, kind: StepKind, event: object) -> None:
        """Something was done to the node from outside; it takes no event."""
        self._step(kind, event, _nothing)

    def _later(self, do: Callable[[Any, Any], None], one: Any, two: Any) -> None:
        """Do it now, or when the process goes on."""
        if self.is_paused:
            self._inbox.append((do, one, two))
        else:
            do(one, two)

    # --- life ---

    def start(self) -> None:
        """The process starts on what the disk holds."""
        assert not self.is_up, "a node runs once at a time"
        self.run += 1
        self.is_up = True
        self.is_paused = self.is_dark = self._is_closing = False
        self.start_refused = ""
        self.refusals_at_start = self.disk.refusals
        self._inbox.clear()
        self._snapshots.forget()  # what the process before named and did not live to sync may be gone
        self._lanes = DiskLanes(self._begin_job)
        self._wakes_at_us = -1
        self.die_after_effects = None
        self._step(StepKind.STARTED, None, self._begin)

    def _begin(self) -> None:
        world = self.world
        disk = NodeDisk(self.config, files=self.disk, clock=self.clock, metadata_log_class=ObservedLog)
        environment = NodeEnvironment(clock=self.clock, rng=world.chance(f"node {self.node_id} run {self.run}"))
        try:
            disk.open()
            composed = compose_node(
                self.config, disk=disk, bound=self.config.listeners, environment=environment, do=self._do
            )
        except (OperatorError, StorageFault) as refused:
            self.start_refused = str(refused)
            raise
        self.composed = composed
        self.machine, self.plane = composed.machine, composed.plane
        self.raft, self.controller = composed.plane.raft, composed.plane.controller
        log = disk.metadata.log
        assert isinstance(log, ObservedLog), "opened as one"
        self.log = log
        if self.controller is not None:
            self.controller.slice_size = world.limits.controller_slice_size
        if any("cut at offset" in note for note in self.log.notes):
            world.markers.hit("torn batch cut")
        self.quorum_state = note_found(world.step, self.disk, self.log)
        if self.config.is_broker:
            service = broker_service(composed.machine, self.clock.now_ms, self.soon)
            self._connections = ClientConnections(service, world.network, self._note_response)
        watch_moves(world.step, composed.machine, self.disk)
        observe_node(world.step, composed.machine, composed.plane, on_leadership_lost=self._note_cut_short)
        composed.machine.start()

    def die(self, crash: Crash, *, is_dark: bool = False) -> None:
        """The process is gone, and everything in it. With `is_lossy`, so is what was not synced, by chance."""
        was_up = self.is_up
        self._note_cut_short()
        self.is_up = self.is_paused = False
        self.is_dark = is_dark
        self._inbox.clear()
        self.disk.die_at_call = None
        self.die_after_effects = None
        if crash.is_disk_lost:
            self.disk.replace()
        elif crash.is_lossy:
            self.disk.lose_power(self.world.chance(f"power {self.node_id} {self.run} {self.world.steps}"))
        self.world.network.process_died(self, is_silent=is_dark)
        if was_up or crash.is_disk_lost or crash.is_lossy or crash.is_rotten:
            self.note(StepKind.CRASHED, crash)
        self._forget_process()

    def _forget_process(self) -> None:
        self.composed = self.machine = self.plane = self.raft = self.controller = self.log = None
        self._connections = None
        self._published = None

    def _note_cut_short(self) -> None:
        """The controller loses its office, or its life: was it in the middle of something that takes several steps?"""
        controller = self.controller
        if controller is not None and controller.statistics.waiting > 0:
            self.world.markers.hit("controller failover between records of one operation")

    def pause(self) -> None:
        """SIGSTOP."""
        self.is_paused = True
        self.note(StepKind.PAUSED, None)

    def resume(self) -> None:
        """SIGCONT: everything that came meanwhile is there at once."""
        if not self.is_up or not self.is_paused:
            return
        self.is_paused = False
        inbox, self._inbox = self._inbox, []
        self._wakes_at_us = -1
        self.note(StepKind.RESUMED, None)
        run = self.run
        for do, one, two in inbox:
            if self.run == run and self.is_up:
                self._later(do, one, two)

    def stop(self) -> None:
        """SIGTERM: a clean stop begins."""
        if self.is_up and not self.is_paused and self.machine is not None:
            self._step(StepKind.EVENT, "stop", self.machine.begin_shutdown)

    def _close(self) -> None:
        """The last step of a clean stop."""
        composed = self.composed
        if composed is None:
            return
        machine, disk = composed.machine, composed.disk
        epoch = machine.lifecycle.broker_epoch if machine.lifecycle is not None else -1
        machine.end_upkeep()
        disk.close_logs(is_clean=True, broker_epoch=epoch)
        machine.resign()
        disk.close_metadata(is_clean=True)

    def _stopped(self, run: int, _: object) -> None:
        if self.is_up and self.run == run:
            self._step(StepKind.STOPPED, None, self._close)
            self.is_up = False
            self.world.network.process_died(self, is_silent=False)
            self._forget_process()
            self.world.on_death(self.node_id, "stopped")

    # --- time ---

    def _plan_wake(self) -> None:
        machine = self.machine
        if machine is None or (due_ms := machine.next_deadline_ms()) is None:
            return
        assert machine.alarm.covers(due_ms, self.clock.now_ms()), "no driver would wake the node for what it waits for"
        at_us = max(self.clock.world_us(due_ms), self._woke_at_us + TICK_US)
        if self._wakes_at_us < 0 or at_us < self._wakes_at_us:
            self._wakes_at_us = max(at_us, self.world.schedule.now_us + 1)
            self.world.schedule.at(self._wakes_at_us, self._wake, self.run, self._wakes_at_us)

    def _wake(self, run: int, planned_us: int) -> None:
        if run != self.run or planned_us != self._wakes_at_us or not self.is_up or self.is_paused:
            return
        self._wakes_at_us = -1
        self._woke_at_us = self.world.schedule.now_us
        machine = self.machine
        if machine is None:
            return
        now_ms, due_ms = self.clock.now_ms(), machine.next_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            self._step(StepKind.EVENT, TimePassed(now_ms=now_ms), lambda: machine.alarm.ring(machine.tick))
        else:
            self._plan_wake()

    # --- effects ---

    def _do(self, effect: NodeEffect) -> None:
        """One effect of the step at hand."""
        if not self.is_up:
            return
        self._die_if_due()
        self.effects.append(effect)
        match effect:
            case SendRequest():
                send(self.world, self, effect)
            case Probe():
                self._probe(effect)
            case StateChanged():
                self.states.append(effect.state)
                if effect.state is BrokerState.SHUTTING_DOWN:
                    self._is_closing = True
                    self.world.schedule.after(1_000, self._stopped, self.run)
            case StartFailed() | MetadataFailed():
                raise StorageFault(effect.reason, directory="")
            case DirectoryFailed():
                refuse_last(self, effect)
            case _:
                assert self.composed is not None, "only a composed node has effects"
                end = -1 if self.log is None else self.log.log_end_offset
                self._lanes.enqueue(effect, self.composed.disk_jobs.job(effect), end)

    def _die_if_due(self) -> None:
        """A fault may have set after how many effects and answers the process ends."""
        if self.die_after_effects is not None and len(self.effects) >= self.die_after_effects:
            self.die_after_effects = None
            raise ProcessDied

    def heard(self, correlation: int, outcome: Message | SendFailure, source: Server | None) -> None:
        """The outcome of a request; see `network.Caller`."""
        self._later(self._hear, (correlation, outcome), source)

    def _hear(self, what: tuple[int, Message | SendFailure], source: Server | None) -> None:
        correlation, outcome = what
        machine = self.machine
        if machine is None:
            return
        if isinstance(outcome, SendFailure):
            self._step(
                StepKind.EVENT,
                Unheard(correlation=correlation, failure=outcome),
                lambda: machine.failed(correlation, outcome),
            )
        else:
            assert source is not None, "an answer comes from somebody"
            received = Received(source.node_id, source.run, is_request=False, message=outcome, api_version=-1)
            self._step(StepKind.EVENT, received, lambda: machine.answered(correlation, outcome), received)

    # --- the disk's work ---

    def _begin_job(self, lane: Lane) -> None:
        wait = self.world.disk_chance.randrange(*self.disk_wait_us)
        self.world.schedule.after(wait, self._job_ends, self.run, lane)

    def _job_ends(self, run: int, lane: Lane) -> None:
        if self.is_up and run == self.run:
            self._later(self._finish_job, run, lane)

    def _finish_job(self, run: int, lane: Lane) -> None:
        """The work at the head of a lane is done, unless the process is another one by now."""
        if run == self.run:
            effect, job, log_end = self._lanes.head(lane)
            self._step(StepKind.EVENT, DiskDone(effect=effect), lambda: self._run_job(effect, job, log_end))
            if self.is_up and self.run == run:
                self._lanes.done(lane)

    def _run_job(self, effect: NodeEffect, job: DiskJob, log_end: int) -> None:
        """Do the work, note what it made durable, and report. `log_end` is that of the time when it was ordered: what a flush covers."""
        try:
            job.run_in_place()
        except StorageFault as fault:
            if job.failed is None:
                raise
            job.failed(fault)
            return
        if isinstance(effect, raft_events.StoreQuorumState):
            self.quorum_state = effect.state
            self.world.step.changes.append(QuorumStateDurable(effect.state))
            if self.dies_after_vote and effect.state.voted_id not in (-1, self.node_id):
                self.dies_after_vote = False
                self.world.markers.hit("vote on disk, answer lost in a crash")
                raise ProcessDied
        elif isinstance(effect, raft_events.FlushLog):
            assert self.log is not None, "a running node has its log"
            self.world.step.changes.append(LogDurable(min(log_end, self.log.log_end_offset)))
        elif isinstance(effect, raft_events.FinishSnapshot | WriteSnapshot):
            self._snapshots.named(self.world.step)
        job.finish()

    # --- requests of others ---

    def is_listening(self, port: int) -> bool:
        """Controllers listen from the start, brokers from RECOVERY on, both until the process closes."""
        machine = self.machine
        if machine is None or self._is_closing:
            return False
        if port == CONTROLLER_PORT:
            return self.config.is_controller
        lifecycle = machine.lifecycle
        return lifecycle is not None and lifecycle.state >= BrokerState.RECOVERY and machine.broker is not None

    def link_closed(self, port: int, number: int, run: int) -> None:
        """A connection to this node is gone; see `network.Server`."""
        if run == self.run:
            self._later(self._lose_link, port, number)

    def _lose_link(self, port: int, number: int) -> None:
        machine = self.machine
        if machine is not None and port == CONTROLLER_PORT:
            gone = LinkClosed(number=number)
            self._step(StepKind.EVENT, gone, lambda: machine.connection_closed("CONTROLLER", number))
        elif self._connections is not None and (lose := self._connections.lose(number)) is not None:
            self._step(StepKind.EVENT, LinkClosed(number=number), lose)

    def _probe(self, effect: Probe) -> None:
        def done(failure: SendFailure | None) -> None:
            self._later(self._probed, effect.correlation, failure)

        self.world.network.probe(self, (effect.host, effect.port), timeout_us=effect.timeout_ms * 1_000, done=done)

    def _probed(self, correlation: int, failure: SendFailure | None) -> None:
        machine = self.machine
        if machine is not None:
            event = Probed(correlation=correlation, failure=failure)
            self._step(StepKind.EVENT, event, lambda: machine.probed(correlation, failure))

    def asked(self, question: Question) -> None:
        """A request arrived; see `network.Server`."""
        self._later(self._serve, question, self.run)

    def _serve(self, question: Question, run: int) -> None:
        composed = self.composed
        if composed is None or run != self.run:
            return
        received = Received(
            question.source,
            question.source_run,
            is_request=True,
            message=question.message,
            api_version=question.api_version,
        )
        self._step(StepKind.EVENT, received, lambda: self._handle(question, composed), received)

    def _note_response(self) -> None:
        self._die_if_due()
        self.effects.append("response")

    def soon(self, do: Callable[[], None]) -> None:
        """In a step of its own, as soon as others had their turn."""
        self.world.schedule.after(1, lambda run, _: self._later(self._turn, run, do), self.run)

    def _turn(self, run: int, do: Callable[[], None]) -> None:
        if self.is_up and run == self.run:
            self._step(StepKind.EVENT, "turn", do)

    def _handle(self, question: Question, composed: ComposedNode) -> None:
        if question.frame is not None:
            assert self._connections is not None, "only brokers are sent bytes"
            self._connections.take(question)
            return
        result = served(question, composed, now_ms=self.clock.now_ms())
        if isinstance(result, Deferred):
            run = self.run
            result.when_done(lambda reply: self._reply(question, reply, run))
        elif result is None:
            self.world.network.answer(question, None)
        else:
            self._reply(question, result, self.run)

    def _reply(self, question: Question, reply: AnyReply, run: int) -> None:
        if run != self.run or not self.is_up:
            return
        self._die_if_due()
        if isinstance(reply, Reply):
            self.effects.append(reply.message)
            if isinstance(reply.message, VoteResponse) and is_refused_pre_vote(question.message, reply.message):
                self.world.markers.hit("pre-vote refused")
            self.world.step.changes.append(ResponseSent(question.source, question.message, reply.message))
            self.world.network.answer(question, reply.message)
        else:
            self.world.network.answer(question, None)


def _nothing() -> None:
    """The event of a step that the node takes no part in."""
