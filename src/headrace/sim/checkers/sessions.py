"""Brokers that are registered, fenced, unfenced and let go at the right moments.  C8 C14 C15 C16"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.controller.events import BrokerUnreachable, RequestArrived, TimeAdvanced
from headrace.metadata.image import NO_LEADER
from headrace.sim.checkers.controller_steps import Decided, Judge, Reign
from headrace.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from headrace.wire.messages.broker_registration import BrokerRegistrationRequest
from headrace.wire.metadata_records.partition_change_record import PartitionChangeRecord
from headrace.wire.metadata_records.register_broker_record import RegisterBrokerRecord
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
    stopping: dict[int, int] = field(default_factory=dict)
    """Who asked to stop -> the offset of the last record that took a leadership from it since then, -1 = none."""
    against: dict[int, str] = field(default_factory=dict)
    """Token of a heartbeat that asks to stop -> what spoke against that when it was decided, "" = nothing."""
    alive: set[int] = field(default_factory=set)
    """Who sent a heartbeat, did not ask to stop with it, and is not known to be gone."""
    registering: set[int] = field(default_factory=set)
    """Who registered and may still stand in the ISRs of its former incarnation."""
    may_be_fenced: set[int] = field(default_factory=set)
    """Unfenced, and asked to be fenced or to stop, registered anew, or is known to be gone: the fence may come some slices later (B-C22)."""
    ran_out: dict[int, int] = field(default_factory=dict)
    """Whose session had run out when time was told -> until when the fence that was decided then may come, slice by slice (B-C22)."""

    def is_going(self, broker_id: int) -> bool:
        """It may be on its way to be fenced, though the image does not say so yet."""
        return broker_id in self.may_be_fenced or self.ran_out.get(broker_id, -1) >= self.last_ms


class Sessions(Judge):
    """Time, and what brokers said."""

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._heard: dict[int, _Heard] = {}

    def gained(self, reign: Reign) -> None:
        """Sessions begin anew with each controller. What was moved from a broker that stops is somewhere in what it finds."""
        now_ms = self._now_ms(reign.life.node_id)
        heard = _Heard(last_ms=now_ms, began_ms=now_ms)
        for broker_id, broker in reign.image.cluster.brokers.items():
            heard.contact[broker_id] = now_ms
            if broker.in_controlled_shutdown and not broker.fenced:
                heard.stopping[broker_id] = reign.image.provenance.last_contained_offset
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
            self._gone(decided, heard, event)
        elif isinstance(event, TimeAdvanced):
            self._ran_out(decided, heard)
        if decided.records:
            self._fences(decided, heard)
            self._moves(decided, heard)
        self._overdue(decided, heard, now_ms)
        decided.reign.going = frozenset(filter(heard.is_going, (*heard.may_be_fenced, *heard.ran_out)))

    def _gone(self, decided: Decided, heard: _Heard, event: BrokerUnreachable) -> None:
        broker = decided.before.cluster.brokers.get(event.broker_id)
        if broker is not None and broker.broker_epoch == event.broker_epoch:
            heard.alive.discard(event.broker_id)
            if not broker.fenced:
                heard.may_be_fenced.add(event.broker_id)

    # fenced in time, and not before (C14)

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
                (heard.alive.discard if request.want_shut_down else heard.alive.add)(request.broker_id)
                heard.excused.pop(request.broker_id, None)
                heard.offsets[request.broker_id] = request.current_metadata_offset
                if not broker.fenced and (request.want_fence or request.want_shut_down):
                    heard.may_be_fenced.add(request.broker_id)
                if not broker.fenced and request.want_shut_down:
                    heard.stopping.setdefault(request.broker_id, -1)
                    heard.against[event.token] = self._against(decided, heard, request)
                self._unfenced(decided, heard, request)
        elif isinstance(request, BrokerRegistrationRequest) and not _is_refused(decided):
            self._registered(decided, heard, event)

    # who may register, and what becomes of its partitions (C8, C10)

    def _registered(self, decided: Decided, heard: _Heard, event: RequestArrived) -> None:
        """Another incarnation is taken only when the one before it is known to be gone; a process knows that of its own node."""
        request = event.request
        broker_id, timeout = request.broker_id, self._timeout_ms()
        old = decided.before.cluster.brokers.get(broker_id)
        is_other = old is not None and old.incarnation_id != request.incarnation_id
        if old is not None and (not old.fenced or broker_id in heard.alive):
            silent = heard.last_ms - heard.contact.get(broker_id, -timeout)
            is_own = not event.cause.listener and broker_id == decided.life.node_id
            if is_other and silent < timeout and not is_own:
                raise self.group.broken(
                    "C8",
                    f"broker {broker_id} was registered anew, its other incarnation was heard of {silent} ms ago",
                    decided.life,
                )
            if not old.fenced:
                heard.may_be_fenced.add(broker_id)
        if old is None or is_other:  # nothing was heard of this process; the one before may have been unregistered
            heard.alive.discard(broker_id)
        heard.contact[broker_id] = heard.last_ms
        heard.excused.pop(broker_id, None)
        heard.offsets.pop(broker_id, None)
        heard.stopping.pop(broker_id, None)
        heard.registering.add(broker_id)

    def _left_isr(self, decided: Decided, heard: _Heard, record: PartitionChangeRecord) -> None:
        """A broker that registered anew is taken out of an ISR, perhaps some slices later (C10)."""
        old = decided.before.topics.partition_by_id(record.topic_id, record.partition_id)
        if old is None or record.isr is None:
            return
        for broker_id in sorted(heard.registering & (set(old.isr) - set(record.isr))):
            heard.registering.discard(broker_id)
            self.group.hit("unclean registration left an isr")

    # who comes has read that it is there (C16)

    def _unfenced(self, decided: Decided, heard: _Heard, request: BrokerHeartbeatRequest) -> None:
        before = decided.before.cluster.brokers[request.broker_id]
        after = decided.after.cluster.brokers.get(request.broker_id)
        if after is None or not before.fenced or after.fenced:
            return
        heard.may_be_fenced.discard(request.broker_id)
        self.group.hit("broker unfenced")
        if request.current_metadata_offset < before.broker_epoch:
            raise self.group.broken(
                "C16",
                f"broker {request.broker_id} was unfenced at {request.current_metadata_offset}, "
                f"its registration is at {before.broker_epoch}",
                decided.life,
            )

    # who goes leads nothing (C15)

    def _moves(self, decided: Decided, heard: _Heard) -> None:
        for offset, record in enumerate(decided.records, decided.base_offset):
            if isinstance(record, PartitionChangeRecord):
                self._left_isr(decided, heard, record)
                old = decided.before.topics.partition_by_id(record.topic_id, record.partition_id)
                new = decided.after.topics.partition_by_id(record.topic_id, record.partition_id)
                is_moved = old is not None and new is not None and old.leader not in (NO_LEADER, new.leader)
                if old is not None and is_moved and old.leader in heard.stopping:
                    heard.stopping[old.leader] = offset
            elif isinstance(record, RegisterBrokerRecord):
                heard.may_be_fenced.discard(record.broker_id)
            elif isinstance(record, UnregisterBrokerRecord):
                heard.contact.pop(record.broker_id, None)

    def _against(self, decided: Decided, heard: _Heard, request: BrokerHeartbeatRequest) -> str:
        """Why an unfenced broker may not stop now: it leads, or another live one has not read who took over; "" when it may.

        Judged before the decision, because that takes everything from the broker and fences it in one go.
        """
        image, broker_id = decided.before, request.broker_id
        if not request.want_fence:
            for topic in image.topics.by_id.values():
                for number, partition in topic.partitions.items():
                    if partition.leader == broker_id:
                        return f"it leads {topic.name}-{number}"
        moved = heard.stopping[broker_id]
        for other_id, other in image.cluster.brokers.items():
            read = heard.offsets.get(other_id, -1)
            if other_id != broker_id and other.is_active and not heard.is_going(other_id) and read < moved:
                return f"broker {other_id} has read up to {read} of {moved}"
        return ""

    def answered(self, reign: Reign, request: Any, answer: Answer, now_ms: int) -> None:
        """A broker may stop when it leads nothing and all other live brokers know who leads now; one that is fenced at any time."""
        against = self._heard[reign.life.node_id].against.pop(answer.token, None)
        response = answer.response
        if against is None or not isinstance(response, BrokerHeartbeatResponse) or not response.should_shut_down:
            return
        self.group.hit("broker let go")
        if against:
            raise self.group.broken("C15", f"broker {request.broker_id} may stop, but {against}", reign.life)


def _is_refused(decided: Decided) -> bool:
    """The answer was given at once, and nothing was decided."""
    return bool(decided.answers) and not decided.records
