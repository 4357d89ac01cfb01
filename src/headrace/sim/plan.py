"""What a seed draws: how big a cluster, within which limits, with which clients and which faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.core.errors import OperatorError
from headrace.metadata.versions import LATEST_METADATA_VERSION, has_elr
from headrace.raft.config import FETCH_MAX_WAIT_MS
from headrace.sim.faults import DRAWN_KINDS, LEADER, Fault, FaultKind, Profile, draw_faults, draw_profile, profile_of
from headrace.sim.limits import Limits, draw_limits
from headrace.sim.network import NetworkQuality
from headrace.sim.record_plans import with_copies, with_decommissions, with_directories, with_groups, with_lives
from headrace.sim.run_plan import Plan as Plan


def draw_quorum_plan(seed: int, *, length_ms: int = 8_000) -> Plan:
    """A quorum-only run: 1 to 5 voters, up to 5 other controllers, all else by chance."""
    chance = random.Random(f"plan {seed}")
    voters = chance.choice((1, 2, 3, 3, 3, 3, 4, 5, 5))
    limits = _patient_now_and_then(seed, draw_limits(chance))
    kinds = tuple(kind for kind in DRAWN_KINDS if kind is not FaultKind.RACK)
    is_dynamic = chance.random() < 0.75
    if not is_dynamic:
        kinds = tuple(kind for kind in kinds if kind is not FaultKind.REPLACE)
    profile = draw_profile(chance, kinds)
    plan = Plan(
        seed=seed,
        controllers=voters + chance.choice((0, 0, 1, 1, 2, 3, 5)),
        voters=voters,
        scripted_brokers=chance.choice((0, 2, 3, 3)),
        admins=chance.choice((1, 2, 3)),
        is_dynamic=is_dynamic,
        changes_voters=is_dynamic and chance.random() < 0.6,
        limits=limits,
        quality=_draw_quality(chance),
        profile=profile,
        faults=draw_faults(chance, profile, until_ms=length_ms),
        faults_until_ms=length_ms,
        think_ms=chance.choice((20, 100, 400)),
        versions={} if is_dynamic or chance.random() < 0.7 else _older_releases(chance, voters),
    )
    if voters > 2 and seed % 8 == 5:
        return _with_forks(plan)
    if voters > 2 and seed % 8 == 1:
        return _with_late_answers(plan)
    if voters > 2 and seed % 8 == 2:
        return _with_duels(plan)
    if voters > 2 and is_dynamic and seed % 8 == 7:
        return _with_more(plan, random.Random(f"addresses {seed}"), Profile(every_ms={FaultKind.READDRESS: 800}))
    if voters > 1 and seed % 8 == 6:
        return _with_moves_cut_short(plan)
    return _with_sudden_ends(plan) if voters > 2 and seed % 8 == 3 else plan


def _with_forks(plan: Plan) -> Plan:
    """A leader is cut off again and again, and goes on writing: long forks of the log, and snapshots just past where they began."""
    chance = random.Random(f"forks {plan.seed}")
    limits = replace(
        plan.limits,
        controller_quorum_election_timeout_ms=200,
        controller_quorum_election_backoff_max_ms=200,
        controller_quorum_fetch_timeout_ms=400,
        controller_quorum_request_timeout_ms=400,
        metadata_log_segment_bytes=200,
        metadata_log_max_record_bytes_between_snapshots=100,
        metadata_max_retention_bytes=200,
        metadata_max_idle_interval_ms=8,
    )
    faults: list[Fault] = []
    at_ms = 800
    while at_ms < 4_000:
        for_ms = chance.randrange(600, 1_200)
        faults.append(Fault(at_ms=at_ms, kind=FaultKind.ISOLATE, who=(LEADER,), for_ms=for_ms))
        at_ms += for_ms + chance.randrange(100, 400)
    return replace(plan, limits=limits, faults=tuple(faults), faults_until_ms=at_ms)


_ENDS: Final = (
    (FaultKind.CRASH_STEP, 1),
    (FaultKind.CRASH_STEP, 2),
    (FaultKind.CRASH_VOTE, 0),
    (FaultKind.CRASH_DISK, 2),
    (FaultKind.CRASH_DISK, 2),
    (FaultKind.CRASH_DISK, 3),
    (FaultKind.POWER, 0),
    (FaultKind.HUNT, 0),
    (FaultKind.BLACKOUT, 0),
)


def _with_sudden_ends(plan: Plan) -> Plan:
    """Processes die in the middle of what they do, while slow disks hold what is not synced, and decisions are made bit by bit."""
    chance = random.Random(f"sudden ends {plan.seed}")
    limits = replace(plan.limits, controller_slice_size=1, metadata_max_idle_interval_ms=100)
    until_ms = plan.faults_until_ms
    faults = [
        Fault(at_ms=500, kind=FaultKind.SLOW_DISK, who=(number,), for_ms=until_ms, amount=chance.choice((4, 20)))
        for number in range(plan.controllers)
    ]
    at_ms = 1_200
    while at_ms < until_ms:
        kind, amount = chance.choice(_ENDS)
        who = LEADER if chance.random() < 0.6 else chance.randrange(0, 64)
        for_ms = chance.randrange(20, 600)
        faults.append(
            Fault(at_ms=at_ms, kind=kind, who=(who,), for_ms=for_ms, amount=amount or chance.randrange(1 << 20))
        )
        at_ms += chance.randrange(200, 900)
    return replace(plan, limits=limits, faults=tuple(faults), admins=3, scripted_brokers=3, think_ms=20)


def _with_duels(plan: Plan) -> Plan:
    """Leaders die while messages are slow: several voters stand at once, ask each other, and some die with a vote that is just on disk."""
    chance = random.Random(f"duels {plan.seed}")
    limits = replace(
        plan.limits,
        controller_quorum_election_timeout_ms=200,
        controller_quorum_election_backoff_max_ms=chance.choice((1, 200)),
        controller_quorum_fetch_timeout_ms=400,
        controller_quorum_request_timeout_ms=400,
        metadata_max_idle_interval_ms=100,
    )
    faults = [Fault(at_ms=600, kind=FaultKind.SLOW_NET, who=(0,), for_ms=5_000, amount=chance.choice((20, 100)))]
    at_ms = 1_000
    while at_ms < 5_500:
        faults.append(Fault(at_ms=at_ms, kind=FaultKind.KILL, who=(LEADER,), for_ms=chance.randrange(20, 800)))
        voter = chance.randrange(0, 64)
        faults.append(Fault(at_ms=at_ms + 1, kind=FaultKind.CRASH_VOTE, who=(voter,), for_ms=chance.randrange(20, 300)))
        if chance.random() < 0.5:
            pair = (chance.randrange(0, 64), chance.randrange(0, 64))
            faults.append(Fault(at_ms=at_ms + 2, kind=FaultKind.CUT, who=pair, for_ms=chance.randrange(100, 900)))
        at_ms += chance.randrange(500, 1_200)
    return replace(plan, limits=limits, faults=tuple(faults), faults_until_ms=6_000)


def _with_late_answers(plan: Plan) -> Plan:
    """Requests outlive their leaders, whose answers come when those who asked follow the next one, and their logs end where they did."""
    chance = random.Random(f"late answers {plan.seed}")
    limits = replace(
        plan.limits,
        controller_quorum_election_timeout_ms=200,
        controller_quorum_election_backoff_max_ms=200,
        controller_quorum_fetch_timeout_ms=400,
        controller_quorum_request_timeout_ms=1_600,
        metadata_max_idle_interval_ms=100,
    )
    return _with_more(replace(plan, limits=limits), chance, Profile(every_ms={FaultKind.LATE_ANSWERS: 1_000}))


def _with_more(plan: Plan, chance: random.Random, more: Profile) -> Plan:
    """The same run, with the faults of another profile among its own."""
    faults = (*plan.faults, *draw_faults(chance, more, until_ms=plan.faults_until_ms))
    return replace(
        plan,
        profile=Profile(every_ms={**plan.profile.every_ms, **more.every_ms}),
        faults=tuple(sorted(faults, key=lambda one: (one.at_ms, one.kind.value))),
    )


def _with_moves_cut_short(plan: Plan) -> Plan:
    """Brokers come and go, what that means is decided partition by partition, and controllers die in the middle of it."""
    chance = random.Random(f"moves cut short {plan.seed}")
    limits = replace(
        plan.limits, controller_slice_size=1, broker_session_timeout_ms=1_500, broker_heartbeat_interval_ms=300
    )
    eager = replace(plan, limits=limits, scripted_brokers=3, think_ms=50, wants_fence=0.3)
    return _with_more(eager, chance, Profile(every_ms={FaultKind.CRASH_MOVES: 700}))


def _draw_quality(chance: random.Random) -> NetworkQuality:
    """How slow the network is at most, and how many messages really go through the codec."""
    return NetworkQuality(
        delay_max_us=chance.choice((1_000, 5_000, 20_000)), codec_chance=chance.choice((0.0, 0.05, 1.0))
    )


def _patient_now_and_then(seed: int, limits: Limits) -> Limits:
    """In a third of the runs requests may take longer than a leader may be silent: answers of a former leader come late (R20)."""
    factor = random.Random(f"patience {seed}").choice((1, 1, 4))
    return replace(limits, controller_quorum_request_timeout_ms=limits.controller_quorum_request_timeout_ms * factor)


_OLDER: Final = {1: (15, 16, 17), 52: (0, 1), 53: (0,), 54: (0,), 59: (0,)}
"""Api -> newest versions of older releases: Fetch, Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot."""


def _older_releases(chance: random.Random, voters: int) -> dict[int, dict[int, int]]:
    """Some voters speak as an older release does."""
    old = [node_id for node_id in range(1, voters + 1) if chance.random() < 0.5]
    return {node_id: {key: chance.choice(newest) for key, newest in _OLDER.items()} for node_id in old}


def _elects_at_rest(plan: Plan) -> bool:
    """Followers give the leader up before it answers where nothing happens, and older releases do not ask first whether others hear it.

    There is always a new epoch then, and in none are they told what is committed.
    """
    return bool(plan.versions) and plan.limits.controller_quorum_fetch_timeout_ms <= FETCH_MAX_WAIT_MS


def _with_more_requests(plan: Plan) -> Plan:
    """In half of the runs with scripted brokers these come and go as an operator has them; in a quarter the cluster is upgraded, too."""
    chance = random.Random(f"brokers {plan.seed}")
    moves, upgrades = chance.random() < 0.5, chance.random() < 0.3
    upgrades = (
        upgrades and not plan.versions
    )  # who speaks as an older release does knows no directory ids: kraft.version stays
    first = chance.choice((16, 17, 20, 25, 29)) if upgrades else LATEST_METADATA_VERSION
    combined = chance.choice((0, 0, 0, 1, plan.controllers)) if plan.brokers else 0
    more = {FaultKind.FAIL_READ: 3_000} if chance.random() < 0.2 else {}
    if plan.voters > 2 and chance.random() < 0.1:
        more[FaultKind.ROT_STATE] = 2_000
    wider = replace(
        plan,
        moves_brokers=moves,
        upgrades=upgrades,
        has_elr=has_elr(first) and random.Random(f"elr {plan.seed}").random() < 0.8,
        first_metadata_version=first,
        decommissions=moves and random.Random(f"decommissions {plan.seed}").random() < 0.5,
        has_all_records=chance.random() < 0.3,
        auto_joins=plan.is_dynamic and chance.random() < 0.3,
        combined_nodes=combined,
    )
    return _with_more(wider, chance, Profile(every_ms=more)) if more and plan.faults else wider


def _with_short_memory(plan: Plan) -> Plan:
    """In a tenth of the runs snapshots are made often and go for their age, whatever their size: by the files' times, which follow clocks that jump."""
    chance = random.Random(f"age {plan.seed}")
    if chance.random() >= 0.1:
        return plan
    limits = replace(
        plan.limits,
        metadata_log_max_record_bytes_between_snapshots=chance.choice((400, 1_500)),
        metadata_max_retention_bytes=104_857_600,
        metadata_max_retention_ms=chance.choice((300, 2_000)),
    )
    return replace(plan, limits=limits)


