"""Where does the time of one change of metadata go, from the client's request to the last broker that knows it? (S4-63)

Nodes with a journal (`headrace.journal.file`) write every event with its time; clients, controllers and brokers of one machine
have one clock. So a change can be followed through all of them afterwards.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headrace.testing.cluster import Cluster
from tests.support.metadata_load import Changer, name_of

JOURNAL: Final = "headrace.journal.file"
PARTS: Final = (
    "asked: the client's request reaches the active controller",
    "decided and appended: records in the leader's log, sent to the followers",
    "first follower has them: on its disk, and the leader has heard so",
    "committed: on the disks of a majority, the high watermark moves",
    "answered: the reply is at the client",
)
BEHIND: Final = "applied: the last broker has the change (from the commit on)"
_APART_S = 0.03


@dataclass(frozen=True)
class Happened:
    """One event of a journal."""

    at_ms: int
    node_id: int
    kind: str
    content: dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """One change: the parts of its way in ms in the order of `PARTS`, the whole as the client saw it, and what came after."""

    parts: tuple[float, ...]
    end_to_end_ms: float
    applied_ms: float


def keep_journals(cluster: Cluster) -> None:
    """Let every node write a journal from its next start on."""
    for member in cluster.members.values():
        member.properties[JOURNAL] = str(member.directory / "journal")


def trace_changes(cluster: Cluster, count: int) -> list[Trace]:
    """Make changes one after the other on a started cluster, stop it, and read where the time of each went."""
    leader = cluster.leader()
    times: dict[int, tuple[float, float]] = {}
    with closing(Changer(cluster)) as changer:
        changer.change()
        while len(times) < count:
            time.sleep(_APART_S)
            sent = time.time() * 1000
            number = changer.attempt()
            if number is not None:
                times[number] = (sent, time.time() * 1000)
    cluster.stop()
    events = {
        each.node_id: list(read_journal(each.directory / "journal", each.node_id)) for each in cluster.members.values()
    }
    return [_trace(cluster, events, leader.node_id, number, *times[number]) for number in times]


def read_journal(path: Path, node_id: int) -> Iterator[Happened]:
    """The events of a journal."""
    for line in path.read_text().splitlines():
        event = json.loads(line).get("event")
        if event is not None:
            kind = event["object"].rpartition(":")[2]
            yield Happened(event["of"].get("now_ms", -1), node_id, kind, event["of"])


def _trace(
    cluster: Cluster, events: dict[int, list[Happened]], leader_id: int, number: int, sent: float, answered: float
) -> Trace:
    name = name_of(number)
    own = events[leader_id]
    start = next(
        index
        for index, each in enumerate(own)
        if each.kind == "RequestArrived" and name in _resources(each.content["request"])
    )
    arrived = own[start].at_ms
    flushed = next(each for each in own[start:] if each.kind == "LogFlushed")
    end = flushed.content["upto"]
    voters = {each.node_id for each in cluster.controllers}
    heard: dict[int, Happened] = {}
    for each in own[start:]:
        asked = _fetch(each)
        if asked is not None and asked[0] in voters and asked[1] >= end:
            heard.setdefault(asked[0], each)
    acknowledged, *more = heard.values()
    sent_on = next(
        (
            each.at_ms
            for node_id in sorted(voters - {leader_id})
            for each in events[node_id]
            if each.kind == "RaftResponseArrived" and arrived <= each.at_ms <= acknowledged.at_ms
        ),
        arrived,
    )
    # A majority of three: the leader's own disk and a follower, or both followers.
    committed = min(max(flushed.at_ms, acknowledged.at_ms), *(each.at_ms for each in more), float("inf"))
    marks = (sent, arrived, sent_on, acknowledged.at_ms, committed, answered)
    applied = max((_applied(events[each.node_id], end, committed) for each in cluster.brokers), default=committed)
    return Trace(
        tuple(later - earlier for earlier, later in itertools.pairwise(marks)), answered - sent, applied - committed
    )


def _resources(request: Any) -> Sequence[str]:
    found = request.get("of", {}).get("resources", [])
    return [each["of"].get("resource_name", "") for each in found]


def _fetch(event: Happened) -> tuple[int, int] | None:
    """Who fetched from where, if that is what happened."""
    request: dict[str, Any] = event.content.get("request") or {"object": ""}
    if event.kind != "RaftRequestArrived" or not request["object"].endswith(":FetchRequest"):
        return None
    of = request["of"]
    replica = of["replica_state"]["of"]["replica_id"]
    return replica, of["topics"][0]["of"]["partitions"][0]["of"]["fetch_offset"]


def _applied(events: Sequence[Happened], end: int, committed: float) -> float:
    """When a broker first heard that the high watermark is at `end`: it applies what is below in the same step."""
    for each in events:
        response: dict[str, Any] = each.content.get("response") or {"object": ""}
        if each.kind == "RaftResponseArrived" and response["object"].endswith(":FetchResponse"):
            for topic in response["of"]["responses"]:
                if topic["of"]["partitions"][0]["of"]["high_watermark"] >= end:
                    return each.at_ms
    return committed
