"""The faults of a run: which, when, to whom, and for how long.

All faults of a run are drawn from the seed before it begins, as a list of values. So a failing run can be tried again with fewer of them
(`sim.shrink`), and the list can be written down and read back. A fault says whom it hits by a number that is resolved when it happens:
`LEADER` is whoever leads then.
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from headrace.core.values import value_class

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

LEADER: Final = -1
"""In `Fault.who`: the node that leads the metadata quorum when the fault begins."""


class FaultKind(Enum):
    """What can go wrong. The number behind it is its line in the fault catalogue."""

    KILL = "kill"
    """The process dies (S1-S3, S7)."""
    KILL_ALL = "kill-all"
    """All processes die at once and start in any order (S4, S5)."""
    POWER = "power"
    """The host loses power: unsynced data goes, wholly, partly or not at all (S50)."""
    BLACKOUT = "blackout"
    """All hosts lose power (S52, S53)."""
    HUNT = "hunt"
    """Each new leader is killed as soon as it leads, up to five times (S6)."""
    LOOP = "loop"
    """A process dies again and again soon after its start (S11, S12)."""
    CRASH_STEP = "crash-step"
    """The process dies between two effects of one step (S7)."""
    CRASH_VOTE = "crash-vote"
    """The process dies when its next vote is on disk and not yet told (S7)."""
    CRASH_DISK = "crash-disk"
    """The host loses power between two calls to the disk (S7, S54, S55)."""
    RESTART = "restart"
    """A clean stop and a start (S10)."""
    PAUSE = "pause"
    """The process stands still (S8)."""
    CUT = "cut"
    """One direction between two nodes is cut (S26)."""
    ISOLATE = "isolate"
    """A node is cut from all others (S20, S24)."""
    SPLIT = "split"
    """The nodes fall into two groups that do not reach each other (S25)."""
    RING = "ring"
    """Each controller reaches only its neighbours (S27). Among three all are neighbours."""
    FLAP = "flap"
    """A node is cut off and back, again and again (S28)."""
    SLOW_NET = "slow-net"
    """Messages are slow, now and then very slow (S29)."""
    DROP = "drop"
    """Connections go silent: what is sent on them never arrives (S29, S33)."""
    REPEAT = "repeat"
    """Requests arrive once more, much later (S30)."""
    RESET = "reset"
    """Connections die at any byte (S31)."""
    DRIFT = "drift"
    """A node's monotonic clock runs too fast or too slow (S42)."""
    JUMP = "jump"
    """A node's wall clock jumps (S40, S41)."""
    SLOW_DISK = "slow-disk"
    """Work for the disk takes long (S60)."""
    FAIL_WRITE = "fail-write"
    """A write fails (S57)."""
    FAIL_SYNC = "fail-sync"
    """A sync fails, and later ones succeed (S58)."""
    FULL = "full"
    """The disk is full (S59)."""
    ROT = "rot"
    """A bit of a stopped node's metadata is another one (S61)."""
    REPLACE = "replace"
    """The disk is replaced by an empty one (S64). Only in a dynamic quorum, and of a minority."""
    RACK = "rack"
    """All nodes of one rack lose power; without racks, one node."""
    READDRESS = "readdress"
    """A voter starts again at another address, and nobody listens at the old one (KIP-853). Only where a plan asks for it."""
    FAIL_READ = "fail-read"
    """A read fails (EIO). Only where a plan asks for it."""
    ROT_STATE = "rot-state"
    """The file quorum-state of a stopped node cannot be read any more (S61). Only where a plan asks for it."""
    CRASH_MOVES = "crash-moves"
    """The active controller dies soon after it began what takes it several steps: a broker comes or goes (S7). Only where a plan asks for it."""
    MOVE_LOG = "move-log"
    """A broker is to have a replica in another of its log directories (KIP-113). Only where a plan asks for it."""
    FAIL_DIRECTORY = "fail-directory"
    """One of a broker's several log directories fails; when it works again the broker starts anew (S66). Only where a plan asks for it."""
    LATE_ANSWERS = "late-answers"
    """What a node answers comes only when the asker follows a later epoch (S29). Only where a plan asks for it."""


@value_class
class Fault:
    """One fault: from `at_ms` on for `for_ms`. `amount` means what the kind needs: a delay, a share, a number of calls."""

    at_ms: int
    kind: FaultKind
    who: tuple[int, ...] = ()
    for_ms: int = 0
    amount: int = 0

    def as_json(self) -> dict[str, Any]:
        """For a failure file."""
        return {
            "at_ms": self.at_ms,
            "kind": self.kind.value,
            "who": list(self.who),
            "for_ms": self.for_ms,
            "amount": self.amount,
        }

    def __str__(self) -> str:
        whom = ",".join("leader" if one == LEADER else f"#{one}" for one in self.who)
        return f"{self.at_ms / 1000:9.3f} s {self.kind.value} {whom} for {self.for_ms} ms, amount {self.amount}"


def fault_of_json(data: Mapping[str, Any]) -> Fault:
    """A fault of a failure file. Raises KeyError and ValueError for what none is."""
    return Fault(
        at_ms=int(data["at_ms"]),
        kind=FaultKind(data["kind"]),
        who=tuple(int(one) for one in data["who"]),
        for_ms=int(data["for_ms"]),
        amount=int(data["amount"]),
    )


