"""How is a function of the product replaced for a while?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from headrace.sim.faults import FaultKind
    from headrace.sim.plan import Plan


ABSENT: Final = object()
"""Stands for what was not there before."""


class Planting:
    """The replacements of one defect; `undo` puts everything back, the last one first."""

    def __init__(self) -> None:
        self.replaced: list[tuple[Any, str, Any]] = []
        """(owner, name, what was there) of each replacement."""

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Put `value` in the place of `owner.name`, which must be there; what was there."""
        held = owner.__dict__ if isinstance(owner, type) else vars(owner)
        honest = held[name]
        self.replaced.append((owner, name, honest))
        setattr(owner, name, value)
        return honest

    def add(self, owner: type, name: str, value: Any) -> None:
        """Put `value` where `owner` has nothing by this name."""
        assert name not in vars(owner), f"{owner.__name__}.{name} is there"
        self.replaced.append((owner, name, ABSENT))
        setattr(owner, name, value)

    def replace_everywhere(self, honest: Callable[..., Any], value: Callable[..., Any], *modules: Any) -> None:
        """Put `value` in the place of a function in each of the modules that use it by its name."""
        for module in modules:
            self.replace(module, honest.__name__, value)

    def undo(self) -> None:
        """As it was."""
        while self.replaced:
            owner, name, honest = self.replaced.pop()
            if honest is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, honest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One mistake: its id, what it is, how it is planted, and the level of the simulation where it shows.

    A run whose plan has none of the `faults` (any will do when there are none), no changes of voters when `changes_voters`, or fewer
    than `voters`, than `copies` of a partition (1: the runs have just one), or than `members` of groups, or that deletes no topic of clients when `ends_topics`, or decommissions no broker when `decommissions`, cannot show it: such a seed counts as one that did not find it, and is not run.
    One that only keeps what must become true from becoming so is looked for in runs to the end (`heals`).
    """

    id: str
    what: str
    plant: Callable[[Planting], None]
    level: str = "quorum"
    faults: frozenset[FaultKind] = frozenset()
    changes_voters: bool = False
    voters: int = 1
    copies: int = 0
    members: int = 0
    heals: bool = False
    ends_topics: bool = False
    decommissions: bool = False

    def may_show(self, plan: Plan) -> bool:
        """Whether a run of this plan can find it at all."""
        has_fault = not self.faults or any(fault.kind in self.faults for fault in plan.faults)
        is_large = plan.voters >= self.voters and plan.copies >= self.copies and plan.members >= self.members
        does_it = (plan.changes_voters or not self.changes_voters) and (plan.ends_topics or not self.ends_topics)
        return has_fault and is_large and does_it and (plan.decommissions or not self.decommissions)


@contextmanager
def planted(defect: Defect | None) -> Iterator[None]:
    """With the defect in the product; None plants nothing."""
    planting = Planting()
    try:
        if defect is not None:
            defect.plant(planting)
        yield
    finally:
        planting.undo()
