"""Do three voters elect a leader, replicate, commit, and go on when one is lost?"""

from __future__ import annotations

import pytest

from headrace.raft.roles import Follower
from tests.support.raft_cluster import static_cluster


@pytest.mark.parametrize("seed", range(20))
def test_three_voters_elect_replicate_and_fail_over(seed: int) -> None:
    """B-R05, B-R09, B-R12, B-R13: one leader, every record committed on all; the next leader has them, and goes on."""
    cluster = static_cluster(1, 2, 3, seed=seed)
    leader = cluster.elect()
    assert cluster.now_ms < 2_000
    end = cluster.offer(leader, b"one", b"two")
    cluster.run_committed(end)
    cluster.stop(leader)
    next_leader = cluster.elect()
    assert next_leader != leader
    end = cluster.offer(next_leader, b"three")
    cluster.run_committed(end)
    cluster.start(leader)
    cluster.run_committed(end)
    assert isinstance(cluster.members[leader].raft.role, Follower)
    cluster.check_logs()
