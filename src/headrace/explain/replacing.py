"""Advice on how a voter gets a new directory without losing what was acknowledged.

A voter that starts on an emptied directory under its old key is the same voter without its votes and its log: it can elect, together with one
that is behind, a leader that lacks acknowledged changes (Raft 5.4; KIP-853 has directory ids for this very reason).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headrace.core.ids import ZERO_UUID
from headrace.explain.facts import FOLLOWER, names

if TYPE_CHECKING:
    from headrace.explain.facts import Facts
    from headrace.wire.messages.describe_quorum import NodeView


def replace_directory(facts: Facts, node_id: int) -> tuple[str, ...]:
    """The steps that give one node a new directory, for the kind of quorum that it is of."""
    if node_id not in facts.voter_ids:
        return (f"Node {node_id} is no voter: stop it, keep its directory aside, format an empty one and start it.",)
    directories = [key.directory_id for key in facts.voters if key.voter_id == node_id]
    if directories[0] == ZERO_UUID:
        return _replace_static(facts, node_id)
    return _replace_dynamic(facts, node_id, str(directories[0]))


def _replace_dynamic(facts: Facts, node_id: int, directory_id: str) -> tuple[str, ...]:
    cluster_id = next((view.cluster_id for view in facts.views.values()), "CLUSTER-ID")
    return (
        f"Stop node {node_id}, and remove it from the voters: `headrace quorum remove-controller -i {node_id} -d {directory_id}`"
        f"{'' if facts.has_leader else '; this needs a leader, so bring back enough other voters first'}.",
        f"Keep its directory aside, format an empty one: `headrace storage format -t {cluster_id} --no-initial-controllers -c <its server.properties>` "
        "(which gives it a new directory id), and start it. When it has caught up: "
        "`headrace quorum --command-config <its server.properties> add-controller`.",
        f"Never start it on an emptied directory as the voter that it was: without its votes and its log {_loss()}.",
    )


def _replace_static(facts: Facts, node_id: int) -> tuple[str, ...]:
    others = [each for each in facts.voter_ids if each != node_id]
    open_points = list(_not_yet_safe(facts, others))
    now = f"That is not so now: {'; '.join(open_points)}." if open_points else "That is so now."
    return (
        f"The voters of a static quorum have no directory ids: node {node_id} on an empty directory is the same voter without its votes and its log, "
        f"and {_loss()}.",
        f"So empty it only while every other voter ({names(others)}) is up, follows one leader and holds all of its log, and let none of them stop until "
        f"node {node_id} has fetched everything. {now}",
        f"Then: stop node {node_id}, keep its directory aside, format an empty one with the same cluster id, start it.",
    )


def _loss() -> str:
    return "acknowledged changes can be lost"


def _not_yet_safe(facts: Facts, others: list[int]) -> Iterator[str]:
    leader = facts.leader
    if leader is None or leader.node_id not in others:
        yield "none of them leads" if others else "there is no other voter"
        return
    for voter_id in others:
        view = facts.views.get(voter_id)
        if view is None:
            yield f"node {voter_id} does not answer"
        elif view is not leader and not _follows(view, leader):
            yield f"node {voter_id} is {view.role} in epoch {view.epoch}"
        elif view.durable_end_offset < leader.high_watermark:
            yield f"node {voter_id} has the log up to {view.durable_end_offset} of {leader.high_watermark}"


def _follows(view: NodeView, leader: NodeView) -> bool:
    return view.role == FOLLOWER and (view.leader_id, view.epoch) == (leader.node_id, leader.epoch)
