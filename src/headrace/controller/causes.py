"""The cause of each decision, from the event that leads to it (metadata.cause).

A request has one by its class; where a heartbeat leads to several things, each has its own. What nobody asked for is named where it is
decided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import RequestCause
from headrace.metadata.cause import Cause, CauseKind, encode_cause, encode_with_cause, short
from headrace.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from headrace.wire.messages.alter_partition import AlterPartitionRequest
from headrace.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.messages.controller_registration import ControllerRegistrationRequest
from headrace.wire.messages.elect_leaders import ElectLeadersRequest
from headrace.wire.messages.unregister_broker import UnregisterBrokerRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.metadata.snapshot import VersionedRecord

_OF_BROKERS: Final[dict[type, CauseKind]] = {
    AllocateProducerIdsRequest: CauseKind.PRODUCER_IDS,
    AlterPartitionRequest: CauseKind.ISR_CHANGE,
    AssignReplicasToDirsRequest: CauseKind.DIRECTORIES_ASSIGNED,
    BrokerHeartbeatRequest: CauseKind.UNFENCED,
    BrokerRegistrationRequest: CauseKind.REGISTERED,
}

NOBODY_ASKED: Final = RequestCause(api_version=0)
"""Who asks for what time brings."""

ACTIVATION: Final = Cause(kind=CauseKind.ACTIVATION)
BALANCING: Final = Cause(kind=CauseKind.BALANCING)
UNCLEAN_TIMER: Final = Cause(kind=CauseKind.UNCLEAN_TIMER)


def about_broker(kind: CauseKind, broker_id: int) -> Cause:
    """What a broker did, or what happened to it."""
    return Cause(kind=kind, broker_id=broker_id)


def cause_of_request(request: Any, asker: RequestCause) -> Cause:
    """What the records of a request come from, unless the decision says more."""
    kind = _OF_BROKERS.get(type(request))
    if kind is not None:
        return about_broker(kind, request.broker_id)
    if isinstance(request, ControllerRegistrationRequest):
        return about_broker(CauseKind.CONTROLLER_REGISTERED, request.controller_id)
    return Cause(
        kind=CauseKind.REQUEST,
        api_key=request.SCHEMA.api_key,
        broker_id=request.broker_id if isinstance(request, UnregisterBrokerRequest) else -1,
        principal=short(asker.principal),
        client_id=None if asker.client_id is None else short(asker.client_id),
        client_host=short(asker.client_host),
        correlation_id=asker.correlation_id,
        through=asker.through,
        listener=short(asker.listener),
        election=request.election_type if isinstance(request, ElectLeadersRequest) else -1,
    )


def caused(records: Sequence[VersionedRecord], cause: Cause | None) -> Sequence[VersionedRecord]:
    """The records of one decision with its cause on the first, unless that has one of its own."""
    if not records or cause is None or records[0].cause is not None:
        return records
    return (records[0]._replace(cause=cause), *records[1:])


def caused_by_request(
    records: Sequence[VersionedRecord], request: Any, asker: RequestCause
) -> Sequence[VersionedRecord]:
    """The records with the request as their cause."""
    return caused(records, cause_of_request(request, asker)) if records else records


def marks_of(records: Sequence[VersionedRecord]) -> list[int]:
    """Where a cause begins."""
    return [number for number, each in enumerate(records) if each.cause is not None]


def room_for(records: Sequence[VersionedRecord], marks: Sequence[int]) -> int:
    """The bytes of the longest of the causes."""
    return max((len(encode_cause(cause)) + 8 for mark in marks if (cause := records[mark].cause)), default=0)


def with_causes(
    parts: Sequence[tuple[bytes, ...]], records: Sequence[VersionedRecord], marks: Sequence[int], *, limit: int
) -> list[tuple[bytes, ...]]:
    """The encoded records, `parts` being batches of them, with the causes that begin at `marks`: each batch says its own, so that it stands alone.

    A record that fills a batch of `limit` bytes on its own goes without what the client says of itself.
    """
    found: list[tuple[bytes, ...]] = []
    running: Cause | None = None
    start, mark = 0, 0
    for part in parts:
        new = list(part)
        end = start + len(part)
        if running is not None and (mark == len(marks) or marks[mark] > start):
            new[0] = _fitting(records[start], running, limit)
        told = running
        while mark < len(marks) and marks[mark] < end:
            at = marks[mark]
            running = records[at].cause
            if running is not None and (running != told or at == start):
                new[at - start] = _fitting(records[at], running, limit)
            told = running
            mark += 1
        found.append(tuple(new))
        start = end
    return found


def _fitting(each: VersionedRecord, cause: Cause, limit: int) -> bytes:
    data = encode_with_cause(each.record, each.version, encode_cause(cause))
    if len(data) <= limit:
        return data
    return encode_with_cause(
        each.record,
        each.version,
        encode_cause(Cause(kind=cause.kind, api_key=cause.api_key, broker_id=cause.broker_id)),
    )
