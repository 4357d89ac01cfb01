"""What this node has seen of the others, of its own disk and of its clock, for `headrace quorum explain`.

`QuorumWitness` observes the quorum node: it is shown each raft event with its effects, and keeps a few facts about each peer.
It changes nothing and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core.error_code import ErrorCode
from headrace.core.peers import SendFailure
from headrace.raft.events import (
    AnswerRaftRequest,
    FlushLog,
    HighWatermarkAdvanced,
    LogFlushed,
    QuorumStateStored,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    SendRaftRequest,
    StoreQuorumState,
)
from headrace.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from headrace.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from headrace.wire.messages.fetch import FetchRequest
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest
from headrace.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from headrace.wire.messages.vote import VoteRequest

NEVER = -1
MAX_LINKS = 256
CLOCK_STEP_MS = 1_000
"""A wall clock that moved so much more or less than the monotonic one has jumped."""

_USUAL = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
"""Answers of a quorum at work; any other code is worth telling."""
_AVERAGED = 3
"""About so many of the last syncs make the average: a disk that becomes slow is told soon."""


@dataclass(slots=True, kw_only=True)
class Link:
    """What is known of a peer at one address, or of one that asked us (no address). Moments are monotonic ms, `NEVER` = not yet."""

    peer_id: int
    host: str = ""
    port: int = -1
    answered_ms: int = NEVER
    failed_ms: int = NEVER
    failing_since_ms: int = NEVER
    failure: str = ""
    refused_ms: int = NEVER
    refusal_code: int = 0
    refused_api: int = 0
    heard_ms: int = NEVER
    told_ms: int = NEVER
    told_code: int = 0
    told_api: int = 0
    log_end_offset: int = -1
    fetched_ms: int = NEVER
    last_words: str = ""
    last_words_ms: int = NEVER


@dataclass(slots=True, kw_only=True)
class Flushes:
    """How long syncs took: last, average of the latest, longest, all in ms; `began_ms` of one that runs."""

    count: int = 0
    last_ms: int = NEVER
    average_ms: float = -1.0
    max_ms: int = NEVER
    began_ms: int = NEVER

    def began(self, now_ms: int) -> None:
        """A sync was ordered; one that runs already counts from its own beginning."""
        if self.began_ms < 0:
            self.began_ms = now_ms

    def ended(self, now_ms: int) -> None:
        """The sync is done."""
        if self.began_ms < 0:
            return
        took, self.began_ms = now_ms - self.began_ms, NEVER
        self.count += 1
        self.last_ms, self.max_ms = took, max(self.max_ms, took)
        self.average_ms = (
            took if self.average_ms < 0 else self.average_ms + (took - self.average_ms) / min(self.count, _AVERAGED)
        )


class QuorumWitness:
    """Observes; read by `node.self_view`. Driven by the metadata plane (`saw`) and the node's tick (`looked_at_clocks`)."""

    def __init__(self) -> None:
        self.links: dict[tuple[int, str, int], Link] = {}
        self.flushes = Flushes()
        self.state_stores = Flushes()
        self.uncommitted_since_ms = NEVER
        """Since when something behind the high watermark waits without the high watermark moving."""
        self.problem = ""
        self.disk_failure = ""
        self.disk_failed_ms = NEVER
        self.clock_jump_ms = 0
        self.clock_jumped_ms = NEVER
        self._clock_lead_ms: int | None = None
        self._asked: dict[int, tuple[Link, int]] = {}
        self._asking: dict[int, tuple[int, int]] = {}
        self._on_event: dict[type, Callable[[Any, int], None]] = {
            RaftResponseArrived: self._answered,
            RaftRequestFailed: self._failed,
            RaftRequestArrived: self._heard,
            LogFlushed: lambda _, now_ms: self.flushes.ended(now_ms),
            QuorumStateStored: lambda _, now_ms: self.state_stores.ended(now_ms),
        }
        self._on_effect: dict[type, Callable[[Any, int], None]] = {
            SendRaftRequest: self._asks,
            AnswerRaftRequest: self._told,
            FlushLog: self._flushes,
            StoreQuorumState: lambda _, now_ms: self.state_stores.began(now_ms),
            HighWatermarkAdvanced: self._commits,
        }

    # What the quorum node does

    def saw(self, event: object, effects: Sequence[object], now_ms: int) -> None:
        """A step of the quorum node."""
        handle = self._on_event.get(type(event))
        if handle is not None:
            handle(event, now_ms)
        for effect in effects:
            handle = self._on_effect.get(type(effect))
            if handle is not None:
                handle(effect, now_ms)

    def _asks(self, effect: SendRaftRequest, _: int) -> None:
        link = self._link(effect.to.node_id, effect.to.host, effect.to.port)
        self._asked[effect.correlation] = (link, effect.request.SCHEMA.api_key)

    def _flushes(self, _: FlushLog, now_ms: int) -> None:
        self.flushes.began(now_ms)
        if self.uncommitted_since_ms < 0:
            self.uncommitted_since_ms = now_ms

    def _commits(self, _: HighWatermarkAdvanced, now_ms: int) -> None:
        self.uncommitted_since_ms = now_ms if self.flushes.began_ms >= 0 else NEVER

    def _link(self, peer_id: int, host: str = "", port: int = -1) -> Link:
        key = (peer_id, host, port)
        link = self.links.get(key)
        if link is None:
            if len(self.links) >= MAX_LINKS:
                del self.links[next(iter(self.links))]
            link = self.links[key] = Link(peer_id=peer_id, host=host, port=port)
        return link

    def _answered(self, event: RaftResponseArrived, now_ms: int) -> None:
        link, api = self._asked.pop(event.correlation, (None, 0))
        if link is None:
            return
        link.answered_ms, link.failing_since_ms = now_ms, NEVER
        code = error_in(event.response)
        if code not in _USUAL:
            link.refused_ms, link.refusal_code, link.refused_api = now_ms, code, api

    def _failed(self, event: RaftRequestFailed, now_ms: int) -> None:
        link, _ = self._asked.pop(event.correlation, (None, 0))
        if link is None:
            return
        if link.failing_since_ms < 0:
            link.failing_since_ms = now_ms
        link.failed_ms, link.failure = now_ms, event.failure.name

    def _heard(self, event: RaftRequestArrived, now_ms: int) -> None:
        request = event.request
        peer_id = asker_of(request)
        if peer_id < 0:
            return
        link = self._link(peer_id)
        link.heard_ms = now_ms
        if isinstance(request, FetchRequest):
            link.fetched_ms = now_ms
            link.log_end_offset = request.topics[0].partitions[0].fetch_offset
        self._asking[event.token] = (peer_id, request.SCHEMA.api_key)

    def _told(self, effect: AnswerRaftRequest, now_ms: int) -> None:
        peer_id, api = self._asking.pop(effect.token, (-1, 0))
        if peer_id < 0:
            return
        code = error_in(effect.response)
        if code not in _USUAL:
            link = self._link(peer_id)
            link.told_ms, link.told_code, link.told_api = now_ms, code, api

    # What else is seen

    def heard_last_words(self, node_id: int, words: str, now_ms: int) -> None:
        """A peer that stops for a fault of its own says which."""
        link = self._link(node_id)
        link.last_words, link.last_words_ms = words[:2_000], now_ms

    def looked_at_clocks(self, *, wall_ms: int, now_ms: int) -> None:
        """Called now and then: whether the wall clock runs as the monotonic one does."""
        lead = wall_ms - now_ms
        before, self._clock_lead_ms = self._clock_lead_ms, lead
        if before is not None and abs(lead - before) >= CLOCK_STEP_MS:
            self.clock_jump_ms, self.clock_jumped_ms = lead - before, now_ms

    def failing_links(self) -> list[str]:
        """The addresses of the quorum that do not answer, or refuse what this node asks, and how."""
        return sorted(
            f"{link.host}:{link.port} {trouble}"
            for link in self.links.values()
            if link.host and (trouble := _trouble_of(link))
        )

    def disk_failed(self, reason: str, now_ms: int) -> None:
        """A disk refused to do its work."""
        self.disk_failure, self.disk_failed_ms = reason, now_ms


