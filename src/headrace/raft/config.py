"""Who is this node in the quorum, and within which limits does it work?"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.ids import Uuid
from headrace.raft.voters import VoterEndPoint, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """Who this node is in the quorum, and its limits. Times in ms, sizes in bytes; retention -1 = no limit.

    `write_voters`: only the local 0-0 snapshot names the voters yet, so the first leader writes them into the log (KIP-853).
    """

    node_id: int
    directory_id: Uuid
    cluster_id: str
    voters: VoterSet
    end_points: tuple[VoterEndPoint, ...] = ()
    write_voters: bool = False
    append_linger_ms: int = 25
    election_timeout_ms: int = 1_000
    max_batch_bytes: int = 8_388_608
    fetch_max_bytes: int = 1_048_576
    retention_bytes: int = 104_857_600
    retention_ms: int = 604_800_000
