"""Several raft nodes on virtual time: messages take a while, get lost or cut; logs and election states survive or lose what was not synced.

A small harness for the tests of `headrace.raft`; whole nodes under many faults are `headrace.sim`.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

from headrace.core.ids import Uuid
from headrace.core.offsets import OffsetAndEpoch
from headrace.core.peers import Destination, SendFailure
from headrace.raft.config import RaftConfig
from headrace.raft.events import (
    AnswerRaftRequest,
    FinishSnapshot,
    FlushLog,
    HighWatermarkAdvanced,
    LeadershipClaimed,
    LoadSnapshot,
    LogFlushed,
    NodeStarted,
    QuorumState,
    QuorumStateStored,
    RaftEffect,
    RaftEvent,
    RaftRequestArrived,
    RaftRequestFailed,
    RaftResponseArrived,
    RecordsOffered,
    SendRaftRequest,
    SnapshotStored,
    StoreQuorumState,
    TimeAdvanced,
)
from headrace.raft.machine import RaftNode
from headrace.raft.roles import Leader
from headrace.raft.snapshots import build_snapshot, finish_download
from headrace.raft.voters import SUPPORTED_KRAFT_VERSION, Voter, VoterEndPoint, VoterSet, static_voters
from headrace.wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from headrace.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse, SupportedFeatureKey
from headrace.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from tests.support.memory_log import MemoryLog, MemorySnapshots
from tests.support.raft import CLUSTER_ID

if TYPE_CHECKING:
    from headrace.raft.events import OutboundRequest

API_VERSIONS = {"FetchRequest": 18, "VoteRequest": 2}
TOOL = -1


def directory_id(number: int) -> Uuid:
    """A directory id for each number."""
    return Uuid(number.to_bytes(16, "big"))


def end_point(node_id: int) -> VoterEndPoint:
    """Where a node listens."""
    return VoterEndPoint("CONTROLLER", f"host{node_id}", 9093)


def static(*node_ids: int) -> VoterSet:
    """The voters of `controller.quorum.voters`."""
    return static_voters({each: end_point(each)[1:] for each in node_ids}, "CONTROLLER")


class Member:
    """One node: what is on its disk, and the machine while it runs."""

    def __init__(self, config: RaftConfig) -> None:
        self.config = config
        self.log = MemoryLog()
        self.snapshots = MemorySnapshots()
        self.state = QuorumState()
        self.node: RaftNode | None = None
        self.run = 0
        self.claims: list[LeadershipClaimed] = []
        self.loaded: list[LoadSnapshot] = []
        self.committed = 0

    @property
    def raft(self) -> RaftNode:
        """The machine; the node runs."""
        assert self.node is not None, f"node {self.config.node_id} is down"
        return self.node


class RaftCluster:
    """Members by id, a clock, and the messages on their way."""

    def __init__(self, *configs: RaftConfig, seed: int = 1, delay_ms: tuple[int, int] = (1, 3)) -> None:
        self.rng = random.Random(seed)
        self.delay_ms = delay_ms
        self.now_ms = 1_000
        self.members = {config.node_id: Member(config) for config in configs}
        self.cut: set[tuple[int, int]] = set()
        self.loss = 0.0
        self.answers: dict[int, object] = {}
        self.sent: dict[str, int] = defaultdict(int)
        self._queue: list[tuple[int, int, tuple[object, ...]]] = []
        self._order = count()
        self._tokens = count(1)
        self._callers: dict[int, tuple[tuple[int, int, int], int]] = {}
        for node_id in self.members:
            self.start(node_id)

    # Nodes

    def start(self, node_id: int, **changes: object) -> None:
        """Start a node on what its disk holds."""
        member = self.members[node_id]
        member.config = replace(member.config, **changes)  # type: ignore[arg-type]
        member.run += 1
        member.snapshots.parts.clear()
        member.node = RaftNode(
            config=member.config,
            log=member.log.as_port(),
            snapshots=member.snapshots.as_port(),
            state=member.state,
            rng=random.Random(self.rng.random()),
        )
        member.committed = 0
        self.step(node_id, NodeStarted(now_ms=self.now_ms))

    def add(self, config: RaftConfig) -> None:
        """One more node."""
        self.members[config.node_id] = Member(config)
        self.start(config.node_id)

    def stop(self, node_id: int, *, is_lossy: bool = False) -> None:
        """kill -9; with `is_lossy` what was not synced is gone."""
        member = self.members[node_id]
        member.node = None
        for token, (key, target) in list(self._callers.items()):
            if target == node_id:
                del self._callers[token]
                self._later(1, "failed", *key, SendFailure.DISCONNECTED)
        if is_lossy:
            member.log = member.log.crash()
        else:
            member.log.high_watermark = member.log.log_start_offset

    def isolate(self, node_id: int) -> None:
        """Cut it from everybody, both ways, without a word."""
        for other in self.members:
            self.cut |= {(node_id, other), (other, node_id)}

    def heal(self) -> None:
        """Every link works again."""
        self.cut.clear()

    # Time

    def run_for(self, ms: int) -> None:
        """Let everything happen that is due within `ms`."""
        until = self.now_ms + ms
        while True:
            at = self._next_ms()
            if at is None or at > until:
                break
            self.now_ms = max(self.now_ms, at)
            self._do_due()
        self.now_ms = until

    def run_until(self, is_done: object, *, within_ms: int = 60_000) -> None:
        """Let time pass until `is_done()` holds."""
        until = self.now_ms + within_ms
        assert callable(is_done)
        while not is_done():
            at = self._next_ms()
            assert at is not None, "nothing will ever happen again"
            assert at <= until, f"not within {within_ms} ms: {self.shown()}"
            self.now_ms = max(self.now_ms, at)
            self._do_due()

    def _next_ms(self) -> int | None:
        times = [self._queue[0][0]] if self._queue else []
        for member in self.members.values():
            if member.node is not None and (deadline := member.node.next_deadline_ms()) is not None:
                times.append(deadline)
        return min(times, default=None)

    def _do_due(self) -> None:
        while self._queue and self._queue[0][0] <= self.now_ms:
            _, _, (action, *rest) = heapq.heappop(self._queue)
            getattr(self, f"_{action}")(*rest)
        for node_id, member in self.members.items():
            if member.node is not None:
                deadline = member.node.next_deadline_ms()
                if deadline is not None and deadline <= self.now_ms:
                    self.step(node_id, TimeAdvanced(now_ms=self.now_ms))
                    later = member.node.next_deadline_ms()
                    assert later is None or later > self.now_ms, f"node {node_id} does not go on: {self.shown()}"

    # Steps and effects

    def step(self, node_id: int, event: RaftEvent) -> None:
        """One event, and its effects."""
        for effect in self.members[node_id].raft.step(event):
            self._effect(node_id, effect)
        self.check()

    def _effect(self, node_id: int, effect: RaftEffect) -> None:
        member = self.members[node_id]
        match effect:
            case StoreQuorumState(state=state):
                self._later(1, "stored", node_id, member.run, state)
            case FlushLog():
                self._later(1, "flushed", node_id, member.run, member.log.log_end_offset)
            case SendRaftRequest():
                self._send(node_id, effect)
            case AnswerRaftRequest(token=token, response=response):
                self._answer(node_id, token, response)
            case FinishSnapshot(snapshot_id=snapshot_id):
                is_sound = finish_download(member.snapshots, snapshot_id)
                self._later(
                    1,
                    "event",
                    node_id,
                    member.run,
                    SnapshotStored(snapshot_id=snapshot_id, is_sound=is_sound, now_ms=0),
                )
            case LoadSnapshot():
                member.loaded.append(effect)
                member.committed = effect.snapshot_id.offset
            case HighWatermarkAdvanced(to=to):
                assert to >= member.committed
                member.committed = to
            case LeadershipClaimed():
                member.claims.append(effect)
            case _:
                pass

    def _later(self, ms: int, *action: object) -> None:
        heapq.heappush(self._queue, (self.now_ms + ms, next(self._order), action))

    def _is_same_run(self, node_id: int, run: int) -> bool:
        member = self.members[node_id]
        return member.node is not None and member.run == run

    def _stored(self, node_id: int, run: int, state: QuorumState) -> None:
        if self._is_same_run(node_id, run):
            self.members[node_id].state = state
            self.step(node_id, QuorumStateStored(state=state, now_ms=self.now_ms))

    def _flushed(self, node_id: int, run: int, upto: int) -> None:
        if self._is_same_run(node_id, run):
            log = self.members[node_id].log
            log.durable_end_offset = max(log.durable_end_offset, min(upto, log.log_end_offset))
            self.step(node_id, LogFlushed(upto=upto, now_ms=self.now_ms))

    def _event(self, node_id: int, run: int, event: RaftEvent) -> None:
        if self._is_same_run(node_id, run):
            self.step(node_id, replace(event, now_ms=self.now_ms))

    # The network

    def _send(self, source: int, effect: SendRaftRequest) -> None:
        member = self.members[source]
        self.sent[type(effect.request).__name__] += 1
        target = self._target(effect.to)
        key = (source, member.run, effect.correlation)
        delay = self.rng.randint(*self.delay_ms)
        if target is None or self.members[target].node is None:
            self._later(delay, "failed", *key, SendFailure.REFUSED)
        elif (source, target) in self.cut or self.rng.random() < self.loss:
            self._later(effect.timeout_ms, "failed", *key, SendFailure.TIMED_OUT)
        else:
            self._later(delay, "arrive", target, self.members[target].run, effect.request, key)
            self._later(effect.timeout_ms, "failed", *key, SendFailure.TIMED_OUT)

    def _target(self, to: Destination) -> int | None:
        for node_id, member in self.members.items():
            if any((each.host, each.port) == (to.host, to.port) for each in member.config.end_points):
                return node_id
        return None

    def _arrive(self, target: int, run: int, request: OutboundRequest, key: tuple[int, int, int]) -> None:
        if not self._is_same_run(target, run):
            self._later(1, "failed", *key, SendFailure.DISCONNECTED)
            return
        if isinstance(request, ApiVersionsRequest):
            config = self.members[target].config
            feature = SupportedFeatureKey(
                name="kraft.version", min_version=config.min_kraft_version, max_version=config.max_kraft_version
            )
            self._later(1, "respond", *key, ApiVersionsResponse(supported_features=(feature,)))
            return
        token = next(self._tokens)
        self._callers[token] = (key, target)
        self._request(target, token, request)

    def _request(self, target: int, token: int, request: object) -> None:
        event = RaftRequestArrived(
            token=token,
            request=request,  # type: ignore[arg-type]
            api_version=API_VERSIONS.get(type(request).__name__, 1),
            listener="CONTROLLER",
            now_ms=self.now_ms,
        )
        self.step(target, event)

    def _answer(self, node_id: int, token: int, response: object) -> None:
        key, _ = self._callers.pop(token, (None, node_id))
        if key is None:
            self.answers[token] = response
        elif (node_id, key[0]) not in self.cut and self.rng.random() >= self.loss:
            self._later(self.rng.randint(*self.delay_ms), "respond", *key, response)

    def _respond(self, source: int, run: int, correlation: int, response: object) -> None:
        if self._is_same_run(source, run):
            self.step(
                source,
                RaftResponseArrived(correlation=correlation, response=response, now_ms=self.now_ms),  # type: ignore[arg-type]
            )

    def _failed(self, source: int, run: int, correlation: int, failure: SendFailure) -> None:
        if self._is_same_run(source, run):
            self.step(source, RaftRequestFailed(correlation=correlation, failure=failure, now_ms=self.now_ms))

    # What tests ask for

    def ask(self, node_id: int, request: object) -> int:
        """A tool asks; the token under which `answers` gets the answer."""
        token = next(self._tokens)
        self._request(node_id, token, request)
        return token

    def answer(self, node_id: int, request: object, *, within_ms: int = 40_000) -> Any:
        """A tool asks, and waits for its answer."""
        token = self.ask(node_id, request)
        self.run_until(lambda: token in self.answers, within_ms=within_ms)
        return self.answers[token]

    def leaders(self) -> list[int]:
        """Who leads and has committed a record of its epoch."""
        return [
            node_id
            for node_id, member in self.members.items()
            if member.node is not None and isinstance(member.node.role, Leader) and member.node.role.is_claimed
        ]

    def elect(self, *, within_ms: int = 30_000) -> int:
        """Let time pass until one node leads the newest epoch, and all that run and are reached know."""
        self.run_until(lambda: self._agreed() is not None, within_ms=within_ms)
        leader = self._agreed()
        assert leader is not None
        return leader

    def _agreed(self) -> int | None:
        running = [each.node for each in self.members.values() if each.node is not None]
        newest = max(node.epoch for node in running)
        for node_id in self.leaders():
            if self.members[node_id].raft.epoch == newest:
                return node_id
        return None

    def offer(self, node_id: int, *records: bytes) -> int:
        """The controller there offers records; the offset behind them."""
        node = self.members[node_id].raft
        base = node.next_offset
        self.step(node_id, RecordsOffered(records=records, base_offset=base, epoch=node.epoch, now_ms=self.now_ms))
        return base + len(records)

    def run_committed(self, end: int, *node_ids: int, within_ms: int = 30_000) -> None:
        """Until everybody, or those named, has committed everything below `end`."""
        wanted = node_ids or tuple(each for each, member in self.members.items() if member.node is not None)
        self.run_until(lambda: all(self.members[each].committed >= end for each in wanted), within_ms=within_ms)

    def shown(self) -> str:
        """All roles, for a failure."""
        return "; ".join(
            f"{node_id}: {type(member.node.role).__name__} {member.node.epoch} end {member.log.log_end_offset} hw {member.committed}"
            if member.node is not None
            else f"{node_id}: down"
            for node_id, member in self.members.items()
        )

    # The promises, after each step

    def check(self) -> None:
        """R1: one leader an epoch; R6: equal logs below everybody's commit."""
        leading: dict[int, int] = {}
        for node_id, member in self.members.items():
            if member.node is not None and isinstance(member.node.role, Leader):
                other = leading.setdefault(member.node.epoch, node_id)
                assert other == node_id, f"epoch {member.node.epoch} is led by {other} and {node_id} (R1)"

    def check_logs(self) -> None:
        """R8: what two nodes both committed is the same."""
        chosen: dict[int, bytes] = {}
        for member in self.members.values():
            for base, end, _, data in member.log.batches:
                if end <= member.committed:
                    assert chosen.setdefault(base, data) == data, f"two histories at offset {base} (R8)"


