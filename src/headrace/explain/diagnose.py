"""Facts in, diagnosis out: which rules speak, what follows from what, and the state of the quorum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from headrace.explain import epoch_rules, health_rules, identity_rules
from headrace.explain.causes import Cause, CauseKind, Diagnosis, State
from headrace.explain.facts import CANDIDATES, FOLLOWER, LEADER, Facts, Seen, names, span
from headrace.wire.messages.describe_quorum import NodeView

RULES: tuple[Callable[[Facts], Iterator[Cause]], ...] = (
    health_rules.nobody_reached,
    identity_rules.wrong_cluster_id,
    identity_rules.two_nodes_one_id,
    identity_rules.expired_voter_key,
    identity_rules.stale_voter_set,
    epoch_rules.epoch_out_of_reach,
    identity_rules.wrong_listener,
    identity_rules.not_founded,
    health_rules.disks,
    health_rules.majority_down,
    health_rules.diverged_log,
    health_rules.cut_links,
    health_rules.slow_fsync,
    health_rules.clock_jump,
    health_rules.elections_fail,
    health_rules.lagging,
)

FOLLOWS_FROM: dict[CauseKind, frozenset[CauseKind]] = {
    CauseKind.MAJORITY_DOWN: frozenset(),
    CauseKind.VOTER_DOWN: frozenset({CauseKind.FULL_DISK, CauseKind.FAILED_DISK}),
    CauseKind.CUT_LINK: frozenset({CauseKind.WRONG_LISTENER, CauseKind.WRONG_CLUSTER_ID}),
    CauseKind.ONE_WAY_CUT: frozenset({CauseKind.WRONG_LISTENER, CauseKind.WRONG_CLUSTER_ID}),
    CauseKind.STALE_VOTER_SET: frozenset({CauseKind.WRONG_CLUSTER_ID, CauseKind.EXPIRED_VOTER_KEY}),
    CauseKind.DIVERGED_LOG: frozenset({CauseKind.WRONG_CLUSTER_ID}),
    CauseKind.LAGGING: frozenset(
        {
            CauseKind.WRONG_CLUSTER_ID, CauseKind.EXPIRED_VOTER_KEY, CauseKind.STALE_VOTER_SET, CauseKind.WRONG_LISTENER,
            CauseKind.CUT_LINK, CauseKind.ONE_WAY_CUT, CauseKind.SLOW_FSYNC, CauseKind.FULL_DISK, CauseKind.DIVERGED_LOG,
        }
    ),
}  # fmt: skip
"""A cause is left out when all its nodes have one of these, which explains it."""

WEAK = frozenset({CauseKind.ELECTIONS_FAIL, CauseKind.VOTER_DOWN, CauseKind.LAGGING, CauseKind.CLOCK_JUMP})
"""What alone does not keep a quorum from electing a leader."""


def diagnose(seen: Iterable[Seen]) -> Diagnosis:
    """What is wrong with the quorum, most likely root first."""
    facts = Facts(seen)
    found = [cause for rule in RULES for cause in rule(facts)]
    roots = [cause for cause in found if not _is_explained(cause, found)]
    if any(cause.kind not in WEAK for cause in roots):
        roots = [cause for cause in roots if cause.kind is not CauseKind.ELECTIONS_FAIL]
    roots.sort(key=lambda cause: (-cause.rank, cause.nodes))
    state = _state(facts, roots)
    return Diagnosis(
        state=state, summary=_summary(facts, state, roots), causes=tuple(roots), story=tuple(_story(facts))
    )


def _is_explained(cause: Cause, found: list[Cause]) -> bool:
    by = FOLLOWS_FROM.get(cause.kind, frozenset())
    covered = {node_id for other in found if other.kind in by for node_id in other.nodes}
    if cause.kind in (CauseKind.CUT_LINK, CauseKind.ONE_WAY_CUT):
        return any(other.kind in by and set(cause.nodes) <= set(other.nodes) for other in found)
    return bool(cause.nodes) and set(cause.nodes) <= covered


def _state(facts: Facts, causes: list[Cause]) -> State:
    if not any(each.is_reached for each in facts.seen):
        return State.UNKNOWN
    if not facts.has_leader:
        return State.LEADERLESS
    if facts.is_stalled or (facts.leader is not None and any(each.kind is CauseKind.MAJORITY_DOWN for each in causes)):
        return State.STALLED  # without a majority it leads for one and a half fetch timeouts more, and commits nothing
    return State.DEGRADED if causes else State.HEALTHY


def _summary(facts: Facts, state: State, causes: list[Cause]) -> str:
    because = f": {causes[0].headline}." if causes else "."
    leader = facts.leader
    match state:
        case State.UNKNOWN:
            return "Nothing is known of the quorum" + because
        case State.LEADERLESS:
            return "The quorum has no leader" + (because if causes else "; nothing tells why.")
        case State.STALLED:
            assert leader is not None, "who stalls leads"
            if not facts.is_stalled:
                return _leader_line(facts) + "Nothing more is committed" + because
            told = f"Node {leader.node_id} leads epoch {leader.epoch}, but the high watermark stands at {leader.high_watermark} for {span(leader.uncommitted_for_ms)}"
            return told + (because if causes else "; nothing tells why.")
        case State.DEGRADED | State.HEALTHY:
            return _leader_line(facts) + ("The quorum works, but" + because if causes else "The quorum is healthy.")


def _leader_line(facts: Facts) -> str:
    if facts.leader is not None:
        view = facts.leader
        return f"Node {view.node_id} leads epoch {view.epoch}, committed up to offset {view.high_watermark}. "
    foreign, served = facts.foreign_leader, facts.followed
    if foreign is not None:
        return (
            f"Node {foreign.leader_id} leads epoch {foreign.epoch}, committed up to offset {foreign.high_watermark}. "
        )
    assert served is not None, "somebody leads"
    return f"Node {served.leader_id}, which does not answer us, leads epoch {served.epoch}. "


def _story(facts: Facts) -> Iterator[str]:
    """Who is what, and who voted for whom."""
    for view in sorted(facts.views.values(), key=lambda view: view.node_id):
        yield _line_of(view, facts)
    for each in facts.seen:
        if each.view is None and each.is_reached and each.expected_id >= 0:
            yield f"node {each.expected_id} answers at {each.address} and tells no more (not a Headrace node)"


def _line_of(view: NodeView, facts: Facts) -> str:
    kind = "voter" if view.node_id in facts.voter_ids else "observer"
    parts = [f"node {view.node_id} ({kind}) is {view.role} in epoch {view.epoch}"]
    if view.role in CANDIDATES or view.votes:
        granted = [vote.voter_id for vote in view.votes if vote.is_granted]
        refused = [vote.voter_id for vote in view.votes if not vote.is_granted]
        parts.append(f"has the vote of {names(granted)}")
        if refused:
            parts.append(f"was refused by {names(refused)}")
    elif view.voted_id >= 0 and view.role != LEADER:
        parts.append(f"voted for node {view.voted_id}")
    if view.role == FOLLOWER:
        parts.append(f"follows node {view.leader_id}")
    parts.append(
        f"log {view.log_start_offset}..{view.log_end_offset} (last epoch {view.log_end_epoch}), on disk up to "
        f"{view.durable_end_offset}, committed up to {view.high_watermark}"
    )
    if view.last_applied_lag_ms >= 0:
        parts.append(f"applied metadata up to {view.last_applied_offset}, {view.last_applied_lag_ms} ms old")
    return ", ".join(parts)