def with_faults(plan: Plan, faults: Sequence[Fault]) -> Plan:
    """The same run with other faults."""
    return replace(plan, faults=tuple(faults))


LEVELS: Final = ("quorum", "cluster", "partitions", "records")
"""`quorum`: controllers and scripted clients only; `cluster`: whole brokers too; `partitions`: either, with more asked of partitions; `records`:
whole brokers, producers and consumers."""

SIZES: Final = (
    "controllers",
    "voters",
    "brokers",
    "scripted_brokers",
    "admins",
    "hostile_peers",
    "racks",
    "producers",
    "consumers",
    "copies",
    "members",
)
"""What a run has how many of: fields of `Plan` that an option may say."""


def draw_plan(level: str, seed: int, options: Mapping[str, object]) -> Plan:
    """The plan of a seed at a level; three quarters of those with records have followers, unless `copies` is 1. `options` set sizes, `faults` (kinds, apart by commas; `none`), and `seconds` that faults go on."""
    drawn = _DRAWN[level](seed)
    if drawn.producers and seed % 4 and options.get("copies") != 1:
        drawn = with_copies(drawn)
    plan = with_lives(with_directories(with_groups(_with_short_memory(_with_more_requests(drawn)))))
    plan = with_decommissions(plan)
    plan = replace(plan, hostile_peers=random.Random(f"hostile {seed}").choice((0, 0, 0, 1)))
    sizes: dict[str, int] = {name: int(str(options[name])) for name in SIZES if name in options}
    if "controllers" in sizes:
        sizes.setdefault("voters", sizes["controllers"])
    plan = replace(plan, **sizes)  # type: ignore[arg-type]
    if plan.producers and plan.copies > plan.brokers:
        plan = replace(plan, brokers=plan.copies)
    if plan.copies > 1 or plan.members or _elects_at_rest(plan):
        # the quorum is never silent for as long as its followers wait
        idle_ms = min(plan.limits.metadata_max_idle_interval_ms, 100)
        plan = plan.with_limits(replace(plan.limits, metadata_max_idle_interval_ms=idle_ms))
    if "seconds" in options:
        plan = replace(plan, faults_until_ms=1_000 * int(str(options["seconds"])))
    if "faults" in options or "seconds" in options or "every_ms" in options:
        profile = plan.profile
        if "faults" in options:
            kinds = parse_kinds(str(options["faults"]))
            profile = profile_of(kinds, int(str(options.get("every_ms", 3_000))))
        chance = random.Random(f"faults {seed}")
        faults = draw_faults(chance, profile, until_ms=plan.faults_until_ms)
        plan = replace(plan, profile=profile, faults=faults)
    return plan