def config(node_id: int, voters: VoterSet, **changes: object) -> RaftConfig:
    """A node's settings: the product's defaults but for who it is."""
    made = RaftConfig(
        node_id=node_id,
        directory_id=directory_id(node_id),
        cluster_id=CLUSTER_ID,
        voters=voters,
        end_points=(end_point(node_id),),
        min_kraft_version=SUPPORTED_KRAFT_VERSION[0],
        max_kraft_version=SUPPORTED_KRAFT_VERSION[1],
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def static_cluster(*node_ids: int, seed: int = 1, **changes: Any) -> RaftCluster:
    """Nodes of a static quorum, all voters."""
    voters = static(*node_ids)
    return RaftCluster(*(config(each, voters, **changes) for each in node_ids), seed=seed)


def dynamic_config(node_id: int, *servers: int, **changes: object) -> RaftConfig:
    """A node that learns the voters from the log, and whom to ask from `controller.quorum.bootstrap.servers`."""
    addresses = tuple((end_point(each).host, end_point(each).port) for each in servers)
    return config(node_id, VoterSet(), bootstrap_servers=addresses, **changes)


def own_voter_of(member_config: RaftConfig) -> Voter:
    """The node as a voter of a dynamic quorum."""
    return Voter(
        voter_id=member_config.node_id,
        directory_id=member_config.directory_id,
        end_points=member_config.end_points,
        min_kraft_version=member_config.min_kraft_version,
        max_kraft_version=member_config.max_kraft_version,
    )


def dynamic_cluster(*voter_ids: int, observers: tuple[int, ...] = (), seed: int = 1, **changes: object) -> RaftCluster:
    """A quorum of kraft.version 1, formatted with these first voters; the others were formatted without."""
    configs = [dynamic_config(each, *voter_ids, **changes) for each in (*voter_ids, *observers)]
    cluster = RaftCluster(seed=seed)
    voters = VoterSet(voters=tuple(own_voter_of(each) for each in configs[: len(voter_ids)]), kraft_version=1)
    for each in configs:
        member = cluster.members[each.node_id] = Member(each)
        if each.node_id in voter_ids:
            zero = OffsetAndEpoch(0, 0)
            batches = build_snapshot(
                (), snapshot_id=zero, last_contained_log_timestamp=0, now_ms=cluster.now_ms, voters=voters
            )
            member.snapshots.put(zero, b"".join(bytes(batch) for batch in batches))
        cluster.start(each.node_id)
    return cluster


def add_voter(member_config: RaftConfig, **changes: object) -> AddRaftVoterRequest:
    """What `kafka-metadata-quorum add-controller` asks."""
    wanted: dict[str, object] = {
        "cluster_id": CLUSTER_ID,
        "timeout_ms": 30_000,
        "voter_id": member_config.node_id,
        "voter_directory_id": member_config.directory_id,
        "listeners": tuple(Listener(name=e.name, host=e.host, port=e.port) for e in member_config.end_points),
    }
    return AddRaftVoterRequest(**{**wanted, **changes})  # type: ignore[arg-type]


def remove_voter(node_id: int, **changes: object) -> RemoveRaftVoterRequest:
    """What `kafka-metadata-quorum remove-controller` asks."""
    wanted: dict[str, object] = {
        "cluster_id": CLUSTER_ID,
        "voter_id": node_id,
        "voter_directory_id": directory_id(node_id),
    }
    return RemoveRaftVoterRequest(**{**wanted, **changes})  # type: ignore[arg-type]
