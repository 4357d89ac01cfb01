"""Does the loop stay awake only while requests follow each other closely?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from headrace.net.busy_poll import CHECK_S, POLL_S, REST_S, SHARED_S, STREAK, BusyPoller, waited_s


@dataclass
class FakeLoop:
    """A clock that is set by hand, and the callbacks that are due."""

    now: float = 100.0
    waited_s: float = 0.0
    due: list[Callable[[], None]] = field(default_factory=list)

    def turn(self) -> None:
        """Run what is due."""
        callbacks, self.due = self.due, []
        for callback in callbacks:
            callback()


def poller_of(loop: FakeLoop, mode: str = "on", *, cores: int = 2) -> BusyPoller:
    """A poller on the fake loop."""
    poller = BusyPoller(mode, clock=lambda: loop.now, waited_s=lambda: loop.waited_s, cores=cores)
    poller.attach(lambda callback: loop.due.append(callback))
    return poller


def serve(loop: FakeLoop, poller: BusyPoller, count: int, gap_s: float) -> None:
    """So many requests, so far apart."""
    for _ in range(count):
        loop.now += gap_s
        poller.served()


def test_requests_far_apart_let_the_loop_sleep() -> None:
    """A thousand requests a second, or fewer, never keep it awake."""
    loop = FakeLoop()
    serve(loop, poller_of(loop), 10 * STREAK, 0.001)
    assert loop.due == []


def test_a_few_close_requests_are_no_streak() -> None:
    """A burst shorter than the streak changes nothing."""
    loop = FakeLoop()
    serve(loop, poller_of(loop), STREAK, POLL_S / 2)
    assert loop.due == []


def test_a_streak_keeps_the_loop_awake_and_its_end_lets_it_sleep() -> None:
    """One callback at a time is due while requests come, and none soon after the last."""
    loop = FakeLoop()
    poller = poller_of(loop)
    serve(loop, poller, 2 * STREAK, POLL_S / 2)
    assert len(loop.due) == 1
    loop.now += POLL_S / 2
    loop.turn()
    assert len(loop.due) == 1
    loop.now += POLL_S
    loop.turn()
    assert loop.due == []


def test_a_pause_ends_a_streak() -> None:
    """After a pause the loop wants a whole streak again."""
    loop = FakeLoop()
    poller = poller_of(loop)
    serve(loop, poller, 2 * STREAK, POLL_S / 2)
    loop.now += 1
    loop.turn()
    serve(loop, poller, STREAK, POLL_S / 2)
    assert loop.due == []


@pytest.mark.parametrize(
    ("mode", "cores", "is_awake"), [("off", 8, False), ("auto", 1, False), ("auto", 2, True), ("on", 1, True)]
)
def test_the_setting_says_whether_the_loop_stays_awake(mode: str, cores: int, is_awake: bool) -> None:
    """`headrace.network.busy.poll`: auto leaves a single core to whoever works."""
    loop = FakeLoop()
    serve(loop, poller_of(loop, mode, cores=cores), 2 * STREAK, POLL_S / 2)
    assert bool(loop.due) == is_awake


def test_a_loop_whose_core_others_want_sleeps_for_a_while() -> None:
    """auto: more loops than cores on a machine wait for each other all the time; then it tries again, and an undisturbed one goes on."""
    loop = FakeLoop()
    poller = poller_of(loop, "auto")
    serve(loop, poller, 2 * STREAK, POLL_S / 2)
    slept_at: list[float] = []
    began = loop.now
    while loop.now < began + 4 * REST_S:
        is_disturbed = loop.now < began + 2 * REST_S
        serve(loop, poller, 1, POLL_S / 2)
        loop.waited_s += POLL_S / 4 if is_disturbed else POLL_S / 40
        loop.turn()
        if not loop.due:
            slept_at.append(loop.now - began)
    assert slept_at
    assert min(slept_at) >= CHECK_S / 2
    assert max(slept_at) <= 2 * REST_S + REST_S + 2 * CHECK_S
    assert loop.due
    assert loop.waited_s > SHARED_S


def test_the_time_that_this_thread_waited_only_grows() -> None:
    """Where the system says it; elsewhere it is nothing, and polling goes on."""
    before = waited_s()
    assert 0.0 <= before <= waited_s()
