"""Who may register, and what follows from a heartbeat, a fence or a controlled shutdown?

Source: KIP-631, KIP-841, KIP-858, KIP-919; S1-28, S1-29, S1-42..S1-62, B-C24, B-C25. Decisions change nothing; sessions are changed by
the machine when a decision stands.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from immutables import Map

from headrace.controller.decision import Decision
from headrace.controller.heartbeats import BrokerControlState, Heartbeats, Wants, next_control_state
from headrace.controller.partitions import leader_and_isr_updates
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import TopicIdPartition, is_reserved_uuid
from headrace.metadata.image import (
    METADATA_VERSION,
    BrokerRegistration,
    ControllerRegistration,
    EndPoint,
    FeatureRange,
)
from headrace.metadata.snapshot import VersionedRecord, register_broker_record, register_controller_record
from headrace.metadata.versions import (
    has_controller_registration,
    has_cordoned_log_dirs,
    has_directory_assignment,
)
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.controller.decision import Situation
    from headrace.core.ids import Uuid

_OLDEST_METADATA_VERSION = FeatureRange(1, 1)
FENCE, UNFENCE = 1, -1


def check_broker_epoch(situation: Situation, broker_id: int, broker_epoch: int) -> BrokerRegistration:
    """C8: the registration that a request speaks for. Raises PeerError(STALE_BROKER_EPOCH): unknown id or older epoch."""
    broker = situation.image.cluster.brokers.get(broker_id)
    if broker is None:
        raise PeerError(ErrorCode.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.broker_epoch != broker_epoch:
        raise PeerError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"Expected broker epoch {broker.broker_epoch}, but got broker epoch {broker_epoch}",
        )
    return broker


# Registration


def decide_registration(situation: Situation, request: BrokerRegistrationRequest, heartbeats: Heartbeats) -> Decision:
    """Let a broker in, or raise PeerError: why not (S1-28, S1-29, S1-47, S1-48, S1-50)."""
    _check_identity(situation, request, heartbeats)
    if has_directory_assignment(situation.metadata_version):
        _check_directories(situation, request)
    _check_listeners(request)
    features = _checked_features(situation, request)
    existing = situation.image.cluster.brokers.get(request.broker_id)
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    registration = BrokerRegistration(
        broker_id=request.broker_id,
        broker_epoch=existing.broker_epoch if existing is not None and is_same else situation.next_offset,
        incarnation_id=request.incarnation_id,
        end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features=Map(features),
        rack=request.rack,
        fenced=existing.fenced if existing is not None and is_same else True,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and is_same else False,
        log_dirs=tuple(sorted(request.log_dirs)) if has_directory_assignment(situation.metadata_version) else (),
    )
    records: list[VersionedRecord] = []
    if existing is not None and not is_same:
        records += _out_of_every_isr(situation, request.broker_id)
        registration = _with_epoch(registration, situation.next_offset + len(records))
    records.append(register_broker_record(registration, situation.metadata_version))
    response = BrokerRegistrationResponse(broker_epoch=registration.broker_epoch)
    return Decision(records=tuple(records), response=response, is_atomic=False)


def _with_epoch(registration: BrokerRegistration, epoch: int) -> BrokerRegistration:
    """C8: a registration's epoch is the offset of its record."""
    return replace(registration, broker_epoch=epoch)


