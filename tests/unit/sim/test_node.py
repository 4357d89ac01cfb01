"""What does a simulated node say of its disk when its process dies in the middle of naming a file?"""

from __future__ import annotations

from headrace.sim.cluster import SimCluster
from headrace.sim.limits import Limits
from headrace.sim.markers import Markers
from headrace.sim.node_observer import METADATA_DIRECTORY
from headrace.sim.observation import ClusterView, SnapshotAppeared, Step
from headrace.sim.plan import Plan

BROKER = 101


class Appearances:
    """A checker that gathers the snapshots that the broker is said to show."""

    def __init__(self) -> None:
        self.seen: list[SnapshotAppeared] = []

    def begin(self, cluster: ClusterView, markers: Markers) -> None:
        """Nothing to prepare."""

    def on_step(self, step: Step) -> None:
        """Gather."""
        if step.node.node_id == BROKER:
            self.seen += [change for change in step.changes if isinstance(change, SnapshotAppeared)]

    def now_and_then(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def settled(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def at_end(self, cluster: ClusterView) -> None:
        """Nothing to judge."""

    def over(self, cluster: ClusterView) -> None:
        """See `Checker`."""


def test_a_snapshot_whose_name_a_power_cut_took_is_not_shown_later() -> None:
    """inv:R15 B-S02 fault:S52: power goes between the name and its sync, some names are lost, and the next process never tells of those."""
    appearances = Appearances()
    limits = Limits(metadata_log_max_record_bytes_between_snapshots=400)
    cluster = SimCluster(Plan(seed=3, brokers=1, limits=limits), checkers=[appearances])
    node = cluster.nodes[BROKER]
    disk, told = node.disk, node.disk.on_name
    named: list[str] = []
    is_lost: list[bool] = []

    def cut_behind_every_third(kind: str, name: str, target: str) -> None:
        told(kind, name, target)
        if kind == "rename" and target[:1].isdigit() and target.endswith(".checkpoint"):
            named.append(target)
            if len(named) % 3 == 0:
                node.dies_lossy = True
                disk.die_at_call = disk.calls + 1

    disk.on_name = cut_behind_every_third
    cluster.start()
    looked_at = 0
    for _ in range(3_000):
        cluster.run_for(10)
        if not node.is_up and len(named) > looked_at:
            looked_at = len(named)
            is_lost.append(not disk.exists(f"{METADATA_DIRECTORY}/{named[-1]}"))
        elif True in is_lost and len(named) > looked_at:
            break
    assert True in is_lost
    assert [shown.snapshot_id for shown in appearances.seen if not shown.data] == []
    assert appearances.seen
