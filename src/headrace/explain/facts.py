"""What was found when every node that could be reached was asked about the quorum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from headrace.core.error_code import ErrorCode
from headrace.core.ids import ZERO_UUID, Uuid
from headrace.core.values import value_class
from headrace.wire.messages.describe_quorum import NodeLink, NodeView

STALLED_MS = 5_000
"""When records wait so long to be committed, something is wrong."""

FAILING_MS = 6_000
"""A link whose last failure is older is not in use, or works again: who needs it tries again within a few seconds."""
ALIVE_MS = 4_000
"""Who was heard, or answered, so short a time ago lives. A follower asks its leader twice a second at least."""

LEADER = "Leader"
FOLLOWER = "Follower"
CANDIDATES = ("Candidate", "Prospective")


@value_class
class Seen:
    """What came of asking at one address.

    `view` is there when a Headrace node answered. `failure` says why nobody did. A Kafka controller answers without a view: then
    `leader_id` and `epoch` are what it knows. `clock_ms` is its wall clock minus the asker's monotonic clock; None = not told.
    """

    address: str
    expected_id: int = -1
    view: NodeView | None = None
    failure: str = ""
    leader_id: int = -1
    epoch: int = -1
    high_watermark: int = -1
    clock_ms: int | None = None

    @property
    def is_reached(self) -> bool:
        """Somebody answered."""
        return not self.failure


@value_class(kw_only=False)
class VoterKey:
    """Id and directory of a voter; a zero directory stands for any."""

    voter_id: int
    directory_id: Uuid = ZERO_UUID

    def __str__(self) -> str:
        return (
            str(self.voter_id) if self.directory_id == ZERO_UUID else f"{self.voter_id} (directory {self.directory_id})"
        )


class Facts:
    """The answers, with what follows from them directly. Built once, read by the rules."""

    def __init__(self, seen: Iterable[Seen]) -> None:
        self.seen = tuple(seen)
        views = [each.view for each in self.seen if each.view is not None]
        self.views: dict[int, NodeView] = {view.node_id: self._without_detours(view) for view in views}
        """One view a node, by id, with the links that tell of the peer itself. Two nodes with one id are told by `twins`."""
        self.twins = sorted(
            {view.node_id for view in views if view.directory_id != self.views[view.node_id].directory_id}
        )
        self.leader = self._leader()
        self.reference = self._reference()
        self.voters = tuple(_keys(self.reference)) if self.reference is not None else ()
        self.voter_ids = tuple(key.voter_id for key in self.voters)

    def _without_detours(self, view: NodeView) -> NodeView:
        """A view less what came of asking for a peer at somebody else's address, a bootstrap server's (S4-17): it says nothing of the peer."""
        places = {(voter.voter_id, f"{point.host}:{point.port}") for voter in view.voters for point in voter.end_points}
        places |= {(each.view.node_id, each.address) for each in self.seen if each.view is not None}
        owners: dict[str, set[int]] = {}
        for node_id, address in places:
            owners.setdefault(address, set()).add(node_id)
        links = tuple(
            link for link in view.links if not _is_detour(link, owners.get(f"{link.host}:{link.port}", set()))
        )
        return view if len(links) == len(view.links) else replace(view, links=links)

    def _leader(self) -> NodeView | None:
        """The node that leads the newest epoch, as it says itself."""
        leaders = [view for view in self.views.values() if view.role == LEADER]
        return max(leaders, key=lambda view: (view.epoch, view.node_id), default=None)

    def _reference(self) -> NodeView | None:
        """Whose voter set counts: the leader's; else the newest in a log; else the one that most nodes have."""
        if self.leader is not None:
            return self.leader
        told = [view for view in self.views.values() if view.voters]
        if not told:
            return None
        counts = Counter(voter_set(view) for view in told)
        return max(told, key=lambda view: (view.voter_set_offset, counts[voter_set(view)], -view.node_id))

    @property
    def foreign_leader(self) -> Seen | None:
        """A leader that is no Headrace node, as it says itself."""
        known = [each for each in self.seen if each.view is None and each.is_reached and each.high_watermark >= 0]
        return max(known, key=lambda each: each.epoch, default=None)

    @property
    def followed(self) -> NodeView | None:
        """A voter that is served by a leader which we do not reach ourselves, when it and such others are a majority with it."""
        served = [
            view
            for view in self.views.values()
            if view.role == FOLLOWER
            and view.node_id in self.voter_ids
            and is_working(self.link(view.node_id, view.leader_id))
        ]
        counts = Counter((view.leader_id, view.epoch) for view in served)
        return next((view for view in served if counts[view.leader_id, view.epoch] + 1 >= self.majority), None)

    @property
    def has_leader(self) -> bool:
        """Somebody leads."""
        return self.leader is not None or self.foreign_leader is not None or self.followed is not None

    @property
    def is_stalled(self) -> bool:
        """There is a leader, but what it writes is not committed."""
        leader = self.leader
        if leader is None:
            return False
        return leader.high_watermark < leader.log_end_offset and leader.uncommitted_for_ms > STALLED_MS

    @property
    def majority(self) -> int:
        """How many voters must agree."""
        return len(self.voter_ids) // 2 + 1

    def addresses_of(self, node_id: int) -> list[str]:
        """Where we asked for a node, or found it."""
        return [
            each.address
            for each in self.seen
            if each.expected_id == node_id or (each.view is not None and each.view.node_id == node_id)
        ]

    def is_reached(self, node_id: int) -> bool:
        """The node answered, somewhere: with a view, or as a Kafka."""
        return node_id in self.views or any(
            each.is_reached and each.view is None and each.expected_id == node_id for each in self.seen
        )

    def failures_of(self, node_id: int) -> list[str]:
        """Why a node did not answer us, by address."""
        return [f"{each.address}: {each.failure}" for each in self.seen if each.expected_id == node_id and each.failure]

    def link(self, from_id: int, to_id: int) -> NodeLink | None:
        """What one node says of its way to another: the youngest news."""
        view = self.views.get(from_id)
        links = [] if view is None else [link for link in view.links if link.peer_id == to_id]
        return min(links, key=_news_age, default=None)

    def last_words(self, node_id: int) -> tuple[str, int, int] | None:
        """What a node said before it stopped: the words, their age in ms, and who heard them."""
        heard = [
            (link.last_words, link.last_words_age_ms, view.node_id)
            for view in self.views.values()
            for link in view.links
            if link.peer_id == node_id and link.last_words
        ]
        return min(heard, key=lambda each: each[1], default=None)


