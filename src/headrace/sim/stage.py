"""What clients and faults may ask of the cluster that they work on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headrace.sim.limits import Limits
    from headrace.sim.markers import Markers
    from headrace.sim.node import SimNode
    from headrace.sim.plan import Plan
    from headrace.sim.world import World


class Stage(Protocol):
    """The cluster as clients and faults see it; `cluster.SimCluster` is the one there is."""

    plan: Plan
    limits: Limits
    world: World
    markers: Markers
    nodes: dict[int, SimNode]
    controllers: list[SimNode]
    is_healing: bool
    clients_rest: bool
    admins_rest: bool
    think_ms: int
    voter_change_ms: int
    fewest_voters: int

    def leader(self) -> SimNode | None:
        """The running node that leads the newest epoch."""

    def rack_of(self, node_id: int) -> str | None:
        """Where a node stands."""

    def start_later(self, node: SimNode, wait_ms: int) -> None:
        """The process is started again in a while."""

    def move_host(self, node: SimNode) -> None:
        """A node that is down has another address when it starts again."""

    def replace_disk(self, node: SimNode) -> None:
        """An empty disk with a new directory id."""
