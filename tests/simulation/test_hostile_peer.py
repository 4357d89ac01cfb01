"""A hostile peer sends forged packets to whole clusters: they keep every invariant and recover, and a node that believes it is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.raft.core import RaftCore
from headrace.sim.checkers import all_checkers
from headrace.sim.cluster import SimCluster
from headrace.sim.observation import InvariantBroken
from headrace.sim.outcome import RunKey
from tools.mutants.planting import Defect, Planting, planted

if TYPE_CHECKING:
    from collections.abc import Mapping

FORGED = {
    "vote", "begin", "end", "fetch", "fetch snapshot", "add voter", "remove voter", "update voter", "heartbeat", "registration",
    "alter partition", "unregister", "producer ids",
}  # fmt: skip


def run(seed: int, options: Mapping[str, object]) -> SimCluster:
    """One run of a quorum with hostile peers. Raises InvariantBroken."""
    key = RunKey(level="quorum", seed=seed, options={"seconds": 2, "voters": 3, "controllers": 4, **options})
    cluster = SimCluster(key.plan(), checkers=all_checkers())
    cluster.run()
    return cluster


def test_forged_packets_of_all_kinds_break_nothing() -> None:
    """promise:PR8, B-R20, inv:R21, R22, RL1: safety while they are sent, a leader and one image of all soon after."""
    sent: set[str] = set()
    for seed in (1, 2, 3, 4):
        cluster = run(seed, {"hostile_peers": 3, "faults": "none"})
        sent |= {name.partition(": ")[2] for name in cluster.markers.counts if name.startswith("forged packet: ")}
    assert sent == FORGED


def believes_any_epoch(planting: Planting) -> None:
    """The bound that no request is held to."""
    planting.replace(RaftCore, "furthest_epoch", lambda self: (1 << 31) - 1)


def test_a_node_that_believes_any_claimed_epoch_is_found_out() -> None:
    """promise:PR8: after one packet with the last epoch nobody can be elected."""
    defect = Defect(id="X0", what="any claimed epoch is believed", plant=believes_any_epoch)
    with planted(defect):
        assert any(is_broken(seed) for seed in range(1, 9))


def is_broken(seed: int) -> bool:
    """Whether the checkers find something in a run."""
    try:
        run(seed, {"hostile_peers": 3, "faults": "none"})
    except InvariantBroken:
        return True
    return False
