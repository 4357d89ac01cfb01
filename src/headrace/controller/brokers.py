"""Registration and unregistration of brokers and controllers.

Source: KIP-631, KIP-841, KIP-858, KIP-919, KIP-966; S1-28, S1-29, S1-42..S1-50, B-C19, B-C31, B-U03; C10. Decisions change nothing in the image; a session begins
with a registration that stands.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from immutables import Map

from headrace.controller.broker_states import end_of_fencing
from headrace.controller.decision import Decision, Moves, check_record
from headrace.controller.decommission import decide_decommission
from headrace.controller.eligibility import NOBODY
from headrace.controller.elr import is_elr_on
from headrace.controller.heartbeats import Heartbeats
from headrace.controller.isr_index import in_elr
from headrace.controller.partitions import leader_and_isr_updates
from headrace.core.error_code import ErrorCode
from headrace.core.errors import PeerError
from headrace.core.ids import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, TopicIdPartition, is_reserved_uuid
from headrace.metadata.image import (
    METADATA_VERSION,
    BrokerRegistration,
    ControllerRegistration,
    EndPoint,
    FeatureRange,
)
from headrace.metadata.snapshot import VersionedRecord, register_broker_record, register_controller_record
from headrace.metadata.versions import KRAFT_VERSION, has_controller_registration, has_directory_assignment
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from headrace.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from headrace.controller.decision import Situation
    from headrace.core.ids import Uuid
    from headrace.wire.schema import Message


# Registration

MOST_REGISTRATION_BYTES: Final = 8_192
"""Of one record: twenty listeners, a hundred directories and a long rack take half of it. Every client is told hosts and racks with its metadata."""

MOST_REGISTRATIONS: Final = 4_096
"""Of brokers, and of controllers: several times what the largest known clusters have. A registration stays until somebody removes it."""


def decide_registration(situation: Situation, request: BrokerRegistrationRequest, heartbeats: Heartbeats) -> Decision:
    """Let a broker in, or raise PeerError: why not (S1-28, S1-29, S1-47, S1-48, S1-50)."""
    _check_identity(situation, request, heartbeats)
    if has_directory_assignment(situation.metadata_version):
        _check_directories(situation, request)
    _check_listeners(request)
    features = _checked_features(situation, request)
    existing = situation.image.cluster.brokers.get(request.broker_id)
    is_same = existing is not None and existing.incarnation_id == request.incarnation_id
    is_fenced = existing.fenced if existing is not None and is_same else True
    registration = BrokerRegistration(
        broker_id=request.broker_id,
        broker_epoch=existing.broker_epoch if existing is not None and is_same else situation.next_offset,
        incarnation_id=request.incarnation_id,
        end_points=tuple(EndPoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        features=Map(features),
        rack=request.rack,
        fenced=is_fenced,
        in_controlled_shutdown=existing.in_controlled_shutdown if existing is not None and is_same else False,
        log_dirs=_directories(situation, request, existing if is_same else None),
    )
    response = BrokerRegistrationResponse(broker_epoch=registration.broker_epoch)
    draft = register_broker_record(registration, situation.metadata_version)
    check_record(situation, draft)
    _check_size(draft, situation.image.cluster.brokers, request.broker_id)
    heartbeats.register(request.broker_id, is_fenced=is_fenced, now_ms=situation.now_ms, is_same=is_same)
    if is_same or (existing is None and not _may_lead(situation, request.broker_id)):
        return Decision(records=(draft,), response=response)

    def register(later: Situation) -> tuple[list[VersionedRecord], Message]:
        """A registration's epoch is the offset of its record (C8). The session of one that came to nothing is over, and so is the former incarnation."""
        error = _overtaken(situation, later, request)
        if error is not ErrorCode.NONE:
            if request.broker_id not in later.image.cluster.brokers:
                heartbeats.remove(request.broker_id)
            records = [] if existing is None else end_of_fencing(existing, later)[0]
            return records, BrokerRegistrationResponse(error_code=error)
        heartbeats.register(request.broker_id, is_fenced=True, now_ms=later.now_ms)
        final = replace(registration, broker_epoch=later.next_offset)
        record = register_broker_record(final, later.metadata_version)
        return [record], BrokerRegistrationResponse(broker_epoch=final.broker_epoch)

    moves = _out_of_sync(situation, request, existing, registration.log_dirs, register)
    if (
        existing is not None
        and len(registration.log_dirs) == 1
        and not set(existing.log_dirs) <= set(registration.log_dirs)
    ):
        moves = _to_the_only_directory(situation, moves, registration.log_dirs[0])
    return Decision(response=response, moves=(moves,))


