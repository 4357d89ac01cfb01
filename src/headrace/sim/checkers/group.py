"""A group of invariants, and what it is told.

`watcher.Watcher` tells the ghost of a step first, then each group, and only what the group asked for: so a step that changes nothing costs
next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from headrace.sim.checkers.ghost import Ghost
from headrace.sim.checkers.promises import Place, Promise
from headrace.sim.clock import WALL_START_MS
from headrace.sim.markers import Markers
from headrace.sim.observation import InvariantBroken, Step, StepKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from headrace.raft.roles import Role
    from headrace.sim.checkers.committed_log import Replayed
    from headrace.sim.checkers.ghost import Life
    from headrace.sim.observation import ClusterView, MachineStep

    Handler = Callable[[Life, Any], None]


_PRODUCER_EXPIRATION_MS: Final = 86_400_000
"""`producer.id.expiration.ms` of every node: its default, a day. A run takes seconds, by clients' clocks, which are right."""


@dataclass(slots=True, eq=False)
class Scene:
    """What all groups look at; `step` is the one at hand."""

    ghost: Ghost = field(default_factory=Ghost)
    markers: Markers = field(default_factory=Markers)
    cluster: ClusterView | None = None
    step: Step = field(default_factory=Step)
    promises: dict[Place, Promise] = field(default_factory=dict)
    """Of partitions with several copies, and of those of the offsets topic that groups use."""

    def may_have_forgotten_producers(self, node_ids: Iterable[int]) -> bool:
        """Whether one of these nodes had a clock so far ahead that it expired what it knew of producers: what they send again is stored again, as by Kafka."""
        cluster = self.cluster
        latest_ms = WALL_START_MS + _PRODUCER_EXPIRATION_MS
        return cluster is not None and any(cluster.latest_wall_ms(each) >= latest_ms for each in node_ids)


class Group:
    """Some invariants that look at the same things. A subclass overrides what it needs."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ghost = scene.ghost

    # What it wants to hear of: change class -> handler, called before or after the ghost took the change

    def before_changes(self) -> Mapping[type, Handler]:
        """Handlers that compare a change with what was."""
        return {}

    def after_changes(self) -> Mapping[type, Handler]:
        """Handlers that judge what is."""
        return {}

    def machine_events(self) -> Mapping[type, Handler]:
        """Event class of a machine -> handler of its `MachineStep`s."""
        return {}

    def machine_effects(self) -> Mapping[type, Handler]:
        """Effect class of a machine -> handler of such effects."""
        return {}

    def began(self, life: Life) -> None:
        """A process started; its disk is known to the ghost."""

    def ended(self, life: Life, kind: StepKind) -> None:
        """A process crashed or stopped."""

    def role_changed(self, life: Life, before: Role | None, after: Role) -> None:
        """`life.role` still is `before`; in the first step of a process `before` is None."""

    def high_watermark_changed(self, life: Life, before: int, after: int) -> None:
        """-1 = none yet."""

    def committed(self, replayed: Replayed) -> None:
        """One more batch is committed in truth."""

    def called(self, event: object) -> None:
        """A client's call began or ended."""

    def now_and_then(self, cluster: ClusterView) -> None:
        """Every 1,000 steps and at the end."""

    def settled(self, cluster: ClusterView) -> None:
        """After healing, while partitions are still led and nobody asks for anything new."""

    def at_end(self, cluster: ClusterView) -> None:
        """After healing."""

    def over(self, cluster: ClusterView) -> None:
        """Once, when all that was to become true has: what is to be looked at as a whole."""

    # For subclasses

    def broken(self, invariant: str, message: str, *lives: Life) -> InvariantBroken:
        """What to raise."""
        return InvariantBroken(invariant, message, nodes=tuple(life.node_id for life in lives))

    def hit(self, marker: str, times: int = 1) -> None:
        """A rare state was reached."""
        self.scene.markers.hit(marker, times)

    def machine_step_of(self, kind: type) -> MachineStep | None:
        """The first event of this class that a machine took in this step."""
        for each in self.scene.step.machines:
            if type(each.event) is kind:
                return each
        return None
