"""Rules about who nodes are: the cluster, the voters, their keys, their addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID
from headrace.explain.causes import Cause, CauseKind
from headrace.explain.facts import FOLLOWER, Facts, VoterKey, is_failing, names, voter_set
from headrace.explain.replacing import replace_directory
from headrace.wire.messages.describe_quorum import NodeView


def wrong_cluster_id(facts: Facts) -> Iterator[Cause]:
    """Nodes of two clusters refuse one another (INCONSISTENT_CLUSTER_ID) (S1-28)."""
    ids = Counter(view.cluster_id for view in facts.views.values())
    if len(ids) < 2:
        return
    voters_of = Counter(view.cluster_id for view in facts.views.values() if view.node_id in facts.voter_ids)
    right = max(
        ids,
        key=lambda cluster_id: (
            facts.leader is not None and facts.leader.cluster_id == cluster_id,
            voters_of[cluster_id],
            ids[cluster_id],
        ),
    )
    others = [view for view in facts.views.values() if view.cluster_id != right]
    evidence = [
        f"node {view.node_id} says cluster id {view.cluster_id} ({view.log_directory or 'its directory'})"
        for view in facts.views.values()
    ]
    for view in facts.views.values():
        for link in view.links:
            if link.refusal_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
                evidence.append(
                    f"node {view.node_id} was refused by {_peer(link.peer_id, link.host, link.port)}: INCONSISTENT_CLUSTER_ID"
                )
    yield Cause(
        kind=CauseKind.WRONG_CLUSTER_ID,
        nodes=tuple(sorted(view.node_id for view in others)),
        headline=f"{names(view.node_id for view in others)} belongs to another cluster than the rest ({right})"
        if len(others) == 1
        else f"{names(view.node_id for view in others)} belong to another cluster than the rest ({right})",
        evidence=tuple(evidence),
        advice=_advice_on_others(facts, [view.node_id for view in others], right),
        is_blocking=_are_needed(facts, {view.node_id for view in others}),
    )


def _advice_on_others(facts: Facts, node_ids: list[int], right: str) -> tuple[str, ...]:
    """A node that never was of this cluster may be formatted anew; one that was a voter of it must be replaced as such."""
    voters = [node_id for node_id in sorted(node_ids) if node_id in facts.voter_ids]
    lines = [
        f"If a node never belonged to this cluster and holds nothing of value: empty its log directories, format it with `headrace storage format -t {right}` "
        "and start it.",
        "If its data matter: take its address out of this cluster's settings, or give it that of its own; it lives in another.",
    ]
    if voters:
        lines.append(
            f"If {names(voters[:1])} was formatted anew by mistake, what it had acknowledged is gone with its old directory:"
        )
        lines += replace_directory(facts, voters[0])
    return tuple(lines)


def two_nodes_one_id(facts: Facts) -> Iterator[Cause]:
    """Two processes with one node.id and different directories answered."""
    for node_id in facts.twins:
        where = [each for each in facts.seen if each.view is not None and each.view.node_id == node_id]
        yield Cause(
            kind=CauseKind.TWO_NODES_ONE_ID,
            nodes=(node_id,),
            headline=f"two nodes call themselves {node_id}",
            evidence=tuple(
                f"{each.address} has directory id {each.view.directory_id}" for each in where if each.view is not None
            ),
            advice=(_which_to_stop(facts, node_id),),
            is_blocking=not facts.has_leader,
        )


def _which_to_stop(facts: Facts, node_id: int) -> str:
    directory_id = next((key.directory_id for key in facts.voters if key.voter_id == node_id), ZERO_UUID)
    if directory_id != ZERO_UUID:
        return f"Stop the one that has not directory id {directory_id}, which is the voter's, or give it a node.id of its own."
    return (
        "Stop the one that came later, or give it a node.id and a directory of its own. If it is a voter, the other one must stay, with the "
        "directory that it has: it holds the votes and the log."
    )


def expired_voter_key(facts: Facts) -> Iterator[Cause]:
    """KIP-853: a voter is id and directory id; a new directory under an old id is no voter any more."""
    for key in facts.voters:
        view = facts.views.get(key.voter_id)
        if view is None or key.directory_id in (ZERO_UUID, view.directory_id) or view.directory_id == ZERO_UUID:
            continue
        voters = [each for each in facts.voters if each.voter_id == key.voter_id]
        if any(each.directory_id == view.directory_id for each in voters):
            continue
        yield Cause(
            kind=CauseKind.EXPIRED_VOTER_KEY,
            nodes=(key.voter_id,),
            headline=f"the voter key of node {key.voter_id} has expired: its directory is another one now",
            evidence=(
                f"the voter set has node {key.voter_id} with directory id {key.directory_id}",
                f"node {key.voter_id} runs on directory id {view.directory_id} ({view.log_directory})",
                *_refusals(facts, key.voter_id, ErrorCode.INVALID_VOTER_KEY),
            ),
            advice=(
                f"Take the old key out: `headrace quorum remove-controller -i {key.voter_id} -d {key.directory_id}`.",
                "Then add the node as it is: `headrace quorum --command-config <its server.properties> add-controller`.",
                "Without a leader neither works: bring back the old directory, or enough other voters for a majority, first.",
            ),
            is_blocking=_are_needed(facts, {key.voter_id}),
        )


def stale_voter_set(facts: Facts) -> Iterator[Cause]:
    """A node goes by another voter set than the quorum does."""
    reference = facts.reference
    if reference is None:
        return
    right = voter_set(reference)
    stale = [view for view in facts.views.values() if view.voters and _is_stale(view, reference, right, facts)]
    if not stale:
        return
    is_static = all(view.kraft_version == 0 for view in stale)
    evidence = [
        f"{names([view.node_id])} goes by the voters {_shown(voter_set(view))}{_since(view)}"
        for view in [reference, *stale]
    ]
    for view in stale:
        if view.node_id not in {key.voter_id for key in right}:
            evidence.append(
                f"node {view.node_id} is no voter there, but takes itself for one"
                if view.node_id in {key.voter_id for key in voter_set(view)}
                else f"node {view.node_id} is no voter"
            )
    ids = tuple(sorted(view.node_id for view in stale))
    setting = (
        f"Set controller.quorum.voters of {names(ids)} to what {names([reference.node_id])} has, then restart. Do not add voters to a static quorum by editing "
        "it: new ones hold nothing, and a majority of them could elect one of themselves."
        if is_static
        else f"Let {names(ids)} reach a voter of the newer set: put its address into controller.quorum.bootstrap.servers there and restart."
    )
    yield Cause(
        kind=CauseKind.STALE_VOTER_SET,
        nodes=ids,
        headline=f"{names(ids)} {'goes' if len(ids) == 1 else 'go'} by a stale voter set",
        evidence=tuple(evidence),
        advice=(setting,),
        is_blocking=not facts.has_leader or _are_needed(facts, set(ids)),
    )


def _is_stale(view: NodeView, reference: NodeView, right: tuple[VoterKey, ...], facts: Facts) -> bool:
    if view is reference or voter_set(view) == right or view.cluster_id != reference.cluster_id:
        return False
    if {key.voter_id for key in voter_set(view)} == {
        key.voter_id for key in right
    } and view.kraft_version != reference.kraft_version:
        return False  # the upgrade to kraft.version 1 is on its way to it
    if (
        view.role == FOLLOWER
        and facts.leader is not None
        and view.leader_id == facts.leader.node_id
        and view.epoch == facts.leader.epoch
        and view.kraft_version > 0
    ):
        return False  # it follows: the record is on its way
    return view.kraft_version == 0 or view.voter_set_offset <= reference.voter_set_offset


def wrong_listener(facts: Facts) -> Iterator[Cause]:
    """A node looks for a voter where that voter has no controller listener."""
    wrong: dict[tuple[int, str], list[int]] = {}
    why: dict[tuple[int, str], str] = {}
    for view in facts.views.values():
        for link in view.links:
            at = (link.peer_id, f"{link.host}:{link.port}")
            found = _listener_problem(
                facts, view, link.peer_id, link.host, link.port, link.failure if is_failing(link) else ""
            )
            if found is not None:
                wrong.setdefault(at, []).append(view.node_id)
                why[at] = found
        for voter in view.voters:
            for point in voter.end_points:
                said = _client_listener(facts, view, voter.voter_id, point.port)
                at = (voter.voter_id, f"{point.host}:{point.port}")
                if said is not None and view.node_id not in wrong.get(at, []):
                    wrong.setdefault(at, []).append(view.node_id)
                    why.setdefault(at, said)
    for (peer_id, address), askers in sorted(wrong.items()):
        peer = facts.views.get(peer_id)
        own = (
            []
            if peer is None
            else [f"{each.host}:{each.port}" for each in peer.own_end_points if each.is_for_controllers]
        )
        named = f"node {peer_id}" if peer_id >= 0 else "a bootstrap controller"
        yield Cause(
            kind=CauseKind.WRONG_LISTENER,
            nodes=tuple(sorted({*askers, *([peer_id] if peer_id >= 0 else [])})),
            headline=f"{names(askers)} {'looks' if len(askers) == 1 else 'look'} for {named} at {address}, which is the wrong listener",
            evidence=(
                f"{address}: {why[peer_id, address]}",
                *([f"node {peer_id} has its controller listener at {', '.join(own)}"] if own else []),
            ),
            advice=(
                f"Correct the address of {named} in controller.quorum.voters or controller.quorum.bootstrap.servers of {names(askers)}"
                f"{f', to {own[0]}' if own else ''}; with a dynamic quorum correct advertised.listeners of {named}. Then restart.",
            ),
            is_blocking=_are_needed(facts, {peer_id}) or _are_needed(facts, set(askers)),
        )


def _listener_problem(facts: Facts, view: NodeView, peer_id: int, host: str, port: int, failure: str) -> str | None:
    if failure == "UNSUPPORTED_VERSION":
        return "somebody answers there who does not speak the quorum's APIs, as the listener of a broker does"
    peer = facts.views.get(peer_id)
    if peer is None or peer.node_id == view.node_id or not failure or not peer.own_end_points:
        return None
    found = _client_listener(facts, view, peer_id, port)
    if found is not None:
        return f"{found} ({failure})"
    if all(each.port != port for each in peer.own_end_points):
        return f"node {peer_id} does not listen on port {port} ({failure})"
    return None


def _client_listener(facts: Facts, view: NodeView, peer_id: int, port: int) -> str | None:
    peer = facts.views.get(peer_id)
    if peer is None or peer.node_id == view.node_id:
        return None
    if any(each.port == port and each.is_for_controllers for each in peer.own_end_points):
        return None
    for each in peer.own_end_points:
        if each.port == port:
            return f"that is the listener {each.name} of node {peer_id}, for clients, not for controllers"
    return None


def not_founded(facts: Facts) -> Iterator[Cause]:
    """Controllers that were all formatted to join wait for a quorum that nobody founded (S4-19)."""
    controllers = [view for view in facts.views.values() if "controller" in view.process_roles]
    if not controllers or any(view.voters for view in facts.views.values()):
        return
    ids = tuple(sorted(view.node_id for view in controllers))
    yield Cause(
        kind=CauseKind.NOT_FOUNDED,
        nodes=ids,
        headline="nobody has founded this quorum: no node knows a voter",
        evidence=(
            f"{names(ids)} {'has' if len(ids) == 1 else 'have'} no voter set, in the log or in the configuration",
        ),
        advice=(
            "If this cluster is new: format one controller with --standalone (or all with the same --initial-controllers), start it, and let the others join it.",
            "If it ever had topics, do not: a second quorum knows nothing of them. Find the controllers whose directories hold its metadata, and start those.",
        ),
        is_blocking=True,
    )


def _are_needed(facts: Facts, node_ids: set[int]) -> bool:
    """Without these voters there is no majority among those that answer, and there is no progress."""
    if facts.has_leader and not facts.is_stalled:
        return False
    good = [each for each in facts.voter_ids if facts.is_reached(each) and each not in node_ids]
    return bool(node_ids & set(facts.voter_ids)) and len(good) < max(facts.majority, 1)


def _refusals(facts: Facts, node_id: int, code: ErrorCode) -> list[str]:
    return [
        f"node {view.node_id} was refused by node {link.peer_id}: {code.name}"
        for view in facts.views.values()
        for link in view.links
        if link.refusal_code == code and node_id in (view.node_id, link.peer_id)
    ]


def _shown(keys: tuple[VoterKey, ...]) -> str:
    return ", ".join(map(str, keys)) or "none"


def _since(view: NodeView) -> str:
    if view.kraft_version == 0:
        return " (static, from its configuration)"
    return f" (written at offset {view.voter_set_offset})" if view.voter_set_offset >= 0 else ""


def _peer(peer_id: int, host: str, port: int) -> str:
    return f"node {peer_id}" if peer_id >= 0 else f"{host}:{port}"
