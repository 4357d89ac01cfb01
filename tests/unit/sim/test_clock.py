"""Virtual time, and each node's own idea of it."""

from __future__ import annotations

import pytest

from headrace.sim.clock import WALL_START_MS, NodeClock, Schedule


def test_things_happen_in_time_and_then_in_the_order_they_were_put_there() -> None:
    """fault:S43: many timers at one instant have one order."""
    schedule = Schedule()
    seen: list[str] = []
    for at_us, name in ((30, "c"), (10, "a"), (30, "d"), (20, "b")):
        schedule.at(at_us, lambda what, _: seen.append(f"{what}{schedule.now_us}"), name)
    while schedule.run_before(100):
        pass
    assert seen == ["a10", "b20", "c30", "d30"]
    assert schedule.now_us == 100


def test_what_is_due_in_the_past_happens_now() -> None:
    """Time never goes back."""
    schedule = Schedule()
    schedule.run_before(50)
    schedule.at(10, lambda _one, _two: None)
    assert schedule.run_before(60)
    assert schedule.now_us == 50


@pytest.mark.parametrize("rate_ppm", [500_000, 900_000, 1_000_000, 1_100_000, 2_000_000])
def test_a_drifting_clock_says_when_the_world_reaches_its_time(rate_ppm: int) -> None:
    """fault:S42: a timer fires when the node's own clock shows it, not sooner."""
    schedule = Schedule()
    clock = NodeClock(schedule)
    schedule.run_before(1_000_000)
    clock.set_rate(rate_ppm)
    assert clock.now_ms() == 1_000
    due_us = clock.world_us(1_777)
    schedule.run_before(due_us - 1)
    assert clock.now_ms() < 1_777
    schedule.run_before(due_us)
    assert clock.now_ms() == 1_777


def test_the_wall_clock_jumps_and_the_monotonic_one_does_not() -> None:
    """fault:S40."""
    schedule = Schedule()
    clock = NodeClock(schedule)
    schedule.run_before(2_000_000)
    clock.jump_wall(-3_600_000)
    assert clock.now_ms() == 2_000
    assert clock.wall_ms() == WALL_START_MS + 2_000 - 3_600_000
    assert clock.latest_wall_ms() == WALL_START_MS + 2_000
