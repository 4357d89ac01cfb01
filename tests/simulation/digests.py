"""Print the full trace digests of some runs: `python -m tests.simulation.digests FIRST COUNT`. For comparing two processes."""

from __future__ import annotations

import sys

from headrace.sim.cluster import SimCluster
from headrace.sim.observation import InvariantBroken
from headrace.sim.outcome import RunKey

MS = 2_500


def main() -> None:
    """One line a run: level, seed, steps, digest; the first seconds of each, with its faults."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        level = {0: "cluster", 1: "records", 3: "partitions", 4: "partitions"}.get(seed % 8, "quorum")
        cluster = SimCluster(RunKey(level=level, seed=seed, options={"seconds": 2}).plan())
        cluster.trace.is_full = True
        try:
            cluster.start()
            cluster.run_until(MS)
        except InvariantBroken as broken:
            sys.stdout.write(f"{broken} ")
        sys.stdout.write(f"{level} {seed} {cluster.world.steps} {cluster.trace.digest()}\n")


if __name__ == "__main__":
    main()
