"""How is a function of the product replaced for a while?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


class Planting:
    """The replacements of one defect; `undo` puts everything back, the last one first."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, value: Any) -> Any:
        """Put `value` in the place of `owner.name`, which must be there; what was there."""
        held = owner.__dict__ if isinstance(owner, type) else vars(owner)
        honest = held[name]
        self._undo.append((owner, name, honest))
        setattr(owner, name, value)
        return honest

    def replace_everywhere(self, honest: Callable[..., Any], value: Callable[..., Any], *modules: Any) -> None:
        """Put `value` in the place of a function in each of the modules that use it by its name."""
        for module in modules:
            self.replace(module, honest.__name__, value)

    def undo(self) -> None:
        """As it was."""
        while self._undo:
            owner, name, honest = self._undo.pop()
            setattr(owner, name, honest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """One mistake: its id, what it is, how it is planted, and where it shows: the level of the simulation, or the crash points."""

    id: str
    what: str
    plant: Callable[[Planting], None]
    level: str = "quorum"


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
