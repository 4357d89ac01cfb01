"""Heartbeats and sessions of brokers: the state that a broker gets, and whose session has run out.

Soft state: it is not in the image, and a new active controller begins with fresh sessions (C14).
The table of B-K05, with what `wants` and facts lead where:

    FENCED               wants to stop -> SHUTDOWN_NOW;  wants to serve and is caught up -> UNFENCED;  else FENCED
    UNFENCED             wants fence and to stop -> SHUTDOWN_NOW;  wants fence -> FENCED;
                         wants to stop -> CONTROLLED_SHUTDOWN while it leads, else SHUTDOWN_NOW;  else UNFENCED
    CONTROLLED_SHUTDOWN  leads nothing and every active broker has seen the last move (S2-20) -> SHUTDOWN_NOW;  else stays
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from headrace.core.values import value_class


class BrokerControlState(Enum):
    """The controller's view of a broker."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"

    @property
    def is_fenced(self) -> bool:
        """The broker may not lead and is in no ISR."""
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


@value_class
class Wants:
    """What the broker asks for, and how far it is."""

    fence: bool
    shut_down: bool
    is_caught_up: bool


def next_control_state(
    current: BrokerControlState, wants: Wants, *, has_leaderships: bool, others_have_caught_up: bool
) -> BrokerControlState:
    """The state after a heartbeat (B-K05)."""
    state = BrokerControlState
    match current:
        case state.FENCED:
            if wants.shut_down:
                return state.SHUTDOWN_NOW
            return state.UNFENCED if not wants.fence and wants.is_caught_up else state.FENCED
        case state.UNFENCED:
            if wants.fence:
                return state.SHUTDOWN_NOW if wants.shut_down else state.FENCED
            if wants.shut_down:
                return state.CONTROLLED_SHUTDOWN if has_leaderships else state.SHUTDOWN_NOW
            return state.UNFENCED
        case state.CONTROLLED_SHUTDOWN:
            is_done = not has_leaderships and others_have_caught_up
            return state.SHUTDOWN_NOW if is_done else state.CONTROLLED_SHUTDOWN
        case _:
            return state.SHUTDOWN_NOW


@dataclass(slots=True)
class _Session:
    last_contact_ms: int
    is_fenced: bool
    is_heard: bool
    metadata_offset: int = -1
    controlled_shutdown_offset: int = -1