def _overtaken(before: Situation, later: Situation, request: BrokerRegistrationRequest) -> ErrorCode:
    """Why a registration whose moves took a while does not stand any more; NONE if it does.

    A broker asks again when features were changed: it may not support them (C24), and its replicas have other rules with them (C10). What one
    process of two has by now, an id that nobody had or a directory, the other one does not get (C8).
    """
    if later.image.features.levels != before.image.features.levels or later.kraft_version != before.kraft_version:
        return ErrorCode.REQUEST_TIMED_OUT
    brokers, broker_id = later.image.cluster.brokers, request.broker_id
    if broker_id in brokers and broker_id not in before.image.cluster.brokers:
        return ErrorCode.DUPLICATE_BROKER_REGISTRATION
    if has_directory_assignment(later.metadata_version):
        try:
            _check_directories(later, request)
        except PeerError as refusal:
            return refusal.code
    return ErrorCode.NONE


def _directories(
    situation: Situation, request: BrokerRegistrationRequest, same: BrokerRegistration | None
) -> tuple[Uuid, ...]:
    """KIP-858: a process names all its directories whenever it registers; those that went offline are back only with another process (C25, CL2)."""
    if not has_directory_assignment(situation.metadata_version):
        return ()
    online = [each for each in request.log_dirs if same is None or not same.log_dirs or each in same.log_dirs]
    return tuple(sorted(online or request.log_dirs))


def _may_lead(situation: Situation, broker_id: int) -> bool:
    """A broker that is not registered may be in an ELR all the same: it was unregistered."""
    index = situation.index
    return bool(index.topics_with(broker_id) or index.topics_with(in_elr(broker_id)))


def _out_of_sync(
    situation: Situation,
    request: BrokerRegistrationRequest,
    existing: BrokerRegistration | None,
    log_dirs: tuple[Uuid, ...],
    register: Callable[[Situation], tuple[list[VersionedRecord], Message]],
) -> Moves:
    """The former incarnation leaves every ISR, and the ELR too unless this one has the proof that it stopped cleanly: its epoch (KIP-966, C10).

    That proves what is in `log_dirs`.
    """
    broker_id, index = request.broker_id, situation.index
    moves = Moves(
        places=index.partitions_with(broker_id),
        remove=NOBODY if existing is None else broker_id,
        broker_epoch=-1 if existing is None else existing.broker_epoch,
        last=register,
    )
    is_clean = existing is not None and request.previous_broker_epoch == existing.broker_epoch
    if not (is_elr_on(situation.image.features) or index.topics_with(in_elr(broker_id))):
        return moves
    unclean = partial(leader_and_isr_updates, remove=broker_id, is_unclean=True)
    return replace(
        moves,
        places=chain(moves.places, index.partitions_with(in_elr(broker_id))),
        change=partial(_after_clean_stop, broker_id, log_dirs) if is_clean else unclean,
    )


def _after_clean_stop(
    broker_id: int, log_dirs: tuple[Uuid, ...], later: Situation, places: Iterable[TopicIdPartition]
) -> Iterator[VersionedRecord]:
    """Out of the ISR and, with a directory that the broker does not have any more, out of the ELR: its replica there begins anew, empty (KIP-858, C10)."""
    partition_of = later.image.topics.partition_by_id
    known = [(place, partition) for place in places if (partition := partition_of(*place)) is not None]
    is_lost = {place: _is_elsewhere(partition.directory_of(broker_id), log_dirs) for place, partition in known}
    yield from leader_and_isr_updates(
        later, [place for place, _ in known if is_lost[place]], remove=broker_id, is_unclean=True
    )
    staying = [place for place, partition in known if not is_lost[place] and broker_id in partition.isr]
    yield from leader_and_isr_updates(later, staying, remove=broker_id)


