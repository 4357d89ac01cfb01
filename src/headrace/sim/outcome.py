"""The name of a run, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from headrace.core.values import value_class
from headrace.sim.faults import Fault
from headrace.sim.plan import Plan, draw_plan


@value_class
class RunKey:
    """All that a run follows from: the level, the seed, and what the caller set himself (`options`: values for `Plan`'s sizes and fault kinds)."""

    level: str
    seed: int
    options: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> Plan:
        """The plan of the run."""
        return draw_plan(self.level, self.seed, self.options)

    def command(self) -> str:
        """The one command that makes the run again."""
        words = [f"--{name.replace('_', '-')} {value}" for name, value in self.options.items()]
        return " ".join(["headrace sim", f"--level {self.level}", f"--seed {self.seed}", *words])


@value_class
class Failure:
    """A run that broke a line of the contract: which, where, who was involved, and what they did last."""

    key: RunKey
    invariant: str
    message: str
    step: int
    at_us: int
    nodes: tuple[int, ...]
    faults: tuple[Fault, ...]
    last_steps: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """For a failure file."""
        return {
            "format": 1,
            "level": self.key.level,
            "seed": self.key.seed,
            "options": dict(self.key.options),
            "invariant": self.invariant,
            "message": self.message,
            "step": self.step,
            "at_us": self.at_us,
            "nodes": list(self.nodes),
            "faults": [fault.as_json() for fault in self.faults],
            "last_steps": list(self.last_steps),
        }


@value_class
class RunResult:
    """What a run did. `simulated_ms` is its length on the virtual clock."""

    key: RunKey
    steps: int
    simulated_ms: int
    digest: str
    markers: Mapping[str, int]
    failure: Failure | None = None
