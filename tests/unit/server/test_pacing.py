"""How does long work in a thread leave the interpreter to the event loop?"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from headrace.server.pacing import LONGEST_REST_S, RESTS, Pace


class _Time:
    """Time that passes when work is done or somebody rests."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rests: list[float] = []
        self.pace = Pace(clock=lambda: self.now, wait=self._rest)

    def _rest(self, seconds: float) -> bool:
        self.rests.append(seconds)
        self.now += seconds
        return False

    def work(self, *seconds: float) -> Iterator[int]:
        for number, each in enumerate(seconds):
            self.now += each
            yield number


def test_it_rests_longer_than_it_worked_for_each_item() -> None:
    """inv:M6: what the items cost, not what whoever takes them does in between."""
    time = _Time()
    taken = []
    for item in time.pace(time.work(0.010, 0.004, 0.020)):
        taken.append(item)
        time.now += 5.0
    assert taken == [0, 1, 2]
    assert [round(rest, 9) for rest in time.rests] == [round(RESTS * each, 9) for each in (0.010, 0.004, 0.020)]


def test_no_rest_is_long() -> None:
    """A thread that stood still for a minute goes on at once."""
    time = _Time()
    assert list(time.pace(time.work(60.0))) == [0]
    assert time.rests == [LONGEST_REST_S]


def test_nothing_is_paced_into_nothing() -> None:
    """No item, no rest."""
    time = _Time()
    assert list(time.pace(time.work())) == []
    assert time.rests == []


def test_who_is_in_a_hurry_waits_for_no_rest() -> None:
    """B-K04: a node that stops does not wait for a thread's rests: this clock has each item take a day, and each rest with it."""
    days = iter(range(0, 10_000_000, 86_400))
    pace = Pace(clock=lambda: float(next(days)))
    pace.hurry()
    taken: list[int] = []
    thread = threading.Thread(target=lambda: taken.extend(pace(range(3))), daemon=True)
    thread.start()
    thread.join(60)
    assert taken == [0, 1, 2]