def _trouble_of(link: Link) -> str:
    if link.failing_since_ms >= 0:
        return SendFailure[link.failure].value
    if link.refused_ms < 0 or link.refused_ms < link.answered_ms:
        return ""
    name = ErrorCode.known(link.refusal_code).name
    if link.refusal_code == ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"is of another cluster than this node's directory ({name})"
    return f"answered {name}"


def asker_of(request: object) -> int:
    """Which node of the quorum sends this request; -1 for a tool, or when it does not say."""
    match request:
        case VoteRequest():
            return next((part.replica_id for topic in request.topics for part in topic.partitions), -1)
        case BeginQuorumEpochRequest() | EndQuorumEpochRequest():
            return next((part.leader_id for topic in request.topics for part in topic.partitions), -1)
        case FetchRequest():
            if not request.topics or not request.topics[0].partitions:
                return -1
            return request.replica_state.replica_id if request.replica_state.replica_id >= 0 else request.replica_id
        case FetchSnapshotRequest():
            return request.replica_id
        case UpdateRaftVoterRequest():
            return request.voter_id
        case _:
            return -1


def error_in(response: object) -> int:
    """The error code of an answer: of the whole, else of its first partition."""
    code: int = getattr(response, "error_code", 0)
    if code:
        return code
    topics: Iterable[object] = getattr(response, "topics", None) or getattr(response, "responses", None) or ()
    for topic in topics:
        for part in getattr(topic, "partitions", ()):
            found: int = getattr(part, "error_code", 0)
            return found
    return 0
