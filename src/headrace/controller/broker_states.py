"""What follows from a heartbeat, a session that ran out, a refused connection, or a controlled shutdown.

Source: KIP-631, KIP-841, KIP-858; S1-51..S1-62, S2-10, S2-19..S2-24, B-C24, B-C25, B-K05, B-K08; C7, C14..C16.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace.controller.causes import about_broker
from headrace.controller.decision import Decision, Moves, Situation, check_broker_epoch
from headrace.controller.heartbeats import BrokerControlState, Heartbeats, Wants, next_control_state
from headrace.controller.partitions import leader_and_isr_updates
from headrace.core.values import value_class
from headrace.metadata.cause import Cause, CauseKind
from headrace.metadata.snapshot import VersionedRecord
from headrace.metadata.versions import has_cordoned_log_dirs, has_directory_assignment
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.core.ids import TopicIdPartition, Uuid
    from headrace.metadata.image import BrokerRegistration, MetadataImage

FENCE: Final = 1
UNFENCE: Final = -1


@value_class
class HeartbeatDecision:
    """What a heartbeat leads to; the machine then notes `state` and, for a controlled shutdown, where it ends."""

    decision: Decision
    state: BrokerControlState


def decide_heartbeat(
    situation: Situation, request: BrokerHeartbeatRequest, heartbeats: Heartbeats
) -> HeartbeatDecision:
    """Raises PeerError(STALE_BROKER_EPOCH) for an unknown id or epoch (S1-61; B-K05).

    The session is what the image says; of a broker that is just being fenced slice by slice it says so already.
    """
    broker = check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    is_caught_up = has_read_its_registration(broker, request)
    if request.broker_id not in situation.leaving:
        heartbeats.agree(request.broker_id, is_fenced=broker.fenced)
    current = heartbeats.state(request.broker_id)
    state = current
    if request.broker_id not in situation.leaving:
        state = next_control_state(
            current,
            Wants(fence=request.want_fence, shut_down=request.want_shut_down, is_caught_up=is_caught_up),
            has_leaderships=situation.index.has_leaderships(request.broker_id),
            others_have_caught_up=current is BrokerControlState.CONTROLLED_SHUTDOWN
            and heartbeats.others_have_caught_up(request.broker_id),  # a look at every broker
        )
    moves = list(_lost_directories(situation, broker, request))
    if state is not current:
        moves += _state_moves(situation, broker, state, heartbeats)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=state.is_fenced,
        should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
    )
    first = (*_first_records(broker, state, current), *_cordoned(situation, broker, request))
    decision = Decision(records=first, response=response, moves=tuple(moves))
    return HeartbeatDecision(decision=decision, state=state)


def as_committed(
    request: BrokerHeartbeatRequest, response: BrokerHeartbeatResponse, committed: MetadataImage
) -> BrokerHeartbeatResponse:
    """The response as it leaves: whether the broker is fenced is what the committed image says by then.

    While a broker is fenced slice by slice it is not fenced yet; and a later decision may be committed together with this one.
    """
    broker = committed.cluster.brokers.get(request.broker_id)
    if broker is None or broker.broker_epoch != request.broker_epoch or broker.fenced == response.is_fenced:
        return response
    return replace(response, is_fenced=broker.fenced)


def has_read_its_registration(broker: BrokerRegistration, request: BrokerHeartbeatRequest) -> bool:
    """The broker has read the record of its own registration (C16)."""
    return request.current_metadata_offset >= broker.broker_epoch


def _first_records(
    broker: BrokerRegistration, state: BrokerControlState, current: BrokerControlState
) -> tuple[VersionedRecord, ...]:
    """The unfence comes before what it makes possible (B-C25)."""
    if state is BrokerControlState.UNFENCED and state is not current:
        return (_fencing(broker, UNFENCE),)
    return ()


def _state_moves(
    situation: Situation, broker: BrokerRegistration, state: BrokerControlState, heartbeats: Heartbeats
) -> list[Moves]:
    match state:
        case BrokerControlState.UNFENCED:
            return [unfence_moves(situation, broker)]
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            return [controlled_shutdown_moves(situation, broker, heartbeats)]
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            kind = CauseKind.OWN_WISH if state is BrokerControlState.FENCED else CauseKind.SHUT_DOWN
            cause = about_broker(kind, broker.broker_id)
            return [] if broker.fenced else [fence_moves(situation, broker, cause)]


def _fencing(broker: BrokerRegistration, fenced: int) -> VersionedRecord:
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=fenced)
    return VersionedRecord(change, 0)


def fence_moves(situation: Situation, broker: BrokerRegistration, cause: Cause) -> Moves:
    """Out of every ISR (the last member stays), new leaders or none, then the fence itself (B-C24)."""
    return Moves(
        places=situation.index.partitions_with(broker.broker_id),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        last=partial(end_of_fencing, broker),
        cause=cause,
    )


def end_of_fencing(broker: BrokerRegistration, later: Situation) -> tuple[list[VersionedRecord], None]:
    """The fence itself, unless the broker is fenced by now."""
    now = later.image.cluster.brokers[broker.broker_id]
    return ([] if now.fenced else [_fencing(broker, FENCE)]), None


def unfence_moves(situation: Situation, broker: BrokerRegistration) -> Moves:
    """The broker leads what nobody leads and it may (B-C25)."""
    return Moves(places=situation.index.without_leader(), add=broker.broker_id, broker_epoch=broker.broker_epoch)


def controlled_shutdown_moves(situation: Situation, broker: BrokerRegistration, heartbeats: Heartbeats) -> Moves:
    """It leaves every ISR that has another member, in few batches; no new replicas or leaderships come to it (S1-57, S2-23, KIP-841)."""

    def stopping(_later: Situation) -> tuple[list[VersionedRecord], None]:
        if broker.in_controlled_shutdown:
            return [], None
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
        )
        return [VersionedRecord(change, 1)], None

    return Moves(
        places=situation.index.partitions_with(broker.broker_id),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        last=stopping,
        cause=about_broker(CauseKind.CONTROLLED_SHUTDOWN, broker.broker_id),
        on_end=partial(heartbeats.begin_controlled_shutdown, broker.broker_id),
    )


def _lost_directories(
    situation: Situation, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Iterator[Moves]:
    """The replicas in directories that went offline lose their ISR places (B-K08)."""
    lost = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    if not lost or not has_directory_assignment(situation.metadata_version):
        return

    def without_them(_later: Situation) -> tuple[list[VersionedRecord], None]:
        rest = tuple(each for each in broker.log_dirs if each not in lost)
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, log_dirs=rest
        )
        return [VersionedRecord(change, 2)], None

    yield Moves(
        places=situation.index.partitions_with(broker.broker_id),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        change=partial(_leave_directories, broker.broker_id, lost),
        lost=lost,
        last=without_them,
        cause=about_broker(CauseKind.DIRECTORY_FAILED, broker.broker_id),
    )


def _cordoned(
    situation: Situation, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Iterator[VersionedRecord]:
    """Directories that take no new replicas are noted (KIP-1066)."""
    cordoned = request.cordoned_log_dirs
    is_told = has_cordoned_log_dirs(situation.metadata_version) and cordoned is not None
    if is_told and tuple(sorted(cordoned or ())) != broker.cordoned_log_dirs:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=cordoned
        )
        yield VersionedRecord(change, 3, about_broker(CauseKind.DIRECTORIES_CORDONED, broker.broker_id))


def _leave_directories(
    broker_id: int, directories: list[Uuid], later: Situation, places: Iterable[TopicIdPartition]
) -> Iterator[VersionedRecord]:
    """The broker's replicas in these directories leave their ISRs, as things are when it is their turn."""
    partition_of = later.image.topics.partition_by_id
    there = (
        place
        for place in places
        if (partition := partition_of(*place)) is not None and partition.directory_of(broker_id) in directories
    )
    return leader_and_isr_updates(later, there, remove=broker_id)
