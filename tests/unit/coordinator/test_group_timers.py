"""Deadlines that are put off far more often than they ring."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.runtime.timers import Timers


def test_a_deadline_that_is_put_off_rings_once() -> None:
    """GL1: at its last time."""
    timers: Timers[str] = Timers()
    timers.schedule("k", 10, "early")
    timers.schedule("k", 30, "late")
    assert (timers.next_deadline_ms(), timers.pop_due(29), timers.pop_due(30)) == (30, None, "late")
    assert (timers.pop_due(99), timers.next_deadline_ms(), len(timers)) == (None, None, 0)


def test_putting_off_does_not_pile_up_entries() -> None:
    """M5: a member's heartbeats leave one entry."""
    timers: Timers[int] = Timers()
    for now in range(10_000):
        timers.schedule("k", now + 10, now)
    assert len(timers._heap) == 1


def test_what_is_cancelled_does_not_pile_up_until_it_would_be_due() -> None:
    """M5: member ids that nobody comes back with, each with a session of half an hour."""
    timers: Timers[int] = Timers()
    timers.schedule("stays", 1_800_000, -1)
    for number in range(10_000):
        timers.schedule(number, 1_800_000, number)
        timers.cancel(number)
    assert len(timers._heap) <= 1_003
    assert timers.pop_due(1_800_000) == -1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("set"), st.integers(0, 3), st.integers(0, 20)),
            st.tuples(st.just("cancel"), st.integers(0, 3), st.just(0)),
            st.tuples(st.just("pop"), st.just(0), st.integers(0, 20)),
        )
    )
)
def test_timers_do_what_a_plain_table_does(steps: list[tuple[str, int, int]]) -> None:
    """GL1: the twin looks at every deadline each time."""
    timers: Timers[int] = Timers(spare=0)
    plain: dict[int, int] = {}
    for kind, key, number in steps:
        if kind == "set":
            timers.schedule(key, number, key)
            plain[key] = number
        elif kind == "cancel":
            timers.cancel(key)
            plain.pop(key, None)
        else:
            due = timers.pop_due(number)
            earliest = min(plain.values(), default=None)
            if earliest is None or earliest > number:
                assert due is None
            else:
                assert due is not None
                assert plain.pop(due) == earliest
        assert timers.next_deadline_ms() == min(plain.values(), default=None)
