"""The settings of a node of the quorum."""

from __future__ import annotations

from typing import Final

from headrace.core.ids import Uuid
from headrace.core.values import value_class
from headrace.raft.voters import SUPPORTED_KRAFT_VERSION, VoterEndPoint, VoterSet

FETCH_MAX_WAIT_MS: Final = 500
"""So long a follower lets the leader wait for something to answer, as Kafka's do."""


@value_class
class RaftConfig:
    """Who this node is in the quorum, and its limits. Times in ms, sizes in bytes; retention -1 = no limit.

    `voters` are those of `controller.quorum.voters`, none when the quorum is dynamic; what snapshot and log say comes first (S4-02).
    `bootstrap_servers` are (host, port) to ask when nobody else is known (S4-01). `end_points` are this node's controller listeners as it
    announces them; `listener` names the one that peers use. `is_controller`: it flushes before it fetches, and may be or become a voter;
    a broker only reads.
    """

    node_id: int
    directory_id: Uuid
    cluster_id: str
    voters: VoterSet
    end_points: tuple[VoterEndPoint, ...] = ()
    listener: str = "CONTROLLER"
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    is_controller: bool = True
    auto_join: bool = False
    min_kraft_version: int = SUPPORTED_KRAFT_VERSION[0]
    max_kraft_version: int = SUPPORTED_KRAFT_VERSION[1]
    append_linger_ms: int = 25
    election_timeout_ms: int = 1_000
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    retry_backoff_max_ms: int = 1_000
    fetch_max_wait_ms: int = FETCH_MAX_WAIT_MS
    elect_on_refused: bool = True
    elect_at_start: bool = True
    max_batch_bytes: int = 8_388_608
    fetch_max_bytes: int = 1_048_576
    snapshot_fetch_max_bytes: int = 1_048_576
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000
