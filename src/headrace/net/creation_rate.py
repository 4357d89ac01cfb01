"""New connections in their turns: no more than so many begin in a second, and of those that wait one of each host in turn (`max.connection.creation.rate`, KIP-612).

A connection that waits is not read, so the loop does not say that its peer has gone. Who has gone is looked for here when its turn comes, and takes
nobody's: as many connections as a peer can open and leave in a second would keep everybody out for minutes. And whoever is new looks at a few of those that
wait, one after the other: where very many hosts wait the turn of one comes late, and those that it opened and left would hold a descriptor each until then.
"""

from __future__ import annotations

import fcntl
import select
import termios
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple, Protocol

UNLIMITED = 2_147_483_647
MOST_WHO_HAVE_GONE = 128
"""Of one host, with requests that nobody has read yet: as many as would wait in the socket's backlog. Of more the oldest are dropped."""
_LOOKED_AT_ONCE = 256
_LOOKED_AT_BY_EACH = 2
"""So those that have gone are never many more than those that are there, however many come in a second."""
_WAITS_AT_MOST_S = 1.0
"""A rate that was raised meanwhile counts by then."""
_A_SECOND = 1.0
_INT = Struct("i")


class Newcomer(Protocol):
    """A new connection; `headrace.net.server_connection.ServerConnection` is the real one."""

    host: str

    def peer_has_gone(self) -> PeerGone | None:
        """Whether its peer has left it; None where it is there."""

    def drop(self) -> None:
        """Close it without a word."""


class PeerGone(NamedTuple):
    """A peer that has left its connection."""

    has_said_something: bool


class Clock(Protocol):
    """The loop's time; `headrace.net.listener.Listener` has it."""

    def now(self) -> float:
        """Seconds."""

    def later(self, wait_s: float, callback: Callable[[], None]) -> None:
        """Call back after a while."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """`most` a second may begin, as its listener says at that moment; then it may `go_on`."""

    newcomer: Newcomer
    most: Callable[[], int]
    go_on: Callable[[], None]


class CreationRate:
    """Who may begin when. A second's worth may begin at once; a rate of 0 counts as 1."""

    def __init__(self) -> None:
        self._next_s = 0.0
        self._waiting: OrderedDict[str, OrderedDict[_Waiting, None]] = OrderedDict()
        """By host; the first one's turn is next."""
        self._to_look_at: OrderedDict[_Waiting, None] = OrderedDict()
        """All of them: who was looked at longest ago is first."""
        self._is_timed = False

    def enter(self, newcomer: Newcomer, clock: Clock, most: Callable[[], int], go_on: Callable[[], None]) -> bool:
        """Whether it may begin now; else `go_on` is called when it may. Call it once a connection."""
        rate = most()
        if rate >= UNLIMITED or (not self._waiting and self._begins(clock.now(), rate)):
            return True
        for _ in range(_LOOKED_AT_BY_EACH):
            self._look_at_next()
        waiting = _Waiting(newcomer, most, go_on)
        self._waiting.setdefault(newcomer.host, OrderedDict())[waiting] = None
        self._to_look_at[waiting] = None
        self._come_back(clock, rate)
        return False

    def _look_at_next(self) -> None:
        """Drop one that has gone, or look at it again when all others were."""
        if self._to_look_at:
            waiting = next(iter(self._to_look_at))
            if self._is_to_be_dropped(waiting):
                self._leave(waiting)
                waiting.newcomer.drop()
            else:
                self._to_look_at.move_to_end(waiting)

    def _is_to_be_dropped(self, waiting: _Waiting) -> bool:
        gone = waiting.newcomer.peer_has_gone()
        if gone is None:
            return False
        return not gone.has_said_something or len(self._waiting[waiting.newcomer.host]) > MOST_WHO_HAVE_GONE

    def _leave(self, waiting: _Waiting) -> None:
        """It waits no more."""
        del self._to_look_at[waiting]
        host = waiting.newcomer.host
        del self._waiting[host][waiting]
        if not self._waiting[host]:
            del self._waiting[host]

    def _begins(self, now_s: float, most: int) -> bool:
        """Count one more, if it may begin now."""
        if most >= UNLIMITED:
            return True
        next_s = max(self._next_s, now_s) + 1 / max(most, 1)
        if next_s > now_s + _A_SECOND:
            return False
        self._next_s = next_s
        return True

    def _let_in(self, clock: Clock) -> None:
        """Those whose turn has come."""
        self._is_timed = False
        now_s = clock.now()
        for _ in range(_LOOKED_AT_ONCE):
            if not self._waiting:
                return
            host, of_host = next(iter(self._waiting.items()))
            first = next(iter(of_host))
            is_dropped = self._is_to_be_dropped(first)
            if not is_dropped and not self._begins(now_s, first.most()):
                self._come_back(clock, first.most())
                return
            self._leave(first)
            if is_dropped:
                first.newcomer.drop()  # it had no turn, so its host's is not over
                continue
            if host in self._waiting:
                self._waiting.move_to_end(host)
            first.go_on()
        self._come_back(clock, UNLIMITED)

    def _come_back(self, clock: Clock, most: int) -> None:
        """Look again when one more may begin."""
        if self._is_timed:
            return
        self._is_timed = True
        wait_s = self._next_s + 1 / max(most, 1) - clock.now() - _A_SECOND
        clock.later(min(max(wait_s, 0.0), _WAITS_AT_MOST_S), lambda: self._let_in(clock))


def left_by_peers(descriptors: Iterable[int]) -> set[int]:
    """Which of many sockets that nobody reads their peers have left, by one system call."""
    poller = select.poll()
    for each in descriptors:
        poller.register(each, getattr(select, "POLLRDHUP", 0))
    return {each for each, _ in poller.poll(0)}


def peer_of(descriptor: int) -> PeerGone | None:
    """Whether the peer of a socket that nobody reads has left it."""
    if descriptor < 0 or not left_by_peers([descriptor]):
        return None
    try:
        (unread,) = _INT.unpack(fcntl.ioctl(descriptor, termios.FIONREAD, bytes(_INT.size)))
    except OSError:
        unread = 0
    return PeerGone(unread > 0)