@value_class
class Profile:
    """How a run goes wrong: the mean time between two faults of a kind (ms), kinds that never happen left out."""

    every_ms: Mapping[FaultKind, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """For reports."""
        kinds = sorted(kind.value for kind in self.every_ms)
        return "quiet" if not kinds else kinds[0] if len(kinds) == 1 else f"{len(kinds)} kinds"


_PLANNED: Final = (
    FaultKind.CRASH_MOVES,
    FaultKind.LATE_ANSWERS,
    FaultKind.READDRESS,
    FaultKind.FAIL_READ,
    FaultKind.ROT_STATE,
    FaultKind.MOVE_LOG,
    FaultKind.FAIL_DIRECTORY,
)
DRAWN_KINDS: Final = tuple(kind for kind in FaultKind if kind not in _PLANNED)
"""Those that a profile may hold by chance."""


def draw_profile(chance: random.Random, kinds: tuple[FaultKind, ...] = DRAWN_KINDS) -> Profile:
    """Some runs are quiet, some hold one kind of fault, some a few, some all."""
    mood = chance.random()
    if mood < 0.08 or not kinds:
        return Profile()
    if mood < 0.35:
        return Profile(every_ms={chance.choice(kinds): chance.choice((300, 1_000, 3_000))})
    if mood < 0.75:
        chosen = sorted(chance.sample(kinds, min(len(kinds), chance.randrange(2, 6))), key=kinds.index)
        return Profile(every_ms={kind: chance.choice((1_000, 3_000, 8_000)) for kind in chosen})
    pace = chance.choice((10_000, 25_000, 60_000))
    return Profile(every_ms={kind: pace for kind in kinds})


def profile_of(kinds: tuple[FaultKind, ...], every_ms: int = 3_000) -> Profile:
    """A profile that holds just these kinds."""
    return Profile(every_ms={kind: every_ms for kind in kinds})


def draw_faults(chance: random.Random, profile: Profile, *, until_ms: int) -> tuple[Fault, ...]:
    """The faults of a run, by time. They may overlap: the next comes while recovery from the last goes on."""
    found: list[Fault] = []
    for kind, every_ms in profile.every_ms.items():
        at_ms = 500 + int(chance.expovariate(1 / every_ms))
        while at_ms < until_ms:
            found.append(_draw(chance, kind, at_ms))
            at_ms += 1 + int(chance.expovariate(1 / every_ms))
    found.sort(key=lambda one: (one.at_ms, one.kind.value))
    return tuple(found)


_LONG: Final = {
    FaultKind.HUNT: 20_000,
    FaultKind.LOOP: 6_000,
    FaultKind.DRIFT: 8_000,
    FaultKind.SLOW_NET: 6_000,
    FaultKind.LATE_ANSWERS: 3_000,
}
_PAIRS: Final = (FaultKind.CUT,)
_OF_THE_CLUSTER: Final = (
    FaultKind.KILL_ALL,
    FaultKind.BLACKOUT,
    FaultKind.HUNT,
    FaultKind.SPLIT,
    FaultKind.RING,
    FaultKind.SLOW_NET,
    FaultKind.DROP,
    FaultKind.REPEAT,
    FaultKind.RESET,
    FaultKind.CRASH_MOVES,
)
_AMOUNTS: Final[dict[FaultKind, tuple[int, ...]]] = {
    FaultKind.CRASH_STEP: (0, 0, 1, 1, 2, 3),
    FaultKind.CRASH_DISK: (1, 2, 3, 4, 5, 6, 8, 12, 20),
    FaultKind.SLOW_NET: (20, 100, 400),
    FaultKind.DROP: (1, 5, 20),
    FaultKind.REPEAT: (5, 20),
    FaultKind.RESET: (10, 50, 100),
    FaultKind.DRIFT: (500_000, 900_000, 1_100_000, 2_000_000),
    FaultKind.JUMP: (3_600_000, -3_600_000, 315_360_000_000, -1_700_000_000_000, 200, -200),
    FaultKind.SLOW_DISK: (20, 100, 1_000),
    FaultKind.FAIL_WRITE: (1, 1, 3),
    FaultKind.FAIL_SYNC: (1, 1, 2),
    FaultKind.FAIL_READ: (1, 1, 2),
    FaultKind.FLAP: (50, 200, 700),
    FaultKind.LOOP: (20, 200, 700),
}


def nodes_hit(kind: FaultKind) -> int:
    """How many nodes a fault of this kind names: none when it happens to the whole cluster, two for a direction between two."""
    if kind in _PAIRS:
        return 2
    return 0 if kind in _OF_THE_CLUSTER else 1


def _draw(chance: random.Random, kind: FaultKind, at_ms: int) -> Fault:
    length = _LONG.get(kind)
    for_ms = (
        chance.randrange(length // 2, length)
        if length
        else int(chance.choice((50, 400, 1_500, 4_000)) * (0.5 + chance.random()))
    )
    first = LEADER if chance.random() < 0.4 else chance.randrange(0, 64)
    who: tuple[int, ...] = (first, chance.randrange(0, 64)) if kind in _PAIRS else (first,)
    amounts = _AMOUNTS.get(kind)
    amount = chance.choice(amounts) if amounts else chance.randrange(0, 1 << 30)
    return Fault(at_ms=at_ms, kind=kind, who=who, for_ms=for_ms, amount=amount)