def parse_kinds(text: str) -> tuple[FaultKind, ...]:
    """Fault kinds by name, apart by commas; `all`, or `none`. Raises OperatorError for a name that is none."""
    if text in ("", "none"):
        return ()
    if text == "all":
        return tuple(FaultKind)
    known = {kind.value: kind for kind in FaultKind}
    wrong = [name for name in text.split(",") if name not in known]
    if wrong:
        raise OperatorError(f"no fault is called {', '.join(wrong)}: choose from {', '.join(known)}")
    return tuple(known[name] for name in text.split(","))


def draw_cluster_plan(seed: int, *, length_ms: int = 15_000) -> Plan:
    """A whole-cluster run: 3 to 5 controllers, 3 to 6 brokers in racks."""
    chance = random.Random(f"cluster plan {seed}")
    controllers = chance.choice((3, 3, 5))
    limits = draw_limits(chance)
    profile = draw_profile(chance)
    racks = chance.choice((2, 3))
    return Plan(
        seed=seed,
        controllers=controllers,
        voters=controllers,
        brokers=chance.choice((3, 4, 6)),
        scripted_brokers=0,
        admins=2,
        is_dynamic=True,
        changes_voters=chance.random() < 0.3,
        racks=racks,
        limits=limits,
        quality=_draw_quality(chance),
        profile=profile,
        faults=draw_faults(chance, profile, until_ms=length_ms),
        faults_until_ms=length_ms,
        think_ms=chance.choice((50, 200, 400)),
    )