def _is_elsewhere(directory: Uuid, log_dirs: tuple[Uuid, ...]) -> bool:
    """A directory that is known, and is none of these; without KIP-858 none is."""
    return bool(log_dirs) and directory not in (*log_dirs, UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY)


def _to_the_only_directory(situation: Situation, moves: Moves, home: Uuid) -> Moves:
    """KIP-858: a broker whose disk was replaced has its replicas nowhere else, so that they may lead again. Cost: all partitions."""
    broker_id = moves.remove
    places = (
        TopicIdPartition(topic.id, number)
        for topic in sorted(situation.image.topics.by_id.values(), key=lambda each: each.id)
        for number in sorted(topic.partitions)
        if broker_id in topic.partitions[number].replicas
    )
    return replace(
        moves, places=places, change=partial(leader_and_isr_updates, remove=broker_id, is_unclean=True, home=home)
    )


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
    if request.broker_id in situation.leaving or request.broker_id in situation.retiring:
        message = "The former incarnation of this broker is just being fenced."
        raise PeerError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, message)
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
    """Named and reachable, which Kafka's controllers do not check (S0-32)."""
    if not request.listeners:
        raise PeerError(ErrorCode.INVALID_REQUEST, "No listener is registered")
    names = [each.name for each in request.listeners]
    if len(set(names)) != len(names):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A listener name is registered twice")
    if any(each.port == 0 or not each.host for each in request.listeners):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A listener is registered without its host or port")


def _check_size(record: VersionedRecord, registered: Mapping[int, object], node_id: int) -> None:
    """What nodes say of themselves is bounded, which Kafka's controllers do not check. Raises PeerError(INVALID_REGISTRATION, POLICY_VIOLATION)."""
    size = len(record.encode())
    if size > MOST_REGISTRATION_BYTES:
        message = f"The registration takes {size} bytes, more than {MOST_REGISTRATION_BYTES}: shorten its hosts, listener names or rack"
        raise PeerError(ErrorCode.INVALID_REGISTRATION, message)
    if node_id not in registered and len(registered) >= MOST_REGISTRATIONS:
        message = f"{len(registered)} nodes of this kind are registered: unregister those that are gone"
        raise PeerError(ErrorCode.POLICY_VIOLATION, message)


def _checked_features(situation: Situation, request: BrokerRegistrationRequest) -> dict[str, FeatureRange]:
    """Every finalized level, that of the quorum too, must lie in the broker's range; a feature it does not name it has at 0 only (S1-48, KIP-853)."""
    features = {f.name: FeatureRange(f.min_supported_version, f.max_supported_version) for f in request.features}
    if METADATA_VERSION not in features:
        raise PeerError(ErrorCode.INVALID_REGISTRATION, "Request features do not contain 'metadata.version'")
    levels = {**situation.image.features.levels, KRAFT_VERSION: situation.kraft_version}
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
    record = register_controller_record(controller)
    _check_size(record, situation.image.cluster.controllers, request.controller_id)
    return Decision(records=(record,), response=ControllerRegistrationResponse(error_message=None))


# Leaving for good


def decide_unregistration(situation: Situation, request: UnregisterBrokerRequest, heartbeats: Heartbeats) -> Decision:
    """Remove a registration (KIP-631): out of every ISR first, and where that is asked for out of all assignments (S1-66).

    Raises PeerError: BROKER_ID_NOT_REGISTERED (S1-69), or REQUEST_TIMED_OUT while it is just being fenced.
    """
    broker = situation.image.cluster.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        raise PeerError(ErrorCode.BROKER_ID_NOT_REGISTERED, message)
    if request.broker_id in situation.leaving or request.broker_id in situation.retiring:
        raise PeerError(ErrorCode.REQUEST_TIMED_OUT, "The broker is just being fenced; try again.")
    if request.remove_from_assignments:
        return decide_decommission(situation, broker, heartbeats, is_forced=request.force)

    def unregister(_later: Situation) -> tuple[list[VersionedRecord], None]:
        record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch)
        return [VersionedRecord(record, 0)], None

    moves = Moves(
        places=situation.index.partitions_with(broker.broker_id),
        remove=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        last=unregister,
        on_end=lambda _offset: heartbeats.remove(broker.broker_id),
    )
    return Decision(response=UnregisterBrokerResponse(error_message=""), moves=(moves,))
