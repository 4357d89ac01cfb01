"""Is the recent past told from all of it?"""

from __future__ import annotations

import math

from headrace.core.histogram import Histogram
from headrace.server.metrics.window import KEPT, SAMPLE_S, Window


def test_an_average_is_of_the_last_minute() -> None:
    """B-M01: -avg is NaN when nothing happened lately, as Kafka's is."""
    times, window, now = Histogram(), Window(0.0), 0.0
    assert math.isnan(window.average("x", times))
    times.add(10)
    times.add(30)
    assert window.average("x", times) == 20
    for _ in range(2):
        now += SAMPLE_S
        window.take(now, {"x": times}, {})
    times.add(100)
    assert window.average("x", times) == 100
    for _ in range(2):
        now += SAMPLE_S
        window.take(now, {"x": times}, {})
    assert math.isnan(window.average("x", times))
    assert not window.has_happened("x", times)


def test_a_rate_spreads_a_young_count_over_half_a_minute() -> None:
    """B-M01: append-records-rate, as Kafka computes it; later it is of the last 30 to 60 s."""
    window = Window(0.0)
    assert window.rate("x", 15, 1.0) == 0.5
    window.take(30.0, {}, {"x": 60})
    window.take(60.0, {}, {"x": 60})
    assert window.rate("x", 60, 61.0) == 0
    assert window.rate("x", 160, 70.0) == 100 / 40


def test_an_idle_ratio_is_the_time_that_was_not_worked() -> None:
    """B-M01: poll-idle-ratio-avg is between 0 and 1."""
    window = Window(0.0)
    assert window.idle_ratio("busy", 0.0, 0.0) == 1
    assert window.idle_ratio("busy", 2.5, 10.0) == 0.75
    assert window.idle_ratio("busy", 11.0, 10.0) == 0


def test_quantiles_are_of_the_last_minutes() -> None:
    """B-M03: what was slow an hour ago is not slow now; count and sum stay those of all time."""
    times, window = Histogram(), Window(0.0)
    assert set(window.quantiles("x", times).values()) == {0}
    for _ in range(1_000):
        times.add(9_000)
    assert 5_000 < window.quantiles("x", times)["0.50"] <= 9_000
    for number in range(KEPT):
        window.take(SAMPLE_S * (number + 1), {"x": times}, {})
    assert set(window.quantiles("x", times).values()) == {0}
    for _ in range(99):
        times.add(1)
    times.add(40)
    found = window.quantiles("x", times)
    assert found["0.50"] <= 1 < found["0.999"] <= 50
    assert (times.count, times.total) == (1_100, 9_000_139)


def test_a_quantile_is_never_past_the_highest() -> None:
    """B-M03: also where the last bucket has no bound."""
    times, window = Histogram((1, 2)), Window(0.0)
    times.add(1.25)
    assert window.quantiles("x", times)["0.999"] == 1.25
    times.add(77)
    assert window.quantiles("x", times)["0.999"] == 77


def test_copies_do_not_pile_up() -> None:
    """inv:M5: however long a node runs."""
    window = Window(0.0)
    for number in range(100):
        window.take(float(number), {"x": Histogram()}, {"y": number})
    assert len(window._copies) == KEPT
