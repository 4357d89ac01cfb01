"""Does a seed say everything that a run will break?"""

from __future__ import annotations

import itertools

import pytest

from tools.chaos.__main__ import parsed
from tools.chaos.nemesis import Nemesis
from tools.chaos.plan import EIGHT, HAPPENS_ONCE, MIXES, Kind, draw


@pytest.mark.parametrize("mix", EIGHT)
def test_a_seed_gives_one_plan(mix: str) -> None:
    """The same twice, others with other seeds; within its time, and of nothing but what the mix has."""
    plans = [draw(mix, seed=seed, seconds=60) for seed in range(20)]
    assert plans == [draw(mix, seed=seed, seconds=60) for seed in range(20)]
    assert len({plan.strikes for plan in plans}) == len(plans)
    for plan in plans:
        assert {each.kind for each in plan.strikes} <= set(MIXES[mix])
        assert [each.at_s for each in plan.strikes] == sorted(each.at_s for each in plan.strikes)
        assert all(0 < each.at_s < each.at_s + each.for_s <= 60 or each.kind in HAPPENS_ONCE for each in plan.strikes)


def test_over_some_seeds_every_kind_comes() -> None:
    """And in the mix of all kinds faults overlap, in the others they do not."""
    assert {
        each.kind for mix in EIGHT for seed in range(20) for each in draw(mix, seed=seed, seconds=60).strikes
    } == set(Kind)
    for mix in EIGHT:
        overlaps = any(
            former.at_s + former.for_s > later.at_s
            for seed in range(20)
            for strikes in (draw(mix, seed=seed, seconds=60).strikes,)
            for former, later in itertools.pairwise(strikes)
        )
        assert overlaps is (mix == "all")


def test_a_calm_run_breaks_nothing() -> None:
    """What is wrong there is wrong without faults."""
    assert draw("calm", seed=7, seconds=60).strikes == ()


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_can_be_done(kind: Kind) -> None:
    """By the method of its name."""
    assert callable(getattr(Nemesis, f"_{kind.replace('-', '_')}"))


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--seconds", "nan"], ["--rounds", "0"]])
def test_a_run_without_time_is_none(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Its clients ended before they began, and that was told as a bad run."""
    with pytest.raises(SystemExit):
        parsed(arguments)
    assert "--seconds is 5 or more" in capsys.readouterr().err
