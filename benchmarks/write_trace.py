"""Where does the time of one change of metadata go? Three controllers and a broker on loopback, a table of parts (S4-63).

``python -m benchmarks.write_trace [--changes 50]``. Read out of the nodes' journals, which cost a little time themselves; times are wall
clock of one machine, in whole milliseconds inside of the nodes. The parts of a change add up to what its client saw.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from headrace.testing.cluster import Cluster
from tests.support.write_trace import BEHIND, PARTS, keep_journals, trace_changes


def main(arguments: Sequence[str]) -> None:
    """The program of this file's docstring."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--changes", type=int, default=50)
    options = parser.parse_args(arguments)
    cluster = Cluster(controllers=3, brokers=1)
    keep_journals(cluster)
    with cluster:
        traces = trace_changes(cluster, options.changes)
    table = Table(title=f"One change of metadata, {len(traces)} times, in ms")
    for name in ("part", "median", "p99", "mean"):
        table.add_column(name, justify="left" if name == "part" else "right")
    rows = [(part, [trace.parts[index] for trace in traces]) for index, part in enumerate(PARTS)]
    rows.append(("end to end, as the client saw it", [trace.end_to_end_ms for trace in traces]))
    rows.append((BEHIND, [trace.applied_ms for trace in traces]))
    for name, values in rows:
        p99 = sorted(values)[min(len(values) - 1, int(0.99 * len(values)))]
        table.add_row(name, f"{statistics.median(values):.1f}", f"{p99:.1f}", f"{statistics.mean(values):.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