def _check_identity(situation: Situation, request: BrokerRegistrationRequest, heartbeats: Heartbeats) -> None:
    if request.cluster_id != situation.cluster_id:
        raise PeerError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {situation.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    if request.broker_id < 0:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"Invalid negative broker id {request.broker_id}")
    existing = situation.image.cluster.brokers.get(request.broker_id)
    is_other = existing is not None and existing.incarnation_id != request.incarnation_id
    # What this very process registers holds the locks of its directories: the incarnation before it is dead, however fresh its session.
    is_own = not situation.cause.listener and request.broker_id == situation.config.node_id
    if is_other and not is_own and heartbeats.has_valid_session(request.broker_id, situation.now_ms):
        raise PeerError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, "Another broker is registered with that broker id.")
    if request.is_migrating_zk_broker:
        raise PeerError(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")


def _check_directories(situation: Situation, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise PeerError(ErrorCode.INVALID_REGISTRATION, "No directories specified in request")
    if any(is_reserved_uuid(each) for each in request.log_dirs):
        raise PeerError(ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise PeerError(ErrorCode.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker_id, broker in situation.image.cluster.brokers.items():
        if broker_id == request.broker_id:
            continue
        for directory in request.log_dirs:
            if directory in broker.log_dirs:
                raise PeerError(
                    ErrorCode.INVALID_REGISTRATION,
                    f"Broker {broker_id} is already registered with directory {directory}",
                )


def _check_listeners(request: BrokerRegistrationRequest) -> None:
    names = [each.name for each in request.listeners]
    if len(set(names)) != len(names):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A listener name is registered twice")
    if any(each.port == 0 or not each.host for each in request.listeners):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A listener is registered without its host or port")


def _checked_features(situation: Situation, request: BrokerRegistrationRequest) -> dict[str, FeatureRange]:
    """S1-48: every finalized level must lie in the broker's range; a feature it does not name it has at 0 only."""
    features = {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in request.features}
    features.setdefault(METADATA_VERSION, _OLDEST_METADATA_VERSION)
    levels = situation.image.features.levels
    for name in sorted({*features, *levels}):
        finalized = situation.metadata_version if name == METADATA_VERSION else levels.get(name, 0)
        low, high = features.get(name, FeatureRange(0, 0))
        if not low <= finalized <= high:
            raise PeerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {finalized} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive.",
            )
    return features


def decide_controller_registration(situation: Situation, request: ControllerRegistrationRequest) -> Decision:
    """KIP-919: the cluster knows its controllers. Raises PeerError(UNSUPPORTED_VERSION) below 3.7-IV0."""
    if not has_controller_registration(situation.metadata_version):
        raise PeerError(
            ErrorCode.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    controller = ControllerRegistration(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features=Map(
            {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in request.features}
        ),
    )
    return Decision(
        records=(register_controller_record(controller),), response=ControllerRegistrationResponse(error_message=None)
    )


# Heartbeats


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatDecision:
    """What a heartbeat leads to; the machine then notes `state` and, for a controlled shutdown, where it ends."""

    decision: Decision
    state: BrokerControlState


def decide_heartbeat(
    situation: Situation, request: BrokerHeartbeatRequest, heartbeats: Heartbeats
) -> HeartbeatDecision:
    """B-K05. Raises PeerError(STALE_BROKER_EPOCH) for an unknown id or epoch (S1-61)."""
    broker = check_broker_epoch(situation, request.broker_id, request.broker_epoch)
    is_caught_up = request.current_metadata_offset >= broker.broker_epoch
    current = heartbeats.state(request.broker_id)
    state = next_control_state(
        current,
        Wants(fence=request.want_fence, shut_down=request.want_shut_down, is_caught_up=is_caught_up),
        has_leaderships=situation.index.has_leaderships(request.broker_id),
        others_have_caught_up=heartbeats.others_have_caught_up(request.broker_id),
    )
    records: list[VersionedRecord] = []
    if state is not current:
        records += _state_records(situation, broker, state)
    records += _directory_records(situation, broker, request)
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=state.is_fenced,
        should_shut_down=state is BrokerControlState.SHUTDOWN_NOW,
    )
    return HeartbeatDecision(decision=Decision(records=tuple(records), response=response, is_atomic=False), state=state)


def _state_records(
    situation: Situation, broker: BrokerRegistration, state: BrokerControlState
) -> Iterator[VersionedRecord]:
    match state:
        case BrokerControlState.UNFENCED:
            yield from unfence_records(situation, broker)
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            yield from controlled_shutdown_records(situation, broker)
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            if not broker.fenced:
                yield from fence_records(situation, broker)


def fence_records(situation: Situation, broker: BrokerRegistration) -> Iterator[VersionedRecord]:
    """B-C24: out of every ISR (the last member stays), new leaders or none, then the fence itself."""
    yield from _out_of_every_isr(situation, broker.broker_id)
    change = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE)
    yield VersionedRecord(change, 0)


def unfence_records(situation: Situation, broker: BrokerRegistration) -> Iterator[VersionedRecord]:
    """B-C25: the unfence, then the broker leads what nobody leads and it may."""
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=UNFENCE
    )
    yield VersionedRecord(change, 0)
    yield from leader_and_isr_updates(situation, situation.index.without_leader(), add=broker.broker_id)


def controlled_shutdown_records(situation: Situation, broker: BrokerRegistration) -> Iterator[VersionedRecord]:
    """S1-57, KIP-841: no new replicas or leaderships come to it, and it leaves every ISR that has another member."""
    if not broker.in_controlled_shutdown:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
        )
        yield VersionedRecord(change, 1)
    yield from _out_of_every_isr(situation, broker.broker_id)


def _out_of_every_isr(situation: Situation, broker_id: int) -> Iterator[VersionedRecord]:
    places = situation.index.partitions_with(broker_id)
    return leader_and_isr_updates(situation, places, remove=broker_id)


def _directory_records(
    situation: Situation, broker: BrokerRegistration, request: BrokerHeartbeatRequest
) -> Iterator[VersionedRecord]:
    """B-K08: directories that went offline lose their replicas' ISR places; cordoned ones are noted (KIP-1066)."""
    if not has_directory_assignment(situation.metadata_version):
        return
    lost = [each for each in broker.log_dirs if each in request.offline_log_dirs]
    if lost:
        yield from leader_and_isr_updates(
            situation, _in_directories(situation, broker.broker_id, lost), remove=broker.broker_id
        )
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            log_dirs=tuple(each for each in broker.log_dirs if each not in lost),
        )
        yield VersionedRecord(change, 2)
    cordoned = request.cordoned_log_dirs
    is_told = has_cordoned_log_dirs(situation.metadata_version) and cordoned is not None
    if is_told and tuple(sorted(cordoned or ())) != broker.cordoned_log_dirs:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, cordoned_log_dirs=cordoned
        )
        yield VersionedRecord(change, 3)


def _in_directories(situation: Situation, broker_id: int, directories: list[Uuid]) -> Iterator[TopicIdPartition]:
    for place in situation.index.partitions_with(broker_id):
        partition = situation.image.topics.by_id[place.topic_id].partitions[place.partition]
        if partition.directory_of(broker_id) in directories:
            yield place
