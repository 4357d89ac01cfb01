"""Are brokers fenced, unfenced and let go at the right moments?  C14 C15 C16"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import BrokerUnreachable, RequestArrived, TimeAdvanced
from headrace.metadata.image import NO_LEADER
from headrace.sim.checkers.deciding import Decided, Judge, Reign
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.unregister_broker_record import UnregisterBrokerRecord

if TYPE_CHECKING:
    from headrace.controller.events import Answer

STALL_MS: Final = 1_000
"""A gap between two events of a controller that is longer may be its own stand-still: heartbeats wait unread, so it forgives the gap."""
CHECK_MS: Final = 1_000
"""How late a fence may come after a session ran out: one check, and the steps until it is taken."""


@dataclass(slots=True, eq=False)
class _Heard:
    """What one active controller heard of the brokers, by its own clock."""

    last_ms: int
    began_ms: int
    contact: dict[int, int] = field(default_factory=dict)
    excused: dict[int, int] = field(default_factory=dict)
    """How long this controller itself stood still since then, at most."""
    offsets: dict[int, int] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    registering: set[int] = field(default_factory=set)
    """Who registered and may still stand in the ISRs of its former incarnation."""
    may_be_fenced: set[int] = field(default_factory=set)
    """Who asked to be fenced or to stop, registered anew, or is known to be gone: the fence may come some slices later (B-C22)."""
    ran_out: dict[int, int] = field(default_factory=dict)
    """Whose session had run out when time was told -> until when the fence that was decided then may come, slice by slice (B-C22)."""


class Sessions(Judge):
    """Time, and what brokers said."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._heard: dict[int, _Heard] = {}

    def gained(self, reign: Reign) -> None:
        """Sessions begin anew with each controller."""
        now_ms = self._now_ms(reign.life.node_id)
        heard = _Heard(last_ms=now_ms, began_ms=now_ms)
        for broker_id in reign.image.cluster.brokers:
            heard.contact[broker_id] = now_ms
        self._heard[reign.life.node_id] = heard

    def decided(self, decided: Decided) -> None:
        """One event of the controller."""
        heard = self._heard.get(decided.life.node_id)
        if heard is None:
            return
        event = decided.event
        now_ms = self._now_ms(decided.life.node_id)
        gap = now_ms - heard.last_ms
        if gap > STALL_MS:
            for broker_id in heard.contact:
                heard.excused[broker_id] = heard.excused.get(broker_id, 0) + gap
            for broker_id in heard.ran_out:
                heard.ran_out[broker_id] += gap
        heard.last_ms = max(heard.last_ms, now_ms)
        if isinstance(event, RequestArrived):
            self._request(decided, heard, event)
        elif isinstance(event, BrokerUnreachable):
            heard.may_be_fenced.add(event.broker_id)
        elif isinstance(event, TimeAdvanced):
            self._ran_out(decided, heard)
        if decided.records:
            self._fences(decided, heard)
            self._moves(decided, heard)
        self._overdue(decided, heard, now_ms)

    # C14

    def _ran_out(self, decided: Decided, heard: _Heard) -> None:
        """A heartbeat that comes while such a broker is being moved away is too late to stop the fence."""
        timeout = self._timeout_ms()
        for broker_id, broker in decided.before.cluster.brokers.items():
            if not broker.fenced and heard.last_ms - heard.contact.get(broker_id, -timeout) >= timeout:
                heard.ran_out[broker_id] = heard.last_ms + CHECK_MS

    def _fences(self, decided: Decided, heard: _Heard) -> None:
        timeout = self._timeout_ms()
        for broker_id, broker in decided.after.cluster.brokers.items():
            old = decided.before.cluster.brokers.get(broker_id)
            if old is None or old.fenced or not broker.fenced:
                continue
            excused_until = heard.ran_out.pop(broker_id, -1)
            if broker_id in heard.may_be_fenced:
                heard.may_be_fenced.discard(broker_id)
                continue
            silent = heard.last_ms - heard.contact.get(broker_id, -timeout)
            if silent < timeout and heard.last_ms > excused_until:
                raise self.group.broken(
                    "C14", f"broker {broker_id} was fenced after {silent} ms, its session is {timeout} ms", decided.life
                )
            self.group.hit("broker fenced by time")
            if heard.contact.get(broker_id) == heard.began_ms:
                self.group.hit("broker fenced after controller failover")

    def _overdue(self, decided: Decided, heard: _Heard, now_ms: int) -> None:
        if not isinstance(decided.event, TimeAdvanced | RequestArrived):
            return
        bound = self._timeout_ms() + CHECK_MS
        for broker_id, at in heard.contact.items():
            if now_ms - at - heard.excused.get(broker_id, 0) <= bound:
                continue
            broker = decided.after.cluster.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                raise self.group.broken(
                    "C14", f"broker {broker_id} was silent for {now_ms - at} ms and is not fenced", decided.life
                )

    def _now_ms(self, node_id: int) -> int:
        """The node's monotonic clock, read here: what the machine was told may be another one (K24)."""
        cluster = self.group.scene.cluster
        assert cluster is not None
        return cluster.local_ms(node_id)

    def _timeout_ms(self) -> int:
        cluster = self.group.scene.cluster
        assert cluster is not None
        return cluster.broker_session_timeout_ms

    # What brokers say

    def _request(self, decided: Decided, heard: _Heard, event: RequestArrived) -> None:
        request = event.request
        if isinstance(request, BrokerHeartbeatRequest):
            broker = decided.before.cluster.brokers.get(request.broker_id)
            if broker is not None and broker.broker_epoch == request.broker_epoch:
                heard.contact[request.broker_id] = heard.last_ms
                heard.excused.pop(request.broker_id, None)
                heard.offsets[request.broker_id] = request.current_metadata_offset
                if request.want_fence or request.want_shut_down:
                    heard.may_be_fenced.add(request.broker_id)
                self._unfenced(decided, request)
        elif isinstance(request, BrokerRegistrationRequest) and not _is_refused(decided):
            heard.may_be_fenced.add(request.broker_id)
            heard.contact[request.broker_id] = heard.last_ms
            heard.excused.pop(request.broker_id, None)
            heard.offsets.pop(request.broker_id, None)
            heard.moved.pop(request.broker_id, None)
            heard.registering.add(request.broker_id)

    def _left_isr(self, decided: Decided, heard: _Heard, record: PartitionChangeRecord) -> None:
        """A broker that registered anew is taken out of an ISR, perhaps some slices later (C10)."""
        old = decided.before.topics.partition_by_id(record.topic_id, record.partition_id)
        if old is None or record.isr is None:
            return
        for broker_id in sorted(heard.registering & (set(old.isr) - set(record.isr))):
            heard.registering.discard(broker_id)
            self.group.hit("unclean registration left an isr")

    # C16

    def _unfenced(self, decided: Decided, request: BrokerHeartbeatRequest) -> None:
        before = decided.before.cluster.brokers[request.broker_id]
        after = decided.after.cluster.brokers.get(request.broker_id)
        if after is None or not before.fenced or after.fenced:
            return
        self.group.hit("broker unfenced")
        if request.current_metadata_offset < before.broker_epoch:
            raise self.group.broken(
                "C16",
                f"broker {request.broker_id} was unfenced at {request.current_metadata_offset}, "
                f"its registration is at {before.broker_epoch}",
                decided.life,
            )

    # C15

    def _moves(self, decided: Decided, heard: _Heard) -> None:
        for offset, record in enumerate(decided.records, decided.base_offset):
            if isinstance(record, PartitionChangeRecord):
                self._left_isr(decided, heard, record)
                old = decided.before.topics.partition_by_id(record.topic_id, record.partition_id)
                new = decided.after.topics.partition_by_id(record.topic_id, record.partition_id)
                if old is not None and new is not None and old.leader not in (NO_LEADER, new.leader):
                    heard.moved[old.leader] = offset
            elif isinstance(record, UnregisterBrokerRecord):
                heard.contact.pop(record.broker_id, None)

    def answered(self, reign: Reign, request: Any, answer: Answer, now_ms: int) -> None:
        """A broker may stop when it leads nothing and all other live brokers know who leads now."""
        response = answer.response
        if not isinstance(response, BrokerHeartbeatResponse) or not response.should_shut_down:
            return
        heard = self._heard[reign.life.node_id]
        image = reign.image
        broker = image.cluster.brokers.get(request.broker_id)
        if broker is None or broker.fenced:
            return
        for topic in image.topics.by_id.values():
            for number, partition in topic.partitions.items():
                if partition.leader == request.broker_id:
                    raise self.group.broken(
                        "C15", f"broker {request.broker_id} may stop and leads {topic.name}-{number}", reign.life
                    )
        moved = heard.moved.get(request.broker_id, -1)
        for broker_id, other in image.cluster.brokers.items():
            if broker_id != request.broker_id and other.is_active and heard.offsets.get(broker_id, moved) < moved:
                raise self.group.broken(
                    "C15",
                    f"broker {request.broker_id} may stop, broker {broker_id} has read up to {heard.offsets[broker_id]} of {moved}",
                    reign.life,
                )


def _is_refused(decided: Decided) -> bool:
    """The answer was given at once, and nothing was decided."""
    return bool(decided.answers) and not decided.records
