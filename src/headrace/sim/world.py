"""What all parts of one simulated cluster share."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from headrace.sim.clock import Schedule
from headrace.sim.markers import Markers
from headrace.sim.network import Network, NetworkQuality
from headrace.sim.observation import Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.sim.limits import Limits


class World:
    """Time, the network, the step at hand, and one stream of chance for each use, so that a new use does not change the others."""

    def __init__(self, *, seed: str, limits: Limits, quality: NetworkQuality) -> None:
        self.seed = seed
        self.limits = limits
        self.schedule = Schedule()
        self.network = Network(self.schedule, self.chance("network"), quality)
        self.disk_chance = self.chance("disk speed")
        self.step = Step()
        self.markers = Markers()
        self.steps = 0
        self.is_over = False
        """A line of the contract is broken: nobody takes another step, so that the report shows the one that broke it."""
        self.on_step: Callable[[], None] = lambda: None
        """Called when a step is over, with `step` filled."""
        self.on_death: Callable[[int, str], None] = lambda node_id, reason: None
        """Called when a process ended by itself, or at a point that a fault had set."""

    def chance(self, use: str) -> random.Random:
        """A stream of chance of its own. A text seeds it by its SHA-512, whatever the interpreter's hash seed."""
        return random.Random(f"{self.seed}/{use}")
