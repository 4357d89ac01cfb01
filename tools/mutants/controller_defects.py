"""Which mistakes can the controller make?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from headrace.controller import (
    activation,
    alter_partition,
    broker_states,
    causes,
    machine,
    producer_ids,
    requests,
    term,
)
from headrace.controller.decision import Decision, Moves, check_broker_epoch
from headrace.controller.events import Answer, AppendRecords, RequestArrived
from headrace.controller.heartbeats import Heartbeats
from headrace.controller.machine import ControllerMachine
from headrace.core.error_code import ErrorCode
from headrace.metadata import loader
from headrace.metadata.cause import CauseKind
from headrace.metadata.replay import replay_all
from headrace.node.machine import NodeMachine
from headrace.node.metadata_plane import MetadataPlane
from headrace.sim.faults import FaultKind
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from tools.mutants.planting import Defect, Planting

if TYPE_CHECKING:
    from headrace.controller.decision import Situation
    from headrace.metadata.image import MetadataImage


def takes_old_partition_epochs(planting: Planting) -> None:
    """K20."""
    honest = alter_partition.epoch_error

    def epoch_error(broker_id: int, partition: Any, asked: Any) -> ErrorCode:
        error = honest(broker_id, partition, asked)
        return ErrorCode.NONE if error is ErrorCode.INVALID_UPDATE_VERSION else error

    planting.replace(alter_partition, "epoch_error", epoch_error)


def fenced_broker_stays_leader(planting: Planting) -> None:
    """K23."""
    honest = broker_states.fence_moves

    def fence_moves(situation: Situation, broker: Any, cause: Any) -> Moves:
        return replace(honest(situation, broker, cause), places=())

    planting.replace_everywhere(honest, fence_moves, broker_states, machine)


def fences_by_the_wall_clock(planting: Planting) -> None:
    """K24: the controller is told the wall clock's time in place of the monotonic one's."""
    clocks: WeakKeyDictionary[MetadataPlane, tuple[Any, int]] = WeakKeyDictionary()
    honest_init = NodeMachine.__init__
    honest_step = MetadataPlane.__dict__["_step_controller"]

    def init(self: NodeMachine, *, plane: MetadataPlane, clock: Any, **rest: Any) -> None:
        clocks[plane] = (clock, clock.wall_ms() - clock.now_ms())
        honest_init(self, plane=plane, clock=clock, **rest)

    def step(self: MetadataPlane, event: Any) -> None:
        clock, offset = clocks[self]
        honest_step(self, replace(event, now_ms=max(0, clock.wall_ms() - offset)))

    planting.replace(NodeMachine, "__init__", init)
    planting.replace(MetadataPlane, "_step_controller", step)


def fences_after_a_failover(planting: Planting) -> None:
    """K25: a new controller takes brokers that it has not heard of for silent."""
    honest = activation.fresh_sessions

    def fresh_sessions(event: Any, *, session_timeout_ms: int) -> Any:
        long_ago = event.now_ms - session_timeout_ms - 1
        return honest(replace(event, now_ms=long_ago), session_timeout_ms=session_timeout_ms)

    planting.replace(machine, "fresh_sessions", fresh_sessions)


def answers_before_the_commit(planting: Planting) -> None:
    """K26."""
    honest = ControllerMachine.__dict__["_answer_when_committed"]

    def at_once(self: Any, active: Any, asked: Any, response: Any, now_ms: int) -> list[Any]:
        honest(self, active, asked, response, now_ms)
        if active.waiting and active.waiting[-1].asked is asked:
            active.waiting.pop()
        return [Answer(token=asked.token, response=response)]

    planting.replace(ControllerMachine, "_answer_when_committed", at_once)


def splits_operations(planting: Planting) -> None:
    """K27: what was decided together is appended in two batches."""
    honest = ControllerMachine.__dict__["step"]

    def step(self: Any, event: Any) -> list[Any]:
        effects: list[Any] = []
        for effect in honest(self, event):
            if isinstance(effect, AppendRecords) and len(effect.records) > 1 and isinstance(event, RequestArrived):
                first = effect.records[:1]
                effects.append(replace(effect, records=first))
                effects.append(replace(effect, records=effect.records[1:], base_offset=effect.base_offset + 1))
            else:
                effects.append(effect)
        return effects

    planting.replace(ControllerMachine, "step", step)


def reuses_producer_ids(planting: Planting) -> None:
    """K28: the next block is remembered by the controller, not written."""
    known: dict[tuple[int, int], int] = {}

    def decide_allocation(situation: Situation, request: AllocateProducerIdsRequest) -> Decision:
        check_broker_epoch(situation, request.broker_id, request.broker_epoch)
        key = (situation.config.node_id, id(situation.index))
        start = known.get(key, situation.image.next_producer_id)
        known[key] = start + producer_ids.BLOCK_SIZE
        return Decision(
            response=AllocateProducerIdsResponse(producer_id_start=start, producer_id_len=producer_ids.BLOCK_SIZE)
        )

    table: dict[type, Any] = {**vars(requests)["_PLAIN"], AllocateProducerIdsRequest: decide_allocation}
    planting.replace(requests, "_PLAIN", table)


def leaves_who_waits_alone(planting: Planting) -> None:
    """X1: a controller that loses its office answers nobody."""
    honest = ControllerMachine.__dict__["_deactivate"]

    def deactivate(self: Any, committed: Any) -> list[Any]:
        honest(self, committed)
        return []

    planting.replace(ControllerMachine, "_deactivate", deactivate)


def answers_reads_at_once(planting: Planting) -> None:
    """X2: what wrote nothing is answered at once, though it tells of what others wrote a moment ago."""
    honest = ControllerMachine.__dict__["_decide"]

    def decide(self: Any, event: Any, active: Any) -> list[Any]:
        before = active.next_offset
        effects: list[Any] = honest(self, event, active)
        waits = bool(active.waiting) and active.waiting[-1].asked.token == event.token
        if active.next_offset == before and waits:
            return [*effects, Answer(token=event.token, response=active.waiting.pop().response)]
        return effects

    planting.replace(ControllerMachine, "_decide", decide)


def takes_a_second_incarnation(planting: Planting) -> None:
    """X3: a broker id may be registered anew while its other incarnation lives."""
    planting.replace(Heartbeats, "has_valid_session", lambda self, broker_id, now_ms: False)


def fences_what_it_just_let_in(planting: Planting) -> None:
    """X4: the session of a broker that was unfenced begins with its registration, and is over at once."""
    honest = Heartbeats.__dict__["agree"]

    def agree(self: Any, broker_id: int, *, is_fenced: bool) -> None:
        session = self._sessions[broker_id]
        was_fenced = session.is_fenced
        honest(self, broker_id, is_fenced=is_fenced)
        if was_fenced and not is_fenced:
            session.last_contact_ms -= self._session_timeout_ms

    planting.replace(Heartbeats, "agree", agree)


def decides_on_less_than_it_writes(planting: Planting) -> None:
    """X12: the image of a decision lacks what its last record does."""

    def replay_less(image: MetadataImage, records: Any) -> MetadataImage:
        return replay_all(image, records[:-1] if len(records) > 2 else records)

    planting.replace(term, "replay_all", replay_less)


def takes_over_halves(planting: Planting) -> None:
    """X13: the first batch of an operation brings all of it."""

    def is_whole(own: Any, batches: Any, first: int) -> bool:
        return bool(batches[first].epoch == own.epoch)

    planting.replace(loader, "_is_whole", is_whole)


def keeps_its_reasons(planting: Planting) -> None:
    """X19: what a request led to is written without the request."""
    planting.replace(causes, "caused_by_request", lambda records, request, asker: records)


def tells_service_as_registration(planting: Planting) -> None:
    """X20: a broker that may serve is told as one that registered."""
    kinds = {**vars(causes)["_OF_BROKERS"], BrokerHeartbeatRequest: CauseKind.REGISTERED}
    planting.replace(causes, "_OF_BROKERS", kinds)


_JUMPS = frozenset({FaultKind.JUMP})
_FAILOVERS = frozenset(
    {FaultKind.HUNT, FaultKind.FLAP, FaultKind.ISOLATE, FaultKind.SPLIT, FaultKind.LOOP, FaultKind.KILL}
)

DEFECTS = (
    Defect(id="K20", what="an ISR change with an old partition epoch is accepted", plant=takes_old_partition_epochs),
    Defect(id="K23", what="a fenced broker goes on leading", plant=fenced_broker_stays_leader),
    Defect(id="K24", what="brokers are fenced by the wall clock", plant=fences_by_the_wall_clock, faults=_JUMPS),
    Defect(
        id="K25", what="brokers are fenced right after a failover", plant=fences_after_a_failover, faults=_FAILOVERS
    ),
    Defect(id="K26", what="an answer leaves before its records are committed", plant=answers_before_the_commit),
    Defect(id="K27", what="the records of an operation are appended in two batches", plant=splits_operations),
    Defect(
        id="K28",
        what="a block of producer ids is given out again after a failover",
        plant=reuses_producer_ids,
        faults=_FAILOVERS,
    ),
    Defect(
        id="X1", what="who waits at a deposed controller is not told", plant=leaves_who_waits_alone, faults=_FAILOVERS
    ),
    Defect(id="X2", what="an answer tells of what another request wrote", plant=answers_reads_at_once),
    Defect(id="X3", what="two incarnations of a broker at once", plant=takes_a_second_incarnation),
    Defect(id="X4", what="a broker is fenced as soon as it serves", plant=fences_what_it_just_let_in),
    Defect(id="X12", what="a decision's image is not that of its records", plant=decides_on_less_than_it_writes),
    Defect(id="X13", what="half an operation is taken over as the whole", plant=takes_over_halves),
    Defect(id="X19", what="what a request led to has no cause", plant=keeps_its_reasons),
    Defect(id="X20", what="a broker that may serve is told as a new one", plant=tells_service_as_registration),
)
"""K: section 8 of the fault catalogue; X: others that a rule of section 4.2 must find."""
