"""Break clusters of real processes, mix after mix, and say what clients would have noticed."""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import tools.chaos as package
from headrace.sim.anomalies.judge import summary
from tools.chaos.plan import EIGHT, MIXES, draw
from tools.chaos.run import IN_SYNC_WITHIN_S, Result, cannot, run

HOW_MANY = (3, 4, 5)
FEWEST_SECONDS = 5


def main() -> int:
    """0 when no run showed an anomaly. Ended by SIGTERM, it takes all that it started with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = parsed()
    seed = options.seed or random.SystemRandom().randrange(1, 1_000_000)
    mixes = [each for each in options.mixes.split(",") if each] or list(EIGHT)
    if unknown := [each for each in mixes if each not in MIXES]:
        print(f"{', '.join(unknown)}: a mix is one of {', '.join(MIXES)}", file=sys.stderr)
        return 2
    print(f"seed {seed}", flush=True)
    failed = left_out = 0
    for number in range(options.rounds):
        for mix in mixes:
            if reason := cannot(mix):
                print(f"{mix:10} left out: {reason}", flush=True)
                left_out += 1
            else:
                failed += not _one(mix, seed + number, options)
    runs = options.rounds * len(mixes) - left_out
    print(f"{runs} run{'' if runs == 1 else 's'}, {failed} of them bad, {left_out} left out")
    return 1 if failed or not runs else 0


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; another command line ends the process with exit code 2."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=package.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--mixes", default="", help=f"of {', '.join(MIXES)}, apart by commas; all but calm when left out"
    )
    parser.add_argument("--seconds", type=float, default=60, help="how long faults go on in each run")
    parser.add_argument("--seed", type=int, default=0, help="of the first round; the next has the next one; 0 draws it")
    parser.add_argument("--rounds", type=int, default=1, help="how often each mix runs")
    parser.add_argument("--nodes", type=int, default=3, choices=HOW_MANY, help="each is broker and controller")
    parser.add_argument("--keep", action="store_true", help="histories and logs of good runs too")
    options = parser.parse_args(arguments)
    if not options.seconds >= FEWEST_SECONDS or options.rounds < 1:
        parser.error(f"--seconds is {FEWEST_SECONDS} or more, in which the clients can begin, and --rounds 1 or more")
    return options


def _one(mix: str, seed: int, options: argparse.Namespace) -> bool:
    """Run it, say what came of it; whether it was good."""
    directory = Path(tempfile.mkdtemp(prefix=f"headrace-chaos-{mix}-"))
    plan = draw(mix, seed=seed, seconds=options.seconds)
    began = time.monotonic()
    try:
        result = run(plan, directory, nodes=options.nodes)
    except Exception:  # noqa: BLE001 - the other runs go on; this one counts as bad
        print(f"{mix:10} seed {seed}: could not be run to its end", flush=True)
        traceback.print_exc(file=sys.stdout)
        _tell_where(mix, seed, directory, options)
        return False
    print(f"{mix:10} {_told(result)}, {time.monotonic() - began:.0f} s in all", flush=True)
    if result.is_good:
        if not options.keep:
            shutil.rmtree(directory, ignore_errors=True)
        return True
    for line in (*result.wrong, *summary(result.anomalies)):
        print(f"    {line}")
    _tell_where(mix, seed, directory, options)
    return False


def _tell_where(mix: str, seed: int, directory: Path, options: argparse.Namespace) -> None:
    print(f"    the histories and logs are in {directory}; again:")
    print(
        f"    python -m tools.chaos --mixes {mix} --seed {seed} --seconds {options.seconds:g} --nodes {options.nodes}",
        flush=True,
    )


def _told(result: Result) -> str:
    late = result.in_sync_after_s
    again = "never in sync" if late is None else f"in sync after {late:.1f} s"
    if late is not None and late > IN_SYNC_WITHIN_S:
        again += f" (more than {IN_SYNC_WITHIN_S:.0f})"
    return (
        f"seed {result.plan.seed}: {len(result.faults)} faults and repairs, {result.history.calls} calls, "
        f"{result.acknowledged} acknowledged of {len(result.history.sends)} records, {again}, "
        f"{len(result.anomalies)} anomalies"
    )


if __name__ == "__main__":
    sys.exit(main())
