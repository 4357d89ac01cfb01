"""Requests of the quorum node to its peers, and what their outcome tells besides the response."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.peers import Destination, SendFailure
from headrace.node.outbound import Channel, Outbound, Outcome
from headrace.raft import events as raft_events
from headrace.wire.messages.fetch import FetchRequest, FetchResponse
from headrace.wire.messages.fetch_snapshot import FetchSnapshotRequest

if TYPE_CHECKING:
    from headrace.config.node_config import NodeConfig
    from headrace.node.metadata_plane import MetadataPlane, PlaneEvent
    from headrace.raft.machine import RaftNode


class QuorumRequests:
    """Sends what the quorum node asks of its peers, and brings the outcomes back to it. Part of `node.machine`; pure.

    `take` is given each outcome as an event; then `metadata_fetched` is told when a good fetch was asked, in ms (S4-57).
    """

    def __init__(
        self,
        *,
        config: NodeConfig,
        plane: MetadataPlane,
        outbound: Outbound,
        now_ms: Callable[[], int],
        take: Callable[[PlaneEvent], None],
        metadata_fetched: Callable[[int], None],
    ) -> None:
        self._bootstrap_servers = config.controller_quorum_bootstrap_servers
        self._plane = plane
        self._outbound = outbound
        self._now_ms = now_ms
        self._take = take
        self._metadata_fetched = metadata_fetched

    @property
    def _raft(self) -> RaftNode:
        return self._plane.raft

    def ask(self, effect: raft_events.SendRaftRequest) -> None:
        """Send a request of the quorum node; fetches, which wait for news, have a connection of their own."""
        is_fetch = isinstance(effect.request, FetchRequest | FetchSnapshotRequest)
        channel = Channel.FETCHING if is_fetch else Channel.VOTING
        if self._may_stand_for_several(effect.to):
            channel = Channel.BOOTSTRAP
        sent_ms = self._now_ms()

        def came_back(outcome: Outcome) -> None:
            now_ms, correlation = self._now_ms(), effect.correlation
            if isinstance(outcome, SendFailure):
                event: PlaneEvent = raft_events.RaftRequestFailed(
                    correlation=correlation, failure=outcome, now_ms=now_ms
                )
            else:
                event = raft_events.RaftResponseArrived(
                    correlation=correlation,
                    response=outcome,  # type: ignore[arg-type]
                    now_ms=now_ms,
                )
            self._take(event)
            if self._holds_all_committed(outcome):
                self._metadata_fetched(sent_ms)

        self._outbound.send(effect.to, channel, effect.request, timeout_ms=effect.timeout_ms, then=came_back)

    def _holds_all_committed(self, outcome: Outcome) -> bool:
        """A fetch counts when its answer is good and nothing that it calls committed is missing here (S4-57)."""
        if not isinstance(outcome, FetchResponse) or outcome.error_code:
            return False
        partitions = [partition for topic in outcome.responses for partition in topic.partitions]
        committed = self._raft.high_watermark
        return bool(partitions) and all(not each.error_code and each.high_watermark <= committed for each in partitions)

    def _may_stand_for_several(self, to: Destination) -> bool:
        """Whether it is a bootstrap server that is no voter's own address: a balancer, perhaps."""
        if to.node_id < 0:
            return True
        if to[1:] not in self._bootstrap_servers:
            return False
        voters = self._raft.voters.voters
        return all((to.host, to.port) != (each.host, each.port) for voter in voters for each in voter.end_points)
