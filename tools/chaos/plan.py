"""A plan: what breaks when, all of it drawn from a seed, before anything runs. Whom a fault meets is said as a role, found when its time comes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """What is done to a cluster."""

    KILL = "kill"
    KILL_AGAIN = "kill-again"
    KILL_ALL = "kill-all"
    PAUSE = "pause"
    PAUSE_ALL = "pause-all"
    ISOLATE = "isolate"
    CUT = "cut"
    CUT_ONE_WAY = "cut-one-way"
    CUT_CLIENTS = "cut-clients"
    SLOW = "slow"
    FULL_DISK = "full-disk"
    BROKEN_DISK = "broken-disk"
    RESTART = "restart"
    ADD_BROKER = "add-broker"
    REMOVE_BROKER = "remove-broker"
    MOVE_REPLICAS = "move-replicas"
    ELECT_PREFERRED = "elect-preferred"


class Whom(StrEnum):
    """Whom it meets."""

    LEADER = "leader"
    FOLLOWER = "follower"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"
    ANYBODY = "anybody"


MIXES: Final[Mapping[str, tuple[Kind, ...]]] = {
    "calm": (),
    "kill": (Kind.KILL, Kind.KILL, Kind.KILL, Kind.KILL_AGAIN, Kind.KILL_ALL),
    "pause": (Kind.PAUSE, Kind.PAUSE, Kind.PAUSE, Kind.PAUSE_ALL),
    "cut": (Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.CUT_CLIENTS),
    "slow": (Kind.SLOW,),
    "disk": (Kind.FULL_DISK, Kind.BROKEN_DISK),
    "rolling": (Kind.RESTART,),
    "membership": (Kind.ADD_BROKER, Kind.MOVE_REPLICAS, Kind.REMOVE_BROKER, Kind.ELECT_PREFERRED, Kind.KILL),
    "all": (Kind.KILL, Kind.PAUSE, Kind.ISOLATE, Kind.CUT_ONE_WAY, Kind.SLOW, Kind.RESTART, Kind.MOVE_REPLICAS),
}
"""Kinds of faults by mix; a kind that is named more often comes more often."""
OVERLAPPING: Final = "all"
EIGHT: Final = tuple(name for name in MIXES if name != "calm")
NEEDS_NETWORK: Final = frozenset({Kind.ISOLATE, Kind.CUT, Kind.CUT_ONE_WAY, Kind.CUT_CLIENTS, Kind.SLOW})
NEEDS_DISKS: Final = frozenset({Kind.FULL_DISK, Kind.BROKEN_DISK})
HAPPENS_ONCE: Final = frozenset(
    {Kind.RESTART, Kind.ADD_BROKER, Kind.REMOVE_BROKER, Kind.MOVE_REPLICAS, Kind.ELECT_PREFERRED}
)
"""Faults that are over when they are done: nothing is undone afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault: `at_s` after the clients began, for `for_s` (0: it is over when it is done)."""

    at_s: float
    kind: Kind
    whom: Whom
    for_s: float
    seed: int
    """For what is only known when it happens: which of several, which link, how slow."""

    def __str__(self) -> str:
        lasts = f" for {self.for_s:.1f} s" if self.for_s else ""
        return f"{self.at_s:5.1f} s  {self.kind} {self.whom}{lasts}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done to a cluster in one run."""

    mix: str
    seed: int
    seconds: float
    strikes: tuple[Strike, ...]

    @property
    def overlaps(self) -> bool:
        """Whether a fault may begin before the former is over."""
        return self.mix == OVERLAPPING


def draw(mix: str, *, seed: int, seconds: float) -> Plan:
    """The plan of a seed. One fault follows another, each after a moment in which the cluster may recover, or not: in the mix `all` they overlap."""
    rng = random.Random(f"{seed} {mix}")
    strikes: list[Strike] = []
    at_s = rng.uniform(1.0, 3.0)
    while MIXES[mix] and at_s < seconds - 1:
        kind = rng.choice(MIXES[mix])
        lasts_s = 0.0 if kind in HAPPENS_ONCE else min(_LASTS.get(kind, _some_seconds)(rng), seconds - at_s)
        strikes.append(
            Strike(at_s=at_s, kind=kind, whom=rng.choice(tuple(Whom)), for_s=lasts_s, seed=rng.getrandbits(32))
        )
        overlap_s = lasts_s * rng.uniform(0.2, 1.0) if mix == OVERLAPPING else lasts_s
        at_s += overlap_s + rng.choice((rng.uniform(0.1, 1.0), rng.uniform(1.0, 6.0)))
    return Plan(mix=mix, seed=seed, seconds=seconds, strikes=tuple(strikes))


def _some_seconds(rng: random.Random) -> float:
    """Shorter than the time limits of a cluster, or longer."""
    return rng.choice((rng.uniform(0.2, 2.0), rng.uniform(2.0, 12.0)))


_LASTS: Final[Mapping[Kind, Callable[[random.Random], float]]] = {
    Kind.KILL_ALL: lambda rng: rng.uniform(0.1, 3.0),
    Kind.PAUSE_ALL: lambda rng: rng.uniform(1.0, 12.0),
    Kind.SLOW: lambda rng: rng.uniform(5.0, 15.0),
}
