"""The causes that can be named, and their ranks."""

from __future__ import annotations

from enum import Enum

from headrace.core.values import value_class


class CauseKind(Enum):
    """What is wrong. The value is the name in `--json`."""

    WRONG_CLUSTER_ID = "wrong-cluster-id"
    MAJORITY_DOWN = "majority-down"
    EXPIRED_VOTER_KEY = "expired-voter-key"
    EPOCH_OUT_OF_REACH = "epoch-out-of-reach"
    FULL_DISK = "full-disk"
    FAILED_DISK = "failed-disk"
    WRONG_LISTENER = "wrong-listener"
    DIVERGED_LOG = "diverged-log"
    STALE_VOTER_SET = "stale-voter-set"
    ONE_WAY_CUT = "one-way-cut"
    CUT_LINK = "cut-link"
    SLOW_FSYNC = "slow-fsync"
    CLOCK_JUMP = "clock-jump"
    TWO_NODES_ONE_ID = "two-nodes-one-id"
    NOT_FOUNDED = "not-founded"
    ELECTIONS_FAIL = "elections-fail"
    LAGGING = "lagging"
    VOTER_DOWN = "voter-down"
    NOBODY_REACHED = "nobody-reached"


RANKS: dict[CauseKind, int] = {
    CauseKind.NOBODY_REACHED: 100,
    CauseKind.WRONG_CLUSTER_ID: 99,
    CauseKind.TWO_NODES_ONE_ID: 98,
    CauseKind.FULL_DISK: 97,
    CauseKind.FAILED_DISK: 96,
    CauseKind.WRONG_LISTENER: 95,
    CauseKind.EXPIRED_VOTER_KEY: 94,
    CauseKind.EPOCH_OUT_OF_REACH: 94,
    CauseKind.MAJORITY_DOWN: 93,
    CauseKind.DIVERGED_LOG: 92,
    CauseKind.STALE_VOTER_SET: 91,
    CauseKind.ONE_WAY_CUT: 90,
    CauseKind.CUT_LINK: 89,
    CauseKind.SLOW_FSYNC: 88,
    CauseKind.NOT_FOUNDED: 87,
    CauseKind.CLOCK_JUMP: 86,
    CauseKind.ELECTIONS_FAIL: 60,
    CauseKind.LAGGING: 50,
    CauseKind.VOTER_DOWN: 40,
}
"""Roots before what follows from them. A cause that explains why nothing is committed goes up by `BLOCKING`."""

BLOCKING = 100


@value_class
class Cause:
    """One thing that is wrong: with which nodes, what shows it, and what an operator can do.

    `is_blocking`: it alone can explain that nobody leads or that nothing is committed.
    """

    kind: CauseKind
    nodes: tuple[int, ...]
    headline: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    is_blocking: bool = False

    @property
    def rank(self) -> int:
        """The higher the more likely the root."""
        return RANKS[self.kind] + (BLOCKING if self.is_blocking else 0)


class State(Enum):
    """How the quorum is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    STALLED = "stalled"
    LEADERLESS = "leaderless"
    UNKNOWN = "unknown"


@value_class
class Diagnosis:
    """The quorum's state, why, most likely root first, and who voted for whom."""

    state: State
    summary: str
    causes: tuple[Cause, ...]
    story: tuple[str, ...] = ()
