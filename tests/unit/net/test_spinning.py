"""Does the loop stay awake only while requests follow each other closely?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.net.spinning import SPIN_S, STREAK, Spinner


@dataclass
class FakeLoop:
    """A clock that is set by hand, and the callbacks that are due."""

    now: float = 100.0
    due: list[Callable[[], None]] = field(default_factory=list)

    def turn(self) -> None:
        """Run what is due."""
        callbacks, self.due = self.due, []
        for callback in callbacks:
            callback()


def spinner_of(loop: FakeLoop) -> Spinner:
    """A spinner on the fake loop."""
    spinner = Spinner(lambda: loop.now)
    spinner.attach(lambda callback: loop.due.append(callback))
    return spinner


def serve(loop: FakeLoop, spinner: Spinner, count: int, gap_s: float) -> None:
    """So many requests, so far apart."""
    for _ in range(count):
        loop.now += gap_s
        spinner.served()


def test_requests_far_apart_let_the_loop_sleep() -> None:
    """A thousand requests a second, or fewer, never keep it awake."""
    loop = FakeLoop()
    serve(loop, spinner_of(loop), 10 * STREAK, 0.001)
    assert loop.due == []


def test_a_few_close_requests_are_no_streak() -> None:
    """A burst shorter than the streak changes nothing."""
    loop = FakeLoop()
    serve(loop, spinner_of(loop), STREAK, SPIN_S / 2)
    assert loop.due == []


def test_a_streak_keeps_the_loop_awake_and_its_end_lets_it_sleep() -> None:
    """One callback at a time is due while requests come, and none soon after the last."""
    loop = FakeLoop()
    spinner = spinner_of(loop)
    serve(loop, spinner, 2 * STREAK, SPIN_S / 2)
    assert len(loop.due) == 1
    loop.now += SPIN_S / 2
    loop.turn()
    assert len(loop.due) == 1
    loop.now += SPIN_S
    loop.turn()
    assert loop.due == []


def test_a_pause_ends_a_streak() -> None:
    """After a pause the loop wants a whole streak again."""
    loop = FakeLoop()
    spinner = spinner_of(loop)
    serve(loop, spinner, 2 * STREAK, SPIN_S / 2)
    loop.now += 1
    loop.turn()
    serve(loop, spinner, STREAK, SPIN_S / 2)
    assert loop.due == []
