"""The partitions that this broker may still serve when it has not heard from those who could take them away (S0-15, S4-57; decision 19).

Contact with the controller needs two things, each not longer ago than `broker.heartbeat.timeout.ms`: a heartbeat that was answered, and a
metadata fetch whose answer this node holds all of. Both count from when they were asked, as a lease does: an answer that lay in a
socket while the process stood still is as old as its request.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.broker.partitions import HostedPartition

LOOK_MS: Final = 500
"""How often partitions are looked at while there is no contact."""


class SelfFencingMode(Enum):
    """`headrace.self.fencing`."""

    ISOLATED = "isolated"
    ALWAYS = "always"
    OFF = "off"


class SelfFencing:
    """Marks the partitions that are led here and must not be served. Driven by `node.machine`; pure, all times in ms of one clock.

        watching -- no contact for the timeout --> alone (partitions are marked) -- contact --> watching (none is)
        watching -- woke, no contact for a session --> alone

    `timeout_ms` 0 switches it off, as the mode does. `moved` is told each partition whose mark changed, in `tick` only.
    """

    def __init__(
        self,
        *,
        mode: SelfFencingMode,
        timeout_ms: int,
        session_ms: int,
        partitions: Iterable[HostedPartition],
        moved: Callable[[HostedPartition], None],
    ) -> None:
        self._mode = mode if timeout_ms > 0 else SelfFencingMode.OFF
        self._timeout_ms = self._limit_ms = timeout_ms
        self._session_ms = session_ms
        self._partitions = partitions
        self._moved = moved
        self._heartbeat_ms: int | None = None
        self._fetch_ms = 0
        self._look_at_ms = 0
        self._changed: list[HostedPartition] = []
        self.is_alone = False
        """SelfFenced: there was no contact with the controller for the timeout."""

    @property
    def is_closed(self) -> bool:
        """No client is served at all (`always`)."""
        return self.is_alone and self._mode is SelfFencingMode.ALWAYS

    def begin(self, now_ms: int) -> None:
        """The broker begins to serve, with metadata that the controller called caught up."""
        self._heartbeat_ms = self._fetch_ms = now_ms

    def heartbeat_answered(self, asked_ms: int) -> None:
        """The active controller took a heartbeat that was sent at `asked_ms`."""
        if self._heartbeat_ms is not None:
            self._heartbeat_ms = max(self._heartbeat_ms, asked_ms)

    def metadata_fetched(self, asked_ms: int) -> None:
        """This node has everything that was committed at some moment from `asked_ms` on."""
        self._fetch_ms = max(self._fetch_ms, asked_ms)

    def woke(self, now_ms: int) -> None:
        """The process stood still. Its broker may have been fenced after one session, and others lead: until it has contact again no longer time is waited for."""
        self._limit_ms = min(self._session_ms, self._timeout_ms)
        self.look(now_ms)

    def look(self, now_ms: int) -> None:
        """Mark what must not be served from now on, and take marks away. Changes marks only, so that it may interrupt anything."""
        heartbeat_ms = self._heartbeat_ms
        if heartbeat_ms is None or self._mode is SelfFencingMode.OFF:
            return
        was_alone = self.is_alone
        self.is_alone = now_ms - min(heartbeat_ms, self._fetch_ms) >= self._limit_ms
        if not self.is_alone:
            self._limit_ms = self._timeout_ms
        if not self.is_alone and not was_alone:
            return
        self._look_at_ms = now_ms + LOOK_MS
        for hosted in self._partitions:
            is_withheld = self.is_alone and self._must_rest(hosted, now_ms)
            if is_withheld is not hosted.is_withheld:
                hosted.is_withheld = is_withheld
                self._changed.append(hosted)

    def _must_rest(self, hosted: HostedPartition, now_ms: int) -> bool:
        """Somebody else may lead it by now. Who is the only member of the ISR knows that nobody can."""
        if self._mode is SelfFencingMode.ALWAYS:
            return True
        leader = hosted.leader
        heard_ms = None if leader is None else leader.peer_heard_ms
        return heard_ms is not None and now_ms - heard_ms >= self._limit_ms

    def tick(self, now_ms: int) -> None:
        """Look when it is due; who waits for a partition whose mark changed hears of it."""
        due = self.next_deadline_ms()
        if due is not None and now_ms >= due:
            self.look(now_ms)
        changed, self._changed = self._changed, []
        for hosted in changed:
            self._moved(hosted)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        if self._heartbeat_ms is None or self._mode is SelfFencingMode.OFF:
            return None
        ends_ms = min(self._heartbeat_ms, self._fetch_ms) + self._timeout_ms
        return ends_ms if not self.is_alone else self._look_at_ms
