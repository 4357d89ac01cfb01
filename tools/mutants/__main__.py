"""Hunt every planted defect and say at which seed it was found."""

from __future__ import annotations

import argparse
import sys
import time

from tools.mutants.hunt import DEFECTS, hunt


def main() -> int:
    """0 when every defect was found within the seeds."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="ids, apart by commas; all when left out")
    parser.add_argument("--seeds", type=int, default=500, help="how many seeds to try for each")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    options = parser.parse_args()
    wanted = {each for each in options.only.split(",") if each}
    missed, early = [], 0
    for defect in DEFECTS:
        if wanted and defect.id not in wanted:
            continue
        began = time.monotonic()
        found = hunt(defect, range(options.first, options.first + options.seeds))
        took = time.monotonic() - began
        if found is None:
            missed.append(defect.id)
            print(f"{defect.id:4} NOT FOUND within {options.seeds} seeds ({took:.0f} s): {defect.what}", flush=True)
            continue
        early += found.seed - options.first < 50
        print(f"{defect.id:4} seed {found.seed:4} step {found.step:6} by {found.by:16} {took:5.1f} s  {defect.what}")
        print(f"     {found.message[:150]}", flush=True)
    print(f"{early} within 50 seeds; not found: {', '.join(missed) or 'none'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
