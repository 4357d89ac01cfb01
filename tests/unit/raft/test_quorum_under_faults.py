"""Does a quorum keep its promises while nodes crash, links break, and messages get lost?"""

from __future__ import annotations

import pytest

from tests.support.raft_chaos import Chaos
from tests.support.raft_cluster import dynamic_cluster, static_cluster


@pytest.mark.parametrize("seed", range(30))
def test_three_voters_under_random_faults(seed: int) -> None:
    """B-R22, inv:R1, inv:R6, inv:R8, fault:S4, fault:S26, fault:S29, fault:S50: nothing committed is lost, and service comes back."""
    chaos = Chaos(static_cluster(1, 2, 3, seed=seed, retention_bytes=400, snapshot_fetch_max_bytes=100), seed)
    chaos.run(40)
    chaos.settle()


@pytest.mark.parametrize("seed", range(8))
def test_five_voters_under_random_faults(seed: int) -> None:
    """B-R22, fault:S27: the same with five."""
    chaos = Chaos(static_cluster(1, 2, 3, 4, 5, seed=seed, retention_bytes=400), seed)
    chaos.run(40)
    chaos.settle()


@pytest.mark.parametrize("seed", range(12))
def test_voters_change_under_random_faults(seed: int) -> None:
    """B-R22, inv:R17, fault:S70: voters come and go, the leader too, while nodes crash and links break."""
    cluster = dynamic_cluster(1, 2, 3, observers=(4, 5), seed=seed, retention_bytes=400)
    chaos = Chaos(cluster, seed, changes_voters=True)
    chaos.run(40)
    chaos.settle()
