"""The runs that make up a suite, and what they must reach together."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.core.values import value_class
from headrace.sim.markers import Markers
from headrace.sim.outcome import Failure, RunKey, RunResult

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Part(NamedTuple):
    """`seeds` runs of one level, with consecutive seeds; `options` as of `RunKey`, where not the seed decides."""

    level: str
    seeds: int
    options: Mapping[str, int | str] = MappingProxyType({})


@value_class
class Suite:
    """Runs that belong together, how many steps they must make, and whether every required marker must be reached."""

    parts: tuple[Part, ...]
    least_steps: int = 0
    needs_markers: bool = True

    def keys(self, first_seed: int) -> Iterator[RunKey]:
        """All runs: the seeds of a level from `first_seed` on, each once."""
        begun: dict[str, int] = {}
        for part in self.parts:
            first = first_seed + begun.get(part.level, 0)
            begun[part.level] = begun.get(part.level, 0) + part.seeds
            for seed in range(first, first + part.seeds):
                yield RunKey(level=part.level, seed=seed, options=dict(part.options))


SUDDEN_ENDS: Final = "crash-step,crash-vote,crash-disk,kill"
"""Processes that die in the middle of a step, and next to nothing else: what these alone show is rare where faults of all kinds are mixed."""

SUITES: Final = {
    "ci": Suite(
        parts=(
            Part("quorum", 60),
            Part("quorum", 170, {"seconds": 3}),
            Part("quorum", 100, {"seconds": 3, "faults": SUDDEN_ENDS, "every_ms": 1_000}),
            Part("cluster", 15),
            Part("partitions", 45),
            Part("records", 45, {"copies": 1}),
            Part("records", 65),
        ),
        least_steps=2_000_000,
    ),
    "deep": Suite(
        parts=(
            Part("quorum", 10_000, {"seconds": 2}),
            Part("cluster", 300, {"seconds": 3}),
            Part("partitions", 300, {"seconds": 3}),
            Part("records", 500, {"copies": 1}),
            Part("records", 1_000),
        ),
        least_steps=20_000_000,
    ),
    "quick": Suite(
        parts=(Part("quorum", 40), Part("cluster", 6), Part("partitions", 4), Part("records", 8)), needs_markers=False
    ),
}
"""`ci` is `make sim`, `deep` is `make sim-deep`."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What many runs did together."""

    runs: int = 0
    steps: int = 0
    simulated_ms: int = 0
    markers: Markers = field(default_factory=Markers)
    failures: list[Failure] = field(default_factory=list)

    def add(self, result: RunResult) -> None:
        """One more run."""
        self.runs += 1
        self.steps += result.steps
        self.simulated_ms += result.simulated_ms
        self.markers.add(result.markers)
        if result.failure is not None:
            self.failures.append(result.failure)

    def shortfalls(self, suite: Suite) -> list[str]:
        """What the suite asks for and did not get, beside the failures."""
        found = []
        if self.steps < suite.least_steps:
            found.append(f"{self.steps:,} steps of {suite.least_steps:,}")
        if suite.needs_markers:
            found += [f"marker {name!r} reached {count} times" for name, count in self.markers.missing().items()]
        return found
