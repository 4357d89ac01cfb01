"""The causes that the metadata log tells of its records.  C27

Every batch of a decision says its cause, so that it stands alone, and the cause is what happened: to the broker that a record is about, by the event that
the controller heard, to who has the partition that gets another leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import BrokerUnreachable, LeadershipGained, RequestArrived
from headrace.metadata.cause import CauseKind, decode_caused
from headrace.metadata.image import NO_LEADER
from headrace.sim.checkers.controller_steps import Decided, Judge
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from headrace.wire.metadata_records.broker_registration_change_record import BrokerRegistrationChangeRecord
from headrace.wire.metadata_records.no_op_record import NoOpRecord
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.producer_ids_record import ProducerIdsRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
from headrace.wire.metadata_records.register_controller_record import RegisterControllerRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from headrace.metadata.cause import Cause

_TAG: Final = b"\x90\x4e"
"""Tag 10000 as records hold it: what is without these bytes has no cause."""
_UNCHANGED: Final = -2
_GONE: Final = frozenset({CauseKind.SESSION_EXPIRED, CauseKind.CONNECTION_REFUSED})
_STOPPED: Final = frozenset({CauseKind.OWN_WISH, CauseKind.SHUT_DOWN})
_FENCED: Final = _GONE | _STOPPED
_LEFT: Final = _FENCED | {CauseKind.CONTROLLED_SHUTDOWN, CauseKind.DIRECTORY_FAILED}
"""The broker that the cause names has a replica of what got another leader. It need not have led: others may be about to go at the same time."""
_OF_OWN: Final[dict[type, CauseKind]] = {
    RegisterBrokerRecord: CauseKind.REGISTERED,
    RegisterControllerRecord: CauseKind.CONTROLLER_REGISTERED,
    ProducerIdsRecord: CauseKind.PRODUCER_IDS,
    UnregisterBrokerRecord: CauseKind.REQUEST,
}
"""Records that have one kind of cause, which names whom they are about."""


class ToldCauses(Judge):
    """Each record has a cause, and it fits (C27)."""

    def decided(self, decided: Decided) -> None:
        """All records of the event, batch by batch."""
        at = 0
        leaders: dict[tuple[Any, int], int] = {}
        for batch in decided.batches:
            cause: Cause | None = None
            for data in batch:
                record = decided.records[at]
                at += 1
                if _TAG in data:
                    cause = decode_caused(data)[1] or cause
                if isinstance(record, NoOpRecord):
                    continue
                if cause is None:
                    self._break(decided, record, "no cause")
                else:
                    self._check(decided, record, cause)
                    if isinstance(record, PartitionChangeRecord) and record.leader != _UNCHANGED:
                        self._check_leader(decided, record, cause, leaders)

    def _check(self, decided: Decided, record: Any, cause: Cause) -> None:
        event, kind = decided.event, cause.kind
        if isinstance(event, LeadershipGained) and kind != CauseKind.ACTIVATION:
            self._break(decided, record, cause)
        if kind == CauseKind.REQUEST and isinstance(event, RequestArrived):
            self.group.hit("decision told with the request that led to it")
            if (cause.api_key, cause.correlation_id) != (event.request.SCHEMA.api_key, event.cause.correlation_id):
                self._break(decided, record, cause)
        own = _OF_OWN.get(type(record))
        if own is not None and (kind != own or cause.broker_id != _about(record)):
            self._break(decided, record, cause)
        if isinstance(record, BrokerRegistrationChangeRecord):
            self._check_broker(decided, record, cause)

    def _check_broker(self, decided: Decided, record: BrokerRegistrationChangeRecord, cause: Cause) -> None:
        """Fenced, unfenced, about to stop: each for a reason of its own, told of this broker."""
        wanted: set[int] = set()
        if record.fenced == 1:
            wanted |= {*map(int, _FENCED), int(CauseKind.REGISTERED)}  # another process replaces it, and must ask again
            if isinstance(decided.event, BrokerUnreachable):
                wanted = {int(CauseKind.CONNECTION_REFUSED)}
            elif isinstance(decided.event, RequestArrived) and isinstance(
                decided.event.request, BrokerHeartbeatRequest
            ):
                wanted = {*map(int, _STOPPED)}
        elif record.fenced == -1:
            wanted = {int(CauseKind.UNFENCED)}
        elif record.in_controlled_shutdown == 1:
            wanted = {int(CauseKind.CONTROLLED_SHUTDOWN)}
        if not wanted:
            return
        self.group.hit("broker's change told with its cause")
        if cause.kind not in wanted or cause.broker_id != record.broker_id:
            self._break(decided, record, cause)

    def _check_leader(
        self, decided: Decided, record: PartitionChangeRecord, cause: Cause, leaders: dict[tuple[Any, int], int]
    ) -> None:
        """It changes because a replica went, by who led it, or for who is first; `leaders`: since the event began."""
        place = (record.topic_id, record.partition_id)
        before = decided.before.topics.partition_by_id(*place)
        if before is None:
            return
        led = leaders.get(place, before.leader)
        leaders[place] = record.leader
        if led == record.leader:
            return
        is_told = True
        if cause.kind in _LEFT:
            is_told = cause.broker_id in before.replicas
        elif cause.kind == CauseKind.BALANCING:
            is_told = record.leader == before.replicas[0]
        elif cause.kind == CauseKind.UNCLEAN_TIMER:
            is_told = led == NO_LEADER
        elif cause.kind == CauseKind.ISR_CHANGE:
            is_told = led == cause.broker_id
        elif cause.kind == CauseKind.UNFENCED:
            is_told = led == NO_LEADER
        self.group.hit("leader's change told with its cause")
        if not is_told:
            self._break(decided, record, cause)

    def _break(self, decided: Decided, record: Any, told: Any) -> None:
        event = type(getattr(decided.event, "request", decided.event)).__name__
        raise self.group.broken("C27", f"{told} is told of {record}, which {event} led to", decided.life)


def _about(record: Any) -> int:
    if isinstance(record, RegisterControllerRecord):
        return record.controller_id
    return int(record.broker_id)