def _is_detour(link: NodeLink, owners: set[int]) -> bool:
    """Whether others than the peer are known to be at the link's address, or whoever is there said that it is another replica."""
    if link.peer_id < 0 or not link.host or link.peer_id in owners or link.failure == "UNSUPPORTED_VERSION":
        return False
    is_refused = link.refusal_code == ErrorCode.INVALID_VOTER_KEY and 0 <= link.refused_age_ms <= link.answered_age_ms
    return bool(owners) or is_refused


def _news_age(link: NodeLink) -> int:
    ages = [age for age in (link.answered_age_ms, link.failed_age_ms, link.refused_age_ms) if age >= 0]
    return min(ages, default=1 << 62)


def is_failing(link: NodeLink | None) -> bool:
    """Requests on this link go unanswered now: the last news is a failure, and it is young."""
    if link is None or not 0 <= link.failed_age_ms <= FAILING_MS:
        return False
    return link.answered_age_ms < 0 or link.failed_age_ms < link.answered_age_ms


def is_working(link: NodeLink | None) -> bool:
    """The last news on this link is an answer, and it is young."""
    return link is not None and 0 <= link.answered_age_ms <= ALIVE_MS and not is_failing(link)


def is_heard(link: NodeLink | None) -> bool:
    """The peer asked us something just now, and no request of ours to it failed since: it lives."""
    if link is None or not 0 <= link.heard_age_ms <= ALIVE_MS:
        return False
    return not 0 <= link.failed_age_ms < link.heard_age_ms


def voter_set(view: NodeView) -> tuple[VoterKey, ...]:
    """The voters that a node goes by, as a value to compare."""
    return tuple(_keys(view))


def _keys(view: NodeView) -> Iterable[VoterKey]:
    keys = (VoterKey(voter.voter_id, voter.directory_id) for voter in view.voters)
    return sorted(keys, key=lambda key: (key.voter_id, str(key.directory_id)))


def names(node_ids: Iterable[int]) -> str:
    """`node 1`, `nodes 1 and 3`, `nodes 1, 2 and 3`."""
    listed = [str(node_id) for node_id in sorted(node_ids)]
    if len(listed) == 1:
        return f"node {listed[0]}"
    return f"nodes {', '.join(listed[:-1])} and {listed[-1]}" if listed else "no node"


def span(ms: int) -> str:
    """A time span for a reader: `80 ms`, `3.2 s`, `5 min`, `2 h`."""
    size = abs(ms)
    if size < 1_000:
        return f"{size} ms"
    if size < 120_000:
        return f"{size / 1_000:.1f} s"
    if size < 7_170_000:
        return f"{round(size / 60_000)} min"
    return f"{round(size / 3_600_000)} h"


def size_of(count: int) -> str:
    """Bytes for a reader."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
