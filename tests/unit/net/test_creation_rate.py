"""Do new connections begin in their turns, and does nobody keep others out of theirs?"""

from __future__ import annotations

from collections.abc import Callable

from headrace.net.creation_rate import MOST_WHO_HAVE_GONE, UNLIMITED, CreationRate, PeerGone

GONE = PeerGone(has_said_something=False)
GONE_WITH_WORDS = PeerGone(has_said_something=True)


class Clock:
    """Time that a test moves; what waits for it is called then."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        """The test's."""
        return self.now_s

    def later(self, wait_s: float, callback: Callable[[], None]) -> None:
        """When the test comes to it."""
        self._timers.append((self.now_s + wait_s, callback))

    def until(self, at_s: float) -> None:
        """Go on to `at_s`, with all that is due by then."""
        while due := [each for each in self._timers if each[0] <= at_s]:
            first = min(due, key=lambda each: each[0])
            self._timers.remove(first)
            self.now_s = max(self.now_s, first[0])
            first[1]()
        self.now_s = at_s


class Guest:
    """A new connection."""

    def __init__(self, name: str, host: str = "10.0.0.1") -> None:
        self.name = name
        self.host = host
        self.gone: PeerGone | None = None
        self.is_dropped = False

    def peer_has_gone(self) -> PeerGone | None:
        """What the test says."""
        return self.gone

    def drop(self) -> None:
        """Remember."""
        self.is_dropped = True


class Door:
    """A rate, and who came in, when."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.clock = Clock()
        self.came: list[tuple[str, float]] = []
        self._rate = CreationRate()

    def enter(self, *guests: Guest) -> None:
        """They come at one moment."""
        for guest in guests:
            if self._rate.enter(guest, self.clock, lambda: self.most, lambda guest=guest: self._in(guest)):  # type: ignore[misc]
                self._in(guest)

    def _in(self, guest: Guest) -> None:
        self.came.append((guest.name, round(self.clock.now_s - 100, 3)))


def test_connections_beyond_the_rate_wait_their_turn() -> None:
    """S95, KIP-612: a second's worth at once, then one every 1/rate seconds."""
    door = Door(4)
    door.enter(*(Guest(str(each)) for each in range(7)))
    door.clock.until(110.0)
    assert door.came == [("0", 0), ("1", 0), ("2", 0), ("3", 0), ("4", 0.25), ("5", 0.5), ("6", 0.75)]
    door.enter(Guest("later"))
    assert door.came[-1] == ("later", 10.0)
    unlimited = Door(UNLIMITED)
    unlimited.enter(*(Guest(str(each)) for each in range(1_000)))
    assert len(unlimited.came) == 1_000


def test_those_who_have_gone_take_nobodys_turn() -> None:
    """KIP-612: ten thousand that were opened and left kept everybody out for as long as if each were served."""
    door = Door(10)
    flood = [Guest("flood") for _ in range(10_000)]
    door.enter(*flood)
    for each in flood[10:]:
        each.gone = GONE
    polite = Guest("polite")
    door.enter(polite)
    door.clock.until(102.0)
    assert door.came[10:] == [("polite", 0.1)]
    assert all(each.is_dropped for each in flood[10:])
    assert not polite.is_dropped


def test_of_those_who_said_something_and_have_gone_few_are_kept() -> None:
    """Requests that want no answer are handled though the client has ended, as many as wait in a backlog."""
    door = Door(100)
    door.enter(*(Guest("first") for _ in range(100)))
    flood = [Guest("flood") for _ in range(1_000)]
    for each in flood:
        each.gone = GONE_WITH_WORDS
    door.enter(*flood)
    door.clock.until(110.0)
    assert sum(each.is_dropped for each in flood) == 1_000 - MOST_WHO_HAVE_GONE
    assert len(door.came) == 100 + MOST_WHO_HAVE_GONE


def test_hosts_take_turns() -> None:
    """A host that opens very many waits for itself."""
    door = Door(10)
    door.enter(*(Guest("many", "10.0.0.1") for _ in range(1_000)))
    door.enter(Guest("few", "10.0.0.2"), Guest("few", "10.0.0.2"), Guest("one", "10.0.0.3"))
    door.clock.until(101.0)
    assert [name for name, _ in door.came[10:16]] == ["many", "few", "one", "many", "few", "many"]


def test_who_has_gone_does_not_end_the_turn_of_its_host() -> None:
    """Beside a host that opens many, one that opens and leaves was let go of at no more than the rate: a descriptor for each."""
    door = Door(10)
    door.enter(*(Guest("busy", "10.0.0.1") for _ in range(1_000)))
    flood = [Guest("flood", "10.0.0.2") for _ in range(5_000)]
    door.enter(*flood)
    for each in flood:
        each.gone = GONE
    polite = Guest("polite", "10.0.0.2")
    door.enter(polite)
    door.clock.until(101.0)
    assert all(each.is_dropped for each in flood)
    assert not polite.is_dropped


def test_who_is_new_looks_at_some_of_those_that_wait() -> None:
    """Where very many hosts wait, the turn of one comes once in minutes: until then all that it opened and left would wait."""
    door = Door(1)
    busy = [Guest("busy", f"10.1.{each // 250}.{each % 250}") for each in range(1_000)]
    door.enter(*busy)
    flood = [Guest("flood", "10.0.0.2") for _ in range(10_000)]
    for each in flood:
        door.enter(each)
        each.gone = GONE
    assert sum(not each.is_dropped for each in flood) <= len(busy)
    assert not any(each.is_dropped for each in busy)


def test_a_rate_that_is_raised_counts_for_those_who_wait() -> None:
    """Within a second, however long they would have waited."""
    door = Door(1)
    door.enter(*(Guest(str(each)) for each in range(500)))
    door.most = UNLIMITED
    door.clock.until(101.0)
    assert len(door.came) == 500
