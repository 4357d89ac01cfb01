"""Break streams into tables, fault after fault, and say what the tables held.

python -m tools.spark_chaos --faults worker,driver,broker --times 30 --nodes 1
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tools.spark_chaos.faults import LIVE, SPOILT, run_live, run_spoilt
from tools.spark_chaos.stage import TABLES, Stage


def main() -> int:
    """0 when each table was right each time. Ended by SIGTERM, it takes all that it started with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    parser = argparse.ArgumentParser(prog="python -m tools.spark_chaos", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--faults", default="", help=f"of {', '.join([*LIVE, *SPOILT])}, apart by commas; all when left out"
    )
    parser.add_argument(
        "--tables",
        default="",
        help=f"of {', '.join(TABLES)}: those that {', '.join(SPOILT)} are done to, in turn; all when left out",
    )
    parser.add_argument("--times", type=int, default=30, help="how often each")
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3), help="a single node, or three with copies")
    parser.add_argument("--seed", type=int, default=0, help="0 draws it")
    options = parser.parse_args()
    seed = options.seed or random.SystemRandom().randrange(1, 1_000_000)
    faults = [each for each in options.faults.split(",") if each] or [*LIVE, *SPOILT]
    if unknown := [each for each in faults if each not in {**LIVE, **SPOILT}]:
        print(f"{', '.join(unknown)}: a fault is one of {', '.join([*LIVE, *SPOILT])}", file=sys.stderr)
        return 2
    tables = [each for each in options.tables.split(",") if each] or list(TABLES)
    if unknown := [each for each in tables if each not in TABLES]:
        print(f"{', '.join(unknown)}: a table is one of {', '.join(TABLES)}", file=sys.stderr)
        return 2
    rng = random.Random(seed)
    directory = Path(tempfile.mkdtemp(prefix="headrace-spark-chaos-"))
    print(f"seed {seed}, {options.nodes} node{'s' if options.nodes > 1 else ''}, {directory}", flush=True)
    done = dict.fromkeys(faults, 0)
    with Stage(directory, nodes=options.nodes) as stage:
        if any(fault in LIVE for fault in faults):
            stage.start_queries()
        for number in range(options.times):
            for fault in faults:
                started = time.monotonic()
                said = (
                    run_live(stage, fault, rng)
                    if fault in LIVE
                    else run_spoilt(stage, fault, tables[number % len(tables)], number)
                )
                done[fault] += 1
                print(f"{fault:10} {number + 1:3}  {time.monotonic() - started:5.1f} s  {said}", flush=True)
    print("; ".join(f"{fault} {times} times" for fault, times in done.items()), "- all right")
    return 0


if __name__ == "__main__":
    sys.exit(main())
