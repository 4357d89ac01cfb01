"""A one-voter raft node on a log in memory, and a driver that does its effects at once or step by step."""

from __future__ import annotations

import random
from dataclasses import replace

from headrace.core.ids import Uuid
from headrace.raft.config import RaftConfig
from headrace.raft.events import (
    FlushLog,
    LogFlushed,
    NodeStarted,
    QuorumState,
    QuorumStateStored,
    RaftEffect,
    RaftEvent,
    StoreQuorumState,
)
from headrace.raft.machine import RaftNode
from headrace.raft.voters import VoterEndPoint, VoterSet, static_voters
from tests.support.memory_log import MemoryLog, MemorySnapshots

CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
DIRECTORY_ID = Uuid.parse("3Od2q4aoOmnSt_9sU_GFKA")
OTHER_DIRECTORY_ID = Uuid.parse("mrw8ev-XTbmV2xqxbxIeKQ")
STATIC = static_voters({1: ("127.0.0.1", 9093)}, "CONTROLLER")
CONFIG = RaftConfig(
    node_id=1,
    directory_id=DIRECTORY_ID,
    cluster_id=CLUSTER_ID,
    voters=STATIC,
    end_points=(VoterEndPoint("CONTROLLER", "127.0.0.1", 9093),),
)


class RaftBench:
    """The node, its log, its stored quorum state, and the effects that nobody did yet."""

    def __init__(
        self,
        *,
        log: MemoryLog | None = None,
        state: QuorumState | None = None,
        snapshots: MemorySnapshots | None = None,
        voters: VoterSet = STATIC,
        **changes: int | bool,
    ) -> None:
        self.log = log or MemoryLog()
        self.snapshots = snapshots or MemorySnapshots()
        self.state = state or QuorumState()
        config = replace(CONFIG, voters=voters, **changes)  # type: ignore[arg-type]
        self.node = RaftNode(
            config=config,
            log=self.log.as_port(),
            snapshots=self.snapshots.as_port(),
            state=self.state,
            rng=random.Random(1),
        )
        self.now_ms = 1_000

    def step(self, event: RaftEvent) -> list[RaftEffect]:
        """One event."""
        return self.node.step(event)

    def store(self, effect: StoreQuorumState) -> list[RaftEffect]:
        """The driver stored a quorum state."""
        self.state = effect.state
        return self.step(QuorumStateStored(state=effect.state, now_ms=self.now_ms))

    def flush(self) -> list[RaftEffect]:
        """The driver flushed the log."""
        return self.step(LogFlushed(upto=self.log.flush(), now_ms=self.now_ms))

    def run(self, event: RaftEvent) -> list[RaftEffect]:
        """One event, and everything the driver does because of it; all effects in the order in which they came."""
        seen: list[RaftEffect] = []
        todo = self.step(event)
        while todo:
            effect = todo.pop(0)
            seen.append(effect)
            if isinstance(effect, StoreQuorumState):
                todo = self.store(effect) + todo
            elif isinstance(effect, FlushLog):
                todo = todo + self.flush()
        return seen

    def start(self) -> list[RaftEffect]:
        """Start, and become leader."""
        return self.run(NodeStarted(now_ms=self.now_ms))