class Heartbeats:
    """The sessions of the registered brokers. Times in monotonic ms.

    The unfenced ones are kept in the order of their last contact, so that the next one to run out is the first.
    """

    def __init__(self, *, session_timeout_ms: int) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[int, _Session] = {}
        self._unfenced: dict[int, _Session] = {}

    def register(self, broker_id: int, *, is_fenced: bool, now_ms: int, is_same: bool = False) -> None:
        """A broker registered, or a controller became active and knows of it: its session begins. `is_same`: it is the process that had it before."""
        before = self._sessions.get(broker_id) if is_same else None
        session = _Session(last_contact_ms=now_ms, is_fenced=is_fenced, is_heard=not is_fenced)
        if before is not None:
            session.is_heard |= before.is_heard
            session.metadata_offset = before.metadata_offset
            session.controlled_shutdown_offset = -1 if is_fenced else before.controlled_shutdown_offset
        self._sessions[broker_id] = session
        self._sort_in(broker_id)

    def remove(self, broker_id: int) -> None:
        """The broker is registered no more."""
        self._sessions.pop(broker_id, None)
        self._unfenced.pop(broker_id, None)

    def touch(self, broker_id: int, *, metadata_offset: int, now_ms: int) -> None:
        """The broker was heard from; what it is does not change by that."""
        session = self._sessions[broker_id]
        session.last_contact_ms = now_ms
        session.is_heard = True
        session.metadata_offset = metadata_offset
        self._sort_in(broker_id)

    def agree(self, broker_id: int, *, is_fenced: bool) -> None:
        """The session is as the image says that the broker is. A fenced one leaves controlled shutdown."""
        if is_fenced:
            self.fenced(broker_id)
        elif self._sessions[broker_id].is_fenced:
            self._sessions[broker_id].is_fenced = False
            self._sort_in(broker_id)

    def fenced(self, broker_id: int) -> None:
        """The controller fenced the broker."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.is_fenced = True
            session.controlled_shutdown_offset = -1
            self._unfenced.pop(broker_id, None)

    def ended(self, broker_id: int) -> None:
        """The process was told to end, or is known to be gone: another one may have its id at once, unless this one is heard from again."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.is_heard = False

    def _sort_in(self, broker_id: int) -> None:
        """The broker was heard from last of all."""
        self._unfenced.pop(broker_id, None)
        session = self._sessions[broker_id]
        if not session.is_fenced:
            self._unfenced[broker_id] = session

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """The broker's leaderships were moved by records up to `offset`; only the first time counts. Not for one that is fenced meanwhile."""
        session = self._unfenced.get(broker_id)
        if session is not None and session.controlled_shutdown_offset < 0:
            session.controlled_shutdown_offset = offset

    def forgive(self, stalled_ms: int) -> None:
        """The controller itself stood still so long: heartbeats may wait unread, so the time does not count (C14)."""
        for session in self._sessions.values():
            session.last_contact_ms += stalled_ms

    def state(self, broker_id: int) -> BrokerControlState:
        """The state of a broker that has a session."""
        session = self._sessions[broker_id]
        if session.is_fenced:
            return BrokerControlState.FENCED
        if session.controlled_shutdown_offset >= 0:
            return BrokerControlState.CONTROLLED_SHUTDOWN
        return BrokerControlState.UNFENCED

    def lowest_active_offset(self) -> int | None:
        """What every active broker has read at least; None when none is active (S2-18)."""
        active = [each.metadata_offset for each in self._unfenced.values() if each.controlled_shutdown_offset < 0]
        return min(active, default=None)

    def others_have_caught_up(self, broker_id: int) -> bool:
        """Every active broker has read past the records that moved this broker's leaderships (S2-20)."""
        lowest = self.lowest_active_offset()
        return lowest is None or self._sessions[broker_id].controlled_shutdown_offset <= lowest

    def has_valid_session(self, broker_id: int, now_ms: int) -> bool:
        """Whether its process is taken to live: heard from within the session timeout, fenced or not, and not known to have ended (S1-29).

        Of a fenced one that sent no heartbeat yet, or none to this controller, nobody knows that; Kafka lets another have its id, too.
        """
        session = self._sessions.get(broker_id)
        return session is not None and session.is_heard and now_ms <= self._deadline(session)

    def metadata_offset(self, broker_id: int) -> int:
        """What the broker has read at least; -1 before its first heartbeat."""
        session = self._sessions.get(broker_id)
        return -1 if session is None else session.metadata_offset

    def awaited_by(self, broker_id: int) -> list[int]:
        """The active brokers that have not read yet that this one's leaderships were moved (S2-20)."""
        session = self._sessions.get(broker_id)
        if session is None or session.controlled_shutdown_offset < 0:
            return []
        return sorted(
            other
            for other, each in self._unfenced.items()
            if each.controlled_shutdown_offset < 0 and each.metadata_offset < session.controlled_shutdown_offset
        )

    def silences_ms(self, now_ms: int) -> dict[int, int]:
        """How long ago each registered broker was heard from, by id."""
        return {broker_id: max(0, now_ms - each.last_contact_ms) for broker_id, each in self._sessions.items()}

    def next_expiry_ms(self) -> int | None:
        """When the oldest session runs out; None when no broker is unfenced."""
        for session in self._unfenced.values():
            return self._deadline(session) + 1
        return None

    def expired(self, now_ms: int) -> list[int]:
        """The brokers whose session has run out, the longest silent first."""
        late = []
        for broker_id, session in self._unfenced.items():
            if now_ms <= self._deadline(session):
                break
            late.append((session.last_contact_ms, broker_id))
        return [broker_id for _, broker_id in sorted(late)]

    def _deadline(self, session: _Session) -> int:
        return session.last_contact_ms + self._session_timeout_ms
