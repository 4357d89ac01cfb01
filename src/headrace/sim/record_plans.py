"""What a seed adds to a run with records: followers, brokers that are lost, tails that must go, groups."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace.sim.faults import Fault, FaultKind, Profile, draw_faults
from headrace.sim.limits import draw_groups, draw_replication

if TYPE_CHECKING:
    from headrace.sim.run_plan import Plan


def with_copies(plan: Plan) -> Plan:
    """The same with followers: brokers enough for them, small limits of what they fetch, and a quorum that is never silent for as long as its followers wait."""
    chance = random.Random(f"copies {plan.seed}")
    copies = chance.choice((2, 3, 3))
    brokers = copies + chance.choice((0, 0, 1))
    limits = replace(draw_replication(chance, plan.limits), metadata_max_idle_interval_ms=100)
    copied = replace(plan, copies=copies, brokers=brokers, limits=limits)
    turns = {1: copied, 2: _with_lost_leaders(copied, chance), 3: _with_tails(copied, chance)}
    return turns[plan.seed % 4]


def with_directories(plan: Plan) -> Plan:
    """In a fifth of the runs with copies, and without groups, brokers have two log directories each: replicas move between them all the time, and now and then one fails."""
    chance = random.Random(f"directories {plan.seed}")
    if not plan.producers or plan.copies < 2 or plan.members or chance.random() >= 0.2:
        return plan
    more = Profile(every_ms={FaultKind.MOVE_LOG: chance.choice((100, 400)), FaultKind.FAIL_DIRECTORY: 2_500})
    faults = (*plan.faults, *draw_faults(chance, more, until_ms=plan.faults_until_ms))
    return replace(
        plan,
        directories=2,
        profile=Profile(every_ms={**plan.profile.every_ms, **more.every_ms}),
        faults=tuple(sorted(faults, key=lambda one: (one.at_ms, one.kind.value))),
    )


def with_lives(plan: Plan) -> Plan:
    """In a quarter of the runs with copies topics have whole lives: made, written, moved, bereft of a copy by a disk that is replaced, whole again, deleted, and made anew."""
    chance = random.Random(f"lives {plan.seed}")
    if not plan.producers or plan.copies < 2 or plan.members or plan.directories > 1 or chance.random() >= 0.4:
        return plan
    faults = list(plan.faults)
    at_ms = chance.randrange(1_500, 4_000)
    while at_ms < plan.faults_until_ms:
        who = plan.controllers + chance.randrange(0, plan.brokers)
        faults.append(Fault(at_ms=at_ms, kind=FaultKind.REPLACE, who=(who,), for_ms=chance.randrange(20, 600)))
        at_ms += chance.randrange(1_500, 4_000)
    by_time = tuple(sorted(faults, key=lambda one: (one.at_ms, one.kind.value)))
    return replace(plan, ends_topics=True, moves_replicas=True, admins=max(1, plan.admins), faults=by_time)


def with_decommissions(plan: Plan) -> Plan:
    """In a fifth of the runs with copies brokers are decommissioned, unless somebody needs them, and come back as new ones."""
    if plan.copies < 2 or random.Random(f"decommissions {plan.seed}").random() >= 0.2:
        return plan
    return replace(plan, decommissions=True, admins=max(1, plan.admins))


_LOSSES: Final = (
    (FaultKind.KILL, (20, 600)),
    (FaultKind.KILL, (20, 600)),
    (FaultKind.KILL, (600, 3_000)),
    (FaultKind.CRASH_STEP, (0, 1)),
    (FaultKind.CRASH_DISK, (0, 1)),
    (FaultKind.PAUSE, (200, 2_500)),
    (FaultKind.ISOLATE, (500, 3_000)),
    (FaultKind.ISOLATE, (1_500, 3_000)),
    (FaultKind.RESTART, (0, 1)),
    (FaultKind.POWER, (20, 600)),
    (FaultKind.RESET, (0, 1)),
)
"""What happens to brokers, and for how many ms."""


def _with_lost_leaders(plan: Plan, chance: random.Random) -> Plan:
    """Brokers are lost and come back all the time, some before others have what these had: leaders change, and followers cut their logs. In a third, all else fails too."""
    limits = replace(plan.limits, broker_session_timeout_ms=1_500, broker_heartbeat_interval_ms=300)
    faults: list[Fault] = list(plan.faults) if chance.random() < 0.33 else []
    pace = chance.choice((150, 400, 900))
    at_ms = 800
    while at_ms < plan.faults_until_ms:
        kind, (shortest, longest) = chance.choice(_LOSSES)
        who = plan.controllers + chance.randrange(0, plan.brokers)
        for_ms, amount = (
            chance.randrange(shortest, longest),
            chance.randrange(0, 4) if kind is FaultKind.CRASH_STEP else 20,
        )
        faults.append(Fault(at_ms=at_ms, kind=kind, who=(who,), for_ms=for_ms, amount=amount))
        at_ms += 1 + int(chance.expovariate(1 / pace))
    by_time = tuple(sorted(faults, key=lambda one: (one.at_ms, one.kind.value)))
    moves = chance.random() < 0.4
    return replace(plan, limits=limits, faults=by_time, moves_replicas=moves, admins=int(moves))


def _with_tails(plan: Plan, chance: random.Random) -> Plan:
    """Again and again all brokers but one stand still while that one writes on, and dies before the others wake up: what only it has must go, and nothing else."""
    limits = replace(
        plan.limits,
        broker_session_timeout_ms=3_000,
        broker_heartbeat_interval_ms=300,
        replica_lag_time_max_ms=10_000,
        replica_fetch_wait_max_ms=100,
    )
    brokers = range(plan.controllers, plan.controllers + plan.brokers)
    faults: list[Fault] = []
    at_ms = 1_500
    while at_ms < plan.faults_until_ms + 3_000:
        still_ms, who = chance.choice((200, 500, 900)), chance.choice(brokers)
        faults += [
            Fault(at_ms=at_ms, kind=FaultKind.PAUSE, who=(one,), for_ms=still_ms) for one in brokers if one != who
        ]
        for_ms = chance.randrange(300, 1_500)
        faults.append(Fault(at_ms=at_ms + still_ms - 20, kind=FaultKind.KILL, who=(who,), for_ms=for_ms))
        at_ms += still_ms + for_ms + chance.randrange(300, 1_500)
    return replace(plan, limits=limits, faults=tuple(faults), faults_until_ms=at_ms, think_ms=5)


def with_groups(plan: Plan) -> Plan:
    """In half of the runs with records consumers are in groups, and the quorum is never silent for as long as its followers wait: brokers register, or no group comes to rest."""
    chance = random.Random(f"groups {plan.seed}")
    members = chance.choice((0, 0, 0, 2, 3, 5)) if plan.producers else 0
    limits = draw_groups(chance, plan.limits, plan.copies)
    if members:
        limits = replace(limits, metadata_max_idle_interval_ms=100)
    return replace(plan, members=members, limits=limits)
