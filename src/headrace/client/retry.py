"""Retries: when trying again is worth it, and after how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from headrace.client.error_text import text_of
from headrace.client.session import Session
from headrace.client.talk import Address, Conversation, Lost, Pause
from headrace.core.error_code import ErrorCode
from headrace.core.errors import OperatorError, PeerError

K = TypeVar("K")
T = TypeVar("T")
JITTER = 0.2


def backoff_ms(attempt: int, *, first_ms: int, most_ms: int, chance: float) -> int:
    """Exponential from `first_ms` (attempt 0) to `most_ms`, spread by 20 % either way; `chance` is in [0, 1). Source: KIP-580."""
    base = min(first_ms * (1 << min(attempt, 20)), most_ms)
    return int(base * (1 - JITTER + 2 * JITTER * chance))


class Attempts:
    """Counts the tries of one call and ends it when its time is up.

    After a failure the conversation does `yield from attempts.again(why)`: that waits, or raises what the caller should see.
    """

    def __init__(self, session: Session, *, timeout_ms: int | None = None) -> None:
        self._session = session
        limit = session.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        self._deadline_ms = session.now_ms + limit
        self._limit_ms = limit
        self._is_default = timeout_ms is None
        self._attempt = 0
        self._began_ms = session.now_ms
        self._lost: dict[Address, str] = {}

    @property
    def count(self) -> int:
        """How many tries have failed."""
        return self._attempt

    @property
    def left_ms(self) -> int:
        """Time left for the whole call, never negative."""
        return max(self._deadline_ms - self._session.now_ms, 0)

    @property
    def request_ms(self) -> int:
        """How long the next request may take: `request.timeout.ms`, or all the time that the caller gave the call."""
        most = self._session.settings.request_timeout_ms if self._is_default else self.left_ms
        return max(min(self.left_ms, most), 1)

    def lost(self, address: Address, why: Lost) -> None:
        """The node at `address` did not answer. Raises OperatorError where waiting would only hide a wrong address: nobody is at any, or nobody was met for `first_contact_ms`."""
        cluster, settings = self._session.cluster, self._session.settings
        cluster.failed(address)
        self._lost[address] = why.reason
        is_known = cluster.nodes or cluster.is_met or settings.is_cluster_known
        if is_known or not self._lost.keys() >= set(cluster.bootstrap):
            return
        is_nobody_there = all(map(_is_hopeless, self._lost.values()))
        patience_ms = settings.first_contact_ms
        if is_nobody_there or (patience_ms is not None and self._session.now_ms - self._began_ms >= patience_ms):
            listener = "a controller" if settings.is_controller else "a broker"
            hint = "" if is_nobody_there else f", and that it speaks {settings.security_protocol} (security.protocol)"
            raise OperatorError(
                f"no node of the cluster can be reached ({self._reasons()}): check that {listener} listens there{hint}"
            )

    def again(self, why: PeerError | Lost) -> Conversation[None]:
        """Wait before the next try. Raises PeerError or OperatorError when no time is left."""
        settings = self._session.settings
        pause = backoff_ms(
            self._attempt,
            first_ms=settings.retry_backoff_ms,
            most_ms=settings.retry_backoff_max_ms,
            chance=self._session.rng.random(),
        )
        self._attempt += 1
        if self.left_ms <= pause:
            raise self.expired(why)
        yield Pause(ms=pause)

    def expired(self, why: PeerError | Lost) -> PeerError | OperatorError:
        """The error to show when time is up after `why`."""
        if isinstance(why, Lost):
            reasons = self._reasons() or why.reason
            return OperatorError(
                f"Timed out waiting for a node assignment after {self._limit_ms} ms: {reasons}; `headrace quorum explain` says whether the controllers decide anything"
            )
        return why

    def _reasons(self) -> str:
        return "; ".join(f"{address}: {reason}" for address, reason in self._lost.items())


def _is_hopeless(reason: str) -> bool:
    return "refused" in reason or "resolve" in reason or "log in" in reason


def error_of(code: int, message: str | None = None) -> PeerError | None:
    """The error a code in an answer stands for; None for code 0. A code nobody knows is UNKNOWN_SERVER_ERROR."""
    if code == 0:
        return None
    try:
        known = ErrorCode(code)
    except ValueError:
        return PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, message or f"error code {code}, which no version of Kafka has")
    return PeerError(known, message or text_of(known))


def only(rows: Sequence[T]) -> T:
    """The row of an answer about one thing. Raises PeerError where the node gave none or several (B29)."""
    if len(rows) != 1:
        raise PeerError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the node's answer tells of {len(rows)} where one was asked for"
        )
    return rows[0]


def of_each(asked: Iterable[K], rows: Mapping[K, T]) -> dict[K, T | PeerError]:
    """What an answer says of each that was asked for, and an error for what the node left out (B29)."""
    left_out = PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the node's answer leaves it out")
    return {each: rows.get(each, left_out) for each in asked}