def draw_partitions_plan(seed: int) -> Plan:
    """A run in which replicas move, leaders are lost for good, and what became of it is read: by turns, and all three together.

    Every fourth has whole brokers, whose replicas never get in sync (records are not simulated): there nothing moves. In the others the
    quorum keeps up with what is written, and is never silent for as long as a follower waits: so brokers can bring to its end what was begun.
    """
    chance = random.Random(f"partitions plan {seed}")
    turn = seed % 4
    if turn == 0:
        return replace(draw_cluster_plan(seed, length_ms=6_000), elects=True, reads=True, think_ms=20)
    plan = draw_quorum_plan(seed)
    session_ms = chance.choice((1_500, 3_000))
    limits = replace(
        plan.limits,
        broker_session_timeout_ms=session_ms,
        broker_heartbeat_interval_ms=session_ms // 10,
        controller_quorum_fetch_max_bytes=max(8_192, plan.limits.controller_quorum_fetch_max_bytes),
        metadata_max_idle_interval_ms=100,
    )
    return replace(
        plan,
        limits=limits,
        scripted_brokers=chance.choice((3, 4, 5)),
        admins=chance.choice((2, 3)),
        think_ms=chance.choice((20, 50, 100)),
        moves_replicas=turn != 2,
        elects=turn != 1,
        reads=turn != 2,
    )


def draw_records_plan(seed: int) -> Plan:
    """A run in which records are written to whole brokers and read while these are broken: each partition has one copy."""
    chance = random.Random(f"records plan {seed}")
    plan = draw_cluster_plan(seed, length_ms=6_000)
    controllers = chance.choice((1, 1, 3))
    return replace(
        plan,
        controllers=controllers,
        voters=controllers,
        changes_voters=False,
        brokers=chance.choice((1, 2, 3)),
        admins=0,
        producers=chance.choice((1, 2, 3)),
        consumers=chance.choice((1, 2)),
        think_ms=chance.choice((5, 20, 60)),
    )


_DRAWN: Final[dict[str, Callable[[int], Plan]]] = {
    "quorum": draw_quorum_plan,
    "cluster": draw_cluster_plan,
    "partitions": draw_partitions_plan,
    "records": draw_records_plan,
}
